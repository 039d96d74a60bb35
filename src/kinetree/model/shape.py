"""Shapes of placements: which steps between two joint axes are zero or quarter turns, for all nodes of a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from kinetree.model.joints.base import AxialMotion
from kinetree.spatial.axial import ANY, AxialTransform, Form, placement_size
from kinetree.spatial.value import Array

#: Costs of the steps of a placement: some 25 operations of forward dynamics.
_TURN, _OFFSET = 4, 1
#: Every shape is compiled. A shape must save this much in a robot compared with the general one, two are merged if that
#: costs less, and there are at most so many for one kind of joint.
_WORTHWHILE, _NEGLIGIBLE, _MOST = 8, 6, 4


class Shape(NamedTuple):
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

    def __or__(self, other: Shape) -> Shape:
        """The smallest shape that has all steps of both."""
        return Shape(
            self.about_x if self.about_x == other.about_x else ANY,
            self.about_z if self.about_z == other.about_z else ANY,
            self.offsets | other.offsets,
        )


#: The shape of any placement.
GENERAL = Shape(ANY, ANY, 7)


class Steps(NamedTuple):
    """A placement in steps.

    Attributes:
        shape: Its smallest shape.
        numbers: Sine and cosine of the angle between the two axes, those of the turn about the parent's axis before,
            the offset r [m], and sine and cosine of the joint's angle at neutral q: nine numbers.
    """

    shape: Shape
    numbers: tuple[float, ...]


def numbers_in(shape: Shape, turns: bool, numbers: Array) -> Array:
    """Those numbers of steps, (n, 9), that a shape which includes theirs has; for joints that turn or do not."""
    about_x, about_z = shape.about_x == ANY, shape.about_z == ANY
    kept = [about_x, about_x, about_z, about_z, *(shape.offsets >> i & 1 for i in range(3)), turns, turns]
    chosen: Array = numbers[:, np.array(kept, dtype=bool)]
    return chosen


def shared(counts: Mapping[Shape, int]) -> dict[Shape, Shape]:
    """What shapes become, such that there are few. Given how often each occurs among nodes with one kind of joint."""
    becomes = {
        shape: shape if count * (GENERAL.cost - shape.cost) >= _WORTHWHILE else GENERAL
        for shape, count in counts.items()
    }
    users = Counter[Shape]()
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
