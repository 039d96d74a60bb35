"""Forward against inverse dynamics: each undoes the other, by algorithms with little in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Bound on the error, in units of n·eps. Forces are compared, so the condition number of M does not enter.
SLACK = 16.0


@dataclass(frozen=True)
class Check:
    """An error and its bound.

    Attributes:
        residual: Worst relative error; NaN if a result is NaN.
        tolerance: Error that rounding can explain.
    """

    residual: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the residual is within tolerance; a residual of NaN is not."""
        return self.residual <= self.tolerance

    def worse(self, other: Check) -> Check:
        """Of two checks of the same thing, the one that fails or comes closer to failing."""
        return other if not other.passed or (self.passed and other.excess > self.excess) else self

    @property
    def excess(self) -> float:
        """The error in units of its bound."""
        return self.residual / self.tolerance


def forward_against_inverse(robot: Model, q: Array, v: Array, tau: Array) -> Check:
    """Map joint forces to accelerations and back; errors are relative to the largest force of each sample.

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
    """The largest entry of each sample."""
    peaks: Array = np.abs(forces).max(axis=-1)
    return peaks
