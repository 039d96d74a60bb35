"""Helical joint: a screw about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.base import AxialMotion, AxialStage
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.scalar import sincos
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Helical(AxialStage):
    """One angle [rad]; its constant is the pitch, the advance along z [m/rad]."""

    name: ClassVar[str] = "helical"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (True,)
    own: ClassVar[int] = 1

    def motion(self, own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]), own[0] * q[0])

    def joint_map(self, own: Array) -> MotionColumns:
        return MotionColumns(np.array([0.0, 0.0, 1.0, 0.0, 0.0, own[0]]), 1)
