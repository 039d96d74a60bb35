"""Model-predictive control in the loop, plans as feedback, progress and pictures."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import kinetree as kt
from kinetree import ocp, simulation
from kinetree.errors import InputError
from tests.unit.ocp.cases import reach, swing_up


def test_a_push_is_forgotten() -> None:
    """One iteration for each update; the arm is pushed halfway, and comes back to its target."""
    robot = kt.zoo.arm7()
    problem = reach(robot, "hand", 25, limits=ocp.Limits())
    target = robot.pose(np.array([0.3, 0.6, 0.2, 0.8, 0.1, 0.4, 0.0]), "hand")
    world = simulation.Simulator(robot, dt=0.005, method="semi_implicit_euler")
    mpc = ocp.MPC(problem)
    film = world.run(robot.neutral(), mpc, {"hand": target}, seconds=2.0, servo=200.0)
    assert np.abs(robot.pose(film.q[-1], "hand") - target).max() < 0.1
    pushed = film.v[-1] + np.random.default_rng(0).normal(size=7)
    after = world.run(film.q[-1], mpc, {"hand": target}, v=pushed, seconds=2.0, servo=200.0)
    assert np.abs(robot.pose(after.q[-1], "hand") - robot.pose(film.q[-1], "hand")).max() < 0.02
    assert (np.abs(after.tau) <= robot.effort_limits + 1e-9).all()


def test_plans_are_kept_between_steps_of_the_horizon() -> None:
    robot = kt.zoo.arm7()
    problem = reach(robot, "hand", 10)
    mpc, q, v = ocp.MPC(problem, iterations=2), robot.neutral(), np.zeros(7)
    first = mpc(q, v, {"hand": np.eye(4)})
    between = mpc(q, v, {"hand": np.eye(4)}, state=first.state, dt=0.005)
    assert between.plan is first.plan
    later = mpc(q, v, {"hand": np.eye(4)}, state=between.state, dt=0.016)
    assert later.plan is not first.plan
    assert later.plan.iterations <= 2
    assert later.state.age == pytest.approx(0.001)
    for name, value in (("iterations", 0), ("first", 0), ("first", True)):
        with pytest.raises(InputError, match=f"{name}={value}"):
            ocp.MPC(problem, **{name: value})


def test_torques_are_feedback_within_limits() -> None:
    problem, rest = swing_up("cart_pole", 40, 4.0, [kt.zoo.cart_pole().joints[0].name])
    plan = problem.solve(rest, iterations=30)
    np.testing.assert_array_equal(plan.torques(plan.q[7], plan.v[7], 7)[0], np.clip(plan.u[7], -4.0, 4.0)[0])
    assert np.abs(plan.torques(plan.q[7] + 1e6, plan.v[7], 7)).max() == 4.0
    assert plan.torques(np.tile(rest, (5, 1)), np.zeros((5, 2))).shape == (5, 2)
    with pytest.raises(InputError, match="node=40 is not among the 40 steps"):
        plan.torques(rest, np.zeros(2), 40)
    with pytest.raises(InputError, match="nodes=-1"):
        plan.shifted(-1)
    np.testing.assert_array_equal(plan.shifted(0).u, plan.u)


def test_progress_and_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    problem, rest = swing_up("cart_pole", 40, 4.0)
    plan = problem.solve(rest, iterations=3, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "expected" in lines[0]
    assert len(plan.plot().axes) == 3
    many = problem.solve(np.tile(rest, (2, 1)), iterations=2, progress=True)
    assert "2 of 2 left" in capsys.readouterr().out
    with pytest.raises(InputError, match="several problems"):
        many.plot()
    assert "(2,) problems, 0 of 2 converged" in repr(many)
    assert "40 steps, 2 inputs" in repr(problem)
    assert "1 iterations per update" in repr(ocp.MPC(problem))


def test_one_iteration_finds_the_limits_that_act() -> None:
    """A cart at rest is pushed: if limits acted as before, its first force would be four times the largest."""
    robot = kt.zoo.cart_pole()
    terms, motor = [ocp.state(weight=1.0, last=10.0), ocp.control(weight=1e-3)], [robot.joints[0].name]
    problem = ocp.Problem(robot, 0.02, 40, terms, limits=ocp.Limits(torque=2.0), actuated=motor)
    mpc, rest = ocp.MPC(problem), np.zeros(2)
    command = mpc(rest, np.array([0.2, 0.0]), state=mpc(rest, rest).state)
    assert command.plan.iterations == 1
    assert command.plan.violation < 0.01
    bound = command.plan.u[:, 0] > 1.99
    assert bound.any()
    gains = np.abs(command.plan.gains).max(axis=(1, 2))  # inputs at their limits have none
    assert gains[bound].max() < 1e-2 * gains[~bound].max()


def test_prepared_commands_are_feedback_alone() -> None:
    robot = kt.zoo.arm7()
    problem, targets = reach(robot, "hand", 10), {"hand": np.eye(4)}
    mpc = ocp.MPC(problem)
    first = mpc(robot.neutral(), np.zeros(7), targets)
    ready = mpc.prepare(first.state, targets)
    q, v = first.plan.q[1], first.plan.v[1]
    command, plain = mpc(q, v, targets, state=ready), mpc(q, v, targets, state=first.state)
    assert command.plan is ready.prepared
    assert command.state.prepared is None
    np.testing.assert_array_equal(command.tau, plain.tau)
    away = q + 0.01
    np.testing.assert_array_equal(mpc(away, v, targets, state=ready).tau, command.plan.torques(away, v))
    # the next plan begins where that leads from what was measured, if anything was
    place = away.copy()
    pushed = mpc(place, v, targets, state=ready)
    place[:] = 0.0
    again = mpc.prepare(pushed.state, targets).prepared
    assert again is not None
    for found, wanted in zip((again.q[0], again.v[0]), robot.step(away, v, pushed.tau, 0.02), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-12)
    lost = mpc.prepare(mpc(away * np.nan, v, targets, state=ready).state, targets).prepared
    assert lost is not None
    np.testing.assert_array_equal(lost.q[0], command.plan.q[1])
    early = mpc(q, v, targets, state=ready, dt=0.005)
    assert early.plan is first.plan
    assert mpc(q, v, targets, state=early.state, dt=0.016).plan is ready.prepared
    late = mpc(q, v, targets, state=ready, dt=0.05)
    assert late.plan is not ready.prepared
    assert late.state.age == pytest.approx(0.01)


def test_plans_on_other_time_steps() -> None:
    """A finer plan passes through the same states, and starts a finer problem near its end."""
    problem, rest = swing_up("cart_pole", 75, 6.0, [kt.zoo.cart_pole().joints[0].name])
    plan = problem.solve(rest).require()
    fine = plan.resampled(150, 0.01)
    np.testing.assert_allclose(fine.q[::2], plan.q, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(fine.v[::2], plan.v, rtol=0.0, atol=1e-9)
    np.testing.assert_array_equal(fine.u[::2], plan.u)
    np.testing.assert_array_equal(fine.multipliers["torque"][::2], plan.multipliers["torque"])
    for one, other in zip(fine.bounds[0].arrays, plan.bounds[0].arrays, strict=True):
        np.testing.assert_array_equal(one[:, ::2], other)
    np.testing.assert_allclose(fine.q[1], 0.5 * (plan.q[0] + plan.q[1]), rtol=0.0, atol=1e-12)
    finer = ocp.Problem(problem.robot, 0.01, 150, problem.terms, limits=problem.limits, actuated=["rail"])
    again = finer.solve(rest, start=fine).require()
    assert again.iterations <= finer.solve(rest).iterations
    longer = plan.resampled(80, 0.02)
    np.testing.assert_array_equal(longer.q[-4:], np.repeat(plan.q[-1:], 4, axis=0))
    with pytest.raises(InputError, match="nodes=0"):
        plan.resampled(0, 0.01)
    with pytest.raises(InputError, match="dt=-1"):
        plan.resampled(5, -1)


def test_updates_do_not_grow() -> None:
    """Plans do not hold on to those before, so that memory stays as it is."""
    robot = kt.zoo.pendulum()
    terms = [ocp.state([1.0], weight=1.0), ocp.control(weight=0.1)]
    mpc = ocp.MPC(ocp.Problem(robot, 0.02, 10, terms, limits=ocp.Limits(torque=20.0)))
    q, v, state, blocks = np.zeros(1), np.zeros(1), None, []
    for i in range(2100):
        command = mpc(q, v, state=state)
        state = mpc.prepare(command.state) if i % 2 else command.state
        q, v = robot.step(q, v, command.tau, 0.02)
        if i in (100, 2099):
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 500  # less than one in four updates: some results are kept for later calls
    assert np.abs(command.tau).max() <= 20.0


def test_a_measurement_that_is_nan_is_forgotten() -> None:
    """The controller goes on with the next one: of a single robot, of one among many, from the first call on."""
    robot = kt.zoo.arm7()
    problem, targets = reach(robot, "hand", 10, limits=ocp.Limits()), {"hand": robot.pose(np.full(7, 0.3), "hand")}
    mpc, zero = ocp.MPC(problem), np.zeros((3, 7))
    broken = zero.copy()
    broken[1, 0] = np.nan
    first = mpc(broken, zero, targets)
    assert np.isnan(first.tau).any(axis=-1).tolist() == [False, True, False]
    again = mpc(zero, zero, targets, state=first.state)
    assert np.isfinite(again.tau).all()
    np.testing.assert_array_equal(
        again.tau[1], problem.solve(zero[1], targets=targets, iterations=1).torques(*zero[:2])
    )
    whole = mpc(zero[[0, 2]], zero[:2], targets)
    np.testing.assert_array_equal(mpc(zero[[0, 2]], zero[:2], targets, state=whole.state).tau, again.tau[[0, 2]])
    one = mpc(zero[0], zero[0], targets)
    lost = mpc(broken[1], zero[0], targets, state=one.state)
    assert np.isnan(lost.tau).any()
    assert np.isfinite(mpc(zero[0], zero[0], targets, state=lost.state).tau).all()
