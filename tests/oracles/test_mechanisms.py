"""Mechanisms with loops and couplings: recorded results of independent programs; constrained dynamics of Pinocchio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.mechanisms import built, positions, recorded
from tests.oracle import oracle
from tests.tolerance import assert_close

TOLERANCE = 1e-11


def arranged(one: Any, robot: kt.Model) -> tuple[list[int], list[int]]:
    """Places of the robot's independent velocities, and of its joint velocities, in the records."""
    order = [tuple(rate) for rate in one["independent_order"]]
    mine = []
    starts, start = {}, 0
    for body in one["bodies"]:
        starts[body["name"]] = start
        start += 6 if body["joint"] == "floating" else 1
    rows = []
    for joint in robot.joints:
        rows += [starts[joint.child] + i for i in range(joint.type.nv)]
        if not joint.coupled:
            free = range(joint.type.nv) if joint.independent is None else joint.independent
            mine += [order.index((joint.child, i)) for i in free]
    return mine, rows


@pytest.mark.parametrize("name", list(recorded()))
def test_recorded_results(name: str) -> None:
    one, robot = recorded()[name], built(name)
    assert sorted(sorted(cluster.bodies) for cluster in robot.clusters) == sorted(map(sorted, one["clusters"]))
    columns, rows = arranged(one, robot)
    q = robot.q_from_dict({f"{body}_joint": x for body, x in positions(one).items()})
    v, tau = (np.array(one["state"][name])[columns] for name in ("v", "tau"))
    expected = one["reference"]
    a = np.array(expected["a"])[columns]
    for engine in ("reference", "native"):
        assert_close(robot.forward_dynamics.engine(engine)(q, v, tau), a, TOLERANCE)
        assert_close(robot.bias_forces.engine(engine)(q, v), np.array(expected["bias"])[columns], TOLERANCE)
        assert_close(robot.mass_matrix_log_determinant.engine(engine)(q), expected["log_det"], TOLERANCE)
    assert_close(robot.inverse_dynamics.engine("reference")(q, v, a), tau, 1e-9)
    if "M" not in expected:
        return
    M, G = np.array(expected["M"])[np.ix_(columns, columns)], np.array(expected["G"])[np.ix_(rows, columns)]
    for engine in ("reference", "native"):
        assert_close(robot.mass_matrix.engine(engine)(q), M, TOLERANCE)
        assert_close(robot.coupling.engine(engine)(q), G, TOLERANCE)
        drift = robot.joint_accelerations.engine(engine)(q, v, np.zeros(robot.nv))
        assert_close(drift, np.array(expected["g"])[rows], TOLERANCE)


def constrained(one: Any, names: list[str]) -> tuple[Any, Any, list[Any]]:
    """The mechanism in Pinocchio, joints depth first, with its loops as 3D contacts."""
    pin = oracle("pinocchio")
    model, numbers = pin.Model(), {"world": 0}
    model.gravity.linear = np.array(one["gravity"])
    bodies = {body["name"]: body for body in one["bodies"]}
    for name in names:
        body = bodies[name]
        kinds = {"revolute": pin.JointModelRevoluteUnaligned, "prismatic": pin.JointModelPrismaticUnaligned}
        joint = (
            pin.JointModelFreeFlyer() if body["joint"] == "floating" else kinds[body["joint"]](np.array(body["axis"]))
        )
        at = pin.SE3(np.array(body["R"]), np.array(body["p"]))
        numbers[name] = model.addJoint(numbers[body["parent"]], joint, at, f"{name}_joint")
        inertia = pin.Inertia(body["mass"], np.array(body["com"]), np.array(body["inertia"]))
        model.appendBodyToJoint(numbers[name], inertia, pin.SE3.Identity())
    loops = []
    for c in one["constraints"]:
        ends = [(numbers[c[end]], pin.SE3(np.eye(3), np.array(c[point]))) for end, point in (("a", "pa"), ("b", "pb"))]
        loops.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends[0], *ends[1]))
    return pin, model, loops


@pytest.mark.parametrize(
    "name", ["four_bar", "four_bar_on_base", "slider_crank_on_base", "parallel_ankle", "stewart_pair"]
)
def test_forward_dynamics_agree_with_constrained_dynamics_of_pinocchio(name: str) -> None:
    one, robot = recorded()[name], built(name)
    names = [body.name for body in robot.bodies]  # depth first, without which Pinocchio is wrong
    pin, model, loops = constrained(one, names)
    other = kt.interop.pinocchio(robot.spanning_tree, model)
    rng = np.random.default_rng(3)
    q, v = robot.neutral(), rng.normal(size=robot.nv)
    forces = rng.normal(size=robot.mechanism.joint_starts[-1])
    order = robot.tree_order
    rates = robot.joint_rates(q, v)
    data, parts = model.createData(), [loop.createData() for loop in loops]
    pin.initConstraintDynamics(model, data, loops, parts)
    settings = pin.ProximalSettings(1e-14, 1e-12, 20)
    state = other.to_q(robot.to_tree(q)), other.to_v(rates[order]), other.to_tau(forces[order])
    theirs = other.from_a(pin.constraintDynamics(model, data, *state, loops, parts, settings))
    a = robot.forward_dynamics(q, v, robot.joint_forces(q, forces))
    assert_close(robot.joint_accelerations(q, v, a)[order], theirs, 1e-8)
