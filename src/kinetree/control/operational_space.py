"""Operational-space control: joint torques that make tasks track their goals, level by level.

    b  = ẍ_d + kd (ẋ_d − J v) + kp e                    commanded accelerations of the rows       (1)
    a₀ = kp₀ (q_ref ⊖ q) − kd₀ v                        the posture, as joint accelerations       (2)
    Λ⁻¹ f = b − J̇v − J a₀                               forces along the rows, level by level     (3)
    ID(q, v, a) = ID(q, v, a₀) + Jᵀ f = τ + J_cᵀ λ      motors, and constraints                   (4)

In order of priority, the rows are constraints, joint limits and distances, and the goals of each level; the posture
acts in the remaining null space. Away from singularities, (1) to (3) and the first half of (4) are one kernel
(`kinetree.algorithms.tasks.control_law`); close to them, the levels are solved by `hierarchy`. With constraints,
`sharing` solves the second half of (4). `pipeline` puts all of this together, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.compiler.count import Count
from kinetree.compiler.formats import require_double
from kinetree.control.avoid import AccelerationRows, Avoid
from kinetree.control.command import Command, Remade, Solved, within_effort
from kinetree.control.escape import Escape
from kinetree.control.goals import Bounds, Posture, chosen_error, read_levels, rows_of, start_of
from kinetree.control.hierarchy import POLICIES, Levels
from kinetree.control.pipeline import ControlPipeline, EnforcedLimits
from kinetree.control.sharing import Sharing, driven_columns
from kinetree.control.targets import FAULT, ControllerState, Targets, Wanted
from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.limits import SLACK
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.constraints import Constraints
from kinetree.model.held_rows import AnyConstraint
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import standard_arithmetic
from kinetree.runtime.function import ENGINES
from kinetree.runtime.matrix_products import dots
from kinetree.spatial.value import Array
from kinetree.tasks.singular import means, weights
from kinetree.tasks.task_types import Task

_NDARRAY = np.ndarray


class OperationalSpace(Remade):
    """An operational-space controller. Frozen; call it with states and targets, single or in batches.

    Args:
        robot: The robot, or a scene of a robot and objects (`robot.attach("world", box)`).
        levels: Goals of each priority, highest first: `Goal`, `ForceGoal`, names of frames or tasks.
        posture: Posture in the null space of all goals. By default damping only, 2√25 per second.
        constraints: `Weld`, frame names and tasks that are held fixed: feet, grasps, loops.
        at: Configuration at which constraints hold and goals without targets stay. By default that of the posture.
        bounds: Limits of the robot to enforce.
        squeeze: Force with which all grasps press on an object [N], by name of one of its frames.
        undriven: Names of joints without a motor. By default those of free and flexible bodies.
        singular: Treatment of directions in which a level cannot move: "blend" or "truncated", see `hierarchy`.
        cut: Eigenvalue of a level's weighted Λ⁻¹ below which directions are treated as singular. "auto" is a tenth of
            the smallest eigenvalue at the posture, at most 10⁻².
        error: Error between a pose and its target. "sine" (Luh's, sin θ about the axis) is the fastest, and vanishes at
            half a turn; "rotation_vector" does not; "log6" is the screw motion that leads to the target.
        escape: Whether to leave singularities in which the goals would be stuck, such as a wrist with two axes in line,
            by motion in the null space: see `kinetree.control.escape`. Not while joints are held at their limits.
        avoid: Pairs of shapes that stay apart: `Avoid`, or pairs of `robot.collision_pairs`. They have the priority of
            joint limits.

    Raises:
        UnderactuatedError: No constraint carries a joint without a motor.
        UnknownNameError: No such frame, joint or policy.
        InputError: Two goals with the same name, a duplicate row, a posture of another robot, bounds that no joint has.
    """

    def __init__(
        self,
        robot: Model,
        *levels: Any,
        posture: Posture | None = None,
        constraints: Iterable[AnyConstraint] = (),
        at: Any = None,
        bounds: Bounds | None = None,
        squeeze: Mapping[str, float] | None = None,
        undriven: Iterable[str] | None = None,
        singular: str = "blend",
        cut: float | str = "auto",
        error: str = "sine",
        escape: bool = False,
        avoid: Avoid | CollisionPairs | None = None,
    ) -> None:
        require_double(robot.mechanism, "OperationalSpace")
        if singular not in POLICIES:
            raise UnknownNameError("policy for singular tasks", singular, POLICIES)
        if not isinstance(cut, str) or cut != "auto":
            cut = arguments.number("cut", cut, what='"auto" or an eigenvalue between 0 and 1', above=0.0, below=1.0)
        self.robot, self.levels = robot, read_levels(levels)
        if not self.levels:
            raise InputError("a controller needs at least one level of goals")
        self.goals = tuple(goal for level in self.levels for goal in level)
        self._error = chosen_error(error, self.goals)
        self.posture, self._start = posture, start_of(robot, posture, at, "OperationalSpace")
        given = tuple(constraints)
        self.constraints = Constraints(robot, given, at=self._start) if given else None
        self.bounds = Bounds() if bounds is None else bounds
        self.driven = driven_columns(robot, undriven)
        if escape and not self.driven.all():
            raise InputError("escape=True needs a motor in every joint")
        self._escapes = bool(escape)
        self._sharing = Sharing(robot, self.constraints, self.driven, squeeze or {}, self._start)
        self._sharing.require_carried(self._start)
        self._singular, self._cut = singular, cut
        self._limits = EnforcedLimits(robot, self.bounds, self.driven)
        self._avoid = AccelerationRows.of(robot, avoid)

        held = self.constraints.tasks.tasks if self.constraints else ()
        if self.constraints is not None:
            _require_apart(self.goals, self.constraints)
        self._held = self.constraints.rows if self.constraints else 0
        self._tasks = robot.tasks([*held, *(goal.task for goal in self.goals)], reference="local_world_aligned")
        self._targets = Targets(robot, self.goals, self._start)
        # bodies without a motor have no posture
        self._posture = self._start if posture is None else posture.q
        gains: Any = (0.0, 10.0) if posture is None else (posture.kp, posture.kd)
        self._pull = np.outer(self.driven, gains)
        self._unscaled, self._unlimited = np.ones(2), np.zeros(robot.nv, dtype=bool)
        for constant in (self._pull, self._unscaled, self._unlimited):
            constant.setflags(write=False)

    def __repr__(self) -> str:
        names = " > ".join(", ".join(goal.name for goal in level) for level in self.levels)
        held = f", {self._held} constrained rows" if self._held else ""
        return f"<OperationalSpace of {self.robot.name}: {names}{held}>"

    @cached_property
    def _levels(self) -> Levels:
        rows = [sum(rows_of(goal) for goal in level) for level in self.levels]
        return Levels(self._tasks, self._held, rows, self._cut, self._singular, self._start)

    @cached_property
    def _pipeline(self) -> ControlPipeline:
        recursions, targets = self._tasks.core.recursions, self._targets
        fixed = np.zeros((0, 4, 4)) if self.constraints is None else self.constraints.targets
        return ControlPipeline(
            self.robot, recursions, self._levels, self._limits, self._sharing, fixed, self._held, self._posture,
            self._pull, targets.gains, self._error, targets.forced, self._escape() if self._escapes else None,
            self._engine, self._avoid,
        )  # fmt: skip

    def _escape(self) -> Escape:
        recursions = self._tasks.core.recursions
        mean = means(recursions.groups)

        def roots(own: Array) -> Array:
            return np.sqrt(weights(own, mean, recursions.reach))

        return Escape(self.robot, recursions.jacobian, roots, self._levels.row_cuts, self._singular)

    @cached_property
    def _unheld(self) -> ControllerState:
        return ControllerState({}, self._pipeline.free)

    def compile(self) -> None:
        """Compile everything that later calls need, except the rows of joints and distances at their limits."""
        self._pipeline.compile()
        self(self._start, np.zeros(self.robot.nv))

    def count(self) -> Count:
        """Operations of the law for one state, without limits and the sharing of loads."""
        return self._tasks.core.recursions.control_step(self._error, moving=True).count()

    def engine(self, name: str) -> OperationalSpace:
        """The same controller with its law on another engine: "native" or "reference"."""
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
        if name == self._engine:
            return self
        other = object.__new__(type(self))
        derived = "_pipeline", "_unheld"
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key not in derived})
        other._engine = name
        return other

    def __call__(
        self,
        q: Any,
        v: Any,
        targets: Mapping[str, Any] | None = None,
        *,
        state: ControllerState | None = None,
        dt: Any = 0.0,
        out: Array | None = None,
    ) -> Command:
        """Torques for a state.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            targets: By goal name, a `Target`, a pose (…, 4, 4), a position (…, 3), or the result of a path. Goals
                without a target stay where they were at `at`.
            state: State of the last command: integrals of `ForceGoal`s, and joints at their limits, which are likely to
                stay there. Without it, results are the same but for the integrals.
            dt: Time since the last command [s], for these integrals.
            out: Array for the torques, (…, nv).

        Raises:
            InputError: A target of the wrong shape.
            UnknownNameError: A target without a goal.
        """
        wanted = self._targets.read(targets, state, dt)
        if wanted.batch or type(q) is not _NDARRAY or type(v) is not _NDARRAY or q.ndim != 1 or v.ndim != 1:
            q, v = self._together(q, v, wanted.batch, targets)
        done, scale, slack = self._solved(q, v, wanted, targets, self._guess(state, q.shape[:-1]))
        batch, free = q.shape[:-1], self._unheld.active
        limited, state = self._unlimited if not batch else np.zeros(done.a.shape, dtype=bool), wanted.state
        if done.active is free:
            state = self._unheld if state is None else state._replace(active=free)
        elif done.active is not None:
            limited = np.zeros(done.a.shape, dtype=bool)
            limited[..., self._limits.columns] = done.active[..., : len(self._limits.columns)] != 0
            state = ControllerState({} if state is None else state.integrals, done.active)
        return Command(
            done.tau if out is None else _handed_over(done.tau, out),
            done.a,
            self._targets.split(done.force[..., self._held :] if self._held else done.force),
            self.constraints.split(done.constraint_force) if self.constraints else {},
            limited,
            scale,
            np.asarray(done.margin),
            state,
            slack,
        )

    def torques(self, q: Any, v: Any, poses: Any = None, feed: Any = None, out: Array | None = None) -> Array:
        """The torques alone, with targets as arrays: what a servo loop or a batch of robots calls.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            poses: Poses of all goals in their order, (…, g, 4, 4); those at `at` by default.
            feed: Velocity and acceleration of each row of the goals, (…, r, 2); zero by default.
            out: Array for the torques, (…, nv).
        """
        wanted = self._targets.arrays(poses, feed)
        if wanted.batch or type(q) is not _NDARRAY or type(v) is not _NDARRAY or q.ndim != 1 or v.ndim != 1:
            q, v = self._together(q, v, wanted.batch)
        done, *_ = self._solved(q, v, wanted, None, None, brief=True)
        return done.tau if out is None else _handed_over(done.tau, out)

    def _together(
        self, q: Any, v: Any, batch_of_targets: tuple[int, ...], targets: Mapping[str, Any] | None = None
    ) -> tuple[Array, Array]:
        """The state, checked, in the batch shape that it has together with the targets; by name, they have no other."""
        q = arguments.doubles("control", "q", q, (self.robot.nq,))
        v = arguments.doubles("control", "v", v, (self.robot.nv,))
        batch = arguments.common_batch("control", ("q", "v"), (q.shape[:-1], v.shape[:-1]))
        if targets is not None:
            self._targets.require_batch(targets, batch_of_targets, batch)
        batch = arguments.common_batch("control", ("states", "targets"), (batch, batch_of_targets))
        return np.broadcast_to(q, (*batch, self.robot.nq)), np.broadcast_to(v, (*batch, self.robot.nv))

    def _guess(self, state: ControllerState | None, batch: tuple[int, ...]) -> Array | None:
        """The joints that the last command held at their limits."""
        if state is None or state.active is None or state.active is self._unheld.active:
            return None
        wanted = (*batch, len(self._pipeline.free))
        if not wanted[-1] or np.shape(state.active) == wanted:
            return state.active if wanted[-1] else None
        try:
            return np.broadcast_to(state.active, wanted)
        except ValueError:
            raise InputError(
                f"state: active has shape {np.shape(state.active)}, which does not fit {wanted}; pass the state of a "
                "command of this controller"
            ) from None

    def _solved(
        self,
        q: Array,
        v: Array,
        wanted: Wanted,
        targets: Mapping[str, Any] | None,
        active: Array | None,
        brief: bool = False,
    ) -> tuple[Solved, Array, Array]:
        """The law within all limits, the factors of goals and posture within the effort limits, (…, 2), and slack."""
        solve, torque = self._pipeline.solve, self.bounds.torque
        near = () if self._avoid is None else self._avoid.approaching(q, v)
        done = solve(q, v, wanted, active, near, brief=brief and not torque)
        if type(done.fault) is not float or done.fault > FAULT:
            self._targets.require_poses(done.fault, wanted, targets)
        free = done.active is None or done.active is self._pipeline.free or not done.active.any()
        if not torque:
            scale = self._unscaled if q.ndim == 1 else np.ones((*q.shape[:-1], 2))
            return done, scale, np.zeros(q.shape[:-1]) if free or brief else self._slack(q, v, done.a, near)
        # less of the posture, then of the goals
        push = None if wanted.push is None else np.zeros_like(wanted.push)
        still = wanted._replace(feed=np.zeros_like(wanted.feed), push=push)
        bias = solve(q, v, still, done.active, near, case="bias", fixed=True)
        goals = solve(q, v, wanted, done.active, near, case="goals", fixed=True)
        with standard_arithmetic():
            done, scale = within_effort(bias, goals, done, np.where(self.driven, self.robot.effort_limits, np.inf))
        return done, scale, np.zeros(q.shape[:-1]) if free and (scale == 1.0).all() else self._slack(q, v, done.a, near)

    def _slack(self, q: Array, v: Array, a: Array, near: Sequence[Array]) -> Array:
        """By how much accelerations exceed the bounds of joints and distances, (…); less than `SLACK` is rounding."""
        low, high = self._limits.accelerations(q, v)
        own = a[..., self._limits.columns]
        beyond = [low - own, own - high]
        if near:
            J, bounds = near
            beyond.append(bounds[..., 0] + dots(J, a[..., None, :]))
        with standard_arithmetic():
            most = np.concatenate(beyond, axis=-1).max(axis=-1, initial=0.0)
        return np.where(most > SLACK, most, 0.0)


def _require_apart(goals: Iterable[Any], constraints: Constraints) -> None:
    """Raise if a goal moves what a constraint holds."""
    for goal in goals:
        for one, held in zip(constraints.constraints, constraints.tasks.tasks, strict=True):
            same = isinstance(held, Task) and isinstance(goal.task, Task) and held.frame == goal.task.frame
            if same and set(held.rows) & set(goal.task.rows):
                raise InputError(f"{goal} and the constraint {one} contradict each other; drop one of them")


def _handed_over(tau: Array, out: Array | None) -> Array:
    """The torques, in the array for them if one is given."""
    if out is None:
        return tau
    home: Array
    (home,) = arguments.results("control", out, ("tau",), (tau.shape,))
    home[...] = tau
    return home
