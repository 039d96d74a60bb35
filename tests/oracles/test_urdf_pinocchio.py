"""Every URDF of example-robot-data, loaded by Kinetree and by Pinocchio, fixed and floating: the same robot.

Those with mimic joints are coupled, against Pinocchio's open tree, projected, and against its own mimic joints.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import ModelWarning, SingularMechanismError
from tests.oracles.pinocchio_twin import mirrored, pin, robots
from tests.tolerance import Array, assert_close, bound, condition, refused

ROBOTS = robots.share()
FILES = sorted(path.relative_to(ROBOTS).as_posix() for path in ROBOTS.rglob("*.urdf"))
TOLERANCE = 1e-9
SAMPLES = 2

#: Files that Pinocchio does not load, with the reason.
NOT_IN_PINOCCHIO = {"ur_description/urdf/ur3.urdf": "the file has no links, and its robot no name"}

#: Files whose mass matrix has no inverse, with the link that makes it so. Pinocchio gives NaN, Kinetree raises.
SINGULAR = {
    "romeo_description/urdf/romeo.urdf": "RThumb3Link",
    "romeo_description/urdf/romeo_laas_small.urdf": "r_gripper",
}

#: Files whose mass matrix is so badly conditioned that two correct inverses differ by more, with the reason.
ILL_CONDITIONED = {"icub_description/robots/icub.urdf": "several links behind joints have no inertia worth mentioning"}


@dataclass(frozen=True)
class Pair:
    """One robot in both libraries, with random states of Kinetree's."""

    robot: kt.Model
    model: Any
    data: Any
    other: kt.interop.Counterpart
    states: tuple[Array, Array, Array]
    frames: dict[str, int]  # Pinocchio's frames, by names of ours


@cache
def make(file: str, floating: bool) -> Pair:
    path = str(ROBOTS / file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot = kt.load(path, floating_base=floating, mimic="independent")
    model = pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer()) if floating else pin.buildModelFromUrdf(path)
    children = {joint.name: joint.child for joint in (*robot.joints, *robot.fixed_joints)}
    frames = {}
    for number in range(1, model.nframes):
        name = model.frames[number].name
        # a link's frame is also that of the joint in front of it; a floating link "world" is renamed
        link = name if model.frames[number].type == pin.FrameType.BODY else children.get(name, name)
        link = "world_link" if link == "world" and floating else link
        frames[f"{link} #{number}"] = number
    states = robots.state_pool(robot, SAMPLES, seed=5)
    return Pair(robot, model, model.createData(), kt.interop.pinocchio(robot, model), states, frames)


CASES = [
    pytest.param(file, floating, id=f"{file.rsplit('/', 1)[1]}-{'floating' if floating else 'fixed'}")
    for file in FILES
    for floating in (False, True)
]


def close(actual: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    assert actual.shape == expected.shape
    if expected.size:
        assert np.all(np.isfinite(expected)), "the oracle is not finite"
        error = np.max(np.abs(actual - expected)) / max(1e-3, np.max(np.abs(expected)))
        assert error <= tolerance, f"relative error {error:.1e}"


def same_dynamics(pair: Pair, robot: kt.Model, solves: bool = True, tolerance: float = TOLERANCE) -> None:
    """M, inverse and, if M has an inverse, forward dynamics are Pinocchio's."""
    M, tau, states = robot.mass_matrix(pair.states[0]), robot.inverse_dynamics(*pair.states), pair.states
    theirs = zip(pair.other.to_q(states[0]), pair.other.to_v(states[1]), pair.other.to_v(states[2]), strict=True)
    a = robot.forward_dynamics(*states) if solves else None
    for i, (q, v, x) in enumerate(theirs):
        close(M[i], pair.other.from_matrix(mirrored(pin.crba(pair.model, pair.data, q))))
        close(tau[i], pair.other.from_tau(pin.rnea(pair.model, pair.data, q, v, x)))
        if a is not None:
            close(a[i], pair.other.from_a(pin.aba(pair.model, pair.data, q, v, x)), tolerance)


def test_there_are_69_files() -> None:
    assert len(FILES) == 69


@pytest.mark.parametrize(("file", "floating"), CASES)
def test_the_same_robot(file: str, floating: bool) -> None:
    if file in NOT_IN_PINOCCHIO:
        with pytest.warns(ModelWarning, match="there are no links"):
            assert kt.load(ROBOTS / file, floating_base=floating).nv == 0
        refused("valid URDF", pin.buildModelFromUrdf, str(ROBOTS / file), error=ValueError)
        return
    pair = make(file, floating)
    assert pair.robot.nv == pair.model.nv
    q, v, x = pair.states
    tolerance = bound(pair.robot.nv, condition(pair.robot.mass_matrix(q))) if file in ILL_CONDITIONED else TOLERANCE
    same_dynamics(pair, pair.robot, file not in SINGULAR, tolerance)
    if file in SINGULAR:
        refused(SINGULAR[file], pair.robot.forward_dynamics, q, v, x, error=SingularMechanismError)
        refused(SINGULAR[file], pair.robot.mass_matrix_inverse, q, error=SingularMechanismError)
        return
    for one, theirs in zip(pair.robot.mass_matrix_inverse(q), pair.other.to_q(q), strict=True):
        close(one, pair.other.from_matrix(mirrored(pin.computeMinverse(pair.model, pair.data, theirs))), tolerance)


@pytest.mark.parametrize(
    ("file", "floating"),
    [
        ("ur_description/urdf/ur5_robot.urdf", False),
        ("panda_description/urdf/panda.urdf", False),
        ("solo_description/robots/solo12.urdf", True),
        ("talos_data/robots/talos_reduced.urdf", True),
    ],
)
def test_specialized_code(file: str, floating: bool) -> None:
    """Straight-line code of real robots, whose constants fold."""
    pair = make(file, floating)
    fast = pair.robot.compile((), specialize="batch")
    assert fast.forward_dynamics.specialization().straight
    assert fast.inverse_dynamics.specialization().straight
    same_dynamics(pair, fast)


@pytest.mark.parametrize(("file", "floating"), [case for case in CASES if case.values[0] not in NOT_IN_PINOCCHIO])
def test_the_same_frames(file: str, floating: bool) -> None:
    pair = make(file, floating)
    links = [frame.rpartition(" #")[0] for frame in pair.frames]
    covered = set(links) | {"world"}
    assert covered == set(pair.robot.frames), "every frame of ours is compared"
    q = pair.states[0]
    poses = pair.robot.pose(q, links)
    for i, state in enumerate(pair.other.to_q(q)):
        pin.computeJointJacobians(pair.model, pair.data, state)
        pin.updateFramePlacements(pair.model, pair.data)
        numbers = list(pair.frames.values())
        close(poses[i], np.array([pair.data.oMf[number].homogeneous for number in numbers]))
        if not pair.robot.nv:  # where Pinocchio's own crash
            assert all(pair.robot.jacobian(q[i], link).shape == (6, 0) for link in links)
            continue
        theirs = [pin.getFrameJacobian(pair.model, pair.data, number, pin.ReferenceFrame.LOCAL) for number in numbers]
        ours = [pair.robot.jacobian(q[i], link) for link in links]
        close(np.array(ours), np.array([pair.other.from_jacobian(jacobian) for jacobian in theirs]))


MIMICKING = sorted(
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
COUPLED = [file for file in MIMICKING if file not in NOTHING_TO_COUPLE]

#: Files that Pinocchio refuses to load with mimic joints, because a leader comes after its follower.
LEADERS_LATER = {
    "romeo_description/urdf/romeo.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "talos_data/robots/talos_full_v2_box.urdf",
}

#: Files whose mass matrix has no inverse, with the link that makes it so.
SINGULAR_IF_COUPLED = {"romeo_description/urdf/romeo.urdf": "RFinger11Link"}


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
    M_t = other.from_matrix(mirrored(pin.crba(model, data, other.to_q(q_t))))
    assert_close(robot.mass_matrix(q), G.T @ M_t @ G, 1e-12)
    frame = robot.bodies[-1].name
    assert_close(robot.pose(q, frame), tree.pose(q_t, frame), 1e-13)
    if file in SINGULAR_IF_COUPLED:
        refused(SINGULAR_IF_COUPLED[file], robot.forward_dynamics, q, v, tau, error=SingularMechanismError)
        return
    back = robot.forward_dynamics(q, v, tau)
    assert_close(robot.inverse_dynamics(q, v, back), tau, 1e-9)


@pytest.mark.parametrize("file", COUPLED)
def test_coupled_robots_agree_with_mimic_joints_of_pinocchio(file: str) -> None:
    robot = loaded(file)
    if file in LEADERS_LATER:
        refused("not in the kinematic tree", pin.buildModelFromUrdf, str(ROBOTS / file), mimic=True, error=ValueError)
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
    M = mirrored(pin.crba(model, data, q_p))
    assert_close(robot.mass_matrix(q), M[np.ix_(order, order)], 1e-12)
    assert_close(robot.inverse_dynamics(q, v, a), pin.rnea(model, data, q_p, v_p, a_p)[order], 1e-12)
