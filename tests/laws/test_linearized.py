"""Derivatives of the dynamics against complex steps, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, SingularMechanismError
from tests.laws.cases import LONG, Case, cases
from tests.laws.linearization import along, directions, peak, wrenches
from tests.tolerance import assert_close

MATRICES = {"inverse_dynamics": "inverse_dynamics_derivatives", "forward_dynamics": "forward_dynamics_derivatives"}
FUNCTIONS = tuple(MATRICES)
NAMES = ("one", "every kind", "every kind, armature", "forest", "10 km away", "legged", "humanoid24")
CASES = cases(long=False, complex_step=True, names=NAMES)


#: How exact derivatives are at these states, though mass matrices have conditions of up to 1e5.
EXACT = 2e-12


def tolerance_of(case: Case, function: str) -> float:
    """What rounding explains: forward dynamics solves with the mass matrix, and its derivative once more."""
    return case.tolerance if function == "inverse_dynamics" else case.solving_tolerance


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_complex_steps(case: Case, function: str) -> None:
    """Of jvp, of the matrices and of vjp, with wrenches, each against the same exact change along a direction."""
    step, forces = directions(case), wrenches(case)
    exact = along(case, function, step, f_ext=forces)
    differentiated = getattr(case.robot, function).engine(case.engine)
    tolerance = min(tolerance_of(case, function), EXACT)
    assert_close(differentiated.jvp(*case.state, *step, f_ext=forces), exact, tolerance)
    matrices = case.on(MATRICES[function], *case.state, f_ext=forces)
    terms = [(matrix @ d[..., None])[..., 0] for matrix, d in zip(matrices, step, strict=True)]
    assert_close(sum(terms), exact, tolerance, peak(*terms))
    weights = np.random.default_rng(7).uniform(-1.0, 1.0, (*case.shape, case.robot.nv))
    gradients = differentiated.vjp(*case.state, weights, f_ext=forces)
    products = [np.sum(gradient * d, axis=-1) for gradient, d in zip(gradients, step, strict=True)]
    scale = peak(np.sum(np.abs(weights * exact), axis=-1), *products)
    assert_close(sum(products), np.sum(weights * exact, axis=-1), tolerance, scale)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", [*CASES, Case(LONG, "native", ())], ids=str)
def test_gradients_weigh_changes(case: Case, function: str) -> None:
    """The gradients times a direction are the weights times the change along it."""
    step, forces = directions(case), wrenches(case)
    weights = np.random.default_rng(7).uniform(-1.0, 1.0, (*case.shape, case.robot.nv))
    differentiated = getattr(case.robot, function).engine(case.engine)
    change = differentiated.jvp(*case.state, *step, f_ext=forces)
    gradients = differentiated.vjp(*case.state, weights, f_ext=forces)
    products = [np.sum(gradient * d, axis=-1) for gradient, d in zip(gradients, step, strict=True)]
    scale = peak(np.sum(np.abs(weights * change), axis=-1), *(np.abs(product) for product in products))
    assert_close(sum(products), np.sum(weights * change, axis=-1), tolerance_of(case, function), scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_with_respect_to_acceleration_is_momentum(case: Case) -> None:
    q, v, a = case.state
    expected = np.einsum("...ij,...j->...i", case.on("mass_matrix", q), v)
    *_, momentum = case.robot.inverse_dynamics.engine(case.engine).vjp(q, v, a, v)
    assert_close(momentum, expected, case.tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_with_respect_to_force_solves_with_the_mass_matrix(case: Case) -> None:
    q, v, tau = case.state
    *_, solved = case.robot.forward_dynamics.engine(case.engine).vjp(q, v, tau, v)
    assert_close(solved, case.on("mass_matrix_solve", q, v), case.solving_tolerance)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matrices_give_changes_and_gradients(case: Case, function: str) -> None:
    """The columns of the matrices are changes along unit directions, their rows are gradients of unit weights."""
    forces = wrenches(case)
    n = case.robot.nv
    state = [array[..., None, :] for array in case.state]
    each = {frame: wrench[..., None, :] for frame, wrench in forces.items()}
    differentiated = getattr(case.robot, function)
    matrices = case.on(MATRICES[function], *case.state, f_ext=forces)
    rows = differentiated.vjp(*state, np.eye(n), f_ext=each)
    for place, (matrix, row) in enumerate(zip(matrices, rows, strict=True)):
        units = [np.eye(n) if place == i else np.zeros((n, n)) for i in range(3)]
        columns = np.swapaxes(differentiated.jvp(*state, *units, f_ext=each), -1, -2)
        assert_close(matrix, columns, tolerance_of(case, function))
        assert_close(matrix, row, tolerance_of(case, function))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_is_the_inverse_of_inverse(case: Case) -> None:
    """A_C = M⁻¹ A_D and B_C = M⁻¹ B_D, where both are taken about the same accelerations. [JR] Lemma 4.1."""
    q, v, a = case.state
    tau = case.on("inverse_dynamics", q, v, a)
    inverse_q, inverse_v, M = case.on("inverse_dynamics_derivatives", q, v, a)
    forward_q, forward_v, Minv = case.on("forward_dynamics_derivatives", q, v, tau)
    # multiplied by M, so that only one side has its condition
    for forward, inverse in ((forward_q, inverse_q), (forward_v, inverse_v)):
        scale = peak(inverse, np.abs(M) @ np.abs(forward))
        assert_close(-M @ forward, inverse, case.solving_tolerance, scale)
    assert_close(Minv, case.on("mass_matrix_inverse", q), case.solving_tolerance)
    assert_close(M, case.on("mass_matrix", q), case.tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conventional_algorithms(case: Case) -> None:
    """[JR] Algorithms 3 and 4: the O(n³) way over M and ∂τ."""
    q, v, tau = case.state
    a = case.on("forward_dynamics", q, v, tau)
    inverse_q, inverse_v, M = case.on("inverse_dynamics_derivatives", q, v, a)
    expected = np.linalg.solve(M, np.concatenate([-inverse_q, -inverse_v], axis=-1))
    forward_q, forward_v, _ = case.on("forward_dynamics_derivatives", q, v, tau)
    assert_close(np.concatenate([forward_q, forward_v], axis=-1), expected, case.solving_tolerance)
    dq, dv, dtau = directions(case)
    rest = case.robot.inverse_dynamics.engine(case.engine).jvp(q, v, a, dq, dv, np.zeros_like(a))
    change = np.linalg.solve(M, (dtau - rest)[..., None])[..., 0]
    forward = case.robot.forward_dynamics.engine(case.engine).jvp(q, v, tau, dq, dv, dtau)
    assert_close(forward, change, case.solving_tolerance)


def test_linearize_names_its_results() -> None:
    robot = kt.zoo.humanoid24()
    q, v = robot.random_configuration(0, (2,)), np.full(robot.nv, 0.5)
    inverse, forward = robot.linearize(q, v, a=v), robot.linearize(q, v, tau=v)
    assert isinstance(inverse, kt.LinearizedInverse)
    assert isinstance(forward, kt.LinearizedForward)
    assert inverse.dq.shape == forward.dtau.shape == (2, robot.nv, robot.nv)
    np.testing.assert_array_equal(robot.linearize(q, v, v).da, inverse.da)
    pushed = robot.linearize(q, v, tau=v, f_ext={robot.bodies[-1].name: np.ones(6)})
    np.testing.assert_array_equal(pushed.dtau, forward.dtau)
    assert not np.array_equal(pushed.dq, forward.dq)
    for wrong in ({}, {"a": v, "tau": v}):
        with pytest.raises(InputError, match="either a=.*or tau="):
            robot.linearize(q, v, **wrong)


def test_functions_without_derivatives_say_so() -> None:
    for which in ("jvp", "vjp", "hvp"):
        with pytest.raises(AttributeError, match=f"mass_matrix has no {which}"):
            getattr(kt.zoo.humanoid24().mass_matrix, which)


@pytest.mark.parametrize("which", ["jvp", "vjp", "hvp"])
def test_derivatives_are_functions_like_others(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compiled ahead, counted, run by any engine, and known to `help`."""
    robot = kt.zoo.chain(3)
    name = f"forward_dynamics.{which}"
    derivative = getattr(robot.forward_dynamics, which)
    assert derivative.name == name
    assert repr(derivative).startswith(f"<{name}(q, v, tau, ")
    assert repr(derivative).endswith(", f_ext=None, *, out=None) on the native engine>")
    assert derivative.engine("native") is derivative
    assert list(derivative.__signature__.parameters)[:3] == ["q", "v", "tau"]
    assert robot.count(name) == derivative.count()
    assert derivative.count().total > robot.forward_dynamics.count().total
    robot.compile([name])
    monkeypatch.setattr("kinetree.runtime.function.bind", None)  # nothing is left to do
    state = [np.full(robot.nv, 0.3)] * len(derivative.algorithm.inputs[:-1])
    expected = derivative.engine("reference")(*state)
    for actual, exact in zip(np.atleast_2d(derivative(*state)), np.atleast_2d(expected), strict=True):
        assert_close(actual, exact, 1e-12)


def test_a_massless_leaf_is_named() -> None:
    builder = kt.Builder(name="ghostly").add_body("arm", parent="world", joint="revolute", mass=1.0, inertia=np.eye(3))
    robot = builder.add_body("ghost", parent="arm", joint="revolute", mass=0.0).build()
    state = np.zeros((3, robot.nv))
    assert np.isfinite(robot.linearize(*state[:2], a=state[2]).dq).all()
    with pytest.raises(SingularMechanismError, match="'ghost'"):
        robot.linearize(*state[:2], tau=state[2])
    for derivative, count in ((robot.forward_dynamics.jvp, 6), (robot.forward_dynamics.vjp, 4),
                              (robot.forward_dynamics.hvp, 7)):  # fmt: skip
        with pytest.raises(SingularMechanismError, match="'ghost'"):
            derivative(*[state[0]] * count)
