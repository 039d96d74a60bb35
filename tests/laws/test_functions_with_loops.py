"""Matrices, derivatives and simulations of robots with coupled joints and flexible bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.laws.test_tasks_with_loops import robot
from tests.mechanisms import gripper
from tests.tolerance import assert_close, bound, condition

#: Robots whose coordinates are plain numbers, so that complex steps are derivatives along the tangent.
PLAIN = {"gripper": gripper, "whip": lambda: robot("whip")}
STEP = 1e-30


def state(of: kt.Model) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    return of.random_configuration(4), *rng.uniform(-1, 1, (2, of.nv))


def slopes(function: Any, x: Any) -> Any:
    """Derivatives along all components of x, last axis, by complex steps."""
    return np.stack([function(x + 1j * STEP * unit).imag / STEP for unit in np.eye(len(x))], axis=-1)


@pytest.mark.parametrize("name", ["hand", "suspended", "whip"])
def test_matrices(name: str) -> None:
    of = robot(name)
    q, _, _ = state(of)
    frame, still = of.frames[-1], np.zeros(of.nv)
    torques, bias = of.inverse_dynamics.engine("reference"), of.bias_forces.engine("reference")(q, still)
    M = of.mass_matrix.engine("reference")(q)
    columns = [torques(q, still, unit) - bias for unit in np.eye(of.nv)]
    assert_close(M, np.transpose(columns), bound(of.nv), float(np.abs(bias).max() + np.abs(M).max()))
    inverse = of.mass_matrix_inverse.engine("reference")(q)
    assert_close(inverse @ M, np.eye(of.nv), bound(of.nv, condition(M)))
    velocity = of.velocity.engine("reference")
    J = [velocity(q, unit, frame, reference="world") for unit in np.eye(of.nv)]
    assert_close(of.jacobian.engine("reference")(q, frame, reference="world"), np.transpose(J), bound(of.nv))


def test_engines_agree_and_bits_do_not_depend_on_the_batch() -> None:
    of = gripper()
    q = of.random_configuration(1, 3)
    for function, given in ((of.mass_matrix, ()), (of.mass_matrix_inverse, ()), (of.jacobian, ("tip",))):
        found = function(q, *given)
        expected = function.engine("reference")(q[0], *given)
        assert_close(found[0], expected, bound(of.nv, condition(of.mass_matrix(q[0]))))
        assert all(np.array_equal(function(one, *given), each) for one, each in zip(q, found, strict=True))


@pytest.mark.parametrize("name", PLAIN)
def test_derivatives_of_frames(name: str) -> None:
    of = PLAIN[name]()
    q, v, _ = state(of)
    frame = of.frames[-1]
    velocity = of.velocity.engine("reference")
    for reference in ("local", "local_world_aligned"):
        expected = slopes(lambda x, at=reference: velocity(x, v, frame, reference=at), q)
        found = of.velocity_derivative.engine("reference")(q, v, frame, reference)
        assert_close(found, expected, 1e-12, float(np.abs(expected).max()) + 1.0)
        rate = of.jacobian_rate.engine("reference")(q, v, frame, reference)
        along = of.jacobian.engine("reference")(q + 1j * STEP * v, frame, reference).imag / STEP
        assert_close(rate, along, 1e-12, float(np.abs(along).max()) + 1.0)
    made = of.tasks([kt.Task(frame, (2, 3)), kt.Task(of.frames[1], (1, 5))]).engine("reference")
    along = made.inverse_inertia(q + 1j * STEP * v).imag / STEP
    assert_close(made.inverse_inertia_derivative(q, v), along, 1e-11, float(np.abs(along).max()))


@pytest.mark.parametrize("method", ["semi_implicit_euler", "midpoint", "rk4"])
def test_discretized_steps(method: str) -> None:
    of = gripper()
    q, v, tau = state(of)
    step, n = of.step.engine("reference"), of.nv

    def end(x: Any) -> Any:
        return np.concatenate(step(x[:n], x[n : 2 * n], x[2 * n :], 0.01, method=method))

    A, B = of.discretize(q, v, tau, 0.01, method=method)
    expected = slopes(end, np.concatenate([q, v, tau]))
    assert_close(np.concatenate([A, B], axis=1), expected, 1e-11)
    many = of.discretize(np.stack([q, q]), v, tau, 0.01, method=method)
    assert np.array_equal(many.A[1], A)
    assert np.array_equal(many.B[0], B)


@pytest.mark.parametrize("name", PLAIN)
def test_center_of_mass(name: str) -> None:
    of = PLAIN[name]()
    q, _, _ = state(of)
    center, J, A = (
        getattr(of, function).engine("reference")
        for function in ("center_of_mass", "center_of_mass_jacobian", "centroidal_momentum_matrix")
    )
    assert_close(J(q), slopes(center, q), 1e-12)
    assert_close(A(q)[3:], J(q) * of.mass, 1e-12)
    # the power of gravity is that of the weight at the centre of mass, whatever springs do
    torques, springs = (
        robot.gravity_forces.engine("reference")(q) for robot in (of, of.with_gravity(np.zeros(3)))
    )  # fmt: skip
    assert_close(-of.mass * of.gravity @ J(q), torques - springs, 1e-12)


def test_centroidal_momentum_is_that_of_the_spanning_tree() -> None:
    of = robot("hand")
    q, _, _ = state(of)
    A, tree = of.centroidal_momentum_matrix.engine("reference")(q), of.spanning_tree
    G = of.coupling.engine("reference")(q)[of.tree_order]
    expected = tree.centroidal_momentum_matrix.engine("reference")(of.to_tree(q)) @ G
    assert_close(A, expected, bound(of.nv))


def test_second_derivatives() -> None:
    of = gripper()
    q, v, a = state(of)
    w, *d = np.random.default_rng(7).normal(size=(4, of.nv))
    moved = [x + 1j * STEP * dx for x, dx in zip((q, v, a), d, strict=True)]
    expected = of.inverse_dynamics.engine("reference").vjp(*moved, w)
    found = of.inverse_dynamics.hvp(q, v, a, w, *d)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other.imag / STEP, 1e-11, float(np.abs(other.imag).max() / STEP) + 1e-3)
    many = of.inverse_dynamics.hvp(np.stack([q, q]), v, a, w, *d)
    assert np.array_equal(many.dq[1], found.dq)


def test_friction_and_stops() -> None:
    """Friction that is strong enough holds the robot still; stops keep joints within their limits."""
    of = gripper()
    q, _, _ = state(of)
    held = kt.simulation.Simulator(of, dt=1e-3, friction=np.full(of.nv, 200.0))
    _, v, _ = held.step(q, np.zeros(of.nv))
    assert np.abs(v).max() < 1e-9
    with pytest.warns(kt.errors.ModelWarning, match="does not stop coupled joints"):
        stopped = kt.simulation.Simulator(of, dt=1e-3, limits=True)
    v, push = np.zeros(of.nv), np.array([0.0, 0.0, 0.0, 0.0, 100.0])
    for _ in range(60):
        q, v, _ = stopped.step(q, v, push)
    assert q[-1] <= of.upper_limits[-1] + 1e-6
