"""Prismatic joint: translation along z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import Stage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Prismatic(Stage):
    """One distance [m]."""

    name: ClassVar[str] = "prismatic"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (False,)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(placement.E, placement.r + placement.E[2] * q[0])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(5)
