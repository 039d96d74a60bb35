"""Collision avoidance: rows that keep pairs of shapes apart.

With d and J the distances of the nearest pairs and their derivatives, a step Δ of the joints keeps

    J Δ ≥ −γ (d − d_min)                                                                             (1)

the velocity damper [FT87]: pairs come closer by at most the share γ of what is left, and those that are too close part
by the same share. (1) is linear: a step along a curved surface ends below d_min by its curvature, and then

    c = d(q ⊕ Δ) − d − J Δ          J Δ ≥ −γ (d − d_min) − c                                          (2)

takes that into account.

[FT87] B. Faverjon, P. Tournassoud, "A local based approach for path planning of manipulators with a high number of
       degrees of freedom", ICRA 1987.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.control.goals import nonnegative
from kinetree.control.quadratic import INFINITE
from kinetree.errors import InputError
from kinetree.kernels.pair_distances import damper_check
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.model import Model
from kinetree.runtime.function import compiled
from kinetree.runtime.matrix_products import dots
from kinetree.spatial.value import Array

#: By how much a step may end below the distance that is kept before (2) corrects it [m].
_UNDERSHOOT = 1e-4


@dataclass(frozen=True)
class Avoid:
    """Pairs of shapes that a controller keeps apart.

    Attributes:
        pairs: From `robot.collision_pairs`; with `scene=`, surroundings take part.
        distance: The distance d_min that pairs keep [m].
        within: Pairs that are nearer than this take part [m].
        rows: How many of them, the nearest ones; the others are not looked at.
    """

    pairs: CollisionPairs
    distance: float = 0.02
    within: float = 0.15
    rows: int = 12

    def __post_init__(self) -> None:
        if not isinstance(self.pairs, CollisionPairs):
            raise InputError(f"avoid: pairs come from robot.collision_pairs(…), got {type(self.pairs).__name__}")
        nonnegative("avoid: distance", self.distance)
        if not nonnegative("avoid: within", self.within) > self.distance:
            raise InputError(f"avoid: within={self.within!r} must be more than distance={self.distance!r}")
        if isinstance(self.rows, bool) or not hasattr(self.rows, "__index__") or self.rows < 1:
            raise InputError(f"avoid: rows={self.rows!r} is the number of pairs that take part, an integer from 1 on")

    @staticmethod
    def of(given: Any) -> Avoid | None:
        """What a controller was given: this, pairs alone, or None."""
        return given if given is None or isinstance(given, Avoid) else Avoid(given)


class Avoidance:
    """Avoidance of a robot, with the share γ: which steps have to mind distances, and rows for these."""

    def __init__(self, robot: Model, avoid: Avoid, share: float) -> None:
        self._robot, self._avoid, self._pairs, self._share = robot, avoid, avoid.pairs, share
        self._bodies = [str(shape.body) for shape in avoid.pairs.shapes]
        self._limits = np.array([share, avoid.distance, _UNDERSHOOT, avoid.within])
        self._count = compiled(damper_check, p=len(avoid.pairs))

    def at(self, q: Array) -> AvoidanceRows:
        """The rows at some configurations."""
        return AvoidanceRows(self._robot, self._avoid, q, self._share)

    def broken(self, q: Array, step: Array) -> Any:
        """Whether a step breaks (1), or ends too close, for some pair within reach, (…) Booleans."""
        robot, pairs = self._robot, self._pairs
        near = robot.distances(q, pairs)
        twists = robot.velocity(q, step, self._bodies, "world").take(pairs.numbers, axis=-2)
        after = robot.distances(robot.integrate(q, step), pairs).distance
        return self._count(near.distance, near.normal, near.points, twists, after, self._limits) > 0.0


class AvoidanceRows:
    """(1) at some configurations.

    Attributes:
        distance: d of the nearest pairs, (…, k) [m].
        J: Its derivative by the velocities, (…, k, nv).
        low: Lower bounds of J Δ, (…, k); minus `INFINITE` for pairs that take no part.
    """

    def __init__(self, robot: Model, avoid: Avoid, q: Array, share: float) -> None:
        self._robot, self._avoid, self._q = robot, avoid, q
        near = robot.distances(q, avoid.pairs).nearest(min(avoid.rows, len(avoid.pairs)))
        self._index, self.distance, self.J = near.index, near.distance, near.jacobian
        self._far = ~(self.distance < avoid.within)
        self.low: Array = np.where(self._far, -INFINITE, -share * (self.distance - avoid.distance))

    def broken(self, step: Array) -> Any:
        """Whether a step breaks a row, (…) Booleans."""
        return (dots(self.J, step[..., None, :]) < self.low).any(axis=-1)

    def short(self, step: Array) -> tuple[Any, Array]:
        """Whether a step leaves pairs too close, (…) Booleans, and where it leaves them, (…, k) [m]."""
        after = self._robot.distances(self._robot.integrate(self._q, step), self._avoid.pairs).distance
        after = after[self._index] if step.ndim == 1 else np.take_along_axis(after, self._index, -1)
        kept = np.minimum(self._avoid.distance, self.distance) - _UNDERSHOOT
        return ((after < kept) & ~self._far).any(axis=-1), after

    def corrected(self, step: Array, after: Array) -> Array:
        """The bounds of (2), from a step and where it leaves pairs, (…, k)."""
        curved = after - self.distance - dots(self.J, step[..., None, :])
        return np.where(self._far, self.low, self.low - curved)
