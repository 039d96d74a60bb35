"""JAX as a library of differentiable functions: see `kinetree.bridges.interface`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.bridges.differentiable import Differentiable, refuse, refuse_complex
from kinetree.bridges.interface import Bridge
from kinetree.errors import InputError
from kinetree.jax.differentiation import VALUE
from kinetree.jax.ffi import jax, jnp, run
from kinetree.simulation import Simulator


class Arrays:
    """JAX arrays."""

    numpy = jnp
    run = staticmethod(run)

    def apply(self, matrix: Any, vector: Any) -> Any:
        """Matrices times vectors."""
        return jnp.einsum("...ij,...j->...i", matrix, vector)

    def recomputed(self, doubts: Any, found: Sequence[Any], again: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """What was found, and what is found again for samples with doubts, if there are any."""

        def replaced() -> list[Any]:
            some = [(doubts > 0.0).reshape(doubts.shape + (1,) * (x.ndim - doubts.ndim)) for x in found]
            return [jnp.where(here, new, old) for here, new, old in zip(some, again(), found, strict=True)]

        chosen: Sequence[Any] = jax.lax.cond(jnp.any(doubts > 0.0), replaced, lambda: list(found))
        return chosen


class OnHost:
    """A function of NumPy arrays as one of JAX arrays, which calls Python back."""

    def __init__(self, function: Differentiable) -> None:
        self.sizes, self.size, self.groups = function.sizes, function.size, function.groups
        self.require_curvature, self._function = function.require_curvature, function

    def value(self, *arrays: Any) -> Any:
        return self._called("value", self.size, arrays)

    def change(self, *arrays: Any) -> Any:
        return self._called("change", self.size, arrays)

    def gradients(self, *arrays: Any) -> Any:
        return jnp.split(self._called("gradients", sum(self.sizes), arrays), np.cumsum(self.sizes)[:-1], -1)

    def _called(self, name: str, size: int, arrays: Any) -> Any:
        first = arrays[0]

        def run(*given: Any) -> Any:
            found = getattr(self._function, name)(*(np.asarray(x, dtype=self._function.dtype) for x in given))
            joined = np.concatenate(found, axis=-1) if name == "gradients" else found
            return joined.astype(first.dtype)

        return jax.pure_callback(run, jax.ShapeDtypeStruct((*first.shape[:-1], size), first.dtype), *arrays)


class Library:
    """JAX."""

    arrays = Arrays()

    def function(self, function: Differentiable) -> Callable[..., Any]:
        """The function for arguments of any kind, compiled for each combination of types and shapes."""
        inner = OnHost(function) if function.on_host else function

        @jax.jit  # type: ignore[untyped-decorator]
        def compiled(*given: Any) -> Any:
            arrays, batch = function.arguments(given, self.array)
            kind = jnp.result_type(0.0, *arrays)  # integers become floats, single precision stays
            # of a type that kernels accept; JAX itself differentiates the broadcasting
            dtype = jnp.promote_types(kind, jnp.float32)
            full = [jnp.broadcast_to(x, (*batch, x.shape[-1])).astype(dtype) for x in (*arrays, *function.fixed)]
            return function.shaped(VALUE.bind(*full, function=inner).astype(kind))

        def call(*given: Any) -> Any:
            if not all(isinstance(array, (jax.Array, np.ndarray)) and array.dtype.kind != "O" for array in given):
                given, _ = function.arguments(given, self.array)
            return compiled(*given)

        return call

    def motion(self, sim: Simulator, step: Callable[..., Any]) -> Callable[..., Any]:
        """States and residuals of the steps of a simulator, by a scan."""

        @jax.jit  # type: ignore[untyped-decorator]
        def moved(q: Any, v: Any, tau: Any, *friction: Any) -> tuple[Any, ...]:
            leads = [x.shape[:-1] for x in (q, v, *friction, *fixed)]
            batch = jnp.broadcast_shapes(*leads, tau.shape[:-2])
            kind = jnp.promote_types(jnp.result_type(0.0, q, v, tau, *friction), jnp.float32)
            start = [jnp.broadcast_to(x, (*batch, x.shape[-1])).astype(kind) for x in (q, v)]

            def advance(state: Any, push: Any) -> Any:
                after = step(*state, push, None, *friction)
                return after[:2], after

            _, after = jax.lax.scan(advance, tuple(start), jnp.moveaxis(tau.astype(kind), -2, 0))
            begin = *start, jnp.zeros(batch, kind)
            return tuple(
                jnp.moveaxis(jnp.concatenate([x[None], each]), 0, len(batch))
                for x, each in zip(begin, after, strict=True)
            )

        fixed = sim._steps.constants
        compiled: Callable[..., Any] = moved
        return compiled

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
