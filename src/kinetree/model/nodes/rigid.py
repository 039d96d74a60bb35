"""The node kinds of rigid bodies behind joints, and the shapes of their placements.

A shape names the steps between two joint axes that are zero or quarter turns for all nodes of a kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.language.node import WORLD_PORT, Unconstrained
from kinetree.model.joints.protocol import AxialMotion, AxialStage, Stage
from kinetree.spatial.axial import ANY, AxialTransform, Form, placement_size
from kinetree.spatial.hinge import JointMap
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Costs of the steps of a placement: some 25 operations of forward dynamics.
_TURN, _OFFSET = 4, 1
#: Every shape is compiled. A shape must save this much in a robot compared with the general one, two are merged if that
#: costs less, and there are at most so many for one kind of joint.
_WORTHWHILE, _NEGLIGIBLE, _MOST = 8, 6, 4


class PlacementShape(NamedTuple):
    """The steps from a parent's frame to a node's at neutral q, as in `spatial/axial.py`.

    Joints that turn have another constant: the angle at neutral q.

    Attributes:
        about_x: Angle between the two axes: a number of quarter turns, or `ANY`.
        about_z: Turn about the parent's axis before, likewise.
        offsets: Sum of 1, 2 and 4 for the components of the offset that need not be zero.
    """

    about_x: int
    about_z: int
    offsets: int

    @property
    def name(self) -> str:
        return "".join("any" if turn == ANY else str(turn) for turn in self[:2]) + f"_{self.offsets}"

    @property
    def size(self) -> int:
        """How many numbers its steps take."""
        return placement_size(Form(0, 0, *self))

    @property
    def cost(self) -> int:
        """What its steps cost, relative to each other."""
        turns = (self.about_x == ANY) + (self.about_z == ANY)
        return _TURN * turns + _OFFSET * self.offsets.bit_count()

    def transform(self, numbers: Array, motion: AxialMotion) -> AxialTransform:
        """The transform of a node with these numbers, after its joint moved."""
        moved = []
        if motion.turn is not None:
            (sine, cosine), (s, c) = motion.turn, numbers[self.size :]
            moved += [sine * c + cosine * s, cosine * c - sine * s]
        if motion.slide is not None:
            moved.append(motion.slide)
        form = Form(motion.turn is not None, motion.slide is not None, *self)
        return AxialTransform(np.concatenate([np.array(moved), numbers[: self.size]]), *form)

    def __or__(self, other: PlacementShape) -> PlacementShape:
        """The smallest shape that has all steps of both."""
        return PlacementShape(
            self.about_x if self.about_x == other.about_x else ANY,
            self.about_z if self.about_z == other.about_z else ANY,
            self.offsets | other.offsets,
        )


#: The shape of any placement.
GENERAL = PlacementShape(ANY, ANY, 7)


class PlacementSteps(NamedTuple):
    """A placement in steps: its smallest shape, and nine numbers.

    These are sine and cosine of the angle between the two axes, those of the turn about the parent's axis before, the
    offset r [m], and sine and cosine of the joint's angle at neutral q.
    """

    shape: PlacementShape
    numbers: tuple[float, ...]


def numbers_in(shape: PlacementShape, turns: bool, numbers: Array) -> Array:
    """Those numbers of steps, (n, 9), that a shape which includes theirs has; for joints that turn or do not."""
    about_x, about_z = shape.about_x == ANY, shape.about_z == ANY
    kept = [about_x, about_x, about_z, about_z, *(shape.offsets >> i & 1 for i in range(3)), turns, turns]
    chosen: Array = numbers[:, np.array(kept, dtype=bool)]
    return chosen


def shared(counts: Mapping[PlacementShape, int]) -> dict[PlacementShape, PlacementShape]:
    """What shapes become, such that there are few. Given how often each occurs among nodes with one kind of joint."""
    becomes = {
        shape: shape if count * (GENERAL.cost - shape.cost) >= _WORTHWHILE else GENERAL
        for shape, count in counts.items()
    }
    users = Counter[PlacementShape]()
    for shape, count in counts.items():
        users[becomes[shape]] += count
    while len(users) > 1:
        pairs = combinations(sorted(users), 2)
        added, one, other = min((sum(users[s] * ((a | b).cost - s.cost) for s in (a, b)), a, b) for a, b in pairs)
        if added > _NEGLIGIBLE and len(users) <= _MOST:
            break
        both = one | other
        count = users.pop(one) + users.pop(other)
        users[both] += count
        becomes = {shape: both if found in (one, other) else found for shape, found in becomes.items()}
    return becomes


#: Where the inertia of a body is among the constants of its node.
INERTIA = slice(0, RigidInertia.size)


@dataclass(frozen=True)
class BodyKind(Unconstrained, ABC):
    """What kinds of rigid bodies behind a joint have in common, whatever their constants."""

    joint: Stage

    port: ClassVar[str] = WORLD_PORT
    dimension: ClassVar[int] = 6
    moving: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    rigid_multibody: ClassVar[bool] = True

    @property
    def nq(self) -> int:
        return self.joint.nq

    @property
    def nv(self) -> int:
        return self.joint.nv

    def manifold(self, _parameters: Array) -> Stage:
        return self.joint

    @abstractmethod
    def joint_map(self, parameters: Array, _q: Array | None = None) -> Any: ...

    @abstractmethod
    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia: ...

    def coriolis(self, parameters: Array, _q: Array | None, v: Array, velocity: Motion, _carrier: Motion) -> Motion:
        # H is constant in the node's coordinates, so its rate of change is that of the rotating frame
        moved: Motion = velocity.cross(self.joint_map(parameters) @ v)
        return moved

    def gyroscopic(self, parameters: Array, _q: Array | None, _v: Array, velocity: Motion) -> Force:
        return velocity.cross(self.inertia(parameters) @ velocity)


@dataclass(frozen=True)
class JointedBody(BodyKind):
    """The formulas of all rigid bodies behind one kind of joint; a `language.node.NodeKind`.

    A node's constants are the 10 numbers of its rigid inertia, the armature of each degree of freedom if there is any,
    the joint's own constants, and the 12 numbers of its placement: from the parent node's coordinates to its own at
    neutral q.
    """

    has_armature: bool = False

    @cached_property
    def name(self) -> str:
        return self.joint.name + ("_armature" if self.has_armature else "")

    @property
    def parameter_count(self) -> int:
        return self._placement_start + Transform.size

    @property
    def rotors(self) -> slice:
        """Where the armature is among the constants of a node."""
        return slice(RigidInertia.size, self._own_start)

    @property
    def _own_start(self) -> int:
        return RigidInertia.size + (self.nv if self.has_armature else 0)

    @property
    def _placement_start(self) -> int:
        return self._own_start + self.joint.own

    def parameters(self, placement: Transform, inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node."""
        return self.laid_out(placement.data, inertia.data, armature, own)

    def laid_out(self, placement: Array, inertia: Array, armature: Array, own: Array) -> Array:
        """Lay out the constants of nodes, given in the last axis of arrays."""
        return np.concatenate([inertia, *([armature] if self.has_armature else []), own, placement], axis=-1)

    def weight(self, parameters: Array, q: Array) -> Transform | AxialTransform:
        placement = Transform(parameters[self._placement_start :])
        return self.joint.transform(placement, self._own(parameters), q)

    def _own(self, parameters: Array) -> Array:
        return parameters[self._own_start : self._placement_start]

    def joint_map(self, parameters: Array, _q: Array | None = None) -> JointMap:
        return self.joint.joint_map(self._own(parameters))

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia(parameters[INERTIA])

    def armature(self, parameters: Array) -> Array:
        return parameters[self.rotors] if self.has_armature else np.zeros(self.nv)

    def joint_maps(self, parameters: Array) -> Array:
        """The matrices H of nodes with given constants, (n, count) to (n, 6, nv)."""
        distinct = parameters if self.joint.own else parameters[:1]
        columns = range(self.nv)
        matrices = [[self.joint_map(own).column(i).data for i in columns] for own in distinct]
        return np.broadcast_to(np.array(matrices).transpose(0, 2, 1), (len(parameters), 6, self.nv))


@dataclass(frozen=True)
class AxialBody(JointedBody):
    """The formulas of all rigid bodies behind a joint along z whose placements have the same steps.

    Placements are the last of a node's constants because they differ in size: loops that do not read them are then the
    same for all shapes.
    """

    joint: AxialStage
    shape: PlacementShape = GENERAL

    @cached_property
    def name(self) -> str:
        return f"{JointedBody(self.joint, self.has_armature).name}_{self.shape.name}"

    @property
    def parameter_count(self) -> int:
        return self._placement_start + self.shape.size + 2 * self.joint.rotates

    def weight(self, parameters: Array, q: Array) -> AxialTransform:
        motion = self.joint.motion(self._own(parameters), q)
        return self.shape.transform(parameters[self._placement_start :], motion)
