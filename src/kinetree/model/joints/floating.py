"""Floating joint: moves freely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial.fixed import apply
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import (
    conjugate,
    exp_quaternion,
    log_quaternion,
    matrix_of,
    multiply,
    normalized,
    quaternion_tangent_map,
    rotation_of_quaternion,
    screw_displacement,
    screw_velocity,
)
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Floating(Stage):
    """Position [m], then a quaternion w, x, y, z of any length but zero.

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
        position = rng.uniform(-1.0, 1.0, size=(*shape, 3))
        return np.concatenate([position, normalized(rng.standard_normal((*shape, 4)))], axis=-1)

    def integrate(self, q: Array, v: Array) -> Array:
        """Follows the screw motion of a constant body twist: the exponential of SE(3)."""
        turn = normalized(q[..., 3:])
        step = screw_displacement(v[..., :3], v[..., 3:])
        position = q[..., :3] + apply(matrix_of(turn), step)
        return np.concatenate([position, normalized(multiply(turn, exp_quaternion(v[..., :3])))], axis=-1)

    def difference(self, q0: Array, q1: Array) -> Array:
        """The twist of the screw motion from q0 to q1 that turns by at most π."""
        turn = normalized(q0[..., 3:])
        angular = log_quaternion(multiply(conjugate(turn), normalized(q1[..., 3:])))
        step = apply(np.swapaxes(matrix_of(turn), -1, -2), q1[..., :3] - q0[..., :3])
        return np.concatenate([angular, screw_velocity(angular, step)], axis=-1)

    def tangent_map(self, q: Array) -> Array:
        result: Array = np.zeros((*q.shape[:-1], 6, 7))
        result[..., :3, 3:] = quaternion_tangent_map(q[..., 3:])
        result[..., 3:, :3] = np.swapaxes(matrix_of(q[..., 3:]), -1, -2)
        return result

    def normalize(self, q: Array) -> Array:
        return np.concatenate([q[..., :3], normalized(q[..., 3:])], axis=-1)
