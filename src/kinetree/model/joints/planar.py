"""Planar joint: translation in the x-y plane and rotation about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from kinetree.model.joints.screw import ScrewStage
from kinetree.spatial import screw
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import turn_about_z
from kinetree.spatial.scalar import sincos
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Planar(ScrewStage):
    """x, y [m] and an angle [rad]; velocities are the angular rate, then x and y in the moving frame."""

    name: ClassVar[str] = "planar"
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (False, False, True)
    screw: ClassVar[tuple[int, ...]] = (2, 3, 4)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        moved = placement.r + placement.E[0] * q[0] + placement.E[1] * q[1]
        return Transform.of(turn_about_z(placement.E, *sincos(q[2])), moved)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2, 3, 4)

    def integrate(self, q: Array, step: Array) -> Array:
        twist = self.twist(step)
        x, y = _turned(screw.displacement(twist[:3], twist[3:]), *sincos(q[2]))
        return np.array([q[0] + x, q[1] + y, q[2] + step[0]])

    def difference(self, q0: Array, q1: Array) -> Array:
        """The shorter way round: angles that differ by more than half a turn are the same rotation as closer ones."""
        turn = screw.within_half_turn(q1[2] - q0[2])
        sine, cosine = sincos(q0[2])
        x, y = _turned(q1[:2] - q0[:2], -sine, cosine)
        w = np.array([0.0, 0.0, turn])
        velocity = screw.linear_velocity(w, screw.Angle.of(w), np.array([x, y, 0.0]))
        return np.array([turn, velocity[0], velocity[1]])

    def rates(self, q: Array, v: Array) -> Array:
        x, y = _turned(v[1:], *sincos(q[2]))
        return np.array([x, y, v[0]])

    def tangent_map(self, q: Array) -> Array:
        sine, cosine = sincos(q[2])
        return np.array([[0.0, 0.0, 1.0], [cosine, sine, 0.0], [-sine, cosine, 0.0]])


def _turned(xy: Array, sine: Any, cosine: Any) -> tuple[Any, Any]:
    return cosine * xy[0] - sine * xy[1], sine * xy[0] + cosine * xy[1]
