"""Changes of gradients along a direction: complex steps, differences, and the symmetry of second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.compiler.count import count
from kinetree.errors import ContractError
from kinetree.language.algorithm import algorithm
from kinetree.language.forward_mode import directional_derivative
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.laws.cases import Case, cases, configuration_rate
from tests.laws.linearization import H, directions, peak, wrenches
from tests.tolerance import assert_close

FUNCTIONS = ("inverse_dynamics", "forward_dynamics")
NAMES = ("one", "every kind", "every kind, armature", "10 km away", "legged", "humanoid24")
CASES = cases(long=False, complex_step=True, names=NAMES)


def tolerance_of(case: Case, function: str) -> float:
    """What rounding explains: forward dynamics solves with the mass matrix three times over."""
    return case.tolerance if function == "inverse_dynamics" else case.solving_tolerance


def weights_of(case: Case) -> Any:
    return np.random.default_rng(7).uniform(-1.0, 1.0, (*case.shape, case.robot.nv))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_complex_steps_through_gradients(case: Case, function: str) -> None:
    q, v, x = case.state
    (dq, dv, dx), forces, weights = directions(case), wrenches(case), weights_of(case)
    differentiated = getattr(case.robot, function).engine(case.engine)
    products = differentiated.hvp(q, v, x, weights, dq, dv, dx, f_ext=forces)
    steps = configuration_rate(case.robot, q, dq), dv, dx
    moved = [value + 1j * H * step for value, step in zip((q, v, x), steps)]
    for product, gradient in zip(products, differentiated.engine("reference").vjp(*moved, weights, f_ext=forces)):
        assert_close(product, gradient.imag / H, tolerance_of(case, function))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["every kind, armature", "legged"])
def test_differences_of_gradients(name: str, function: str) -> None:
    """Against central differences of fourth order, whose error is that of rounding over the step."""
    case = Case(name, "native", (3,))
    q, v, x = case.state
    (dq, dv, dx), forces, weights = directions(case), wrenches(case), weights_of(case)
    differentiated = getattr(case.robot, function)
    products = differentiated.hvp(q, v, x, weights, dq, dv, dx, f_ext=forces)

    def gradients(s: float) -> Any:
        moved = case.robot.integrate(q, s * dq), v + s * dv, x + s * dx
        return np.stack(differentiated.vjp(*moved, weights, f_ext=forces))

    h = 1e-3
    expected = (8 * (gradients(h) - gradients(-h)) - (gradients(2 * h) - gradients(-2 * h))) / (12 * h)
    assert_close(np.stack(products), expected, 1e-8)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_symmetry(case: Case, function: str) -> None:
    """eᵀ h(d) − dᵀ h(e) is the gradient along the bracket of d and e: the tangent turns with q."""
    q, v, x = case.state
    d, e, forces, weights = directions(case, 8), directions(case, 9), wrenches(case), weights_of(case)
    differentiated = getattr(case.robot, function).engine(case.engine)
    hvp = differentiated.hvp
    ahead = np.concatenate(hvp(q, v, x, weights, *d, f_ext=forces), axis=-1) * np.concatenate(e, axis=-1)
    back = np.concatenate(hvp(q, v, x, weights, *e, f_ext=forces), axis=-1) * np.concatenate(d, axis=-1)
    gradient, *_ = differentiated.vjp(q, v, x, weights, f_ext=forces)
    bracket = (case.robot.bracket(d[0]) @ e[0][..., None])[..., 0]
    scale = peak(np.abs(ahead).sum(axis=-1), np.abs(back).sum(axis=-1))
    difference = ahead.sum(axis=-1) - back.sum(axis=-1)
    assert_close(difference, np.sum(gradient * bracket, axis=-1), tolerance_of(case, function), scale)


def test_the_derivative_of_a_text_is_the_one_written_by_hand() -> None:
    """`along` of inverse dynamics is [JR] Algorithm 1, in more operations."""
    case = Case("every kind, armature", "reference", ())
    made = directional_derivative(inverse_dynamics, "made", "dq", {"dv": "v", "da": "a"}, ("dtau",))
    mechanism, none = case.robot.mechanism, np.zeros((0, 6))
    (by_hand,) = reference.run(inverse_dynamics_jvp, mechanism, (), [*case.state, *directions(case), none])
    (from_text,) = reference.run(made, mechanism, (), [*case.state, *directions(case), none])
    assert_close(from_text, by_hand, case.tolerance)
    assert count(made, mechanism).total > count(inverse_dynamics_jvp, mechanism).total


@algorithm(q=("q",), y=("q",), outputs=("y",))
def squares(tree: Any, q: Any, y: Any) -> None:
    """Reads coordinates themselves, and no weight."""
    for k, _ in tree.scatter():
        y[k] = q[k] * q[k]


def test_coordinates_that_a_text_reads_have_rates() -> None:
    case = Case("every kind", "reference", ())
    (q, _, _), (dq, other, _), mechanism = case.state, directions(case), case.robot.mechanism
    once = directional_derivative(squares, "squares_rate", "dq", {}, ("rate",))
    (rate,) = reference.run(once, mechanism, (), [q, dq])
    assert_close(rate, 2.0 * q * configuration_rate(case.robot, q, dq), case.tolerance)
    assert_close(bind(once, mechanism, (), "rate")(q, dq), rate, case.tolerance)

    twice = directional_derivative(once, "squares_rates", "other", {}, ("rates",), level=-1)
    (rates,) = reference.run(twice, mechanism, (), [q, dq, other])
    moved = q + 1j * H * configuration_rate(case.robot, q, other)
    (expected,) = reference.run(once, mechanism, (), [moved, dq])
    assert_close(rates, expected.imag / H, case.tolerance)
    assert_close(bind(twice, mechanism, (), "rates")(q, dq, other), rates, case.tolerance)


def test_texts_without_configuration_have_no_derivative_along_it() -> None:
    @algorithm(angles=("q",), y=("q",), outputs=("y",))
    def renamed(tree: Any, angles: Any, y: Any) -> None:
        for k, _ in tree.scatter():
            y[k] = angles[k]

    with pytest.raises(ContractError, match="'renamed' takes no configuration"):
        directional_derivative(renamed, "rate", "dq", {}, ("rate",))
