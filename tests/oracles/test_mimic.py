"""Every robot of example-robot-data with mimic joints, coupled: against Pinocchio's open tree, projected."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import ModelWarning, SingularMechanismError
from tests.oracles.pinocchio_twin import pin, robots
from tests.tolerance import assert_close

ROBOTS = robots.share()
FILES = sorted(
    path.relative_to(ROBOTS).as_posix() for path in ROBOTS.rglob("*.urdf") if "<mimic" in path.read_text("utf-8")
)

#: Files in which every mimic joint is fixed, or mimics a fixed joint.
NOTHING_TO_COUPLE = {
    "alex_description/urdf/alex_psyonic_hands.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "talos_data/robots/talos_reduced.urdf",
    "talos_data/robots/talos_reduced_box.urdf",
    "talos_data/robots/talos_reduced_corrected.urdf",
}
COUPLED = [file for file in FILES if file not in NOTHING_TO_COUPLE]

#: Files that Pinocchio refuses to load with mimic joints, because a leader comes after its follower.
LEADERS_LATER = {
    "romeo_description/urdf/romeo.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "talos_data/robots/talos_full_v2_box.urdf",
}

#: Files whose mass matrix has no inverse, with the link that makes it so.
SINGULAR = {"romeo_description/urdf/romeo.urdf": "RFinger11Link"}


def loaded(file: str, **options: Any) -> kt.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return kt.load(ROBOTS / file, **options)


def rule_of(tree: kt.Model, robot: kt.Model) -> tuple[Any, Any]:
    """G and the offset of the tree's coordinates, from the file's own words as Kinetree keeps them."""
    slopes = {joint.name: {joint.name: 1.0} for joint in robot.joints if joint.nv}
    offsets = dict.fromkeys(slopes, 0.0)
    pending = list(robot.couplings)
    while pending:
        coupling = pending.pop(0)
        follower, leader = coupling.joints
        if leader not in slopes:
            pending.append(coupling)
            continue
        ratio = -coupling.coefficients[1]
        slopes[follower] = {name: ratio * slope for name, slope in slopes[leader].items()}
        offsets[follower] = ratio * offsets[leader] + coupling.offset
    G, offset = np.zeros((tree.nv, robot.nv)), np.zeros(tree.nv)
    for joint in tree.joints:
        if joint.name in slopes:
            for name, slope in slopes[joint.name].items():
                own = robot.joint(name)
                G[joint.v_slice, own.v_slice] = slope * np.eye(own.nv)
            offset[joint.v_slice] = offsets[joint.name]
    return G, offset


@pytest.mark.parametrize("file", sorted(NOTHING_TO_COUPLE))
def test_mimics_of_fixed_joints_leave_nothing_to_couple(file: str) -> None:
    robot = loaded(file)
    assert not robot.couplings
    assert robot.nv == pin.buildModelFromUrdf(str(ROBOTS / file)).nv


@pytest.mark.parametrize("file", COUPLED)
def test_coupled_robots_agree_with_the_projected_tree(file: str) -> None:
    robot, tree = loaded(file), loaded(file, mimic="independent")
    model = pin.buildModelFromUrdf(str(ROBOTS / file))
    data, other = model.createData(), kt.interop.pinocchio(tree, model)
    G, offset = rule_of(tree, robot)
    assert robot.nv < tree.nv == robot.nv + len(robot.couplings)
    rng = np.random.default_rng(7)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    q_t = tree.q_from_dict(robot.q_to_dict(q))
    assert_close(q_t, G @ q + offset, 1e-14)
    tau_t = other.from_tau(pin.rnea(model, data, other.to_q(q_t), other.to_v(G @ v), other.to_a(G @ a)))
    tau = robot.inverse_dynamics(q, v, a)
    assert_close(tau, G.T @ tau_t, 1e-12)
    whole = kt.interop.pinocchio(robot, model)  # of the robot itself, all of whose joints Pinocchio has
    state = whole.to_q(q), whole.to_v(v, q), whole.to_a(a, v, q)
    for mine, theirs in zip(state, (other.to_q(q_t), other.to_v(G @ v), other.to_a(G @ a)), strict=True):
        assert_close(mine, theirs, 1e-14)
    assert_close(whole.from_tau(pin.rnea(model, data, *state), q), tau, 1e-12)
    assert_close(robot.difference(whole.from_q(state[0]), q), np.zeros(robot.nv), 1e-13, 1.0)
    M = pin.crba(model, data, other.to_q(q_t))
    M_t = other.from_matrix(np.triu(M) + np.triu(M, 1).T)
    assert_close(robot.mass_matrix(q), G.T @ M_t @ G, 1e-12)
    frame = robot.bodies[-1].name
    assert_close(robot.pose(q, frame), tree.pose(q_t, frame), 1e-13)
    if file in SINGULAR:
        with pytest.raises(SingularMechanismError, match=SINGULAR[file]):
            robot.forward_dynamics(q, v, tau)
        return
    back = robot.forward_dynamics(q, v, tau)
    assert_close(robot.inverse_dynamics(q, v, back), tau, 1e-9)


@pytest.mark.parametrize("file", COUPLED)
def test_coupled_robots_agree_with_mimic_joints_of_pinocchio(file: str) -> None:
    robot = loaded(file)
    if file in LEADERS_LATER:
        with pytest.raises(ValueError, match="not in the kinematic tree"):
            pin.buildModelFromUrdf(str(ROBOTS / file), mimic=True)
        return
    model = pin.buildModelFromUrdf(str(ROBOTS / file), mimic=True)
    data = model.createData()
    rng = np.random.default_rng(8)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    own = [joint for joint in robot.joints if joint.nv]
    theirs = [model.joints[model.getJointId(joint.name)] for joint in own]
    order = np.array([joint.idx_v for joint in theirs])
    assert sorted(order) == list(range(model.nv))
    q_p = np.zeros(model.nq)
    for mine, joint in zip(q, theirs, strict=True):
        q_p[joint.idx_q : joint.idx_q + joint.nq] = (np.cos(mine), np.sin(mine)) if joint.nq == 2 else mine
    v_p, a_p = np.zeros((2, model.nv))
    v_p[order], a_p[order] = v, a
    M = pin.crba(model, data, q_p)
    M = np.triu(M) + np.triu(M, 1).T
    assert_close(robot.mass_matrix(q), M[np.ix_(order, order)], 1e-12)
    assert_close(robot.inverse_dynamics(q, v, a), pin.rnea(model, data, q_p, v_p, a_p)[order], 1e-12)
