"""Derivatives as primitives of JAX, which it can transpose and differentiate in every order.

All but the value are linear in their last arguments, and all arrays have equal batch axes:

    VALUE(arguments)                              the function itself
    CHANGE(arguments, directions)                 of the value along a direction
    GRADIENTS(arguments, weights)                 of the weighted value, joined in one array; transpose of CHANGE
    CURVATURE(arguments, weights, directions)     change of GRADIENTS along a direction; its own transpose

Each is bound to a `function` with methods of these names, such as `kinetree.model.differentiable.Differentiable`, the
lengths `sizes` of its arguments' last axes, and that of its value, `size`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.jax.ffi import ad, jax, jnp, primitive
from kinetree.model.differentiable import refuse_third_derivatives


def _primitive(name: str, formula: Callable[..., Any], size: Callable[[Any], int]) -> Any:
    return primitive(name, formula, lambda function, first, *_: [(*first[:-1], size(function))])


def _joined(parts: Any) -> Any:
    return jnp.concatenate(parts, axis=-1)


def _split(function: Any, joined: Any) -> list[Any]:
    parts: list[Any] = jnp.split(joined, np.cumsum(function.sizes)[:-1], axis=-1)
    return parts


VALUE = _primitive("value", lambda f, *arrays: f.value(*arrays), lambda f: f.size)
CHANGE = _primitive("change", lambda f, *arrays: f.change(*arrays), lambda f: f.size)
GRADIENTS = _primitive("gradients", lambda f, *arrays: _joined(f.gradients(*arrays)), lambda f: sum(f.sizes))
CURVATURE = _primitive("curvature", lambda f, *arrays: _joined(f.curvature(*arrays)), lambda f: sum(f.sizes))


def _differentiated_value(arrays: Any, steps: Any, function: Any) -> Any:
    directions = [ad.instantiate_zeros(step) for step in steps]
    return VALUE.bind(*arrays, function=function), CHANGE.bind(*arrays, *directions, function=function)


def _transposed_change(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    half = len(arrays) // 2
    gradients = GRADIENTS.bind(*arrays[:half], weights, function=function)
    return [None] * half + _wanted(_split(function, gradients), arrays[half:])


def _transposed_gradients(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    *arguments, _ = arrays
    return [None] * len(arguments) + [CHANGE.bind(*arguments, *_split(function, weights), function=function)]


def _transposed_curvature(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    half = len(arrays) // 2 + 1
    gradients = CURVATURE.bind(*arrays[:half], *_split(function, weights), function=function)
    return [None] * half + _wanted(_split(function, gradients), arrays[half:])


def _wanted(cotangents: list[Any], arrays: Any) -> list[Any]:
    """Cotangents of the arrays that need one."""
    return [part if ad.is_undefined_primal(array) else None for part, array in zip(cotangents, arrays, strict=True)]


def _differentiated_change(arrays: Any, steps: Any, function: Any) -> Any:
    """Component by component, since the curvature is that of a weighted sum: n calls in a batch."""
    function.require_curvature()
    steps, half = [ad.instantiate_zeros(step) for step in steps], len(arrays) // 2
    arguments, directions = arrays[:half], arrays[half:]

    def component(unit: Any) -> Any:
        weights = jnp.broadcast_to(unit, (*arguments[0].shape[:-1], function.size))
        bent = CURVATURE.bind(*arguments, weights, *steps[:half], function=function)
        return jnp.sum(bent * _joined(directions), axis=-1)

    units = jnp.eye(function.size, dtype=arguments[0].dtype)
    added = CHANGE.bind(*arguments, *steps[half:], function=function)
    return CHANGE.bind(*arrays, function=function), added + jax.vmap(component, out_axes=-1)(units)


def _differentiated_gradients(arrays: Any, steps: Any, function: Any) -> Any:
    function.require_curvature()
    *directions, dweights = (ad.instantiate_zeros(step) for step in steps)
    bent = CURVATURE.bind(*arrays, *directions, function=function)
    added = GRADIENTS.bind(*arrays[:-1], dweights, function=function)
    return GRADIENTS.bind(*arrays, function=function), bent + added


ad.primitive_jvps[VALUE] = _differentiated_value
ad.primitive_transposes[CHANGE] = _transposed_change
ad.primitive_transposes[GRADIENTS] = _transposed_gradients
ad.primitive_transposes[CURVATURE] = _transposed_curvature
ad.primitive_jvps[CHANGE] = _differentiated_change
ad.primitive_jvps[GRADIENTS] = _differentiated_gradients
ad.primitive_jvps[CURVATURE] = refuse_third_derivatives
