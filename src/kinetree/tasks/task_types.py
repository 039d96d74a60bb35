"""Tasks: components of the motion of a frame, of one frame relative to another, or of the centre of mass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinetree.algorithms import methods
from kinetree.algorithms.methods.choice import choose
from kinetree.errors import InputError, UnknownNameError
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.spatial.transform import Transform

#: Published algorithms: values of `method=` besides "auto".
METHODS = tuple(methods.ALGORITHMS)


def chosen(method: str, mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The name of the algorithm for some tasks of a mechanism; resolves "auto"."""
    if method == "auto":
        return choose(mechanism, sites)
    require_method(method)
    return method


def require_method(method: str) -> None:
    """Raise `UnknownNameError` unless this is a value of `method=`."""
    known = ("auto", *METHODS)
    if method not in known:
        raise UnknownNameError("method", method, known)


#: Names of choices of rows. Angular components come first.
ROWS = {"all": (0, 1, 2, 3, 4, 5), "orientation": (0, 1, 2), "position": (3, 4, 5)}


@dataclass(frozen=True)
class Task:
    """The motion of a point fixed to a frame, or some of its components.

    Attributes:
        frame: Name of the frame.
        rows: "all", "position", "orientation", or indices of components: 0–2 angular, 3–5 linear (x, y, z).
        offset: The point, in the frame's coordinates, (3,) [m].
    """

    frame: str
    rows: str | tuple[int, ...] = "all"
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _require_name(self, self.frame)
        object.__setattr__(self, "rows", chosen_rows(self, self.rows))
        try:
            x, y, z = (float(value) for value in self.offset)
        except (TypeError, ValueError):
            raise InputError(f"{self}: offset is a point (x, y, z) in metres, got {self.offset!r}") from None
        if not np.isfinite([x, y, z]).all():
            raise InputError(f"{self}: offset must be finite, got {self.offset!r}")
        object.__setattr__(self, "offset", (x, y, z))

    def __str__(self) -> str:
        return f"task of frame {self.frame!r}"


@dataclass(frozen=True)
class RelativeTask:
    """The motion of one frame relative to another: the rate of change of the pose of `frame_b` in `frame_a`.

    It consists of the angular velocity of b relative to a and the velocity of b's origin relative to a, both in a's
    coordinates, regardless of the reference of other tasks.

    Attributes:
        frame_a: Name of the reference frame.
        frame_b: Name of the moving frame.
        rows: As for `Task`.
    """

    frame_a: str
    frame_b: str
    rows: str | tuple[int, ...] = "all"

    def __post_init__(self) -> None:
        _require_name(self, self.frame_a)
        _require_name(self, self.frame_b)
        object.__setattr__(self, "rows", chosen_rows(self, self.rows))

    def __str__(self) -> str:
        return f"relative task of frames {self.frame_a!r} and {self.frame_b!r}"


@dataclass(frozen=True)
class LoopTask(RelativeTask):
    """Internal. A relative task of frames that are placed on the named ones, for a loop that has a name of its own.

    Attributes:
        name: Name of the loop.
        placement_a: The first 12 numbers of the pose of the reference frame in `frame_a`.
        placement_b: The same for the moving frame in `frame_b`.
    """

    name: str = ""
    placement_a: tuple[float, ...] = ()
    placement_b: tuple[float, ...] = ()


@dataclass(frozen=True)
class CenterOfMassTask:
    """The velocity of the centre of mass of all moving bodies, in world axes.

    Attributes:
        rows: "all" or "position" for x, y and z, or indices of components: 3–5 for x, y, z.
    """

    rows: str | tuple[int, ...] = "position"

    def __post_init__(self) -> None:
        rows = "position" if isinstance(self.rows, str) and self.rows == "all" else self.rows
        rows = chosen_rows(self, rows)
        if min(rows) < 3:
            raise InputError(f"{self}: it has a position but no orientation; its rows are 3, 4 and 5, got {rows}")
        object.__setattr__(self, "rows", rows)

    def __str__(self) -> str:
        return "task of the centre of mass"


AnyTask = Task | RelativeTask | CenterOfMassTask


def _require_name(task: object, frame: object) -> None:
    if not isinstance(frame, str):
        raise InputError(f"a {type(task).__name__} needs names of frames, got {type(frame).__name__}")


def chosen_rows(task: object, rows: Any) -> tuple[int, ...]:
    """Indices of the components for a choice of rows; the rows of a `Task` are such indices already."""
    if isinstance(rows, str):
        if rows not in ROWS:
            raise InputError(f"{task}: rows is one of {', '.join(ROWS)}, or numbers from 0 to 5; got {rows!r}")
        return ROWS[rows]
    try:
        numbers = tuple(rows)
    except TypeError:
        raise InputError(f"{task}: rows is one of {', '.join(ROWS)}, or numbers from 0 to 5; got {rows!r}") from None
    if not numbers:
        raise InputError(f"{task}: it has no rows; omit the task")
    for row in numbers:
        if isinstance(row, (bool, np.bool_)) or not isinstance(row, (int, np.integer)) or not 0 <= row <= 5:
            raise InputError(f"{task}: rows are numbers from 0 to 5, got {row!r}")
    if len(set(numbers)) != len(numbers):
        raise InputError(f"{task}: duplicate row in {numbers}")
    return tuple(int(row) for row in numbers)


def read_tasks(given: Any, what: str) -> tuple[AnyTask, ...]:
    """Tasks from a sequence of frame names and tasks."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        shown = f"[{given!r}]" if isinstance(given, (str, Task, RelativeTask, CenterOfMassTask)) else "['hand']"
        raise InputError(f"{what} must be a sequence of frame names and tasks; for a single one write {shown}")
    if isinstance(given, (set, frozenset)):
        raise InputError(f"{what} is a set, which has no order, but rows have one; pass a list")
    tasks = tuple(Task(task) if isinstance(task, str) else task for task in given)
    if not tasks:
        raise InputError(f"{what} is empty: name at least one frame or task")
    for task in tasks:
        if not isinstance(task, (Task, RelativeTask, CenterOfMassTask)):
            raise InputError(
                f"{what} may contain frame names, Task, RelativeTask and CenterOfMassTask; got {type(task).__name__}"
            )
    _refuse_duplicates(tasks, what)
    return tasks


def _refuse_duplicates(tasks: Sequence[AnyTask], what: str) -> None:
    seen: dict[Any, set[int]] = {}
    for task in tasks:
        rows = set(chosen_rows(task, task.rows))
        same = seen.setdefault(replace(task, rows="position"), set())
        if same & rows:
            raise InputError(f"{what}: rows {sorted(same & rows)} of the {task} are given twice")
        same |= rows


def sites_of(task: AnyTask, find: Callable[[str], Site]) -> tuple[Site, ...]:
    """The frames of a task, with their rows and parts in it."""
    rows = chosen_rows(task, task.rows)
    if isinstance(task, CenterOfMassTask):
        return (Site(str(task), WORLD, Transform.identity().data, rows, "mass"),)
    if isinstance(task, RelativeTask):
        near, far = (find(frame) for frame in (task.frame_a, task.frame_b))
        if near.node == far.node:
            raise InputError(f"{task}: they are fixed to the same body, so neither moves relative to the other")
        if isinstance(task, LoopTask):
            near, far = _placed(near, task.placement_a), _placed(far, task.placement_b)
        return replace(near, rows=rows, part="near"), replace(far, rows=rows, part="far")
    site = find(task.frame)
    place = Transform(site.placement)
    moved = Transform.of(place.E, place.r + place.E.T @ np.array(task.offset))
    return (Site(site.name, site.node, moved.data, rows),)


def _placed(site: Site, pose: tuple[float, ...]) -> Site:
    """A site on a frame, given its pose there."""
    T = np.array(pose).reshape(3, 4)
    return replace(site, placement=(Transform.of(T[:, :3].T, T[:, 3]) @ Transform(site.placement)).data)


def task_names(tasks: Sequence[AnyTask]) -> str:
    """Names of tasks, for messages."""
    named = [f"{task.frame!r}" if isinstance(task, Task) else str(task) for task in tasks]
    return "tasks " + ", ".join(named[:6]) + (f", … ({len(named)} in all)" if len(named) > 6 else "")
