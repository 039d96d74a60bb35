"""Accelerations under constraints against Pinocchio's `constraintDynamics`: contacts, loops and redundant rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.oracles.pinocchio_twin import pin, robots
from tests.oracles.test_delassus import TASKS, Real
from tests.tolerance import assert_close, bound, condition
from tests.trees import Array

#: Frames held to the world, and pairs held to each other.
CASES: dict[str, tuple[str, list[str], list[tuple[str, str]]]] = {
    "Talos on two feet": ("Talos", ["left_sole_link", "right_sole_link"], []),
    "Talos on one foot, hands joined": (
        "Talos",
        ["left_sole_link"],
        [("gripper_left_base_link", "gripper_right_base_link")],
    ),
    "ANYmal on a foot": ("ANYmal", ["LF_FOOT"], []),
}


def accelerations(real: Real, q: Array, v: Array, tau: Array, world: list[str], pairs: list[tuple[str, str]]) -> Array:
    """By Pinocchio, in Kinetree's coordinates."""
    model, order = real.robot.pinocchio, real.robot.order
    numbers = dict(zip(TASKS[real.robot.name], real.numbers, strict=True))
    contacts, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for name in world:
        frame = model.frames[numbers[name]]
        kind = pin.ContactType.CONTACT_6D
        contacts.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL))
    for one, other in pairs:
        a, b = (model.frames[numbers[name]] for name in (one, other))
        # held as they are: the second frame where the first one is now
        state = model.createData()
        pin.forwardKinematics(model, state, order.to_q(q))
        between = state.oMi[b.parentJoint].actInv(state.oMi[a.parentJoint] * a.placement)
        contacts.append(
            pin.RigidConstraintModel(
                pin.ContactType.CONTACT_6D, model, a.parentJoint, a.placement, b.parentJoint, between, pin.LOCAL
            )
        )
    for contact in contacts:
        data.append(contact.createData())
    state = model.createData()
    settings = pin.ProximalSettings(1e-12, 1e-12, 50)
    pin.initConstraintDynamics(model, state, contacts, data)
    a = pin.constraintDynamics(model, state, order.to_q(q), order.to_v(v), order.to_v(tau), contacts, data, settings)
    result: Array = order.from_v(np.array(a))
    return result


@pytest.mark.parametrize("case", CASES)
def test_pinocchio(case: str) -> None:
    name, world, pairs = CASES[case]
    real = Real.load(name)
    robot: Any = real.robot.model
    q, v, tau = (x[0] for x in robots.state_pool(robot, 1, seed=8))
    called = {name: site.name for name, site in zip(TASKS[name], real.sites, strict=True)}
    constraints = [*(called[one] for one in world), *(kt.Weld(called[other], called[one]) for one, other in pairs)]
    held = robot.constraints(constraints, at=q)
    v = held.project_velocity(q, v)
    a, _ = robot.constrained_dynamics(q, v, tau, constraints)
    J = held.jacobian(q)
    inertias = condition(robot.mass_matrix(q)), condition(J @ np.linalg.solve(robot.mass_matrix(q), J.T))
    assert_close(a, accelerations(real, q, v, tau, world, pairs), bound(robot.nv, sum(inertias)))
