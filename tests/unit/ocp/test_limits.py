"""Limits: rows that act within a step, against minimisation by other means; solutions that settle, on all limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import kinetree as kt
from kinetree import ocp
from kinetree.errors import ConvergenceError
from kinetree.kernels.active_rows import moved_mean
from kinetree.ocp import active_set, solver
from kinetree.ocp.active_set import HardRows, settled
from kinetree.ocp.costs import Bounds
from kinetree.ocp.horizon import Path
from kinetree.runtime.function import compiled
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
        ocp.Term(_power, 2, weight=40.0, lower=[-0.2, -np.inf], upper=[0.4, 0.1], hard=True, nodes=[1, 2, 3, 5]),
    ]  # fmt: skip
    limits = ocp.Limits(torque=[9.0, 0.0], velocity=True, position=True)
    h = ocp.Problem(builder.build(), STEP, T, terms, limits=limits).horizon
    rng, bounds = np.random.default_rng(0), []
    for row in (h.costs.rows[number] for number in h.costs.hard):
        weight = np.repeat(100.0 * row.weight[None] if row.term is None else row.weight[None], 2, axis=0)
        bounds.append(Bounds(row, np.where(weight > 0.0, 3.0 * rng.normal(size=weight.shape), 0.0), weight, weight))
    return h, h.costs.given(h.costs.targets({}, (2,)), bounds)


def _power(q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    """Two sums of entries of q, v and u."""
    by_x, by_u = np.array([[1.0, 0.5, 0.2, -0.1], [0.0, -1.0, 0.3, 0.7]]), np.array([[0.1, -0.2], [0.0, 0.3]])
    r = np.concatenate([q, v], axis=-1) @ by_x.T + u @ by_u.T
    return r, np.broadcast_to(by_x, (*r.shape, 4)), np.broadcast_to(by_u, (*r.shape, 2))


def rolled(h: Any, u: Array) -> Path:
    """States that follow the dynamics from rest."""
    q, v = [np.zeros((len(u), 2))], [np.zeros((len(u), 2))]
    for t in range(T):
        after, rate = h.robot.step(q[-1], v[-1], u[:, t], STEP)
        q, v = [*q, after], [*v, rate]
    return Path(np.stack(q, axis=1), np.stack(v, axis=1), u)


def test_lengths_end_just_beyond_the_row_that_is_met() -> None:
    """Where the slope (1) of `active_set` vanishes, whatever the penalties; the row there acts from then on."""
    rng = np.random.default_rng(2)
    shape, met = (4, 5), 0
    lower, upper = np.where(rng.uniform(size=5) < 0.3, -np.inf, -0.3), np.full(5, 0.3)
    length = compiled(moved_mean, S=4, M=5)
    for _ in range(200):
        z, to = rng.normal(size=shape), rng.normal(size=shape)
        weight = 10.0 ** rng.uniform(-2.0, 8.0, size=shape) * (rng.uniform(size=shape) < 0.8)

        def pull(x: Array, weight: Array = weight) -> Array:
            return weight * (np.minimum(x - lower, 0.0) + np.maximum(x - upper, 0.0))

        mean = pull(z) + (to - z) * np.abs(rng.normal(size=shape))  # costs fall at first
        force = mean - (to - z) * np.abs(rng.normal(size=shape))  # of a convex model

        def slope(part: float, z: Array = z, to: Array = to, mean: Array = mean, force: Array = force) -> Any:
            return ((pull(z + part * (to - z)) - mean - part * (force - mean)) * (to - z)).sum()

        after, side, _, part, _ = length(z, to, weight, lower, upper, mean, force)
        np.testing.assert_allclose(after, z + part * (to - z), rtol=1e-12, atol=1e-14)
        if slope(1.0) <= 0.0:
            assert part == 1.0
            continue
        assert slope(part + 1e-9) >= 0.0
        assert slope(part - 1e-4 * part - 1e-9) < 0.0
        met += int((side[(after > upper) & (weight > 0.0)] == 1.0).all())
    assert met > 50


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("closed", [True, False])
def test_rows_act_as_at_the_minimum_of_the_model(settles: bool, closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of linear dynamics, a step ends at the least cost of all, which BFGS finds too; its fall is what was expected."""
    monkeypatch.setattr(active_set, "_SWEEPS", 40)
    monkeypatch.setattr(active_set, "_FEW", 3)
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
    rows = HardRows.of(h.costs, at.path, given, lambda: linear)
    assert rows is not None
    assert rows.swapped(first).all()
    gains, step = settled(h, rows, linear, model, at.gap, damping, gains, first, np.full(2, not settles))
    assert (gains.pivot > 0.0).all()
    there = h.trial(h.moved(at.path, step, np.ones(2)), given)
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


def test_models_that_need_rows_that_act_no_more() -> None:
    """Convex with the torque limits that a step starts from, not without: it stays, and its fall is that at its end."""
    h, given = bounded()
    u = np.where(np.arange(T)[:, None] % 2, 20.0, -20.0) * np.ones((2, T, 2))
    at, damping, bend = h.trial(rolled(h, u), given), np.zeros(2), 60.0
    linear, model = h.models(at.path, at.gap, given, [], np.zeros(2))
    model.uu[:, :T, 0, 0] -= bend
    gains, later = h.gains(linear, at.gap, model, damping)
    first = h.step(linear, at.gap, model, gains, later, damping)
    rows = HardRows.of(h.costs, at.path, given, lambda: linear)
    assert rows is not None
    assert rows.swapped(first).all()
    found, step = settled(h, rows, linear, model, at.gap, damping, gains, first, np.full(2, False))
    assert (found.pivot > 0.0).all()
    np.testing.assert_array_equal(step.u, first.u)
    there = h.trial(h.moved(at.path, step, np.ones(2)), given)
    fall = at.cost - there.cost + 0.5 * bend * (step.u[..., 0] ** 2).sum(axis=-1)
    np.testing.assert_allclose(-(step.slope + 0.5 * step.curve), fall, rtol=1e-9)


def test_limits_of_an_arm_settle() -> None:
    """Torque, velocity and position limits from several starts: stationary by an adjoint, and complementary."""
    robot = kt.zoo.arm7()
    problem = reach(robot, "hand", 30, limits=ocp.Limits(torque=True, position=True, velocity=True, margin=0.5))
    target = robot.pose(np.array([1.2, 0.9, -0.6, 1.4, 0.5, 0.8, 0.0]), "hand")
    q = robot.neutral() + 0.2 * np.random.default_rng(0).uniform(-1.0, 1.0, size=(9, 7))
    plans = problem.solve(q, targets={"hand": target}).require()
    np.testing.assert_allclose(np.max(list(plans.violations.values()), axis=0), plans.violation, rtol=0.0, atol=1e-12)
    assert plans.iterations.mean() < 38  # 39 if only short steps find rows that act, 68 if none do
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


def test_what_is_out_of_reach_is_found_early_and_named() -> None:
    """A pole that has no time to swing up; and a joint that should be beyond its limit."""
    soft, rest = swing_up("cart_pole", 20, 4.0)
    end = ocp.state(soft.terms[0].target(soft.robot, None)[:2], hard=True, nodes=[-1], name="up")
    motor = [soft.robot.joints[0].name]
    problem = ocp.Problem(soft.robot, 0.02, 20, [end, soft.terms[1]], limits=ocp.Limits(torque=4.0), actuated=motor)
    plan = problem.solve(rest)
    assert plan.reason == "constraints"
    assert plan.iterations < 20
    assert plan.violations["up"] == plan.violation > 2.0
    assert plan.violations["torque"] < 0.1
    with pytest.raises(ConvergenceError, match=r"constraints; gap .*, 'up' violated by 2\.8, 'torque' violated by 0.0"):
        plan.require()
    assert "constraints after" in repr(plan)
    assert "'up' violated by 2.8" in repr(plan)
    # limits that can be kept, by much force: the penalties that a user gave were far too small
    free = ocp.Problem(soft.robot, 0.02, 20, [replace(end, weight=1e-6), soft.terms[1]], actuated=motor).solve(rest)
    assert max(free.require().violations.values()) < 1e-6


def test_what_cannot_keep_its_limits_says_so() -> None:
    """Joints that turn too fast at first, so that no step is taken in the end."""
    terms = [ocp.control(weight=1e-4), ocp.state(weight=1e-2)]
    problem = ocp.Problem(kt.zoo.arm7(), 0.02, 30, terms, limits=ocp.Limits(velocity=True))
    plan = problem.solve(np.zeros(7), np.full(7, 50.0), iterations=60)
    assert plan.iterations < 60
    assert plan.reason == "constraints"
