"""Inverse kinematics as people call it: with defaults, from keyframes."""

from __future__ import annotations

import numpy as np

import kinetree as kt
from kinetree import control
from kinetree.errors import UnknownNameError
from tests.tolerance import refused


def test_every_reachable_pair_is_found_by_default() -> None:
    robot, hands = kt.zoo.humanoid24(), ["left_hand", "right_hand"]
    poses = robot.pose(robot.random_configuration(np.random.default_rng(1), (200,)), hands)
    q, report = control.inverse_kinematics(robot, {hand: poses[:, i] for i, hand in enumerate(hands)})
    assert report.success.all()
    assert np.abs(control.pose_error(robot.pose(q, hands), poses)).max() < 2e-6


def test_searches_start_at_a_keyframe() -> None:
    """With one step, the nearest of two solutions is that of the start."""
    arm = kt.zoo.arm7()
    homes = arm.random_configuration(3, (2,))
    robot = arm.with_keyframe("home", homes[0]).with_keyframe("other", homes[1])
    tip = robot.frames[-1]
    for start, q in ((None, homes[0]), ("home", homes[0]), ("other", homes[1]), (homes[1], homes[1])):
        found, report = control.inverse_kinematics(robot, {tip: robot.pose(q, tip)}, start=start)
        assert report.attempts == 1
        np.testing.assert_array_equal(found, q)
    refused("keyframe .needed for start=", control.inverse_kinematics, robot, {tip: np.eye(4)}, start="away",
            error=UnknownNameError)  # fmt: skip
