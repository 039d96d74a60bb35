"""Operational-space control: joint torques that make tasks track their goals, level by level.

    b  = ẍ_d + kd (ẋ_d − J v) + kp e                    commanded accelerations of the rows       (1)
    a₀ = kp₀ (q_ref ⊖ q) − kd₀ v                        the posture, as joint accelerations       (2)
    Λ⁻¹ f = b − J̇v − J a₀                               forces along the rows, level by level     (3)
    ID(q, v, a) = ID(q, v, a₀) + Jᵀ f = τ + J_cᵀ λ      motors, and constraints                   (4)

In order of priority, the rows are constraints, joint limits, and the goals of each level; the posture acts in the
remaining null space. Without active limits and away from singularities, (1), (3) and the first half of (4) are one
kernel (`kinetree.algorithms.operational_space.control_law`); otherwise kernels for Λ⁻¹, J and M⁻¹ are followed by small
dense solves (`hierarchy`). With constraints, `sharing` solves the second half of (4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.goals import Bounds, Posture, read_levels, rows_of
from kinetree.control.hierarchy import POLICIES, Level, Solution, solve
from kinetree.control.limits import Limits
from kinetree.control.sharing import Sharing, driven_columns
from kinetree.control.targets import ForceState, Targets, Wanted
from kinetree.engines import arguments
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.constraints import REDUNDANT, AnyConstraint, Constraints
from kinetree.model.model import Model
from kinetree.operational_space.law import Law
from kinetree.operational_space.products import product, times
from kinetree.operational_space.singular import means, solved, weights
from kinetree.spatial.value import Array

#: Eigenvalue below which a joint limit cannot be enforced.
_STUCK = 1e-8
#: Bounds of `cut="auto"`.
_LEAST_CUT, _LARGEST_CUT = 1e-6, 1e-2


class Command(NamedTuple):
    """Output of a controller.

    Attributes:
        tau: Joint torques, zero where there is no motor, (…, nv) [N m or N].
        acceleration: Resulting joint accelerations, (…, nv).
        forces: f of each goal along its rows, by name, (…, r).
        constraint_forces: λ of each constraint, by name, (…, c): on the constrained frame, moment first.
        limited: Which degrees of freedom are held at a limit, (…, nv), booleans.
        scale: Factors of goals and posture within the effort limits, (…, 2).
        margin: Lower bound on the smallest eigenvalue of the goals' levels, divided by `cut`, (…). Below 1, some
            direction is being given up.
        state: Integrals of force errors, for the next call; None without `Force` goals that integrate.
    """

    tau: Array
    acceleration: Array
    forces: dict[str, Array]
    constraint_forces: dict[str, Array]
    limited: Array
    scale: Array
    margin: Array
    state: ForceState | None


class OperationalSpace:
    """An operational-space controller. Frozen; call it with states and targets, single or in batches.

    Args:
        robot: The robot, or a scene of a robot and objects (`robot.attach("world", box)`).
        levels: Goals of each priority, highest first: `Goal`, `Force`, names of frames or tasks.
        posture: Posture in the null space of all goals. By default damping only, 2√25 per second.
        constraints: `Weld`, frame names and tasks that are held fixed: feet, grasps, loops.
        at: Configuration at which constraints hold and goals without targets stay. By default that of the posture.
        bounds: Limits of the robot to enforce.
        squeeze: Force with which all grasps press on an object [N], by name of one of its frames.
        undriven: Names of joints without a motor. By default those of free bodies.
        singular: Treatment of directions in which a level cannot move: "blend" or "truncated", see `hierarchy`.
        cut: Eigenvalue of a level's weighted Λ⁻¹ below which directions are treated as singular. "auto" is a tenth of
            the smallest eigenvalue at the posture, at most 10⁻².

    Raises:
        UnderactuatedError: No constraint carries a joint without a motor.
        UnknownNameError: No such frame, joint or policy.
        InputError: Two goals with the same name, a duplicate row, a posture of another robot.
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
    ) -> None:
        if singular not in POLICIES:
            raise UnknownNameError("policy for singular tasks", singular, POLICIES)
        number = isinstance(cut, (int, float)) and not isinstance(cut, bool) and 0.0 < cut < 1.0
        if not number and cut != "auto":
            raise InputError(f'cut is "auto" or an eigenvalue between 0 and 1; got {cut!r}')
        self.robot, self.levels = robot, read_levels(levels)
        if not self.levels:
            raise InputError("a controller needs at least one level of goals")
        self.goals = tuple(goal for level in self.levels for goal in level)
        self.posture, self._start = posture, _start(robot, posture, at)
        given = tuple(constraints)
        self.constraints = Constraints(robot, given, at=self._start) if given else None
        self.bounds = Bounds() if bounds is None else bounds
        self.driven = driven_columns(robot, undriven)
        self._sharing = Sharing(robot, self.constraints, self.driven, squeeze or {})
        self._singular, self._cut = singular, cut
        self._limits = Limits(robot, self.bounds, self.driven)

        held = self.constraints.tasks.tasks if self.constraints else ()
        self._held = self.constraints.rows if self.constraints else 0
        self._tasks = robot.tasks([*held, *(goal.task for goal in self.goals)], reference="local_world_aligned")
        self._targets = Targets(robot, self.constraints, self.goals, self._start)
        self._gains0: tuple[float, float] = (0.0, 10.0)
        if posture is not None and posture.kd is not None:
            self._gains0 = posture.kp, posture.kd

    def __repr__(self) -> str:
        names = " > ".join(", ".join(goal.name for goal in level) for level in self.levels)
        held = f", {self._held} constrained rows" if self._held else ""
        return f"<OperationalSpace of {self.robot.name}: {names}{held}>"

    @cached_property
    def _ready(self) -> bool:
        """Check once, at the first state, that constraints carry all joints without a motor."""
        self._sharing.require_carried(self._start)
        return True

    @cached_property
    def _law(self) -> Law:
        return Law(self._tasks, self._row_cuts, self._by_levels)

    @cached_property
    def _row_cuts(self) -> Array:
        """The cut of each row's level."""
        blocks = self._blocks(self.cuts, self._singular)
        return np.concatenate([np.full(block.rows.stop - block.rows.start, block.cut) for block in blocks])

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """`cut` of each level of goals."""
        if self._cut != "auto":
            return (float(self._cut),) * len(self.levels)
        A = self._tasks.inverse_inertia(self._start)
        with standard_arithmetic():
            found = solve(A, np.zeros(len(A)), self._blocks([_LEAST_CUT] * len(self.levels), "truncated"))
        cuts = []
        for values in found.values[-len(self.levels) :]:
            regular = values[values > _LEAST_CUT]
            cuts.append(min(_LARGEST_CUT, 0.1 * float(regular.min(initial=1.0))))
        return tuple(cuts)

    def _blocks(self, cuts: Any, policy: str, limits: int = 0) -> list[Level]:
        """All levels; limits come between constraints and goals."""
        core = self._tasks.core
        groups, reach = core.recursions.groups, core.recursions.reach
        found, start = [], 0

        def add(rows: int, cut: float, policy: str, own: slice | None) -> None:
            nonlocal start
            mean, away = (np.eye(rows), np.zeros(rows)) if own is None else (means(groups[own]), reach[own])
            found.append(Level(slice(start, start + rows), cut, policy, mean, away))
            start += rows

        if self._held:
            add(self._held, REDUNDANT, "truncated", slice(0, self._held))
        if limits:
            add(limits, _STUCK, "truncated", None)
        at = self._held
        for level, cut in zip(self.levels, cuts, strict=True):
            rows = sum(rows_of(goal) for goal in level)
            add(rows, cut, policy, slice(at, at + rows))
            at += rows
        return found

    def _by_levels(self, A: Array, residual: Array) -> tuple[Array, Array]:
        found = solve(A, residual, self._blocks(self.cuts, self._singular))
        return found.force, self._least(found)

    def _least(self, found: Solution) -> Array:
        """Smallest eigenvalue divided by its cut, over all levels of goals."""
        goals = found.values[-len(self.levels) :]
        shares = [values.min(axis=-1) / cut for values, cut in zip(goals, self.cuts, strict=True)]
        least: Array = np.minimum.reduce(shares)
        return least

    def compile(self) -> None:
        """Compile everything that later calls need."""
        zero = np.zeros(self.robot.nv)
        self(self._start, zero)

    def __call__(
        self,
        q: Any,
        v: Any,
        targets: Mapping[str, Any] | None = None,
        *,
        state: ForceState | None = None,
        dt: Any = 0.0,
    ) -> Command:
        """Torques for a state.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            targets: By goal name, a `Target`, a pose (…, 4, 4), a position (…, 3), or the result of a path. Goals
                without a target stay where they were at `at`.
            state: Integrals of `Force` goals, from the last command.
            dt: Time since the last command [s], for these integrals.

        Raises:
            InputError: A target of the wrong shape.
            UnknownNameError: A target without a goal.
        """
        _ = self._ready
        q = _checked("q", q, self.robot.nq)
        v = _checked("v", v, self.robot.nv)
        wanted = self._targets.read(targets or {}, state, dt)
        with standard_arithmetic():
            batch = arguments.common_batch("control", ("q", "v", "targets"), (q.shape[:-1], v.shape[:-1], wanted.batch))
            q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
            a0 = self._posture_acceleration(q, v)
            return self._command(q, v, a0, wanted)

    def _posture_acceleration(self, q: Array, v: Array) -> Array:
        """(2); bodies without a motor have no posture."""
        kp, kd = self._gains0
        a0: Array = -kd * v
        if self.posture is not None and kp > 0.0:
            a0 = kp * self.robot.difference(q, self.posture.q) + a0
        return np.where(self.driven, a0, 0.0 * a0)

    def _command(self, q: Array, v: Array, a0: Array, wanted: Wanted) -> Command:
        done = self._pipeline(q, v, a0, wanted, None)
        scale = np.ones((*q.shape[:-1], 2))
        if self.bounds.torque:
            done, scale = self._within_effort(q, v, a0, wanted, done)
        limited = np.zeros(done.a.shape, dtype=bool)
        limited[..., self._limits.columns] = done.active != 0
        return Command(
            done.tau,
            done.a,
            self._targets.split(done.force[..., self._held :]),
            self.constraints.split(done.constraint_force) if self.constraints else {},
            limited,
            scale,
            done.margin,
            wanted.state,
        )

    def _pipeline(self, q: Array, v: Array, a0: Array, wanted: Wanted, active: Array | None) -> _Solved:
        """The complete law, with the joints of `active` held at their limits; None determines them."""
        full, force, residual, margin = self._law(q, v, a0, wanted.target, wanted.feed, wanted.gains)
        a = np.asarray(self.robot.forward_dynamics(q, v, full))
        kept = np.zeros((*q.shape[:-1], len(self._limits.columns)), dtype=np.int8)
        if len(self._limits.columns):
            arrays = [x.reshape(-1, x.shape[-1]) for x in (q, v, a0, residual, full, force, a)]
            given = None if active is None else active.reshape(-1, active.shape[-1])
            kept = self._keep_limits(arrays, given).reshape(kept.shape)
        if wanted.push is not None:
            full = full + times(np.swapaxes(self._tasks.jacobian(q), -1, -2), wanted.push)
            force = force + wanted.push
        tau, constraint_force = self._sharing(q, full)
        return _Solved(tau, a, force, constraint_force, kept, np.asarray(margin))

    def _keep_limits(self, arrays: list[Array], active: Array | None) -> Array:
        """Correct the law's results in place where joints would exceed their limits; return those held, (n, l)."""
        q, v, a0, residual, full, f, a = arrays
        limits, core = self._limits, self._tasks.core
        held, reach = self._held, core.recursions.reach
        mean = means(core.recursions.groups)

        def with_rows(samples: Array, columns: Array, wanted: Array) -> tuple[Array, Array]:
            here, count = q[samples], len(columns)
            A, J = self._tasks.inverse_inertia(here), self._tasks.jacobian(here)
            M_inverse = self.robot.mass_matrix_inverse(here)
            own = np.diagonal(A, axis1=-2, axis2=-1)
            cross = product(J, M_inverse[..., columns])
            joints = M_inverse[..., columns, :][..., columns]
            # rows of limits go between those of constraints and goals
            order = np.r_[0:held, A.shape[-1] : A.shape[-1] + count, held : A.shape[-1]]
            everything = np.block([[A, cross], [np.swapaxes(cross, -1, -2), joints]])[..., order, :][..., order]
            lacking = np.concatenate([residual[samples], wanted - a0[samples][:, columns]], axis=-1)[..., order]
            own_joints = np.diagonal(joints, axis1=-2, axis2=-1) * _STUCK
            weight = np.concatenate([weights(own, mean, reach) * self._row_cuts, own_joints], axis=-1)[..., order]
            found, margin = solved(everything, lacking, weight)
            doubtful = ~(margin > 1.0)
            if doubtful.any():
                levels = self._blocks(self.cuts, self._singular, count)
                found[doubtful] = solve(everything[doubtful], lacking[doubtful], levels).force
            rows, of_joints = found[:, np.argsort(order)][:, : A.shape[-1]], found[:, held : held + count]
            push = times(np.swapaxes(J, -1, -2), rows)
            push[:, columns] += of_joints
            f[samples] = rows
            result: Array = a0[samples] + times(M_inverse, push)
            full[samples] = self.robot.inverse_dynamics(here, v[samples], result)
            return result, of_joints

        least, most = limits.accelerations(q, v)
        return limits.keep(least, most, a, with_rows, active)

    def _within_effort(self, q: Array, v: Array, a0: Array, wanted: Wanted, done: _Solved) -> tuple[_Solved, Array]:
        """τ = τ_bias + s τ_goals + s₀ τ_posture with the largest s, then s₀, in [0, 1] within the effort limits."""
        effort = np.where(self.driven, self.robot.effort_limits, np.inf)
        still = wanted._replace(feed=np.zeros_like(wanted.feed), gains=np.zeros_like(wanted.gains), push=None)
        rest = np.zeros_like(a0)
        bias, goals = (self._pipeline(q, v, rest, each, done.active) for each in (still, wanted))
        s = _largest(bias.tau, goals.tau - bias.tau, effort)
        moved = bias.mixed(goals, s)
        s0 = _largest(moved.tau, done.tau - goals.tau, effort)
        mixed = moved.plus(done, goals, s0)
        # the bias alone may already exceed the limits: clip
        mixed = mixed._replace(tau=np.clip(mixed.tau, -effort, effort))
        within = np.asarray((np.abs(done.tau) <= effort).all(axis=-1))
        chosen = _Solved(
            *(
                np.where(within.reshape(within.shape + (1,) * (old.ndim - within.ndim)), old, new)
                for old, new in zip(done, mixed, strict=True)
            )
        )
        scale = np.where(within[..., None], 1.0, np.stack([s, s0], axis=-1))
        return chosen, scale


class _Solved(NamedTuple):
    """The law's results, not yet split by name."""

    tau: Array
    a: Array
    force: Array
    constraint_force: Array
    active: Array
    margin: Array

    def mixed(self, other: _Solved, share: Array) -> _Solved:
        """Linear interpolation towards another result."""
        return self.plus(other, self, share)

    def plus(self, one: _Solved, other: _Solved, share: Array) -> _Solved:
        """This plus a fraction of the difference of two others."""
        s = share[..., None]
        tau, a, force, held = (x + s * (y - z) for x, y, z in zip(self[:4], one[:4], other[:4], strict=True))
        return _Solved(tau, a, force, held, self.active, self.margin)


def _largest(base: Array, way: Array, effort: Array) -> Array:
    """The largest fraction s in [0, 1] with |base + s · way| within the effort limits, (…)."""
    room = np.where(way > 0.0, effort - base, effort + base)
    share = np.where(way != 0.0, room / np.where(way != 0.0, np.abs(way), 1.0), np.inf)
    result: Array = np.clip(share.min(axis=-1, initial=1.0), 0.0, 1.0)
    return result


def _start(robot: Model, posture: Posture | None, at: Any) -> Array:
    """The configuration at which constraints hold and goals start."""
    if posture is not None and posture.q.shape != (robot.nq,):
        raise InputError(f"posture: q has {len(posture.q)} numbers; {robot.name} takes {robot.nq}")
    if at is None:
        return robot.neutral() if posture is None else np.array(posture.q)
    q = arguments.numbers("OperationalSpace", "at", at)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise InputError(f"at is one configuration, ({robot.nq},), without NaN; got shape {q.shape}")
    return np.asarray(q, dtype=np.float64)


def _checked(name: str, value: Any, length: int) -> Array:
    array = arguments.numbers("control", name, value)
    arguments.require_shape(f"control: {name}", array.shape, (length,))
    return np.asarray(array, dtype=np.float64)
