"""JAX as a library of differentiable functions: see `kinetree.bridges.interface`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.bridges.differentiable import Differentiable, refuse, refuse_complex
from kinetree.bridges.interface import Bridge
from kinetree.errors import InputError
from kinetree.jax.differentiation import VALUE
from kinetree.jax.ffi import jax, jnp, run


class Arrays:
    """JAX arrays."""

    numpy = jnp
    run = staticmethod(run)

    def apply(self, matrix: Any, vector: Any) -> Any:
        """Matrices times vectors."""
        return jnp.einsum("...ij,...j->...i", matrix, vector)


class Library:
    """JAX."""

    arrays = Arrays()

    def function(self, function: Differentiable) -> Callable[..., Any]:
        """The function for arguments of any kind, compiled for each combination of types and shapes."""

        @jax.jit  # type: ignore[untyped-decorator]
        def compiled(*given: Any) -> Any:
            arrays, batch = function.arguments(given, self.array)
            kind = jnp.result_type(0.0, *arrays)  # integers become floats, single precision stays
            # of a type that kernels accept; JAX itself differentiates the broadcasting
            dtype = jnp.promote_types(kind, jnp.float32)
            full = [jnp.broadcast_to(x, (*batch, x.shape[-1])).astype(dtype) for x in (*arrays, *function.fixed)]
            return function.shaped(VALUE.bind(*full, function=function).astype(kind))

        def call(*given: Any) -> Any:
            if not all(isinstance(array, (jax.Array, np.ndarray)) and array.dtype.kind != "O" for array in given):
                given, _ = function.arguments(given, self.array)
            return compiled(*given)

        return call

    def array(self, name: str, given: Any) -> Any:
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


bridge = Bridge(Library())
