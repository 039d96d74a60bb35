"""Rates of Jacobians and derivatives of twists, against complex steps and against J̇v."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError
from tests.laws.cases import Case, cases, configuration_rate, model
from tests.tolerance import assert_close

H = 1e-30
REFERENCES = ("local", "local_world_aligned", "world")
CASES = cases(long=False, complex_step=True, names=("one", "every kind", "forest", "10 km away", "humanoid24"))


def scale(case: Case, frame: str, reference: str, direction: np.ndarray) -> float:
    """What is added up on the way, far from the world's origin much more than what is left."""
    q, v, _ = case.state
    J = np.abs(case.on("jacobian", q, frame, reference=reference))
    return float(np.max(J @ np.abs(v)[..., None]) * max(1.0, float(np.max(np.sum(np.abs(direction), axis=-1)))))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_jacobian_rate(case: Case, reference: str) -> None:
    q, v, _ = case.state
    for frame in case.frames[:2]:
        expected = case.exact("jacobian", q + 1j * H * case.q_rate, frame, reference=reference).imag / H
        rate = case.on("jacobian_rate", q, v, frame, reference=reference)
        assert_close(rate, expected, case.tolerance, scale(case, frame, reference, v))
        drift = case.on("jacobian_dot_v", q, v, frame, reference=reference)
        assert_close((rate @ v[..., None])[..., 0], drift, case.tolerance, scale(case, frame, reference, v))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_velocity_derivative(case: Case, reference: str) -> None:
    q, v, d = case.state
    for frame in case.frames[:2]:
        moved = q + 1j * H * configuration_rate(case.robot, q, d)
        expected = case.exact("velocity", moved, v, [frame], reference=reference)[..., 0, :].imag / H
        matrix = case.on("velocity_derivative", q, v, frame, reference=reference)
        assert_close((matrix @ d[..., None])[..., 0], expected, case.tolerance, scale(case, frame, reference, d))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["every kind", "legged"])
def test_inverse_inertia_derivative(name: str, reference: str) -> None:
    """Complex steps through J and M."""
    case = Case(name, "native", ())
    q, _, d = case.state
    frames = case.frames[1:3]
    moved = q + 1j * H * configuration_rate(case.robot, q, d)
    J = np.concatenate([case.exact("jacobian", moved, frame, reference=reference) for frame in frames])
    expected = (J @ np.linalg.solve(case.exact("mass_matrix", moved), J.T)).imag / H
    tasks = case.robot.tasks(frames, reference=reference)
    actual = tasks.inverse_inertia_derivative(q, d)
    assert_close(actual, expected, case.solving_tolerance)
    several = tasks.inverse_inertia_derivative(np.stack([q, q]), d)
    np.testing.assert_array_equal(several, [actual, actual])
    some = case.robot.tasks([kt.Task(frames[1], (4, 0)), kt.Task(frames[0], (5,))], reference=reference)
    np.testing.assert_allclose(
        some.inverse_inertia_derivative(q, d), actual[np.ix_([10, 6, 5], [10, 6, 5])], rtol=1e-12
    )


def test_inverse_inertia_derivative_says_what_it_is_not_for() -> None:
    robot = model("legged")
    q, d = robot.neutral(), np.zeros(robot.nv)
    for tasks in (
        robot.tasks([kt.CenterOfMassTask()]),
        robot.tasks([kt.RelativeTask("link5", "link12")]),
        robot.tasks(["link5"], contacts=["link12"]),
    ):
        with pytest.raises(InputError, match="inverse_inertia_derivative is available only for tasks of single frames"):
            tasks.inverse_inertia_derivative(q, d)
    with pytest.raises(InputError, match="inverse_inertia_derivative: dq has shape"):
        robot.tasks(["link5"]).inverse_inertia_derivative(q, d[1:])
