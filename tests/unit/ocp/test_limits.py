"""Limits: rows that act within a step, against minimisation by other means; solutions that settle, on all limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import kinetree as kt
from kinetree import ocp
from kinetree.ocp import active_set, solver
from kinetree.ocp.active_set import EntryRows, settled
from kinetree.ocp.costs import Bounds
from kinetree.ocp.horizon import Path
from tests.unit.ocp.cases import reach, swing_up

Array = np.ndarray[Any, np.dtype[Any]]
T, STEP = 6, 0.1


def bounded() -> tuple[Any, Any]:
    """Two problems with linear dynamics and bounds of q, v and u, as a horizon and what it is given."""
    builder = kt.Builder("sliders")
    for name, parent, upper in (("one", "world", 0.35), ("two", "one", np.inf)):
        limits = kt.model.Limits(lower=-0.1, upper=upper, velocity=0.6)
        body = {"mass": 1.0, "com": (0, 0, 0), "inertia": np.eye(3), "limits": limits}
        builder.add_body(name, parent=parent, joint="prismatic", axis=(1, 0, 0), **body)
    terms = [
        ocp.state([1.0, 0.5], weight=0.1, last=50.0), ocp.control(weight=1e-2),
        ocp.state([0.1, 0.1], weight=[30.0, 0.0, 0.0, 0.0], hard=True, nodes=[4], name="gate"),
    ]  # fmt: skip
    limits = ocp.Limits(torque=[9.0, 0.0], velocity=True, position=True)
    h = ocp.Problem(builder.build(), STEP, T, terms, limits=limits).horizon
    rng, bounds = np.random.default_rng(0), []
    for row in (h.costs.rows[number] for number in h.costs.hard):
        weight = np.repeat(100.0 * row.weight[None] if row.term is None else row.weight[None], 2, axis=0)
        bounds.append(Bounds(row, np.where(weight > 0.0, 3.0 * rng.normal(size=weight.shape), 0.0), weight, weight))
    return h, h.costs.given(h.costs.targets({}, (2,)), bounds)


def rolled(h: Any, u: Array) -> Path:
    """States that follow the dynamics from rest."""
    q, v = [np.zeros((len(u), 2))], [np.zeros((len(u), 2))]
    for t in range(T):
        after, rate = h.robot.step(q[-1], v[-1], u[:, t], STEP)
        q, v = [*q, after], [*v, rate]
    return Path(np.stack(q, axis=1), np.stack(v, axis=1), u)


@pytest.mark.parametrize(("sweeps", "settles"), [(40, True), (2, False)])
@pytest.mark.parametrize("closed", [True, False])
def test_rows_act_as_at_the_minimum_of_the_model(
    sweeps: int, settles: bool, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of linear dynamics, a step ends at the least cost of all, which BFGS finds too; its fall is what was expected."""
    monkeypatch.setattr(active_set, "_OPEN", sweeps)
    monkeypatch.setattr(active_set, "_CLOSED", sweeps)
    h, given = bounded()
    rng = np.random.default_rng(1)
    path = rolled(h, 4.0 * rng.normal(size=(2, T, 2)))
    if not closed:
        path = Path(path.q + 0.2 * rng.normal(size=path.q.shape), path.v + rng.normal(size=path.v.shape), path.u)
        path.q[:, 0] = path.v[:, 0] = 0.0
    at, damping = h.trial(path, given), np.zeros(2)
    linear, model = h.models(at.path, at.gap, given, [], np.zeros(2))
    gains, later = h.gains(linear, at.gap, model, damping)
    first = h.step(linear, at.gap, model, gains, later, damping)
    rows = EntryRows.of(h.costs, at.path, given)
    assert rows is not None
    assert rows.swapped(first).all()
    gains, step, rough = settled(h, rows, linear, model, at.gap, damping, gains, first, np.full(2, closed))
    assert (gains.pivot > 0.0).all()
    there = h.trial(h.moved(at.path, step, np.ones(2)), given)
    np.testing.assert_array_equal(rough, (there.cost > at.cost) & closed)
    np.testing.assert_allclose(at.cost - there.cost, -(step.slope + 0.5 * step.curve), rtol=1e-9)
    small = 1e-6
    ahead, back = (h.trial(h.moved(at.path, step, np.full(2, s)), given).cost for s in (small, -small))
    np.testing.assert_allclose((ahead - back) / (2.0 * small), step.slope, rtol=1e-5)
    assert (there.cost <= h.trial(h.moved(at.path, first, np.ones(2)), given).cost).all()
    assert (there.gaps < 1e-12).all() or not settles
    for i in range(2):

        def cost(u: Array, i: int = i) -> float:
            return float(h.trial(rolled(h, u.reshape(1, T, 2)), given.some([i])).cost[0])

        least = minimize(cost, there.path.u[i].ravel(), options={"gtol": 1e-7})
        assert (there.cost[i] - least.fun < 1e-8 * least.fun) == settles


def test_limits_of_an_arm_settle() -> None:
    """Torque, velocity and position limits from several starts: stationary by an adjoint, and complementary."""
    robot = kt.zoo.arm7()
    problem = reach(robot, "hand", 30, limits=ocp.Limits(torque=True, position=True, velocity=True, margin=0.5))
    target = robot.pose(np.array([1.2, 0.9, -0.6, 1.4, 0.5, 0.8, 0.0]), "hand")
    q = robot.neutral() + 0.2 * np.random.default_rng(0).uniform(-1.0, 1.0, size=(9, 7))
    plans = problem.solve(q, targets={"hand": target}).require()
    assert plans.iterations.mean() < 55  # 68 if rows act as where steps start
    most, power = 0.5 * robot.velocity_limits, 0.5 * robot.effort_limits
    y = plans.multipliers
    for values, forces, upper in ((plans.v, y["velocity"], most), (plans.u, y["torque"], power)):
        assert (np.abs(values) <= upper + 1e-6).all()
        assert (forces != 0.0).any()
        assert np.abs(forces * (np.abs(values) < upper - 2e-6)).max() == 0.0
        assert (forces * values >= 0.0).all()
    for i in (0, 8):
        plan = problem.solve(q[i], targets={"hand": target})
        for name in ("q", "v", "u", "gains", "cost", "gap", "violation", "iterations"):
            np.testing.assert_array_equal(getattr(plans, name)[i], getattr(plan, name), err_msg=name)
        slope = _slope(problem, plan, target)
        assert np.abs(slope).max() < 1e-5 * np.abs(plan.multipliers["torque"]).max()


def _slope(problem: ocp.Problem, plan: ocp.Plan, target: Array) -> Array:
    """Derivatives by all inputs of the Lagrangian of `cases.reach`, by costates through `discretize`."""
    robot, h = problem.robot, problem.horizon
    soft = reach(robot, "hand", 30).horizon
    path, _ = soft.reached(Path(plan.q[None], plan.v[None], plan.u[None]))
    model = soft.model(path, soft.linear(path), soft.costs.given(soft.costs.targets({"hand": target}, (1,)), []))
    y = plan.multipliers
    by_q, by_v = model.q[0] + y["position"], model.v[0] + y["velocity"]
    costate, slopes = np.r_[by_q[-1], by_v[-1]], []
    A, B = robot.discretize(plan.q[:-1], plan.v[:-1], plan.tau, h.dt)
    for t in reversed(range(h.T)):
        slopes.append(model.u[0, t] + y["torque"][t] + B[t].T @ costate)
        costate = A[t].T @ costate + np.r_[by_q[t], by_v[t]]
    return np.array(slopes)


def test_swing_ups_within_limits_need_few_steps() -> None:
    """Rows that act in turns take 49 iterations."""
    problem, rest = swing_up("cart_pole", 150, 4.15, [kt.zoo.cart_pole().joints[0].name])
    plan = problem.solve(rest).require()
    assert plan.iterations < 30
    assert plan.violation < 1e-7


def test_short_steps_are_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damping grows with short steps, but not beyond its most."""
    monkeypatch.setattr(solver, "_MOST", 1e-3)
    problem, rest = swing_up("double_pendulum", 60, 6.0)
    plan = problem.solve(rest, iterations=60)
    assert (plan.table["damping"] == 1e-3).any()
    assert plan.reason != "no step"


def test_what_cannot_keep_its_limits_says_so() -> None:
    """Joints that turn too fast at first, so that no step is taken in the end."""
    terms = [ocp.control(weight=1e-4), ocp.state(weight=1e-2)]
    problem = ocp.Problem(kt.zoo.arm7(), 0.02, 30, terms, limits=ocp.Limits(velocity=True))
    plan = problem.solve(np.zeros(7), np.full(7, 50.0), iterations=60)
    assert plan.iterations < 60
    assert plan.reason == "constraints"
