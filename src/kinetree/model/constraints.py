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

Both projections are (2) as well: at rest with b = −φ, and with v in the place of a_f. One text, `Constraints.solve`,
computes it, in functions of arrays and in the steps of simulations. If all rows are components of motions of frames,
and independent at the configuration that they hold, it is one recursion (`control_law`). It measures how far rows are
from depending on each other; samples that it doubts are solved again as all others are: with the rows of every
constraint (`kinetree.model.held_rows`), and Λ from the eigenvalues of Λ⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.compiler.formats import require_double
from kinetree.concurrency import ForkSafeLock
from kinetree.errors import InputError
from kinetree.kernels.constrained_solution import held_mobility
from kinetree.kernels.constraint_rows import row_forces, row_mobility, row_residual
from kinetree.kernels.eigen import regularized_inverse
from kinetree.kernels.solve import count_doubt
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.language.mechanism import Site
from kinetree.model.held_derivatives import (
    ConstrainedDynamics,
    ConstrainedForwardDynamics,
    DerivativeText,
    LinearizedConstrained,
)
from kinetree.model.held_rows import (
    AnyConstraint,
    ReadConstraint,
    RowSet,
    TaskRows,
    held_poses,
    names_of,
    read_constraints,
    row_set_of,
    task_of,
)
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.matrix_products import times
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import Text, recorded
from kinetree.spatial.value import Array
from kinetree.tasks import singular
from kinetree.tasks.task_types import LoopTask
from kinetree.tasks.tasks import Tasks

#: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are redundant.
REDUNDANT = 1e-10

_AXES = "local_world_aligned"
#: Inputs and results of the functions of constraints.
_SIGNATURES = {
    "forward_dynamics": ("q v tau", "a force doubts"),
    "held": ("q v a", "a force doubts"),
    "accelerations": ("q v a wanted gains", "a force doubts"),
    "configuration": ("q", "q doubts"),
    "velocity": ("q v", "v doubts"),
    "jacobian": ("q", "J"),
    "error": ("q", "error"),
}
# rows whose smallest singular value is below this fraction of the largest depend on each other
_DEPENDENT = 1e-6


class Constraints:
    """Constraints of a robot, with c rows in total. Created by `robot.constraints(…)`.

    Every function takes leading batch axes. Constraints are immutable, thread-safe and picklable.

    Attributes:
        robot: The model.
        constraints: The given constraints, with frame names converted to `Weld`.
        names: Name of each in results: the welded frame, or a description of the task.
        slices: The rows of each constraint.
        rows: Number of rows, c.
        population: Variants of the robot, a sample each, if there are any.
    """

    def __init__(
        self, robot: Any, constraints: Iterable[AnyConstraint], at: Any = None, population: Any = None
    ) -> None:
        require_double(robot.mechanism, "constraints")
        self.robot, self.population = robot, population
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
        #: Whether each constraint knows what it holds: a loop, a coupling or a length does, a frame needs `at`.
        self.holds = at is not None or all(isinstance(task, LoopTask) for task in held)
        self._functions: dict[tuple[Any, bool], Compiled] = {}
        self._constants: tuple[Array, ...] = ()
        if population is not None:
            self._constants = (population.constants,)
            population.require_invertible()
        self._lock = ForkSafeLock()
        #: Zeros, one for each row.
        self.nothing = np.zeros(self.rows)
        #: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are redundant.
        self.redundant = REDUNDANT

    def __reduce__(self) -> tuple[Any, ...]:
        return Constraints, (self.robot, self.constraints, self._at, self.population)

    def __repr__(self) -> str:
        return f"<{len(self.constraints)} constraints of {self.robot.name}: {self.rows} rows>"

    def jacobian(self, q: Any) -> Array:
        """J, (…, c, nv)."""
        found: Array = self.tasks.jacobian(q) if self.of_tasks else self._function("jacobian", True)(q)
        return found

    @cached_property
    def forward_dynamics(self) -> ConstrainedForwardDynamics:
        """Accelerations and constraint forces, by (2); with `jvp`, `vjp`, `hvp`: see `ConstrainedForwardDynamics`."""
        return ConstrainedForwardDynamics(self)

    def _accelerations(
        self, q: Any, v: Any, tau: Any, wanted: Any, stabilization: Any, f_ext: Any, out: Any
    ) -> ConstrainedDynamics:
        if wanted is None and stabilization is None and f_ext is None and type(q) is type(v) is type(tau) is np.ndarray:
            return ConstrainedDynamics(*self._run("forward_dynamics", q, v, tau, out=out))
        _refuse_lazy("forward_dynamics", q=q, v=v, tau=tau, wanted=wanted, f_ext=f_ext)
        free = self._free(q, v, tau, f_ext)
        if stabilization is not None:
            self._require_at()
        wanted = np.zeros(self.rows) if wanted is None else wanted
        gains = np.broadcast_to(0.0 if stabilization is None else stabilization, (self.rows, 2))
        return ConstrainedDynamics(*self._run("accelerations", q, v, free, wanted, gains, out=out))

    def _free(self, q: Any, v: Any, tau: Any, f_ext: Any) -> Any:
        """Accelerations without constraints."""
        if self.population is None:
            return self.robot.forward_dynamics(q, v, tau, f_ext=f_ext)
        sites, wrenches = self.robot.forward_dynamics._wrenches(f_ext) if f_ext else ((), ())
        return self.of_masses(forward_dynamics, sites)(q, v, tau, *wrenches, *self._constants)

    def linearize(
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None,
        out: Any = None,
    ) -> LinearizedConstrained:  # fmt: skip
        """Exact derivatives of accelerations and constraint forces with respect to q, v, τ and wanted accelerations.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv) [N m or N].
            wanted: As for `forward_dynamics`.
            stabilization: As for `forward_dynamics`.
            f_ext: As for `forward_dynamics`; constant in the axes of their frames.
            out: Arrays for the results, such as an earlier result.
        """
        places = None if out is None else (*out[:-1], np.empty(np.shape(out[-1])))
        found = self.derivative("linearize", (q, v, tau), (), wanted, stabilization, f_ext, places)
        if out is not None:
            out[-1][...] = found[-1]
        found[-1] = found[-1].astype(int) if out is None else out[-1]
        return LinearizedConstrained._make(found)

    def parameter_derivative(
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None,
        out: Any = None,
    ) -> ConstrainedDynamics:  # fmt: skip
        """Derivatives with respect to inertial parameters: of a, (…, nv, m, 10), and of λ, (…, c, m, 10).

        Parameters are those of `robot.regressor` for m bodies; arguments are those of `linearize`.
        """
        found = self.derivative("parameters", (q, v, tau), (), wanted, stabilization, f_ext, out)
        return ConstrainedDynamics(*found)

    def gain_derivative(
        self, q: Any, v: Any, tau: Any, stabilization: Any, *, wanted: Any = None, f_ext: Any = None
    ) -> ConstrainedDynamics:
        """Derivatives with respect to the gains kp and kd of each row: of a, (…, nv, c, 2), and of λ, (…, c, c, 2).

        Arguments are those of `linearize`.
        """
        of = self.linearize(q, v, tau, wanted=wanted, stabilization=stabilization, f_ext=f_ext)
        change = -np.stack([self.error(q), times(self.jacobian(q), np.asarray(v))], axis=-1)  # of b
        return ConstrainedDynamics(*(x[..., None] * change[..., None, :, :] for x in (of.dwanted, of.forces_dwanted)))

    def derivative(
        self, name: str, state: Sequence[Any], given: Sequence[Any], wanted: Any, stabilization: Any, f_ext: Any,
        out: Any = None,
    ) -> list[Array]:  # fmt: skip
        """Results of a function of `kinetree.model.held_derivatives`, given the state and its own arguments."""
        q, v, tau = state
        if wanted is stabilization is f_ext is None and type(q) is type(v) is type(tau) is np.ndarray:
            return self._resolved(self.derivative_function, (name, (), False), q, v, tau, self.nothing, *given, out=out)
        _refuse_lazy(name, q=q, v=v, tau=tau, wanted=wanted, f_ext=f_ext)
        inputs = [*state, self.nothing if wanted is None else wanted, *given]
        if stabilization is not None:
            self._require_at()
            inputs.append(np.broadcast_to(stabilization, (self.rows, 2)))
        sites, wrenches = self.robot.forward_dynamics._wrenches(f_ext) if f_ext else ((), ())
        key = name, sites, stabilization is not None
        return self._resolved(self.derivative_function, key, *inputs, *wrenches, out=out)

    def derivative_function(self, key: tuple[str, tuple[Site, ...], bool], near: bool) -> Compiled:
        """A function of `kinetree.model.held_derivatives`: its name, frames with wrenches, and whether it has gains."""
        known = self._functions.get((key, near))
        if known is not None:
            return known
        derivative = DerivativeText(self, *key)

        def text(run: Any, *given: Any) -> Sequence[Any]:
            *found, spread = derivative(run, near, *given)
            return [*found, 0.0 if near else run(compiled(count_doubt), spread, 0.0)]

        with self._lock:
            made = self._recorded(*derivative.operands(), text)
            return self._functions.setdefault((key, near), made)

    def error(self, q: Any) -> Array:
        """φ: deviation of the held poses from those at `at`, (…, c) [rad, m], in the axes of the rows.

        For orientations, it is the rotation axis times the sine of the angle.

        Raises:
            InputError: The constraints were created without `at`, so the poses to hold are unknown.
        """
        self._require_at()
        _refuse_lazy("error", q=q)
        found: Array = self._function("error", True)(q)
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
        for _ in range(rounds):
            (q,) = self._run("configuration", q)
        return q, self.project_velocity(q, v)

    def project_velocity(self, q: Any, v: Any) -> Array:
        """The velocity projected onto the constraints, v − J̄ J v, (…, nv)."""
        _refuse_lazy("project_velocity", q=q, v=v)
        found: Array = self._run("velocity", q, v)[0]
        return found

    # The text

    def solve(
        self, run: Any, q: Any, v: Any, a: Any, near: bool, wanted: Any = None, gains: Any = None
    ) -> tuple[Any, Any, Any]:
        """Accelerations, forces along the rows, and `spread`, from which on samples are doubtful if it is not below 1.

        Args:
            run: Runs functions: see `kinetree.runtime.texts`.
            q: Configuration.
            v: Joint velocities; None at rest.
            a: Accelerations without constraints; None for none.
            near: Whether rows may depend on each other.
            wanted: b, (c,); None for zero.
            gains: kp and kd, (c, 2); None for zero.
        """
        c, nv = self.rows, self.robot.nv
        still, nothing, rest = np.zeros(nv), np.zeros(c), np.zeros((c, 2))
        a = still if a is None else a
        if not near:
            of = self.tasks.core.recursions
            feed = rest if wanted is None else run.placed(wanted, 2 * np.arange(c) + 1, (c, 2))
            state = q, still if v is None else v, a
            held = self.targets, feed, rest if gains is None else gains, of.reach, np.full(c, REDUNDANT * c)
            moved, force, spread = run(self.of_masses(of.control_law), *state, *held)
            return moved, force, spread
        (J, drift), error = self._motion(run, q, v), nothing if gains is None else self._error(run, q)
        over_rows = partial(compiled, r=c, n=nv)
        given = still if v is None else v, a, nothing if wanted is None else wanted, rest if gains is None else gains
        lacking = run(over_rows(row_residual), J, drift, error, *given)
        response = run.of_rows(self.of_masses(self.robot.mass_matrix_solve), q, J, (c, nv))
        A, own = run(over_rows(row_mobility), J, response)
        values, vectors, roots, edge, *_ = run(singular.decomposition(c), A, own, *self._weights, REDUNDANT)
        inertia = run(compiled(regularized_inverse, n=c), values, vectors, roots, edge, 0.0)
        force, moved = run(over_rows(row_forces), response, inertia, lacking, a)
        return moved, force, 0.0

    def mobility(self, run: Any, q: Any, Minv: Any) -> Any:
        """What takes the place of M⁻¹ for forces that constraints answer, (nv, nv): rows may depend on each other."""
        J, _ = self._motion(run, q, None)
        response, inertia, _ = DerivativeText(self, "linearize", (), False).inverses(run, True, J, Minv)
        return run(compiled(held_mobility, c=self.rows, n=self.robot.nv), response, inertia, Minv)

    def _text(self, run: Any, name: str, near: bool, q: Any, *given: Any) -> tuple[Any, ...]:
        """Results of a function that solves (2), and `spread`."""
        if name == "configuration":
            stiff = np.tile([1.0, 0.0], (self.rows, 1))  # b = −φ
            change, _, spread = self.solve(run, q, None, None, near, gains=stiff)
            return run(bind(integrate, self.robot.mechanism, (), "constraints"), q, change, 1.0), spread
        if name == "velocity":
            moved, _, spread = self.solve(run, q, None, given[0], near)
            return moved, spread
        v, a, *more = given
        if name == "forward_dynamics":
            a = run(self.of_masses(self.robot.forward_dynamics), q, v, a)
        return self.solve(run, q, v, a, near, *more)

    def part(self, run: Any, name: str, near: bool, *given: Any) -> tuple[Any, ...]:
        """A function as a part of another text: "held", "configuration" or "velocity"; results, and `spread`.

        By eigenvalues it is one function there, too, whose memory all parts share.
        """
        if near:
            *found, _ = run(self._function(name, True), *given)
            return *found, None
        return self._text(run, name, near, *given)

    def of_masses(self, function: Any, sites: tuple[Site, ...] = ()) -> Any:
        """A function of the robot or its tasks, or a recursion; that of a population takes the constants last."""
        if isinstance(function, Algorithm):
            text = function if self.population is None else with_constants(function)
            return bind(text, self.robot.mechanism, sites, "constraints")
        if self.population is None:
            return function
        return bind(
            with_constants(function.algorithm), function.mechanism, getattr(function, "sites", ()), "constraints"
        )

    def _motion(self, run: Any, q: Any, v: Any) -> tuple[Any, Any]:
        """J, (c, nv), and J̇v, (c,), of all rows."""
        nv = self.robot.nv
        parts, drifts = zip(*(one.motion(run, q, v) for _, one in self._sets), strict=True)
        flat = [run.taken(J, np.arange(one.count * nv)) for J, (_, one) in zip(parts, self._sets, strict=True)]
        J = run.taken(run.joined(*flat), nv * self._order[:, None] + np.arange(nv))
        return J, run.taken(run.joined(*drifts), self._order)

    def _error(self, run: Any, q: Any) -> Any:
        """φ of all rows, (c,)."""
        return run.taken(run.joined(*(one.error(run, q) for _, one in self._sets)), self._order)

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

    @cached_property
    def _sets(self) -> list[tuple[Sequence[int], RowSet]]:
        """All sets of rows, each with the numbers of its rows."""
        sets: list[tuple[Sequence[int], RowSet]] = [(range(part.start, part.stop), one) for part, one in self._others]
        if self._tasks is not None:
            sets.append((self._of_tasks.tolist(), TaskRows(self._tasks, self.targets)))
        return sets

    @cached_property
    def _order(self) -> Array:
        """Where each row is among those of all sets, one after another, (c,)."""
        order: Array = np.argsort([number for numbers, _ in self._sets for number in numbers])
        return order

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """Means and reach of all rows, as `kinetree.tasks.singular` defines them."""
        groups, reach = np.zeros(self.rows, dtype=int), np.zeros(self.rows)
        first = 0
        for numbers, one in self._sets:
            own, reach[list(numbers)] = one.scale
            groups[list(numbers)] = first + own
            first += 1 + int(own.max())
        return singular.means(groups), np.where(np.isfinite(reach), reach, 0.0)

    # Functions

    def _run(self, name: str, *given: Any, out: Any = None) -> list[Array]:
        return self._resolved(self._function, name, *given, out=out)

    def _resolved(
        self, function: Callable[[Any, bool], Compiled], key: Any, *given: Any, out: Any = None
    ) -> list[Array]:
        """Results of a function; those of doubtful samples by eigenvalues."""
        near, given = not self.regular, (*given, *self._constants)
        found: list[Array]
        if out is None:
            *found, doubts = function(key, near)(*given)
        else:
            found, doubts, given = self._filled(function(key, near), given, out)
        if near or not (doubts.item() if doubts.ndim == 0 else doubts.any()):
            return found
        again = function(key, True)
        if doubts.ndim == 0:
            again_found = again(*given)[:-1]
            if out is None:
                return list(again_found)
            for result, one in zip(found, again_found, strict=True):
                result[...] = one
            return found
        doubtful, operands = doubts > 0.0, again.binding.inputs
        some = [
            np.broadcast_to(x, (*doubts.shape, *operand.shape))[doubtful]
            for x, operand in zip(given, operands, strict=True)
        ]
        for result, part in zip(found, again(*some), strict=False):
            result[doubtful] = part
        return found

    def _filled(
        self, function: Compiled, given: tuple[Any, ...], out: Any
    ) -> tuple[list[Array], Array, tuple[Any, ...]]:
        """A function's results in the user's arrays, doubts, and the inputs, which may have been overwritten there."""
        names = [operand.name for operand in function.binding.outputs[:-1]]
        if not isinstance(out, tuple) or len(out) != len(names):
            raise InputError(f"constraints: out= takes a tuple of {len(names)} arrays: {', '.join(names)}")
        inputs = [arguments.doubles("constraints", o.name, x, o.shape) for x, o in zip(given, function.binding.inputs)]
        kept = tuple(x.copy() if any(np.may_share_memory(x, y) for y in out) else x for x in inputs)
        ranks = [len(operand.shape) for operand in function.binding.inputs]
        doubts = np.zeros(np.broadcast_shapes(*(x.shape[: x.ndim - rank] for x, rank in zip(kept, ranks, strict=True))))
        function(*kept, out=(*out, doubts))
        return list(out), doubts, kept

    def _function(self, name: str, near: bool) -> Compiled:
        return self._functions.get((name, near)) or self._made(name, near)

    def _made(self, name: str, near: bool) -> Compiled:
        robot, c, nv = self.robot, self.rows, self.robot.nv
        kinds = {"q": robot.nq, "v": nv, "a": nv, "tau": nv, "wanted": c, "force": c, "error": c}
        shapes = {**{kind: (size,) for kind, size in kinds.items()}, "gains": (c, 2), "J": (c, nv), "doubts": ()}
        inputs, outputs = ([Operand(one, shapes[one]) for one in names.split()] for names in _SIGNATURES[name])

        def text(run: Any, *given: Any) -> Sequence[Any]:
            if name == "jacobian":
                return [self._motion(run, given[0], None)[0]]
            if name == "error":
                return [self._error(run, given[0])]
            *found, spread = self._text(run, name, near, *given)
            return [*found, 0.0 if near else run(compiled(count_doubt), spread, 0.0)]

        with self._lock:
            varied = name not in ("jacobian", "error")
            made = (self._recorded if varied else partial(recorded, "constraints"))(inputs, outputs, text)
            return self._functions.setdefault((name, near), made)

    def _recorded(self, inputs: Sequence[Operand], outputs: Sequence[Operand], text: Text) -> Compiled:
        """A text as one compiled function, which takes the constants of a population last."""
        more = [Operand("constants", one.shape[-1:]) for one in self._constants]
        count = len(inputs)
        return recorded("constraints", [*inputs, *more], outputs, lambda run, *given: text(run, *given[:count]))

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
