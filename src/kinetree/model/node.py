"""The node kinds of rigid bodies behind joints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from kinetree.model.joints.base import AxialStage, Stage
from kinetree.model.shape import GENERAL, Shape
from kinetree.recursion.node import WORLD_PORT, Unconstrained
from kinetree.spatial.axial import AxialTransform
from kinetree.spatial.hinge import JointMap
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Where the inertia of a body is among the constants of its node.
INERTIA = slice(0, RigidInertia.size)


@dataclass(frozen=True)
class JointedBody(Unconstrained):
    """The formulas of all rigid bodies behind one kind of joint; a `recursion.node.NodeKind`.

    A node's constants are the 10 numbers of its rigid inertia, the armature of each degree of freedom if there is any,
    the joint's own constants, and the 12 numbers of its placement: from the parent node's coordinates to its own at
    neutral q.
    """

    joint: Stage
    has_armature: bool = False

    rigid_multibody: ClassVar[bool] = True

    @cached_property
    def name(self) -> str:
        return self._joint_name

    @property
    def _joint_name(self) -> str:
        return self.joint.name + ("_armature" if self.has_armature else "")

    @property
    def port(self) -> str:
        return WORLD_PORT

    @property
    def nq(self) -> int:
        return self.joint.nq

    @property
    def nv(self) -> int:
        return self.joint.nv

    @property
    def dimension(self) -> int:
        return 6

    @property
    def moving(self) -> bool:
        return False

    @property
    def rigid(self) -> bool:
        return True

    def manifold(self, _parameters: Array) -> Stage:
        return self.joint

    @property
    def parameter_count(self) -> int:
        return self._placement_start + Transform.size

    @property
    def _own_start(self) -> int:
        return RigidInertia.size + (self.nv if self.has_armature else 0)

    @property
    def _placement_start(self) -> int:
        return self._own_start + self.joint.own

    def parameters(self, placement: Transform, inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node."""
        return self.laid_out(placement.data, inertia.data, armature, own)

    def laid_out(self, placement: Array, inertia: Array, armature: Array, own: Array) -> Array:
        """Lay out the constants of nodes, given in the last axis of arrays."""
        return np.concatenate([inertia, *([armature] if self.has_armature else []), own, placement], axis=-1)

    def weight(self, parameters: Array, q: Array) -> Transform | AxialTransform:
        placement = Transform(parameters[self._placement_start :])
        return self.joint.transform(placement, self._own(parameters), q)

    def _own(self, parameters: Array) -> Array:
        return parameters[self._own_start : self._placement_start]

    def joint_map(self, parameters: Array, _q: Array | None = None) -> JointMap:
        return self.joint.joint_map(self._own(parameters))

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia(parameters[INERTIA])

    def armature(self, parameters: Array) -> Array:
        return parameters[RigidInertia.size : self._own_start] if self.has_armature else np.zeros(self.nv)

    def joint_maps(self, parameters: Array) -> Array:
        """The matrices H of nodes with given constants, (n, count) to (n, 6, nv)."""
        distinct = parameters if self.joint.own else parameters[:1]
        columns = range(self.nv)
        matrices = [[self.joint_map(own).column(i).data for i in columns] for own in distinct]
        return np.broadcast_to(np.array(matrices).transpose(0, 2, 1), (len(parameters), 6, self.nv))

    def coriolis(self, parameters: Array, _q: Array | None, v: Array, velocity: Motion, _carrier: Motion) -> Motion:
        # H is constant in the node's coordinates, so its rate of change is that of the rotating frame
        return velocity.cross(self.joint_map(parameters) @ v)

    def gyroscopic(self, parameters: Array, _q: Array | None, _v: Array, velocity: Motion) -> Force:
        return velocity.cross(self.inertia(parameters) @ velocity)

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0


@dataclass(frozen=True)
class AxialBody(JointedBody):
    """The formulas of all rigid bodies behind a joint along z whose placements have the same steps.

    Placements are the last of a node's constants because they differ in size: loops that do not read them are then the
    same for all shapes.
    """

    joint: AxialStage
    shape: Shape = GENERAL

    @cached_property
    def name(self) -> str:
        return f"{self._joint_name}_{self.shape.name}"

    @property
    def parameter_count(self) -> int:
        return self._placement_start + self.shape.size + 2 * self.joint.rotates

    def weight(self, parameters: Array, q: Array) -> AxialTransform:
        motion = self.joint.motion(self._own(parameters), q)
        return self.shape.transform(parameters[self._placement_start :], motion)
