"""Controllers of robots with coupled joints: the laws that they realise, from the robot's own functions."""

from __future__ import annotations

import numpy as np

import kinetree as kt
from kinetree import control
from tests.mechanisms import gripper
from tests.oracle import oracle
from tests.tolerance import assert_close

oracle("daqp")

LWA = "local_world_aligned"
BENT = np.array([0.3, -0.5, 0.9, 0.2, 0.03])


def test_operational_space_control_is_khatibs_law() -> None:
    """τ = Jᵀ(Λ (b − J̇v) + …) + Nᵀ…: the task accelerates as asked for, and the rest follows the posture."""
    robot, rng = gripper(), np.random.default_rng(1)
    q, v = BENT, 0.3 * rng.normal(size=robot.nv)
    goal = control.Goal(kt.Task("tip", "position"), kp=100.0, kd=20.0)
    arm = control.OperationalSpace(robot, [goal], posture=control.Posture(np.zeros(5), kp=9.0, kd=6.0))
    target = robot.pose(q, "tip")[:3, 3] + np.array([0.03, -0.02, 0.05])
    tau = arm(q, v, {"tip": target}).tau
    J = robot.jacobian(q, "tip", reference=LWA)[3:]
    M = robot.mass_matrix(q)
    b = 100.0 * (target - robot.pose(q, "tip")[:3, 3]) - 20.0 * J @ v
    drift = robot.jacobian_dot_v(q, v, "tip", reference=LWA)[3:]
    a0 = 9.0 * robot.difference(q, np.zeros(5)) - 6.0 * v
    A = J @ np.linalg.solve(M, J.T)
    a = a0 + np.linalg.solve(M, J.T @ np.linalg.solve(A, b - drift - J @ a0))
    assert_close(tau, robot.inverse_dynamics(q, v, a), 1e-9)
    many = arm(np.stack([q, q]), np.stack([v, v]), {"tip": target}).tau
    assert np.array_equal(many, np.stack([tau, tau]))


def test_differential_inverse_kinematics_is_least_squares() -> None:
    robot, q = gripper(), BENT
    ik = control.DifferentialIK(
        robot, [control.Goal("tip")], posture=np.zeros(5), limits=False, posture_weight=0.1, damping=1e-3, gain=0.7
    )
    target = robot.pose(robot.integrate(q, 0.05 * np.arange(1.0, 6.0)), "tip")
    J, e = robot.jacobian(q, "tip", reference=LWA), control.pose_error(robot.pose(q, "tip"), target)
    H = J.T @ J + (0.1**2 + 1e-3) * np.eye(5)
    step = np.linalg.solve(H, J.T @ (0.7 * e) + 0.1**2 * robot.difference(q, np.zeros(5)))
    assert_close(ik(q, {"tip": target}, dt=0.05), step / 0.05, 1e-9)
    limited = control.DifferentialIK(robot, [control.Goal("tip")], posture=np.zeros(5))
    speed = limited(q, {"tip": target}, dt=1e-3)
    assert (np.abs(speed) <= robot.velocity_limits * (1.0 + 1e-9)).all()


def test_inverse_kinematics_finds_the_pose_of_a_finger() -> None:
    robot = gripper()
    target = robot.pose(BENT, "tip")
    q, report = control.inverse_kinematics(robot, {"tip": target})
    assert report.success.all()
    assert_close(robot.pose(q, "tip"), target, 1e-5)


def test_whole_body_control_realises_its_motion() -> None:
    robot, v = gripper(), np.full(5, 0.1)
    goals = [
        control.Goal(kt.Task("tip", "position"), kp=50.0, kd=10.0),
        control.Goal(kt.CenterOfMassTask()),
    ]
    body = control.WholeBody(robot, goals, posture=control.Posture(np.zeros(5)))
    targets = {"tip": robot.pose(BENT, "tip")[:3, 3], "center_of_mass": robot.center_of_mass(BENT)}
    command = body(BENT, v, targets)
    assert_close(robot.forward_dynamics(BENT, v, command.tau), command.acceleration, 1e-8)
    assert (np.abs(command.tau) <= robot.effort_limits * (1.0 + 1e-9)).all()


def test_joint_limits_are_kept() -> None:
    """A joint that moves towards its limit brakes as k²(q_hi − q) − 2k v allows."""
    robot = gripper()
    joint = next(j for j in robot.joints if j.nq == j.nv == 1 and np.isfinite(robot.upper_limits[j.q_start]))
    q, v = BENT.copy(), np.zeros(robot.nv)
    q[joint.q_start], v[joint.v_start] = robot.upper_limits[joint.q_start] - 0.01, 0.5
    arm = control.OperationalSpace(
        robot, [kt.Task("tip", "position")], posture=control.Posture(BENT), bounds=control.Bounds(position=15.0)
    )
    beyond = q.copy()
    beyond[joint.q_start] += 0.5
    command = arm(q, v, {"tip": robot.pose(beyond, "tip")[:3, 3]})
    assert command.limited[joint.v_start]
    assert_close(command.acceleration[joint.v_start], 15.0**2 * 0.01 - 30.0 * 0.5, 1e-6)
    assert_close(robot.forward_dynamics(q, v, command.tau), command.acceleration, 1e-8)
