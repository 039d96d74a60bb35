"""Inputs of a controller: goals with their gains, a posture, bounds, feet, and the current targets of the goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.poses import ERRORS
from kinetree.model.held_rows import Weld
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import AnyTask, CenterOfMassTask, RelativeTask, Task

#: Default name of centre-of-mass goals.
CENTER_OF_MASS = "center_of_mass"


@dataclass(frozen=True)
class Goal:
    """A task whose motion is controlled: ẍ = ẍ_d + kd (ẋ_d − ẋ) + kp e.

    Attributes:
        task: Name of a frame, or a task. Motions of single frames are expressed in world axes.
        kp: Stiffness per unit of mass [1/s²]: one number, or one per row.
        kd: Damping per unit of mass [1/s]; critical, 2√kp, by default.
        name: Key of its targets; by default the frame, or "center_of_mass".
        weight: Weight of its squared error in a `WholeBody` or `DifferentialIK`; levels do without.
    """

    task: str | AnyTask
    kp: float | tuple[float, ...] = 100.0
    kd: float | tuple[float, ...] | None = None
    name: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        _complete(self)
        kp = _gains(self, "kp", self.kp)
        kd = tuple(2.0 * float(np.sqrt(k)) for k in kp) if self.kd is None else _gains(self, "kd", self.kd)
        object.__setattr__(self, "kp", kp)
        object.__setattr__(self, "kd", kd)
        object.__setattr__(self, "weight", nonnegative(f"{self}: weight", self.weight))

    def __str__(self) -> str:
        return f"goal {self.name!r}"

    @property
    def gains(self) -> Array:
        """kp and kd of each row, (r, 2)."""
        result: Array = np.array([self.kp, self.kd]).T
        return result


@dataclass(frozen=True)
class ForceGoal:
    """A task along whose rows the robot exerts a given force instead of tracking a motion.

    push = F_d + kp (F_d − F) + ki ∫(F_d − F) dt, where F is the force that the robot exerts on its environment, if
    measured. The rows are damped.

    Attributes:
        task: Name of a frame, or a task.
        kd: Damping per unit of mass [1/s].
        kp: Gain of the force error.
        ki: Gain of its integral [1/s].
        name: Key of its targets, as for `Goal`.
    """

    task: str | AnyTask
    kd: float = 20.0
    kp: float = 0.0
    ki: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        _complete(self)
        for gain in ("kd", "kp", "ki"):
            nonnegative(f"{self}: {gain}", getattr(self, gain))

    def __str__(self) -> str:
        return f"force {self.name!r}"

    @property
    def gains(self) -> Array:
        """kp and kd of the motion of each row, (r, 2)."""
        return np.tile([0.0, self.kd], (rows_of(self), 1))


@dataclass(frozen=True, eq=False)
class Posture:
    """Joint accelerations in the null space of all goals: a₀ = kp (q_ref ⊖ q) − kd v.

    Attributes:
        q: Configuration, (nq,).
        kp: Stiffness per unit of mass [1/s²].
        kd: Damping per unit of mass [1/s]; critical, 2√kp, by default. Must be positive: without damping, motion in the
            null space would never come to rest.
        weight: Weight of its squared error in a `WholeBody`; must be positive there.
    """

    q: Any
    kp: float = 25.0
    kd: float | None = None
    weight: float = 1e-2

    def __post_init__(self) -> None:
        q = np.array(self.q, dtype=float)
        if q.ndim != 1 or not np.isfinite(q).all():
            raise InputError(f"posture: q is one configuration without NaN, got shape {q.shape}")
        q.setflags(write=False)
        kp = nonnegative("posture: kp", self.kp)
        kd = 2.0 * float(np.sqrt(kp)) if self.kd is None else nonnegative("posture: kd", self.kd)
        if not kd > 0.0:
            raise InputError("posture: kd must be positive; motions that no goal sees would never come to rest")
        weight = nonnegative("posture: weight", self.weight)
        for name, value in (("q", q), ("kp", kp), ("kd", kd), ("weight", weight)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Bounds:
    """Limits of the robot that a controller respects.

    A controller refuses a bound for which no joint has a limit, and warns of joints that a bound leaves out.

    Attributes:
        position: Rate k at which joints may approach their limits [1/s]: k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v.
            None ignores them.
        velocity: Rate k at which joints may approach their velocity limit [1/s]:
            −k (v_max + v) ≤ a ≤ k (v_max − v).
        margin: Distance before a position limit at which joints come to rest [rad or m]. Torques are held from one
            command to the next; if the acceleration they cause changes by δa meanwhile, a joint rests δa/k² too far.
        torque: Scale commands down to the effort limits: one factor for all goals, then one for the posture, so that
            the direction of motion is preserved.
    """

    position: float | None = None
    velocity: float | None = None
    torque: bool = False
    margin: float = 0.0

    def __post_init__(self) -> None:
        nonnegative("bounds: margin", self.margin)
        for name in ("position", "velocity"):
            rate = getattr(self, name)
            if rate is not None and not nonnegative(f"bounds: {name}", rate) > 0.0:
                raise InputError(
                    f"bounds: {name} is a rate [1/s] and must be positive, got {rate!r}; None for no bound"
                )


class Target(NamedTuple):
    """Desired state of a goal.

    Attributes:
        pose: (…, 4, 4), or a position (…, 3), in which case the orientation stays as it was at the start.
        velocity: Twist, angular part first, (…, 6), or linear velocity (…, 3); zero by default.
        acceleration: Its time derivative, of the same shape.
        force: For a `ForceGoal`, the force that the robot should exert along the rows, (…, r) [N or N m].
        measured: The force that it actually exerts, of the same shape.
    """

    pose: Any = None
    velocity: Any = None
    acceleration: Any = None
    force: Any = None
    measured: Any = None


def read_levels(levels: Sequence[Any]) -> tuple[tuple[Goal | ForceGoal, ...], ...]:
    """Normalise the user's levels: goals, frame names and tasks, single or in sequences."""
    found = []
    for level in levels:
        alone = isinstance(level, (str, Goal, ForceGoal, Task, RelativeTask, CenterOfMassTask))
        members = [level] if alone or not isinstance(level, Sequence) else level
        if any(isinstance(one, Posture) for one in members):
            raise InputError(
                "a posture is no level: it takes all that is left, so goals below could not move; pass it as posture="
            )
        if not alone and not isinstance(level, Sequence):
            raise InputError(f"a level is a sequence of goals, got {type(level).__name__}")
        goals = tuple(one if isinstance(one, (Goal, ForceGoal)) else Goal(one) for one in members)
        if not goals:
            raise InputError("a level has no goals; leave it out")
        found.append(goals)
    names = [goal.name for level in found for goal in level]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two goals are called {name!r}; give one of them another name=")
    return tuple(found)


def motions(what: str, goals: Any) -> tuple[Goal, ...]:
    """The goals of a weighted problem: one level, without forces."""
    (found,) = read_levels([goals])
    for goal in found:
        if not isinstance(goal, Goal):
            raise InputError(f"{goal}: a {what} follows motions; forces are for an OperationalSpace")
    return tuple(goal for goal in found if isinstance(goal, Goal))


def _complete(goal: Any) -> None:
    """Turn a frame name into a task, and name the goal."""
    task = Task(goal.task) if isinstance(goal.task, str) else goal.task
    if not isinstance(task, (Task, RelativeTask, CenterOfMassTask)):
        raise InputError(f"a {type(goal).__name__} takes the name of a frame or a task, got {type(task).__name__}")
    object.__setattr__(goal, "task", task)
    if not isinstance(goal.name, str):
        raise InputError(f"a {type(goal).__name__} has a name, which is a string; got {goal.name!r}")
    if not goal.name:
        own = {Task: "frame", RelativeTask: "frame_b"}.get(type(task))
        object.__setattr__(goal, "name", getattr(task, own) if own else CENTER_OF_MASS)


def rows_of(goal: Goal | ForceGoal) -> int:
    """Number of rows of a goal's task."""
    task: Any = goal.task  # no longer a name: see `_complete`
    return len(task.rows)


def _gains(goal: Goal, name: str, values: Any) -> tuple[float, ...]:
    rows = rows_of(goal)
    listed = values if isinstance(values, (tuple, list, np.ndarray)) else (values,) * rows
    if len(listed) != rows:
        raise InputError(f"{goal}: {name} has {len(listed)} numbers; the task has {rows} rows")
    return tuple(nonnegative(f"{goal}: {name}", value) for value in listed)


def nonnegative(what: str, value: Any) -> float:
    """A number from zero on, checked."""
    return arguments.number(what, value, 0.0, "a number from zero on")


def start_of(robot: Model, posture: Posture | None, at: Any, what: str) -> Array:
    """The configuration at which constraints hold and goals start."""
    if posture is not None and posture.q.shape != (robot.nq,):
        raise InputError(f"posture: q has {len(posture.q)} numbers; {robot.name} takes {robot.nq}")
    if at is None:
        return robot.neutral() if posture is None else np.array(posture.q)
    q = arguments.numbers(what, "at", at)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise InputError(f"at is one configuration, ({robot.nq},), without NaN; got shape {q.shape}")
    return np.array(q, dtype=np.float64)


def chosen_error(name: Any, goals: Sequence[Goal | ForceGoal]) -> str:
    """The name of an error between poses.

    Raises:
        UnknownNameError: There is no such error.
        InputError: A goal has rows for which it is not defined.
    """
    if not isinstance(name, str) or name not in ERRORS:
        raise UnknownNameError("error between poses", name, tuple(ERRORS))
    for goal in goals:
        task: Any = goal.task
        if name == "log6" and not isinstance(task, CenterOfMassTask) and len(task.rows) < 6:
            raise InputError(f'{goal} has {len(task.rows)} rows, and the error "log6" is that of a whole pose')
    return name


@dataclass(frozen=True)
class Foot:
    """A flat sole, or a point, that stands on something.

    Attributes:
        frame: Frame of the sole; its z axis is the normal of the ground, pointing at the robot.
        size: Length and width of the sole along the frame's x and y axes [m]; (0, 0) for a point, which may turn.
        friction: Coefficient of friction μ.
    """

    frame: str
    size: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str):
            raise InputError(f"a Foot takes the name of a frame, got {type(self.frame).__name__}")
        size = tuple(self.size) if isinstance(self.size, (tuple, list, np.ndarray)) else ()
        if len(size) != 2:
            raise InputError(f"foot {self.frame!r}: size is the sole's length and width [m], got {self.size!r}")
        checked = tuple(nonnegative(f"foot {self.frame!r}: size", each) for each in size)
        if (checked[0] > 0.0) != (checked[1] > 0.0):
            raise InputError(f"foot {self.frame!r}: size {checked} is a line; give both edges, or (0, 0) for a point")
        object.__setattr__(self, "size", checked)
        object.__setattr__(self, "friction", nonnegative(f"foot {self.frame!r}: friction", self.friction))

    @property
    def points(self) -> Array:
        """Contact points in the frame, (1, 3) or (4, 3)."""
        x, y = (0.5 * edge for edge in self.size)
        return np.array([[i * x, j * y, 0.0] for i in (-1, 1) for j in (-1, 1)][: 4 if x > 0.0 else 1])

    @property
    def weld(self) -> Weld:
        """The rows that the contact holds."""
        return Weld(self.frame, rows="all" if self.size[0] > 0.0 else "position")
