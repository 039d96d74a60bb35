"""The centre of mass and the momentum about it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.cases import Array, Case, cases
from tests.laws.test_dynamics import H, peak
from tests.laws.test_kinematics import rotate
from tests.tolerance import assert_close


def bodies(case: Case, q: Array, v: Array) -> list[tuple[float, Array, Array, Array, Array]]:
    """Mass, centre, its velocity, angular velocity and rotational inertia of each body, all in world axes."""
    frames = [body.name for body in case.robot.bodies if body.mass > 0.0]
    poses = case.on("pose", q, frames)
    velocities = case.on("velocity", q, v, frames, reference="local_world_aligned")
    found = []
    for i, body in enumerate(body for body in case.robot.bodies if body.mass > 0.0):
        R, p = poses[..., i, :3, :3], poses[..., i, :3, 3]
        angular, linear = velocities[..., i, :3], velocities[..., i, 3:]
        arm = rotate(R, np.broadcast_to(body.com, p.shape))
        inertia = R @ body.inertia @ np.swapaxes(R, -1, -2)
        found.append((body.mass, p + arm, linear + np.cross(angular, arm), angular, inertia))
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_centre_of_mass_is_the_weighted_mean(case: Case) -> None:
    q, v, _ = case.state
    parts = bodies(case, q, v)
    total = sum(mass for mass, *_ in parts)
    expected = sum(mass * centre for mass, centre, *_ in parts) / total
    assert_close(case.on("center_of_mass", q), expected, case.tolerance)


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_jacobian_of_the_centre_of_mass(case: Case) -> None:
    q, v, _ = case.state
    moving = case.exact("center_of_mass", q + 1j * H * case.q_rate)
    J = case.on("center_of_mass_jacobian", q)
    assert J.shape == (*case.shape, 3, case.robot.nv)
    assert_close(np.einsum("...ij,...j->...i", J, v), moving.imag / H, case.tolerance, peak(moving.imag / H, J))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_centroidal_momentum(case: Case) -> None:
    """A_G v is the momentum about the centre of mass, summed body by body."""
    q, v, _ = case.state
    parts = bodies(case, q, v)
    centre = case.on("center_of_mass", q)
    linear = sum(mass * velocity for mass, _, velocity, _, _ in parts)
    angular = sum(
        rotate(inertia, spin) + mass * np.cross(position - centre, velocity)
        for mass, position, velocity, spin, inertia in parts
    )
    expected = np.concatenate([angular, linear], axis=-1)
    A = case.on("centroidal_momentum_matrix", q)
    assert A.shape == (*case.shape, 6, case.robot.nv)
    # Positions enter as differences of world coordinates, which far from the origin have lost the digits already.
    scale = peak(expected, np.einsum("...ij,...j->...i", np.abs(A), np.abs(v))) * max(1.0, peak(centre))
    assert_close(np.einsum("...ij,...j->...i", A, v), expected, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_linear_momentum_is_mass_times_velocity_of_the_centre(case: Case) -> None:
    q, _, _ = case.state
    total = sum(body.mass for body in case.robot.bodies)
    A, J = case.on("centroidal_momentum_matrix", q), case.on("center_of_mass_jacobian", q)
    assert_close(A[..., 3:, :], total * J, case.tolerance)


@pytest.mark.parametrize("case", cases(complex_step=True, names=("legged",)), ids=str)
def test_a_free_robot_keeps_its_angular_momentum(case: Case) -> None:
    """No joint torque changes the momentum about the centre of mass; gravity alone changes the linear one."""
    q, v, tau = case.state
    tau = tau.copy()
    tau[..., :6] = 0.0
    a = case.on("forward_dynamics", q, v, tau)
    moving = case.exact("centroidal_momentum_matrix", q + 1j * H * case.q_rate)
    rate = np.einsum("...ij,...j->...i", moving.imag / H, v) + np.einsum("...ij,...j->...i", moving.real, a)
    weight = sum(body.mass for body in case.robot.bodies) * case.robot.mechanism.gravity
    expected = np.concatenate([np.zeros((*case.shape, 3)), np.broadcast_to(weight, (*case.shape, 3))], axis=-1)
    scale = peak(expected, np.einsum("...ij,...j->...i", np.abs(moving.real), np.abs(a)))
    assert_close(rate, expected, case.solving_tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_potential_energy_is_weight_at_the_centre_of_mass(case: Case) -> None:
    q, v, _ = case.state
    total = sum(body.mass for body in case.robot.bodies)
    _, potential = case.on("energy", q, v)
    centre, gravity = case.on("center_of_mass", q), case.robot.mechanism.gravity
    expected = -total * (centre @ gravity)
    assert_close(potential, expected, case.tolerance, peak(total * np.abs(centre) * np.abs(gravity)))
