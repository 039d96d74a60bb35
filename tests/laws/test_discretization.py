"""Time steps and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from tests.laws.cases import configuration_rate, model
from tests.tolerance import assert_close

METHODS = ("semi_implicit_euler", "midpoint", "rk4")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["every kind", "every kind, armature", "legged"])
def test_derivatives_of_a_step(name: str, method: str) -> None:
    """Against complex steps through a whole time step, along directions of q, v and the joint forces."""
    robot, h = model(name), 1e-30
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng)
    v, tau, dq, dv, dtau = rng.uniform(-1.0, 1.0, (5, robot.nv))
    force = {robot.bodies[-1].name: np.ones(6)}
    A, B = robot.discretize(q, v, tau, 0.05, method, f_ext=force)
    after = robot.step(q, v, tau, 0.05, method, f_ext=force)
    moved = q + 1j * h * configuration_rate(robot, q, dq), v + 1j * h * dv, tau + 1j * h * dtau
    end, rate = robot.step.engine("reference")(*moved, 0.05, method, f_ext=force)
    assert_close(end.real, after[0], 1e-13)
    assert_close(rate.real, after[1], 1e-12)
    expected = np.concatenate([robot.tangent_map(after[0]) @ end.imag, rate.imag]) / h
    terms = A @ np.concatenate([dq, dv]), B @ dtau
    assert_close(terms[0] + terms[1], expected, 1e-12, float(np.max(np.abs(terms))))


@pytest.mark.parametrize(("method", "order"), [("semi_implicit_euler", 1), ("midpoint", 2), ("rk4", 4)])
def test_order(method: str, order: int) -> None:
    """Halving the step of a tumbling robot divides the error by 2 to the order, floating base and all."""
    robot = model("legged")
    rng = np.random.default_rng(4)
    start = robot.random_configuration(rng), rng.uniform(-1.0, 1.0, robot.nv)

    def run(steps: int, method: str = method) -> np.ndarray:
        q, v = start
        for _ in range(steps):
            q, v = robot.step(q, v, np.zeros(robot.nv), 0.2 / steps, method)
        return np.concatenate([robot.difference(start[0], q), v])

    exact = run(512, "rk4")
    coarse, fine = (np.max(np.abs(run(steps) - exact)) for steps in (16, 32))
    assert 0.75 < np.log2(coarse / fine) / order < 1.3


def test_batches_and_names() -> None:
    robot = kt.zoo.cart_pole()
    q, v = robot.random_configuration(0, (4, 1)), np.zeros((3, robot.nv))
    for method in METHODS:
        made = robot.discretize(q, v, np.zeros(robot.nv), 0.01, method)
        assert isinstance(made, kt.Discretized)
        assert made.A.shape == (4, 3, 2 * robot.nv, 2 * robot.nv)
        assert made.B.shape == (4, 3, 2 * robot.nv, robot.nv)
        one = robot.discretize(q[1, 0], v[2], np.zeros(robot.nv), 0.01, method)
        np.testing.assert_allclose(made.A[1, 2], one.A, rtol=0.0, atol=1e-14)
    with pytest.raises(UnknownNameError, match="rk4"):
        robot.step(q, v, v, 0.01, "euler")


def test_bad_input() -> None:
    robot = kt.zoo.cart_pole()
    q, v, tau = robot.random_configuration(0, (3,)), np.zeros((4, 2)), np.zeros(2)
    for method in METHODS:
        with pytest.raises(InputError, match=r"batch shapes do not broadcast: q \(3,\), v \(4,\), tau \(\)"):
            robot.discretize(q, v, tau, 0.01, method)
        for function in (robot.step, robot.discretize):
            for dt in ("0.1", 1j, None):
                with pytest.raises(InputError, match="dt"):
                    function(q, v[:3], tau, dt, method)
            with pytest.raises(InputError, match="shape"):
                function(q, v[:3], np.zeros(3), 0.01, method)
            wrong = q.copy()
            wrong[1, 0] = np.nan
            for part in function(wrong, v[:3], tau, 0.01, method):
                assert np.isfinite(part[[0, 2]]).all()
