"""Revolute joint: rotation about z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import AxialMotion, AxialStage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.scalar import sincos
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Revolute(AxialStage):
    """One angle [rad]; a continuous joint is a revolute joint without limits."""

    name: ClassVar[str] = "revolute"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (True,)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]))

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2)
