"""The controller's active set: which joints the next round holds, and which samples share a pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree import control
from kinetree.control import pipeline
from kinetree.errors import UnknownNameError
from tests.laws.cases import model

ACTIVE = np.array([1, -1, 0, 0], np.int8)
RELEASED, BOTH = np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, -1.0, 0.0])


@pytest.mark.parametrize(
    ("round_", "released", "both"),
    [
        (-1, [0, 0, 0, 0], [0, 0, 0, 0]),  # rows from elsewhere are forgotten
        (0, RELEASED, BOTH),
        (9, RELEASED, BOTH),
        (10, [0, -1, 0, 0], [1, -1, -1, 0]),  # one at a time, if none is added
        (49, [0, -1, 0, 0], [1, -1, -1, 0]),
        (50, ACTIVE, [1, -1, -1, 0]),  # none
        (80, ACTIVE, [1, -1, -1, 0]),
    ],
)
def test_rounds_release_all_then_one_then_none(round_: int, released: Any, both: Any) -> None:
    for following, expected in ((RELEASED, released), (BOTH, both)):
        found = pipeline._next(ACTIVE, following, round_)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int8
    together = pipeline._next(ACTIVE, np.stack([RELEASED, BOTH]), round_)
    np.testing.assert_array_equal(together, [released, both])


def test_samples_that_share_a_pattern_come_together() -> None:
    patterns = np.array([[0, 1], [0, 0], [0, 1], [-1, 0]], np.int8)
    found = pipeline.alike(patterns)
    assert [(pattern.tolist(), samples.tolist()) for pattern, samples in found] == [
        ([0, 1], [0, 2]),
        ([0, 0], [1]),
        ([-1, 0], [3]),
    ]
    assert pipeline.alike(patterns[:0]) == []
    ((pattern, samples),) = pipeline.alike(patterns[:1])
    pattern[:] = 7  # a copy
    assert (patterns[0].tolist(), samples.tolist()) == ([0, 1], [0])


def test_joints_that_must_stay_held_do_whatever_they_are() -> None:
    """Effort limits compare laws with the same joints held: no round changes them, alone and in a batch."""
    robot = model("humanoid24")
    arm = control.OperationalSpace(robot, ["left_hand"], bounds=control.Bounds(position=15.0))
    q, v = robot.random_configuration(3, (2,)), np.zeros((2, robot.nv))
    solve, wanted = arm._pipeline.solve, arm._targets.read(None, None, 0.0)
    active = np.zeros((2, len(arm._pipeline.free)), np.int8)
    active[:, 0], active[1, 2] = 1, -1
    together = solve(q, v, wanted, active, fixed=True)
    np.testing.assert_array_equal(together.active, active)
    for i in range(2):
        alone = solve(q[i], v[i], wanted, active[i], fixed=True)
        np.testing.assert_array_equal(alone.active, active[i])
        np.testing.assert_array_equal(alone.tau, together.tau[i])
    executed, mine = arm.engine("reference")._pipeline.solve, active[0].copy()
    first = executed(q[0], v[0], wanted, mine, fixed=True)
    mine[:] = 0
    again = executed(q[0], v[0], wanted, active[0], fixed=True)
    np.testing.assert_array_equal(again.tau, first.tau)
    np.testing.assert_allclose(again.tau, together.tau[0], rtol=0.0, atol=1e-8 * float(np.abs(together.tau).max()))
    settled = solve(q, v, wanted, active)
    assert settled.active is not None
    assert (settled.active != active).any()
    np.testing.assert_array_equal(settled.tau, solve(q, v, wanted).tau)


def test_cases_leave_out_the_posture_and_the_goals() -> None:
    robot = model("humanoid24")
    arm = control.OperationalSpace(robot, ["left_hand"], posture=control.Posture(robot.neutral(), kp=50.0))
    q = robot.random_configuration(3)
    solve, wanted = arm._pipeline.solve, arm._targets.read(None, None, 0.0)
    whole, goals, bias = (solve(q, np.zeros(robot.nv), wanted, case=case) for case in pipeline.CASES)
    J = robot.jacobian(q, "left_hand", "local_world_aligned")
    size = float(np.abs(whole.a).max())
    np.testing.assert_allclose(J @ goals.a, J @ whole.a, rtol=0.0, atol=1e-9 * size)
    np.testing.assert_allclose(bias.a, 0.0, rtol=0.0, atol=1e-9 * size)
    assert np.abs(goals.a - whole.a).max() > 1e-2 * size
    brief = solve(q, np.zeros(robot.nv), wanted, brief=True)
    np.testing.assert_array_equal(brief.tau, whole.tau)
    assert brief.a is None
    assert brief.force is None


def test_engines_have_names() -> None:
    arm = control.OperationalSpace(model("humanoid24"), ["left_hand"])
    with pytest.raises(UnknownNameError, match="no engine is called 'numpy'"):
        arm.engine("numpy")
