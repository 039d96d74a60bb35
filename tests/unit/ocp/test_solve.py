"""Solutions: LQR, known optima, stationarity by roll-outs, limits, batches, ends, warm starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import kinetree as kt
from kinetree import ocp
from kinetree.errors import ConvergenceError
from tests.tolerance import assert_close, bound
from tests.unit.ocp.cases import adjoint, gradient, reach, swing_up

Array = np.ndarray[Any, np.dtype[Any]]


def sliders() -> kt.Model:
    """Two masses on rails across gravity: linear dynamics, coupled."""
    builder = kt.Builder("sliders")
    builder.add_body("one", joint="prismatic", axis=(1, 0, 0), mass=2.0, com=(0, 0, 0), inertia=np.eye(3))
    builder.add_body("two", parent="one", joint="prismatic", axis=(1, 0, 0), mass=1.0, com=(0, 0, 0), inertia=np.eye(3))
    return builder.build()


def test_linear_dynamics_are_lqr() -> None:
    """Two iterations; the first gain and the cost are those of the algebraic Riccati equation."""
    robot, dt, T = sliders(), 0.05, 400
    problem = ocp.Problem(robot, dt, T, [ocp.state(weight=1.0, last=1.0), ocp.control(weight=0.1)])
    x = np.array([1.0, -0.5, 0.3, 0.2])
    plan = problem.solve(x[:2], x[2:]).require()
    A, B = robot.discretize(x[:2], x[2:], np.zeros(2), dt)
    P = solve_discrete_are(A, B, dt * np.eye(4), 0.1 * dt * np.eye(2))
    K = np.linalg.solve(0.1 * dt * np.eye(2) + B.T @ P @ B, B.T @ P @ A)
    assert plan.iterations <= 2
    assert_close(plan.gains[0], -K, 1e-6)
    assert_close(plan.cost, 0.5 * x @ P @ x, 1e-6)
    assert plan.gap < 1e-14
    assert_close(plan.torques(x[:2], x[2:]), -K @ x, 1e-6)


@pytest.mark.parametrize(
    ("name", "steps", "limit", "actuated", "cost"),
    [
        ("cart_pole", 150, 12.0, ["slider"], 0.0146401966),
        ("cart_pole", 150, 4.15, ["slider"], 0.0177593586),
        ("double_pendulum", 200, 6.0, None, None),
        ("double_pendulum", 250, 12.0, ["shoulder"], None),
    ],
)
def test_swing_ups_from_rest(name: str, steps: int, limit: float, actuated: Any, cost: float | None) -> None:
    """With default settings: up at the end, within limits, stationary and complementary by other means."""
    robot = getattr(kt.zoo, name)()
    joints = [robot.joints[0].name] if actuated else None
    problem, rest = swing_up(name, steps, limit, joints)
    plan = problem.solve(rest).require()
    top = problem.terms[0].target(problem.robot, None)
    assert np.abs(plan.q[-1] - top[:2]).max() < 0.1
    assert np.abs(plan.v[-1]).max() < 0.3
    assert np.abs(plan.u).max() <= limit + 1e-6
    assert plan.violation <= 1e-6
    assert plan.gap <= 1e-6
    if cost is not None:
        assert abs(plan.cost - cost) < 3e-9

    y, away = plan.multipliers["torque"], np.concatenate([plan.q[-1] - top[:2], plan.v[-1]])
    slope = adjoint(plan, np.array([100.0, 100.0, 10.0, 10.0]) * away, 1e-3 * 0.02)
    assert np.abs(slope + y).max() < 1e-3 * (1e-3 * 0.02 * np.abs(plan.u).max())
    assert (y[plan.u < -limit + 1e-4] <= 0.0).all()
    assert np.abs(y[np.abs(plan.u) < limit - 1e-4]).max(initial=0.0) == 0.0


def test_paths_with_wide_gaps_are_given_up() -> None:
    """Else no step is accepted after 18 iterations, with a gap of five; the bits are those of a batch."""
    builder, upper = kt.Builder("heavy below"), 0.801
    for name, parent, mass, length in (("upper", "world", 0.56, upper), ("lower", "upper", 1.598, 0.229)):
        at, com = (np.eye(3), (0.0, 0.0, upper * (parent == "upper"))), (0.0, 0.0, length / 2.0)
        inertia = mass * length**2 / 12.0 * np.eye(3)
        builder.add_body(name, parent=parent, axis=(0, 1, 0), placement=at, mass=mass, com=com, inertia=inertia)
    terms = [ocp.state(weight=0.0, last=[100.0, 100.0, 10.0, 10.0]), ocp.control(weight=1e-3)]
    limits, rest = ocp.Limits(torque=9.935), np.array([np.pi, 0.0])
    problem = ocp.Problem(builder.build(), 0.0193, 263, terms, limits=limits, actuated=["lower_joint"])
    plan = problem.solve(rest).require()
    assert plan.gap <= 1e-6
    assert np.abs(plan.q[-1]).max() < 0.01
    gap = plan.table["gap"]
    assert ((gap[:-1] > 0.1) & (gap[1:] < 1e-12)).any()
    both = problem.solve(np.stack([rest - 0.2, rest]), iterations=int(plan.iterations))
    np.testing.assert_array_equal(both.u[1], plan.u)


def test_reaches_are_stationary_and_need_few_iterations() -> None:
    robot = kt.zoo.arm7()
    problem = reach(robot, "hand")
    q = robot.random_configuration(np.random.default_rng(1))
    target = robot.pose(robot.random_configuration(np.random.default_rng(2)), "hand")
    plan = problem.solve(q, targets={"hand": target}).require()
    assert plan.iterations < 40
    assert problem.solve(q, targets={"hand": target}, second_order=False).require().table["curvature"].max() == 0.0
    assert np.abs(robot.pose(plan.q[-1], "hand")[:3, 3] - target[:3, 3]).max() < 0.01
    rates = gradient(plan, lambda q, v, u: _reach_cost(problem, q, v, u, target))
    quadratic = np.abs(plan.u).max() * 1e-4 * 0.02
    assert np.abs(rates).max() < 1e-3 * quadratic + 1e-6
    assert_close(sum(plan.costs.values()), plan.cost, bound(7))


def test_flying_bodies_turn_in_few_iterations() -> None:
    """Turned by moving their limbs: 45 iterations without the curvature of turns."""
    builder = kt.Builder("gymnast", gravity=(0.0, 0.0, 0.0))
    builder.add_body("trunk", joint="floating", mass=4.0, com=(0.0, 0.0, 0.0), inertia=np.diag([0.05, 0.04, 0.03]))
    for i, (axis, x) in enumerate((((0, 1, 0), 0.2), ((1, 0, 0), -0.2), ((0, 0, 1), 0.0))):
        limb = {"mass": 1.0, "com": (0.1, 0.1, 0.25), "inertia": np.diag([0.02, 0.02, 0.01])}
        builder.add_body(f"limb{i}", parent="trunk", axis=axis, placement=(np.eye(3), (x, 0.0, 0.1 * i)), **limb)
    robot = builder.build()
    upright = robot.neutral()
    goal = ocp.state(upright, weight=1e-2, last=[100.0] * 3 + [0.0] * 3 + [1.0] * 3 + [0.1] * 9)
    problem = ocp.Problem(robot, 0.05, 15, [goal, ocp.control(weight=1e-3)])
    turns = np.concatenate([0.7 * np.random.default_rng(0).normal(size=(6, 3)), np.zeros((6, 6))], axis=-1)
    plans = problem.solve(robot.integrate(np.tile(upright, (6, 1)), turns)).require()
    assert plans.iterations.mean() < 30


def _reach_cost(problem: ocp.Problem, q: Array, v: Array, u: Array, target: Array) -> Array:
    robot = problem.robot
    weight = np.full(q.shape[1], 0.02)
    away = _twists(target, robot.pose(q, "hand"))
    state = np.concatenate([q - robot.neutral(), v], axis=-1)
    run, last = np.r_[weight[:-1], 1e3], np.r_[1e-2 * weight[:-1], 0.1]
    return 0.5 * ((away**2).sum(-1) @ run + (state**2).sum(-1) @ last + 1e-4 * 0.02 * (u**2).sum(axis=(1, 2)))


def _twists(start: Array, end: Array) -> Array:
    """Logarithms of the displacements from a pose to others, by Rodrigues' formula."""
    from scipy.spatial.transform import Rotation

    by = np.linalg.inv(start) @ end
    turn = Rotation.from_matrix(by[..., :3, :3].reshape(-1, 3, 3)).as_rotvec().reshape(*by.shape[:-2], 3)
    angle = np.linalg.norm(turn, axis=-1, keepdims=True)
    half, along = angle / 2, np.cross(turn, by[..., :3, 3])
    move = by[..., :3, 3] - along / 2 + (1 - half / np.tan(half)) / angle**2 * np.cross(turn, along)
    return np.concatenate([turn, move], axis=-1)


@pytest.mark.parametrize("rollout", ["linear", "nonlinear", "auto"])
def test_both_forward_passes_find_the_optimum(rollout: str) -> None:
    problem, rest = swing_up("cart_pole", 150, None, [kt.zoo.cart_pole().joints[0].name])
    plan = problem.solve(rest, rollout=rollout).require()
    assert abs(plan.cost - 0.0146401966) < 3e-9
    assert plan.table.dtype.names[0] == "cost"
    assert plan.table["rollout"].all() == (rollout == "nonlinear")
    assert set(plan.seconds) == {"derivatives", "sweeps", "trials"}


def test_position_and_velocity_limits_hold() -> None:
    robot = kt.zoo.arm7()
    target = robot.pose(np.array([0.5, 1.0, 0.3, 1.2, 0.0, 0.5, 0.0]), "hand")
    free = reach(robot, "hand", actuated=None).solve(robot.neutral(), targets={"hand": target}).require()
    problem = reach(robot, "hand", limits=ocp.Limits(torque=True, position=True, velocity=True, margin=0.1))
    plan = problem.solve(robot.neutral(), targets={"hand": target}).require()
    most = 0.9 * robot.velocity_limits
    assert (np.abs(free.v) > most).any()
    assert (np.abs(plan.v) <= most + 1e-6).all()
    assert (np.abs(plan.u) <= 0.9 * robot.effort_limits + 1e-6).all()
    assert (plan.q <= 0.9 * robot.upper_limits + 1e-6).all()
    assert plan.cost > free.cost


def test_a_problem_has_the_same_bits_alone_and_among_others() -> None:
    """Some converge, some do not, one is NaN; two leading axes, and targets for each problem."""
    robot = kt.zoo.arm7()
    problem, rng = reach(robot, "hand", 20, limits=ocp.Limits()), np.random.default_rng(0)
    q = robot.random_configuration(rng, (11,))
    q[4, 2] = np.nan
    targets = robot.pose(robot.random_configuration(rng, (11,)), "hand")[:, None]
    every = problem.solve(q, targets={"hand": targets}, iterations=25)
    assert every.reason[4] == "not finite"
    assert len(set(every.iterations.tolist())) > 2
    for i in (0, 4, 7, 10):
        one = problem.solve(q[i], targets={"hand": targets[i]}, iterations=25)
        for name in ("q", "v", "u", "gains", "cost", "gap", "violation", "iterations", "reason"):
            np.testing.assert_array_equal(getattr(every, name)[i], getattr(one, name), err_msg=name)
    grid = problem.solve(q[:6].reshape(2, 3, 7), targets={"hand": targets[:6].reshape(2, 3, 1, 4, 4)}, iterations=25)
    np.testing.assert_array_equal(grid.u, every.u[:6].reshape(grid.u.shape))
    assert grid.cost.shape == (2, 3)
    assert grid.table.shape[1:] == (2, 3)
    with pytest.raises(ConvergenceError, match="of 11 problems did not converge in 25 iterations: .*not finite"):
        every.require()


def test_what_does_not_converge_says_why() -> None:
    problem, rest = swing_up("double_pendulum", 200, 6.0)
    plan = problem.solve(rest, iterations=4)
    assert not plan.converged
    assert plan.reason == "constraints"
    assert "constraints after 4 iterations" in repr(plan)
    assert swing_up("double_pendulum", 50, None)[0].solve(rest, iterations=2).reason == "iterations"


def test_warm_starts_begin_where_plans_end() -> None:
    problem, rest = swing_up("cart_pole", 150, 4.15, [kt.zoo.cart_pole().joints[0].name])
    plan = problem.solve(rest).require()
    again = problem.solve(rest, start=plan).require()
    assert again.iterations <= 3
    assert abs(again.cost - plan.cost) < 1e-8
    later = plan.shifted(3)
    np.testing.assert_array_equal(later.q[:-3], plan.q[3:])
    np.testing.assert_array_equal(later.u[-4:], np.repeat(plan.u[-1:], 4, axis=0))
    np.testing.assert_array_equal(later.multipliers["torque"][:-3], plan.multipliers["torque"][3:])
    elsewhere = problem.solve(rest + 0.01, start=plan, iterations=20)
    np.testing.assert_array_equal(elsewhere.q[0], rest + 0.01)
    given = problem.solve(rest, start=(plan.q, plan.v, plan.u)).require()
    assert abs(given.cost - plan.cost) < 1e-8


def test_time_steps_may_differ() -> None:
    robot = sliders()
    dt = np.linspace(0.01, 0.05, 30)
    plan = ocp.Problem(robot, dt, 30, [ocp.state(weight=0.0, last=1.0), ocp.control(weight=0.1)]).solve([1.0, 1.0])
    assert plan.require().gap < 1e-14
    q, v = plan.q[0], plan.v[0]
    for t in range(30):
        q, v = robot.step(q, v, plan.tau[t], dt[t])
    assert_close(q, plan.q[-1], bound(30))
    assert_close(plan.time, np.r_[0.0, np.cumsum(dt)], bound(30))


def test_hard_terms_hold_and_their_multipliers_close_the_adjoint() -> None:
    """A pole ends exactly upright at rest, its cart within a stretch: stationarity through `discretize`."""
    soft, rest = swing_up("cart_pole", 100, None, [kt.zoo.cart_pole().joints[0].name])
    robot, top = soft.robot, soft.terms[0].target(soft.robot, None)
    terms = [
        ocp.state(top[:2], hard=True, nodes=[-1], name="end"), ocp.control(weight=1e-3),
        ocp.Term(_way, 1, weight=1.0, lower=-0.35, upper=0.35, hard=True, nodes=range(1, 101), name="way"),
    ]  # fmt: skip
    plan = ocp.Problem(robot, 0.02, 100, terms, actuated=[robot.joints[0].name]).solve(rest).require()
    assert np.abs(np.concatenate([plan.q[-1] - top[:2], plan.v[-1]])).max() < 1e-6
    assert np.abs(plan.q[:, 0]).max() < 0.35 + 1e-6
    assert plan.costs["end"] == plan.costs["way"] == 0.0
    y, end = plan.multipliers["way"][:, 0], plan.multipliers["end"][-1]
    assert (y != 0.0).any()
    assert (y[plan.q[:, 0] > 0.3] >= 0.0).all()
    assert (y[plan.q[:, 0] < -0.3] <= 0.0).all()
    assert np.abs(y[np.abs(plan.q[:, 0]) < 0.35 - 1e-4]).max() == 0.0
    costate = end + np.r_[y[-1], 0.0, 0.0, 0.0]
    A, B = robot.discretize(plan.q[:-1], plan.v[:-1], plan.tau, 0.02)
    for t in reversed(range(100)):
        assert abs(1e-3 * 0.02 * plan.u[t, 0] + B[t, :, 0] @ costate) < 1e-5 * np.abs(end).max()
        costate = A[t].T @ costate + np.r_[y[t], 0.0, 0.0, 0.0]


def _way(q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    rows = np.zeros((*q.shape[:-1], 1, 4))
    rows[..., 0] = 1.0
    return q[..., :1], rows, np.zeros((*q.shape[:-1], 1, u.shape[-1]))


def test_a_problem_that_tries_as_many_steps_as_there_are_problems() -> None:
    """Eight lengths of one problem among eight are not one of each."""
    robot = kt.zoo.arm7()
    problem, rng = reach(robot, "hand", 15), np.random.default_rng(3)
    q, target = robot.neutral() + 0.3 * rng.normal(size=(8, 7)), robot.pose(np.full(7, 0.5), "hand")
    every = problem.solve(q, targets={"hand": target})
    short = (every.table["step"] > 0.0) & (every.table["step"] < 1.0)
    assert (short.sum(axis=1) == 1).any()
    for i in np.flatnonzero(short[short.sum(axis=1) == 1].any(axis=0)):
        one = problem.solve(q[i], targets={"hand": target})
        np.testing.assert_array_equal(every.u[i], one.u)


def test_lanes_are_problems_of_small_robots_if_they_fill_them() -> None:
    for robot, wanted in ((kt.zoo.arm7(), [8, 8, 1, 1]), (kt.zoo.humanoid24(), [8, 8, 8, 8])):
        horizon = ocp.Problem(robot, 0.02, 3, [ocp.state(), ocp.control()]).horizon
        assert [horizon.together(problems) for problems in (1, 7, 8, 9)] == wanted


def test_bits_of_many_with_few_motors_and_terms_of_their_own() -> None:
    """Sweeps of many problems run in lanes, with curvature and without, and have the bits of one alone."""
    soft, rest = swing_up("cart_pole", 30, None)
    motor, top = [soft.robot.joints[1].name], soft.terms[0]
    terms = [top, ocp.control(weight=1e-3), ocp.Term(_way, 1, weight=3.0, lower=-0.1, upper=0.2, name="way")]
    problem = ocp.Problem(soft.robot, 0.02, 30, terms, limits=ocp.Limits(torque=3.0), actuated=motor)
    q = rest + 0.3 * np.random.default_rng(1).normal(size=(9, 2))
    for second_order in (True, False):
        every = problem.solve(q, iterations=12, second_order=second_order)
        for i in (0, 8):
            one = problem.solve(q[i], iterations=12, second_order=second_order)
            for name in ("q", "v", "u", "gains", "cost", "gap", "violation", "iterations", "reason"):
                np.testing.assert_array_equal(getattr(every, name)[i], getattr(one, name), err_msg=name)
    assert np.nanmax(every.table["curvature"]) == 0.0
