"""Exact derivatives of constrained dynamics: matrices, directional derivatives, gradients, inertial parameters.

    F = ID(q, v, a) − Jᵀλ − Jₑᵀf − τ = 0         ψ = J a + J̇v + kp φ + kd J v − b = 0              (1)
    M δa − Jᵀδλ = δτ − F_q δq − F_v δv            J δa = δb − ψ_q δq − ψ_v δv                       (2)

F_q and F_v are those of inverse dynamics with λ as wrenches that are constant in their frames. λ turns with the axes of
its rows instead: that adds the geometric stiffness K to −F_q or, for whole frames, −T to ∂λ/∂q (see
`kinetree.algorithms.tasks.row_derivatives`). Gradients of wᵀa + yᵀλ are one solution of the transposed system, which is
the same one:

    M x − Jᵀz = w     J x = −y     q̄ = −F_qᵀx + ψ_qᵀz     v̄ = −F_vᵀx + ψ_vᵀz     τ̄ = x     b̄ = −z         (3)

Second derivatives are changes of (3) along δq, δv, δa and δλ of (2). (3) is linear in x and z, and x and z are
accelerations and forces themselves, of the system at rest under the joint forces w: so their changes solve

    M δx − Jᵀδz = δJᵀz − δM x     J δx = −δJ x                                                                (4)

which is (2) for that system, and what is left is one run of the recursions of (3) on dual numbers.

`Constraints.solve` solves all of these. Matrices start from the derivatives of accelerations at given λ, in O(n²).

Where rows depend on each other, a and its derivatives are unique as long as the rank does not change close by, and v
satisfies the rows. λ is one of many then: its derivatives are those of some λ that causes a, for which (2) holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import inverse_dynamics_vjp, inverse_dynamics_vjp_change
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.kernels.constrained_solution import (
    changed_sides,
    constrained_linearization,
    gathered_gradients,
    moving_columns,
    negative,
    parameter_solutions,
    regular_inverse,
    row_response,
    stiffened,
    with_product,
    with_transposed_product,
)
from kinetree.kernels.eigen import regularized_inverse
from kinetree.kernels.products import total
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Site
from kinetree.model.held_rows import RowChanges, State
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.spatial.value import Array
from kinetree.tasks import singular


class ConstrainedDynamics(NamedTuple):
    """Result of constrained forward dynamics.

    Attributes:
        acceleration: a, (…, nv).
        forces: λ, (…, c): along the rows, on the constrained frame; moments come before forces.
    """

    acceleration: Array
    forces: Array


class LinearizedConstrained(NamedTuple):
    """δa = dq δq + dv δv + dtau δτ + dwanted δb, and δλ in the same way, about a state and its joint forces.

    Attributes:
        dq: ∂a/∂q, (…, nv, nv): δq is a tangent, the increment of `robot.integrate(q, δq)`.
        dv: ∂a/∂v, (…, nv, nv).
        dtau: ∂a/∂τ, (…, nv, nv), symmetric.
        dwanted: ∂a/∂b, (…, nv, c), for accelerations b of the rows.
        forces_dq: ∂λ/∂q, (…, c, nv).
        forces_dv: ∂λ/∂v, (…, c, nv).
        forces_dtau: ∂λ/∂τ, (…, c, nv).
        forces_dwanted: ∂λ/∂b, (…, c, c).
        acceleration: a, (…, nv).
        forces: λ, (…, c).
        rank: Number of independent rows, (…). Where it is less than c, λ and its derivatives are not unique: they are
            those of some λ that causes a. Derivatives of a are unique. −1 where the state is not finite.
    """

    dq: Array
    dv: Array
    dtau: Array
    dwanted: Array
    forces_dq: Array
    forces_dv: Array
    forces_dtau: Array
    forces_dwanted: Array
    acceleration: Array
    forces: Array
    rank: Array


class ConstrainedGradients(NamedTuple):
    """Gradients of wᵀa + yᵀλ; from `hvp`, their directional derivatives.

    Attributes:
        dq: With respect to q, along the tangent, (…, nv).
        dv: With respect to v, (…, nv).
        dtau: With respect to τ, (…, nv).
        dwanted: With respect to the wanted accelerations b of the rows, (…, c).
    """

    dq: Array
    dv: Array
    dtau: Array
    dwanted: Array


class Solved(NamedTuple):
    """What the derivatives share."""

    q: Any
    v: Any
    tau: Any
    gains: Any  # None without
    pushed: Any  # wrenches of the user; None without
    a: Any
    force: Any


class _Changes(NamedTuple):
    """Changes of all rows and forces."""

    psi_q: Any  # ∂ψ/∂q, (c, nv)
    psi_v: Any  # ∂ψ/∂v, (c, nv)
    stiffness: Any  # K, (nv, nv); None if it is zero
    turned: Any  # T, (c, nv); None if it is zero
    wrenches: list[Any]  # what inverse dynamics and its derivatives take last: all wrenches, if there are any
    tau: Any  # joint forces, with those of λ that are no wrenches


#: Inputs besides q, v, τ, b, and results besides `doubts`, of each function.
SIGNATURES = {
    "linearize": (
        "",
        "dq dv dtau dwanted forces_dq forces_dv forces_dtau forces_dwanted acceleration forces rank",
    ),
    "jvp": ("along_q along_v along_tau along_wanted", "acceleration forces"),
    "vjp": ("weights force_weights", "by_q by_v by_tau by_wanted"),
    "hvp": (
        "weights force_weights along_q along_v along_tau along_wanted",
        "by_q by_v by_tau by_wanted",
    ),
    "parameters": ("", "parameter_acceleration parameter_forces"),
}


class DerivativeText:
    """The text of one derivative, for given external wrenches, with gains or without.

    Args:
        held: The constraints.
        name: One of `SIGNATURES`.
        sites: Frames with external wrenches.
        stabilized: Whether there are gains.
    """

    def __init__(self, held: Any, name: str, sites: tuple[Site, ...], stabilized: bool) -> None:
        self._held, self._name, self._robot, self._pushed = held, name, held.robot, sites
        self._stabilized = stabilized
        self._over = partial(compiled, n=held.robot.nv, c=held.rows)

    def operands(self) -> tuple[list[Operand], list[Operand]]:
        """Inputs and results."""
        nq, n, c, m = self._robot.nq, self._robot.nv, self._held.rows, len(self._robot.inertial_parameters)
        given, found = SIGNATURES[self._name]
        shapes: dict[str, tuple[int, ...]] = {
            "q": (nq,), "wanted": (c,), "along_wanted": (c,), "force_weights": (c,), "forces": (c,), "by_wanted": (c,),
            "gains": (c, 2), "wrenches": (len(self._pushed), 6), "dwanted": (n, c), "forces_dwanted": (c, c),
            **dict.fromkeys(("dq", "dv", "dtau"), (n, n)),
            **dict.fromkeys(("forces_dq", "forces_dv", "forces_dtau"), (c, n)), "rank": (), "doubts": (),
            "parameter_acceleration": (n, m, 10), "parameter_forces": (c, m, 10),
        }  # fmt: skip
        inputs = ["q", "v", "tau", "wanted", *given.split()]
        inputs += ["gains"] * self._stabilized + ["wrenches"] * bool(self._pushed)
        return tuple([Operand(x, shapes.get(x, (n,))) for x in names] for names in (inputs, [*found.split(), "doubts"]))  # type: ignore[return-value]

    def __call__(self, run: Any, near: bool, q: Any, v: Any, tau: Any, wanted: Any, *given: Any) -> Sequence[Any]:
        """The results, and `spread`."""
        more, names = list(given), SIGNATURES[self._name][0].split()
        directions = [more.pop(0) for _ in names]
        gains = more.pop(0) if self._stabilized else None
        pushed = more.pop(0) if self._pushed else None
        of, spread = self.state(run, near, q, v, tau, wanted, gains, pushed)
        found: Sequence[Any] = getattr(self, self._name)(run, near, of, *directions)
        return *found, spread

    def state(
        self, run: Any, near: bool, q: Any, v: Any, tau: Any, wanted: Any, gains: Any, pushed: Any
    ) -> tuple[Solved, Any]:
        """Accelerations and forces with what derivatives need besides, and `spread`."""
        if pushed is None:
            free = run(self._held.of_masses(self._robot.forward_dynamics), q, v, tau)
        else:
            free = run(self._held.of_masses(forward_dynamics, self._pushed), q, v, tau, pushed)
        a, force, spread = self._held.solve(run, q, v, free, near, wanted, gains)
        return Solved(q, v, tau, gains, pushed, a, force), spread

    def _changes(self, run: Any, of: Solved, along: Solved | None = None) -> _Changes:
        """Changes of all rows, or how they change along changes of the state."""
        held, n = self._held, self._robot.nv
        parts: list[RowChanges] = []
        for numbers, one in held._sets:
            rows = np.asarray(numbers)
            own = np.zeros((len(rows), 2))
            own = own if of.gains is None else run.taken(of.gains, 2 * rows[:, None] + np.arange(2))
            state = State(of.q, of.v, of.a, run.taken(of.force, rows))
            if along is None:
                parts.append(one.changes(run, *state, own))
            else:
                changed = State(along.q, along.v, along.a, run.taken(along.force, rows))
                parts.append(one.rates(run, state, own, changed))
        stiff = [part.stiffness for part in parts if part.stiffness is not None]
        stiffness = stiff[0] if stiff else None
        for other in stiff[1:]:
            stiffness = run(compiled(total, n=n * n), stiffness, other)
        wrenches = [part.wrench for part in parts if part.wrench is not None]
        if of.pushed is not None:
            wrenches.append(of.pushed if along is None else np.zeros((len(self._pushed), 6)))
        psi_q, psi_v, turned = (self._stacked(run, [part[i] for part in parts]) for i in (0, 1, 4))
        tau = of.tau
        for other in [part.tau for part in parts if part.tau is not None]:
            tau = run(compiled(total, n=n), tau, other)
        return _Changes(psi_q, psi_v, stiffness, turned, [run.joined(*wrenches)] if wrenches else [], tau)

    def _stacked(self, run: Any, parts: Sequence[Any]) -> Any:
        """Rows of all sets in the order of the constraints, (c, nv); None if no set has any."""
        held, n = self._held, self._robot.nv
        if all(part is None for part in parts):
            return None
        sizes = [one.count * n for _, one in held._sets]
        flat = [
            np.zeros(size) if x is None else run.taken(x, np.arange(size)) for x, size in zip(parts, sizes, strict=True)
        ]
        return run.taken(run.joined(*flat), n * held._order[:, None] + np.arange(n))

    def _dynamics(self, algorithm: Algorithm) -> Any:
        """A derivative of the dynamics, with wrenches on the frames of all rows and those of the user."""
        return self._held.of_masses(algorithm, (*self._sites, *self._pushed))

    @cached_property
    def _sites(self) -> tuple[Site, ...]:
        """The frames of all rows."""
        return tuple(site for _, one in self._held._sets for site in one.sites)

    @cached_property
    def _moving(self) -> dict[str, Any]:
        """The degrees of freedom that move rows: all of them, unless rows are those of frames."""
        sites = self._sites
        mechanism = self._robot.mechanism.at(sites)
        columns: Iterable[int] = range(mechanism.nv)
        if all(one.sites for _, one in self._held._sets):
            nodes = mechanism.topology.supporting(site.node for site in sites)
            columns = [c for k in nodes for c in range(mechanism.v_starts[k], mechanism.v_starts[k + 1])]
        return moving_columns(columns, mechanism.nv)

    def inverses(self, run: Any, near: bool, J: Any, Minv: Any) -> tuple[Any, Any, Any]:
        """J M⁻¹, Λ and the rank."""
        held, c = self._held, self._held.rows
        response, A, own = run(self._over(row_response, **self._moving), J, Minv)
        if not near:
            return response, run(compiled(regular_inverse, c=c), A), float(c)
        values, vectors, roots, edge, rank, _ = run(singular.decomposition(c), A, own, *held._weights, held.redundant)
        return response, run(compiled(regularized_inverse, n=c), values, vectors, roots, edge, 0.0), rank

    def _solved(self, run: Any, near: bool, of: Solved, r: Any, s: Any) -> tuple[Any, Any]:
        """x and y of M x − Jᵀy = r, J x = s."""
        free = run(self._held.of_masses(self._robot.mass_matrix_solve), of.q, r)
        x, y, _ = self._held.solve(run, of.q, None, free, near, s)
        return x, y

    def linearize(self, run: Any, near: bool, of: Solved) -> Sequence[Any]:
        """Matrices; see `Constraints.linearize`."""
        n, change = self._robot.nv, self._changes(run, of)
        corrected = run.prepared(self._over(constrained_linearization, **self._moving))
        derivatives, given = self._dynamics(forward_dynamics_derivatives), (of.q, of.v, change.tau, *change.wrenches)
        free_q, free_v, Minv = run.feeding(corrected, ("free_q", "free_v", "Minv"), derivatives, *given)
        if change.stiffness is not None:
            free_q = run(compiled(stiffened, n=n), Minv, change.stiffness, free_q)
        J, _ = self._held._motion(run, of.q, None)
        response, inertia, rank = self.inverses(run, near, J, Minv)
        turned = np.zeros((self._held.rows, n)) if change.turned is None else change.turned
        given = J, response, inertia, Minv, free_q, free_v, change.psi_q, change.psi_v, turned
        found = run.concluding(0, corrected, *given)
        return *found, inertia, of.a, of.force, rank

    def jvp(self, run: Any, near: bool, of: Solved, dq: Any, dv: Any, dtau: Any, db: Any) -> Sequence[Any]:
        """δa and δλ, (2)."""
        change, still = self._changes(run, of), np.zeros(self._robot.nv)
        pushed = run(self._dynamics(inverse_dynamics_jvp), of.q, of.v, of.a, dq, dv, still, *change.wrenches)
        return self._along(run, near, of, change, pushed, dq, dv, dtau, db)

    def _along(
        self, run: Any, near: bool, of: Solved, change: _Changes, pushed: Any, dq: Any, dv: Any, dtau: Any, db: Any
    ) -> tuple[Any, Any]:
        """δa and δλ of (2), given the change of inverse dynamics along δq and δv."""
        n, over = self._robot.nv, self._over
        r, s = run(over(changed_sides), change.psi_q, change.psi_v, dq, dv, dtau, db, pushed)
        if change.stiffness is not None:
            r = run(compiled(with_product, c=n, n=n), change.stiffness, dq, r, 1.0)
        x, y = self._solved(run, near, of, r, s)
        return x, y if change.turned is None else run(over(with_product), change.turned, dq, y, -1.0)

    def vjp(self, run: Any, near: bool, of: Solved, weights: Any, force_weights: Any) -> Sequence[Any]:
        """Gradients with respect to q, v, τ and b, (3)."""
        c, change = self._held.rows, self._changes(run, of)
        x, z = self._solved(run, near, of, weights, run(compiled(negative, n=c), force_weights))  # (3)
        by_q, by_v, _ = run(self._dynamics(inverse_dynamics_vjp), of.q, of.v, of.a, x, *change.wrenches)
        dq, dv = run(self._over(gathered_gradients), change.psi_q, change.psi_v, z, by_q, by_v)
        dq = self._turning(run, change, x, force_weights, dq)
        return dq, dv, x, run(compiled(negative, n=c), z)

    def _turning(self, run: Any, change: _Changes, x: Any, y: Any, by_q: Any) -> Any:
        """What forces that turn with their axes add to gradients, by Kᵀx or, where x has J x = −y, by −Tᵀy."""
        n = self._robot.nv
        if change.stiffness is not None:
            by_q = run(compiled(with_transposed_product, c=n, n=n), change.stiffness, x, by_q, 1.0)
        if change.turned is not None:
            by_q = run(self._over(with_transposed_product), change.turned, y, by_q, -1.0)
        return by_q

    def hvp(
        self, run: Any, near: bool, of: Solved, weights: Any, y: Any, dq: Any, dv: Any, dtau: Any, db: Any
    ) -> Sequence[Any]:
        """Changes of these gradients along a direction, (4)."""
        n, c, over, still = self._robot.nv, self._held.rows, self._over, np.zeros(self._robot.nv)
        jvp, change = self._dynamics(inverse_dynamics_jvp), self._changes(run, of)
        pushed = run(jvp, of.q, of.v, of.a, dq, dv, still, *change.wrenches)
        da, dforce = self._along(run, near, of, change, pushed, dq, dv, dtau, db)
        x, z = self._solved(run, near, of, weights, run(compiled(negative, n=c), y))  # (3)

        # (4): the system at rest, less gravity and springs
        rest = of._replace(v=still, gains=None, a=x, force=z, tau=still)
        rest = rest if of.pushed is None else rest._replace(pushed=np.zeros((len(self._pushed), 6)))
        virtual, nothing = self._changes(run, rest), [np.zeros((len(self._sites) + len(self._pushed), 6))]
        moved = run(jvp, of.q, still, x, dq, still, still, *virtual.wrenches)
        bias = run(jvp, of.q, still, still, dq, still, still, *(nothing if virtual.wrenches else []))
        dx, dz = self._along(run, near, of, virtual, moved, dq, still, bias, np.zeros(c))

        along = of._replace(q=dq, v=dv, a=da, force=dforce, tau=dtau)
        rates = self._changes(run, of, along)
        given = of.q, of.v, of.a, x, dq, dv, da, dx, *rates.wrenches, *change.wrenches
        by_q, by_v, _ = run(self._dynamics(inverse_dynamics_vjp_change), *given)
        by_q, by_v = run(over(gathered_gradients), rates.psi_q, rates.psi_v, z, by_q, by_v)
        changed = run(over(gathered_gradients), change.psi_q, change.psi_v, dz, still, still)
        by_q, by_v = (run(compiled(total, n=n), *pair) for pair in zip((by_q, by_v), changed, strict=True))
        by_q = self._turning(run, rates, x, y, by_q)
        by_q = self._turning(run, change._replace(turned=None), dx, y, by_q)
        return by_q, by_v, dx, run(compiled(negative, n=c), dz)

    def parameters(self, run: Any, near: bool, of: Solved) -> Sequence[Any]:
        """Derivatives with respect to inertial parameters."""
        robot = self._robot
        J, _ = self._held._motion(run, of.q, None)
        Minv = run(self._held.of_masses(robot.mass_matrix_inverse), of.q)
        response, inertia, _ = self.inverses(run, near, J, Minv)
        Y, columns = run(robot.regressor, of.q, of.v, of.a), 10 * len(robot.inertial_parameters)
        found: Sequence[Any] = run(self._over(parameter_solutions, p=columns), Minv, response, inertia, Y)
        return found


class ConstrainedForwardDynamics:
    """Accelerations and constraint forces of a robot under constraints, with derivatives. Call it; see `__call__`."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __repr__(self) -> str:
        return f"<forward_dynamics of {self._held!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return ConstrainedForwardDynamics, (self._held,)

    def __call__(
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None,
        out: Any = None,
    ) -> ConstrainedDynamics:  # fmt: skip
        """Accelerations and constraint forces, by (2) of `kinetree.model.constraints`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv). They should satisfy the constraints; violations are not corrected.
            tau: Joint forces, (…, nv) [N m or N].
            wanted: b, the acceleration of the rows, (…, c); zero by default.
            stabilization: Baumgarte's gains kp and kd, (2,) or (c, 2): b −= kp φ + kd J v. None by default.
            f_ext: As for `robot.forward_dynamics`.
            out: Arrays for the results, such as an earlier result.
        """
        found: ConstrainedDynamics = self._held._accelerations(q, v, tau, wanted, stabilization, f_ext, out)
        return found

    def jvp(
        self, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any, dwanted: Any = None, *,
        wanted: Any = None, stabilization: Any = None, f_ext: Any = None, out: Any = None,
    ) -> ConstrainedDynamics:  # fmt: skip
        """Changes of accelerations and forces along a direction, δa and δλ.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            dq: Direction of q, a tangent, (…, nv).
            dv: Direction of v, (…, nv).
            dtau: Direction of τ, (…, nv).
            dwanted: Direction of the wanted accelerations, (…, c); zero by default.
            wanted: As for a call.
            stabilization: As for a call.
            f_ext: As for a call; constant in the axes of their frames.
            out: As for a call.
        """
        db = self._held.nothing if dwanted is None else dwanted
        given = (q, v, tau), (dq, dv, dtau, db)
        return ConstrainedDynamics(*self._held.derivative("jvp", *given, wanted, stabilization, f_ext, out))

    def vjp(
        self, q: Any, v: Any, tau: Any, weights: Any, force_weights: Any = None, *,
        wanted: Any = None, stabilization: Any = None, f_ext: Any = None, out: Any = None,
    ) -> ConstrainedGradients:  # fmt: skip
        """Gradients of wᵀa + yᵀλ, in one solution of the transposed system and O(n).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            weights: w, (…, nv).
            force_weights: y, (…, c); zero by default.
            wanted: As for a call.
            stabilization: As for a call.
            f_ext: As for a call; constant in the axes of their frames.
            out: As for a call.
        """
        y = self._held.nothing if force_weights is None else force_weights
        given = (q, v, tau), (weights, y)
        return ConstrainedGradients(*self._held.derivative("vjp", *given, wanted, stabilization, f_ext, out))

    def hvp(
        self, q: Any, v: Any, tau: Any, weights: Any, dq: Any, dv: Any, dtau: Any, dwanted: Any = None, *,
        force_weights: Any = None, wanted: Any = None, stabilization: Any = None, f_ext: Any = None, out: Any = None,
    ) -> ConstrainedGradients:  # fmt: skip
        """Changes of the gradients of wᵀa + yᵀλ along a direction: the Hessian of that sum times the direction.

        As for `robot.forward_dynamics.hvp`, it is symmetric up to a bracket of tangents of q.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            weights: w, (…, nv).
            dq: Direction of q, a tangent, (…, nv).
            dv: Direction of v, (…, nv).
            dtau: Direction of τ, (…, nv).
            dwanted: Direction of the wanted accelerations, (…, c); zero by default.
            force_weights: y, (…, c); zero by default.
            wanted: As for a call.
            stabilization: As for a call.
            f_ext: As for a call; constant in the axes of their frames.
            out: As for a call.
        """
        y, db = (self._held.nothing if x is None else x for x in (force_weights, dwanted))
        given = (q, v, tau), (weights, y, dq, dv, dtau, db)
        return ConstrainedGradients(*self._held.derivative("hvp", *given, wanted, stabilization, f_ext, out))
