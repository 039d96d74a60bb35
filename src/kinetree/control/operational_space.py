"""Operational-space control: joint torques that make tasks track their goals, level by level.

    b  = ẍ_d + kd (ẋ_d − J v) + kp e                    commanded accelerations of the rows       (1)
    a₀ = kp₀ (q_ref ⊖ q) − kd₀ v                        the posture, as joint accelerations       (2)
    Λ⁻¹ f = b − J̇v − J a₀                               forces along the rows, level by level     (3)
    ID(q, v, a) = ID(q, v, a₀) + Jᵀ f = τ + J_cᵀ λ      motors, and constraints                   (4)

In order of priority, the rows are constraints, joint limits, and the goals of each level; the posture acts in the
remaining null space. Away from singularities, (1) to (3) and the first half of (4) are one kernel
(`kinetree.algorithms.operational_space.control_law`); close to them, the levels are solved by `hierarchy`. With
constraints, `sharing` solves the second half of (4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.control.command import Command, Remade, Solved, within_effort
from kinetree.control.compiled_law import CompiledLaw
from kinetree.control.escape import Escape
from kinetree.control.goals import Bounds, ForceGoal, Posture, chosen_error, read_levels, rows_of, start_of
from kinetree.control.hierarchy import POLICIES, Levels
from kinetree.control.limited import LimitedLaws
from kinetree.control.limits import EnforcedLimits
from kinetree.control.sharing import Sharing, driven_columns
from kinetree.control.targets import ControllerState, Targets, Wanted
from kinetree.control.within_limits import WithinLimits
from kinetree.engines import arguments
from kinetree.engines.count import Count
from kinetree.engines.formats import require_double
from kinetree.engines.native.compiled import Compiled, standard_arithmetic
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.constraint_kinds import AnyConstraint
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.operational_space.law import FAULT, Law
from kinetree.operational_space.products import times
from kinetree.operational_space.singular import means, weights
from kinetree.operational_space.tasks import Task
from kinetree.spatial.value import Array

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
        undriven: Names of joints without a motor. By default those of free bodies.
        singular: Treatment of directions in which a level cannot move: "blend" or "truncated", see `hierarchy`.
        cut: Eigenvalue of a level's weighted Λ⁻¹ below which directions are treated as singular. "auto" is a tenth of
            the smallest eigenvalue at the posture, at most 10⁻².
        error: Error between a pose and its target. "sine" (Luh's, sin θ about the axis) is the fastest, and vanishes at
            half a turn; "rotation_vector" does not; "log6" is the screw motion that leads to the target.
        escape: Whether to leave singularities in which the goals would be stuck, such as a wrist with two axes in line,
            by motion in the null space: see `kinetree.control.escape`. Not while joints are held at their limits.

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
        self._sharing = Sharing(robot, self.constraints, self.driven, squeeze or {})
        self._sharing.require_carried(self._start)
        self._singular, self._cut = singular, cut
        self._limits = EnforcedLimits(robot, self.bounds, self.driven)

        held = self.constraints.tasks.tasks if self.constraints else ()
        if self.constraints is not None:
            _require_apart(self.goals, self.constraints)
        self._held = self.constraints.rows if self.constraints else 0
        self._tasks = robot.tasks([*held, *(goal.task for goal in self.goals)], reference="local_world_aligned")
        self._fixed_sites = self.constraints.law.sites() if self.constraints else 0
        self._targets = Targets(robot, self.constraints, self.goals, self._start)
        self._forced = any(isinstance(goal, ForceGoal) for goal in self.goals)
        # bodies without a motor have no posture
        self._posture = self._start if posture is None else posture.q
        gains: Any = (0.0, 10.0) if posture is None else (posture.kp, posture.kd)
        self._pull = np.outer(self.driven, gains)
        self._unscaled, self._unlimited = np.ones(2), np.zeros(robot.nv, dtype=bool)
        unheld = np.zeros(len(self._limits.columns), dtype=np.int8)
        for constant in (self._pull, self._unscaled, self._unlimited, unheld):
            constant.setflags(write=False)
        self._unheld: Any = ControllerState({}, unheld)

    def __repr__(self) -> str:
        names = " > ".join(", ".join(goal.name for goal in level) for level in self.levels)
        held = f", {self._held} constrained rows" if self._held else ""
        return f"<OperationalSpace of {self.robot.name}: {names}{held}>"

    @cached_property
    def _law(self) -> Law:
        recursions, escape = self._tasks.core.recursions, None
        if self._escapes:
            mean = means(recursions.groups)

            def roots(own: Array) -> Array:
                return np.sqrt(weights(own, mean, recursions.reach))

            escape = Escape(self.robot, recursions.jacobian, roots, self._hierarchy.row_cuts, self._singular)
        return Law(recursions, self._hierarchy.row_cuts, self._hierarchy.solve, error=self._error, escape=escape)

    def _law_holding(self, columns: tuple[int, ...]) -> Law:
        """The law with some joints held at their limits, for `CompiledLaw`."""
        if columns:
            return self._limited.law(columns)
        return self._law

    @cached_property
    def _within(self) -> WithinLimits:
        return WithinLimits(self.robot, self._limits, self._law, self._limited, self._posture)

    @cached_property
    def _limited(self) -> LimitedLaws:
        """The law with some joints held at their limits."""
        recursions = self._tasks.core.recursions
        cuts, solve = self._hierarchy.row_cuts, self._hierarchy.solve
        return LimitedLaws(self.robot, recursions, cuts, self._held, self._fixed_sites, solve, self._error)

    @cached_property
    def _compiled(self) -> CompiledLaw | None:
        """The law with limits and the sharing of loads as one function, on the native engine."""
        if self._engine != "native" or not self._sharing.in_kernel:
            return None
        fixed = np.zeros((0, 4, 4)) if self.constraints is None else self.constraints.targets
        inputs = self._posture, self._pull, self._targets.gains, fixed
        levels = None if self._escapes else self._hierarchy
        return CompiledLaw(
            self.robot, self._limits, self._law_holding, self._sharing, inputs, self._held, levels, self._unheld.active
        )

    @cached_property
    def _hierarchy(self) -> Levels:
        rows = [sum(rows_of(goal) for goal in level) for level in self.levels]
        return Levels(self._tasks, self._held, rows, self._cut, self._singular, self._start)

    def compile(self) -> None:
        """Compile everything that later calls need, except the rows of joints at their limits."""
        if self._compiled is not None:
            self._compiled.compile()
        self(self._start, np.zeros(self.robot.nv))

    def count(self) -> Count:
        """Operations of the law for one state, without limits and the sharing of loads."""
        return self._law.count()

    def engine(self, name: str) -> OperationalSpace:
        """The same controller with its law on another engine: "native" or "reference"."""
        tasks = self._tasks.engine(name)
        if tasks is self._tasks:
            return self
        other = object.__new__(type(self))
        derived = ("_law", "_limited", "_within", "_compiled", "_short", "_simple", "_hierarchy")
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key not in derived})
        other._tasks, other._engine = tasks, name
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
        command = self._command(q, v, wanted, targets, self._guess(state, q.shape[:-1]))
        return command if out is None else command._replace(tau=_handed_over(command.tau, out))

    def torques(self, q: Any, v: Any, poses: Any = None, feed: Any = None, out: Array | None = None) -> Array:
        """The torques alone, with targets as arrays: what a servo loop or a batch of robots calls.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            poses: Poses of all goals in their order, (…, g, 4, 4); those at `at` by default.
            feed: Velocity and acceleration of each row of the goals, (…, r, 2); zero by default.
            out: Array for the torques, (…, nv).
        """
        if feed is None and self._simple and type(q) is type(v) is type(poses) is _NDARRAY:
            short = self._short
            found, checks = short(q, v, poses)
            if self._law.holds(checks):
                return _handed_over(found, out)
        if feed is None and out is None and type(q) is type(v) is _NDARRAY and q.ndim == v.ndim == 1:
            alone = self._torques_alone(q, v, poses)
            if alone is not None:
                return alone
        wanted = self._targets.arrays(poses, feed)
        q, v = self._together(q, v, wanted.batch)
        return _handed_over(self._command(q, v, wanted, None).tau, out)

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

    def _torques_alone(self, q: Array, v: Array, poses: Any) -> Array | None:
        """The same for one sample, by the short way. None where there is none."""
        compiled = self._compiled
        if compiled is None or self._forced or self.bounds.torque or not self._targets.takes(poses):
            return None
        done = compiled.alone(q, v, poses, self._targets.feed_of_goals, None)
        return done.tau if done is not None and done.fault <= FAULT else None

    @cached_property
    def _simple(self) -> bool:
        """Whether one kernel gives the torques, from the poses of all its frames."""
        alone = self._sharing.trivial and not len(self._limits.columns) and not self.bounds.torque
        return alone and not self._forced and self._targets.complete and self._engine == "native"

    @cached_property
    def _short(self) -> Compiled:
        return self._law.short(self._posture, self._pull, self._targets.feed, self._targets.gains)

    def _command(
        self, q: Array, v: Array, wanted: Wanted, targets: Mapping[str, Any] | None, active: Array | None = None
    ) -> Command:
        done = self._solved(q, v, wanted, active)
        if type(done.fault) is not float or done.fault > FAULT:
            self._targets.require_poses(done.fault, wanted, targets)
        batch = q.shape[:-1]
        scale = self._unscaled if not batch else np.ones((*batch, 2))
        if self.bounds.torque:
            with standard_arithmetic():
                done, scale = self._within_effort(q, v, wanted, done)
        limited, state = self._unlimited, wanted.state
        if done.active is self._unheld.active:
            state = self._unheld if state is None else state._replace(active=self._unheld.active)
        elif done.active is not None:
            limited = np.zeros(done.a.shape, dtype=bool)
            limited[..., self._limits.columns] = done.active != 0
            state = ControllerState({} if state is None else state.integrals, done.active)
        elif batch:
            limited = np.zeros(done.a.shape, dtype=bool)
        return Command(
            done.tau,
            done.a,
            self._targets.split(done.force[..., self._held :] if self._held else done.force),
            self.constraints.split(done.constraint_force) if self.constraints else {},
            limited,
            scale,
            np.asarray(done.margin),
            state,
        )

    def _guess(self, state: ControllerState | None, batch: tuple[int, ...]) -> Array | None:
        """The joints that the last command held at their limits."""
        if state is None or state.active is None or state.active is self._unheld.active:
            return None
        wanted = (*batch, len(self._limits.columns))
        if not wanted[-1] or np.shape(state.active) == wanted:
            return state.active if wanted[-1] else None
        try:
            return np.broadcast_to(state.active, wanted)
        except ValueError:
            raise InputError(
                f"state: active has shape {np.shape(state.active)}, which does not fit {wanted}; pass the state of a "
                "command of this controller"
            ) from None

    def _solved(self, q: Array, v: Array, wanted: Wanted, active: Array | None) -> Solved:
        """The complete law: all at once, and step by step for samples near a singularity."""
        compiled = self._compiled
        if compiled is None or wanted.push is not None:
            return self._pipeline(q, v, self._pull, wanted, active, fixed=False)
        if q.ndim == 1:
            still = wanted.feed is self._targets.feed
            feed = self._targets.feed_of_goals if still else wanted.feed[self._held :]
            alone = compiled.alone(q, v, wanted.target[self._fixed_sites :], feed, active)
            return alone or self._pipeline(q, v, self._pull, wanted, active, fixed=False)
        inputs = q, v, wanted.target[..., self._fixed_sites :, :, :], wanted.feed[..., self._held :, :]
        done, sure = compiled.together(*inputs, active)
        if sure.all():
            return done
        batch, rest = sure.shape, ~sure
        target, feed = (
            np.broadcast_to(x, (*batch, *x.shape[-axes:]))[rest] for x, axes in ((wanted.target, 3), (wanted.feed, 2))
        )
        guess = None if active is None else np.broadcast_to(active, (*batch, active.shape[-1]))[rest]
        here = wanted._replace(target=target, feed=feed, batch=target.shape[:1])
        again = self._pipeline(q[rest], v[rest], self._pull, here, guess, fixed=False)
        for result, part in zip(done, again, strict=True):
            if result is not None:
                result[rest] = part
        return done

    def _pipeline(self, q: Array, v: Array, pull: Array, wanted: Wanted, active: Array | None, fixed: bool) -> Solved:
        """The complete law, with the joints of `active` held at their limits at first, or in any case."""
        found = self._within(q, v, pull, wanted, active, fixed)
        full, force = found.tau, found.force
        if wanted.push is not None:
            with standard_arithmetic():
                full = full + times(np.swapaxes(self._tasks.jacobian(q), -1, -2), wanted.push)
                force = force + wanted.push
        tau, constraint_force = self._sharing(q, full)
        return Solved(tau, found.a, force, constraint_force, found.active, np.asarray(found.margin), found.fault)

    def _within_effort(self, q: Array, v: Array, wanted: Wanted, done: Solved) -> tuple[Solved, Array]:
        """The law within the effort limits: less of the posture, then of the goals."""
        effort = np.where(self.driven, self.robot.effort_limits, np.inf)
        still = wanted._replace(feed=np.zeros_like(wanted.feed), gains=np.zeros_like(wanted.gains), push=None)
        none = np.zeros_like(self._pull)
        bias, goals = (self._pipeline(q, v, none, each, done.active, fixed=True) for each in (still, wanted))
        return within_effort(bias, goals, done, effort)


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
