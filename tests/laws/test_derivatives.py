"""Derivatives of dynamics and time steps, first and second, against complex steps, differences and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.derivatives.inverse_dynamics_curvature import inverse_dynamics_curvature
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.compiler.count import count
from kinetree.errors import ContractError, InputError, SingularMechanismError, UnknownNameError, UnsupportedError
from kinetree.language.algorithm import algorithm
from kinetree.language.forward_mode import directional_derivative
from kinetree.runtime import reference
from kinetree.runtime.function import Function
from kinetree.runtime.kernels import bind
from tests.laws.cases import (
    ENGINES,
    LONG,
    Case,
    H,
    along,
    cases,
    configuration_rate,
    directions,
    model,
    times,
    transposed,
    weights_of,
    wrenches,
)
from tests.tolerance import assert_close, assert_near, bound, peak, refused
from tests.trees import mixed, random_mechanism

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
    expected = times(case.on("mass_matrix", q), v)
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
        columns = transposed(differentiated.jvp(*state, *units, f_ext=each))
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
        refused("either a=.*or tau=", robot.linearize, q, v, **wrong)


def test_functions_without_derivatives_say_so() -> None:
    robot = kt.zoo.humanoid24()
    refused("mass_matrix has no hvp", getattr, robot.mass_matrix, "hvp", error=AttributeError)
    told = {"discretize": "forward_dynamics.hvp", "step": "discretize"}
    for name, instead in told.items():
        message = f"{name} has no derivative by forward mode; use {instead}$"
        refused(message, getattr, getattr(robot, name), "jvp", error=UnsupportedError)


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
    refused("'ghost'", robot.linearize, *state[:2], tau=state[2], error=SingularMechanismError)
    for derivative, number in ((robot.forward_dynamics.jvp, 6), (robot.forward_dynamics.vjp, 4),
                              (robot.forward_dynamics.hvp, 7)):  # fmt: skip
        refused("'ghost'", derivative, *[state[0]] * number, error=SingularMechanismError)


SECOND_NAMES = ("one", "every kind", "every kind, armature", "10 km away", "legged", "humanoid24")
SECOND = cases(long=False, complex_step=True, names=SECOND_NAMES)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", SECOND, ids=str)
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


@pytest.mark.parametrize("engine", ENGINES)
def test_second_derivatives_of_joints_with_one_freedom(engine: str) -> None:
    """All of them at once, beside products with unit directions, on a tree with several roots and tips."""
    joints = mixed(9, 4, "revolute", "prismatic", "helical")
    robot = random_mechanism("one freedom", joints, 4, roots=2, armature=0.5, branching=0.5).kinetree()
    n, rng = robot.nv, np.random.default_rng(3)
    q = robot.random_configuration(rng, shape=(11,))
    v, a, w = rng.normal(size=(3, 11, n))
    f: Function[..., Any] = Function("curvature", robot.mechanism, inverse_dynamics_curvature)
    qq, qv, qa, vv = f.engine(engine)(q, v, a, w)
    given, none = [x[:, None] for x in (q, v, a, w)], np.zeros(n)
    wanted = robot.inverse_dynamics.hvp(*given, np.eye(n), none, none)
    _, by_v, _ = robot.inverse_dynamics.hvp(*given, none, np.eye(n), none)
    for found, expected in zip((qq, qv, qa, vv), (*wanted, by_v), strict=True):
        assert_close(found, expected, bound(10 * n))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", SECOND, ids=str)
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
        assert_near(made.A[1, 2], one.A, 1e-14)
    refused("rk4", robot.step, q, v, v, 0.01, "euler", error=UnknownNameError)


def test_bad_input() -> None:
    robot = kt.zoo.cart_pole()
    q, v, tau = robot.random_configuration(0, (3,)), np.zeros((4, 2)), np.zeros(2)
    for method in METHODS:
        with pytest.raises(InputError, match=r"batch shapes do not broadcast: q \(3,\), v \(4,\), tau \(\)"):
            robot.discretize(q, v, tau, 0.01, method)
        for function in (robot.step, robot.discretize):
            for dt in ("0.1", 1j, None):
                refused("dt", function, q, v[:3], tau, dt, method)
            refused("shape", function, q, v[:3], np.zeros(3), 0.01, method)
            wrong = q.copy()
            wrong[1, 0] = np.nan
            for part in function(wrong, v[:3], tau, 0.01, method):
                assert np.isfinite(part[[0, 2]]).all()
