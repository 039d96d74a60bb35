"""The node kind of a rigid body behind a joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.recursion.node import WORLD_PORT, Unconstrained
from kinetree.spatial.hinge import JointMap
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class JointedBody(Unconstrained):
    """The formulas of all rigid bodies behind one kind of joint; a `recursion.node.NodeKind`.

    A node's constants are the 12 numbers of its placement (from the parent node's coordinates to its own at neutral q),
    the 10 of its rigid inertia, the armature of each degree of freedom if there is any, and the joint's own constants.
    """

    joint: Stage
    has_armature: bool = False

    @property
    def name(self) -> str:
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
        return self._own_start + self.joint.own

    @property
    def _own_start(self) -> int:
        return Transform.size + RigidInertia.size + (self.nv if self.has_armature else 0)

    def parameters(self, placement: Transform, inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node."""
        parts = [placement.data, inertia.data, armature if self.has_armature else np.zeros(0), own]
        return np.concatenate(parts).astype(float)

    def weight(self, parameters: Array, q: Array) -> Transform:
        return self.joint.transform(Transform(parameters[:12]), parameters[self._own_start :], q)

    def joint_map(self, parameters: Array, _q: Array | None = None) -> JointMap:
        return self.joint.joint_map(parameters[self._own_start :])

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia(parameters[12:22])

    def armature(self, parameters: Array) -> Array:
        return parameters[22 : 22 + self.nv] if self.has_armature else np.zeros(self.nv)

    def coriolis(self, parameters: Array, _q: Array | None, v: Array, velocity: Motion, _carrier: Motion) -> Motion:
        # H is constant in the node's coordinates, so its rate of change is that of the rotating frame
        return velocity.cross(self.joint_map(parameters) @ v)

    def gyroscopic(self, parameters: Array, _q: Array | None, _v: Array, velocity: Motion) -> Force:
        return velocity.cross(self.inertia(parameters) @ velocity)

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0
