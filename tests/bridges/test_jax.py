"""Functions of JAX arrays: values are the model's, derivatives agree with differences, in both modes, jit and vmap."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import zoo
from kinetree.errors import InputError, SecondDerivativeError, SingularMechanismError, UnknownNameError
from kinetree.runtime import threads
from tests.bridges.cases import FUNCTIONS, FUNCTIONS_OF_STATES, of_state, population, pulley, robot, sample, singular
from tests.oracle import oracle
from tests.tolerance import assert_near, refused

jax = oracle("jax")
jax.config.update("jax_enable_x64", True)

module = import_module("kinetree.jax")


def bridge(name: str, model: Any) -> Any:
    return getattr(module, name)(model)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    s = sample(robot())
    expected = getattr(robot(), name)(s.q, s.v, s.x, f_ext=s.f_ext)
    for function in (bridge(name, robot()), jax.jit(bridge(name, robot()))):
        np.testing.assert_array_equal(np.asarray(function(s.q, s.v, s.x, s.f_ext)), expected)
    np.testing.assert_array_equal(
        np.asarray(bridge(name, robot())(s.q, s.v, s.x)), getattr(robot(), name)(s.q, s.v, s.x)
    )


@pytest.mark.parametrize("kind", ["floating", "every kind"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_modes_against_differences(name: str, kind: str) -> None:
    """With respect to all arguments, wrenches too, which broadcast against each other."""
    from jax.test_util import check_grads

    s = sample(robot(kind))
    function = bridge(name, robot(kind))
    for f in (function, jax.jit(function)):
        check_grads(f, (s.q, s.v, s.x, s.f_ext), order=1, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_directions_and_gradients_are_those_of_the_model(name: str) -> None:
    """`tangent_map` leads from numbers to tangents."""
    model, s = robot(), sample(robot())
    q, v, x, f_ext = s.q[0], s.v, s.x[0, 0], {frame: w.reshape(-1, 6)[0] for frame, w in s.f_ext.items()}
    dq, dv, dx, w = (np.random.default_rng(i).uniform(-1.0, 1.0, size.shape) for i, size in enumerate((q, v, x, x)))
    function = bridge(name, model)
    primal, change = jax.jvp(lambda *arrays: function(*arrays, f_ext), (q, v, x), (dq, dv, dx))
    dynamics = getattr(model, name)
    np.testing.assert_array_equal(np.asarray(primal), dynamics(q, v, x, f_ext=f_ext))
    expected = dynamics.jvp(q, v, x, model.tangent_map(q) @ dq, dv, dx, f_ext=f_ext)
    np.testing.assert_allclose(np.asarray(change), expected, rtol=1e-13, atol=1e-13)
    _, pull = jax.vjp(lambda *arrays: function(*arrays, f_ext), q, v, x)
    by_q, *rest = dynamics.vjp(q, v, x, w, f_ext=f_ext)
    for actual, exact in zip(pull(w), (model.tangent_map(q).T @ by_q, *rest), strict=True):
        np.testing.assert_allclose(np.asarray(actual), exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians(name: str) -> None:
    """jacfwd and jacrev, alone and under jit and vmap, are the matrices of `linearize`."""
    model, s = robot(), sample(robot())
    x = s.x[0, 0]
    lin = model.linearize(s.q, s.v, **{"a" if name == "inverse_dynamics" else "tau": x})
    expected = (lin[0] @ model.tangent_map(s.q), lin[1], lin[2])
    function = bridge(name, model)
    for jacobian in (jax.jacfwd, jax.jacrev):
        alone = jacobian(function, argnums=(0, 1, 2))(s.q[1], s.v, x)
        batched = jax.jit(jax.vmap(jacobian(function, argnums=(0, 1, 2)), (0, None, None)))(s.q, s.v, x)
        for one, several, exact in zip(alone, batched, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), exact[1], rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(np.asarray(several), exact, rtol=1e-11, atol=1e-11)


def bent(total: Any, point: Any, h: float = 1e-5) -> Any:
    """The Hessian of a function, by central differences of its exact gradient."""
    gradient, steps = jax.jit(jax.vmap(jax.grad(total))), h * np.eye(point.size)
    return np.asarray(gradient(point + steps) - gradient(point - steps)) / (2 * h)


def kernels(function: Any, *arrays: Any) -> list[str]:
    """Names of the kernels that a compiled program calls."""
    return re.findall(r"custom_call @kinetree\.([a-z_.]+)\.", jax.jit(function).lower(*arrays).as_text())


def test_a_vmap_is_one_call() -> None:
    """Also of gradients and of changes, and along any axis."""
    model = zoo.chain(4, seed=0)
    rng = np.random.default_rng(3)
    q, v, x = rng.uniform(-1.0, 1.0, (2, 4)), rng.uniform(-1.0, 1.0, 4), rng.uniform(-1.0, 1.0, (4, 5))
    function = bridge("forward_dynamics", model)
    values = jax.vmap(jax.vmap(function, (None, None, 1)), (0, None, None))
    np.testing.assert_array_equal(np.asarray(values(q, v, x)), model.forward_dynamics(q[:, None], v, x.T))
    assert kernels(values, q, v, x) == ["forward_dynamics"]
    gradient = jax.vmap(jax.grad(lambda t: function(q[0], v, t).sum()), 1)
    expected = np.broadcast_to(model.mass_matrix_inverse(q[0]).sum(axis=-1), (5, 4))
    np.testing.assert_allclose(np.asarray(gradient(x)), expected, rtol=1e-12)
    assert kernels(gradient, x).count("forward_dynamics.vjp") == 1
    change = jax.vmap(lambda t: jax.jvp(lambda t: function(q[0], v, t), (t,), (t,))[1], 1)
    assert kernels(change, x).count("forward_dynamics.jvp") == 1


def test_single_precision() -> None:
    model, s = robot(), sample(robot())
    arrays = [np.asarray(array, dtype=np.float32) for array in (s.q, s.v, s.x)]
    q, v, x = map(jax.numpy.asarray, arrays)
    function = bridge("forward_dynamics", model)
    assert function(q, v, x).dtype == np.float32
    assert function(np.ones(model.nq, dtype=int), v, x).dtype == np.float32
    gradient = jax.grad(lambda t: function(q, v, t).sum())(x)
    assert gradient.dtype == np.float32
    expected = model.forward_dynamics.vjp(*arrays, np.ones(model.nv))[2].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("enabled", [True, False])
def test_robots_in_float32(enabled: bool) -> None:
    """JAX's own default: float32 arrays go to float32 kernels, whose bits are those of the robot's functions."""
    model, s = robot().astype("float32"), sample(robot())
    q, v, x = (np.asarray(array, dtype=np.float32) for array in (s.q, s.v, s.x[0, 0]))
    function = bridge("forward_dynamics", model)
    jax.config.update("jax_enable_x64", enabled)
    try:
        result = jax.jit(function)(q, v, x)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(result), model.forward_dynamics(q, v, x))
        gradient = jax.grad(lambda t: function(q, v, t).sum())(x)
        assert gradient.dtype == np.float32
        expected = model.forward_dynamics.vjp(q, v, x, np.ones(model.nv))[2].sum(axis=0)
        np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-5, atol=1e-5)
    finally:
        jax.config.update("jax_enable_x64", True)
    wide = function(*(jax.numpy.asarray(array, "float64") for array in (q, v, x)))
    assert wide.dtype == np.float64  # computed in float32 all the same
    np.testing.assert_array_equal(np.asarray(wide), model.forward_dynamics(q, v, x))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32", "bfloat16"])
def test_types_are_promoted(dtype: str) -> None:
    """Whole numbers are floats."""
    model = zoo.double_pendulum()
    q, v, tau = jax.numpy.ones(2, dtype), np.array([0.3, 0.7]), np.array([0.5, 0.7])
    result = bridge("forward_dynamics", model)(q, v, tau)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(result), model.forward_dynamics(np.ones(2), v, tau))


def test_arguments_have_the_names_of_the_model_s() -> None:
    model, s = robot(), sample(robot())
    inverse, forward = bridge("inverse_dynamics", model), bridge("forward_dynamics", model)
    np.testing.assert_array_equal(inverse(q=s.q, v=s.v, a=s.x, f_ext=s.f_ext), inverse(s.q, s.v, s.x, s.f_ext))
    np.testing.assert_array_equal(jax.jit(forward)(s.q, s.v, tau=s.x), forward(s.q, s.v, s.x))


class Foreign:
    """An array of a library that JAX does not know."""

    shape = (13,)
    dtype = np.float64


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda _: Foreign(), r"forward_dynamics: tau is a tests.Foreign; pass an array of JAX or NumPy"),
        (lambda _: None, "tau is a builtins.NoneType; pass an array"),
        (lambda x: x * 1j, "tau is complex; pass real numbers"),
        (lambda x: x.astype(object), "tau is not made of numbers"),
        (lambda _: ["hello"] * 13, "tau is not made of numbers"),
        (lambda x: np.zeros((4, x.shape[-1])), r"batch shapes do not broadcast: q \(2, .*tau \(4, "),
        (lambda _: 0.5, r"tau has shape \(\), expected"),
    ],
)
def test_what_is_no_array_of_real_numbers(spoil: Any, message: str) -> None:
    model, s = robot(), sample(robot())
    refused(message, bridge("forward_dynamics", model), s.q, s.v, spoil(s.x))


def test_robots_that_have_no_such_function() -> None:
    """The error is the library's own, also where a compiled program would call the function."""
    refused("takes a kinetree.Model, got str", bridge, "inverse_dynamics", "robot")
    with pytest.raises(SingularMechanismError):
        bridge("forward_dynamics", singular())
    with pytest.raises(InputError, match="f_ext is a list; pass a dictionary"):
        bridge("forward_dynamics", robot())(np.zeros(3), np.zeros(3), np.zeros(3), [1])


def test_what_cannot_be_done() -> None:
    model, s = robot(), sample(robot())
    function = bridge("forward_dynamics", model)
    refused(r"forward_dynamics: q has shape \(2, 3\), expected \(..., 15\)", function, s.q[:, :3], s.v, s.x)
    refused(r"'tip0' has shape \(3,\), expected \(..., 6\)", function, s.q, s.v, s.x, {"tip0": np.zeros(3)})
    refused("'nope'", function, s.q, s.v, s.x, {"nope": np.zeros(6)}, error=UnknownNameError)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str) -> None:
    """In all four combinations of modes, where numbers of q are tangents: the Hessian whose rows `hvp` gives."""
    model = zoo.chain(3, seed=0)
    rng = np.random.default_rng(5)
    q, v, x, w = rng.uniform(-1.0, 1.0, (4, model.nv))
    function = bridge(name, model)

    def total(state: Any) -> Any:
        return function(*state) @ w

    directions = np.eye(3 * model.nv).reshape(-1, 3, model.nv)
    rows = [np.concatenate(getattr(model, name).hvp(q, v, x, w, *direction)) for direction in directions]
    state = np.stack([q, v, x])
    modes = (jax.jacfwd, jax.jacrev)
    for outer in modes:
        for inner in modes:
            hessian = outer(inner(total))(state).reshape(3 * model.nv, -1)
            np.testing.assert_allclose(np.asarray(hessian), rows, rtol=1e-11, atol=1e-11)
    refused("second derivatives cannot", jax.jacfwd(jax.hessian(total)), state, error=SecondDerivativeError)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_with_quaternions_and_wrenches(name: str) -> None:
    """With respect to the components of q and all other arguments: central differences of the exact gradient."""
    model, s = robot(), sample(robot())
    function, w = bridge(name, model), np.random.default_rng(7).uniform(-1.0, 1.0, model.nv)
    parts = (s.q[0], s.v, s.x[0, 0], s.f_ext["tip0"])
    ends, point = np.cumsum([part.size for part in parts])[:-1], np.concatenate(parts)

    def total(point: Any) -> Any:
        q, v, x, wrench = jax.numpy.split(point, ends)
        return function(q, v, x, {"tip0": wrench}) @ w

    differences = bent(total, point)
    for twice in (jax.jacfwd(jax.jacrev(total)), jax.jacfwd(jax.jacfwd(total))):
        hessian = np.asarray(jax.jit(twice)(point))
        np.testing.assert_allclose(hessian, differences, rtol=1e-7, atol=1e-7 * np.abs(differences).max())
        assert_near(hessian, hessian.T, 1e-13 * np.abs(hessian).max())


def test_second_derivatives_with_coupled_joints() -> None:
    """Against `hvp`, which coordinates of coupled joints share with all others."""
    model = pulley()
    function = bridge("forward_dynamics", model)
    q, v, tau = np.full(model.nq, 0.3), np.full(model.nv, 0.7), np.ones(model.nv)
    once = jax.jacfwd(jax.jacfwd(function))(q, v, tau)
    again = jax.jacfwd(jax.jacrev(function))(q, v, tau)
    one, still = np.ones(model.nv), np.zeros(model.nv)
    expected = model.forward_dynamics.hvp(q, v, tau, one, one, still, still).dq
    np.testing.assert_allclose(np.asarray(once).reshape(-1), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(again).reshape(-1), expected, rtol=1e-12)


def test_large_batches_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits, in a loop too, in which a wait for a thread that never comes would not end."""
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 1024)
    model = zoo.double_pendulum(masses=(1.0, 1.25))  # its handlers are made here
    rng = np.random.default_rng(0)
    q, v, tau = rng.uniform(-1.0, 1.0, (3, 501, 2))
    before = threads.get_threads()
    try:
        threads.set_threads(3)
        function = bridge("forward_dynamics", model)
        np.testing.assert_array_equal(jax.jit(function)(q, v, tau), model.forward_dynamics(q, v, tau))
        single = jax.jit(function)(*(x.astype(np.float32) for x in (q, v, tau)))
        expected = model.forward_dynamics(*(x.astype(np.float32).astype(np.float64) for x in (q, v, tau)))
        np.testing.assert_array_equal(single, expected.astype(np.float32))
        loop = jax.jit(lambda v: jax.lax.scan(lambda v, _: (function(q, v, tau), None), v, None, length=50)[0])
        several = loop(v)
        threads.set_threads(1)
        np.testing.assert_array_equal(several, loop(v))
    finally:
        threads.set_threads(before)


jax.config.update("jax_enable_x64", True)

NAMES = tuple(FUNCTIONS_OF_STATES)


def flat(results: Any) -> Any:
    """Results in one array."""
    return jax.numpy.stack(results) if isinstance(results, tuple) else results


@pytest.mark.parametrize("name", NAMES)
def test_values_have_the_bits_of_the_model(name: str) -> None:
    function, own, given = of_state(name, module, robot())
    np.testing.assert_array_equal(flat(function(*given)), flat(own(*given)))
    single = [x[0] for x in given]
    np.testing.assert_array_equal(flat(jax.jit(function)(*single)), flat(own(*single)))
    assert type(function(*given)) is type(own(*given)) or not isinstance(own(*given), tuple)


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_of_functions_of_states(name: str) -> None:
    from jax.test_util import check_grads

    function, _, given = of_state(name, module, robot())
    check_grads(lambda *x: flat(function(*x)), given, order=1, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_of_functions_of_states(name: str) -> None:
    """Of a robot with quaternions: central differences of the first."""
    model = robot()
    function, _, given = of_state(name, module, model)
    rng = np.random.default_rng(4)
    point, ends = np.concatenate([x[0] for x in given]), np.cumsum([x.shape[-1] for x in given])[:-1]
    weights = rng.uniform(-1.0, 1.0, flat(function(*(x[0] for x in given))).shape)

    def total(point: Any) -> Any:
        return (flat(function(*jax.numpy.split(point, ends))) * weights).sum()

    differences = bent(total, point)
    for twice in (jax.hessian(total), jax.jacfwd(jax.jacfwd(total)), jax.jacrev(jax.jacfwd(total))):
        assert_near(np.asarray(jax.jit(twice)(point)), differences, 1e-7)


@pytest.mark.parametrize("name", ["mass_matrix", "velocity", "inverse_inertia"])
@pytest.mark.parametrize("kind", ["every kind", "coupled"])
def test_robots_of_every_kind(name: str, kind: str) -> None:
    from jax.test_util import check_grads

    function, _, given = of_state(name, module, pulley() if kind == "coupled" else robot(kind))
    check_grads(function, given, order=2, modes=["fwd", "rev"], atol=1e-5, rtol=1e-5)


def test_difference() -> None:
    """Its derivatives, and that it takes back what `integrate` does."""
    from jax.test_util import check_grads

    model = robot()
    q0, q1 = model.random_configuration(np.random.default_rng(2), (2, 3))
    function = module.difference(model)
    np.testing.assert_array_equal(np.asarray(function(q0, q1)), model.difference(q0, q1))
    check_grads(function, (q0, q1), order=2, modes=["fwd", "rev"], atol=1e-5, rtol=1e-5)
    back = jax.jacfwd(lambda v: function(q0[0], module.integrate(model)(q0[0], v)))(0.3 * np.ones(model.nv))
    assert_near(np.asarray(back), np.eye(model.nv), 1e-12)


def test_second_derivatives_of_integration() -> None:
    """Also for steps so small that the closed forms of their rotations cancel."""
    model = robot()
    rng = np.random.default_rng(5)
    q, unit = model.random_configuration(rng), rng.uniform(-1.0, 1.0, model.nv)
    weights = rng.uniform(-1.0, 1.0, model.nq)
    function = module.integrate(model)

    def total(point: Any) -> Any:
        return function(point[: model.nq], point[model.nq :]) @ weights

    hessian = jax.jit(jax.hessian(total))
    for size in (1.0, 1e-9, 1e-14, 0.0):
        point = np.concatenate([q, size * unit])
        assert_near(np.asarray(hessian(point)), bent(total, point), 1e-8)


def test_second_derivatives_of_a_rollout() -> None:
    """The Hessian of a loss at the end of ten steps of a floating robot."""
    model = robot()
    rng = np.random.default_rng(6)
    q0, (v0, tau) = model.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, model.nv))
    step = module.step(model)

    def loss(tau: Any) -> Any:
        (q, v), _ = jax.lax.scan(lambda state, _: (step(*state, tau, 1e-2), None), (q0, v0), None, length=10)
        return (q**2).sum() + (v**2).sum()

    differences = bent(loss, tau, 1e-4)
    hessian = np.asarray(jax.jit(jax.hessian(loss))(tau))
    assert_near(hessian, differences, 1e-7 * np.abs(differences).max())


def test_integrate() -> None:
    """On quaternions of any length; the result has unit length, and so have its derivatives no part along it."""
    from jax.test_util import check_grads

    model = robot()
    rng = np.random.default_rng(2)
    q, v = model.random_configuration(rng, (2,)), rng.uniform(-1.0, 1.0, (3, 1, model.nv))
    function = module.integrate(model)
    np.testing.assert_array_equal(np.asarray(function(q, v, 0.1)), model.integrate(q, v * 0.1))
    check_grads(function, (q, v, 0.1), order=1, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


def test_integrate_moves_the_joints_of_a_loop() -> None:
    """Joints that follow have derivatives, too."""
    inertia = np.diag([1e-4, 0.02, 0.02])
    builder = kt.Builder().add_body("crank", mass=0.3, com=(0.15, 0.0, 0.0), inertia=inertia)
    builder.add_body("rod", parent="crank", placement=(np.eye(3), (0.3, 0.0, 0.0)), mass=0.9, inertia=inertia)
    builder.add_frame("tip", body="rod", placement=(np.eye(3), (0.9, 0.0, 0.0)))
    builder.add_frame("post", placement=(np.eye(3), (1.0, 0.5, 0.0)))
    model = builder.distance("tip", "post", length=0.2).independent("crank_joint").build(near={"crank_joint": 0.8})
    q, v, h = model.neutral(), np.array([2.0]), 1e-5
    slope = jax.jacfwd(module.integrate(model), argnums=1)(q, v, 0.1)
    differences = (model.integrate(q, v + h, 0.1) - model.integrate(q, v - h, 0.1)) / (2 * h)
    assert_near(np.asarray(slope)[:, 0], differences, 1e-9)
    assert abs(differences[1]) > 1e-3


def test_a_step_is_the_model_s() -> None:
    model = robot()
    rng = np.random.default_rng(3)
    q, (v, tau) = model.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, model.nv))
    for actual, expected in zip(module.step(model)(q, v, tau, 1e-3), model.step(q, v, tau, 1e-3), strict=True):
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-14, atol=1e-14)


def test_gradient_through_a_rollout() -> None:
    """Of a floating robot, by scan, against differences of the model's own steps."""
    model = robot()
    rng = np.random.default_rng(4)
    q0, (v0, w) = model.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, model.nv))
    taus = rng.uniform(-1.0, 1.0, (20, model.nv))
    step, dt = module.step(model), 1e-2

    def loss(taus: Any) -> Any:
        def advance(state: Any, tau: Any) -> Any:
            return step(*state, tau, dt), None

        (q, v), _ = jax.lax.scan(advance, (q0, v0), taus)
        return (q**2).sum() + v @ w

    def reference(taus: Any) -> float:
        q, v = q0, v0
        for tau in taus:
            q, v = model.step(q, v, tau, dt)
        return float((q**2).sum() + v @ w)

    value, gradient = jax.jit(jax.value_and_grad(loss))(taus)
    assert value == pytest.approx(reference(taus), rel=1e-12)
    direction = rng.standard_normal(taus.shape)
    h = 1e-5
    difference = (reference(taus + h * direction) - reference(taus - h * direction)) / (2 * h)
    assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-6)


def test_single_precision_and_whole_numbers() -> None:
    model = zoo.double_pendulum()
    function = module.mass_matrix(model)
    q = np.array([0.3, 0.4], dtype=np.float32)
    assert function(jax.numpy.asarray(q)).dtype == np.float32
    np.testing.assert_array_equal(np.asarray(function(q)), model.mass_matrix(q).astype(np.float32))
    assert function(np.array([1, 2])).dtype == np.float64


@pytest.mark.parametrize("make", ["mass_matrix", "integrate", "step"])
def test_what_is_no_model(make: str) -> None:
    refused("takes a kinetree.Model, got str", getattr(module, make), "robot")


def test_bad_input() -> None:
    model = zoo.double_pendulum()
    refused("'nope'", module.pose, model, "nope", error=UnknownNameError)
    refused(r"mass_matrix: q has shape \(3,\), expected \(..., 2\)", module.mass_matrix(model), np.zeros(3))
    refused("mass_matrix: q is complex", module.mass_matrix(model), np.zeros(2) * 1j)
    refused(r"integrate: v has shape \(3,\), expected \(..., 2\)", module.integrate(model), np.zeros(2), np.zeros(3))
    refused("integrate: batch shapes do not broadcast", module.integrate(model), np.zeros((3, 2)), np.zeros((4, 2)))


@pytest.mark.parametrize("name", ["mass_matrix", "bias_forces", "energy", "inverse_inertia"])
def test_functions_of_populations(name: str) -> None:
    """Values, gradients and Hessians are those of each robot alone."""
    several, alone = population(robot())
    model = robot()
    path, choice, _ = FUNCTIONS_OF_STATES[name]
    _, _, given = of_state(name, module, model)
    point = [x[0] for x in given]
    make = getattr(module, path.rpartition(".")[2])

    def total(robot: Any, weights: Any) -> Any:
        function = make(robot, *choice(model))
        return lambda *x: (flat(function(*x)) * weights).sum()

    shape = flat(make(several, *choice(model))(*point)).shape
    weights = np.random.default_rng(0).uniform(-1.0, 1.0, shape)
    each = [weights[:, i] if name == "energy" else weights[i] for i in range(3)]
    for derivative in (lambda f: f, jax.grad, jax.hessian):
        expected = sum(derivative(total(one, w))(*point) for one, w in zip(alone, each, strict=True))
        found = derivative(total(several, weights))(*point)
        assert_near(np.asarray(found), np.asarray(expected), 1e-11 * np.abs(np.asarray(expected)).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dynamics_of_populations(name: str) -> None:
    """Values have the bits of the population; gradients are those of each robot alone; vmapped, jitted."""
    several, alone = population(robot())
    s = sample(robot())
    q, v, x, f_ext = s.q[0], s.v, s.x[0, 0], {"tip0": s.f_ext["tip0"]}
    function = bridge(name, several)
    np.testing.assert_array_equal(np.asarray(jax.jit(function)(q, v, x)), getattr(several, name)(q, v, x))
    with pytest.raises(InputError, match=r"do not broadcast: q .* population \(3, "):
        function(np.zeros((2, *q.shape)), v, x)
    w = np.random.default_rng(0).uniform(-1.0, 1.0, (3, robot().nv))
    slope = jax.jit(jax.grad(lambda *given: (function(*given) * w).sum(), argnums=(0, 1, 2, 3)))(q, v, x, f_ext)
    parts = [
        jax.grad(lambda *given: bridge(name, one)(*given) @ each, argnums=(0, 1, 2, 3))(q, v, x, f_ext)  # noqa: B023
        for one, each in zip(alone, w, strict=True)
    ]
    expected = jax.tree.map(lambda *each: sum(each), *parts)
    for one, other in zip(jax.tree.leaves(slope), jax.tree.leaves(expected), strict=True):
        assert_near(np.asarray(one), np.asarray(other), 1e-10)
    mapped = jax.vmap(function, (0, None, None))(np.stack([q, s.q[1]]), v, x)
    np.testing.assert_array_equal(np.asarray(mapped)[1], getattr(several, name)(s.q[1], v, x))
