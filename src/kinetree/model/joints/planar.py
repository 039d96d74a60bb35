"""Planar joint: moves in the x-y plane and turns about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial import fixed
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import screw_displacement, screw_velocity, turn_about_z
from kinetree.spatial.scalar import sincos
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Planar(Stage):
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

    def integrate(self, q: Array, v: Array) -> Array:
        step = screw_displacement(_about_z(v[..., 0]), _in_plane(v[..., 1:]))[..., :2]
        return np.concatenate([q[..., :2] + _turn(step, q[..., 2]), q[..., 2:] + v[..., :1]], axis=-1)

    def difference(self, q0: Array, q1: Array) -> Array:
        """The shorter way round: angles that differ by more than half a turn are the same rotation as closer ones."""
        turn = q1[..., 2] - q0[..., 2]
        turn = np.where(np.abs(turn) > np.pi, np.remainder(turn + np.pi, 2.0 * np.pi) - np.pi, turn)
        step = _turn(q1[..., :2] - q0[..., :2], -q0[..., 2])
        return np.concatenate([turn[..., None], screw_velocity(_about_z(turn), _in_plane(step))[..., :2]], axis=-1)

    def tangent_map(self, q: Array) -> Array:
        (sin, cos), zero = fixed.sincos(q[..., 2]), np.zeros(q.shape[:-1])
        rows = [[zero, zero, zero + 1.0], [cos, sin, zero], [-sin, cos, zero]]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _about_z(angle: Array) -> Array:
    return np.stack([np.zeros_like(angle), np.zeros_like(angle), angle], axis=-1)


def _in_plane(xy: Array) -> Array:
    return np.concatenate([xy, np.zeros_like(xy[..., :1])], axis=-1)


def _turn(xy: Array, angle: Array) -> Array:
    (sin, cos), x, y = fixed.sincos(angle), xy[..., 0], xy[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
