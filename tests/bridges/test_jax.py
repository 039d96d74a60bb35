"""Dynamics as functions of JAX arrays: values, both modes, jit, vmap, and all of them together."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from kinetree import zoo
from kinetree.errors import InputError, SecondDerivativeError, SingularMechanismError, UnknownNameError
from kinetree.runtime import threads
from tests.bridges.cases import FUNCTIONS, pulley, robot, sample, singular
from tests.oracle import oracle

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
    with pytest.raises(InputError, match=message):
        bridge("forward_dynamics", model)(s.q, s.v, spoil(s.x))


def test_robots_that_have_no_such_function() -> None:
    """The error is the library's own, also where a compiled program would call the function."""
    with pytest.raises(InputError, match="takes a kinetree.Model, got str"):
        bridge("inverse_dynamics", "robot")
    with pytest.raises(SingularMechanismError):
        bridge("forward_dynamics", singular())
    with pytest.raises(InputError, match="f_ext is a list; pass a dictionary"):
        bridge("forward_dynamics", robot())(np.zeros(3), np.zeros(3), np.zeros(3), [1])


def test_what_cannot_be_done() -> None:
    model, s = robot(), sample(robot())
    function = bridge("forward_dynamics", model)
    with pytest.raises(InputError, match=r"forward_dynamics: q has shape \(2, 3\), expected \(..., 15\)"):
        function(s.q[:, :3], s.v, s.x)
    with pytest.raises(InputError, match=r"'tip0' has shape \(3,\), expected \(..., 6\)"):
        function(s.q, s.v, s.x, {"tip0": np.zeros(3)})
    with pytest.raises(UnknownNameError, match="'nope'"):
        function(s.q, s.v, s.x, {"nope": np.zeros(6)})


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
    with pytest.raises(SecondDerivativeError, match="second derivatives of dynamics cannot"):
        jax.jacfwd(jax.hessian(total))(state)


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

    gradient, h = jax.jit(jax.vmap(jax.grad(total))), 1e-5
    steps = h * np.eye(point.size)
    differences = np.asarray(gradient(point + steps) - gradient(point - steps)) / (2 * h)
    for twice in (jax.jacfwd(jax.jacrev(total)), jax.jacfwd(jax.jacfwd(total))):
        hessian = np.asarray(jax.jit(twice)(point))
        np.testing.assert_allclose(hessian, differences, rtol=1e-7, atol=1e-7 * np.abs(differences).max())
        np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-13 * np.abs(hessian).max())


def test_second_derivatives_with_coupled_joints() -> None:
    """Against `hvp`, which coordinates of coupled joints share with all others."""
    model = pulley()
    function = bridge("forward_dynamics", model)
    q, v, tau = np.full(model.nq, 0.3), np.full(model.nv, 0.7), np.ones(model.nv)
    bent = jax.jacfwd(jax.jacfwd(function))(q, v, tau)
    again = jax.jacfwd(jax.jacrev(function))(q, v, tau)
    one, still = np.ones(model.nv), np.zeros(model.nv)
    expected = model.forward_dynamics.hvp(q, v, tau, one, one, still, still).dq
    np.testing.assert_allclose(np.asarray(bent).reshape(-1), expected, rtol=1e-12)
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
