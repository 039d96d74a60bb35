"""Operational-space control against the textbook's law with Pinocchio's M, C + g, J and J̇v; both engines."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree import control
from kinetree.algorithms.tasks.control_law import control_law
from kinetree.runtime import reference
from tests.laws.test_control import luh
from tests.laws.test_control_on_trees import KD, KD0, KP, KP0, independent_tasks, state
from tests.oracles.pinocchio_twin import mirrored, pin, robots
from tests.oracles.test_delassus import Real
from tests.oracles.test_pinocchio import make
from tests.tolerance import assert_close, bound, condition


@pytest.mark.parametrize("name", ["Panda"])
def test_textbook(name: str) -> None:
    real = Real.load(name)
    robot, model, order = real.robot.model, real.robot.pinocchio, real.robot.order
    frame, number = real.sites[0].name, real.numbers[0]
    q, v, _ = (x[0] for x in robots.state_pool(robot, 1, seed=9))
    rng = np.random.default_rng(1)
    posture = robot.integrate(q, 0.2 * rng.normal(size=robot.nv))
    pose = robot.pose(robot.integrate(q, 0.1 * rng.normal(size=robot.nv)), frame)
    arm = control.OperationalSpace(robot, [control.Goal(frame, kp=400.0)], posture=control.Posture(posture), cut=1e-6)
    tau = arm(q, v, {frame: pose}).tau

    data, q_, v_ = model.createData(), order.to_q(q), order.to_v(v)
    pin.computeAllTerms(model, data, q_, v_)
    pin.updateFramePlacements(model, data)
    M = np.triu(data.M) + np.triu(data.M, 1).T
    aligned = pin.LOCAL_WORLD_ALIGNED
    angular_first = [3, 4, 5, 0, 1, 2]
    J = pin.getFrameJacobian(model, data, number, aligned)[angular_first]
    pin.forwardKinematics(model, data, q_, v_, np.zeros(model.nv))
    drift = np.array(pin.getFrameClassicalAcceleration(model, data, number, aligned))[angular_first]
    T = data.oMf[number]
    E = pose[:3, :3] @ T.rotation.T
    error = np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]]) / 2.0
    error = np.concatenate([error, pose[:3, 3] - T.translation])
    b = 400.0 * error - 40.0 * J @ v_
    M_inverse = np.linalg.inv(M)
    inertia = np.linalg.inv(J @ M_inverse @ J.T)
    J_bar = M_inverse @ J.T @ inertia
    N = np.eye(model.nv) - J_bar @ J
    a0 = 25.0 * pin.difference(model, q_, order.to_q(posture)) - 10.0 * v_
    bias = J_bar.T @ data.nle - inertia @ drift
    expected = J.T @ (inertia @ b + bias) + N.T @ (M @ a0 + data.nle)
    conditions = condition(M) + condition(J @ M_inverse @ J.T)
    assert_close(order.to_v(tau), expected, bound(robot.nv, conditions))


@pytest.mark.parametrize("name", ["every kind 28", "every kind 29", "every kind, armature", "forest", "long"])
def test_textbook_on_random_trees(name: str) -> None:
    """Some rows of several frames, with everything that depends on the robot from Pinocchio."""
    pair = make(name)
    robot, twin = pair.robot, pair.twin
    posture, q, v = state(robot, 4)
    tasks = independent_tasks(robot, q)
    law = control.OperationalSpace(
        robot, [control.Goal(task, KP, KD) for task in tasks], posture=control.Posture(posture, KP0, KD0), undriven=[],
        cut=1e-9,
    )  # fmt: skip

    model, data, q_, v_ = twin.model, pair.data, twin.order.to_q(q), twin.order.to_v(v)
    aligned, angular_first = pin.LOCAL_WORLD_ALIGNED, [3, 4, 5, 0, 1, 2]
    numbers = [twin.frames[task.frame] for task in tasks]
    rows = [list(task.rows) for task in tasks]
    pin.framesForwardKinematics(model, data, twin.order.to_q(posture))
    wanted = [pin.SE3(data.oMf[i]).homogeneous for i in numbers]
    M, h = mirrored(pin.crba(model, data, q_)), np.array(pin.nonLinearEffects(model, data, q_, v_))
    pin.computeJointJacobians(model, data, q_)
    pin.forwardKinematics(model, data, q_, v_, np.zeros(model.nv))
    pin.updateFramePlacements(model, data)
    J = np.concatenate(
        [
            pin.getFrameJacobian(model, data, i, aligned)[angular_first][own]
            for i, own in zip(numbers, rows, strict=True)
        ]
    )
    drifts = [np.array(pin.getFrameClassicalAcceleration(model, data, i, aligned))[angular_first] for i in numbers]
    drift = np.concatenate([one[own] for one, own in zip(drifts, rows, strict=True)])
    errors = [luh(data.oMf[i].homogeneous, T)[own] for i, T, own in zip(numbers, wanted, rows, strict=True)]
    b = KP * np.concatenate(errors) - KD * J @ v_
    a0 = twin.order.to_v(KP0 * robot.difference(q, posture) - KD0 * v)
    M_inverse = np.linalg.inv(M)
    A = J @ M_inverse @ J.T
    f = np.linalg.solve(A, b - drift - J @ a0)
    expected = M @ a0 + h + J.T @ f
    scale = float(np.abs(M @ a0).max() + np.abs(J.T @ f).max() + np.abs(h).max())
    assert_close(twin.order.to_v(law(q, v).tau), expected, bound(robot.nv, condition(M) + condition(A)), scale=scale)


def test_the_reference_engine_agrees() -> None:
    robot = Real.load("Panda").robot.model
    frames = [site.name for site in Real.load("Panda").sites[:2]]
    tasks = robot.tasks([frames[0]], reference="local_world_aligned")
    recursions = tasks.core.recursions
    q, v, a0 = (x[0] for x in robots.state_pool(robot, 1, seed=10))
    rng = np.random.default_rng(2)
    inputs = [q, v, a0, robot.pose(q, [frames[1]]), rng.normal(size=(6, 2)), rng.uniform(size=(6, 2)), tasks.reach]
    inputs.append(np.full(6, 1e-6))
    native = recursions.control_law(*inputs)
    plain = reference.run(control_law(tasks.method, recursions._parts), robot.mechanism, recursions.sites, inputs)
    M = robot.mass_matrix(q)
    A = tasks.inverse_inertia(q)
    for one, other in zip(native[:2], plain[:2], strict=True):
        assert_close(one, other, bound(robot.nv, condition(M) + condition(A)))
