"""Translational joint: translation along x, y and z without rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import Stage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Translational(Stage):
    """Three distances [m]."""

    name: ClassVar[str] = "translational"
    rotates: ClassVar[bool] = False
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3
    angles: ClassVar[tuple[bool, ...]] = (False, False, False)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(placement.E, placement.r + placement.E.T @ q)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(3, 4, 5)
