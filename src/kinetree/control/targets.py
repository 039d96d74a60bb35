"""Conversion of users' targets to the arrays of the control law: poses, feed-forward and forces of the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.goals import ForceGoal, Goal, Target
from kinetree.control.paths import Path, PosePath, PoseState, State
from kinetree.control.pose_functions import checked_poses, inverse, require_target_shape
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.matrix_products import product
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import CenterOfMassTask, RelativeTask

_FLOAT64 = np.dtype(np.float64)
#: What the sum of squares of what should be zero may be; targets with more may be no poses.
FAULT = 1e-12


class ControllerState(NamedTuple):
    """What a controller passes on from one command to the next.

    Attributes:
        integrals: ∫(F_d − F) dt along the rows of each `ForceGoal` with integral action, (…, r).
        active: Joints that are held at their lower (−1) or upper (1) limits, (…, l); None without limits.
    """

    integrals: dict[str, Array]
    active: Array | None = None


class Wanted(NamedTuple):
    """Inputs of the control law, with leading batch axes.

    Attributes:
        target: Poses of the goals' frames, (…, m, 4, 4).
        feed: ẋ_d and ẍ_d of their rows, (…, r, 2).
        push: Additional forces that the robot exerts along them, (…, r); None unless there are `ForceGoal`s.
        state: State of the force goals.
        batch: Common leading axes after broadcasting.
    """

    target: Array
    feed: Array
    push: Array | None
    state: ControllerState | None
    batch: tuple[int, ...]


# what Wanted(…) does, in half the time
_new = tuple.__new__


class _Place(NamedTuple):
    """Position of a goal among all frames and rows; `linear` tells whether it has rows of translation."""

    goal: Goal | ForceGoal
    site: int
    rows: slice
    components: list[int]
    linear: bool


class Targets:
    """Reads the targets of goals.

    Args:
        robot: The robot.
        goals: The goals, in the order of their rows.
        start: Configuration that defines the targets of goals without one.

    Attributes:
        gains: kp and kd of all rows, (r, 2).
        forced: Whether there are `ForceGoal`s.
    """

    def __init__(self, robot: Model, goals: Sequence[Goal | ForceGoal], start: Array) -> None:
        self._places: dict[str, _Place] = {}
        rows = sites = 0
        for goal in goals:
            task: Any = goal.task
            sites += isinstance(task, RelativeTask)  # its near frame, which has no target
            at = slice(rows, rows + len(task.rows))
            self._places[goal.name] = _Place(goal, sites, at, list(task.rows), max(task.rows) >= 3)
            rows, sites = at.stop, sites + 1
        self._robot, self._start = robot, start
        self._fixed, self._feed = np.tile(np.eye(4), (sites, 1, 1)), np.zeros((rows, 2))
        self.gains = np.concatenate([goal.gains for goal in goals])
        self._sites = [place.site for place in self._places.values()]
        #: Shape of the poses of one sample, as the law takes them; None if relative tasks have frames without a target.
        self._shape = (sites, 4, 4) if sites == len(goals) else None
        self.forced = any(isinstance(goal, ForceGoal) for goal in goals)
        self._resting = np.zeros(rows) if self.forced else None
        for constant in (self._fixed, self._feed, self.gains):
            constant.setflags(write=False)
        self._unfed = self._feed, self._resting, None, ()

    @cached_property
    def _target(self) -> Array:
        """Targets as at the start: computed when a goal without a target needs them."""
        found: Array = self._fixed.copy()
        for place in self._places.values():
            found[place.site] = task_pose(self._robot, place.goal.task, self._start)
        found.setflags(write=False)
        return found

    @cached_property
    def _still(self) -> Wanted:
        return Wanted(self._target, *self._unfed)

    def read(self, targets: Mapping[str, Any] | None, state: ControllerState | None, dt: Any) -> Wanted:
        """Inputs of the control law from targets by goal name. Poses are not checked here: see `require_poses`."""
        if not targets and not self.forced:
            if targets is not None and not isinstance(targets, Mapping):
                raise _no_mapping(targets)
            return self._still
        targets = {} if targets is None else targets
        if type(targets) is dict and not self.forced:
            plain = self._plain(targets)
            if plain is not None:
                return plain
        if not isinstance(targets, Mapping):
            raise _no_mapping(targets)
        for name in targets:
            if name not in self._places:
                raise UnknownNameError("goal", name, tuple(self._places))
        given = {name: _target(name, value) for name, value in targets.items()}
        read = {name: self._of_goal(name, target) for name, target in given.items()}
        batch = _batch(read)
        moving = any(rate is not None for _, *rates in read.values() for rate in rates)
        pose = np.array(np.broadcast_to(self._target, (*batch, *self._target.shape))) if batch else self._target.copy()
        feed = self._feed
        if moving:
            feed = np.array(np.broadcast_to(feed, (*batch, *feed.shape))) if batch else feed.copy()
        for name, (where, velocity, acceleration) in read.items():
            place = self._places[name]
            if where is not None and where.shape[-2:] == (4, 4):
                pose[..., place.site, :, :] = where
            elif where is not None:
                pose[..., place.site, :3, 3] = where
            if velocity is not None:
                feed[..., place.rows, 0] = velocity
            if acceleration is not None:
                feed[..., place.rows, 1] = acceleration
        if not self.forced and all(target.force is None and target.measured is None for target in given.values()):
            return Wanted(pose, feed, None, None, batch)
        push, state, batch = self._push(given, state, dt, batch)
        return Wanted(pose, feed, push, state, batch)

    def _plain(self, targets: dict[str, Any]) -> Wanted | None:
        """The same for single poses and positions in arrays of float64. None for all others."""
        pose = (self._fixed if len(targets) == len(self._places) else self._target).copy()
        for name, value in targets.items():
            place = self._places.get(name)
            if place is None or type(value) is not np.ndarray or value.dtype != _FLOAT64:
                return None
            if value.shape == (4, 4):
                pose[place.site] = value
            elif value.shape == (3,) and place.linear:
                pose[place.site, :3, :3] = self._target[place.site, :3, :3]
                pose[place.site, :3, 3] = value
            else:
                return None
        return Wanted(pose, self._feed, None, None, ())

    def require_batch(self, targets: Mapping[str, Any] | None, batch: tuple[int, ...], state: tuple[int, ...]) -> None:
        """Refuse targets whose leading axes the state does not have: (3, 3) is no batch of positions for one state."""
        if not batch or batch == state:
            return
        if arguments.common_batch("control", ("targets", "states"), (batch, state)) != state:
            shapes = {name: np.shape(_target(name, value).pose) for name, value in (targets or {}).items()}
            raise InputError(
                f"targets have leading axes {batch}, which the state, {state}, does not have. For each goal pass a "
                f"pose (4, 4) or a position (3,), or one for each state; got {shapes}"
            )

    def arrays(self, poses: Any, feed: Any) -> Wanted:
        """Inputs of the control law from poses and feed-forward of all goals, in their order."""
        if feed is None:
            if poses is None:
                return self._still
            if type(poses) is np.ndarray and poses.dtype is _FLOAT64 and poses.shape == self._shape:
                return _new(Wanted, (poses, *self._unfed))
        target, rates = self._fixed, self._feed
        batch: tuple[int, ...] = ()
        if poses is None:
            target = self._target
        else:
            given = arguments.doubles("control", "poses", poses, (len(self._sites), 4, 4))
            batch, target = given.shape[:-3], given
            if len(self._sites) < len(self._fixed):
                target = np.array(np.broadcast_to(self._fixed, (*batch, *self._fixed.shape)))
                target[..., self._sites, :, :] = given
        if feed is not None:
            rates = arguments.doubles("control", "feed", feed, self._feed.shape)
            batch = arguments.common_batch("control", ("poses", "feed"), (batch, rates.shape[:-2]))
        return Wanted(target, rates, self._resting, None, batch)

    def require_poses(self, fault: Any, wanted: Wanted, targets: Mapping[str, Any] | None) -> None:
        """Check targets that the kernel found fault with.

        Raises:
            InputError: A target is not a pose.
        """
        if fault > FAULT if type(fault) is float else bool((fault > FAULT).any()):
            if targets is None:
                checked_poses("poses", wanted.target)
            for name, value in (targets or {}).items():
                pose = _target(name, value).pose
                if pose is not None and np.shape(pose)[-2:] == (4, 4):
                    checked_poses(f"the pose of {name!r}", pose)

    def split(self, rows: Array) -> dict[str, Array]:
        """Split values of all goals' rows by goal name."""
        if rows.ndim == 1:  # single samples skip what an ellipsis costs
            return {name: rows[place.rows] for name, place in self._places.items()}
        return {name: rows[..., place.rows] for name, place in self._places.items()}

    def _of_goal(self, name: str, target: Target) -> tuple[Array | None, Array | None, Array | None]:
        place, where = self._places[name], None
        if target.pose is not None:
            where = arguments.numbers("control", f"the pose of {name!r}", target.pose)
            require_target_shape(f"the pose of {name!r}", where)
            if where.shape[-2:] != (4, 4) and not place.linear:
                raise InputError(f"the pose of {name!r} is a position, but its goal has only rotations; pass (…, 4, 4)")
        velocity, acceleration = target.velocity, target.acceleration
        if velocity is not None:
            velocity = _rate(name, "velocity", velocity, place)
        if acceleration is not None:
            acceleration = _rate(name, "acceleration", acceleration, place)
        return where, velocity, acceleration

    def _push(
        self, given: Mapping[str, Target], state: ControllerState | None, dt: Any, batch: tuple[int, ...]
    ) -> tuple[Array | None, ControllerState | None, tuple[int, ...]]:
        """Forces of all rows, and the integrals of their errors."""
        pushes: list[tuple[slice, Array]] = []
        integrals = {}
        for name, place in self._places.items():
            goal, target = place.goal, given.get(name, Target())
            if not isinstance(goal, ForceGoal):
                if target.force is not None or target.measured is not None:
                    raise InputError(f"{goal} follows a motion; make it a control.ForceGoal to give it a force")
                continue
            rows = len(place.components)
            F_d = _force(name, "force", target.force, rows)
            push = F_d
            if target.measured is not None:
                lacking = F_d - _force(name, "measured", target.measured, rows)
                push = push + goal.kp * lacking
                if goal.ki > 0.0:
                    before = np.zeros(rows) if state is None else state.integrals.get(name, np.zeros(rows))
                    integrals[name] = before + lacking * float(dt)
                    push = push + goal.ki * integrals[name]
            pushes.append((place.rows, push))
        if not pushes:
            return None, None, batch
        try:
            batch = np.broadcast_shapes(batch, *(push.shape[:-1] for _, push in pushes))
        except ValueError:
            raise InputError("leading axes of forces do not broadcast with those of the other targets") from None
        total = np.zeros((*batch, len(self._feed)))
        for at, push in pushes:
            total[..., at] = push
        return total, ControllerState(integrals) if integrals else state, batch


def _no_mapping(targets: Any) -> InputError:
    return InputError(f"targets maps names of goals to where they should be, got {type(targets).__name__}")


def task_pose(robot: Model, task: Any, q: Array) -> Array:
    """Pose of a task's frame, in the world or in its reference frame; that of the centre of mass does not turn."""
    if isinstance(task, RelativeTask):
        return product(inverse(robot.pose(q, task.frame_a)), robot.pose(q, task.frame_b))
    place = np.tile(np.eye(4), (*q.shape[:-1], 1, 1))
    if isinstance(task, CenterOfMassTask):
        place[..., :3, 3] = robot.center_of_mass(q)
        return place
    place[..., :3, 3] = task.offset
    return product(robot.pose(q, task.frame), place)


def _rate(name: str, what: str, value: Any, place: _Place) -> Array:
    """A twist, or a linear velocity, along the rows of a goal."""
    rate = arguments.numbers("control", f"the {what} of {name!r}", value)
    if rate.shape[-1:] == (3,):
        if not place.linear:
            raise InputError(f"the {what} of {name!r} is linear, but its goal has only rotations; pass a twist (…, 6)")
        twist = np.zeros((*rate.shape[:-1], 6))
        twist[..., 3:] = rate
        rate = twist
    if rate.shape[-1:] != (6,):
        raise InputError(f"the {what} of {name!r} has shape {rate.shape}; pass a twist (…, 6), or (…, 3)")
    return rate if len(place.components) == 6 else rate[..., place.components]


def _target(name: str, value: Any) -> Target:
    if type(value) is np.ndarray:
        return Target(value)
    if isinstance(value, Target):
        return value
    if isinstance(value, (State, PoseState)):
        return Target(*value)
    if isinstance(value, (Path, PosePath)) or callable(value):
        raise InputError(f"the target of {name!r} is a function; pass what it returns at this time, as way(t)")
    return Target(value)


def _force(name: str, what: str, value: Any, rows: int) -> Array:
    if value is None:
        return np.zeros(rows)
    force = arguments.numbers("control", f"{what} of {name!r}", value)
    if force.ndim == 0 and rows == 1:
        force = force[None]
    if force.shape[-1:] != (rows,):
        raise InputError(f"{what} of {name!r} has shape {force.shape}; its goal has {rows} rows")
    return np.asarray(force, dtype=np.float64)


def _batch(read: Mapping[str, tuple[Array | None, Array | None, Array | None]]) -> tuple[int, ...]:
    shapes = {}
    for name, (where, *rates) in read.items():
        if where is not None and where.ndim > (1 if where.shape[-2:] != (4, 4) else 2):
            shapes[f"pose of {name!r}"] = where.shape[: -2 if where.shape[-2:] == (4, 4) else -1]
        for what, rate in zip(("velocity", "acceleration"), rates, strict=True):
            if rate is not None and rate.ndim > 1:
                shapes[f"{what} of {name!r}"] = rate.shape[:-1]
    return arguments.common_batch("control", tuple(shapes), tuple(shapes.values())) if shapes else ()
