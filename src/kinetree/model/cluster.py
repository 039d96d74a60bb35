"""The node kind of a cluster: bodies whose joints are coupled, as one node in the carrier form of `spatial.cluster`.

Everything inside is expressed in the coordinates of the carrier, the body that the cluster hangs on, about its origin.
For body i with inner parent π(i), joint motions S_i and rates q̇ = G v of the joints:

    T_i = T_π(i) + S_i G_i                        V_i = T_i v    velocity relative to the carrier
    a_i = a_π(i) + V_i × S_i q̇_i + S_i (Ġ v)_i                   its acceleration at v̇ = 0

The motion of the carrier itself enters through V_c × V_i only.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[J12] A. Jain, "Multibody graph transformations and analysis, part II: closed-chain constraint embedding", Nonlinear
      Dynamics 67, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.model.follower import Follower
from kinetree.model.joints.base import PlainCoordinates, Stage
from kinetree.model.joints.series import Series
from kinetree.recursion.node import WORLD_PORT, Manifold
from kinetree.spatial.cluster import ClusterInertia, ClusterMap, ClusterWeight, Slot
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import stack


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
        up: Transforms from the carrier.
        S: Joint motions, (6, stage.nv).
        G: Joint rates per independent rate, (stage.nv, n).
        T: Motion of the body per independent rate, (6, n).
        x: Joint coordinates.
        inertia: Inertias in the carrier's coordinates; None for massless bodies and outlets.
    """

    up: list[Transform]
    S: list[Array]
    G: list[Array]
    T: list[Array]
    x: list[Array]
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
    """

    inner: tuple[Inner, ...]
    outlets: tuple[int, ...]

    moving: ClassVar[bool] = True
    rigid: ClassVar[bool] = False

    @cached_property
    def name(self) -> str:
        structure = repr((tuple(each.key for each in self.inner), self.outlets))
        return f"cluster_of_{len(self.inner)}_{sha256(structure.encode()).hexdigest()[:16]}"

    @property
    def port(self) -> str:
        return f"cluster_{len(self.outlets)}_{self.nv}"

    @cached_property
    def nq(self) -> int:
        return sum(each.nq for each in self.inner)

    @cached_property
    def nv(self) -> int:
        return sum(each.nv for each in self.inner)

    @property
    def dimension(self) -> int:
        return 6 * len(self.outlets) + 6 + self.nv

    @cached_property
    def parameter_count(self) -> int:
        return sum(_count(each) for each in self.inner)

    @cached_property
    def manifold(self) -> Manifold:
        free = tuple(each.stage for each in self.inner if each.follower is None)
        return PlainCoordinates() if all(stage.nq == 1 for stage in free) else Series(free)

    def parameters(self, inner: list[InnerConstants]) -> Array:
        """Lay out the constants of one cluster."""
        parts: list[Array] = []
        for each, given in zip(self.inner, inner, strict=True):
            parts.append(given.placement.data)
            if each.massive and given.inertia is not None:
                parts.append(given.inertia.data)
            if each.armed and given.armature is not None:
                parts.append(given.armature)
            parts += [given.own, given.follower]
        return np.concatenate(parts).astype(float)

    def _constants(self, parameters: Array) -> list[InnerConstants]:
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

    def _coupled(self, constants: list[InnerConstants], q: Array) -> tuple[list[Array], list[Array]]:
        """Coordinates of each joint, and its rates per independent rate."""
        x: dict[int, Array] = {}
        G: dict[int, Array] = {}
        column, start = 0, 0
        for i, each in enumerate(self.inner):
            if each.follower is None:
                x[i] = q[start : start + each.nq]
                G[i] = np.eye(self.nv)[column : column + each.nv]
                column, start = column + each.nv, start + each.nq
        for i, follower, leaders in self._followers:
            c, leading = constants[i].follower, stack(*(x[leader] for leader in leaders))
            x[i] = np.array([follower.value(c, leading)])
            G[i] = np.zeros((1, self.nv))
            for slope, leader in zip(follower.slopes(c, leading), leaders, strict=True):
                G[i] = G[i] + slope * G[leader]
        count = range(len(self.inner))
        return [x[i] for i in count], [G[i] for i in count]

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
        constants = self._constants(parameters)
        x, G = self._coupled(constants, q)
        up: list[Transform] = []
        S: list[Array] = []
        T: list[Array] = []
        inertia: list[RigidInertia | None] = []
        for i, (each, own) in enumerate(zip(self.inner, constants, strict=True)):
            X = each.stage.transform(own.placement, own.own, x[i])
            up.append(X if each.parent < 0 else X @ up[each.parent])
            H = each.stage.joint_map(own.own)
            S.append(np.stack([up[i].back(H.column(c)).data for c in range(each.stage.nv)], axis=1))
            moved = S[i] @ G[i]
            T.append(moved if each.parent < 0 else T[each.parent] + moved)
            inside = own.inertia is not None and i not in self.outlets
            inertia.append(up[i].congruence(own.inertia) if inside and own.inertia is not None else None)
        return _Posed(up, S, G, T, x, inertia)

    def _rates(self, parameters: Array, posed: _Posed, v: Array) -> _Rates:
        constants = self._constants(parameters)
        rates = [G @ v for G in posed.G]
        g = [np.zeros(each.stage.nv) for each in self.inner]
        for i, follower, leaders in self._followers:
            c, leading = constants[i].follower, stack(*(posed.x[leader] for leader in leaders))
            total = follower.curvature(c, leading, stack(*(rates[leader] for leader in leaders)))
            for slope, leader in zip(follower.slopes(c, leading), leaders, strict=True):
                total = total + slope * g[leader][0]
            g[i] = np.array([total])
        V: list[Motion] = []
        a: list[Motion] = []
        for i, each in enumerate(self.inner):
            own = Motion(posed.S[i] @ rates[i])
            V.append(own if each.parent < 0 else V[each.parent] + own)
            pushed = V[i].cross(own) + Motion(posed.S[i] @ g[i])
            a.append(pushed if each.parent < 0 else a[each.parent] + pushed)
        return _Rates(V, a, g)

    # -- the node -----------------------------------------------------------------------------------------------------

    def weight(self, parameters: Array, q: Array) -> ClusterWeight:
        posed = self._posed(parameters, q)
        data = stack(np.zeros(0), *(posed.up[i].data for i in self.outlets))
        return ClusterWeight(data, len(self.outlets), self.nv)

    def joint_map(self, parameters: Array, q: Array | None = None) -> ClusterMap:
        posed = self._posed(parameters, q)
        blocks = [
            np.stack([(posed.up[i] @ Motion(posed.T[i][:, c])).data for c in range(self.nv)], axis=1)
            for i in self.outlets
        ]
        return ClusterMap(stack(np.zeros(0), *blocks), len(self.outlets), self.nv)

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

    def coriolis(self, parameters: Array, q: Array | None, v: Array, _velocity: Array, carrier: Motion) -> Array:
        posed = self._posed(parameters, q)
        rates = self._rates(parameters, posed, v)
        pushed = [(posed.up[i] @ (rates.a[i] + carrier.cross(rates.V[i]))).data for i in self.outlets]
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

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0


def _count(each: Inner) -> int:
    """Number of constants of an inner body."""
    follower = 0 if each.follower is None else each.follower.constants
    return 12 + 10 * each.massive + each.stage.nv * each.armed + each.stage.own + follower


@dataclass(frozen=True)
class SlotKind:
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
    manifold: ClassVar[PlainCoordinates] = PlainCoordinates()

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
