"""Inverse kinematics by Levenberg–Marquardt with restarts, for many targets at once.

Each step is one compiled recursion (`kinetree.algorithms.tasks.levenberg_marquardt`), and steps follow each other
without Python in between. A target that is not reached is retried from the next of a fixed sequence of configurations,
so a target's result does not depend on the others: it has the same bits alone and in a batch.

What reaches its target with shapes too close moves apart by Gauss–Newton steps on the rows of the tasks and of the
nearest pairs together,

    J Δ = e        J_d Δ = d_min − d    for pairs that are too close                               (1)

and where that fails, the search goes on from the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.tasks.levenberg_marquardt import DAMPING, PATIENCE, levenberg_marquardt
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler.formats import require_double
from kinetree.control.avoid import Avoid
from kinetree.control.pose_functions import checked_poses, pose_error, require_target_shape
from kinetree.control.targets import task_pose
from kinetree.errors import InputError, LoopError, UnknownNameError
from kinetree.language.common_frame import in_view
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled, standard_arithmetic
from kinetree.runtime.kernels import bind
from kinetree.runtime.matrix_products import dots, product
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import AnyTask, CenterOfMassTask, Task, chosen_rows, read_tasks, sites_of

#: Steps between two looks at which targets are done.
_STEPS = 8
#: Attempts that run side by side, one group after another: few targets need many.
_GROUPS = (1, 1, 2, 4)
#: Random configurations among which those that come closest to a target are its starts.
_POOL = 128
#: Length that relates rotations to distances in this choice [m].
_LENGTH = 0.3
#: Steps of (1), the longest one [rad or m], its damping, and how much more than d_min it aims at [m].
_APART, _LONGEST, _DAMPED, _SPARE = 40, 0.2, 1e-6, 1e-4


class InverseKinematics(NamedTuple):
    """Report of the search.

    Attributes:
        error: Largest component of the errors, (…) [rad or m].
        success: Whether it is within the tolerance, and all pairs of `avoid` are apart, (…), booleans.
        attempts: Number of starting configurations tried, (…), integers.
        clearance: Smallest distance of the pairs of `avoid`, (…) [m]; infinite without any.
    """

    error: Array
    success: Array
    attempts: Array
    clearance: Array


def inverse_kinematics(
    robot: Model,
    targets: Mapping[Any, Any],
    *,
    start: Any = None,
    tries: int = 200,
    iterations: int = 100,
    tolerance: float = 1e-6,
    limits: bool = True,
    avoid: Avoid | CollisionPairs | None = None,
    seed: int = 0,
) -> tuple[Array, InverseKinematics]:
    """Configurations at which frames have given poses, or tasks given values, and a report of the search.

    Unreachable targets are not an error: `success` is False there, and q is the best configuration found.

    Args:
        robot: The robot.
        targets: Poses (…, 4, 4) or positions (…, 3) in the world, by frame name. Keys may also be tasks: a `Task`
            (a point of a frame, or some of its rows), a `RelativeTask` (the pose of one frame in another) or a
            `CenterOfMassTask`.
        start: Starting configuration of the first attempt, (nq,), or the name of a keyframe; by default the first
            keyframe, or the middle of the joint limits.
        tries: Maximum number of attempts; those after the first start from random configurations close to the target.
        iterations: Maximum number of steps per attempt.
        tolerance: Largest component of the errors at which a target counts as reached [rad or m].
        limits: Whether joint limits are respected.
        avoid: Pairs of shapes that are apart in what is found: `Avoid`, or pairs of `robot.collision_pairs`.
        seed: Seed of the random starting configurations.

    Returns:
        Configurations, (…, nq), and the report.

    Raises:
        UnknownNameError: No such frame.
        InputError: A target that is not a pose, or has the wrong shape.
    """
    problem = _Problem(robot, targets, limits, Avoid.of(avoid))
    if tries < 1 or iterations < 1 or not tolerance > 0.0:
        raise InputError(f"tries={tries!r}, iterations={iterations!r} and tolerance={tolerance!r} must be positive")
    first_start = _start(robot, problem.range.middle if start is None else start, start is None)
    count = problem.count
    best = np.repeat(first_start[None], count, axis=0)
    # largest error, smallest distance, and the measure of both by which the best is chosen
    error, clearance, off, attempts = np.empty(count), np.empty(count), np.full(count, np.inf), np.zeros(count, int)
    with standard_arithmetic():
        left, tried = np.arange(count), 0
        starts = best[:, None]  # (targets left, attempts, nq)
        while tried < tries and len(left):
            if tried == 1:
                drawn = _pool if isinstance(seed, int) else _pool.__wrapped__
                starts = problem.close(left, drawn(robot, seed, max(_POOL, tries)), tries - 1)
            group = starts[:, : _GROUPS[min(tried, len(_GROUPS) - 1)]]
            starts = starts[:, group.shape[1] :]
            # all attempts of a group run, and the first that succeeds counts
            which = np.repeat(left, group.shape[1])
            q, found = problem.search(group.reshape(-1, robot.nq), which, iterations, tolerance)
            apart, short = problem.part(q, found, which, tolerance)
            merit = np.where(short > 0.0, np.maximum(found, 2.0 * tolerance) + short, found)
            q = q.reshape(group.shape)
            found, apart, merit = (x.reshape(group.shape[:2]) for x in (found, apart, merit))
            for i in range(group.shape[1]):
                waiting = ~(off[left] <= tolerance) & ~np.isnan(off[left])
                attempts[left[waiting]] += 1
                better = waiting & ~(merit[:, i] >= off[left])  # NaN replaces only infinity
                best[left[better]], off[left[better]] = q[better, i], merit[better, i]
                error[left[better]], clearance[left[better]] = found[better, i], apart[better, i]
            missing = ~(off[left] <= tolerance) & ~np.isnan(off[left])
            left, starts, tried = left[missing], starts[missing], tried + group.shape[1]
    batch = problem.batch
    report = InverseKinematics(*(x.reshape(batch) for x in (error, off <= tolerance, attempts, clearance)))
    return best.reshape(*batch, robot.nq), report


class _Range(NamedTuple):
    """Where joints may be.

    Attributes:
        low: Lower limits, (nq,).
        high: Upper limits, (nq,).
        bounded: For each degree of freedom, whether it has these, (nv, 2).
        middle: Joints with limits at mid-range, all others as close to neutral as a limit permits, (nq,).
        places: Coordinates and degrees of freedom that may have limits.
    """

    low: Array
    high: Array
    bounded: Array
    middle: Array
    places: tuple[list[int], list[int]]


@lru_cache(maxsize=64)
def _range(robot: Model, limits: bool) -> _Range:
    low, high = np.full(robot.nq, -np.inf), np.full(robot.nq, np.inf)
    bounded = np.zeros((robot.nv, 2))
    single = [joint for joint in robot.joints if joint.nq == joint.nv == 1 and limits]
    at, moving = [joint.q_start for joint in single], [joint.v_start for joint in single]
    low[at], high[at] = robot.lower_limits[at], robot.upper_limits[at]
    bounded[moving] = np.isfinite(np.stack([low[at], high[at]], axis=-1))
    q = robot.neutral()
    both = np.isfinite(low) & np.isfinite(high)
    q[both] = 0.5 * (low[both] + high[both])
    q = np.clip(q, low, high)
    try:
        q = robot.close(q)
    except LoopError:  # no loop closes there
        q = robot.neutral()
    return _Range(low, high, bounded, q, (at, moving))


@lru_cache(maxsize=8)
def _pool(robot: Model, seed: Any, count: int) -> Array:
    """Random configurations, kept for the next call: those with closed loops take long to draw."""
    return robot.random_configuration(np.random.default_rng(seed), (count,))


class _Problem:
    """Targets of some tasks, flattened to one batch axis."""

    def __init__(self, robot: Model, targets: Mapping[Any, Any], limits: bool, avoid: Avoid | None) -> None:
        require_double(robot.mechanism, "inverse_kinematics")
        if not isinstance(targets, Mapping) or not targets:
            raise InputError("targets maps names of frames to poses or positions, such as {'hand': pose}")
        self.robot = robot
        given = [_target(key, value) for key, value in targets.items()]
        self._tasks = read_tasks([task for task, _ in given], "targets")
        sites = [sites_of(task, robot.site) for task in self._tasks]
        names = tuple(str(task) for task in self._tasks)
        self.batch = arguments.common_batch("inverse_kinematics", names, tuple(T.shape[:-2] for _, T in given))
        self.count = int(np.prod(self.batch))
        poses = [np.broadcast_to(pose, (*self.batch, 4, 4)).reshape(-1, 4, 4) for _, pose in given]
        self._wanted = np.stack(poses, axis=1)
        # the near frame of a relative task has no target
        at = np.cumsum([len(each) for each in sites]) - 1
        self._targets = np.tile(np.eye(4), (self.count, at[-1] + 1, 1, 1))
        self._targets[:, at] = self._wanted
        rows = [list(each[-1].rows) for each in sites]
        self._rows = [6 * i + row for i, own in enumerate(rows) for row in own]
        self._weights = np.array([[float(max(own) >= 3)] * 3 + [_LENGTH * (min(own) < 3)] * 9 for own in rows])
        plain = all(isinstance(task, Task) and not any(task.offset) for task in self._tasks)
        self._frames = [task.frame for task in self._tasks if isinstance(task, Task)] if plain else None
        self.range, self._avoid = _range(robot, bool(limits)), avoid

    def poses(self, q: Array) -> Array:
        """Poses of all tasks' frames, (n, m, 4, 4)."""
        if self._frames is not None:
            return self.robot.pose(q, self._frames)
        return np.stack([task_pose(self.robot, task, q) for task in self._tasks], axis=1)

    def errors(self, q: Array, which: Array) -> Array:
        """e of all rows, (n, r)."""
        e = pose_error(self.poses(q), self._wanted[which], "local_world_aligned")
        return e.reshape(len(q), -1)[:, self._rows]

    def close(self, which: Array, pool: Array, count: int) -> Array:
        """For some targets, the configurations of a pool that come closest to them, closest first, (n, count, nq)."""

        def features(T: Array) -> Array:
            found = np.concatenate([T[..., :3, 3], T[..., :3, :3].reshape(*T.shape[:-2], 9)], axis=-1) * self._weights
            return np.ascontiguousarray(found.reshape(len(T), -1))

        there, here = features(self.poses(pool)), features(self._wanted[which])
        distance = dots(there, there) - 2.0 * product(here, there.T)
        return pool[np.argsort(distance, axis=1, kind="stable")[:, :count]]

    def search(self, q: Array, which: Array, iterations: int, tolerance: float) -> tuple[Array, Array]:
        """One attempt at each of some targets, from q: final configurations, (n, nq), and their errors, (n,)."""
        open_ = np.arange(len(q))
        state, error = np.tile([DAMPING, 0.0], (len(q), 1)), np.empty(len(q))
        # the recursion's 2 sin(θ/2) is at least θ(1 − θ²/24)
        within = tolerance * max(0.5, 1.0 - tolerance * tolerance / 24.0)
        limits = self.range.low, self.range.high, self.range.bounded, within
        for done in range(0, iterations, _STEPS):
            steps = _steps(self.robot, self._tasks, min(_STEPS, iterations - done))
            # the last error is that before the last step, which leaves finished samples as they are
            q[open_], state[open_], error[open_] = steps(q[open_], state[open_], self._targets[which[open_]], *limits)
            open_ = open_[(error[open_] > within) & (state[open_, 1] < PATIENCE)]
            if not len(open_):
                break
        missed = np.flatnonzero(~(error <= within))
        if len(missed):
            error[missed] = np.abs(self.errors(q[missed], which[missed])).max(axis=1)
        return q, error

    def part(self, q: Array, error: Array, which: Array, tolerance: float) -> tuple[Array, Array]:
        """Move what is too close at its target, in place: smallest distances, (n,), and what they lack."""
        avoid = self._avoid
        if avoid is None or not len(avoid.pairs):
            return np.full(len(q), np.inf), np.zeros(len(q))
        clearance = self.robot.clearance(q, avoid.pairs)
        open_ = np.flatnonzero((error <= tolerance) & (clearance < avoid.distance))
        if len(open_):
            tasks = self.robot.tasks(self._tasks, reference="local_world_aligned")
            now, e = q[open_], self.errors(q[open_], which[open_])
        for _ in range(_APART):
            if not len(open_):
                break
            now = self._parted(avoid, now, e, tasks.jacobian(now))
            e, apart = self.errors(now, which[open_]), self.robot.clearance(now, avoid.pairs)
            off = np.abs(e).max(axis=1)
            done = (off <= tolerance) & (apart >= avoid.distance)
            q[open_[done]], error[open_[done]], clearance[open_[done]] = now[done], off[done], apart[done]
            open_, now, e = open_[~done], now[~done], e[~done]
        return clearance, avoid.distance - clearance

    def _parted(self, avoid: Avoid, q: Array, e: Array, J: Array) -> Array:
        """A step of (1) within joint limits."""
        near = self.robot.distances(q, avoid.pairs).nearest(min(avoid.rows, len(avoid.pairs)))
        lack = avoid.distance + _SPARE - near.distance
        rows = np.concatenate([J, np.where(lack[..., None] > 0.0, near.jacobian, 0.0)], axis=-2)
        wanted = np.concatenate([e, np.maximum(lack, 0.0)], axis=-1)
        free, (at, moving) = np.ones((len(q), self.robot.nv)), self.range.places
        low, high = self.range.low[at], self.range.high[at]
        for _ in range(2):  # joints that would leave their limits stay
            A = rows * free[:, None]
            gram = product(A, np.swapaxes(A, -1, -2)) + _DAMPED * np.eye(A.shape[-2])
            step = product(np.linalg.solve(gram, wanted[..., None])[..., None, :, 0], A)[..., 0, :]
            step *= np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=-1, keepdims=True), _LONGEST))
            after = self.robot.integrate(q, step)
            free[:, moving] = (low <= after[:, at]) & (after[:, at] <= high)
        after[:, at] = np.clip(after[:, at], low, high)
        return after


@lru_cache(maxsize=64)
def _steps(robot: Model, tasks: tuple[AnyTask, ...], count: int) -> Compiled:
    """Several steps: final q, state, and the largest error before the last step."""
    sites = tuple(site for task in tasks for site in sites_of(task, robot.site))
    mechanism = robot.mechanism.at(sites)
    text = levenberg_marquardt(TaskKinds.of(sites))
    step = bind(in_view(text, mechanism, "common"), mechanism, sites, "inverse_kinematics")
    inputs = [Operand(operand.name, operand.shape) for operand in step.binding.inputs]
    sequence = KernelSequence("inverse_kinematics", inputs, [inputs[0], inputs[1], Operand("largest", ())])
    q, state = (sequence.variable(place) for place in sequence.inputs[:2])
    with sequence.loop(count):
        after, state_after, _, largest, _ = sequence.call(step, q, state, *sequence.inputs[2:])
        sequence.copy(after, q)
        sequence.copy(state_after, state)
    for place, result in zip((q, state, largest), sequence.outputs, strict=True):
        sequence.copy(place, result)
    return sequence.finish()


def _target(key: str | AnyTask, value: Any) -> tuple[AnyTask, Array]:
    """The task of a target, with the rows that it constrains, and the target as a pose."""
    name = f"the target of {key!r}" if isinstance(key, str) else f"the target of the {key}"
    array = np.asarray(arguments.numbers("inverse_kinematics", name, value), dtype=np.float64)
    require_target_shape(name, array)
    if array.shape[-2:] == (4, 4):
        if isinstance(key, CenterOfMassTask):
            raise InputError(f"{name} is a pose; the centre of mass has a position, (…, 3)")
        return Task(key) if isinstance(key, str) else key, checked_poses(name, array)
    if not isinstance(key, str) and min(chosen_rows(key, key.rows)) < 3:
        raise InputError(f"{name} is a position, but the task has rotations; pass (…, 4, 4), or rows='position'")
    pose = np.broadcast_to(np.eye(4), (*array.shape[:-1], 4, 4)).copy()
    pose[..., :3, 3] = array
    return Task(key, "position") if isinstance(key, str) else key, pose


def _start(robot: Model, start: Any, default: bool) -> Array:
    for name, q in robot.keyframes.items():
        if default or (isinstance(start, str) and start == name):
            return q
    if isinstance(start, str):
        raise UnknownNameError("keyframe (needed for start=)", start, tuple(robot.keyframes))
    q = np.asarray(arguments.numbers("inverse_kinematics", "start", start), dtype=np.float64)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise InputError(f"start is one configuration, ({robot.nq},), without NaN; got shape {q.shape}")
    return q
