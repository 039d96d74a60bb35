"""Model-predictive control: a problem that is solved again, from where the robot is, while it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.ocp.plan import Plan
from kinetree.ocp.problem import Problem
from kinetree.spatial.value import Array

#: Fraction of a step by which an update may come early.
_SOON = 1e-6


class MPCState(NamedTuple):
    """What passes from one command to the next.

    Attributes:
        plan: The plan in force.
        age: Time since its first node [s].
        prepared: The plan after it, if `MPC.prepare` made one.
    """

    plan: Plan
    age: float
    prepared: Plan | None = None


class MPCCommand(NamedTuple):
    """Output of model-predictive control.

    Attributes:
        tau: Joint forces, (…, nv).
        plan: The plan that they belong to.
        state: State for the next call.
    """

    tau: Array
    plan: Plan
    state: MPCState


class MPC:
    """A controller that solves a problem again whenever a step of its horizon has passed, and follows gains in between.

    The first call solves the problem; later ones start from the plan before, shifted by the steps that have passed.
    `simulation.Simulator.run` takes it as a controller.

    Args:
        problem: The problem. Its first time steps should be equal.
        iterations: Iterations of each update.
        first: Iterations of the first call.
    """

    def __init__(self, problem: Problem, iterations: int = 1, first: int = 300) -> None:
        for name, value in (("iterations", iterations), ("first", first)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(f"MPC: {name}={value!r} is not a positive number")
        self.problem, self.iterations, self.first = problem, int(iterations), int(first)

    def __repr__(self) -> str:
        return f"<MPC, {self.iterations} iterations per update, of {self.problem!r}>"

    def __call__(
        self,
        q: Any,
        v: Any,
        targets: Mapping[str, Any] | None = None,
        *,
        state: MPCState | None = None,
        dt: float | None = None,
    ) -> MPCCommand:
        """Joint forces at a state.

        Args:
            q: Configuration, (…, nq).
            v: Velocities, (…, nv).
            targets: Targets of the problem's terms from now on, as for `Problem.solve`.
            state: The state of the command before; None at first.
            dt: Time since that command [s]; by default one step of the problem.
        """
        problem = self.problem
        if state is None:
            plan = problem.solve(q, v, targets, iterations=self.first)
            return MPCCommand(plan.torques(q, v), plan, MPCState(plan, 0.0))
        step = float(problem.dt[0])
        age = state.age + (step if dt is None else float(dt))
        passed = int(age / step + _SOON)
        if passed == 1 and state.prepared is not None:
            state, age, passed = MPCState(state.prepared, 0.0), age - step, 0
        if passed == 0:
            return MPCCommand(state.plan.torques(q, v), state.plan, state._replace(age=age))
        plan = problem.solve(q, v, targets, start=state.plan.shifted(passed), iterations=self.iterations)
        return MPCCommand(plan.torques(q, v), plan, MPCState(plan, age - passed * step))

    def prepare(self, state: MPCState, targets: Mapping[str, Any] | None = None) -> MPCState:
        """Solve for the next update before its state arrives, from where the plan expects the robot to be.

        The command then takes no longer than feedback: its gains correct for the state that does arrive. An update that
        comes later than the next step is solved as without preparation.

        Args:
            state: The state of the last command.
            targets: Targets from the next step of the horizon on.

        Returns:
            The state for the next command.
        """
        later = state.plan.shifted(1)
        q, v = later.q[..., 0, :], later.v[..., 0, :]
        return state._replace(prepared=self.problem.solve(q, v, targets, start=later, iterations=self.iterations))
