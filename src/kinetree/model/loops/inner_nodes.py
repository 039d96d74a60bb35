"""General nodes inside a cluster: a root frame that has the node's coordinates, and a frame for each of its outlets.

The root frame is fixed to the body that carries the node. The twists of outlets are rows of the node's velocity
V = W V_root + H q̇, whose part of W is a rigid motion transform. So an outlet moves like a body behind a joint whose
map depends on the coordinates:

    a_i = a_root + V_i × H_i q̇ + Ḣ_i q̇ + H_i q̈

Both stand in the place of a `joints.protocol.Stage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.model.joints import KINDS, JointKind, Stage
from kinetree.model.nodes.general import GeneralKind, coordinates_of, resistance
from kinetree.spatial.inertia import ArticulatedInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class NodeRoot:
    """The root frame of a node, with its coordinates, constants and inertia."""

    kind: GeneralKind

    @property
    def name(self) -> str:
        return f"root of {self.kind.name}"

    @property
    def nq(self) -> int:
        return self.kind.nq

    @property
    def nv(self) -> int:
        return self.kind.nv

    @property
    def own(self) -> int:
        return len(self.kind.node.constants)

    @property
    def coordinates(self) -> JointKind:
        return coordinates_of(self.kind.node)

    def frame_motion(self, placement: Transform, _own: Array, _q: Array) -> tuple[Transform, list[Array]]:
        return placement, []

    def swerve(self, _own: Array, _q: Array, _v: Array) -> None:
        return None

    def matrices(self, own: Array, q: Array) -> NodeMatrices:
        """The node at a configuration."""
        node = self.kind.node
        return NodeMatrices(*(np.asarray(f(own, q)) for f in (node.weight, node.joint_map, node.inertia)))

    def force(self, at: NodeMatrices, own: Array, q: Array, v: Array, a: Array, V_p: Motion, alpha_p: Motion) -> Array:
        """F = M α + b for joint velocities v and accelerations a, and the motion of the root frame."""
        node, V = self.kind.node, at.W @ V_p.data + at.H @ v
        alpha = at.W @ alpha_p.data + at.H @ a + np.asarray(node.coriolis(own, q, v, V, V_p.data))
        force: Array = at.M @ alpha + np.asarray(node.gyroscopic(own, q, v, V))
        return force

    def resistance(self, own: Array, q: Array, v: Array) -> Array:
        """Forces of its springs and dampers, (nv,)."""
        return resistance(self.kind.node, own, q, v)

    def potential(self, own: Array, q: Array) -> Any:
        """Energy of its springs."""
        return self.kind.node.potential(own, q)


class NodeMatrices(NamedTuple):
    """Weight, joint map and inertia of a node at a configuration."""

    W: Array
    H: Array
    M: Array

    def locked(self) -> RigidInertia:
        """WᵀMW: of the node with locked joints, which is a rigid body."""
        return ArticulatedInertia.from_matrix(self.W.T @ self.M @ self.W).rigid()

    def back(self, force: Array) -> Force:
        """A force on the node as one on its root frame."""
        return Force(self.W.T @ force)


@dataclass(frozen=True)
class NodeOutlet:
    """The frame of an outlet, whose twist starts at a component of the node's velocity."""

    kind: GeneralKind
    start: int

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    own: ClassVar[int] = 0
    coordinates: ClassVar[JointKind] = KINDS["fixed"]

    @property
    def name(self) -> str:
        return f"outlet {self.start} of {self.kind.name}"

    def frame_motion(self, _placement: Transform, own: Array, q: Array) -> tuple[Transform, list[Array]]:
        W, H = (np.asarray(f(own, q))[self.start : self.start + 6] for f in (self._node.weight, self._node.joint_map))
        return Transform.from_matrix(W), [H[:, c] for c in range(self.kind.nv)]

    def swerve(self, own: Array, q: Array, v: Array) -> Motion:
        # a = Ẇ V_p + Ḣ v on a parent at rest
        V = np.asarray(self._node.joint_map(own, q)) @ v
        a = np.asarray(self._node.coriolis(own, q, v, V, np.zeros(6)))
        return Motion(a[self.start : self.start + 6])

    @property
    def _node(self) -> Any:
        return self.kind.node


#: What moves a frame inside a cluster.
InnerMotion = Stage | NodeRoot | NodeOutlet
