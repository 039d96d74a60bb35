"""Forward against inverse dynamics: two algorithms with little in common that must undo each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: The residual may be this many times n·eps. Forces are compared, so that the condition of M does not enter.
SLACK = 16.0


@dataclass(frozen=True)
class Check:
    """A residual and what it must stay below.

    Attributes:
        residual: Worst joint force that does not come back, relative to the greatest one of its sample.
        tolerance: What rounding explains.
    """

    residual: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the residual is within tolerance; a residual of NaN is not."""
        return self.residual <= self.tolerance


def forward_against_inverse(robot: Model, q: Array, v: Array, tau: Array) -> Check:
    """Take joint forces to accelerations and back.

    Args:
        robot: The mechanism.
        q: Configurations, (batch, nq).
        v: Velocities, (batch, nv).
        tau: Joint forces, (batch, nv).
    """
    returned = robot.inverse_dynamics(q, v, robot.forward_dynamics(q, v, tau))
    scale = np.maximum(_peaks(tau), _peaks(robot.bias_forces(q, v)))
    residual = float((_peaks(returned - tau) / scale).max())
    return Check(residual, SLACK * robot.nv * float(np.finfo(np.float64).eps))


def _peaks(forces: Array) -> Array:
    """The greatest entry of each sample."""
    peaks: Array = np.abs(forces).max(axis=-1)
    return peaks
