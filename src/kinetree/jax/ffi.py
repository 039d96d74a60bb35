"""Primitives of JAX for functions of arrays with equal batch axes, and compiled functions registered with XLA by name.

A `jax.custom_jvp` would lose its rule inside `scan`, where JAX partially evaluates the body before it differentiates it
a second time; a primitive keeps it.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from kinetree.bridges.differentiable import refuse_second_derivatives
from kinetree.concurrency import ForkSafeLock
from kinetree.runtime.bound import Compiled
from kinetree.runtime.xla import Handler

try:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError('kinetree.jax needs JAX: pip install "kinetree[jax]"') from error

__all__ = ["ad", "jax", "jnp", "primitive", "run"]


def primitive(
    name: str, formula: Callable[..., Any], shapes: Callable[..., Sequence[tuple[int, ...]]], *, several: bool = False
) -> Any:
    """A primitive that is bound to arrays and a `function`; its derivatives are registered by the caller.

    `shapes` gives those of the results, from the function and the shapes of the arrays.
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


#: Handlers by their name in XLA. XLA cannot unregister one, so they live as long as the process.
_handlers: dict[str, Handler] = {}
_registering = ForkSafeLock()


def run(compiled: Compiled, *arrays: Any) -> Any:
    """Call a compiled function on arrays of one type, float64 or float32, with the same batch axes.

    JAX cannot differentiate it; differentiable functions use it for their values and derivatives.
    """
    return compiled.binding.bundled(tuple(_KERNEL.bind(*arrays, function=compiled)))


def _called(compiled: Compiled, *arrays: Any) -> Any:
    dtype = arrays[0].dtype
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape in _shapes(compiled, *(array.shape for array in arrays))]
    return jax.ffi.ffi_call(_registered(compiled, dtype.name), shapes)(*arrays)


def _shapes(compiled: Compiled, first: tuple[int, ...], *_: Any) -> list[tuple[int, ...]]:
    binding = compiled.binding
    batch = first[: len(first) - len(binding.inputs[0].shape)]
    return [(*batch, *operand.shape) for operand in binding.outputs]


_KERNEL = primitive("kernel", _called, _shapes, several=True)
ad.primitive_jvps[_KERNEL] = refuse_second_derivatives


def _registered(compiled: Compiled, scalar: str) -> str:
    """Register a function with XLA and return its name. Functions that compute the same share one name."""
    name = f"kinetree.{_digest(compiled)}.{scalar}"
    with _registering:
        if name not in _handlers:
            handler = Handler(compiled, scalar)
            jax.ffi.register_ffi_target(name, _capsule(handler.address), platform="cpu", api_version=1)
            _handlers[name] = handler
    return name


@lru_cache(maxsize=1024)
def _digest(compiled: Compiled) -> str:
    binding = compiled.binding
    operands = [(operand.name, operand.shape, operand.symmetric) for operand in binding.operands]
    digest = hashlib.sha256(repr((binding.name, binding.code, operands, binding.workspace)).encode())
    digest.update(binding.parameters.tobytes())
    digest.update(binding.tables.tobytes())
    return f"{binding.name}.{digest.hexdigest()[:24]}"


def _capsule(address: int) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, None, None)
