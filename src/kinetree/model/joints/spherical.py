"""Spherical joint: turns freely about a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import (
    conjugate,
    exp_quaternion,
    log_quaternion,
    multiply,
    normalized,
    quaternion_tangent_map,
    rotation_of_quaternion,
)
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Spherical(Stage):
    """A quaternion w, x, y, z of any length but zero; velocities are body-frame angular rates [rad/s]."""

    name: ClassVar[str] = "spherical"
    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    limited: ClassVar[bool] = False
    screw: ClassVar[tuple[int, ...]] = (0, 1, 2)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(rotation_of_quaternion(q).T @ placement.E, placement.r)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(0, 1, 2)

    def neutral(self) -> Array:
        return np.array([1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], _lower: Array, _upper: Array) -> Array:
        # normal deviates have no preferred direction, so that the rotations are uniform
        return normalized(rng.standard_normal((*shape, 4)))

    def integrate(self, q: Array, v: Array) -> Array:
        return normalized(multiply(normalized(q), exp_quaternion(v)))

    def difference(self, q0: Array, q1: Array) -> Array:
        """At most π long: the shorter way round."""
        return log_quaternion(multiply(conjugate(normalized(q0)), normalized(q1)))

    def tangent_map(self, q: Array) -> Array:
        return quaternion_tangent_map(q)

    def normalize(self, q: Array) -> Array:
        return normalized(q)
