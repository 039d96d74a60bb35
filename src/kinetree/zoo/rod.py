"""Inertial parameters of a plausible link."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.fixed import length
from kinetree.spatial.inertia import spread


def thick_rod(mass: float, reach: Any) -> dict[str, Any]:
    """Mass, com and inertia, as arguments of `Builder.add_body`, of a rod from the link's origin to `reach` [m]."""
    reach = np.asarray(reach, dtype=float)
    thickness = 0.05 + 0.1 * float(length(reach))
    inertia = mass / 12.0 * spread(reach) + mass * thickness**2 / 6.0 * np.eye(3)
    return {"mass": mass, "com": reach / 2.0, "inertia": inertia}
