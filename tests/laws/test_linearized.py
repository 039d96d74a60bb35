"""Derivatives of the dynamics against complex steps, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.cases import Case, cases
from tests.laws.linearization import along, directions, peak, wrenches
from tests.tolerance import assert_close

FUNCTIONS = ("inverse_dynamics", "forward_dynamics")


def tolerance_of(case: Case, function: str) -> float:
    """What rounding explains: forward dynamics solves with the mass matrix, and its derivative once more."""
    return case.tolerance if function == "inverse_dynamics" else case.solving_tolerance


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_change_along_a_direction(case: Case, function: str) -> None:
    step, forces = directions(case), wrenches(case)
    jvp = getattr(case.robot, function).engine(case.engine).jvp
    for options in ({}, {"f_ext": forces}):
        expected = along(case, function, step, **options)
        assert_close(jvp(*case.state, *step, **options), expected, tolerance_of(case, function))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_gradients_weigh_changes(case: Case, function: str) -> None:
    """The gradients times a direction are the weights times the change along it."""
    step, forces = directions(case), wrenches(case)
    weights = np.random.default_rng(7).uniform(-1.0, 1.0, (*case.shape, case.robot.nv))
    differentiated = getattr(case.robot, function).engine(case.engine)
    for options in ({}, {"f_ext": forces}):
        change = differentiated.jvp(*case.state, *step, **options)
        gradients = differentiated.vjp(*case.state, weights, **options)
        assert len(gradients) == 3
        products = [np.sum(gradient * d, axis=-1) for gradient, d in zip(gradients, step)]
        scale = peak(
            np.sum(np.abs(weights * change), axis=-1), *(np.sum(np.abs(g * d), -1) for g, d in zip(gradients, step))
        )
        assert_close(sum(products), np.sum(weights * change, axis=-1), tolerance_of(case, function), scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_gradient_with_respect_to_acceleration_is_momentum(case: Case) -> None:
    q, v, a = case.state
    expected = np.einsum("...ij,...j->...i", case.on("mass_matrix", q), v)
    *_, momentum = case.robot.inverse_dynamics.engine(case.engine).vjp(q, v, a, v)
    assert_close(momentum, expected, case.tolerance)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_gradient_with_respect_to_force_solves_with_the_mass_matrix(case: Case) -> None:
    q, v, tau = case.state
    *_, solved = case.robot.forward_dynamics.engine(case.engine).vjp(q, v, tau, v)
    assert_close(solved, case.on("mass_matrix_solve", q, v), case.solving_tolerance)
