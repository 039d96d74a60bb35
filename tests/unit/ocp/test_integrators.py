"""Problems with steps of other integrators: LQR, stationarity by an adjoint, robots on manifolds, bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import kinetree as kt
from kinetree import ocp
from kinetree.errors import InputError, UnknownNameError
from tests.tolerance import assert_close
from tests.unit.ocp.cases import swing_up
from tests.unit.ocp.test_terms import flying

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.mark.parametrize("method", ["midpoint", "rk4"])
def test_they_are_solved_to_stationarity(method: str) -> None:
    """A swing-up within limits: the adjoint through `discretize` of the same method, with few motors, has no slope."""
    soft, rest = swing_up("cart_pole", 100, None)
    robot, top, limit = soft.robot, soft.terms[0].target(soft.robot, None), 5.0
    motor = robot.joints[0].name
    problem = ocp.Problem(
        robot, 0.03, 100, soft.terms, limits=ocp.Limits(torque=limit), actuated=[motor], method=method
    )
    plan = problem.solve(rest).require()
    assert np.abs(plan.q[-1] - top[:2]).max() < 0.1
    q, v = robot.step(plan.q[:-1], plan.v[:-1], plan.tau, 0.03, method)
    assert max(np.abs(q - plan.q[1:]).max(), np.abs(v - plan.v[1:]).max()) < 1e-6
    A, B = robot.discretize(plan.q[:-1], plan.v[:-1], plan.tau, 0.03, method)
    costate = np.array([100.0, 100.0, 10.0, 10.0]) * np.concatenate([plan.q[-1] - top[:2], plan.v[-1]])
    y = plan.multipliers["torque"]
    for t in reversed(range(100)):
        slope = 1e-3 * 0.03 * plan.u[t] + B[t, :, :1].T @ costate + y[t]
        assert np.abs(slope).max() < 3e-3 * (1e-3 * 0.03 * limit)
        costate = A[t].T @ costate
    many = problem.solve(np.tile(rest, (9, 1)), iterations=6)
    np.testing.assert_array_equal(many.u[4], problem.solve(rest, iterations=6).u)


def test_linear_dynamics_are_lqr() -> None:
    builder = kt.Builder("sliders")
    builder.add_body("one", joint="prismatic", axis=(1, 0, 0), mass=2.0, com=(0, 0, 0), inertia=np.eye(3))
    builder.add_body("two", parent="one", joint="prismatic", axis=(1, 0, 0), mass=1.0, com=(0, 0, 0), inertia=np.eye(3))
    robot, dt, x = builder.build(), 0.05, np.array([1.0, -0.5, 0.3, 0.2])
    terms = [ocp.state(weight=1.0, last=1.0), ocp.control(weight=0.1)]
    plan = ocp.Problem(robot, dt, 400, terms, method="midpoint").solve(x[:2], x[2:]).require()
    A, B = robot.discretize(x[:2], x[2:], np.zeros(2), dt, "midpoint")
    P = solve_discrete_are(A, B, dt * np.eye(4), 0.1 * dt * np.eye(2))
    assert plan.iterations <= 2
    assert_close(plan.gains[0], -np.linalg.solve(0.1 * dt * np.eye(2) + B.T @ P @ B, B.T @ P @ A), 1e-6)
    assert_close(plan.cost, 0.5 * x @ P @ x, 1e-6)


def test_floating_bases_converge() -> None:
    robot = flying()
    q = robot.neutral()
    target = robot.pose(robot.integrate(q, np.r_[0.2, 0.3, -0.2, np.zeros(3), 0.4, 0.3, 0.0, 0.0]), "left_hand")
    terms = [
        ocp.orientation("left_hand", target, last=100.0, weight=0.1),
        ocp.state(q, weight=0.1),
        ocp.control(weight=1e-3),
    ]
    plans = [ocp.Problem(robot, 0.02, 30, terms, method=m).solve(q).require() for m in ("midpoint", "rk4")]
    assert plans[0].gap < 1e-6
    assert abs(plans[0].cost - plans[1].cost) < 0.02 * plans[1].cost


def test_what_does_not_go_together() -> None:
    robot = kt.zoo.arm7()
    with pytest.raises(UnknownNameError, match="method"):
        ocp.Problem(robot, 0.02, 5, [ocp.control()], method="euler")
    with pytest.raises(InputError, match="steps with contacts"):
        ocp.Problem(robot, 0.02, 5, [ocp.control()], contacts=ocp.Contacts({"hand": True}), method="rk4")
