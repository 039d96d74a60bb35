"""Motions of real robots at the optima that crocoddyl 3.2.1 finds for the same problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks import gaits
from benchmarks.robots import share
from kinetree import ocp
from tests.oracle import oracle

oracle("pinocchio")  # comes with the robots' files

Array = np.ndarray[Any, np.dtype[Any]]

#: What crocoddyl finds, and costs of the start, at rest with torques that hold the robot.
PEER = {
    "trot": (231.7924777294141, 287595.9643738408),
    "jump": (2950.2339928883607, 1850904.5734579703),
}


@pytest.mark.parametrize("name", PEER)
def test_quadrupeds_cost_what_they_cost_the_peer(name: str) -> None:
    gait: Any = getattr(gaits, name)()
    optimum, first = PEER[name]
    plan = gait.solve().require()
    np.testing.assert_allclose(plan.cost, optimum, rtol=1e-11)
    assert plan.gap < 1e-6
    assert plan.iterations < 20
    assert not plan.table["rollout"].any()  # with contacts, predictions are tried first, and suffice
    h = plan.horizon
    aims = h.costs.targets(gait.targets, (1,))
    path, bounds, _ = gait.problem._started(gait.q[None], np.zeros((1, h.nv)), None, (1,), aims)
    np.testing.assert_allclose(h.trial(path, h.costs.given(aims, bounds)).cost, first, rtol=1e-12)


def test_a_biped_costs_what_it_costs_the_peer() -> None:
    """Up to ω × v of feet that are held, which the peer leaves out of their accelerations."""
    plan = gaits.walk().solve().require()
    np.testing.assert_allclose(plan.cost, 5856.248592417936, rtol=1e-6)


@pytest.mark.parametrize("limits", [None, ocp.Limits(torque=True)], ids=["free", "limited"])
def test_trunks_turn_on_held_feet(limits: ocp.Limits | None) -> None:
    """To poses that legs hardly reach, most of which predictions alone do not find; damping rises late without rows."""
    robot, q = gaits.robot("anymal")
    feet, n = dict.fromkeys(["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"], True), 16
    rng, twist = np.random.default_rng(3), np.zeros((n, robot.nv))
    twist[:, :3], twist[:, 3:6] = 0.4 * rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3))
    poses = robot.pose(robot.integrate(np.tile(q, (n, 1)), twist), "base")[:, None]
    terms = [ocp.pose("base", weight=10.0, last=1e3), ocp.state(q, weight=1e-2), ocp.control(weight=1e-4)]
    problem = ocp.Problem(robot, 0.02, 20, terms, contacts=ocp.Contacts(feet, damping=20.0), limits=limits)
    plans = problem.solve(np.tile(q, (n, 1)), targets={"base": poses}, iterations=150 if limits is None else 8)
    if limits is None:
        assert plans.converged.sum() >= 8  # ten; five along predictions alone
    length, damping = plans.table["step"], plans.table["damping"]
    short = (length[:-1] > 0.02) & (length[:-1] < 0.1) & (damping[:-1] < 1e5) & (damping[1:] < np.inf)
    assert short.any()
    assert ((damping[1:] > damping[:-1])[short] == (limits is not None)).all()
    if limits is not None:  # predictions come first, and suffice
        assert not plans.table["rollout"][np.isfinite(length)].any()


def reach() -> tuple[ocp.Problem, Array, Array]:
    """A UR5's reach of 100 steps, its start and target."""
    robot = kt.load(share() / "ur_description/urdf/ur5_robot.urdf")
    terms = [ocp.pose("tool0", last=1e3), ocp.state(weight=1e-3, last=0.1), ocp.control(weight=1e-4)]
    c, s = np.cos(1.0), np.sin(1.0)
    target = np.array([[1, 0, 0, 0.4], [0, c, -s, 0.3], [0, s, c, 0.4], [0, 0, 0, 1]])
    return ocp.Problem(robot, 0.01, 100, terms), np.array([0.0, -1.2, 1.2, 0.0, 0.0, 0.0]), target


@pytest.mark.parametrize(
    ("way", "most"), [({"second_order": False, "rollout": "nonlinear"}, 45), ({}, 15)], ids=["peer's", "default"]
)
def test_an_arm_costs_what_it_costs_the_peer(way: dict[str, Any], most: int) -> None:
    """From zero torques, in the peer's way and its number of iterations, 42, and in fewer with curvature."""
    problem, q, target = reach()
    start = np.tile(q, (101, 1)), np.zeros((101, 6)), np.zeros((100, 6))
    plan = problem.solve(q, targets={"tool0": target}, start=start, **way).require()
    np.testing.assert_allclose(plan.cost, 1.4409883136, rtol=1e-9)
    assert most - 6 <= int(plan.iterations) <= most


def test_reaches_from_half_a_turn_away_stay_in_good_valleys() -> None:
    """Wide gaps in the first iterations lead to others: then the median is 3.0, the mean 4.6."""
    problem, q, target = reach()
    starts = q + 0.2 * np.random.default_rng(7).normal(size=(32, 6))
    plans = problem.solve(starts, targets={"tool0": target}).require()
    assert np.median(plans.cost) < 1.8
    assert plans.cost.mean() < 2.2
    assert plans.iterations.mean() < 18


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_costs_of_any_scale_converge(scale: float) -> None:
    """A light double pendulum swings up with its second motor: what steps must gain is relative to the cost."""
    robot = kt.load(share() / "double_pendulum_description/urdf/double_pendulum.urdf")
    every = [np.array([a, b]) for a in (0.0, np.pi) for b in (0.0, np.pi)]
    low, high = (f(every, key=lambda q: robot.energy(q, np.zeros(2)).potential) for f in (min, max))
    ends = scale * np.array([100.0, 100.0, 10.0, 10.0])
    terms = [ocp.state(high, weight=0.0, last=ends), ocp.control(weight=1e-3 * scale)]
    limits = ocp.Limits(torque=8.0)
    plan = ocp.Problem(robot, 0.02, 200, terms, limits=limits, actuated=[robot.joints[1].name]).solve(low).require()
    assert plan.iterations < 150
    assert np.abs(robot.difference(high, plan.q[-1])).max() < 0.01
