"""Cylindrical joint: rotation about z and translation along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import AxialMotion, AxialStage
from kinetree.spatial.hinge import AxisMap
from kinetree.spatial.scalar import sincos
from kinetree.spatial.value import Array


@final
@dataclass(frozen=True)
class Cylindrical(AxialStage):
    """An angle [rad], then a distance [m]; velocities in the same order."""

    name: ClassVar[str] = "cylindrical"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    axes: ClassVar[int] = 1
    angles: ClassVar[tuple[bool, ...]] = (True, False)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]), q[1])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2, 5)
