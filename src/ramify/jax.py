"""Inverse and forward dynamics as differentiable functions of JAX arrays, on the CPU.

    import jax
    import ramify.jax

    jax.config.update("jax_enable_x64", True)
    forward_dynamics = ramify.jax.forward_dynamics(robot)
    jax.jit(jax.grad(lambda tau: forward_dynamics(q, v, tau).sum()))(tau)

The compiled kernels are called back from JAX, so that `jit`, `vmap` and `grad` work; a `vmap` is one batched call.
Gradients run the O(n) recursions of `vjp`, with respect to the numbers in q; a change of a quaternion's length changes
nothing. Forward mode (`jax.jvp`) is not offered: JAX cannot transpose callbacks, so that it would cost reverse mode.
Call `robot.forward_dynamics.jvp` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ramify.model.model import Model

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:  # pragma: no cover
    raise ImportError('ramify.jax needs JAX: pip install "ramify[jax]"') from error


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a)`: joint forces, (…, nv), as `Model.inverse_dynamics`."""
    return _differentiable(robot, robot.inverse_dynamics)


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau)`: joint accelerations, (…, nv), as `Model.forward_dynamics`."""
    return _differentiable(robot, robot.forward_dynamics)


def _differentiable(robot: Model, function: Any) -> Callable[..., Any]:
    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def dynamics(q: Any, v: Any, x: Any) -> Any:
        return _called(lambda *arrays: function(*arrays), (robot.nv,), q, v, x)

    def forward(q: Any, v: Any, x: Any) -> Any:
        return dynamics(q, v, x), (q, v, x)

    def backward(saved: Any, w: Any) -> Any:
        def gradients(q: Any, v: Any, x: Any, w: Any) -> Any:
            by_q, by_v, by_x = function.vjp(q, v, x, w)
            by_q = np.einsum("...ij,...i->...j", robot.tangent_map(q), by_q)
            return np.concatenate([by_q, by_v, by_x], axis=-1)

        joined = _called(gradients, (robot.nq + 2 * robot.nv,), *saved, w)
        parts = jnp.split(joined, [robot.nq, robot.nq + robot.nv], axis=-1)
        return tuple(_summed(part, value) for part, value in zip(parts, saved, strict=True))

    dynamics.defvjp(forward, backward)
    dynamics.__doc__ = f"`{function.name}` of {robot.name!r}, differentiable."
    return dynamics  # type: ignore[no-any-return]


def _called(call: Callable[..., Any], core: tuple[int, ...], *arrays: Any) -> Any:
    """Call NumPy code from JAX; batch axes broadcast, and vmapped ones are batch axes too."""
    batch = jnp.broadcast_shapes(*(jnp.shape(array)[:-1] for array in arrays))
    dtype = jnp.result_type(*arrays)
    shape = jax.ShapeDtypeStruct((*batch, *core), dtype)

    def run(*given: Any) -> Any:
        return np.asarray(call(*(np.asarray(array, dtype=np.float64) for array in given)), dtype=dtype)

    return jax.pure_callback(run, shape, *(jnp.broadcast_to(a, (*batch, a.shape[-1])) for a in arrays),
                             vmap_method="broadcast_all")  # fmt: skip


def _summed(gradient: Any, like: Any) -> Any:
    """A gradient summed over the batch axes along which its array was broadcast."""
    extra = gradient.ndim - like.ndim
    summed = gradient.sum(axis=tuple(range(extra)))
    repeated = tuple(i for i, n in enumerate(like.shape) if n == 1 and summed.shape[i] != 1)
    return summed.sum(axis=repeated, keepdims=True)
