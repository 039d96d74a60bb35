"""Collision avoidance: rows that keep pairs of shapes apart.

With d and J the distances of the nearest pairs and their derivatives, a step Δ of the joints keeps

    J Δ ≥ −γ (d − d_min)                                                                             (1)

the velocity damper [FT87]: pairs come closer by at most the share γ of what is left, and those that are too close part
by the same share. (1) is linear: a step along a curved surface ends below d_min by its curvature, and then

    c = d(q ⊕ Δ) − d − J Δ          J Δ ≥ −γ (d − d_min) − c                                          (2)

takes that into account. Controllers of accelerations a keep

    J a + J̇v ≥ −2κ ḋ − κ² (d − d_min)                                                                 (3)

the law of joint limits (`kernels.limits`): pairs come to rest at d_min as a critically damped spring does, if they are
not too fast, ḋ ≥ −κ (d − d_min), and commands are held for less than 0.58/κ. For those that are too fast, such as pairs
that come within reach at speed, κ is larger: −ḋ/(d − d_min), so that they still come to rest at d_min, but at most
`_STIFFEST` times the rate that is given. Pairs that are too close part slowly, with at most κ·`_RETURN`/2: nothing is
thrown back that starts far inside.

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
from kinetree.model.distances import taken
from kinetree.model.model import Model
from kinetree.runtime.bound import standard_arithmetic
from kinetree.runtime.function import compiled
from kinetree.runtime.matrix_products import dots
from kinetree.spatial.value import Array

#: By how much a step may end below the distance that is kept before (2) corrects it [m].
_UNDERSHOOT = 1e-4
#: The most that (3) sees of what is lacking to d_min [m].
_RETURN = 1e-3
#: By how much κ may grow.
_STIFFEST = 5.0
#: Rows of which no entry is larger cannot be moved [m].
_UNMOVED = 1e-9


@dataclass(frozen=True)
class Avoid:
    """Pairs of shapes that a controller keeps apart.

    Attributes:
        pairs: From `robot.collision_pairs`; with `scene=`, surroundings take part.
        distance: The distance d_min that pairs keep [m].
        within: Pairs that are nearer than this take part [m].
        rows: How many of them, the nearest ones; the others are not looked at.
        rate: Rate κ at which controllers of accelerations let pairs come to rest at that distance [1/s]; commands
            should follow each other within 0.5/κ. `DifferentialIK` and `inverse_kinematics` do not use it.
    """

    pairs: CollisionPairs
    distance: float = 0.02
    within: float = 0.15
    rows: int = 12
    rate: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.pairs, CollisionPairs):
            raise InputError(f"avoid: pairs come from robot.collision_pairs(…), got {type(self.pairs).__name__}")
        nonnegative("avoid: distance", self.distance)
        if not nonnegative("avoid: within", self.within) > self.distance:
            raise InputError(f"avoid: within={self.within!r} must be more than distance={self.distance!r}")
        if isinstance(self.rows, bool) or not hasattr(self.rows, "__index__") or self.rows < 1:
            raise InputError(f"avoid: rows={self.rows!r} is the number of pairs that take part, an integer from 1 on")
        if not nonnegative("avoid: rate", self.rate) > 0.0:
            raise InputError(f"avoid: rate={self.rate!r} is a rate [1/s] and must be positive")

    @staticmethod
    def of(given: Any) -> Avoid | None:
        """What a controller was given: this, pairs alone, or None."""
        return given if given is None or isinstance(given, Avoid) else Avoid(given)


class AccelerationRows:
    """(3) of a robot.

    Attributes:
        count: Number of rows k.
    """

    def __init__(self, robot: Model, avoid: Avoid) -> None:
        self._robot, self._avoid = robot, avoid
        self.count = min(avoid.rows, len(avoid.pairs))

    @staticmethod
    def of(robot: Model, given: Any) -> AccelerationRows | None:
        """Those of what a controller was given; None without pairs."""
        avoid = Avoid.of(given)
        return None if avoid is None or not len(avoid.pairs) else AccelerationRows(robot, avoid)

    def __call__(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """J of the nearest pairs, (…, k, nv), lower bounds of J a, (…, k), and numbers of the pairs, (…, k).

        Bounds are minus `INFINITE` for pairs that take no part, or that nothing moves.
        """
        avoid, kappa = self._avoid, self._avoid.rate
        every, rate, drift = self._robot._distance_rates(q, v, avoid.pairs)
        near = every.nearest(self.count)
        J, index = near.jacobian, near.index
        rate, drift = (taken(x, index) for x in (rate, drift))
        with standard_arithmetic():
            left = near.distance - avoid.distance
            fast = np.clip(-rate / np.maximum(left, _RETURN), kappa, _STIFFEST * kappa)
            spring = np.where(left > 0.0, fast**2 * left, kappa**2 * np.maximum(left, -_RETURN))
            low = -2.0 * fast * rate - spring - drift  # (3)
            part = (near.distance < avoid.within) & (np.abs(J).max(axis=-1) > _UNMOVED)
        return J, np.where(part, low, -INFINITE), index

    def approaching(self, q: Array, v: Array) -> tuple[Array, Array]:
        """−J, (…, k, nv), and bounds of J a, (…, k, 3): lower ones, upper ones, which are none, and minus the lower."""
        J, low, _ = self(q, v)
        return -J, np.stack([low, np.full_like(low, INFINITE), -low], axis=-1)

    def name(self, number: int) -> str:
        """What a row is called."""
        first, second = self._avoid.pairs.names[number]
        return f"distance of {first!r} and {second!r}"


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
        after = robot._clearances(robot.integrate(q, step), pairs)
        return self._count(*near.arrays, twists, after, self._limits) > 0.0


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
        after = self._robot._clearances(self._robot.integrate(self._q, step), self._avoid.pairs)
        after = after[self._index] if step.ndim == 1 else np.take_along_axis(after, self._index, -1)
        kept = np.minimum(self._avoid.distance, self.distance) - _UNDERSHOOT
        return ((after < kept) & ~self._far).any(axis=-1), after

    def corrected(self, step: Array, after: Array) -> Array:
        """The bounds of (2), from a step and where it leaves pairs, (…, k)."""
        curved = after - self.distance - dots(self.J, step[..., None, :])
        return np.where(self._far, self.low, self.low - curved)
