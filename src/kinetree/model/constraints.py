"""Constrained dynamics: frames welded to the world or to each other, task rows that are held, couplings and loops.

Rows J v = 0 of contacts, grasps and loop closures are enforced by forces λ along them:

    M a + C + g = τ + Jᵀλ        J a + J̇v = b                                                    (1)
    a = a_f + M⁻¹Jᵀλ             Λ⁻¹ λ = b − J̇v − J a_f         Λ⁻¹ = J M⁻¹Jᵀ                     (2)

where a_f is the unconstrained acceleration. Rows may be redundant: Λ is then the pseudo-inverse of Λ⁻¹ with its rows
weighted as in `kinetree.tasks.singular`, the acceleration is unique, and λ is the smallest of all forces
that cause it.

Drift is removed by projection along J̄ = M⁻¹JᵀΛ, the smallest motion in the metric of M:

    q ← q ⊕ (−J̄ φ)               v ← v − J̄ J v                                                  (3)

φ is the error: rotation vector and displacement of the held pose, in the axes of the rows.

If all rows are components of motions of frames, and independent at the configuration that they hold, one kernel solves
(2), and samples that it doubts are solved again. Otherwise `kinetree.model.constraints` does.

Accelerations and projections under constrained rows of any kind, as compiled functions.

They solve (2) and (3) of `kinetree.model.constraints`. Λ comes from the eigenvalues of Λ⁻¹ in every sample, so rows
may be redundant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.compiler.formats import require_double
from kinetree.errors import InputError
from kinetree.kernels.constraint_rows import row_forces, row_mobility, row_residual
from kinetree.kernels.eigen import regularized_inverse
from kinetree.kernels.language import Kernel
from kinetree.model.held_rows import (
    AnyConstraint,
    ReadConstraint,
    RowLayout,
    RowSet,
    TaskRows,
    held_poses,
    names_of,
    read_constraints,
    row_set_of,
    task_of,
)
from kinetree.runtime import arguments
from kinetree.runtime import sequence as native
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.matrix_products import times
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import MemorySpan
from kinetree.spatial.value import Array
from kinetree.tasks import singular
from kinetree.tasks.core import Core
from kinetree.tasks.law import Law
from kinetree.tasks.task_types import LoopTask
from kinetree.tasks.tasks import Tasks

#: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are redundant.
REDUNDANT = 1e-10


class RowSolver:
    """The functions of some rows, each recorded on first use.

    Args:
        robot: The model.
        sets: All sets of rows, each with the numbers of its rows.
    """

    def __init__(self, robot: Any, sets: Sequence[tuple[Sequence[int], RowSet]]) -> None:
        self._robot, self._sets = robot, tuple(sets)
        self._count = sum(one.count for _, one in sets)

    @cached_property
    def accelerations(self) -> Compiled:
        """Joint accelerations, (nv,), and forces along the rows, (c,), of q, v, a, wanted and gains.

        `a` are accelerations without constraints, `wanted` those of the rows, (c,); gains are kp and kd, (c, 2).
        """
        c, nv = self._count, self._robot.nv
        inputs = [self._q, self._v, Operand("a", (nv,)), Operand("wanted", (c,)), Operand("gains", (c, 2))]
        steps = native.KernelSequence("constraints", inputs, [Operand("acceleration", (nv,)), Operand("force", (c,))])
        q, v, a, wanted, gains = steps.inputs
        rows = self._rows(steps, q, v)
        lacking = steps.call(self._kernel(row_residual), *rows, v, a, wanted, gains)
        self._solve(steps, q, rows.J, lacking, a, steps.outputs)
        return steps.finish()

    @cached_property
    def rows(self) -> Compiled:
        """J, (c, nv), and φ, (c,), of q."""
        c, nv = self._count, self._robot.nv
        steps = native.KernelSequence("constraints", [self._q], [Operand("J", (c, nv)), Operand("error", (c,))])
        found = self._rows(steps, steps.inputs[0], steps.constant(np.zeros(nv)))
        for place, result in zip((found.J, found.error), steps.outputs, strict=True):
            steps.copy(place, result)
        return steps.finish()

    @cached_property
    def configuration(self) -> Compiled:
        """A configuration nearer to the constraints, (nq,), of q: one Newton step."""
        steps = native.KernelSequence("constraints", [self._q], [Operand("q", (self._robot.nq,))])
        (q,), still = steps.inputs, steps.constant(np.zeros(self._robot.nv))
        rows = self._rows(steps, q, still)
        nothing, stiff = np.zeros(self._count), np.tile([1.0, 0.0], (self._count, 1))
        lacking = steps.call(self._kernel(row_residual), *rows, still, still, nothing, stiff)
        change, _ = self._solve(steps, q, rows.J, lacking, still)
        steps.call(bind(integrate, self._robot.mechanism, (), "constraints"), q, change, 1.0, into=steps.outputs)
        return steps.finish()

    @cached_property
    def velocity(self) -> Compiled:
        """The velocity that keeps the constraints, (nv,), nearest to v, of q and v."""
        steps = native.KernelSequence("constraints", [self._q, self._v], [Operand("v", (self._robot.nv,))])
        q, v = steps.inputs
        still, nothing = np.zeros(self._robot.nv), np.zeros(self._count)
        J = self._rows(steps, q, steps.constant(still)).J
        free = nothing, nothing, still, v, nothing, np.zeros((self._count, 2))
        self._solve(steps, q, J, steps.call(self._kernel(row_residual), J, *free), v, (steps.outputs[0], None))
        return steps.finish()

    @property
    def _q(self) -> Operand:
        return Operand("q", (self._robot.nq,))

    @property
    def _v(self) -> Operand:
        return Operand("v", (self._robot.nv,))

    def _rows(self, steps: native.KernelSequence, q: MemorySpan, v: MemorySpan) -> RowLayout:
        """All rows, in the order of the constraints."""
        sizes = self._robot.nv, 1, 1
        rows = RowLayout(*(steps.space(self._count * size) for size in sizes))
        for numbers, one in self._sets:
            for found, all_, size in zip(one.record(steps, q, v), rows, sizes, strict=True):
                for i, row in enumerate(numbers):
                    steps.copy(found.part(i * size, size), all_.part(row * size, size))
        return rows

    def _solve(
        self, steps: native.KernelSequence, q: MemorySpan, J: MemorySpan, lacking: MemorySpan, a: MemorySpan,
        into: Sequence[MemorySpan | None] = (None, None),
    ) -> tuple[MemorySpan, MemorySpan]:  # fmt: skip
        """Joint accelerations and forces under which the rows accelerate by what they lack."""
        count, nv = self._count, self._robot.nv
        response = steps.space(count * nv)
        with steps.loop(count) as row:
            steps.copy(steps.call(self._robot.mass_matrix_solve.bound(), q, J.at(row, nv)), response.at(row, nv))
        A, own = steps.call(self._kernel(row_mobility), J, response)
        values, vectors, roots, edge, _, _ = steps.call(
            singular.decomposition(count), A, own, *self._weights, REDUNDANT
        )
        inertia = steps.call(compiled(regularized_inverse, n=count), values, vectors, roots, edge, 0.0)
        moved, force = into
        force, moved = steps.call(self._kernel(row_forces), response, inertia, lacking, a, into=(force, moved))
        return moved, force

    def _kernel(self, kernel: Kernel) -> KernelFunction:
        return compiled(kernel, r=self._count, n=self._robot.nv)

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """Means and reach of all rows, as `kinetree.tasks.singular` defines them."""
        groups, reach = np.zeros(self._count, dtype=int), np.zeros(self._count)
        first = 0
        for numbers, one in self._sets:
            own, reach[list(numbers)] = one.scale
            groups[list(numbers)] = first + own
            first += 1 + int(own.max())
        return singular.means(groups), np.where(np.isfinite(reach), reach, 0.0)


_AXES = "local_world_aligned"
_FLOAT64 = np.dtype(np.float64)
# rows whose smallest singular value is below this fraction of the largest depend on each other
_DEPENDENT = 1e-6


class ConstrainedDynamics(NamedTuple):
    """Result of constrained forward dynamics.

    Attributes:
        acceleration: a, (…, nv).
        forces: λ, (…, c): along the rows, on the constrained frame; moments come before forces.
    """

    acceleration: Array
    forces: Array


class Constraints:
    """Constraints of a robot, with c rows in total. Created by `robot.constraints(…)`.

    Every function takes leading batch axes. Constraints are immutable, thread-safe and picklable.

    Attributes:
        robot: The model.
        constraints: The given constraints, with frame names converted to `Weld`.
        names: Name of each in results: the welded frame, or a description of the task.
        slices: The rows of each constraint.
        rows: Number of rows, c.
    """

    def __init__(self, robot: Any, constraints: Iterable[AnyConstraint], at: Any = None) -> None:
        require_double(robot.mechanism, "constraints")
        self.robot = robot
        self.constraints = read_constraints(constraints)
        at = None if at is None else _configuration(robot, at).copy()
        self._at = at
        sets = [row_set_of(robot, one, at) for one in self.constraints]
        held = [task_of(one) for one, other in zip(self.constraints, sets, strict=True) if other is None]
        self._frames = held
        self._tasks: Tasks | None = (
            robot.tasks(held, reference=_AXES, singular="truncated", cut=REDUNDANT) if held else None
        )
        self.names = names_of(self.constraints)
        lengths = iter([len(task.rows) for task in held])
        stops = np.cumsum([next(lengths) if one is None else one.count for one in sets]).tolist()
        self.slices = tuple(map(slice, [0, *stops[:-1]], stops))
        self.rows = int(stops[-1])
        self._parts = tuple(zip(self.names, self.slices, strict=True))
        self._others = [(part, one) for part, one in zip(self.slices, sets, strict=True) if one is not None]
        parts = [range(part.start, part.stop) for part, one in zip(self.slices, sets, strict=True) if one is None]
        self._of_tasks = np.array([i for part in parts for i in part], dtype=np.intp)
        self._still = np.zeros(robot.nv)
        self._shapes = (robot.nq,), (robot.nv,), (robot.nv,)
        #: Whether each constraint knows what it holds: a loop, a coupling or a length does, a frame needs `at`.
        self.holds = at is not None or all(isinstance(task, LoopTask) for task in held)
        rows = len(self._of_tasks)
        self._rest = np.zeros((rows, 2))
        self._nothing = np.zeros(self.rows), np.zeros((self.rows, 2))  # neither wanted nor stabilised
        self._stiff = np.tile([1.0, 0.0], (rows, 1))  # gains for which b is −φ
        if self._tasks is not None:
            self.law = Law(self._tasks.core.recursions, np.full(rows, REDUNDANT * rows), self._solve)

    def __reduce__(self) -> tuple[Any, ...]:
        return Constraints, (self.robot, self.constraints, self._at)

    def __repr__(self) -> str:
        return f"<{len(self.constraints)} constraints of {self.robot.name}: {self.rows} rows>"

    def jacobian(self, q: Any) -> Array:
        """J, (…, c, nv)."""
        if self.of_tasks:
            result: Array = self.tasks.jacobian(q)
            return result
        found: Array = self.solver.rows(q)[0]
        return found

    def forward_dynamics(
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None
    ) -> ConstrainedDynamics:
        """Accelerations and constraint forces, by (2).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv). They should satisfy the constraints; violations are not corrected.
            tau: Joint forces, (…, nv) [N m or N].
            wanted: b, the acceleration of the rows, (…, c); zero by default.
            stabilization: Baumgarte's gains kp and kd, (2,) or (c, 2): b −= kp φ + kd J v. None by default.
            f_ext: As for `robot.forward_dynamics`.
        """
        if wanted is None and stabilization is None and f_ext is None and self._takes(q, v, tau):
            a, force, spread = self._alone(q, v, tau)
            if spread.item() < 1.0:
                return ConstrainedDynamics(a, force)
        _refuse_lazy("forward_dynamics", q=q, v=v, tau=tau, wanted=wanted, f_ext=f_ext)
        solved = None if self.regular else self.solver.accelerations
        free = self.robot.forward_dynamics(q, v, tau, f_ext=f_ext)
        if stabilization is not None:
            self._require_at()
        if solved is not None:
            wanted = self._nothing[0] if wanted is None else wanted
            gains = self._nothing[1] if stabilization is None else np.broadcast_to(stabilization, (self.rows, 2))
            return ConstrainedDynamics(*solved(q, v, free, wanted, gains))
        feed = self._rest
        if wanted is not None:
            feed = np.zeros((*np.shape(wanted), 2))
            feed[..., 1] = wanted
        gains = self._rest if stabilization is None else np.broadcast_to(stabilization, (self.rows, 2))
        motion = self.law(q, v, free, self.targets, feed, gains)
        return ConstrainedDynamics(self.robot.forward_dynamics(q, v, motion.tau), motion.force)

    def _takes(self, q: Any, v: Any, tau: Any) -> bool:
        """Whether these are arrays of one sample."""
        plain = type(q) is type(v) is type(tau) is np.ndarray and q.dtype is v.dtype is tau.dtype is _FLOAT64
        return plain and (q.shape, v.shape, tau.shape) == self._shapes

    @cached_property
    def _alone(self) -> Compiled:
        """Accelerations, λ and `spread` of the law, as a function of q, v and τ."""
        dynamics, nv = self.robot.forward_dynamics.bound(), self.robot.nv
        inputs = [Operand("q", (self.robot.nq,)), Operand("v", (nv,)), Operand("tau", (nv,))]
        outputs = [Operand("acceleration", (nv,)), Operand("force", (self.rows,)), Operand("spread", ())]
        steps = native.KernelSequence("constraints", inputs, outputs)
        (q, v, tau), (a, force, spread) = steps.inputs, steps.outputs
        free = steps.call(dynamics, q, v, tau)
        if self.regular:
            constants = self.targets, self._rest, self._rest, *self.law.weights
            full, *_ = steps.call(self.law.kernel(), q, v, free, *constants, into=(None, force, None, spread))
            steps.call(dynamics, q, v, full, into=(a,))
        else:
            steps.call(self.solver.accelerations, q, v, free, *self._nothing, into=(a, force))
            steps.copy(steps.constant(0.0), spread)
        return steps.finish()

    def error(self, q: Any) -> Array:
        """φ: deviation of the held poses from those at `at`, (…, c) [rad, m], in the axes of the rows.

        For orientations, it is the rotation axis times the sine of the angle.

        Raises:
            InputError: The constraints were created without `at`, so the poses to hold are unknown.
        """
        self._require_at()
        _refuse_lazy("error", q=q)
        if not self.regular:
            error: Array = self.solver.rows(q)[1]
            return error
        residual = self._core.recursions.residual
        found: Array = -residual(q, self._still, self.targets, self._rest, self._stiff)[0]
        return found

    def project(self, q: Any, v: Any, rounds: int = 1) -> tuple[Array, Array]:
        """Project a configuration and velocity onto the constraints, by (3).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            rounds: Newton steps for q; each squares the error, once it is small.
        """
        self._require_at()
        _refuse_lazy("project", q=q, v=v)
        robot, zero = self.robot, self._still
        for _ in range(rounds):
            if not self.regular:
                q = self.solver.configuration(q)
                continue
            tau = self.law(q, zero, zero, self.targets, self._rest, self._stiff).tau
            q = robot.integrate(q, robot.forward_dynamics(q, zero, tau))
        return q, self.project_velocity(q, v)

    def project_velocity(self, q: Any, v: Any) -> Array:
        """The velocity projected onto the constraints, v − J̄ J v, (…, nv)."""
        _refuse_lazy("project_velocity", q=q, v=v)
        if not self.regular:
            projected: Array = self.solver.velocity(q, v)
            return projected
        zero = self._still
        tau = self.law(q, zero, v, self.targets, self._rest, self._rest).tau
        result: Array = self.robot.forward_dynamics(q, zero, tau)
        return result

    def _solve(self, A: Array, residual: Array) -> Array:
        core = self._core
        of = core.spectrum(A, np.diagonal(A, axis1=-2, axis2=-1))
        return times(core.inertia(of, None), residual)

    @property
    def tasks(self) -> Tasks:
        """The rows as `robot.tasks`.

        Raises:
            InputError: Some of them are rows of joints, distances or hinges, which are no components of the motion of a
                frame.
        """
        if self._tasks is None or self._others:
            one = next(
                one for one, part in zip(self.constraints, self.slices, strict=True) if part == self._others[0][0]
            )
            raise InputError(
                f"{one} is no component of the motion of a frame; build it into the model, with couple(), distance() "
                'or hinge() of a Builder, or load with loops="embed"'
            )
        return self._tasks

    @property
    def _core(self) -> Core:
        return cast(Tasks, self._tasks).core

    @cached_property
    def solver(self) -> RowSolver:
        """Compiled functions of the rows, whatever they are."""
        sets: list[tuple[Sequence[int], RowSet]] = [(range(part.start, part.stop), one) for part, one in self._others]
        if self._tasks is not None:
            sets.append((self._of_tasks.tolist(), TaskRows(self._tasks, self.targets)))
        return RowSolver(self.robot, sets)

    def _require_at(self) -> None:
        if not self.holds:
            raise InputError("these constraints know no pose to hold: make them with robot.constraints(…, at=q)")

    @property
    def of_tasks(self) -> bool:
        """Whether all rows are components of the motions of frames."""
        return self._tasks is not None and not self._others

    @cached_property
    def regular(self) -> bool:
        """Whether the law's kernel solves (2): rows of tasks that, as far as is known, do not depend on each other."""
        if not self.of_tasks or self._at is None:
            return self.of_tasks
        # interpreted, since one configuration is not worth a compilation
        J = self.tasks.engine("reference").jacobian(self._at)
        values = np.linalg.svd(J, compute_uv=False)
        return len(values) == len(J) and bool(values[-1] > _DEPENDENT * values[0])

    @cached_property
    def targets(self) -> Array:
        """The held poses as targets of the law, (m, 4, 4): see `Law`. Identities if there is no `at`."""
        return held_poses(self.robot, self._frames, self._at)

    def split(self, rows: Array) -> dict[str, Array]:
        """Split values of all rows, (…, c), by constraint name."""
        if rows.ndim == 1:  # single samples skip what an ellipsis costs
            return {name: rows[part] for name, part in self._parts}
        return {name: rows[..., part] for name, part in self._parts}


def constrained_dynamics(
    robot: Any, q: Any, v: Any, tau: Any, constraints: Iterable[AnyConstraint], f_ext: Any
) -> ConstrainedDynamics:
    """See `Model.constrained_dynamics`."""
    given = {"q": q, "v": v, "tau": tau, "f_ext": f_ext}
    plain = f_ext is None and type(q) is type(v) is type(tau) is np.ndarray
    if not plain and any(map(arguments.is_lazy, given.values())):
        from kinetree.runtime import dask

        read, ranks = read_constraints(constraints), {"q": 1, "v": 1, "tau": 1}
        lazy: ConstrainedDynamics = dask.call(_Constrained(robot, read), given, ranks, None)
        return lazy
    # names need not be read again to find what is kept for them
    names = type(constraints) is list and all(type(one) is str for one in constraints)
    key: Any = tuple(constraints) if names else read_constraints(constraints)
    return _kept(robot, key).forward_dynamics(q, v, tau, f_ext=f_ext)


@dataclass(frozen=True)
class _Constrained:
    """`Model.constrained_dynamics` for given constraints, as a function that can be pickled."""

    robot: Any
    constraints: tuple[ReadConstraint, ...]
    name: ClassVar[str] = "constrained_dynamics"

    def __call__(self, **given: Any) -> ConstrainedDynamics:
        return constrained_dynamics(self.robot, constraints=self.constraints, **given)


@lru_cache(maxsize=32)
def _kept(robot: Any, constraints: tuple[ReadConstraint | str, ...]) -> Constraints:
    return Constraints(robot, constraints)


def _refuse_lazy(function: str, **given: Any) -> None:
    for name, value in given.items():
        if type(value) in arguments.PLAIN:
            continue
        for each in value.values() if isinstance(value, Mapping) else (value,):
            arguments.refuse_lazy(f"constraints: {function}: {name}", each)


def _configuration(robot: Any, q: Any) -> Array:
    array = arguments.numbers("constraints", "at", q)
    if array.shape != (robot.nq,):
        raise InputError(f"constraints: at is one configuration, ({robot.nq},); got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError("constraints: at has NaN or infinite entries, so there is no pose to hold")
    return np.asarray(array, dtype=np.float64)
