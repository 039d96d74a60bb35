"""Spherical joint: free rotation about a point."""

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
class Spherical(ScrewStage):
    """A quaternion w, x, y, z of any nonzero length; velocities are body-frame angular rates [rad/s]."""

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
        # the normal distribution is isotropic, so rotations are uniform
        return normalized(rng.standard_normal((*shape, 4)))

    def integrate(self, q: Array, step: Array) -> Array:
        return screw.turned(screw.normalized(q), step)

    def difference(self, q0: Array, q1: Array) -> Array:
        return screw.turn_between(screw.scaled(q0)[0], screw.scaled(q1)[0])[0]

    def rates(self, q: Array, v: Array) -> Array:
        return screw.quaternion_rates(q, v)

    def tangent_map(self, q: Array) -> Array:
        return screw.tangent_of_quaternion(q)

    def normalize(self, q: Array) -> Array:
        return screw.normalized(q)
