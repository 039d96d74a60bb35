"""Loops, as the builder and loaders describe them: constraints between the frames of two bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinetree.model.body import Record, frozen
from kinetree.model.loops.closure import Closure, Connect, DistanceClosure, HingeClosure, WeldClosure
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import alignment
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array


@dataclass(frozen=True, eq=False)
class Loop(Record):
    """A constraint that closes a loop.

    Attributes:
        name: Unique among loops.
        kind: "connect", "weld", "hinge" or "distance".
        bodies: The two bodies, either of which may be "world".
        first: Pose of the frame on the first body, (4, 4).
        second: Pose of the frame on the second body, (4, 4).
        axis: Axis of a hinge in both frames, (3,).
        length: Length of a distance [m].
    """

    name: str
    kind: str
    bodies: tuple[str, str]
    first: Array
    second: Array
    axis: Array
    length: float = 0.0

    def __post_init__(self) -> None:
        for name, shape in (("first", (4, 4)), ("second", (4, 4)), ("axis", (3,))):
            object.__setattr__(self, name, frozen(getattr(self, name), shape))

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} between {self.bodies[0]!r} and {self.bodies[1]!r}"

    def closure(self, a: int, b: int) -> Closure:
        """Its formulas, for bodies a and b of a cluster."""
        kinds: dict[str, Callable[[int, int], Closure]] = {
            "connect": Connect, "weld": WeldClosure, "hinge": HingeClosure, "distance": DistanceClosure
        }  # fmt: skip
        return kinds[self.kind](a, b)

    def constants(self, first: Array, second: Array) -> Array:
        """The numbers of its formulas, given the poses of both bodies' link frames in their nodes."""
        turn = pose(alignment(self.axis), np.zeros(3))
        A, B = (product(product(at, own), turn) for at, own in ((first, self.first), (second, self.second)))
        points = [A[:3, 3], B[:3, 3]]
        more: dict[str, list[Array]] = {
            "connect": [],
            "distance": [np.array([self.length])],
            "hinge": [A[:3, 0], A[:3, 1], B[:3, 2]],
            "weld": [A[:3, :3].reshape(-1), B[:3, :3].reshape(-1)],
        }
        return np.concatenate([*points, *more[self.kind]])
