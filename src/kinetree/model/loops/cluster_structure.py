"""The structure and kinematics of a cluster: where its bodies are, how they move, how its joints depend on each other.

Where joints are coupled explicitly, q holds the coordinates of the others. Where constraints φ(q) = 0 close loops, q
holds the coordinates of all joints, and v the rates of some of them, the independent ones I. With K = ∂φ/∂q̇ the
others, D, follow:

    q̇ = G v,    G_I = 1,    G_D = −K_D⁺ K_I        q̈ = G v̇ + Ġ v,    (Ġ v)_I = 0,    (Ġ v)_D = −K_D⁺ K̇ q̇

Redundant constraints need no care: K_D⁺ is a least-squares solution. For body i with inner parent π(i), joint motions
S_i and rates q̇ = G v of the joints:

    T_i = T_π(i) + S_i G_i                        V_i = T_i v    velocity relative to the carrier
    a_i = a_π(i) + V_i × S_i q̇_i + S_i (Ġ v)_i                   its acceleration at v̇ = 0

General nodes inside (`kinetree.model.loops.inner_nodes`) have a root frame without motion of its own. Their outlets
move by the root's rates.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from kinetree.model.joints.protocol import Series
from kinetree.model.loops.coupling import Follower
from kinetree.model.loops.inner_nodes import InnerMotion, NodeOutlet, NodeRoot
from kinetree.model.loops.loop import Closure, Inside
from kinetree.spatial.dense import least_squares
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import stack
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Kinds compiled for clusters that differ only in which of their constants are 0, 1 or −1.
_MOST_PATTERNS = 4


@dataclass(frozen=True)
class ClusterStage:
    """One joint stage inside a cluster, and the body that it moves."""

    parent: int  # index of the body's parent in the cluster, −1 for the carrier
    stage: InnerMotion
    massive: bool = True  # whether the body has inertia; if not, the formulas contain none
    armed: bool = False  # whether the joint has armature
    follower: Follower | None = None  # how its coordinate follows from others, if it does
    leaders: tuple[int, ...] = ()  # indices of the joints that it follows

    @property
    def nq(self) -> int:
        """Number of its coordinates in q."""
        return self.stage.nq if self.follower is None else 0

    @property
    def nv(self) -> int:
        """Number of its independent rates."""
        return self.stage.nv if self.follower is None else 0

    @property
    def key(self) -> tuple[Any, ...]:
        """What its formulas depend on."""
        follower = None if self.follower is None else self.follower.name
        return self.parent, self.stage.name, self.massive, self.armed, follower, self.leaders


class InnerConstants(NamedTuple):
    """The constants of one inner body."""

    placement: Transform
    inertia: RigidInertia | None
    armature: Array | None
    own: Array
    follower: Array


class Posed(NamedTuple):
    """A configuration, one entry per inner body."""

    inside: Inside  # where the bodies are
    G: list[Array]  # joint rates per independent rate, (stage.nv, n)
    T: list[Array]  # motion of the body per independent rate, (6, n)
    inertia: list[RigidInertia | None]  # in the carrier's coordinates; None for massless bodies and outlets


class InnerRates(NamedTuple):
    """Velocities relative to the carrier, one entry per inner body."""

    V: list[Motion]
    a: list[Motion]  # accelerations at zero v̇, except for the part due to the carrier's own motion
    g: list[Array]  # joint accelerations at zero v̇: Ġ v, (stage.nv,)


# What follows from q is needed several times in a row, once for each formula: the last result is kept.
_last = threading.local()


@dataclass(frozen=True)
class ClusterStructure:
    """What clusters with the same formulas have in common, and how the constants of each are laid out.

    Attributes:
        inner: The joint stages, each after its parent.
        outlets: Those whose bodies carry something, or whose frames are needed, in order.
        closures: Constraints that close loops. If there are any, no joint is coupled explicitly.
        independent: With closures, the indices of the independent joint rates, in order.
        known: Positions of constants that are 0, 1 or −1, with their values. Axes of linkages are mostly parallel or
            at right angles, and operations with such numbers are left out of the compiled formulas.
    """

    inner: tuple[ClusterStage, ...]
    outlets: tuple[int, ...]
    closures: tuple[Closure, ...] = ()
    independent: tuple[int, ...] = ()
    known: tuple[tuple[int, float], ...] = ()

    @cached_property
    def name(self) -> str:
        structure = repr((
            tuple(each.key for each in self.inner),
            self.outlets,
            tuple(closure.key for closure in self.closures),
            self.independent,
            self.known,
        ))  # fmt: skip
        return f"cluster_of_{len(self.inner)}_{sha256(structure.encode()).hexdigest()[:16]}"

    @cached_property
    def nq(self) -> int:
        return sum(each.nq for each in self.inner)

    @cached_property
    def nv(self) -> int:
        return len(self.independent) if self.closures else sum(each.nv for each in self.inner)

    @cached_property
    def parameter_count(self) -> int:
        return self._turn_start + 9

    @cached_property
    def _turn_start(self) -> int:
        """Where the turn from the carrier's axes is among the constants."""
        return sum(_count(each) for each in self.inner) + sum(closure.constants for closure in self.closures)

    def start_of(self, i: int) -> int:
        """Where the constants of an inner body start."""
        return sum(_count(each) for each in self.inner[:i])

    @cached_property
    def joint_rates(self) -> int:
        return sum(each.stage.nv for each in self.inner)

    @cached_property
    def loop_rows(self) -> int:
        return sum(closure.rows for closure in self.closures)

    @cached_property
    def series(self) -> Series:
        """The coordinates of all joints."""
        return Series(tuple(each.stage.coordinates for each in self.inner))

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """With closures, the indices of the joint rates that follow from the independent ones."""
        return tuple(i for i in range(self.joint_rates) if i not in self.independent)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rate of each joint, followed by their number."""
        return tuple(accumulate((each.stage.nv for each in self.inner), initial=0))

    @cached_property
    def movers(self) -> tuple[int, ...]:
        """For each body, the joint whose rates move it relative to its parent: its own, or an outlet's root."""
        return tuple(each.parent if isinstance(each.stage, NodeOutlet) else i for i, each in enumerate(self.inner))

    @cached_property
    def nodes(self) -> tuple[tuple[int, NodeRoot], ...]:
        """The general nodes inside."""
        return tuple((i, each.stage) for i, each in enumerate(self.inner) if isinstance(each.stage, NodeRoot))

    @cached_property
    def followers(self) -> tuple[tuple[int, Follower, tuple[int, ...]], ...]:
        """Coupled joints with their leaders, each after those that it follows."""
        order = TopologicalSorter({i: each.leaders for i, each in enumerate(self.inner)}).static_order()
        stages = [(i, self.inner[i]) for i in order]
        return tuple((i, each.follower, each.leaders) for i, each in stages if each.follower is not None)

    def parameters(self, inner: list[InnerConstants], closures: Sequence[Array], turn: Array) -> Array:
        """Lay out the constants of one cluster; `turn` is the rotation from the carrier's axes to those used inside."""
        parts: list[Array] = []
        for each, given in zip(self.inner, inner, strict=True):
            parts.append(given.placement.data)
            if each.massive and given.inertia is not None:
                parts.append(given.inertia.data)
            if each.armed and given.armature is not None:
                parts.append(given.armature)
            parts += [given.own, given.follower]
        return np.concatenate([*parts, *closures, turn.reshape(-1)]).astype(float)

    def patterns(self, clusters: Sequence[Array]) -> list[tuple[tuple[int, float], ...]]:
        """What each cluster with these constants could have as `known`: numbers of its geometry that are 0, 1 or −1.

        Each pattern is compiled, so if there would be too many, all have those numbers known that they have in common.
        """
        places: list[int] = []
        start = 0
        for each in self.inner:
            places += range(start, start + Transform.size)
            start += _count(each)
        places += range(start, self._turn_start + 9)
        patterns = [
            tuple((i, value) for i in places for value in (0.0, 1.0, -1.0) if constants[i] == value)
            for constants in clusters
        ]
        if len(set(patterns)) > _MOST_PATTERNS:
            common = frozenset(patterns[0]).intersection(*patterns)
            patterns = [tuple(sorted(common))] * len(patterns)
        return patterns

    def _numbers(self, parameters: Array) -> Array:
        """The constants, known ones as plain numbers."""
        if not self.known:
            return parameters
        numbers = list(parameters)
        for i, value in self.known:
            numbers[i] = value
        return np.array(numbers)

    def constants(self, parameters: Array) -> list[InnerConstants]:
        """The constants of each inner body."""
        parameters = self._numbers(parameters)
        found, start = [], 0

        def take(count: int) -> Array:
            nonlocal start
            start += count
            return parameters[start - count : start]

        for each in self.inner:
            placement = Transform(take(12))
            inertia = RigidInertia(take(10)) if each.massive else None
            armature = take(each.stage.nv) if each.armed else None
            own = take(each.stage.own)
            follower = take(0 if each.follower is None else each.follower.constants)
            found.append(InnerConstants(placement, inertia, armature, own, follower))
        return found

    def turn(self, parameters: Array) -> Array:
        """The rotation from the carrier's axes to those used inside, (9,)."""
        return self._numbers(parameters)[self._turn_start : self._turn_start + 9]

    def closure_constants(self, parameters: Array) -> Iterator[tuple[Closure, Array]]:
        """The constraints that close loops, each with its constants."""
        parameters, start = self._numbers(parameters), sum(_count(each) for each in self.inner)
        for closure in self.closures:
            yield closure, parameters[start : start + closure.constants]
            start += closure.constants

    # -- kinematics ---------------------------------------------------------------------------------------------------

    def posed(self, parameters: Array, q: Array | None) -> Posed:
        """The cluster at a configuration."""
        if q is None:
            raise TypeError("the formulas of a cluster depend on q")
        key = self, parameters, q
        known = getattr(_last, "posed", None)
        if known is None or any(one is not other for one, other in zip(known[0], key, strict=True)):
            known = _last.posed = key, self._pose(parameters, q)
        found: Posed = known[1]
        return found

    def _pose(self, parameters: Array, q: Array) -> Posed:
        constants = self.constants(parameters)
        x = self._coordinates(constants, q)
        inside = self._inside(constants, x)
        G = self._closed(parameters, inside) if self.closures else self._coupled(constants, x)
        T: list[Array] = []
        inertia: list[RigidInertia | None] = []
        for i, own in enumerate(constants):
            T.append(self._after(T, i, self._moved(inside, i, G[self.movers[i]]), np.zeros((6, self.nv))))
            seen = None if own.inertia is None or i in self.outlets else inside.up[i].congruence(own.inertia)
            inertia.append(seen)
        return Posed(inside, G, T, inertia)

    def rates(self, parameters: Array, at: Posed, v: Array) -> InnerRates:
        """Velocities relative to the carrier at independent rates v."""
        constants, joint_rates, inside = self.constants(parameters), [G @ v for G in at.G], at.inside
        V: list[Motion] = []
        turned: list[Motion | None] = []  # relative to the parent
        pushed: list[Motion] = []  # at zero joint accelerations
        for i, (mover, each) in enumerate(zip(self.movers, self.inner, strict=True)):
            own = _motion(self._moved(inside, i, joint_rates[mover]))
            V.append(self._after(V, i, own, Motion.zero()))
            turned.append(None if own is None else V[i].cross(own))
            swerve = each.stage.swerve(constants[mover].own, inside.x[mover], joint_rates[mover])
            if swerve is not None:
                turned[i] = _sum(turned[i], inside.up[i].back(swerve))
            pushed.append(self._after(pushed, i, turned[i], Motion.zero()))
        moving = replace(inside, V=V, a=pushed, rates=stack(*joint_rates))
        g = (self._drift_of_loops if self.closures else self._drift_of_followers)(parameters, moving)
        a: list[Motion] = []
        for i, mover in enumerate(self.movers):
            a.append(self._after(a, i, _sum(turned[i], _motion(self._moved(inside, i, g[mover]))), Motion.zero()))
        return InnerRates(V, a, g)

    def _moved(self, inside: Inside, i: int, rates: Array) -> Array | None:
        """Motion of a body relative to its parent, given rates of its mover; None if they do not move it."""
        first, end = self.firsts[self.movers[i]], self.firsts[self.movers[i] + 1]
        own = [inside.S[i][j] for j in range(first, end) if j in inside.S[i]]
        return columns(own) @ rates if own else None

    def _after(self, found: list[Any], i: int, own: Any, none: Any) -> Any:
        """A motion of a body: that of its parent and its own, if it has one."""
        parent = self.inner[i].parent
        return _sum(None if parent < 0 else found[parent], own) if parent >= 0 or own is not None else none

    def inside(self, parameters: Array, q: Array) -> Inside:
        """Where the bodies are, relative to the carrier."""
        constants = self.constants(parameters)
        return self._inside(constants, self._coordinates(constants, q))

    def residuals(self, parameters: Array, at: Inside) -> tuple[Array, Array]:
        """Residuals φ of the constraints that close loops, and their derivatives K."""
        residuals, rows = [], []
        for closure, c in self.closure_constants(parameters):
            residuals.append(closure.residual(c, at))
            rows.append(closure.jacobian(c, at))
        return np.concatenate(residuals), np.concatenate(rows)

    def _coordinates(self, constants: list[InnerConstants], q: Array) -> list[Array]:
        """Coordinates of each joint."""
        x: dict[int, Array] = {}
        start = 0
        for i, each in enumerate(self.inner):
            if each.follower is None:
                x[i] = q[start : start + each.nq]
                start += each.nq
        for i, follower, leaders in self.followers:
            leading = stack(*(x[leader] for leader in leaders))
            x[i] = np.array([follower.value(constants[i].follower, leading)])
        return [x[i] for i in range(len(self.inner))]

    def _inside(self, constants: list[InnerConstants], x: list[Array]) -> Inside:
        """Where the bodies are, relative to the carrier."""
        up: list[Transform] = []
        S: list[dict[int, Array]] = []
        for i, (each, mover) in enumerate(zip(self.inner, self.movers, strict=True)):
            X, H = each.stage.frame_motion(constants[i].placement, constants[mover].own, x[mover])
            up.append(X if each.parent < 0 else X @ up[each.parent])
            own = {self.firsts[mover] + c: up[i].back(Motion(column)).data for c, column in enumerate(H)}
            S.append(own if each.parent < 0 else S[each.parent] | own)
        return Inside(up, S, x, self.firsts)

    def _coupled(self, constants: list[InnerConstants], x: list[Array]) -> list[Array]:
        """Rates of each joint per independent rate, where joints are coupled explicitly."""
        G: dict[int, Array] = {}
        column = 0
        for i, each in enumerate(self.inner):
            if each.follower is None:
                G[i] = np.eye(self.nv)[column : column + each.nv]
                column += each.nv
        for i, follower, leaders in self.followers:
            slopes = follower.slopes(constants[i].follower, stack(*(x[leader] for leader in leaders)))
            G[i] = np.zeros((1, self.nv))
            for slope, leader in zip(slopes, leaders, strict=True):
                G[i] = G[i] + slope * G[leader]
        return [G[i] for i in range(len(self.inner))]

    def _closed(self, parameters: Array, inside: Inside) -> list[Array]:
        """The same where loops are closed."""
        _, K = self.residuals(parameters, inside)
        G = np.zeros((self.joint_rates, self.nv), dtype=object)
        G[...] = 0.0
        for column, rate in enumerate(self.independent):
            G[rate, column] = 1.0
        if self.dependent and self.nv:
            G[list(self.dependent)] = least_squares(K[:, list(self.dependent)], -K[:, list(self.independent)])
        return self._split(plain(G))

    def _drift_of_followers(self, parameters: Array, moving: Inside) -> list[Array]:
        """Ġ v of each joint, where they are coupled explicitly."""
        constants = self.constants(parameters)
        g = [np.zeros(each.stage.nv) for each in self.inner]
        for i, follower, leaders in self.followers:
            c, leading = constants[i].follower, stack(*(moving.x[leader] for leader in leaders))
            rates = np.array([moving.rates[self.firsts[leader]] for leader in leaders])
            total = follower.curvature(c, leading, rates)
            for slope, leader in zip(follower.slopes(c, leading), leaders, strict=True):
                total = total + slope * g[leader][0]
            g[i] = np.array([total])
        return g

    def _drift_of_loops(self, parameters: Array, moving: Inside) -> list[Array]:
        """The same where loops are closed."""
        _, K = self.residuals(parameters, moving)
        k = np.concatenate([closure.drift(c, moving) for closure, c in self.closure_constants(parameters)])
        g = np.zeros(self.joint_rates, dtype=object)
        g[...] = 0.0
        if self.dependent:
            g[list(self.dependent)] = least_squares(K[:, list(self.dependent)], -k[:, None])[:, 0]
        return self._split(plain(g))

    def _split(self, rows: Array) -> list[Array]:
        """One part for each joint."""
        return [rows[self.firsts[i] : self.firsts[i + 1]] for i in range(len(self.inner))]


def _motion(numbers: Array | None) -> Motion | None:
    return None if numbers is None else Motion(numbers)


def _sum(one: Any, other: Any) -> Any:
    """The sum of two motions, either of which may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _count(each: ClusterStage) -> int:
    """Number of constants of an inner body."""
    follower = 0 if each.follower is None else each.follower.constants
    return 12 + 10 * each.massive + each.stage.nv * each.armed + each.stage.own + follower


def columns(vectors: Sequence[Array]) -> Array:
    """Vectors as the columns of a matrix."""
    matrix: Array = np.stack(vectors, axis=1)
    return matrix


def plain(values: Array) -> Array:
    """An array of objects as one of numbers, if they are numbers."""
    kinds = {type(x) for x in values.reshape(-1)}
    if all(issubclass(kind, (float, complex, np.number)) for kind in kinds):
        numbers: Array = np.array(values.tolist()).reshape(values.shape)
        return numbers
    return values
