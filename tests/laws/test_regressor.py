"""Inverse dynamics is linear in inertial parameters."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from tests.laws.cases import Case, cases
from tests.tolerance import assert_close

NAMES = ("one", "every kind", "every kind, armature", "forest", "10 km away", "humanoid24")


def armature(robot: kt.Model) -> np.ndarray:
    """Of all degrees of freedom."""
    return np.concatenate([np.broadcast_to(joint.armature, joint.nv) for joint in robot.joints])


@pytest.mark.parametrize("case", cases(long=False, complex_step=True, names=NAMES), ids=str)
def test_regressor_times_parameters_is_inverse_dynamics(case: Case) -> None:
    q, v, a = case.state
    Y = case.on("regressor", q, v, a)
    theta = case.robot.inertial_parameters
    assert Y.shape == (*case.shape, case.robot.nv, len(case.robot.bodies), 10)
    expected = case.on("inverse_dynamics", q, v, a) - armature(case.robot) * a
    assert_close(np.tensordot(Y, theta, 2), expected, case.tolerance)


def test_a_payload_in_a_frame() -> None:
    """A body held in a frame adds its column's share."""
    robot = kt.zoo.humanoid24()
    frame = robot.bodies[-1].name
    rng = np.random.default_rng(0)
    q, (v, a) = robot.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, robot.nv))
    loaded = robot.with_payload(frame, mass=2.0, com=(0.1, 0.0, 0.2), inertia=np.diag([0.02, 0.03, 0.04]))
    added = loaded.inverse_dynamics(q, v, a) - robot.inverse_dynamics(q, v, a)
    shift = np.array([[0.0, -0.2, 0.0], [0.2, 0.0, -0.1], [0.0, 0.1, 0.0]])
    J = np.diag([0.02, 0.03, 0.04]) - 2.0 * shift @ shift
    theta = np.array([2.0, 0.2, 0.0, 0.4, *J[np.triu_indices(3)]])
    Y = robot.regressor(q, v, a, [frame])
    assert_close(Y[:, 0] @ theta, added, 1e-13, float(np.max(np.abs(loaded.inverse_dynamics(q, v, a)))))


def test_bodies_behind_fixed_joints_count_as_their_own() -> None:
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.3), "inertia": np.diag([0.02, 0.02, 0.01])}
    builder = kt.Builder(name="arm").add_body("upper", parent="world", joint="revolute", axis=(0, 1, 0), **solid)
    builder.add_body("tool", parent="upper", joint="fixed", placement=(np.eye(3), (0.0, 0.2, 0.5)), **solid)
    robot = builder.build()
    q, v, a = np.array([0.3]), np.array([1.2]), np.array([-0.7])
    Y = robot.regressor(q, v, a)
    assert Y.shape == (1, len(robot.bodies), 10)
    assert_close(np.tensordot(Y, robot.inertial_parameters, 2), robot.inverse_dynamics(q, v, a), 1e-14)
