"""Floating joint: six degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.screw import ScrewStage
from kinetree.spatial import screw
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import normalized, rotation_of_quaternion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Floating(ScrewStage):
    """Position [m], then a quaternion w, x, y, z of any nonzero length.

    Velocities are the body-frame angular rate [rad/s], then the body-frame velocity of the origin [m/s].
    """

    name: ClassVar[str] = "floating"
    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6
    limited: ClassVar[bool] = False
    screw: ClassVar[tuple[int, ...]] = (0, 1, 2, 3, 4, 5)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        E = rotation_of_quaternion(q[3:]).T @ placement.E
        return Transform.of(E, placement.r + placement.E.T @ q[:3])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(0, 1, 2, 3, 4, 5)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], _lower: Array, _upper: Array) -> Array:
        q = np.empty((*shape, 7))
        q[..., :3] = -1.0 + 2.0 * rng.random((*shape, 3))
        q[..., 3:] = normalized(rng.standard_normal((*shape, 4)))
        return q

    def integrate(self, q: Array, step: Array) -> Array:
        """Follows the screw motion of a constant body twist: the exponential of SE(3)."""
        turn = screw.normalized(q[3:])
        moved = screw.rotated(turn, screw.displacement(step[:3], step[3:]))
        return np.concatenate([q[:3] + moved, screw.turned(turn, step[:3])])

    def difference(self, q0: Array, q1: Array) -> Array:
        """The twist of the screw motion from q0 to q1 that turns by at most π."""
        turn = screw.normalized(q0[3:])
        angular, angle = screw.turn_between(turn, screw.scaled(q1[3:])[0])
        moved = screw.rotated(screw.conjugate(turn), q1[:3] - q0[:3])
        return np.concatenate([angular, screw.linear_velocity(angular, angle, moved)])

    def rates(self, q: Array, v: Array) -> Array:
        moved = rotation_of_quaternion(q[3:]) @ v[3:]
        return np.concatenate([moved, screw.quaternion_rates(q[3:], v[:3])])

    def tangent_map(self, q: Array) -> Array:
        turned = np.concatenate([np.zeros((3, 3)), screw.tangent_of_quaternion(q[3:])], axis=1)
        moved = np.concatenate([rotation_of_quaternion(screw.normalized(q[3:])).T, np.zeros((3, 4))], axis=1)
        return np.concatenate([turned, moved])

    def normalize(self, q: Array) -> Array:
        return np.concatenate([q[:3], screw.normalized(q[3:])])
