"""Inverse and forward dynamics: values, directional derivatives and gradients, each a single kernel call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.jax.ffi import JAX, Primitive, ad, batching, jax, jnp, mlir
from kinetree.model.differentiable import (
    Differentiable,
    frames_of,
    refuse,
    refuse_complex,
    refuse_third_derivatives,
)
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
    core = _core(function)

    @jax.jit  # type: ignore[untyped-decorator]
    def compiled(q: Any, v: Any, x: Any, wrenches: tuple[Any, ...]) -> Any:
        f_ext = dict(zip(function.frames, wrenches, strict=True))
        arrays, batch = function.arguments(q, v, x, f_ext, real)
        return core(*common(arrays, batch)).astype(result_type(arrays))

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


def _core(function: Differentiable) -> Callable[..., Any]:
    """The function of arrays with equal batch axes."""

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def core(*arrays: Any) -> Any:
        return function.value(*arrays)

    @core.defjvp  # type: ignore[untyped-decorator]
    def _(arrays: Any, directions: Any) -> Any:
        return core(*arrays), CHANGE.bind(*arrays, *directions, function=function)

    function_of_arrays: Callable[..., Any] = core
    return function_of_arrays


# Derivatives are primitives, so that JAX can transpose and differentiate them. All are linear in their last arguments:
#
#     CHANGE(arguments, directions)                 of the value along a direction
#     GRADIENTS(arguments, weights)                 of the weighted value, joined in one array; transpose of CHANGE
#     CURVATURE(arguments, weights, directions)     change of GRADIENTS along a direction; its own transpose


def _primitive(name: str, formula: Callable[..., Any], size: Callable[[Differentiable], int]) -> Any:
    """A primitive of arrays with equal batch axes, whose formula takes the function and the arrays."""
    primitive = Primitive(f"kinetree_{name}")

    def computed(*arrays: Any, function: Differentiable) -> Any:
        return formula(function, *arrays)

    def shaped(q: Any, *_: Any, function: Differentiable) -> Any:
        return q.update(shape=(*q.shape[:-1], size(function)))

    def batched(arrays: Any, axes: Any, function: Differentiable) -> tuple[Any, int]:
        (count,) = {array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None}
        fronted = [
            jnp.broadcast_to(array, (count, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
            for array, axis in zip(arrays, axes, strict=True)
        ]
        return primitive.bind(*fronted, function=function), 0

    primitive.def_impl(jax.jit(computed, static_argnames="function"))
    primitive.def_abstract_eval(shaped)
    mlir.register_lowering(primitive, mlir.lower_fun(computed, multiple_results=False))
    batching.primitive_batchers[primitive] = batched
    return primitive


def _joined(parts: Any) -> Any:
    return jnp.concatenate(parts, axis=-1)


def _split(function: Differentiable, joined: Any) -> list[Any]:
    parts: list[Any] = jnp.split(joined, np.cumsum(function.sizes)[:-1], axis=-1)
    return parts


CHANGE = _primitive("change", Differentiable.change, lambda function: function.robot.nv)
GRADIENTS = _primitive("gradients", lambda f, *arrays: _joined(f.gradients(*arrays)), lambda f: sum(f.sizes))
CURVATURE = _primitive("curvature", lambda f, *arrays: _joined(f.curvature(*arrays)), lambda f: sum(f.sizes))


def _transposed_change(weights: Any, *arrays: Any, function: Differentiable) -> list[Any]:
    half = len(arrays) // 2
    gradients = GRADIENTS.bind(*arrays[:half], weights, function=function)
    return [None] * half + _wanted(_split(function, gradients), arrays[half:])


def _transposed_gradients(weights: Any, *arrays: Any, function: Differentiable) -> list[Any]:
    *arguments, _ = arrays
    return [None] * len(arguments) + [CHANGE.bind(*arguments, *_split(function, weights), function=function)]


def _transposed_curvature(weights: Any, *arrays: Any, function: Differentiable) -> list[Any]:
    half = len(arrays) // 2 + 1
    gradients = CURVATURE.bind(*arrays[:half], *_split(function, weights), function=function)
    return [None] * half + _wanted(_split(function, gradients), arrays[half:])


def _wanted(cotangents: list[Any], arrays: Any) -> list[Any]:
    """Cotangents of the arrays that need one."""
    return [part if ad.is_undefined_primal(array) else None for part, array in zip(cotangents, arrays, strict=True)]


def _differentiated_change(arrays: Any, steps: Any, function: Differentiable) -> Any:
    """Component by component, since the curvature is that of a weighted sum: n calls in a batch."""
    function.require_curvature()
    steps, half = [ad.instantiate_zeros(step) for step in steps], len(arrays) // 2
    arguments, directions = arrays[:half], arrays[half:]

    def component(unit: Any) -> Any:
        weights = jnp.broadcast_to(unit, arguments[1].shape)
        bent = CURVATURE.bind(*arguments, weights, *steps[:half], function=function)
        return jnp.sum(bent * _joined(directions), axis=-1)

    units = jnp.eye(function.robot.nv, dtype=arguments[1].dtype)
    added = CHANGE.bind(*arguments, *steps[half:], function=function)
    return CHANGE.bind(*arrays, function=function), added + jax.vmap(component, out_axes=-1)(units)


def _differentiated_gradients(arrays: Any, steps: Any, function: Differentiable) -> Any:
    function.require_curvature()
    *directions, dweights = (ad.instantiate_zeros(step) for step in steps)
    bent = CURVATURE.bind(*arrays, *directions, function=function)
    added = GRADIENTS.bind(*arrays[:-1], dweights, function=function)
    return GRADIENTS.bind(*arrays, function=function), bent + added


ad.primitive_transposes[CHANGE] = _transposed_change
ad.primitive_transposes[GRADIENTS] = _transposed_gradients
ad.primitive_transposes[CURVATURE] = _transposed_curvature
ad.primitive_jvps[CHANGE] = _differentiated_change
ad.primitive_jvps[GRADIENTS] = _differentiated_gradients
ad.primitive_jvps[CURVATURE] = refuse_third_derivatives
