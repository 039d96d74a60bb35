"""Loops: constraints between the frames of two bodies, and their formulas inside a cluster.

All is expressed in the coordinates of the cluster's carrier, so that the carrier's own motion never enters. For
constraint functions φ(q) and joint rates q̇, φ̇ = K q̇ and φ̈ = K q̈ + k with the *drift* k = K̇ q̇.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinetree.model.body import Record, frozen
from kinetree.model.loops.coupling import Follower
from kinetree.spatial.motion import Motion
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import alignment, cross, skew
from kinetree.spatial.transform import Transform, pose
from kinetree.spatial.value import Array

# cosines this close to −1 belong to opposite directions
_OPPOSITE = 1e-10


@dataclass(frozen=True)
class Inside:
    """The bodies of a cluster at a configuration, and with velocities if they move; body −1 is the carrier."""

    up: Sequence[Transform]  # from the carrier to each body
    S: Sequence[Mapping[int, Array]]  # motion of each body, (6,), for each joint rate that moves it
    x: Sequence[Array]  # coordinates of each joint
    first: Sequence[int]  # the first rate of each joint, followed by their number
    V: Sequence[Motion] = ()  # velocity of each body relative to the carrier
    a: Sequence[Motion] = ()  # its acceleration at zero joint accelerations
    rates: Any = ()  # of the joints

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
        none, moved = np.zeros(3), {} if body < 0 else self.S[body]
        return np.stack([column(moved[j]) if j in moved else none for j in range(self.first[-1])], axis=1)

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


@dataclass(frozen=True)
class Connect:
    """A point of body a coincides with a point of body b: a ball joint. The constants are both points."""

    a: int
    b: int
    kind: ClassVar[str] = "connect"
    constants: ClassVar[int] = 6
    rows: ClassVar[int] = 3

    @property
    def key(self) -> tuple[Any, ...]:
        """What its formulas depend on."""
        return self.kind, self.a, self.b

    def _points(self, c: Array, at: Inside) -> tuple[Array, Array]:
        return at.point(self.a, c[:3]), at.point(self.b, c[3:6])

    def residual(self, c: Array, at: Inside) -> Array:
        """φ, (rows,)."""
        there, here = self._points(c, at)
        return there - here

    def jacobian(self, c: Array, at: Inside) -> Array:
        """K, (rows, joint rates)."""
        there, here = self._points(c, at)
        return at.point_rates(self.a, there) - at.point_rates(self.b, here)

    def drift(self, c: Array, at: Inside) -> Array:
        """k, (rows,)."""
        there, here = self._points(c, at)
        return at.point_motion(self.a, there)[1] - at.point_motion(self.b, here)[1]

    def half_turn(self, _c: Array, _at: Inside) -> Array | None:
        """A rotation of the second frame that makes the constraint hold, if both frames are half a turn apart."""
        return None


@dataclass(frozen=True)
class DistanceClosure(Connect):
    """Two points at a fixed distance L: a massless rod. φ = ½ (|d|² − L²); the constants are the points and L."""

    kind: ClassVar[str] = "distance"
    constants: ClassVar[int] = 7
    rows: ClassVar[int] = 1

    def residual(self, c: Array, at: Inside) -> Array:
        there, here = self._points(c, at)
        d = there - here
        return np.array([0.5 * (d @ d - c[6] * c[6])])

    def jacobian(self, c: Array, at: Inside) -> Array:
        there, here = self._points(c, at)
        return np.array([(there - here) @ super().jacobian(c, at)])

    def drift(self, c: Array, at: Inside) -> Array:
        there, here = self._points(c, at)
        (u, f), (v, g) = at.point_motion(self.a, there), at.point_motion(self.b, here)
        return np.array([(there - here) @ (f - g) + (u - v) @ (u - v)])


@dataclass(frozen=True)
class HingeClosure(Connect):
    """A connection that keeps an axis: φ is the point's, and the components of 2 tan(θ/2) n for axes at an angle θ.

    Unlike its sine, this does not vanish for opposite axes. The constants are both points, two directions of body a
    normal to its axis, and the axis of body b.
    """

    kind: ClassVar[str] = "hinge"
    constants: ClassVar[int] = 15
    rows: ClassVar[int] = 5

    def _axes(self, c: Array, at: Inside) -> tuple[Array, Array, Array, Array]:
        """Two normals of a's axis, that axis, and b's."""
        normals = at.axes(self.a, c[6:12].reshape(2, 3).T)
        x, y = normals[:, 0], normals[:, 1]
        return x, y, cross(x, y), at.axes(self.b, c[12:15])

    def half_turn(self, c: Array, at: Inside) -> Array | None:
        *_, own, z = self._axes(c, at)
        return np.diag([1.0, -1.0, -1.0]) if own @ z < -1.0 + _OPPOSITE else None

    def residual(self, c: Array, at: Inside) -> Array:
        x, y, own, z = self._axes(c, at)
        scale = 2.0 / (1.0 + own @ z)
        return np.concatenate([super().residual(c, at), [(x @ z) * scale, (y @ z) * scale]])

    def jacobian(self, c: Array, at: Inside) -> Array:
        x, y, own, z = self._axes(c, at)
        turning = at.turning_rates(self.a) - at.turning_rates(self.b)
        scale = 1.0 / (1.0 + own @ z)
        rows = [(2.0 * scale) * (cross(u, z) - ((u @ z) * scale) * cross(own, z)) @ turning for u in (x, y)]
        return np.concatenate([super().jacobian(c, at), np.stack(rows)])

    def drift(self, c: Array, at: Inside) -> Array:
        *normals, own, z = self._axes(c, at)
        (w_a, a_a), (w_b, a_b) = at.angular(self.a), at.angular(self.b)
        turn, scale = w_a - w_b, 1.0 / (1.0 + own @ z)

        def normal(u: Array) -> tuple[Array, Array]:
            """u × z, whose product with the relative turn is the rate of u·z, and its rate."""
            return cross(u, z), cross(cross(w_a, u), z) + cross(u, cross(w_b, z))

        m, m_rate = normal(own)
        scale_rate = -((m @ turn) * scale) * scale
        rows = []
        for u in normals:
            n, n_rate = normal(u)
            share = (u @ z) * scale
            share_rate = (n @ turn) * scale + (u @ z) * scale_rate
            along = n - share * m
            along_rate = n_rate - share_rate * m - share * m_rate
            rows.append(2.0 * (scale * (along @ (a_a - a_b) + along_rate @ turn) + scale_rate * (along @ turn)))
        return np.concatenate([super().drift(c, at), rows])


@dataclass(frozen=True)
class WeldClosure(Connect):
    """Two frames coincide. φ is the point's, and 2 g with g = tan(θ/2) n for their relative rotation by θ about n.

    Unlike its sine, this does not vanish after half a turn. The constants are both points and both rotations.
    """

    kind: ClassVar[str] = "weld"
    constants: ClassVar[int] = 24
    rows: ClassVar[int] = 6

    def _axes(self, c: Array, at: Inside) -> tuple[Array, Array]:
        return at.axes(self.a, c[6:15].reshape(3, 3)), at.axes(self.b, c[15:24].reshape(3, 3))

    def half_turn(self, c: Array, at: Inside) -> Array | None:
        A, B = self._axes(c, at)
        E = A.T @ B
        if np.trace(E) > -1.0 + _OPPOSITE:
            return None
        column = (E + np.eye(3))[:, int(np.argmax(np.diag(E)))]  # E = 2nnᵀ − 1
        n = column / np.linalg.norm(column)
        return 2.0 * np.outer(n, n) - np.eye(3)

    def _turn(self, c: Array, at: Inside) -> tuple[Array, Array]:
        """Axes B of the second frame, and g of the rotation E = AᵀB between them."""
        A, B = self._axes(c, at)
        E = A.T @ B
        scale = 1.0 / (1.0 + E[0, 0] + E[1, 1] + E[2, 2])
        return B, np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]]) * scale

    def residual(self, c: Array, at: Inside) -> Array:
        _, g = self._turn(c, at)
        return np.concatenate([super().residual(c, at), 2.0 * g])

    def jacobian(self, c: Array, at: Inside) -> Array:
        B, g = self._turn(c, at)
        turning = at.turning_rates(self.b) - at.turning_rates(self.a)
        rows = (np.eye(3) + np.outer(g, g) + skew(g)) @ (B.T @ turning)
        return np.concatenate([super().jacobian(c, at), rows])

    def drift(self, c: Array, at: Inside) -> Array:
        B, g = self._turn(c, at)
        (w_a, a_a), (w_b, a_b) = at.angular(self.a), at.angular(self.b)
        w, T = B.T @ (w_b - w_a), np.eye(3) + np.outer(g, g) + skew(g)
        g_rate = 0.5 * (T @ w)
        T_rate = np.outer(g_rate, g) + np.outer(g, g_rate) + skew(g_rate)
        rows = T @ (B.T @ (a_b - a_a + cross(w_b, w_a))) + T_rate @ w
        return np.concatenate([super().drift(c, at), rows])


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
        row: list[Any] = [0.0] * at.first[-1]
        row[at.first[self.a]] = 1.0
        for leader, slope in zip(self.leaders, slopes, strict=True):
            row[at.first[leader]] = -slope
        return np.array([row])

    def drift(self, c: Array, at: Inside) -> Array:
        rate = np.array([at.rates[at.first[leader]] for leader in self.leaders])
        return np.array([-self.follower.curvature(c, self._leading(at), rate)])


#: The formulas of a constraint between bodies or joints of a cluster, up to numbers that are constants.
Closure = Connect | Coupled
_CLOSURES = {each.kind: each for each in (Connect, DistanceClosure, HingeClosure, WeldClosure)}


@dataclass(frozen=True, eq=False)
class Loop(Record):
    """A constraint that closes a loop.

    Attributes:
        name: Unique among loops.
        kind: "connect", "weld", "hinge" or "distance".
        bodies: The two bodies, either of which may be "world".
        first: Pose of the frame on the first body, (4, 4).
        second: Pose of the frame on the second body, (4, 4).
        axis: Axis of a hinge in both frames, (3,).
        length: Length of a distance [m].
    """

    name: str
    kind: str
    bodies: tuple[str, str]
    first: Array
    second: Array
    axis: Array
    length: float = 0.0

    def __post_init__(self) -> None:
        for name, shape in (("first", (4, 4)), ("second", (4, 4)), ("axis", (3,))):
            object.__setattr__(self, name, frozen(getattr(self, name), shape))

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} between {self.bodies[0]!r} and {self.bodies[1]!r}"

    def closure(self, a: int, b: int) -> Connect:
        """Its formulas, for bodies a and b of a cluster."""
        return _CLOSURES[self.kind](a, b)

    def constants(self, first: Array, second: Array) -> Array:
        """The numbers of its formulas, given the poses of both bodies' link frames in their nodes."""
        turn = pose(alignment(self.axis), np.zeros(3))
        A, B = (product(product(at, own), turn) for at, own in ((first, self.first), (second, self.second)))
        points = [A[:3, 3], B[:3, 3]]
        more: dict[str, list[Array]] = {
            "connect": [],
            "distance": [np.array([self.length])],
            "hinge": [A[:3, 0], A[:3, 1], B[:3, 2]],
            "weld": [A[:3, :3].reshape(-1), B[:3, :3].reshape(-1)],
        }
        return np.concatenate([*points, *more[self.kind]])
