"""Inverse and forward dynamics as differentiable functions of JAX arrays, on the CPU.

    import jax
    import kinetree.jax

    jax.config.update("jax_enable_x64", True)
    forward_dynamics = kinetree.jax.forward_dynamics(robot)
    jax.jit(jax.grad(lambda tau: forward_dynamics(q, v, tau).sum()))(tau)

The compiled kernels are called back from JAX. Forward mode (`jvp`, `jacfwd`) runs the O(n) recursion of `jvp`, reverse
mode (`grad`, `vjp`, `jacrev`) that of `vjp`; `jit` and `vmap` work with both, and a `vmap` is one batched call.

Derivatives with respect to q are with respect to its numbers, as JAX understands them: four for a quaternion, whose
length changes nothing. Steps along them leave the unit quaternions; `robot.normalize` brings them back. Derivatives
along the tangent are `robot.forward_dynamics.jvp` and `.vjp`. Derivatives cannot be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model.differentiable import (
    Differentiable,
    frames_of,
    refuse,
    refuse_complex,
    refuse_second_derivatives,
)
from kinetree.model.model import Model

try:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError('kinetree.jax needs JAX: pip install "kinetree[jax]"') from error


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a, f_ext=None)`: joint forces, (…, nv), as `Model.inverse_dynamics`, differentiable in all of them."""
    call = _caller(robot, "inverse_dynamics")

    def inverse_dynamics(q: Any, v: Any, a: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint forces, (…, nv)."""
        return call(q, v, a, f_ext)

    return inverse_dynamics


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau, f_ext=None)`: joint accelerations, (…, nv), as `Model.forward_dynamics`, likewise."""
    call = _caller(robot, "forward_dynamics")

    def forward_dynamics(q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint accelerations, (…, nv)."""
        return call(q, v, tau, f_ext)

    return forward_dynamics


def _caller(robot: Model, name: str) -> Callable[..., Any]:
    made = cache(lambda frames: _core(Differentiable(robot, name, frames)))
    made(())  # raises now if there is no such function

    def call(q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> Any:
        core, function = made(frames_of(name, f_ext))
        arrays, batch = function.arguments(q, v, x, f_ext, _array)
        # From here on all have the same batch axes; JAX itself differentiates the broadcast.
        dtype = jnp.result_type(0.0, *arrays)  # whole numbers become floats, single precision stays
        return core(*(jnp.broadcast_to(array, (*batch, array.shape[-1])).astype(dtype) for array in arrays))

    return call


def _array(name: str, given: Any) -> Any:
    """What JAX can work with, real."""
    if not isinstance(given, (jax.Array, np.ndarray, np.generic, int, float, complex, list, tuple)):
        raise refuse(name, given, "give an array of JAX or NumPy")
    try:
        array = jnp.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not made of numbers: {str(error)[:200]}") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise refuse_complex(name)
    return array


def _core(function: Differentiable) -> tuple[Callable[..., Any], Differentiable]:
    """The function of arrays with equal batch axes."""

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def core(*arrays: Any) -> Any:
        return _called(function.value, function.robot.nv, arrays)

    @core.defjvp  # type: ignore[untyped-decorator]
    def _(arrays: Any, directions: Any) -> Any:
        return core(*arrays), _CHANGE.bind(*arrays, *directions, function=function)

    return core, function


@dataclass(frozen=True)
class _Callback:
    """NumPy code as JAX calls it. Equal ones are compiled once."""

    call: Callable[..., Any]
    dtype: Any

    def __call__(self, *arrays: Any) -> Any:
        return np.asarray(self.call(*(np.asarray(array, dtype=np.float64) for array in arrays)), dtype=self.dtype)


def _called(call: Callable[..., Any], size: int, arrays: Any) -> Any:
    """Call NumPy code from JAX; vmapped axes are further batch axes."""
    dtype = arrays[0].dtype
    shape = jax.ShapeDtypeStruct((*arrays[0].shape[:-1], size), dtype)
    return jax.pure_callback(_Callback(call, dtype), shape, *arrays, vmap_method="broadcast_all")


# The change along a direction is linear in it, and its transpose is what `vjp` computes. JAX cannot transpose
# callbacks, so the change is a primitive of its own: arguments, then directions.


def _change(*arrays: Any, function: Differentiable) -> Any:
    return _called(function.change, function.robot.nv, arrays)


def _transposed(weights: Any, *arrays: Any, function: Differentiable) -> list[Any]:
    """Cotangents of the directions; the arguments themselves are constants here."""
    arguments, directions = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]

    gradients = _gradients(function, *arguments, weights)
    parts = jnp.split(gradients, np.cumsum(function.sizes)[:-1], axis=-1)
    asked = [part if ad.is_undefined_primal(d) else None for part, d in zip(parts, directions, strict=True)]
    return [None] * len(arguments) + asked


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _gradients(function: Differentiable, *arrays: Any) -> Any:
    return _called(function.joined_gradients, sum(function.sizes), arrays)


def _batched(arrays: Any, axes: Any, function: Differentiable) -> tuple[Any, int]:
    (size,) = {array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None}
    fronted = [
        jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    return _CHANGE.bind(*fronted, function=function), 0


_CHANGE = Primitive("kinetree_change")
_CHANGE.def_impl(_change)
_CHANGE.def_abstract_eval(lambda _, v, *__, **___: v)  # shaped like v
mlir.register_lowering(_CHANGE, mlir.lower_fun(_change, multiple_results=False))
_gradients.defjvp(refuse_second_derivatives)
ad.primitive_jvps[_CHANGE] = refuse_second_derivatives
ad.primitive_transposes[_CHANGE] = _transposed
batching.primitive_batchers[_CHANGE] = _batched
