"""Inverse and forward dynamics: values, directional derivatives and gradients, each a single kernel call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.jax.differentiation import VALUE
from kinetree.jax.ffi import JAX, jax, jnp
from kinetree.model.differentiable import Differentiable, frames_of, refuse, refuse_complex
from kinetree.model.model import Model


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a, f_ext=None)`: joint forces, (…, nv), as `Model.inverse_dynamics`, differentiable in all arguments."""
    call = _caller(robot, "inverse_dynamics")

    def inverse_dynamics(q: Any, v: Any, a: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint forces, (…, nv)."""
        return call(q, v, a, f_ext)

    return inverse_dynamics


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau, f_ext=None)`: joint accelerations, (…, nv), as `Model.forward_dynamics`, differentiable too."""
    call = _caller(robot, "forward_dynamics")

    def forward_dynamics(q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint accelerations, (…, nv)."""
        return call(q, v, tau, f_ext)

    return forward_dynamics


def _caller(robot: Model, name: str) -> Callable[..., Any]:
    made = cache(lambda frames: _made(Differentiable(robot, name, frames, JAX())))
    made(())  # raises here if the function does not exist for this robot

    def call(q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> Any:
        frames = frames_of(name, f_ext)
        return made(frames)(q, v, x, tuple((f_ext or {})[frame] for frame in frames))

    return call


def _made(function: Differentiable) -> Callable[..., Any]:
    """The function for arguments of any kind, compiled for each combination of types and shapes."""

    @jax.jit  # type: ignore[untyped-decorator]
    def compiled(q: Any, v: Any, x: Any, wrenches: tuple[Any, ...]) -> Any:
        f_ext = dict(zip(function.frames, wrenches, strict=True))
        arrays, batch = function.arguments(q, v, x, f_ext, real)
        return VALUE.bind(*common(arrays, batch), function=function).astype(result_type(arrays))

    def call(q: Any, v: Any, x: Any, wrenches: tuple[Any, ...]) -> Any:
        given = (q, v, x, *wrenches)
        if not all(isinstance(array, (jax.Array, np.ndarray)) and array.dtype.kind != "O" for array in given):
            f_ext = dict(zip(function.frames, wrenches, strict=True))
            (q, v, x, *wrenches_), _ = function.arguments(q, v, x, f_ext, real)
            wrenches = tuple(wrenches_)
        return compiled(q, v, x, wrenches)

    return call


def real(name: str, given: Any) -> Any:
    """An argument as a JAX array of real numbers."""
    if not isinstance(given, (jax.Array, np.ndarray, np.generic, int, float, complex, list, tuple)):
        raise refuse(name, given, "pass an array of JAX or NumPy")
    try:
        array = jnp.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not made of numbers: {str(error)[:200]}") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise refuse_complex(name)
    return array


def result_type(arrays: tuple[Any, ...]) -> Any:
    """The type of a function's result: integers become floats, single precision stays."""
    return jnp.result_type(0.0, *arrays)


def common(arrays: tuple[Any, ...], batch: tuple[int, ...]) -> list[Any]:
    """Vectors with the same batch axes, of a type that kernels accept. JAX itself differentiates the broadcasting."""
    dtype = jnp.promote_types(result_type(arrays), jnp.float32)
    return [jnp.broadcast_to(array, (*batch, array.shape[-1])).astype(dtype) for array in arrays]
