"""The controller's whole computation as one text, and the active set of joints and distances at their limits.

    bounds    of the joints' accelerations, by their limits                       `kernels.limits`
    law       joint forces for the goals, with some joints held at their bounds   `control_step`, or `hierarchy`
    check     whether these joints are the right ones                             `kernels.limits`
    push      forces of goals that press instead of moving
    sharing   what motors, grasps and supports contribute                         `sharing`

The text is recorded into one compiled function for each choice of joints, or executed on arrays by the reference
engine. Away from singularities the law is one recursion. Samples that its `margin` doubts take a second function, which
solves the law level by level.

A joint may approach a limit only as fast as still lets it come to rest there, by (1) of `kernels.limits`. Joints whose
accelerations violate that become rows between constraints and goals, and rows whose force pulls instead of pushing are
released; in later rounds only one at a time, and finally none, so that the iteration terminates. At convergence, the
motion is that of the quadratic program with these bounds above the goals. The rounds of a sample depend on that sample
only: samples with the same active rows are solved together, with the same bits as alone. The rows of the last command
may be tried first: where they are still the right ones, nothing else is solved.

The row of a joint is the motion of its parent relative to its child, about or along the joint's axis, which is the z
axis of the child's node: its Jacobian is −1 in the joint's column and zero elsewhere. All choices of joints share their
compiled kernels; only tables differ.

The nearest pairs of shapes (`avoid`) are rows of the same kind, by their distances: they follow the joints in the
choice. Their Jacobians are numbers and no motion of frames, so a choice with some of them is solved level by level.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.concurrency import ForkSafeLock
from kinetree.control.avoid import AccelerationRows
from kinetree.control.command import Solved
from kinetree.control.escape import Escape
from kinetree.control.goals import Bounds
from kinetree.control.hierarchy import STUCK, Levels
from kinetree.control.sharing import Sharing
from kinetree.control.targets import Wanted
from kinetree.errors import InputError, ModelWarning
from kinetree.kernels.language import Kernel
from kinetree.kernels.limits import acceleration_bounds, bounds_check
from kinetree.kernels.products import row_inertia, total, with_row_forces, without_motion
from kinetree.language.mechanism import Site
from kinetree.model.model import Model
from kinetree.runtime.bound import standard_arithmetic
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import executed, recorded
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array
from kinetree.tasks.recursions import Recursions

#: Rounds that release all pulling rows, two to four of which are typical; those before `_ONE` release one at a time,
#: and the rest none.
_ALL, _ONE = 10, 50
#: The round in which rows from elsewhere are tried, and the only one of rows that must not change.
_GIVEN, _FIXED = -1, None
#: Functions that are kept, and choices of joints that are kept with their tables.
_CHOICES = 256
_NOTHING = np.zeros(0)


class LawRows(NamedTuple):
    """The rows of constraints, joints at their limits and goals, with reach and cut of each, (r,)."""

    recursions: Recursions
    reach: Array
    cuts: Array


#: Posture and goals, goals alone, neither.
CASES = ("whole", "goals", "bias")


class ControlPipeline:
    """From states and targets to torques, accelerations and forces.

    Args:
        robot: The robot.
        recursions: Those of the rows of constraints and goals.
        levels: Their priorities.
        limits: The limits that are enforced.
        sharing: Shares the load among motors and constraints.
        fixed: Targets of the sites of constraints, (s, 4, 4).
        held: Number of rows of constraints.
        posture: Configuration, (nq,).
        pull: Gains of the posture, (nv, 2).
        gains: Gains of the rows of goals, (r, 2).
        error: The error between poses.
        pushes: Whether goals press, so that `push` is an input.
        escape: Leaves singularities, if wanted.
        engine: "native" or "reference".
        avoid: Distances that are kept, if any.

    Attributes:
        free: Active rows if no joint or distance is at a limit, (l,): results have this very array then.
    """

    def __init__(
        self,
        robot: Model,
        recursions: Recursions,
        levels: Levels,
        limits: EnforcedLimits,
        sharing: Sharing,
        fixed: Array,
        held: int,
        posture: Array,
        pull: Array,
        gains: Array,
        error: str,
        pushes: bool,
        escape: Escape | None,
        engine: str,
        avoid: AccelerationRows | None = None,
    ) -> None:
        self._pairs = 0 if avoid is None else avoid.count
        # axes of the inputs: q, v, targets, feed-forward, rows of pairs and their bounds, push
        self._ranks = (1, 1, 3, 2, *((2, 2) if self._pairs else ()), 1)
        self._robot, self._recursions, self._levels, self._limits = robot, recursions, levels, limits
        self._sharing, self._fixed, self._held, self._posture, self._error = sharing, fixed, held, posture, error
        self._pushes, self._escape, self._engine = pushes, escape, engine
        rows = np.concatenate([np.zeros((held, 2)), gains])
        self._cases = {"whole": (pull, rows), "goals": (0.0 * pull, rows), "bias": (0.0 * pull, 0.0 * rows)}
        self.free = np.zeros(len(limits.columns) + self._pairs, np.int8)
        self.free.setflags(write=False)
        self._free_key, self._limited = self.free.tobytes(), len(self.free) > 0
        self._joints = {joint.v_start: joint for joint in robot.joints if joint.nv == 1}
        self._functions: dict[tuple[bytes, bool, str, bool], Callable[..., Any]] = {}
        self._rows: dict[tuple[int, ...], LawRows] = {}
        self._lock = ForkSafeLock()

    # The text

    def _text(self, pattern: Array, near: bool, case: str, brief: bool, run: Any, *inputs: Any) -> list[Any]:
        """The whole computation, from `_inputs` to `_outputs`, with the joints of a pattern held at their limits.

        The law is solved level by level if it is `near` a singularity; `brief` wants torques alone.
        """
        q, v, target, feed, *more = inputs
        limits, held, joints = self._limits, self._held, len(self._limits.columns)
        rows, close = np.flatnonzero(pattern[:joints]), np.flatnonzero(pattern[joints:])
        own, (pull, gains) = len(rows), self._cases[case]
        law = self._holding(tuple(limits.columns[rows].tolist()))
        recursions = law.recursions

        # rows of joints between those of constraints and goals
        at: Any = np.zeros((0, 2))
        bounds: Any = np.zeros((0, 2))
        if joints:
            bounds, opposite = limits.bounds(run, q, v)
        if own:
            chosen = run.taken(opposite, 2 * rows + (pattern[rows] > 0))
            at = run.placed(chosen, 2 * np.arange(own) + 1, (own, 2))
        target = run.joined(self._fixed, np.tile(np.eye(4), (2 * own, 1, 1)), target)
        feed = run.joined(np.zeros((held, 2)), at, feed)
        gains = np.insert(gains, [held] * own, 0.0, axis=0)

        # joint forces, forces along the rows, and accelerations
        step = recursions.control_step(self._error, moving=True)  # for torques alone, too: others have other bits
        given = q, v, self._posture, pull, target, feed, gains, law.reach, law.cuts
        full, force, residual, spread, a0, fault, *motion = run(step, *given)
        lacking = residual
        if near:
            J = run(recursions.jacobian, q)
            if self._escapes(pattern):
                lacking = run(recursions.dense(without_motion), residual, J, more[-1])
                a0 = run(compiled(total, n=self._robot.nv), a0, more[-1])
            if len(close):
                J, lacking = self._with_pairs(
                    run, J, lacking, a0, (held + own, len(gains) - held - own), close, *more[:2]
                )
                A = run(self._dense(row_inertia, len(gains) + len(close)), J, run(self._robot.mass_matrix_inverse, q))
            else:
                A = run(recursions.inverse_inertia, q)
            force, spread = self._levels.forces(run, A, lacking, own + len(close))  # the margin itself
            base = run(recursions.inverse_dynamics, q, v, a0)
            full = run(self._dense(with_row_forces, len(gains) + len(close)), base, J, force)
            motion = []  # not by these forces
        if len(pattern) or not brief:
            a = motion[0] if motion else run(self._robot.forward_dynamics, q, v, full)
        kept = own + len(close)
        numbers = np.arange(len(gains) + len(close))
        checks, results = [spread, fault], []
        if len(pattern):
            along: Any = np.zeros(len(pattern))
            if kept:
                active = np.concatenate([rows, joints + close])
                along = run.placed(run.taken(force, numbers[held : held + kept]), active, pattern.shape)
            moved = run.taken(a, limits.columns) if joints else np.zeros(0)
            if self._pairs:
                parting = run(self._dense(without_motion, self._pairs), np.zeros(self._pairs), more[0], a)
                moved = run.joined(moved, parting)
                bounds = run.joined(bounds, run.taken(more[1], 3 * np.arange(self._pairs)[:, None] + [0, 1]))
            following, excess = run(compiled(bounds_check, l=len(pattern)), moved, bounds, along, pattern)
            checks, results = [*checks, excess], [following]
        others = np.delete(numbers, slice(held, held + kept))
        force = run.taken(force, others)

        if self._pushes:
            base, push = self._recursions, run.joined(np.zeros(held), more[2 if self._pairs else 0])
            full = run(base.with_row_forces, full, run(base.jacobian, q), push)
            force = run(compiled(total, n=len(others)), force, push)

        # motors and constraints
        tau = full
        if held:
            constraint_force: Any = np.zeros(held)
            if self._sharing.in_kernel:
                tau, constraint_force, lacking = self._sharing.share(run, q, full)
                checks += lacking
            results += [full, constraint_force]
        results += [] if brief else [a, force]
        goals = np.delete(np.arange(len(gains)), slice(held, held + own))
        results += [run.taken(residual, goals)] if self._escape is not None else []
        return [tau, checks, *results]

    def _with_pairs(
        self, run: Any, J: Any, lacking: Any, a0: Any, counts: tuple[int, int], close: Array, rows: Any, ends: Any
    ) -> tuple[Any, Any]:
        """J and the residual of all rows, with those of the pairs that are held between two numbers of others."""
        nv, count, (start, after) = self._robot.nv, len(close), counts
        entries = np.arange((start + after) * nv).reshape(-1, nv)
        pairs = run.taken(rows, nv * close[:, None] + np.arange(nv))
        own = run(self._dense(without_motion, count), run.taken(ends, 3 * close + 2), pairs, a0)
        spans = (J, entries), (lacking, np.arange(start + after))
        before = [run.taken(x, numbers[:start]) for x, numbers in spans if start] or [np.zeros((0, nv)), np.zeros(0)]
        behind = [run.taken(x, numbers[start:]) for x, numbers in spans]
        every = zip(before, (pairs, own), behind, strict=True)
        J, lacking = (run.joined(*parts) for parts in every)
        return J, lacking

    def _dense(self, kernel: Kernel, rows: int) -> KernelFunction:
        """A kernel over some rows and all degrees of freedom."""
        return compiled(kernel, n=self._robot.nv, r=rows)

    def _inputs(self, pattern: Array, near: bool) -> list[Operand]:
        nv, rows = self._robot.nv, self._recursions.rows - self._held
        sites = len(self._recursions.sites) - len(self._fixed)
        inputs = [Operand("q", (self._robot.nq,)), Operand("v", (nv,))]
        inputs += [Operand("target", (sites, 4, 4)), Operand("feed", (rows, 2))]
        inputs += [Operand("apart", (self._pairs, nv)), Operand("ends", (self._pairs, 3))] if self._pairs else []
        inputs += [Operand("push", (rows,))] if self._pushes else []
        return [*inputs, *([Operand("escape", (nv,))] if near and self._escapes(pattern) else [])]

    def _outputs(self, pattern: Array, brief: bool) -> list[Operand]:
        nv, rows, held = self._robot.nv, self._recursions.rows, self._held
        checks = 2 + bool(len(pattern)) + (self._sharing.measures if held else 0)
        outputs = [Operand("tau", (nv,)), Operand("checks", (checks,))]
        outputs += [Operand("following", pattern.shape)] if len(pattern) else []
        outputs += [Operand("full", (nv,)), Operand("constraint_force", (held,))] if held else []
        outputs += [] if brief else [Operand("a", (nv,)), Operand("force", (rows,))]
        return [*outputs, *([Operand("residual", (rows,))] if self._escape is not None else [])]

    def _escapes(self, pattern: Array) -> bool:
        """Whether singularities are left: not while joints are held at their limits."""
        return self._escape is not None and not pattern.any()

    # Functions

    def compile(self) -> None:
        """Compile what every call needs."""
        for brief in {False, not self._limited}:
            function: Any = self._function(self.free, False, "whole", brief)
            if self._engine == "native":
                function.compile()

    def _function(self, pattern: Array, near: bool, case: str, brief: bool) -> Callable[..., Any]:
        key = self._free_key if pattern is self.free else pattern.tobytes(), near, case, brief
        return self._functions.get(key) or self._made(key)

    def _made(self, key: tuple[bytes, bool, str, bool]) -> Callable[..., Any]:
        active, near, case, brief = key
        pattern = np.frombuffer(active, np.int8)  # the array that was given may change
        text, inputs = partial(self._text, pattern, near, case, brief), self._inputs(pattern, near)
        if self._engine == "native":
            made: Callable[..., Any] = recorded("control", inputs, self._outputs(pattern, brief), text)
        else:
            made = executed(inputs, text, self._engine)
        with self._lock:
            if len(self._functions) >= _CHOICES:
                self._functions.clear()
            return self._functions.setdefault(key, made)

    def _holding(self, columns: tuple[int, ...]) -> LawRows:
        """The rows of the law with some joints held, by their degrees of freedom."""
        found = self._rows.get(columns)
        if found is None:
            base, count, held, sites = self._recursions, len(columns), self._held, len(self._fixed)
            own = [site for column in columns for site in self._ends(column)]
            if columns:
                ends = (*base.sites[:sites], *own, *base.sites[sites:])
                base = Recursions(base.robot, ends, base.requested, base.reference, base.engine)
            cuts, reach = (
                np.concatenate([x[:held], np.full(count, fill), x[held:]])
                for x, fill in ((self._levels.row_cuts, STUCK), (self._recursions.reach, 0.0))
            )
            found = LawRows(base, reach, cuts)
            with self._lock:
                if len(self._rows) >= _CHOICES:
                    self._rows.clear()
                found = self._rows.setdefault(columns, found)
        return found

    def _ends(self, column: int) -> tuple[Site, Site]:
        joint = self._joints[column]
        child, parent = self._robot.site(joint.child).node, self._robot.site(joint.parent).node
        rows = (5,) if joint.kind == "prismatic" else (2,)
        place = Transform.identity().data
        return Site(joint.name, child, place, rows, "near"), Site(joint.name, parent, place, rows, "far")

    # Samples

    def solve(
        self,
        q: Array,
        v: Array,
        wanted: Wanted,
        active: Array | None = None,
        near: Sequence[Array] = (),
        *,
        case: str = "whole",
        brief: bool = False,
        fixed: bool = False,
    ) -> Solved:
        """The law of all samples, within joint limits.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, with the same leading axes, (…, nv).
            wanted: Inputs of the law; their leading axes broadcast to those of the state.
            active: Joints that are held at their limits at first, (…, l).
            near: Results of `AccelerationRows.approaching`, if distances are kept.
            case: One of `CASES`.
            brief: Whether torques are all that is wanted: accelerations and forces are None.
            fixed: Whether just the joints of `active` are held.
        """
        given: Sequence[Array] = q, v, wanted.target, wanted.feed, *near
        if wanted.push is not None:
            given = *given, wanted.push
        brief = brief and not self._limited
        if q.ndim == 1:
            pattern, first = self.free, 0
            if active is not None and active.any():
                pattern, first = np.asarray(active, np.int8), _GIVEN
            return self._solved(q, *self._settled(given, pattern, _FIXED if fixed else first, case, brief), brief)
        batch = q.shape[:-1]
        count = math.prod(batch)
        given = [
            x if x.ndim == rank else np.broadcast_to(x, (*batch, *x.shape[-rank:])).reshape(count, *x.shape[-rank:])
            for x, rank in zip(given, self._ranks, strict=False)
        ]
        with standard_arithmetic():
            patterns = np.zeros((count, len(self.free)), np.int8)
            if active is None or not active.any():
                found, checks, patterns[:] = self._settled(given, self.free, _FIXED if fixed else 0, case, brief)
            else:
                patterns[:] = np.broadcast_to(active, (*batch, len(self.free))).reshape(patterns.shape)
                results: list[Array] = []
                for pattern, samples in alike(patterns):
                    round_ = _FIXED if fixed else _GIVEN if pattern.any() else 0
                    part, _, patterns[samples] = self._settled(self._some(given, samples), pattern, round_, case, brief)
                    results = results or [np.empty((count, *x.shape[1:])) for x in part]
                    _put(results, samples, part)
                found, checks = results, list(results[1].T)
            found = [x.reshape(*batch, *x.shape[1:]) for x in found]
            checks = [x.reshape(batch) for x in checks]
            return self._solved(q, found, checks, patterns.reshape(*batch, len(self.free)), brief)

    def _settled(
        self, given: Sequence[Array], pattern: Array, round_: int | None, case: str, brief: bool
    ) -> tuple[Sequence[Array], list[Any], Array]:
        """Results of samples that share a pattern at first, checks, and the patterns with which they end, (…, l).

        Checks are margin, fault, excess, …. Near singularities, the law is solved level by level.
        """
        dense = pattern is not self.free and bool(pattern[len(self._limits.columns) :].any())
        found = (
            self._among_pairs(given, pattern, case, brief)
            if dense
            else self._function(pattern, False, case, brief)(*given)
        )
        if found[1].ndim == 1:
            checks = found[1].tolist()
            spread = checks[0]
            if dense:
                pass  # it is the margin
            elif spread < 1.0:
                checks[0] = 1.0 / math.sqrt(spread) if spread > 0.0 else math.inf
            else:
                found = self._near(given, found, pattern, case, brief)
                checks = found[1].tolist()
            if round_ is not None and self._limited and checks[2]:
                following = _next(pattern, found[2], round_)
                if (following != pattern).any():
                    following = following if following.any() else self.free
                    return self._settled(given, following, round_ + 1, case, brief)
            return found, checks, pattern
        every = found[1].T
        near = ~(every[0] < 1.0) & (not dense)
        if not dense:
            every[0] = 1.0 / np.sqrt(every[0])
        if near.any():
            _put(found, near, self._near(self._some(given, near), [x[near] for x in found], pattern, case, brief))
        if round_ is None or not self._limited:
            return found, list(every), pattern
        wrong = np.flatnonzero(every[2])
        patterns = np.tile(pattern, (len(near), 1))
        patterns[wrong] = _next(pattern, found[2][wrong], round_)
        wrong = wrong[(patterns[wrong] != pattern).any(axis=-1)]
        for following, some in alike(patterns[wrong]):
            samples = wrong[some]
            part, _, patterns[samples] = self._settled(self._some(given, samples), following, round_ + 1, case, brief)
            _put(found, samples, part)
        return found, list(every), patterns

    def _among_pairs(self, given: Sequence[Array], pattern: Array, case: str, brief: bool) -> Sequence[Array]:
        """The same with some pairs held, level by level. They come first: choices differ by their number alone."""
        joints = len(self._limits.columns)
        order = np.argsort(pattern[joints:], kind="stable")  # -1 for those that are held
        first = np.concatenate([pattern[:joints], pattern[joints:][order]])
        q, v, target, feed, rows, ends, *more = given
        function = self._function(first, True, case, brief)
        found = list(function(q, v, target, feed, rows[..., order, :], ends[..., order, :], *more))
        following = found[2].copy()
        following[..., joints + order] = found[2][..., joints:]
        found[2] = following
        return found

    def _some(self, given: Sequence[Array], samples: Array) -> list[Array]:
        """Inputs of some samples; those without leading axes are the same for all."""
        return [x[samples] if x.ndim > rank else x for x, rank in zip(given, self._ranks, strict=False)]

    def _near(
        self, given: Sequence[Array], found: Sequence[Array], pattern: Array, case: str, brief: bool
    ) -> Sequence[Array]:
        """The same level by level, for samples whose results are doubtful."""
        function: Callable[..., Sequence[Array]] = self._function(pattern, True, case, brief)
        if self._escape is None or pattern.any():
            return function(*given)
        q, v, residual = (np.atleast_2d(x) for x in (given[0], given[1], found[-1]))
        A, J = self._recursions.inverse_inertia(q), self._recursions.jacobian(q)
        with standard_arithmetic():
            added = self._escape(q, v, A, J, residual)
        return function(*given, added.reshape(given[1].shape))

    def _solved(self, q: Array, found: Sequence[Any], checks: list[Any], pattern: Array, brief: bool) -> Solved:
        """Results by name. Where constraints lack a direction, pseudo-inverses share the load."""
        start, held, tau, a, force = 2 + self._limited, _NOTHING, found[0], None, None
        if self._held:
            full, held = found[start : start + 2]
            tau, held = self._sharing.settled(q, full, tau, held, checks[start:])
            start += 2
        elif q.ndim > 1:
            held = np.zeros((*q.shape[:-1], 0))
        if not brief:
            a, force = found[start], found[start + 1]
        # Solved(…), in half the time
        return tuple.__new__(Solved, (tau, a, force, held, pattern if self._limited else None, checks[0], checks[1]))


class EnforcedLimits:
    """The joint limits that are enforced.

    Attributes:
        columns: Degrees of freedom that have limits, (l,).
    """

    def __init__(self, robot: Model, bounds: Bounds, driven: Array) -> None:
        _require_limits(robot, bounds, driven)
        single = [joint for joint in robot.joints if joint.nq == joint.nv == 1 and driven[joint.v_start]]
        q, v = [joint.q_start for joint in single], [joint.v_start for joint in single]
        low, high = robot.lower_limits[q], robot.upper_limits[q]
        fastest = robot.velocity_limits[v]
        bounded = np.zeros(len(single), dtype=bool)
        if bounds.position is not None:
            bounded |= np.isfinite(low) | np.isfinite(high)
        if bounds.velocity is not None:
            bounded |= np.isfinite(fastest)
        self._q, self.columns = (np.array(x, dtype=int)[bounded] for x in (q, v))
        self._at, self._rate = contiguous(self._q), contiguous(self.columns)
        low, high, fastest = low[bounded], high[bounded], fastest[bounded]
        margin = np.minimum(bounds.margin, 0.5 * (high - low))
        ends, rates = np.stack([low + margin, high - margin], axis=1), np.zeros((len(self._q), 6))
        rates[:, 4:] = np.inf, 1.0
        if bounds.position is not None:
            rates[:, :2] = np.isfinite(ends)
            rates[:, 2:4] = bounds.position**2, 2.0 * bounds.position
        if bounds.velocity is not None:
            rates[:, 4], rates[:, 5] = fastest, bounds.velocity
        self._constants = ends, rates

    def accelerations(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Lower and upper bounds on joint accelerations, (…, l), by (1)."""
        bounds, _ = self._bounds(q[..., self._at], v[..., self._rate], *self._constants)
        return bounds[..., 0], bounds[..., 1]

    def bounds(self, run: Any, q: Any, v: Any) -> Any:
        """Bounds of the accelerations, (l, 2), and their negatives."""
        return run(self._bounds, run.taken(q, self._q), run.taken(v, self.columns), *self._constants)

    @property
    def _bounds(self) -> KernelFunction:
        return compiled(acceleration_bounds, l=len(self.columns))


def _require_limits(robot: Model, bounds: Bounds, driven: Array) -> None:
    """Refuse a bound for which no joint has a limit, and warn of joints that it leaves out.

    Raises:
        InputError: A bound limits nothing.
    """
    for name in ("position", "velocity", "torque"):
        if not getattr(bounds, name):
            continue
        kept, left = [], []
        for joint in (joint for joint in robot.joints if joint.nv and driven[joint.v_start]):
            own, single = joint.limits, joint.nq == joint.nv == 1
            if name == "position":
                has, missed = np.isfinite(own.lower + own.upper).any(), False  # without one, it may turn for ever
            else:
                has = np.isfinite(own.velocity if name == "velocity" else own.effort).all()
                missed = not has
            if has and (single or name == "torque"):
                kept.append(joint.name)
            elif has or missed:
                left.append(joint.name)
        asked = f"Bounds({name}={getattr(bounds, name)!r})"
        if not kept:
            raise InputError(
                f"{asked} limits nothing: no joint of {robot.name!r} with a motor and one coordinate has a {name} "
                "limit; add limits with robot.with_limits, or leave the bound out"
            )
        if left:
            shown = ", ".join(map(repr, left[:10])) + (f", … ({len(left)} in all)" if len(left) > 10 else "")
            warnings.warn(
                f"{asked} leaves out joints of {robot.name!r} with no {name} limit, or several coordinates: {shown}",
                ModelWarning,
                stacklevel=4,
            )


def _next(active: Array, following: Array, round_: int) -> Array:
    """The active rows of the next round, (…, l), from those now, (l,).

    `following` has all joints held that violate a bound, and all released that are pulled, (…, l).
    """
    following = following.astype(np.int8)
    if round_ < 0:
        return np.zeros_like(following)  # rows from elsewhere that do not fit are forgotten
    if round_ < _ALL:
        return following
    released, added = (active != 0) & (following == 0), (active == 0) & (following != 0)
    first = released & (np.cumsum(released, axis=-1) == 1) & ~added.any(axis=-1, keepdims=True) & (round_ < _ONE)
    return np.where(released & ~first, active, following)


def alike(patterns: Array) -> list[tuple[Array, Array]]:
    """Different patterns, each with the samples that share it."""
    if not len(patterns):
        return []
    if (patterns == patterns[0]).all():
        return [(patterns[0].copy(), np.arange(len(patterns)))]
    groups: dict[bytes, list[int]] = {}
    for sample, row in enumerate(patterns):
        groups.setdefault(row.tobytes(), []).append(sample)
    return [(patterns[group[0]].copy(), np.array(group)) for group in groups.values()]


def _put(results: Sequence[Array], samples: Array, part: Sequence[Array]) -> None:
    """Overwrite the results of some samples."""
    for result, value in zip(results, part, strict=True):
        result[samples] = value


def contiguous(numbers: Array) -> Any:
    """Indices, as a slice where they are contiguous: views are faster than copies."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
