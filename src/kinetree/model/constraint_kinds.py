"""What can be constrained: frames welded to the world or to each other, task rows, distances, couplings and loops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kinetree.errors import InputError
from kinetree.model.constraint_rows import DistanceRow, RowSet, loop_task, row_set
from kinetree.model.coupling import FunctionCoupling, LinearCoupling, PolynomialCoupling
from kinetree.model.loop import Loop
from kinetree.operational_space.products import product, times
from kinetree.operational_space.tasks import CenterOfMassTask, LoopTask, RelativeTask, Task, chosen_rows
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Weld:
    """A frame fixed relative to another one: a grasp, a foot on the ground, a closed loop.

    Attributes:
        frame: Name of the frame. The constraint's force acts on it, in the axes of `other`.
        other: Name of the frame that it is fixed to, on which the reaction force acts.
        rows: "all", "position", "orientation", or indices of components in the axes of `other`: 0–2 rotate about x, y
            and z, 3–5 translate along them.
    """

    frame: str
    other: str = "world"
    rows: str | tuple[int, ...] = "all"

    def __post_init__(self) -> None:
        for name in (self.frame, self.other):
            if not isinstance(name, str):
                raise InputError(f"a Weld takes names of frames, got {type(name).__name__}")
        if self.frame == self.other:
            raise InputError(f"{self}: a frame cannot be welded to itself")
        object.__setattr__(self, "rows", chosen_rows(self, self.rows))

    def __str__(self) -> str:
        return f"weld of frame {self.frame!r} to {self.other!r}"

    @property
    def task(self) -> Task | RelativeTask:
        """The rows that it constrains."""
        if self.other == "world":
            return Task(self.frame, self.rows)
        return RelativeTask(self.other, self.frame, self.rows)


@dataclass(frozen=True)
class Distance:
    """The distance between the origins of two frames: a rod without mass, a taut rope.

    Attributes:
        frame: Name of the first frame.
        other: Name of the second one.
        length: Their distance [m]; None for that at the configuration `at` of the constraints.
    """

    frame: str
    other: str
    length: float | None = None

    def __post_init__(self) -> None:
        for name in (self.frame, self.other):
            if not isinstance(name, str):
                raise InputError(f"a Distance takes names of frames, got {type(name).__name__}")
        if self.length is not None and not (isinstance(self.length, (int, float)) and 0.0 < self.length < np.inf):
            raise InputError(f"{self}: length is positive [m]; got {self.length!r}")

    def __str__(self) -> str:
        return f"distance between frames {self.frame!r} and {self.other!r}"


#: Constraints that are no rows of tasks, and say themselves what they hold.
_Own = Loop | LinearCoupling | PolynomialCoupling | FunctionCoupling
_OWN = (Loop, LinearCoupling, PolynomialCoupling, FunctionCoupling)
ReadConstraint = Weld | Task | RelativeTask | Distance | _Own
#: Anything accepted as a constraint. A frame name means a weld to the world.
AnyConstraint = str | ReadConstraint


def read_constraints(given: Any) -> tuple[ReadConstraint, ...]:
    """Normalise the user's constraints."""
    if isinstance(given, (str, Weld, Task, RelativeTask, Distance, *_OWN)) or not isinstance(given, Iterable):
        raise InputError("constraints is a sequence of Weld, names of frames and tasks; for one of them write [it]")
    if isinstance(given, (set, frozenset)):
        raise InputError("constraints is a set, which has no order, but rows have one; pass a list")
    found = tuple(Weld(one) if isinstance(one, str) else one for one in given)
    if not found:
        raise InputError("constraints is empty; use forward_dynamics")
    for one in found:
        if isinstance(one, CenterOfMassTask) or not isinstance(one, (Weld, Task, RelativeTask, Distance, *_OWN)):
            raise InputError(
                "constraints holds Weld, Distance, Task, RelativeTask, couplings, loops and names of frames; got "
                f"{type(one).__name__}"
            )
    return found


def names_of(constraints: Sequence[ReadConstraint]) -> tuple[str, ...]:
    """The welded frame or the loop's name, if that distinguishes the constraints; otherwise a full description."""
    short = [_short(one) for one in constraints]
    return tuple(name if short.count(name) == 1 else str(one) for name, one in zip(short, constraints, strict=True))


def _short(one: ReadConstraint) -> str:
    if isinstance(one, RelativeTask):
        return one.frame_b
    if isinstance(one, Loop):
        return one.name
    return one.frame if isinstance(one, (Weld, Task)) else str(one)


def _ends(task: Task | RelativeTask) -> tuple[str, str, Array]:
    """The constrained frame, the one that it is fixed to, and the constrained point in the first."""
    offset = np.eye(4)
    if isinstance(task, RelativeTask):
        return task.frame_b, task.frame_a, offset
    offset[:3, 3] = task.offset
    return task.frame, "world", offset


def _inverse(pose: Array) -> Array:
    result = np.zeros_like(pose)
    R = np.swapaxes(pose[..., :3, :3], -1, -2)
    result[..., :3, :3] = R
    result[..., :3, 3] = -times(R, pose[..., :3, 3])
    result[..., 3, 3] = 1.0
    return result


def held_poses(robot: Any, tasks: Sequence[Task | RelativeTask], q: Array | None) -> Array:
    """The poses that are held, as targets of the law, (m, 4, 4); identities if they are unknown."""
    found = []
    for task in tasks:
        frame, other, offset = _ends(task)
        T = np.eye(4)
        if q is not None and not isinstance(task, LoopTask):
            T = product(robot.pose(q, frame), offset)
            if other != "world":
                T = product(_inverse(robot.pose(q, other)), T)
        if isinstance(task, RelativeTask):
            found.append(np.eye(4))
        found.append(T)
    return np.array(found)


def task_of(one: Any) -> Task | RelativeTask:
    """The rows of a constraint between frames."""
    if isinstance(one, Weld):
        return one.task
    if isinstance(one, Loop):
        rows = (3, 4, 5) if one.kind == "connect" else (0, 1, 2, 3, 4, 5)
        return loop_task(one, rows, one.first, one.second)
    return cast(Task | RelativeTask, one)


def row_set_of(robot: Any, one: Any, at: Array | None) -> RowSet | None:
    """The rows of a constraint, unless they are those of a task."""
    if isinstance(one, Distance):
        length, zero = one.length, np.zeros(3)
        if length is None and at is None:
            raise InputError(f"{one}: give its length, or the configuration whose distance is held, at=q")
        if length is None:
            apart = robot.pose(at, one.other)[:3, 3] - robot.pose(at, one.frame)[:3, 3]
            length = math.sqrt(sum(x * x for x in apart.tolist()))
        return DistanceRow(robot, (one.frame, one.other), (zero, zero), length, str(one))
    return row_set(robot, one) if isinstance(one, _OWN) else None
