"""Joints about or along one axis.

Cylindrical joint: rotation about z and translation along it.

Helical joint: a screw about z.

Coordinates of a node that is not a rigid body: plain numbers, with q̇ = v.

Prismatic joint: translation along z.

Revolute joint: rotation about z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, final

import numpy as np

from kinetree.model.joints.protocol import AxialMotion, AxialStage, JointKind, Stage
from kinetree.spatial.hinge import AxisMap, MotionColumns
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


@cache
def plain(count: int) -> JointKind:
    """A kind of joint with `count` plain coordinates and no stages: its formulas are those of its node."""

    @final
    class Plain(JointKind):
        """Plain numbers."""

        name: ClassVar[str] = "node"
        nq: ClassVar[int] = count
        nv: ClassVar[int] = count
        angles: ClassVar[tuple[bool, ...]] = (False,) * count

        @property
        def stages(self) -> tuple[Stage, ...]:
            return ()

    return Plain()


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
