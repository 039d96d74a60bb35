"""The node kind of a cluster: bodies whose joints depend on each other, as one node in the form of `spatial.cluster`.

Everything inside is expressed about the origin of the carrier, the body that the cluster hangs on, in its axes or in
others fixed to it, chosen such that as many constants as possible are zero. The motion of the carrier itself enters
through V_c × V_i only.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[J12] A. Jain, "Multibody graph transformations and analysis, part II: closed-chain constraint embedding", Nonlinear
      Dynamics 67, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinetree.errors import UnsupportedError
from kinetree.language.node import NodeManifold
from kinetree.model.joints.protocol import JointKind, PlainCoordinates, Series
from kinetree.model.loops.cluster_structure import ClusterStructure, InnerConstants, Posed, columns, plain
from kinetree.model.nodes.general import OutletKind
from kinetree.spatial.cluster import ClusterInertia, ClusterMap, ClusterWeight, Slot
from kinetree.spatial.dense import least_squares
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import stack
from kinetree.spatial.scalar import Constant, select
from kinetree.spatial.value import Array

# Newton steps after the prediction: their errors are squared each time, so that a tenth of a radian vanishes
_STEPS = 4
# loops open by more than this fraction of their size after all steps are not closed [m or rad]
_OPEN = Constant(1e-8, 1e-4)


@dataclass(frozen=True)
class ClusterKind(ClusterStructure):
    """All clusters with the same structure; a `language.node.NodeKind`."""

    moving: ClassVar[bool] = True
    rigid: ClassVar[bool] = False

    @property
    def rigid_multibody(self) -> bool:
        return not self.nodes

    @property
    def port(self) -> str:
        return f"cluster_{len(self.outlets)}_{self.nv}"

    @property
    def twists(self) -> tuple[int, ...]:
        return tuple(range(0, 6 * len(self.outlets) + 6, 6))

    @property
    def dimension(self) -> int:
        return 6 * len(self.outlets) + 6 + self.nv

    def manifold(self, parameters: Array) -> NodeManifold:
        if self.closures:
            return LoopManifold(self, parameters)
        free = tuple(each.stage.coordinates for each in self.inner if each.nq)
        return Series(free) if any(map(_curved, free)) else PlainCoordinates()

    def weight(self, parameters: Array, q: Array) -> ClusterWeight:
        posed = self.posed(parameters, q)
        up = [posed.inside.up[i].data for i in self.outlets]
        return ClusterWeight(stack(*up, self.turn(parameters)), len(self.outlets), self.nv)

    def joint_map(self, parameters: Array, q: Array | None = None) -> ClusterMap:
        posed, constants = self.posed(parameters, q), self.constants(parameters)
        blocks = []
        for i in self.outlets:
            if self.inner[i].parent < 0:  # in its own coordinates, most entries are constants
                blocks.append(self._own_map(i, posed, constants) @ posed.G[i])
            else:
                blocks.append(columns([(posed.inside.up[i] @ Motion(posed.T[i][:, c])).data for c in range(self.nv)]))
        return ClusterMap(stack(np.zeros(0), *blocks), len(self.outlets), self.nv)

    def _own_map(self, i: int, posed: Posed, constants: list[InnerConstants]) -> Array:
        """Joint motions of an inner body in its own coordinates, (6, stage.nv)."""
        _, H = self.inner[i].stage.frame_motion(constants[i].placement, constants[i].own, posed.inside.x[i])
        return columns(H)

    def inertia(self, parameters: Array, q: Array | None = None) -> ClusterInertia:
        posed, constants = self.posed(parameters, q), self.constants(parameters)
        R, Q, N = RigidInertia.zero(), np.zeros((6, self.nv)), np.zeros((self.nv, self.nv))
        for i, own in enumerate(constants):
            M = posed.inertia[i]
            if M is not None:
                U = np.stack([(M @ Motion(posed.T[i][:, c])).data for c in range(self.nv)], axis=1)
                R, Q, N = R + M, Q + U, N + posed.T[i].T @ U
            if own.armature is not None:
                N = N + posed.G[i].T @ (own.armature[:, None] * posed.G[i])
        for i, node in self.nodes:
            at = node.matrices(constants[i].own, posed.inside.x[i])
            root = columns([(posed.inside.up[i] @ Motion(posed.T[i][:, c])).data for c in range(self.nv)])
            Z = at.W @ root + at.H @ posed.G[i]  # velocity of the node per independent rate
            U = at.M @ Z
            back = [posed.inside.up[i].T @ at.back(U[:, c]) for c in range(self.nv)]
            R, Q, N = R + posed.inside.up[i].congruence(at.locked()), Q + columns([f.data for f in back]), N + Z.T @ U
        outlets = [(constants[i].inertia or RigidInertia.zero()).articulated() for i in self.outlets]
        return ClusterInertia.of(outlets, R, Q, N)

    def armature(self, _parameters: Array) -> Array:
        return np.zeros(self.nv)  # part of N: that of a coupled joint acts on all rates that it follows

    def coriolis(self, parameters: Array, q: Array | None, v: Array, velocity: Array, _carrier: Motion) -> Array:
        posed, constants = self.posed(parameters, q), self.constants(parameters)
        rates = self.rates(parameters, posed, v)
        o = len(self.outlets)
        carrier = Motion(velocity[6 * o : 6 * o + 6])
        pushed = []
        for slot, i in enumerate(self.outlets):
            if self.inner[i].parent < 0:
                S, V = self._own_map(i, posed, constants), Motion(velocity[6 * slot : 6 * slot + 6])
                own = V.cross(Motion(S @ (posed.G[i] @ v))) + Motion(S @ rates.g[i])
            else:
                own = posed.inside.up[i] @ (rates.a[i] + carrier.cross(rates.V[i]))
            pushed.append(own.data)
        return stack(*pushed, np.zeros(6 + self.nv))

    def gyroscopic(self, parameters: Array, q: Array | None, v: Array, velocity: Array) -> Array:
        posed, constants = self.posed(parameters, q), self.constants(parameters)
        rates = self.rates(parameters, posed, v)
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
        for i, node in self.nodes:
            c, x, up = constants[i].own, posed.inside.x[i], posed.inside.up[i]
            at = node.matrices(c, x)
            root, pushed = up @ (carrier + rates.V[i]), up @ (rates.a[i] + carrier.cross(rates.V[i]))
            F = node.force(at, c, x, posed.G[i] @ v, rates.g[i], root, pushed)
            f = up.T @ at.back(F)
            total, along = total + f, along + posed.T[i].T @ f.data + posed.G[i].T @ (at.H.T @ F)
        return stack(*outlets, total.data, along)

    def coriolis_inertia(self, parameters: Array, q: Array, v: Array, velocity: Array) -> Array:
        posed, constants = self.posed(parameters, q), self.constants(parameters)
        rates, o = self.rates(parameters, posed, v), len(self.outlets)
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
        return plain(found)

    def resistance(self, parameters: Array, q: Array, v: Array) -> Array:
        total: Array = np.zeros(self.nv)
        for i, node in self.nodes:
            posed, c = self.posed(parameters, q), self.constants(parameters)[i].own
            total = total + posed.G[i].T @ node.resistance(c, posed.inside.x[i], posed.G[i] @ v)
        return total

    def potential(self, parameters: Array, q: Array) -> Any:
        total: Any = 0.0
        for i, node in self.nodes:
            total = total + node.potential(self.constants(parameters)[i].own, self.posed(parameters, q).inside.x[i])
        return total

    # -- joints inside ------------------------------------------------------------------------------------------------

    def brackets(self, parameters: Array, q: Array, v: Array) -> Array:
        if not self.closures:
            return self.manifold(parameters).bracket(v)
        G = self.coupling(parameters, q)
        among_all: Array = self.series.bracket(G @ v) @ G
        return among_all[list(self.independent)]

    def coupling(self, parameters: Array, q: Array) -> Array:
        return np.concatenate(self.posed(parameters, q).G)

    def coupling_drift(self, parameters: Array, q: Array, v: Array) -> Array:
        return np.concatenate(self.rates(parameters, self.posed(parameters, q), v).g)

    def loops(self, parameters: Array, q: Array) -> tuple[Array, Array]:
        if not self.closures:
            return np.zeros(0), np.zeros((0, self.joint_rates))
        return self.residuals(parameters, self.inside(parameters, q))

    def closing(self, parameters: Array, q: Array, residuals: Array) -> Array:
        _, K = self.loops(parameters, q)
        rates = np.zeros((self.joint_rates, residuals.shape[1]), dtype=object)
        if self.dependent:
            rates[list(self.dependent)] = least_squares(K[:, list(self.dependent)], -residuals)
        return columns([self.series.rates(q, plain(column)) for column in rates.T])

    def moved(self, parameters: Array, q: Array, step: Array) -> Array:
        if self.closures:
            return self.series.integrate(q, step)
        free = [step[self.firsts[i] : self.firsts[i + 1]] for i, each in enumerate(self.inner) if not each.leaders]
        return self.manifold(parameters).integrate(q, np.concatenate(free))


@dataclass(frozen=True)
class LoopManifold:
    """The configurations of a cluster with closed loops: a `language.node.Manifold` whose points satisfy φ(q) = 0.

    q holds all joint coordinates, v the independent rates.
    """

    kind: ClusterKind
    parameters: Array

    def integrate(self, q: Array, step: Array) -> Array:
        """Move the independent joints, and let the others follow by Newton's method; NaN if they cannot."""
        kind, columns = self.kind, list(self.kind.dependent)
        q = kind.series.integrate(q, kind.coupling(self.parameters, q) @ step)
        for _ in range(_STEPS if columns else 0):
            residual, K = kind.loops(self.parameters, q)
            correction: list[Any] = [0.0] * kind.joint_rates
            for i, x in zip(columns, least_squares(K[:, columns], -residual[:, None])[:, 0], strict=True):
                correction[i] = x
            q = kind.series.integrate(q, np.array(correction))
        residual, _ = kind.loops(self.parameters, q)
        # open loops give NaN: a sum with 0 where they are closed
        closed: Array = q + select(residual @ residual, _OPEN * _OPEN, 0.0, np.nan)
        return closed

    def difference(self, q0: Array, q1: Array) -> Array:
        """The rates of the independent joints; the others follow."""
        self._require_coordinates()
        return self.kind.series.difference(q0, q1)[list(self.kind.independent)]

    def room(self, q: Array, limit: Array) -> Array:
        """That of the independent joints. Limits of the others bound nothing: there is no velocity to stop."""
        return self.kind.series.difference(q, limit)[list(self.kind.independent)]

    def rates(self, q: Array, v: Array) -> Array:
        return self.kind.series.rates(q, self.kind.coupling(self.parameters, q) @ v)

    def transport(self, step: Array) -> Array:
        return self._own(self.kind.series.transport(self._spread(step)))

    def right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.right_jacobian(self._spread(step)))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.inverse_right_jacobian(self._spread(step)))

    def bracket(self, x: Array) -> Array:
        return self._own(self.kind.series.bracket(self._spread(x)))

    def tangent_map(self, q: Array) -> Array:
        own: Array = self.kind.series.tangent_map(q)[list(self.kind.independent)]
        return own

    def normalize(self, q: Array) -> Array:
        return self.kind.series.normalize(q)

    def _spread(self, step: Array) -> Array:
        """A step of the independent joints alone, as one of all joints."""
        found: list[Any] = [0.0] * self.kind.joint_rates
        for i, x in zip(self.kind.independent, step, strict=True):
            found[i] = x
        return np.array(found)

    def _require_coordinates(self) -> None:
        """Raise if some independent rates are not those of whole joints: then no coordinates belong to them."""
        start, own = 0, set(self.kind.independent)
        for stage in self.kind.series.parts:
            rates = set(range(start, start + stage.nv))
            start += stage.nv
            if own & rates and not rates <= own and _curved(stage):
                raise UnsupportedError(
                    f"a single velocity of a {stage.name} joint is independent here, a rate without coordinate: there "
                    "are no differences of configurations, and no derivatives of integrate. Choose whole joints with "
                    "with_independent()"
                )

    def _own(self, matrix: Array) -> Array:
        self._require_coordinates()
        own: Array = matrix[np.ix_(self.kind.independent, self.kind.independent)]
        return own


def _curved(coordinates: JointKind) -> bool:
    """Whether coordinates are not plain numbers."""
    return type(coordinates).integrate is not PlainCoordinates.integrate


@dataclass(frozen=True)
class SlotKind(OutletKind):
    """An outlet of a cluster: one of several, of a cluster with some independent rates."""

    index: int
    outlets: int
    rates: int

    rigid_multibody: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"slot_{self.index}_of_{self.outlets}_{self.rates}"

    def weight(self, _parameters: Array, _q: Array) -> Slot:
        return Slot(self.index, self.outlets, self.rates)
