"""The laws of dynamics hold for straight-line code, where it is chosen for batches."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import kinetree as kt
from tests.laws.cases import SHAPES, Case, model
from tests.laws.test_dynamics import peak
from tests.tolerance import assert_close

ROBOTS = ("one", "every kind", "forest", "some armature", "legged", "humanoid24", "asimo35")
CASES = [Case(name, "native", shape) for name in ROBOTS for shape in SHAPES]


@cache
def specialized(name: str) -> kt.Model:
    return model(name).compile((), specialize="batch")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_inverse_of_forward_is_identity(case: Case) -> None:
    robot, (q, v, tau) = specialized(case.name), case.state
    a = robot.forward_dynamics(q, v, tau)
    scale = peak(tau, robot.bias_forces(q, v))
    assert_close(robot.inverse_dynamics(q, v, a), tau, case.solving_tolerance, scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_inverse_dynamics_is_affine_in_acceleration(case: Case) -> None:
    robot, (q, v, a) = specialized(case.name), case.state
    M = robot.mass_matrix(q)
    expected = np.einsum("...ij,...j->...i", M, a) + robot.bias_forces(q, v)
    scale = peak(expected, np.einsum("...ij,...j->...i", np.abs(M), np.abs(a)))
    assert_close(robot.inverse_dynamics(q, v, a), expected, case.tolerance, scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kinetic_energy_is_that_of_the_mass_matrix(case: Case) -> None:
    robot, (q, v, _) = specialized(case.name), case.state
    expected = np.einsum("...i,...ij,...j->...", v, robot.mass_matrix(q), v) / 2
    assert_close(robot.energy(q, v).kinetic, expected, case.tolerance, peak(expected))
