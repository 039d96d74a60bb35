"""Loop constraints inside a cluster: what must vanish, its derivative with respect to joint rates, and its drift.

All is expressed in the coordinates of the cluster's carrier, so that the carrier's own motion never enters. For
constraint functions φ(q) and joint rates q̇, φ̇ = K q̇ and φ̈ = K q̈ + k with the *drift* k = K̇ q̇.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from kinetree.model.follower import Follower
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross, skew


@dataclass(frozen=True)
class Inside:
    """The bodies of a cluster at a configuration; body −1 is the carrier.

    Attributes:
        up: Transform from the carrier to each body.
        S: Motion of each joint rate, (6,).
        below: The joint rates that move each body.
        x: Coordinates of each joint.
        first: The first rate of each joint.
        V: Velocity of each body relative to the carrier, if it moves.
        a: Its acceleration at zero joint accelerations.
        rates: Joint rates.
    """

    up: Sequence[Transform]
    S: Sequence[Array]
    below: Sequence[frozenset[int]]
    x: Sequence[Array]
    first: Sequence[int]
    V: Sequence[Motion] = ()
    a: Sequence[Motion] = ()
    rates: Any = ()

    def point(self, body: int, p: Array) -> Array:
        """Position of a point fixed to a body."""
        return p if body < 0 else self.up[body].r + self.up[body].E.T @ p

    def axes(self, body: int, columns: Array) -> Array:
        """Directions fixed to a body, as columns."""
        return columns if body < 0 else self.up[body].E.T @ columns

    def point_rates(self, body: int, x: Array) -> Array:
        """Velocity of a point per joint rate, (3, rates)."""
        return self._rows(body, lambda S: S[3:] + cross(S[:3], x))

    def turning_rates(self, body: int) -> Array:
        """Angular velocity of a body per joint rate, (3, rates)."""
        return self._rows(body, lambda S: S[:3])

    def _rows(self, body: int, column: Any) -> Array:
        none = np.zeros(3)
        moved = frozenset[int]() if body < 0 else self.below[body]
        return np.stack([column(S) if j in moved else none for j, S in enumerate(self.S)], axis=1)

    def angular(self, body: int) -> tuple[Array, Array]:
        """Angular velocity and acceleration of a body."""
        return (np.zeros(3), np.zeros(3)) if body < 0 else (self.V[body].angular, self.a[body].angular)

    def point_motion(self, body: int, x: Array) -> tuple[Array, Array]:
        """Velocity and acceleration of a point fixed to a body."""
        if body < 0:
            return np.zeros(3), np.zeros(3)
        V, a = self.V[body], self.a[body]
        u = V.linear + cross(V.angular, x)
        return u, a.linear + cross(a.angular, x) + cross(V.angular, u)


class Closure(Protocol):
    """A constraint between bodies or joints of a cluster, up to numbers that are constants."""

    @property
    def constants(self) -> int:
        """Number of constants."""

    @property
    def rows(self) -> int:
        """Number of constraint functions."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What its formulas depend on."""

    def residual(self, c: Array, at: Inside) -> Array:
        """φ, (rows,)."""

    def jacobian(self, c: Array, at: Inside) -> Array:
        """K, (rows, joint rates)."""

    def drift(self, c: Array, at: Inside) -> Array:
        """k, (rows,)."""


@dataclass(frozen=True)
class Connect:
    """A point of body a coincides with a point of body b: a ball joint. The constants are both points."""

    a: int
    b: int
    constants: ClassVar[int] = 6
    rows: ClassVar[int] = 3

    @property
    def key(self) -> tuple[Any, ...]:
        return "connect", self.a, self.b

    def residual(self, c: Array, at: Inside) -> Array:
        return at.point(self.a, c[:3]) - at.point(self.b, c[3:6])

    def jacobian(self, c: Array, at: Inside) -> Array:
        there, here = at.point(self.a, c[:3]), at.point(self.b, c[3:6])
        return at.point_rates(self.a, there) - at.point_rates(self.b, here)

    def drift(self, c: Array, at: Inside) -> Array:
        there, here = at.point(self.a, c[:3]), at.point(self.b, c[3:6])
        return at.point_motion(self.a, there)[1] - at.point_motion(self.b, here)[1]


@dataclass(frozen=True)
class Distance:
    """Two points at a fixed distance L: a massless rod. φ = ½ (|d|² − L²); the constants are the points and L."""

    a: int
    b: int
    constants: ClassVar[int] = 7
    rows: ClassVar[int] = 1

    @property
    def key(self) -> tuple[Any, ...]:
        return "distance", self.a, self.b

    def residual(self, c: Array, at: Inside) -> Array:
        d = at.point(self.a, c[:3]) - at.point(self.b, c[3:6])
        return np.array([0.5 * (d @ d - c[6] * c[6])])

    def jacobian(self, c: Array, at: Inside) -> Array:
        there, here = at.point(self.a, c[:3]), at.point(self.b, c[3:6])
        return np.array([(there - here) @ (at.point_rates(self.a, there) - at.point_rates(self.b, here))])

    def drift(self, c: Array, at: Inside) -> Array:
        there, here = at.point(self.a, c[:3]), at.point(self.b, c[3:6])
        (u, f), (v, g) = at.point_motion(self.a, there), at.point_motion(self.b, here)
        return np.array([(there - here) @ (f - g) + (u - v) @ (u - v)])


@dataclass(frozen=True)
class Hinge:
    """A connection that keeps an axis: two directions of body a are normal to the axis of body b.

    The constants are both points, the two directions, and the axis.
    """

    a: int
    b: int
    constants: ClassVar[int] = 15
    rows: ClassVar[int] = 5

    @property
    def key(self) -> tuple[Any, ...]:
        return "hinge", self.a, self.b

    def _axes(self, c: Array, at: Inside) -> tuple[Array, Array, Array]:
        normals = at.axes(self.a, c[6:12].reshape(2, 3).T)
        return normals[:, 0], normals[:, 1], at.axes(self.b, c[12:15])

    def residual(self, c: Array, at: Inside) -> Array:
        x, y, z = self._axes(c, at)
        return np.concatenate([Connect(self.a, self.b).residual(c, at), [x @ z, y @ z]])

    def jacobian(self, c: Array, at: Inside) -> Array:
        x, y, z = self._axes(c, at)
        turning = at.turning_rates(self.a) - at.turning_rates(self.b)
        rows = [cross(x, z) @ turning, cross(y, z) @ turning]
        return np.concatenate([Connect(self.a, self.b).jacobian(c, at), np.stack(rows)])

    def drift(self, c: Array, at: Inside) -> Array:
        *normals, z = self._axes(c, at)
        (w_a, a_a), (w_b, a_b) = at.angular(self.a), at.angular(self.b)
        rows = []
        for u in normals:
            moved = cross(cross(w_a, u), z) + cross(u, cross(w_b, z))
            rows.append(cross(u, z) @ (a_a - a_b) + moved @ (w_a - w_b))
        return np.concatenate([Connect(self.a, self.b).drift(c, at), rows])


@dataclass(frozen=True)
class Weld:
    """Two frames coincide. With E = AᵀB for their axes A and B, φ is the point's and the vector of E's skew part.

    The constants are both points and both rotations.
    """

    a: int
    b: int
    constants: ClassVar[int] = 24
    rows: ClassVar[int] = 6

    @property
    def key(self) -> tuple[Any, ...]:
        return "weld", self.a, self.b

    def _axes(self, c: Array, at: Inside) -> tuple[Array, Array]:
        return at.axes(self.a, c[6:15].reshape(3, 3)), at.axes(self.b, c[15:24].reshape(3, 3))

    def residual(self, c: Array, at: Inside) -> Array:
        A, B = self._axes(c, at)
        E = A.T @ B
        turn = 0.5 * np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]])
        return np.concatenate([Connect(self.a, self.b).residual(c, at), turn])

    def jacobian(self, c: Array, at: Inside) -> Array:
        A, B = self._axes(c, at)
        turning = at.turning_rates(self.b) - at.turning_rates(self.a)
        rows = _half(A.T @ B) @ (B.T @ turning)
        return np.concatenate([Connect(self.a, self.b).jacobian(c, at), rows])

    def drift(self, c: Array, at: Inside) -> Array:
        A, B = self._axes(c, at)
        E = A.T @ B
        (w_a, a_a), (w_b, a_b) = at.angular(self.a), at.angular(self.b)
        w = B.T @ (w_b - w_a)
        rows = _half(E) @ (B.T @ (a_b - a_a + cross(w_b, w_a))) + _half(E @ skew(w)) @ w
        return np.concatenate([Connect(self.a, self.b).drift(c, at), rows])


def _half(E: Array) -> Array:
    """½ (tr E − Eᵀ)."""
    half: Array = 0.5 * ((E[0, 0] + E[1, 1] + E[2, 2]) * np.eye(3) - E.T)
    return half


@dataclass(frozen=True)
class Coupled:
    """The coordinate of joint a follows from those of others."""

    a: int
    follower: Follower
    leaders: tuple[int, ...]
    rows: ClassVar[int] = 1

    @property
    def constants(self) -> int:
        return self.follower.constants

    @property
    def key(self) -> tuple[Any, ...]:
        return "couple", self.a, self.follower.name, self.leaders

    def _leading(self, at: Inside) -> Array:
        return np.concatenate([at.x[leader] for leader in self.leaders])

    def residual(self, c: Array, at: Inside) -> Array:
        return np.array([at.x[self.a][0] - self.follower.value(c, self._leading(at))])

    def jacobian(self, c: Array, at: Inside) -> Array:
        slopes = self.follower.slopes(c, self._leading(at))
        row: list[Any] = [0.0] * len(at.S)
        row[at.first[self.a]] = 1.0
        for leader, slope in zip(self.leaders, slopes, strict=True):
            row[at.first[leader]] = -slope
        return np.array([row])

    def drift(self, c: Array, at: Inside) -> Array:
        rate = np.array([at.rates[at.first[leader]] for leader in self.leaders])
        return np.array([-self.follower.curvature(c, self._leading(at), rate)])
