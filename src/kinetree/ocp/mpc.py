"""Model-predictive control: a problem that is solved again, from where the robot is, while it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.ocp.plan import Plan
from kinetree.ocp.problem import Problem
from kinetree.runtime import arguments
from kinetree.spatial.value import Array

#: Fraction of a step by which an update may come early.
_SOON = 1e-6


class MPCState(NamedTuple):
    """What passes from one command to the next.

    Attributes:
        plan: The plan in force.
        age: Time since its first node [s].
        prepared: The plan after it, if `MPC.prepare` made one.
        steps: Steps since the first command.
        measured: q and v at the first node of a plan that was prepared, and so begins elsewhere.
    """

    plan: Plan
    age: float
    prepared: Plan | None = None
    steps: int = 0
    measured: tuple[Array, Array] | None = None


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
        problem: The problem. Its first time steps should be equal. Or several problems, one for each step of a cycle,
            such as a gait whose contact phases move on: after k steps, the k-th of them is solved.
        iterations: Iterations of each update.
        first: Iterations of the first call.
    """

    def __init__(self, problem: Problem | Sequence[Problem], iterations: int = 1, first: int = 300) -> None:
        self.problems = (problem,) if isinstance(problem, Problem) else _cycle(problem)
        if len({(each.robot, each.nodes, float(each.dt[0])) for each in self.problems}) > 1:
            raise InputError("MPC: problems of a cycle have the same robot, number of steps and first time step")
        self.problem, self.iterations = self.problems[0], arguments.whole("MPC: iterations", iterations)
        self.first = arguments.whole("MPC: first", first)

    def __repr__(self) -> str:
        cycle = "" if len(self.problems) == 1 else f", a cycle of {len(self.problems)} like it"
        return f"<MPC, {self.iterations} iterations per update, of {self.problem!r}{cycle}>"

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
        if not isinstance(state, (MPCState, NoneType)):
            raise InputError(f"MPC: state is the `state` of the command before, got {type(state).__name__}")
        if state is None:
            plan = problem.solve(q, v, targets, iterations=self.first)
            return MPCCommand(plan.torques(q, v), plan, MPCState(plan, 0.0))
        step = float(problem.dt[0])
        age = state.age + (step if dt is None else arguments.number("dt", dt, 0.0, "a time from 0 on [s]"))
        passed = int(age / step + _SOON)
        if passed == 1 and state.prepared is not None:
            robot = problem.robot
            # copies, as callers reuse their arrays
            at_q = arguments.doubles("MPC", "q", q, (robot.nq,)).copy()
            at_v = arguments.doubles("MPC", "v", v, (robot.nv,)).copy()
            state = MPCState(state.prepared, 0.0, None, state.steps + 1, (at_q, at_v))
            age, passed = age - step, 0
        if passed == 0:
            return MPCCommand(state.plan.torques(q, v), state.plan, state._replace(age=age))
        steps, start = state.steps + passed, state.plan.shifted(passed)
        plan = self._after(steps).solve(q, v, targets, start=start, iterations=self.iterations)
        return MPCCommand(plan.torques(q, v), plan, MPCState(plan, age - passed * step, steps=steps))

    def _after(self, steps: int) -> Problem:
        """The problem after some steps."""
        return self.problems[steps % len(self.problems)]

    def prepare(self, state: MPCState, targets: Mapping[str, Any] | None = None) -> MPCState:
        """Solve for the next update before its state arrives, from where the robot is expected to be.

        That is where a step of the plan leads from the last state that was measured. The command then takes no longer
        than feedback: its gains correct for the state that does arrive. An update that comes later than the next step
        is solved as without preparation.

        Args:
            state: The state of the last command.
            targets: Targets from the next step of the horizon on.

        Returns:
            The state for the next command.
        """
        if not isinstance(state, MPCState):
            raise InputError(f"MPC: state is the `state` of a command, got {type(state).__name__}")
        later = state.plan.shifted(1)
        q, v = later.q[..., 0, :], later.v[..., 0, :]
        if state.measured is not None:
            found = _next(state.plan, *state.measured)
            finite = np.all([np.isfinite(x).all(axis=-1) for x in found], axis=0)[..., None]
            q, v = (np.where(finite, new, old) for new, old in zip(found, (q, v), strict=True))
        problem = self._after(state.steps + 1)
        return state._replace(prepared=problem.solve(q, v, targets, start=later, iterations=self.iterations))


def _next(plan: Plan, q: Array, v: Array) -> tuple[Array, Array]:
    """Where the first step of a plan, with feedback, leads from a state near its beginning."""
    qs, vs, tau = plan.q[..., :-1, :].copy(), plan.v[..., :-1, :].copy(), plan.tau.copy()
    qs[..., 0, :], vs[..., 0, :], tau[..., 0, :] = q, v, plan.torques(q, v)
    after = plan.horizon.dynamics.step(*(x.reshape(-1, *x.shape[-2:]) for x in (qs, vs, tau)))
    batch = plan.q.shape[:-2]
    return after.q[:, 0].reshape(*batch, -1), after.v[:, 0].reshape(*batch, -1)


def _cycle(problems: Any) -> tuple[Problem, ...]:
    found = tuple(problems) if isinstance(problems, Iterable) else ()
    if not found or not all(isinstance(each, Problem) for each in found):
        raise InputError(f"MPC: problem is an ocp.Problem(…), or a list of them; got {problems!r}")
    return found
