"""The node kind of a rigid body behind a joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.model.joints.base import AxialStage, Stage
from kinetree.model.shape import Shape, Steps
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
    the joint's own constants, and its placement: from the parent node's coordinates to its own at neutral q. Placements
    come last because they differ in size, so that loops that do not read them are the same for all shapes.

    Attributes:
        joint: The joint.
        has_armature: Whether any of its degrees of freedom has armature.
        shape: The steps of placements, for joints along an axis. Without one, a placement is a transform of 12 numbers.
    """

    joint: Stage
    has_armature: bool = False
    shape: Shape | None = None

    @property
    def name(self) -> str:
        shape = "" if self.shape is None else f"_{self.shape.name}"
        return self.joint.name + shape + ("_armature" if self.has_armature else "")

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
        if self.shape is None:
            return self._placement_start + Transform.size
        return self._placement_start + self.shape.size + 2 * self.joint.rotates

    @property
    def _own_start(self) -> int:
        return RigidInertia.size + (self.nv if self.has_armature else 0)

    @property
    def _placement_start(self) -> int:
        return self._own_start + self.joint.own

    def parameters(self, placement: Transform | Steps, inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node. The placement is in steps if the kind has a shape."""
        if self.shape is None:
            numbers = placement.data
        else:
            numbers = placement.numbers(self.shape, self.joint.rotates)
        parts = [inertia.data, armature if self.has_armature else np.zeros(0), own, numbers]
        return np.concatenate(parts).astype(float)

    def weight(self, parameters: Array, q: Array) -> Transform | AxialTransform:
        own, placement = parameters[self._own_start : self._placement_start], parameters[self._placement_start :]
        if self.shape is None:
            return self.joint.transform(Transform(placement), own, q)
        return self.shape.transform(placement, self.joint.motion(own, q))

    def joint_map(self, parameters: Array, _q: Array | None = None) -> JointMap:
        return self.joint.joint_map(parameters[self._own_start : self._placement_start])

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia(parameters[INERTIA])

    def armature(self, parameters: Array) -> Array:
        return parameters[RigidInertia.size : self._own_start] if self.has_armature else np.zeros(self.nv)

    def coriolis(self, parameters: Array, _q: Array | None, v: Array, velocity: Motion, _carrier: Motion) -> Motion:
        # H is constant in the node's coordinates, so its rate of change is that of the rotating frame
        return velocity.cross(self.joint_map(parameters) @ v)

    def gyroscopic(self, parameters: Array, _q: Array | None, _v: Array, velocity: Motion) -> Force:
        return velocity.cross(self.inertia(parameters) @ velocity)

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0
