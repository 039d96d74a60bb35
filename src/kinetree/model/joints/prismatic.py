"""Prismatic joint: translation along z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import AxialMotion, AxialStage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Prismatic(AxialStage):
    """One distance [m]."""

    name: ClassVar[str] = "prismatic"
    rotates: ClassVar[bool] = False
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (False,)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(slide=q[0])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(5)
