"""Joints about or along one axis, z."""

from __future__ import annotations

from typing import final

import numpy as np

from kinetree.model.joints.protocol import AxialMotion, AxialStage
from kinetree.spatial.hinge import AxisMap, MotionColumns
from kinetree.spatial.scalar import sincos
from kinetree.spatial.value import Array


@final
class Cylindrical(AxialStage):
    """An angle [rad], then a distance [m]; velocities in the same order."""

    name = "cylindrical"
    nq = 2
    nv = 2
    angles = (True, False)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]), q[1])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2, 5)


@final
class Helical(AxialStage):
    """One angle [rad]; its constant is the pitch, the advance along z [m/rad]."""

    name = "helical"
    angles = (True,)
    own = 1

    def motion(self, own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]), own[0] * q[0])

    def joint_map(self, own: Array) -> MotionColumns:
        return MotionColumns(np.array([0.0, 0.0, 1.0, 0.0, 0.0, own[0]]), 1)


@final
class Prismatic(AxialStage):
    """One distance [m]."""

    name = "prismatic"
    rotates = False
    angles = (False,)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(slide=q[0])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(5)


@final
class Revolute(AxialStage):
    """One angle [rad]; a continuous joint is a revolute joint without limits."""

    name = "revolute"
    angles = (True,)

    def motion(self, _own: Array, q: Array) -> AxialMotion:
        return AxialMotion(sincos(q[0]))

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2)
