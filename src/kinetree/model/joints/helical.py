"""Helical joint: a screw about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.rotation import turn_about_z
from kinetree.spatial.scalar import sincos
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Helical(Stage):
    """One angle [rad]; its constant is the pitch, the advance along z [m/rad]."""

    name: ClassVar[str] = "helical"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (True,)
    own: ClassVar[int] = 1

    def transform(self, placement: Transform, own: Array, q: Array) -> Transform:
        advanced = placement.r + placement.E[2] * (own[0] * q[0])
        return Transform.of(turn_about_z(placement.E, *sincos(q[0])), advanced)

    def joint_map(self, own: Array) -> MotionColumns:
        return MotionColumns(np.array([0.0, 0.0, 1.0, 0.0, 0.0, own[0]]), 1)
