"""Inverse kinematics of a Panda: poses that it can reach are found, within its limits, with the same bits alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.algorithms.tasks.levenberg_marquardt import levenberg_marquardt
from kinetree.errors import UnknownNameError
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.oracles.pinocchio_twin import robots
from tests.tolerance import Array, assert_near, refused
from tests.trees import serial

HAND = "panda_hand_tcp BODY"


@cache
def panda() -> kt.Model:
    return robots.load("Panda").model


@cache
def reachable(count: int) -> Array:
    robot = panda()
    rng = np.random.default_rng(0)
    return robot.pose(rng.uniform(robot.lower_limits, robot.upper_limits, (count, robot.nq)), HAND)


def test_reachable_poses_are_found() -> None:
    robot, poses = panda(), reachable(1000)
    q, report = control.inverse_kinematics(robot, {HAND: poses})
    assert report.success.all()
    assert_near(robot.pose(q, HAND), poses, 2e-6)
    assert (q >= robot.lower_limits).all()
    assert (q <= robot.upper_limits).all()
    assert (report.error <= 1e-6).all()
    assert float(report.attempts.mean()) < 1.5


def test_bits_do_not_depend_on_the_batch() -> None:
    robot, poses = panda(), reachable(1000)[:6].copy()
    poses[2, :3, 3] = np.nan
    together, report = control.inverse_kinematics(robot, {HAND: poses.reshape(2, 3, 4, 4)})
    assert together.shape == (2, 3, robot.nq)
    assert list(report.success.ravel()) == [True, True, False, True, True, True]
    for i in (0, 1, 3, 5):
        alone, _ = control.inverse_kinematics(robot, {HAND: poses[i]})
        np.testing.assert_array_equal(alone, together.reshape(6, -1)[i])


def test_a_step_on_both_engines() -> None:
    """The recursion as it is written, and compiled: near a limit, at one, and far from any."""
    robot = panda()
    sites = [robot.site(HAND)]
    native = bind(levenberg_marquardt(), robot.mechanism, sites, "step")
    low, high = robot.lower_limits, robot.upper_limits
    for share in (0.0, 0.02, 0.5):
        q = low + share * (high - low)
        inputs = [q, [1e-2, 0.0], reachable(1000)[:1], low, high, np.ones((robot.nv, 2)), 1e-6]
        plain = reference.run(levenberg_marquardt(), robot.mechanism, sites, [np.array(x) for x in inputs])
        found = native(*inputs)
        for one, other in zip(found, plain, strict=True):
            assert_near(one, other, 1e-9)
        assert (found[0] >= low).all()
        assert (found[0] <= high).all()


def test_positions_alone_and_several_frames() -> None:
    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(1)
    targets = {"left_hand": robot.pose(q, "left_hand")[:3, 3], "left_foot": robot.pose(q, "left_foot")}
    found, report = control.inverse_kinematics(robot, targets)
    assert report.success
    assert_near(robot.pose(found, "left_hand")[:3, 3], targets["left_hand"], 2e-6)
    assert_near(robot.pose(found, "left_foot"), targets["left_foot"], 3e-6)


def test_the_centre_of_mass_and_one_hand_relative_to_the_other() -> None:
    """All kinds of tasks at once, with the bits of each target alone, and against positions computed without them."""
    robot = kt.zoo.asimo35()
    q = robot.random_configuration(3, (4,))
    left, right = (robot.pose(q, f"{side}_hand") for side in ("left", "right"))
    apart = control.inverse(left) @ right
    fingertip = (left @ [0.0, 0.1, 0.2, 1.0])[:, :3]
    targets = {
        kt.CenterOfMassTask(): robot.center_of_mass(q),
        kt.RelativeTask("left_hand", "right_hand"): apart,
        kt.Task("left_hand", "position", offset=(0.0, 0.1, 0.2)): fingertip,
        kt.Task("left_foot", "orientation"): robot.pose(q, "left_foot"),
        "right_foot": robot.pose(q, "right_foot")[:, :3, 3],
    }
    found, report = control.inverse_kinematics(robot, targets)
    assert report.success.all()
    left, right = (robot.pose(found, f"{side}_hand") for side in ("left", "right"))
    assert_near(robot.center_of_mass(found), robot.center_of_mass(q), 2e-6)
    assert_near(control.inverse(left) @ right, apart, 4e-6)
    assert_near((left @ [0.0, 0.1, 0.2, 1.0])[:, :3], fingertip, 2e-6)
    assert_near(robot.pose(found, "left_foot")[:, :3, :3], robot.pose(q, "left_foot")[:, :3, :3], 3e-6)
    assert_near(robot.pose(found, "right_foot")[:, :3, 3], targets["right_foot"], 2e-6)
    alone, _ = control.inverse_kinematics(robot, {task: target[1] for task, target in targets.items()})
    np.testing.assert_array_equal(alone, found[1])


def test_joints_without_limits_take_part() -> None:
    """Joints that are unlimited on both sides, or on one."""
    arm = kt.zoo.chain(7, seed=1)
    first, tip = arm.joints[0].name, arm.joints[-1].child
    for robot in (arm, arm.with_limits({first: kt.Limits((-np.inf,), (1.0,))})):
        q = np.minimum(robot.random_configuration(2, (10,)), 0.9)
        found, report = control.inverse_kinematics(robot, {tip: robot.pose(q, tip)})
        assert report.success.all()
        assert_near(robot.pose(found, tip), robot.pose(q, tip), 3e-6)
        assert (found[:, 0] <= robot.upper_limits[0]).all()


def test_coupled_joints() -> None:
    """A finger that follows another one: no tree of rigid bodies, but poses and Jacobians exist."""
    link = {"placement": (np.eye(3), (0.0, 0.0, 0.2)), "mass": 1.0, "inertia": 0.01 * np.eye(3)}
    builder = serial({**link, "axis": axis} for axis in [(0, 0, 1), (0, 1, 0), (1, 0, 0)] * 2)
    for finger, side in (("left", 1), ("right", -1)):
        builder.add_body(finger, parent="b5", joint="prismatic", axis=(0, side, 0), mass=0.1, inertia=1e-4 * np.eye(3))
    robot = builder.couple("right_joint", to="left_joint", ratio=1.0).build()
    q = robot.random_configuration(1, (3,))
    places = {"right": robot.pose(q, "right"), "left": robot.pose(q, "left")[:, :3, 3]}
    found, report = control.inverse_kinematics(robot, places)
    assert report.success.all()
    assert_near(robot.pose(found, "right"), places["right"], 3e-6)
    alone, _ = control.inverse_kinematics(robot, {name: place[1] for name, place in places.items()})
    np.testing.assert_array_equal(alone, found[1])


def test_a_floating_base_reaches_anything() -> None:
    robot = kt.zoo.asimo35()
    target = control.exp([0.3, -0.2, 1.5, 4.0, 2.0, 1.0])
    q, report = control.inverse_kinematics(robot, {"right_hand": target}, start=robot.neutral())
    assert report.success
    assert report.attempts == 1
    assert_near(robot.pose(q, "right_hand"), target, 2e-6)


def test_out_of_reach_is_no_error() -> None:
    robot = panda()
    q, report = control.inverse_kinematics(robot, {HAND: np.array([3.0, 0.0, 0.0])}, tries=3)
    assert not report.success
    assert report.attempts == 3
    assert float(report.error) > 1.0
    assert np.isfinite(q).all()


def test_bad_input() -> None:
    robot = panda()
    with pytest.raises(UnknownNameError, match="no frame is called 'hand'"):
        control.inverse_kinematics(robot, {"hand": np.zeros(3)})
    refused("targets maps names of frames to poses or positions", control.inverse_kinematics, robot, {})
    refused(r"has shape \(2,\); pass poses", control.inverse_kinematics, robot, {HAND: np.zeros(2)})
    refused("is no rotation", control.inverse_kinematics, robot, {HAND: np.ones((4, 4))})
    refused("start is one configuration", control.inverse_kinematics, robot, {HAND: np.zeros(3)}, start=np.zeros(2))
    com, feet = kt.CenterOfMassTask(), kt.RelativeTask(robot.frames[0], HAND)
    refused("has a position", control.inverse_kinematics, robot, {com: np.eye(4)})
    refused("is a position, but the task has rotations", control.inverse_kinematics, robot, {feet: np.zeros(3)})
    refused("given twice", control.inverse_kinematics, robot, {HAND: np.eye(4), kt.Task(HAND): np.eye(4)})
    refused("must be positive", control.inverse_kinematics, robot, {HAND: np.zeros(3)}, tries=0)
