"""Operational-space control on random trees of every joint kind: Khatib's law, and levels as null-space projections."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from tests.laws.cases import model
from tests.laws.test_control import luh
from tests.tolerance import assert_close, bound, condition

Array = np.ndarray[Any, np.dtype[Any]]

NAMES = ("every kind", "every kind, armature", "forest", "many tips", "some armature", "legged")
LWA = "local_world_aligned"
KP, KD, KP0, KD0 = 100.0, 20.0, 25.0, 10.0
#: Rows are chosen so that they can be moved independently: no less of the largest singular value is left of any.
LEFT = 0.05


def state(robot: kt.Model, seed: int) -> tuple[Array, Array, Array]:
    """Posture, configuration and velocity."""
    rng = np.random.default_rng(seed)
    posture = robot.random_configuration(rng)
    return posture, robot.integrate(posture, 0.2 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


@cache
def chosen_tasks(name: str) -> list[kt.Task]:
    """Independent tasks, chosen once for all laws: others would need other kernels."""
    robot = model(name)
    return independent_tasks(robot, state(robot, 1)[1])


def independent_tasks(robot: kt.Model, q: Array) -> list[kt.Task]:
    """Tasks of frames all over the tree, whose rows are independent and leave freedom for the posture."""
    most = robot.nv // 2 + 1
    moving = [frame for frame in robot.frames if robot.site(frame).node >= 0]
    roots = np.sqrt(np.diagonal(robot.mass_matrix(q)))
    basis: list[Array] = []
    tasks = []
    for frame in dict.fromkeys([moving[-1], moving[len(moving) // 2], *moving[::3]]):
        J, rows = robot.jacobian(q, frame, LWA) / roots, []
        for i in range(6):
            rest = J[i] - sum((b * (b @ J[i]) for b in basis), np.zeros(robot.nv))
            if len(basis) < most and np.linalg.norm(rest) > LEFT * max(1e-3, float(np.linalg.norm(J, axis=1).max())):
                basis.append(rest / np.linalg.norm(rest))
                rows.append(i)
        if rows:
            tasks.append(kt.Task(frame, tuple(rows)))
    return tasks


def rows_of(robot: kt.Model, tasks: list[kt.Task], q: Array, v: Array, at: Array) -> tuple[Array, Array, Array]:
    """J, J̇v and commanded accelerations of all rows, from single frames and dense matrices."""
    J = np.concatenate([robot.jacobian(q, task.frame, LWA)[list(task.rows)] for task in tasks])
    drift = np.concatenate([robot.jacobian_dot_v(q, v, task.frame, LWA)[list(task.rows)] for task in tasks])
    errors = [luh(robot.pose(q, task.frame), robot.pose(at, task.frame))[list(task.rows)] for task in tasks]
    return J, drift, KP * np.concatenate(errors) - KD * J @ v


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_khatibs_law(name: str, engine: str) -> None:
    """τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g), with dense matrices."""
    robot = model(name)
    posture, q, v = state(robot, 1)
    tasks = chosen_tasks(name)
    goals = [control.Goal(task, KP, KD) for task in tasks]
    law = control.OperationalSpace(
        robot, goals, posture=control.Posture(posture, KP0, KD0), undriven=[], cut=1e-9
    ).engine(engine)
    command = law(q, v)

    M, h = robot.mass_matrix(q), robot.bias_forces(q, v)
    J, drift, b = rows_of(robot, tasks, q, v, posture)
    M_inverse = np.linalg.inv(M)
    A = J @ M_inverse @ J.T
    inertia = np.linalg.inv(A)
    N = np.eye(robot.nv) - M_inverse @ J.T @ inertia @ J
    a0 = KP0 * robot.difference(q, posture) - KD0 * v
    task_bias = inertia @ (J @ (M_inverse @ h) - drift)
    expected = J.T @ (inertia @ b + task_bias) + N.T @ (M @ a0 + h)
    close = bound(robot.nv, condition(M) + condition(A))
    scale = float(np.abs(M @ a0).max() + np.abs(J.T @ inertia @ b).max() + np.abs(h).max())
    assert command.margin > 1.0
    assert_close(command.tau, expected, close, scale=scale)
    moved = float(np.abs(command.acceleration).max() + np.abs(a0).max())
    assert_close(J @ command.acceleration + drift, b, close, scale=moved)
    assert_close(M @ command.acceleration + h, command.tau, close, scale=scale)


@pytest.mark.parametrize("name", NAMES)
def test_levels_are_projections_on_null_spaces(name: str) -> None:
    """Each task in the null space of those before it, in the metric of M: textbook recursion over levels."""
    robot = model(name)
    posture, q, v = state(robot, 2)
    tasks = chosen_tasks(name)
    levels = [[control.Goal(task, KP, KD)] for task in tasks]
    law = control.OperationalSpace(robot, *levels, posture=control.Posture(posture, KP0, KD0), undriven=[], cut=1e-9)
    J, drift, b = rows_of(robot, tasks, q, v, posture)
    M = robot.mass_matrix(q)
    M_inverse = np.linalg.inv(M)
    N, a, start = np.eye(robot.nv), KP0 * robot.difference(q, posture) - KD0 * v, 0
    worst, largest = condition(M), float(np.abs(a).max())
    for task in tasks:
        own = slice(start, start + len(task.rows))
        S = N @ M_inverse @ J[own].T
        A = J[own] @ S
        gain = np.linalg.solve(A, (b - drift)[own] - J[own] @ a)
        a = a + S @ gain
        N = N - S @ np.linalg.solve(A, J[own] @ N)
        worst, largest, start = worst + condition(A), max(largest, float(np.abs(a).max())), own.stop
    close = bound(robot.nv, worst + condition(J @ M_inverse @ J.T))
    assert_close(law(q, v).acceleration, a, close, scale=largest)


@pytest.mark.parametrize("name", NAMES)
def test_postures_do_not_leak_into_goals(name: str) -> None:
    """What a stiffer posture adds to joint accelerations moves no goal: less than 1e-10 of them."""
    robot = model(name)
    posture, q, v = state(robot, 3)
    tasks = chosen_tasks(name)
    goals = [control.Goal(task, KP, KD) for task in tasks]
    soft, stiff = (
        control.OperationalSpace(robot, goals, posture=control.Posture(posture, kp, KD0), undriven=[], cut=1e-9)(q, v)
        for kp in (KP0, 40.0 * KP0)
    )
    J, _, _ = rows_of(robot, tasks, q, v, posture)
    moved = stiff.acceleration - soft.acceleration
    assert float(np.abs(moved).max()) > 1.0
    assert float(np.abs(J @ moved).max()) < 1e-10 * float(np.abs(moved).max())
