"""Every URDF of example-robot-data, loaded by Kinetree and by Pinocchio, fixed and floating: the same robot."""

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
from tests.tolerance import bound, condition
from tests.trees import Array

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


def test_there_are_69_files() -> None:
    assert len(FILES) == 69


@pytest.mark.parametrize(("file", "floating"), CASES)
def test_the_same_robot(file: str, floating: bool) -> None:
    if file in NOT_IN_PINOCCHIO:
        with pytest.warns(ModelWarning, match="there are no links"):
            assert kt.load(ROBOTS / file, floating_base=floating).nv == 0
        with pytest.raises(ValueError, match="valid URDF"):
            pin.buildModelFromUrdf(str(ROBOTS / file))
        return
    pair = make(file, floating)
    assert pair.robot.nv == pair.model.nv
    q, v, x = pair.states
    their_q, their_v, their_x = (pair.other.to_q(q), pair.other.to_v(v), pair.other.to_v(x))
    M, tau = pair.robot.mass_matrix(q), pair.robot.inverse_dynamics(q, v, x)
    for i in range(SAMPLES):
        close(M[i], pair.other.from_matrix(mirrored(pin.crba(pair.model, pair.data, their_q[i]))))
        close(tau[i], pair.other.from_tau(pin.rnea(pair.model, pair.data, their_q[i], their_v[i], their_x[i])))
    if file in SINGULAR:
        with pytest.raises(SingularMechanismError, match=SINGULAR[file]):
            pair.robot.forward_dynamics(q, v, x)
        with pytest.raises(SingularMechanismError, match=SINGULAR[file]):
            pair.robot.mass_matrix_inverse(q)
        return
    tolerance = bound(pair.robot.nv, condition(M)) if file in ILL_CONDITIONED else TOLERANCE
    a, M_inverse = pair.robot.forward_dynamics(q, v, x), pair.robot.mass_matrix_inverse(q)
    for i in range(SAMPLES):
        close(a[i], pair.other.from_a(pin.aba(pair.model, pair.data, their_q[i], their_v[i], their_x[i])), tolerance)
        inverse = mirrored(pin.computeMinverse(pair.model, pair.data, their_q[i]))
        close(M_inverse[i], pair.other.from_matrix(inverse), tolerance)


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
    q, v, x = pair.states
    their_q, their_v, their_x = (pair.other.to_q(q), pair.other.to_v(v), pair.other.to_v(x))
    M, tau, a = fast.mass_matrix(q), fast.inverse_dynamics(q, v, x), fast.forward_dynamics(q, v, x)
    for i in range(SAMPLES):
        close(M[i], pair.other.from_matrix(mirrored(pin.crba(pair.model, pair.data, their_q[i]))))
        close(tau[i], pair.other.from_tau(pin.rnea(pair.model, pair.data, their_q[i], their_v[i], their_x[i])))
        close(a[i], pair.other.from_a(pin.aba(pair.model, pair.data, their_q[i], their_v[i], their_x[i])))


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
