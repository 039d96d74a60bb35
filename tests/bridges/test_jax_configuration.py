"""Functions of the configuration in JAX: values are the model's, derivatives agree with differences in both modes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import zoo
from kinetree.errors import InputError, SecondDerivativeError, UnknownNameError
from tests.bridges.cases import robot
from tests.oracle import oracle

jax = oracle("jax")
jax.config.update("jax_enable_x64", True)

module = import_module("kinetree.jax")
FRAMES = ["tip0", "tip1"]


def functions(model: Any) -> dict[str, tuple[Any, Any]]:
    """The bridge's function and the model's."""
    frames = [frame for frame in FRAMES if frame in model.frames] or list(model.frames[-2:])
    return {
        "mass_matrix": (module.mass_matrix(model), model.mass_matrix),
        "pose": (module.pose(model, frames[0]), lambda q: model.pose(q, frames[0])),
        "poses": (module.pose(model, frames), lambda q: model.pose(q, frames)),
        "jacobian": (
            module.jacobian(model, frames[0], "world"),
            lambda q: model.jacobian(q, frames[0], reference="world"),
        ),
        "jacobians": (module.jacobian(model, frames), lambda q: model.jacobian(q, frames)),
        "inverse_inertia": (module.inverse_inertia(model, frames), model.tasks(frames).inverse_inertia),
    }


NAMES = ("mass_matrix", "pose", "poses", "jacobian", "jacobians", "inverse_inertia")


@pytest.mark.parametrize("name", NAMES)
def test_values_have_the_bits_of_the_model(name: str) -> None:
    bridge, own = functions(robot())[name]
    q = robot().random_configuration(0, (3, 2))
    np.testing.assert_array_equal(np.asarray(bridge(q)), own(q))
    np.testing.assert_array_equal(np.asarray(jax.jit(bridge)(q[0, 0])), own(q[0, 0]))
    np.testing.assert_array_equal(np.asarray(jax.vmap(bridge, 1)(q)), own(np.swapaxes(q, 0, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_against_differences(name: str) -> None:
    from jax.test_util import check_grads

    bridge, _ = functions(robot())[name]
    q = robot().random_configuration(1, (2,))
    check_grads(bridge, (q,), order=1, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["mass_matrix", "poses"])
def test_second_derivatives(name: str) -> None:
    """Of a robot with quaternions: central differences of the first."""
    model = robot()
    bridge, _ = functions(model)[name]
    rng = np.random.default_rng(4)
    q, h = model.random_configuration(rng), 1e-5
    weights = rng.uniform(-1.0, 1.0, bridge(q).shape)

    def total(q: Any) -> Any:
        return (bridge(q) * weights).sum()

    gradient, steps = jax.jit(jax.vmap(jax.grad(total))), h * np.eye(model.nq)
    differences = np.asarray(gradient(q + steps) - gradient(q - steps)) / (2 * h)
    for twice in (jax.hessian(total), jax.jacrev(jax.jacfwd(total))):
        np.testing.assert_allclose(np.asarray(jax.jit(twice)(q)), differences, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["jacobian", "inverse_inertia"])
def test_second_derivatives_are_refused(name: str) -> None:
    model = zoo.double_pendulum()
    bridge, _ = functions(model)[name]
    with pytest.raises(SecondDerivativeError, match=r"cannot be differentiated again\. .*hvp"):
        jax.hessian(lambda q: bridge(q).sum())(np.array([0.3, 0.4]))


def test_second_derivatives_of_integration() -> None:
    """Also for steps so small that the closed forms of their rotations cancel."""
    model = robot()
    rng = np.random.default_rng(5)
    q, unit = model.random_configuration(rng), rng.uniform(-1.0, 1.0, model.nv)
    weights, h = rng.uniform(-1.0, 1.0, model.nq), 1e-5
    function = module.integrate(model)

    def total(point: Any) -> Any:
        return function(point[: model.nq], point[model.nq :]) @ weights

    steps = h * np.eye(model.nq + model.nv)
    gradient, hessian = jax.jit(jax.vmap(jax.grad(total))), jax.jit(jax.hessian(total))
    for size in (1.0, 1e-9, 1e-14, 0.0):
        point = np.concatenate([q, size * unit])
        differences = np.asarray(gradient(point + steps) - gradient(point - steps)) / (2 * h)
        np.testing.assert_allclose(np.asarray(hessian(point)), differences, rtol=0, atol=1e-8)


def test_second_derivatives_of_a_rollout() -> None:
    """The Hessian of a loss at the end of ten steps of a floating robot."""
    model = robot()
    rng = np.random.default_rng(6)
    q0, (v0, tau) = model.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, model.nv))
    step = module.step(model)

    def loss(tau: Any) -> Any:
        (q, v), _ = jax.lax.scan(lambda state, _: (step(*state, tau, 1e-2), None), (q0, v0), None, length=10)
        return (q**2).sum() + (v**2).sum()

    gradient, h = jax.jit(jax.vmap(jax.grad(loss))), 1e-4
    steps = h * np.eye(model.nv)
    differences = np.asarray(gradient(tau + steps) - gradient(tau - steps)) / (2 * h)
    hessian = np.asarray(jax.jit(jax.hessian(loss))(tau))
    np.testing.assert_allclose(hessian, differences, rtol=0, atol=1e-7 * np.abs(differences).max())


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
    model = builder.distance("tip", "post", length=0.2).independent("crank").build(near={"crank": 0.8})
    q, v, h = model.neutral(), np.array([2.0]), 1e-5
    slope = jax.jacfwd(module.integrate(model), argnums=1)(q, v, 0.1)
    differences = (model.integrate(q, v + h, 0.1) - model.integrate(q, v - h, 0.1)) / (2 * h)
    np.testing.assert_allclose(np.asarray(slope)[:, 0], differences, rtol=0, atol=1e-9)
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
    with pytest.raises(InputError, match="takes a kinetree.Model, got str"):
        getattr(module, make)("robot")


def test_bad_input() -> None:
    model = zoo.double_pendulum()
    with pytest.raises(UnknownNameError, match="'nope'"):
        module.pose(model, "nope")
    with pytest.raises(InputError, match=r"mass_matrix: q has shape \(3,\), expected \(..., 2\)"):
        module.mass_matrix(model)(np.zeros(3))
    with pytest.raises(InputError, match="mass_matrix: q is complex"):
        module.mass_matrix(model)(np.zeros(2) * 1j)
    with pytest.raises(InputError, match=r"integrate: v has shape \(3,\), expected \(..., 2\)"):
        module.integrate(model)(np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="integrate: batch shapes do not broadcast"):
        module.integrate(model)(np.zeros((3, 2)), np.zeros((4, 2)))
