"""A solid box that moves freely: something to carry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinetree.errors import InputError
from kinetree.model.builder import Builder
from kinetree.model.model import Model


def box(size: Sequence[float], mass: float, name: str = "box") -> Model:
    """A homogeneous box with a floating joint, nv = 6, and its frame at the centre.

    Args:
        size: Edge lengths along x, y and z [m].
        mass: Mass [kg].
        name: Name of its body; its joint is named `<name>_joint`.
    """
    lengths = np.array(size, dtype=float)
    if lengths.shape != (3,) or not (np.isfinite(lengths).all() and (lengths > 0.0).all()):
        raise InputError(f"a box has three positive edges, size=(x, y, z) in metres; got {size!r}")
    a, b, c = (lengths**2).tolist()
    builder = Builder(name)
    inertia = np.diag([b + c, a + c, a + b]) * (mass / 12.0)
    builder.add_body(name, joint="floating", joint_name=f"{name}_joint", mass=mass, inertia=inertia)
    return builder.build()
