"""Primitives of JAX for functions of arrays with equal batch axes.

A `jax.custom_jvp` would lose its rule inside `scan`, where JAX partially evaluates the body before it differentiates it
a second time; a primitive keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

try:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError('kinetree.jax needs JAX: pip install "kinetree[jax]"') from error

__all__ = ["ad", "jax", "jnp", "primitive"]


def primitive(
    name: str, formula: Callable[..., Any], shapes: Callable[..., Sequence[tuple[int, ...]]], *, several: bool = False
) -> Any:
    """A primitive that is bound to arrays and a `function`; its derivatives are registered by the caller.

    Args:
        name: Its name in programs.
        formula: Takes the function and the arrays.
        shapes: Shapes of the results, from the function and the shapes of the arrays.
        several: Whether there are several results, or one.
    """
    made = Primitive(f"kinetree_{name}")
    made.multiple_results = several

    def computed(*arrays: Any, function: Any) -> Any:
        return formula(function, *arrays)

    def shaped(*arrays: Any, function: Any) -> Any:
        first = arrays[0]
        results = [first.update(shape=shape) for shape in shapes(function, *(array.shape for array in arrays))]
        return results if several else results[0]

    def batched(arrays: Any, axes: Any, function: Any) -> tuple[Any, Any]:
        (count,) = {array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None}
        fronted = [
            jnp.broadcast_to(array, (count, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
            for array, axis in zip(arrays, axes, strict=True)
        ]
        results = made.bind(*fronted, function=function)
        return results, [0] * len(results) if several else 0

    made.def_impl(jax.jit(computed, static_argnames="function"))
    made.def_abstract_eval(shaped)
    mlir.register_lowering(made, mlir.lower_fun(computed, multiple_results=several))
    batching.primitive_batchers[made] = batched
    return made
