"""Dynamics as functions of JAX arrays: values, gradients, jit, vmap."""

from __future__ import annotations

import numpy as np
import pytest

import ramify as rf
from tests.trees import random_mechanism

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import ramify.jax  # noqa: E402 (needs JAX)


@pytest.fixture(scope="module")
def robot() -> rf.Model:
    return random_mechanism("small", ["floating", "spherical", "planar", "revolute"], 3).ramify()


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_gradients(robot: rf.Model, name: str) -> None:
    from jax.test_util import check_grads

    rng = np.random.default_rng(0)
    q, (v, x) = robot.random_configuration(rng, (2,)), rng.uniform(-1.0, 1.0, (2, robot.nv))
    function = getattr(ramify.jax, name)(robot)
    np.testing.assert_array_equal(np.asarray(function(q, v, x)), getattr(robot, name)(q, v, x))
    check_grads(function, (q, v, x), order=1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_jit_and_vmap(robot: rf.Model) -> None:
    rng = np.random.default_rng(1)
    q = robot.random_configuration(rng, (5,))
    v, tau = rng.uniform(-1.0, 1.0, (2, 5, robot.nv))
    function = ramify.jax.forward_dynamics(robot)
    expected = robot.forward_dynamics(q, v, tau)
    np.testing.assert_array_equal(np.asarray(jax.jit(jax.vmap(function))(q, v, tau)), expected)
    np.testing.assert_array_equal(
        np.asarray(jax.vmap(function, (0, 0, None))(q, v, tau[0])), robot.forward_dynamics(q, v, tau[0])
    )
    gradient = jax.jit(jax.vmap(jax.grad(lambda t, q, v: function(q, v, t).sum())))(tau, q, v)
    np.testing.assert_allclose(np.asarray(gradient), robot.mass_matrix_inverse(q).sum(axis=-1))
