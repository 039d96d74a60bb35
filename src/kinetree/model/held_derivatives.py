"""Exact derivatives of constrained dynamics: matrices, directional derivatives, gradients, inertial parameters.

    F = ID(q, v, a) − Jᵀλ − Jₑᵀf − τ = 0         ψ = J a + J̇v + kp φ + kd J v − b = 0              (1)
    M δa − Jᵀδλ = δτ − F_q δq − F_v δv            J δa = δb − ψ_q δq − ψ_v δv                       (2)

F_q and F_v are those of inverse dynamics with λ as wrenches that are constant in their frames, less the geometric
stiffness K = ∂(Jᵀλ)/∂q that is left (`kinetree.algorithms.tasks.row_derivatives`). Gradients of wᵀa + yᵀλ are one
solution of the transposed system, which is the same one:

    M x − Jᵀz = w     J x = −y     q̄ = −F_qᵀx + ψ_qᵀz     v̄ = −F_vᵀx + ψ_vᵀz     τ̄ = x     b̄ = −z         (3)

So (1), (2) and (3) are all solved by `kernels.constrained_solution`, with the same M⁻¹, J M⁻¹ and Λ.

Where rows depend on each other, a and its derivatives are unique as long as the rank does not change close by, and v
satisfies the rows. λ is one of many then: its derivatives are those of some λ that causes a, for which (2) holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import inverse_dynamics_vjp
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.kernels.constrained_solution import (
    changed_sides,
    constrained_linearization,
    constrained_solution,
    difference,
    gathered_gradients,
    parameter_solutions,
    regular_inverse,
    row_response,
)
from kinetree.kernels.constraint_rows import row_mobility, row_residual
from kinetree.kernels.eigen import regularized_inverse
from kinetree.kernels.products import total
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import View, in_view, prefers_common_frame
from kinetree.language.mechanism import Site
from kinetree.model.held_rows import RowChanges
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
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
    """Gradients of wᵀa + yᵀλ.

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


class _Solution(NamedTuple):
    """What all derivatives share."""

    Minv: Any
    response: Any
    inertia: Any
    a: Any
    force: Any
    spread: Any  # rows may depend on each other where it is not below 1
    rank: Any


#: Inputs besides q, v, τ, b, and results besides `doubts`, of each function.
SIGNATURES = {
    "linearize": (
        "",
        "dq dv dtau dwanted forces_dq forces_dv forces_dtau forces_dwanted acceleration forces rank",
    ),
    "jvp": ("along_q along_v along_tau along_wanted", "acceleration forces"),
    "vjp": ("weights force_weights", "by_q by_v by_tau by_wanted"),
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
        of = self._solution(run, near, q, v, tau, wanted, gains, pushed)
        found: Sequence[Any] = getattr(self, f"_{self._name}")(run, of, q, v, gains, pushed, *directions)
        return *found, of.spread

    def _solution(
        self, run: Any, near: bool, q: Any, v: Any, tau: Any, wanted: Any, gains: Any, pushed: Any
    ) -> _Solution:
        held, robot, over = self._held, self._robot, self._over
        c, n = held.rows, robot.nv
        rest, nothing = np.zeros((c, 2)), np.zeros(c)
        J, drift = held._motion(run, q, v)
        error = nothing if gains is None else held._error(run, q)
        still = np.zeros(n)
        lacking = run(
            compiled(row_residual, r=c, n=n), J, drift, error, v, still, wanted, rest if gains is None else gains
        )
        Minv = run(robot.mass_matrix_inverse, q)
        response = run(over(row_response), J, Minv)
        A, own = run(compiled(row_mobility, r=c, n=n), J, response)
        if near:
            values, vectors, roots, edge, rank, _ = run(
                singular.decomposition(c), A, own, *held._weights, held.redundant
            )
            inertia, spread = run(compiled(regularized_inverse, n=c), values, vectors, roots, edge, 0.0), 0.0
        else:
            inertia, spread = run(compiled(regular_inverse, c=c), A, own, *held._weights, held.redundant * c)
            rank = float(c)
        if pushed is None:
            bias = run(robot.bias_forces, q, v)
        else:
            bias = run(bind(inverse_dynamics, robot.mechanism, self._pushed, "linearize"), q, v, still, pushed)
        a, force = run(
            over(constrained_solution), Minv, response, inertia, run(compiled(difference, n=n), tau, bias), lacking
        )
        return _Solution(Minv, response, inertia, a, force, spread, rank)

    def _changes(
        self, run: Any, of: _Solution, q: Any, v: Any, gains: Any, pushed: Any
    ) -> tuple[Any, Any, Any, list[Any]]:
        """∂ψ/∂q, ∂ψ/∂v, K, and the inputs of inverse dynamics after its arrays: all wrenches."""
        held, n = self._held, self._robot.nv
        parts: list[RowChanges] = []
        for numbers, one in held._sets:
            rows = np.asarray(numbers)
            own = np.zeros((len(rows), 2)) if gains is None else run.taken(gains, 2 * rows[:, None] + np.arange(2))
            parts.append(one.changes(run, q, v, of.a, run.taken(of.force, rows), own))
        stiffness = parts[0].stiffness
        for part in parts[1:]:
            stiffness = run(compiled(total, n=n * n), stiffness, part.stiffness)
        wrenches = [part.wrench for part in parts if part.wrench is not None]
        wrenches += [] if pushed is None else [pushed]
        psi_q, psi_v = (self._stacked(run, [part[i] for part in parts]) for i in range(2))
        return psi_q, psi_v, stiffness, [run.joined(*wrenches)] if wrenches else []

    def _stacked(self, run: Any, parts: Sequence[Any]) -> Any:
        """Rows of all sets in the order of the constraints, (c, nv)."""
        held, n = self._held, self._robot.nv
        flat = [run.taken(x, np.arange(one.count * n)) for x, (_, one) in zip(parts, held._sets, strict=True)]
        return run.taken(run.joined(*flat), n * held._order[:, None] + np.arange(n))

    def _dynamics(self, algorithm: Algorithm, view: View = "own") -> Any:
        """Inverse dynamics or a derivative of it, with wrenches on the frames of all rows and those of the user."""
        sites = (*(site for _, one in self._held._sets for site in one.sites), *self._pushed)
        mechanism = self._robot.mechanism
        return bind(in_view(algorithm, mechanism, view), mechanism, sites, self._name)

    def _linearize(self, run: Any, of: _Solution, q: Any, v: Any, gains: Any, pushed: Any) -> Sequence[Any]:
        psi_q, psi_v, stiffness, wrenches = self._changes(run, of, q, v, gains, pushed)
        derivatives = self._dynamics(inverse_dynamics_derivatives, prefers_common_frame)
        F_q, F_v, _ = run(derivatives, q, v, of.a, *wrenches)
        changes = F_q, F_v, stiffness, psi_q, psi_v
        dq, dv, dtau, dwanted, *forces = run(self._over(constrained_linearization), *of[:3], *changes)
        return dq, dv, dtau, dwanted, *forces, of.inertia, of.a, of.force, of.rank

    def _jvp(
        self, run: Any, of: _Solution, q: Any, v: Any, gains: Any, pushed: Any, dq: Any, dv: Any, dtau: Any, db: Any
    ) -> Sequence[Any]:
        psi_q, psi_v, stiffness, wrenches = self._changes(run, of, q, v, gains, pushed)
        change = run(self._dynamics(inverse_dynamics_jvp), q, v, of.a, dq, dv, np.zeros(self._robot.nv), *wrenches)
        sides = run(self._over(changed_sides), psi_q, psi_v, stiffness, dq, dv, dtau, db, change)  # (2)
        found: Sequence[Any] = run(self._over(constrained_solution), *of[:3], *sides)
        return found

    def _vjp(
        self, run: Any, of: _Solution, q: Any, v: Any, gains: Any, pushed: Any, weights: Any, force_weights: Any
    ) -> Sequence[Any]:
        psi_q, psi_v, stiffness, wrenches = self._changes(run, of, q, v, gains, pushed)
        minus = run(compiled(difference, n=self._held.rows), np.zeros(self._held.rows), force_weights)
        x, z = run(self._over(constrained_solution), *of[:3], weights, minus)  # (3)
        by_q, by_v, _ = run(self._dynamics(inverse_dynamics_vjp), q, v, of.a, x, *wrenches)
        dq, dv = run(self._over(gathered_gradients), psi_q, psi_v, stiffness, x, z, by_q, by_v)
        return dq, dv, x, run(compiled(difference, n=self._held.rows), np.zeros(self._held.rows), z)

    def _parameters(self, run: Any, of: _Solution, q: Any, v: Any, *_: Any) -> Sequence[Any]:
        columns = 10 * len(self._robot.inertial_parameters)
        Y = run(self._robot.regressor, q, v, of.a)
        found: Sequence[Any] = run(self._over(parameter_solutions, p=columns), *of[:3], Y)
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
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None
    ) -> ConstrainedDynamics:
        """Accelerations and constraint forces, by (2) of `kinetree.model.constraints`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv). They should satisfy the constraints; violations are not corrected.
            tau: Joint forces, (…, nv) [N m or N].
            wanted: b, the acceleration of the rows, (…, c); zero by default.
            stabilization: Baumgarte's gains kp and kd, (2,) or (c, 2): b −= kp φ + kd J v. None by default.
            f_ext: As for `robot.forward_dynamics`.
        """
        found: ConstrainedDynamics = self._held._accelerations(q, v, tau, wanted, stabilization, f_ext)
        return found

    def jvp(
        self, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any, dwanted: Any = None, *,
        wanted: Any = None, stabilization: Any = None, f_ext: Any = None,
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
        """
        db = np.zeros(self._held.rows) if dwanted is None else dwanted
        given = (q, v, tau), (dq, dv, dtau, db)
        return ConstrainedDynamics(*self._held.derivative("jvp", *given, wanted, stabilization, f_ext))

    def vjp(
        self, q: Any, v: Any, tau: Any, weights: Any, force_weights: Any = None, *,
        wanted: Any = None, stabilization: Any = None, f_ext: Any = None,
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
        """
        y = np.zeros(self._held.rows) if force_weights is None else force_weights
        given = (q, v, tau), (weights, y)
        return ConstrainedGradients(*self._held.derivative("vjp", *given, wanted, stabilization, f_ext))
