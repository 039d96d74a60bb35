"""Compiled functions for JAX: registered once with XLA, by name."""

from __future__ import annotations

import ctypes
import hashlib
from functools import lru_cache
from typing import Any

from kinetree.engines.locks import Lock
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.xla import Handler
from kinetree.jax.primitives import ad, jax, jnp, primitive
from kinetree.model.differentiable import refuse_second_derivatives
from kinetree.model.model import Model

__all__ = ["JAX", "run"]

#: Handlers by their name in XLA. XLA cannot unregister one, so they live as long as the process.
_handlers: dict[str, Handler] = {}
_registering = Lock()


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


class JAX:
    """JAX arrays, for `Differentiable`."""

    def run(self, bound: Any, *arrays: Any) -> Any:
        """Call the result of `Function.bound`."""
        return run(bound, *arrays)

    def tangent_map(self, robot: Model, q: Any) -> Any:
        """`Model.tangent_map`, (…, nv, nq)."""
        return run(robot.tangent_map.bound(), q)

    def apply(self, matrix: Any, vector: Any) -> Any:
        """Matrices times vectors."""
        return jnp.einsum("...ij,...j->...i", matrix, vector)

    def transpose(self, matrix: Any) -> Any:
        """Swap the last two axes."""
        return jnp.swapaxes(matrix, -1, -2)

    def stack(self, vectors: Any) -> Any:
        """Stack vectors as the rows of a matrix."""
        return jnp.stack(vectors, axis=-2)
