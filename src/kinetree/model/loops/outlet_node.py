"""The node kind that carries bodies on an outlet of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinetree.language.node import WORLD_PORT, Unconstrained
from kinetree.model.joints.protocol import PlainCoordinates
from kinetree.spatial.cluster import Slot
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class SlotKind(Unconstrained):
    """A node without degrees of freedom that moves with an outlet of a cluster, and carries bodies there.

    Args:
        index: Number of the outlet.
        outlets: Number of outlets of the cluster.
        rates: Number of its independent rates.
    """

    index: int
    outlets: int
    rates: int

    @property
    def name(self) -> str:
        return f"slot_{self.index}_of_{self.outlets}_{self.rates}"

    port: ClassVar[str] = WORLD_PORT
    dimension: ClassVar[int] = 6
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    parameter_count: ClassVar[int] = 0
    moving: ClassVar[bool] = False
    rigid: ClassVar[bool] = False
    rigid_multibody: ClassVar[bool] = True

    def manifold(self, _parameters: Array) -> PlainCoordinates:
        return PlainCoordinates()

    def weight(self, _parameters: Array, _q: Array) -> Slot:
        return Slot(self.index, self.outlets, self.rates)

    def joint_map(self, _parameters: Array, _q: Array | None = None) -> MotionColumns:
        return MotionColumns(np.zeros(0), 0)

    def inertia(self, _parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia.zero()

    def armature(self, _parameters: Array) -> Array:
        return np.zeros(0)

    def coriolis(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion, _carrier: Array) -> Motion:
        return Motion.zero()

    def gyroscopic(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion) -> Force:
        return Force.zero()

    def resistance(self, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(0)

    def potential(self, _parameters: Array, _q: Array) -> float:
        return 0.0
