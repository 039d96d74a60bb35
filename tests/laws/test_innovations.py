"""Laws of diagonalised dynamics, of the gradient of ln det M, and of joints with given accelerations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import UnknownNameError
from tests.laws import test_general_nodes as general
from tests.laws.cases import Case, H, cases
from tests.tolerance import assert_close, bound, condition, peak, refused


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_innovations_diagonalise_the_mass_matrix(case: Case) -> None:
    """½ νᵀν is the kinetic energy; νᵀ m⁻¹τ the power; ν and v map to each other."""
    q, v, tau = case.state
    nu = case.on("innovations", q, v)
    kinetic, _ = case.on("energy", q, v)
    assert_close(0.5 * np.sum(nu * nu, axis=-1), kinetic, case.tolerance, peak(kinetic))
    assert_close(case.on("innovations_to_velocities", q, nu), v, case.solving_tolerance)
    forces = case.on("innovation_forces", q, tau)
    assert_close(np.sum(nu * forces, axis=-1), np.sum(v * tau, axis=-1), case.solving_tolerance, peak(nu * forces))
    solved = case.on("innovations_to_velocities", q, forces)  # m⁻ᵀ m⁻¹ τ
    expected = case.on("mass_matrix_solve", q, tau)
    assert_close(solved, expected, case.solving_tolerance, peak(expected))


def test_factor_and_covariance() -> None:
    """M = m mᵀ, with m found column by column; m⁻ᵀ of unit vectors has the product M⁻¹."""
    robot = general.robot("nodes")
    q, one = general.state("nodes").q, np.eye(robot.nv)
    root = robot.innovations(q, one)  # rows of the result are columns of mᵀ
    M = robot.mass_matrix(q)
    assert_close(root @ root.T, M, bound(robot.nv), peak(M))
    spread = robot.innovations_to_velocities(q, one).T
    expected = robot.mass_matrix_inverse(q)
    assert_close(spread @ spread.T, expected, bound(robot.nv, condition(M)), peak(expected))


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_coriolis_forces_of_innovations_do_no_work(case: Case) -> None:
    """ν̇ + C = m⁻¹ τ with νᵀ C = the power of gravity alone."""
    q, v, tau = case.state
    a = case.on("forward_dynamics", q, v, tau)
    nu = case.on("innovations", q, v)
    rate = case.exact("innovations", q + 1j * H * case.q_rate, v + 1j * H * a).imag / H
    lost = case.on("innovation_forces", q, tau) - rate
    gravity = case.on("gravity_forces", q)
    scale = peak(np.abs(nu) * np.abs(rate)) * case.robot.nv
    assert_close(np.sum(nu * lost, axis=-1), np.sum(v * gravity, axis=-1), case.solving_tolerance, scale)


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_gradient_of_the_log_determinant(case: Case) -> None:
    q, _, _ = case.state
    gradient = case.on("mass_matrix_log_determinant_gradient", q)
    expected = case.robot.mass_matrix_log_determinant.vjp(q, np.ones(case.shape))
    assert_close(gradient, expected, 4 * case.solving_tolerance, peak(expected))


@pytest.mark.parametrize("name", general.NAMES)
def test_on_nodes_of_every_kind(name: str) -> None:
    robot, s = general.robot(name), general.state(name)
    M = robot.mass_matrix(s.q)
    tolerance = 16 * bound(robot.nv, condition(M))
    gradient = robot.mass_matrix_log_determinant_gradient(s.q)
    expected = robot.mass_matrix_log_determinant.vjp(s.q, 1.0)
    assert_close(gradient, expected, tolerance, max(1.0, peak(expected)))
    nu = robot.innovations(s.q, s.v)
    assert_close(nu @ nu, s.v @ M @ s.v, tolerance, peak(nu @ nu))
    assert_close(robot.innovations_to_velocities(s.q, nu), s.v, tolerance)
    forces = robot.innovation_forces(s.q, s.tau)
    assert_close(nu @ forces, s.v @ s.tau, tolerance, peak(np.abs(nu) @ np.abs(forces)))


def test_cost_is_linear() -> None:
    for name in ("innovations", "innovation_forces", "mass_matrix_log_determinant_gradient"):
        ten, hundred, thousand = (kt.zoo.chain(n).count(name).total for n in (10, 100, 1000))
        assert (thousand - hundred) * 90 == pytest.approx((hundred - ten) * 900, rel=1e-3)


def check_hybrid(
    robot: kt.Model, q: Any, v: Any, a: Any, names: list[str], f_ext: Any, tolerance: float, engine: str
) -> None:
    """Whatever is given, a and τ are those of inverse dynamics."""
    tau = robot.inverse_dynamics(q, v, a, f_ext=f_ext)
    x = np.where(robot._mask(names) == 1.0, a, tau)
    robot._hybrid.compile()
    found = robot._hybrid.engine(engine)(q, v, x, robot._mask(names), f_ext)
    assert_close(found.a, a, tolerance, peak(a))
    assert_close(found.tau, tau, tolerance, max(1.0, peak(tau)))


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_given_accelerations(case: Case) -> None:
    if case.engine == "specialized":
        return
    q, v, a = case.state
    joints = [joint.name for joint in case.robot.joints]
    f_ext = {case.frames[-1]: np.arange(1.0, 7.0)}
    for names in (joints[::2], [], joints):
        check_hybrid(case.robot, q, v, a, names, f_ext, 16 * case.solving_tolerance, case.engine)


@pytest.mark.parametrize("name", general.NAMES)
def test_given_accelerations_of_nodes_of_every_kind(name: str) -> None:
    robot, s = general.robot(name), general.state(name)
    first = robot.mechanism.v_starts[1]
    names = [joint.name for joint in robot.joints if joint.nv and joint.v_start < first]
    condition_number = condition(robot.mass_matrix(s.q))
    check_hybrid(robot, s.q, s.v, s.a, names, s.f_ext, 64 * bound(robot.nv, condition_number), "native")


def test_given_accelerations_are_called_by_name() -> None:
    robot = kt.zoo.humanoid24()
    q, rng = robot.random_configuration(1), np.random.default_rng(0)
    v, x = rng.normal(size=(2, 3, robot.nv))
    found = robot.hybrid_dynamics(q, v, x, ["left_elbow"])
    elbow = robot.joint("left_elbow").v_start
    np.testing.assert_array_equal(found.a[:, elbow], x[:, elbow])
    one = robot.hybrid_dynamics(q, v[1], x[1], "left_elbow")
    np.testing.assert_array_equal(one.a, found.a[1])
    refused("joint", robot.hybrid_dynamics, q, v, x, ["wing"], error=UnknownNameError)
