"""Accelerations of a step and their derivatives: of a robot that moves freely, or under constraints and projections.

With wrenches that are constant in the axes of their frames, a(q, v, push). Under constraints, M⁻¹ becomes the P of
`kinetree.model.held_derivatives`, and a step ends with two projections (`kinetree.simulation.held_step_derivatives`).
Their rows may depend on each other: all are solved by eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from kinetree.algorithms.derivatives.contact_steps import parameters_change, parameters_gradient
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import forward_dynamics_vjp
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_solve
from kinetree.kernels.step_changes import two_products
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.constraints import Constraints
from kinetree.model.held_derivatives import DerivativeText, Solved
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
from kinetree.simulation.held_step_derivatives import HeldStepDerivatives
from kinetree.simulation.plant import Plant
from kinetree.simulation.steps import Stage


class FreeDynamics:
    """Of a plant without constraints."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def run(self, run: Any, algorithm: Algorithm, sites: Sequence[Site], *inputs: Any) -> Any:
        """A recursion of the dynamics, with wrenches on `sites`."""
        return run(self._plant.recursion(algorithm, tuple(sites), dynamic=True), *inputs)

    def change(self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], *along: Any) -> Any:
        """δa along δq, δv and δpush."""
        return self.run(run, forward_dynamics_jvp, sites, at.q, at.v, at.push, *along, *wrenches)

    def gradient(self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], weights: Any) -> Sequence[Any]:
        """Gradients of weights · a with respect to q, v and push."""
        found: Sequence[Any] = self.run(run, forward_dynamics_vjp, sites, at.q, at.v, at.push, weights, *wrenches)
        return found

    def matrices(
        self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], user: Any, names: Sequence[str]
    ) -> Sequence[Any]:
        """∂a with respect to q, v and push, made where `user` has its inputs of these names."""
        recursion = self._plant.recursion(forward_dynamics_derivatives, tuple(sites), dynamic=True)
        found: Sequence[Any] = run.feeding(user, names, recursion, at.q, at.v, at.push, *wrenches)
        return found

    def solved(self, run: Any, bodies: Any, q: Any, tau: Any, wrench: Any) -> Any:
        """M⁻¹ (τ + Jᵀw), for wrenches on bodies if there are any."""
        if bodies is None:
            return self.run(run, mass_matrix_solve, (), q, tau)
        return bodies.solved(q, tau, wrench)

    def by_masses(self, run: Any, at: Stage, x: Any, scale: float) -> Any:
        """Gradients of xᵀτ with respect to inertial parameters, at a stage."""
        numbers, recursion = self._plant.heavy(parameters_gradient)
        found = run(recursion, at.q, at.v, at.a, x, scale)
        return run.placed(found, numbers, (len(self._plant.robot.bodies), 10))

    def heavier(self, run: Any, at: Stage, change: Any) -> Any:
        """The change of τ with inertial parameters, at a stage."""
        numbers, recursion = self._plant.heavy(parameters_change)
        return run(recursion, at.q, at.v, at.a, run.taken(change, numbers))

    def lifted(self, algorithm: Algorithm) -> Any:
        """A recursion of what bears a part of the weight."""
        return bind(algorithm, cast(Mechanism, self._plant.borne), (), "step")


class HeldDynamics:
    """Of a plant under constraints, with or without a projection at the end of a step. Interface as of the other."""

    def __init__(self, plant: Plant, held: Constraints, project: bool) -> None:
        self._plant, self._held, self._steps = plant, held, HeldStepDerivatives(plant, held, project)
        self.projects = project

    def _state(self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any]) -> tuple[DerivativeText, Solved]:
        text = DerivativeText(self._held, "step", tuple(sites), False)
        of, _ = text.state(run, True, at.q, at.v, at.push, None, None, wrenches[0] if wrenches else None)
        return text, of

    def change(self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], *along: Any) -> Any:
        """δa along δq, δv and δpush."""
        text, of = self._state(run, sites, at, wrenches)
        dq, dv, push = along
        return text.jvp(run, True, of, dq, dv, push, self._held.nothing)[0]

    def gradient(self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], weights: Any) -> Sequence[Any]:
        """Gradients of weights · a with respect to q, v and push."""
        text, of = self._state(run, sites, at, wrenches)
        return text.vjp(run, True, of, weights, self._held.nothing)[:3]

    def matrices(
        self, run: Any, sites: Sequence[Site], at: Stage, wrenches: list[Any], _user: Any, _names: Sequence[str]
    ) -> Sequence[Any]:
        """∂a with respect to q, v and push."""
        function = self._held.derivative_function(("linearize", tuple(sites), False), True)
        found: Sequence[Any] = run(function, at.q, at.v, at.push, self._held.nothing, *wrenches)
        return found[:3]

    def solved(self, run: Any, q: Any, tau: Any) -> Any:
        """P τ."""
        free = run(self._held.of_masses(mass_matrix_solve), q, tau)
        x, _, _ = self._held.solve(run, q, None, free, True)
        return x

    def projected(self, run: Any, name: str, q: Any, v: Any, *given: Any) -> Sequence[Any]:
        """Changes, gradients or matrices of the projections from q and v on."""
        return self._steps.of_projection(run, name, q, v, given)

    def projected_matrices(self, run: Any, q: Any, v: Any, A: Any, B: Any) -> tuple[Any, Any]:
        """A and B after the projections, from those before."""
        n = self._plant.robot.nv
        q_q, q_v, _, v_q, v_v, _ = self.projected(run, "matrices", q, v)
        found = []
        for matrix, k in ((A, 2 * n), (B, n)):
            above, below = (run.taken(matrix, np.arange(start, start + n * k).reshape(n, k)) for start in (0, n * k))
            rows = (q_q, above, q_v, below), (v_q, above, v_v, below)
            found.append(run.joined(*(run(compiled(two_products, n=n, k=k), *row) for row in rows)))
        return found[0], found[1]
