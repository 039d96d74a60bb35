"""Revolute joint: rotation about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import Stage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.rotation import turn_about_z
from kinetree.spatial.scalar import sincos
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Revolute(Stage):
    """One angle [rad]; a continuous joint is a revolute joint without limits."""

    name: ClassVar[str] = "revolute"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (True,)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(turn_about_z(placement.E, *sincos(q[0])), placement.r)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2)
