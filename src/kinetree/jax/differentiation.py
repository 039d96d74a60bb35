"""Derivatives as primitives of JAX, which it can transpose and differentiate in every order.

All but the value are linear in each group of arrays after the arguments, and all arrays have equal batch axes:

    VALUE(arguments)                              the function itself
    CHANGE(arguments, directions)                 of the value along a direction
    GRADIENTS(arguments, weights)                 of the weighted value, joined in one array; transpose of CHANGE
    BEND(arguments, directions, steps)            change of CHANGE along steps; symmetric in both
    CURVATURE(arguments, weights, directions)     change of GRADIENTS along a direction; its own transpose, and BEND's

Each is bound to a `function`, a `kinetree.bridges.differentiable.Differentiable`. What it says is fixed comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.bridges.differentiable import refuse_third_derivatives
from kinetree.jax.ffi import ad, jnp, primitive


def _primitive(name: str, formula: Callable[..., Any], size: Callable[[Any], int]) -> Any:
    return primitive(name, formula, lambda function, first, *_: [(*first[:-1], size(function))])


def _joined(parts: Any) -> Any:
    return jnp.concatenate(parts, axis=-1)


def _split(function: Any, joined: Any) -> list[Any]:
    parts: list[Any] = jnp.split(joined, np.cumsum(function.sizes)[:-1], axis=-1)
    return parts


VALUE = _primitive("value", lambda f, *arrays: f.value(*arrays), lambda f: f.size)
CHANGE = _primitive("change", lambda f, *arrays: f.change(*arrays), lambda f: f.size)
BEND = _primitive("bend", lambda f, *arrays: f.bend(*arrays), lambda f: f.size)
GRADIENTS = _primitive("gradients", lambda f, *arrays: _joined(f.gradients(*arrays)), lambda f: sum(f.sizes))
CURVATURE = _primitive("curvature", lambda f, *arrays: _joined(f.curvature(*arrays)), lambda f: sum(f.sizes))


def _filled(steps: Any) -> list[Any]:
    return [ad.instantiate_zeros(step) for step in steps]


def _differentiated_value(arrays: Any, steps: Any, function: Any) -> Any:
    n = len(function.sizes)
    given, fixed = function.groups("value", arrays)
    return VALUE.bind(*arrays, function=function), CHANGE.bind(*given, *_filled(steps[:n]), *fixed, function=function)


def _transposed_change(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    n = len(function.sizes)
    given, directions, fixed = function.groups("change", arrays)
    gradients = GRADIENTS.bind(*given, weights, *fixed, function=function)
    return [None] * n + _wanted(_split(function, gradients), directions) + [None] * len(fixed)


def _transposed_gradients(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    n = len(function.sizes)
    given, _, fixed = function.groups("gradients", arrays)
    change = CHANGE.bind(*given, *_split(function, weights), *fixed, function=function)
    return [None] * n + [change] + [None] * len(fixed)


def _transposed_bend(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    n = len(function.sizes)
    given, directions, steps, fixed = function.groups("bend", arrays)
    first = any(map(ad.is_undefined_primal, directions))
    known = steps if first else directions
    bent = _split(function, CURVATURE.bind(*given, weights, *known, *fixed, function=function))
    found = (_wanted(bent, directions), [None] * n) if first else ([None] * n, _wanted(bent, steps))
    return [None] * n + found[0] + found[1] + [None] * len(fixed)


def _transposed_curvature(weights: Any, *arrays: Any, function: Any) -> list[Any]:
    n = len(function.sizes)
    given, own, directions, fixed = function.groups("curvature", arrays)
    if ad.is_undefined_primal(own[0]):  # CURVATURE is linear in its own weights, too
        bent = BEND.bind(*given, *_split(function, weights), *directions, *fixed, function=function)
        return [None] * n + [bent] + [None] * (n + len(fixed))
    gradients = CURVATURE.bind(*given, *own, *_split(function, weights), *fixed, function=function)
    return [None] * (n + 1) + _wanted(_split(function, gradients), directions) + [None] * len(fixed)


def _wanted(cotangents: list[Any], arrays: Any) -> list[Any]:
    """Cotangents of the arrays that need one."""
    return [part if ad.is_undefined_primal(array) else None for part, array in zip(cotangents, arrays, strict=True)]


def _differentiated_change(arrays: Any, steps: Any, function: Any) -> Any:
    function.require_curvature()
    n = len(function.sizes)
    given, directions, fixed = function.groups("change", arrays)
    along, turned = _filled(steps[:n]), _filled(steps[n : 2 * n])
    bent = BEND.bind(*given, *directions, *along, *fixed, function=function)
    return CHANGE.bind(*arrays, function=function), bent + CHANGE.bind(*given, *turned, *fixed, function=function)


def _differentiated_gradients(arrays: Any, steps: Any, function: Any) -> Any:
    function.require_curvature()
    n = len(function.sizes)
    given, weights, fixed = function.groups("gradients", arrays)
    *along, change = _filled(steps[: n + 1])
    bent = CURVATURE.bind(*given, *weights, *along, *fixed, function=function)
    return GRADIENTS.bind(*arrays, function=function), bent + GRADIENTS.bind(*given, change, *fixed, function=function)


ad.primitive_jvps[VALUE] = _differentiated_value
ad.primitive_transposes[CHANGE] = _transposed_change
ad.primitive_transposes[GRADIENTS] = _transposed_gradients
ad.primitive_transposes[BEND] = _transposed_bend
ad.primitive_transposes[CURVATURE] = _transposed_curvature
ad.primitive_jvps[CHANGE] = _differentiated_change
ad.primitive_jvps[GRADIENTS] = _differentiated_gradients
ad.primitive_jvps[BEND] = refuse_third_derivatives
ad.primitive_jvps[CURVATURE] = refuse_third_derivatives
