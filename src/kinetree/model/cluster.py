"""The node kind of a cluster: bodies whose joints depend on each other, as one node in the form of `spatial.cluster`.

Where joints are coupled explicitly, q holds the coordinates of the others. Where constraints φ(q) = 0 close loops, q
holds the coordinates of all joints, and v the rates of some of them, the independent ones I. With K = ∂φ/∂q̇ the others,
D, follow:

    q̇ = G v,    G_I = 1,    G_D = −K_D⁺ K_I        q̈ = G v̇ + Ġ v,    (Ġ v)_I = 0,    (Ġ v)_D = −K_D⁺ K̇ q̇

Redundant constraints need no care: K_D⁺ is a least-squares solution.

Everything inside is expressed about the origin of the carrier, the body that the cluster hangs on, in its axes or in
others fixed to it, chosen such that as many constants as possible are zero.
For body i with inner parent π(i), joint motions S_i and rates q̇ = G v of the joints:

    T_i = T_π(i) + S_i G_i                        V_i = T_i v    velocity relative to the carrier
    a_i = a_π(i) + V_i × S_i q̇_i + S_i (Ġ v)_i                   its acceleration at v̇ = 0

The motion of the carrier itself enters through V_c × V_i only.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[J12] A. Jain, "Multibody graph transformations and analysis, part II: closed-chain constraint embedding", Nonlinear
      Dynamics 67, 2012.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.model.closure import Closure, Inside
from kinetree.model.follower import Follower
from kinetree.model.joints.base import PlainCoordinates, Stage
from kinetree.model.joints.series import Series
from kinetree.model.loop_manifold import LoopManifold
from kinetree.recursion.node import WORLD_PORT, Manifold, Unconstrained
from kinetree.spatial.cluster import ClusterInertia, ClusterMap, ClusterWeight, Slot
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.least_squares import least_squares
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import stack

#: Kinds compiled for clusters that differ only in which of their constants are 0, 1 or −1.
_MOST_PATTERNS = 4


@dataclass(frozen=True)
class Inner:
    """One joint stage inside a cluster, and the body that it moves.

    Attributes:
        parent: Index of the body's parent in the cluster, −1 for the carrier.
        stage: The joint.
        massive: Whether the body has inertia; if not, the formulas contain none.
        armed: Whether the joint has armature.
        follower: How its coordinate follows from others, if it does.
        leaders: Indices of the joints that it follows.
    """

    parent: int
    stage: Stage
    massive: bool = True
    armed: bool = False
    follower: Follower | None = None
    leaders: tuple[int, ...] = ()

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


class _Posed(NamedTuple):
    """A configuration, one entry per inner body.

    Attributes:
        inside: Where the bodies are.
        G: Joint rates per independent rate, (stage.nv, n).
        T: Motion of the body per independent rate, (6, n).
        inertia: Inertias in the carrier's coordinates; None for massless bodies and outlets.
    """

    inside: Inside
    G: list[Array]
    T: list[Array]
    inertia: list[RigidInertia | None]


class _Rates(NamedTuple):
    """Velocities relative to the carrier, one entry per inner body.

    Attributes:
        V: Velocities.
        a: Accelerations at zero v̇, except for the part due to the carrier's own motion.
        g: Joint accelerations at zero v̇: Ġ v, (stage.nv,).
    """

    V: list[Motion]
    a: list[Motion]
    g: list[Array]


@dataclass(frozen=True)
class ClusterKind:
    """All clusters with the same structure; a `recursion.node.NodeKind`.

    Attributes:
        inner: The joint stages, each after its parent.
        outlets: Those whose bodies carry something, or whose frames are needed, in order.
        closures: Constraints that close loops. If there are any, no joint is coupled explicitly.
        independent: With closures, the indices of the independent joint rates, in order.
        known: Positions of constants that are 0, 1 or −1, with their values. Axes of linkages are mostly parallel or
            at right angles, and operations with such numbers are left out of the compiled formulas.
    """

    inner: tuple[Inner, ...]
    outlets: tuple[int, ...]
    closures: tuple[Closure, ...] = ()
    independent: tuple[int, ...] = ()
    known: tuple[tuple[int, float], ...] = ()

    moving: ClassVar[bool] = True
    rigid: ClassVar[bool] = False
    bodily: ClassVar[bool] = True

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

    @property
    def port(self) -> str:
        return f"cluster_{len(self.outlets)}_{self.nv}"

    @property
    def twists(self) -> tuple[int, ...]:
        return tuple(range(0, 6 * len(self.outlets) + 6, 6))

    @cached_property
    def nq(self) -> int:
        return sum(each.nq for each in self.inner)

    @cached_property
    def nv(self) -> int:
        return len(self.independent) if self.closures else sum(each.nv for each in self.inner)

    @property
    def dimension(self) -> int:
        return 6 * len(self.outlets) + 6 + self.nv

    @cached_property
    def parameter_count(self) -> int:
        return self._turn_start + 9

    @cached_property
    def _turn_start(self) -> int:
        """Where the turn from the carrier's axes is among the constants."""
        return sum(_count(each) for each in self.inner) + sum(closure.constants for closure in self.closures)

    @cached_property
    def joint_rates(self) -> int:
        return sum(each.stage.nv for each in self.inner)

    @cached_property
    def loop_rows(self) -> int:
        return sum(closure.rows for closure in self.closures)

    def manifold(self, parameters: Array) -> Manifold:
        if self.closures:
            return LoopManifold(self, parameters)
        free = tuple(each.stage for each in self.inner if each.follower is None)
        return PlainCoordinates() if all(stage.nq == 1 for stage in free) else Series(free)

    @cached_property
    def series(self) -> Series:
        """The coordinates of all joints."""
        return Series(tuple(each.stage for each in self.inner))

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """With closures, the indices of the joint rates that follow from the independent ones."""
        return tuple(i for i in range(self.joint_rates) if i not in self.independent)

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

    def specialized(self, clusters: Sequence[Array]) -> tuple[ClusterKind, ...]:
        """The kind of each cluster with these constants: numbers of its geometry that are 0, 1 or −1 become known.

        Each kind is compiled, so if there would be too many, all have those numbers known that they have in common.
        """
        places: list[int] = []
        start = 0
        for each in self.inner:
            places += range(start, start + Transform.size)
            start += _count(each)
        places += range(start, self.parameter_count)
        patterns = [
            tuple((i, value) for i in places for value in (0.0, 1.0, -1.0) if constants[i] == value)
            for constants in clusters
        ]
        if len(set(patterns)) > _MOST_PATTERNS:
            common = frozenset(patterns[0]).intersection(*patterns)
            patterns = [tuple(sorted(common))] * len(patterns)
        return tuple(replace(self, known=pattern) for pattern in patterns)

    def _numbers(self, parameters: Array) -> Array:
        """The constants, known ones as plain numbers."""
        if not self.known:
            return parameters
        numbers = list(parameters)
        for i, value in self.known:
            numbers[i] = value
        return np.array(numbers)

    def _constants(self, parameters: Array) -> list[InnerConstants]:
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

    # -- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """The first rate of each joint, followed by their number."""
        return tuple(accumulate((each.stage.nv for each in self.inner), initial=0))

    @cached_property
    def _below(self) -> tuple[frozenset[int], ...]:
        """The joint rates that move each body."""
        found: list[frozenset[int]] = []
        for i, each in enumerate(self.inner):
            own = frozenset(range(self._firsts[i], self._firsts[i + 1]))
            found.append(own if each.parent < 0 else own | found[each.parent])
        return tuple(found)

    def _coordinates(self, constants: list[InnerConstants], q: Array) -> list[Array]:
        """Coordinates of each joint."""
        x: dict[int, Array] = {}
        start = 0
        for i, each in enumerate(self.inner):
            if each.follower is None:
                x[i] = q[start : start + each.nq]
                start += each.nq
        for i, follower, leaders in self._followers:
            leading = stack(*(x[leader] for leader in leaders))
            x[i] = np.array([follower.value(constants[i].follower, leading)])
        return [x[i] for i in range(len(self.inner))]

    def _coupled(self, constants: list[InnerConstants], x: list[Array]) -> list[Array]:
        """Rates of each joint per independent rate, where joints are coupled explicitly."""
        G: dict[int, Array] = {}
        column = 0
        for i, each in enumerate(self.inner):
            if each.follower is None:
                G[i] = np.eye(self.nv)[column : column + each.nv]
                column += each.nv
        for i, follower, leaders in self._followers:
            slopes = follower.slopes(constants[i].follower, stack(*(x[leader] for leader in leaders)))
            G[i] = np.zeros((1, self.nv))
            for slope, leader in zip(slopes, leaders, strict=True):
                G[i] = G[i] + slope * G[leader]
        return [G[i] for i in range(len(self.inner))]

    def _closed(self, parameters: Array, inside: Inside) -> list[Array]:
        """The same where loops are closed."""
        _, K = self._loops(parameters, inside)
        G = np.zeros((self.joint_rates, self.nv), dtype=object)
        G[...] = 0.0
        for column, rate in enumerate(self.independent):
            G[rate, column] = 1.0
        if self.dependent and self.nv:
            G[list(self.dependent)] = least_squares(K[:, list(self.dependent)], -K[:, list(self.independent)])
        return self._split(_plain(G))

    def _split(self, rows: Array) -> list[Array]:
        """One part for each joint."""
        return [rows[self._firsts[i] : self._firsts[i + 1]] for i in range(len(self.inner))]

    def _loops(self, parameters: Array, inside: Inside) -> tuple[Array, Array]:
        residuals, rows = [], []
        for closure, c in self.closure_constants(parameters):
            residuals.append(closure.residual(c, inside))
            rows.append(closure.jacobian(c, inside))
        return np.concatenate(residuals), np.concatenate(rows)

    def closure_constants(self, parameters: Array) -> Iterator[tuple[Closure, Array]]:
        """The constraints that close loops, each with its constants."""
        parameters, start = self._numbers(parameters), sum(_count(each) for each in self.inner)
        for closure in self.closures:
            yield closure, parameters[start : start + closure.constants]
            start += closure.constants

    def _inside(self, constants: list[InnerConstants], x: list[Array]) -> Inside:
        """Where the bodies are, relative to the carrier."""
        up: list[Transform] = []
        S: list[Array] = []
        for i, (each, own) in enumerate(zip(self.inner, constants, strict=True)):
            X = each.stage.transform(own.placement, own.own, x[i])
            up.append(X if each.parent < 0 else X @ up[each.parent])
            H = each.stage.joint_map(own.own)
            S += [up[i].back(H.column(c)).data for c in range(each.stage.nv)]
        return Inside(up, S, self._below, x, self._firsts)

    @cached_property
    def _followers(self) -> tuple[tuple[int, Follower, tuple[int, ...]], ...]:
        """Coupled joints with their leaders, each after those that it follows."""
        order: list[tuple[int, Follower, tuple[int, ...]]] = []
        waiting = [(i, each.follower, each.leaders) for i, each in enumerate(self.inner) if each.follower is not None]
        while waiting:
            unknown = {i for i, _, _ in waiting}
            ready = [one for one in waiting if unknown.isdisjoint(one[2])]
            if not ready:
                raise ValueError("a joint follows itself")
            order += ready
            waiting = [one for one in waiting if one not in ready]
        return tuple(order)

    def _posed(self, parameters: Array, q: Array | None) -> _Posed:
        if q is None:
            raise TypeError("the formulas of a cluster depend on q")
        return _remembered(self, parameters, q)

    def pose(self, parameters: Array, q: Array) -> _Posed:
        """Internal: everything that follows from q."""
        constants = self._constants(parameters)
        x = self._coordinates(constants, q)
        inside = self._inside(constants, x)
        G = self._closed(parameters, inside) if self.closures else self._coupled(constants, x)
        T: list[Array] = []
        inertia: list[RigidInertia | None] = []
        for i, (each, own) in enumerate(zip(self.inner, constants, strict=True)):
            moved = _columns(inside.S[self._firsts[i] : self._firsts[i + 1]]) @ G[i]
            T.append(moved if each.parent < 0 else T[each.parent] + moved)
            seen = None if own.inertia is None or i in self.outlets else inside.up[i].congruence(own.inertia)
            inertia.append(seen)
        return _Posed(inside, G, T, inertia)

    def _rates(self, parameters: Array, posed: _Posed, v: Array) -> _Rates:
        rates, inside = [G @ v for G in posed.G], posed.inside
        S = [_columns(inside.S[self._firsts[i] : self._firsts[i + 1]]) for i in range(len(self.inner))]
        V: list[Motion] = []
        pushed: list[Motion] = []  # at zero joint accelerations
        for i, each in enumerate(self.inner):
            own = Motion(S[i] @ rates[i])
            V.append(own if each.parent < 0 else V[each.parent] + own)
            turned = V[i].cross(own)
            pushed.append(turned if each.parent < 0 else pushed[each.parent] + turned)
        moving = replace(inside, V=V, a=pushed, rates=stack(*rates))
        g = self._drift_of_loops(parameters, moving) if self.closures else self._drift_of_followers(parameters, moving)
        a: list[Motion] = []
        for i, each in enumerate(self.inner):
            own = V[i].cross(Motion(S[i] @ rates[i])) + Motion(S[i] @ g[i])
            a.append(own if each.parent < 0 else a[each.parent] + own)
        return _Rates(V, a, g)

    def _drift_of_followers(self, parameters: Array, moving: Inside) -> list[Array]:
        """Ġ v of each joint, where they are coupled explicitly."""
        constants = self._constants(parameters)
        g = [np.zeros(each.stage.nv) for each in self.inner]
        for i, follower, leaders in self._followers:
            c, leading = constants[i].follower, stack(*(moving.x[leader] for leader in leaders))
            rates = np.array([moving.rates[self._firsts[leader]] for leader in leaders])
            total = follower.curvature(c, leading, rates)
            for slope, leader in zip(follower.slopes(c, leading), leaders, strict=True):
                total = total + slope * g[leader][0]
            g[i] = np.array([total])
        return g

    def _drift_of_loops(self, parameters: Array, moving: Inside) -> list[Array]:
        """The same where loops are closed."""
        _, K = self._loops(parameters, moving)
        k = np.concatenate([closure.drift(c, moving) for closure, c in self.closure_constants(parameters)])
        g = np.zeros(self.joint_rates, dtype=object)
        g[...] = 0.0
        if self.dependent:
            g[list(self.dependent)] = least_squares(K[:, list(self.dependent)], -k[:, None])[:, 0]
        return self._split(_plain(g))

    def brackets(self, parameters: Array, q: Array, v: Array) -> Array:
        if not self.closures:
            return self.manifold(parameters).bracket(v)
        G = self.coupling(parameters, q)
        among_all: Array = self.series.bracket(G @ v) @ G
        return among_all[list(self.independent)]

    def coupling(self, parameters: Array, q: Array) -> Array:
        return np.concatenate(self._posed(parameters, q).G)

    def coupling_drift(self, parameters: Array, q: Array, v: Array) -> Array:
        return np.concatenate(self._rates(parameters, self._posed(parameters, q), v).g)

    def loops(self, parameters: Array, q: Array) -> tuple[Array, Array]:
        if not self.closures:
            return np.zeros(0), np.zeros((0, self.joint_rates))
        return self._loops(parameters, self.inside(parameters, q))

    def inside(self, parameters: Array, q: Array) -> Inside:
        """Where the bodies are, relative to the carrier."""
        constants = self._constants(parameters)
        return self._inside(constants, self._coordinates(constants, q))

    def moved(self, parameters: Array, q: Array, step: Array) -> Array:
        if self.closures:
            return self.series.integrate(q, step)
        free = [step[self._firsts[i] : self._firsts[i + 1]] for i, each in enumerate(self.inner) if not each.leaders]
        return self.manifold(parameters).integrate(q, np.concatenate(free))

    # -- the node -----------------------------------------------------------------------------------------------------

    def weight(self, parameters: Array, q: Array) -> ClusterWeight:
        posed = self._posed(parameters, q)
        turn = self._numbers(parameters)[self._turn_start :]
        return ClusterWeight(stack(*(posed.inside.up[i].data for i in self.outlets), turn), len(self.outlets), self.nv)

    def joint_map(self, parameters: Array, q: Array | None = None) -> ClusterMap:
        posed, constants = self._posed(parameters, q), self._constants(parameters)
        blocks = []
        for i in self.outlets:
            if self.inner[i].parent < 0:  # in its own coordinates, most entries are constants
                blocks.append(self._own_map(i, constants) @ posed.G[i])
            else:
                columns = [(posed.inside.up[i] @ Motion(posed.T[i][:, c])).data for c in range(self.nv)]
                blocks.append(np.stack(columns, axis=1))
        return ClusterMap(stack(np.zeros(0), *blocks), len(self.outlets), self.nv)

    def _own_map(self, i: int, constants: list[InnerConstants]) -> Array:
        """Joint motions of an inner body in its own coordinates, (6, stage.nv)."""
        stage = self.inner[i].stage
        H = stage.joint_map(constants[i].own)
        return _columns([H.column(c).data for c in range(stage.nv)])

    def inertia(self, parameters: Array, q: Array | None = None) -> ClusterInertia:
        posed, constants = self._posed(parameters, q), self._constants(parameters)
        R, Q, N = RigidInertia.zero(), np.zeros((6, self.nv)), np.zeros((self.nv, self.nv))
        for i, own in enumerate(constants):
            M = posed.inertia[i]
            if M is not None:
                U = np.stack([(M @ Motion(posed.T[i][:, c])).data for c in range(self.nv)], axis=1)
                R, Q, N = R + M, Q + U, N + posed.T[i].T @ U
            if own.armature is not None:
                N = N + posed.G[i].T @ (own.armature[:, None] * posed.G[i])
        outlets = [(constants[i].inertia or RigidInertia.zero()).articulated() for i in self.outlets]
        return ClusterInertia.of(outlets, R, Q, N)

    def armature(self, _parameters: Array) -> Array:
        return np.zeros(self.nv)  # part of N: that of a coupled joint acts on all rates that it follows

    def coriolis(self, parameters: Array, q: Array | None, v: Array, velocity: Array, _carrier: Motion) -> Array:
        posed, constants = self._posed(parameters, q), self._constants(parameters)
        rates = self._rates(parameters, posed, v)
        o = len(self.outlets)
        carrier = Motion(velocity[6 * o : 6 * o + 6])
        pushed = []
        for slot, i in enumerate(self.outlets):
            if self.inner[i].parent < 0:
                S, V = self._own_map(i, constants), Motion(velocity[6 * slot : 6 * slot + 6])
                own = V.cross(Motion(S @ (posed.G[i] @ v))) + Motion(S @ rates.g[i])
            else:
                own = posed.inside.up[i] @ (rates.a[i] + carrier.cross(rates.V[i]))
            pushed.append(own.data)
        return stack(*pushed, np.zeros(6 + self.nv))

    def gyroscopic(self, parameters: Array, q: Array | None, v: Array, velocity: Array) -> Array:
        posed, constants = self._posed(parameters, q), self._constants(parameters)
        rates = self._rates(parameters, posed, v)
        outlets = []
        for slot, i in enumerate(self.outlets):
            V = Motion(velocity[6 * slot : 6 * slot + 6])
            outlets.append(V.cross((constants[i].inertia or RigidInertia.zero()) @ V).data)
        o = len(self.outlets)
        carrier = Motion(velocity[6 * o : 6 * o + 6])
        total, along = Force.zero(), np.zeros(self.nv)
        for i, own in enumerate(constants):
            M = posed.inertia[i]
            if M is not None:
                V = carrier + rates.V[i]
                f = M @ (rates.a[i] + carrier.cross(rates.V[i])) + V.cross(M @ V)
                total, along = total + f, along + posed.T[i].T @ f.data
            if own.armature is not None:
                along = along + posed.G[i].T @ (own.armature * rates.g[i])
        return stack(*outlets, total.data, along)

    def coriolis_inertia(self, parameters: Array, q: Array, v: Array, velocity: Array) -> Array:
        posed, constants = self._posed(parameters, q), self._constants(parameters)
        rates, o = self._rates(parameters, posed, v), len(self.outlets)
        found = np.zeros((self.dimension, self.dimension), dtype=object)
        found[...] = 0.0
        for slot, i in enumerate(self.outlets):
            own, at = constants[i].inertia, 6 * slot
            if own is not None:
                B = CoriolisInertia.of(own, Motion(velocity[at : at + 6]))
                found[at : at + 6, at : at + 3] = B.angular_columns() * 2.0
        carrier, at = Motion(velocity[6 * o : 6 * o + 6]), 6 * o
        for i, M in enumerate(posed.inertia):
            if M is not None:
                B_i = CoriolisInertia.of(M, carrier + rates.V[i]).angular_columns() * 2.0
                found[at : at + 6, at : at + 3] = found[at : at + 6, at : at + 3] + B_i
                found[at + 6 :, at : at + 3] = found[at + 6 :, at : at + 3] + posed.T[i].T @ B_i
        return _plain(found)

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0


# What follows from q is needed several times in a row, once for each formula: the last result is kept.
_last = threading.local()


def _remembered(kind: ClusterKind, parameters: Array, q: Array) -> _Posed:
    key = kind, parameters, q
    known = getattr(_last, "posed", None)
    if known is not None and all(one is other for one, other in zip(known[0], key, strict=True)):
        posed: _Posed = known[1]
        return posed
    posed = kind.pose(parameters, q)
    _last.posed = key, posed
    return posed


def _columns(vectors: Sequence[Array]) -> Array:
    columns: Array = np.stack(vectors, axis=1)
    return columns


def _plain(values: Array) -> Array:
    """An array of objects as one of numbers, if they are numbers."""
    kinds = {type(x) for x in values.reshape(-1)}
    if all(issubclass(kind, (float, complex, np.number)) for kind in kinds):
        numbers: Array = np.array(values.tolist()).reshape(values.shape)
        return numbers
    return values


def _count(each: Inner) -> int:
    """Number of constants of an inner body."""
    follower = 0 if each.follower is None else each.follower.constants
    return 12 + 10 * each.massive + each.stage.nv * each.armed + each.stage.own + follower


@dataclass(frozen=True)
class SlotKind(Unconstrained):
    """A node without degrees of freedom that moves with an outlet of a cluster, and carries bodies there.

    Args:
        index: Number of the outlet.
        outlets: Number of outlets of the cluster.
        rates: Number of its independent rates.
    """

    index: int
    outlets: int
    rates: int

    @property
    def name(self) -> str:
        return f"slot_{self.index}_of_{self.outlets}_{self.rates}"

    port: ClassVar[str] = WORLD_PORT
    dimension: ClassVar[int] = 6
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    parameter_count: ClassVar[int] = 0
    moving: ClassVar[bool] = False
    rigid: ClassVar[bool] = False
    bodily: ClassVar[bool] = True

    def manifold(self, _parameters: Array) -> PlainCoordinates:
        return PlainCoordinates()

    def weight(self, _parameters: Array, _q: Array) -> Slot:
        return Slot(self.index, self.outlets, self.rates)

    def joint_map(self, _parameters: Array, _q: Array | None = None) -> MotionColumns:
        return MotionColumns(np.zeros(0), 0)

    def inertia(self, _parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia.zero()

    def armature(self, _parameters: Array) -> Array:
        return np.zeros(0)

    def coriolis(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion, _carrier: Array) -> Motion:
        return Motion.zero()

    def gyroscopic(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion) -> Force:
        return Force.zero()

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(0)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0
