"""Matrices computed column by column, from a recursion that multiplies by them: exact, at O(n) per column.

Used for nodes that the recursions of whole matrices do not take. All columns of all samples are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, Signature
from typing import Any, ClassVar, NoReturn

import numpy as np

from kinetree.engines import arguments
from kinetree.engines.count import Count
from kinetree.engines.function import ForcedFunction, FrameFunction, P, R
from kinetree.errors import UnsupportedError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


class WithoutKernel:
    """What functions have in common that no single recursion computes.

    Attributes:
        how: How they are computed, for messages.
    """

    name: str
    mechanism: Mechanism
    how: ClassVar[str]

    @property
    def is_recursion(self) -> bool:
        """Whether the recursion alone computes the result."""
        return False

    def bound(self, *_: Any, **__: Any) -> NoReturn:
        """There is no kernel that computes the result alone."""
        raise UnsupportedError(
            f"{self.name} has no kernel of its own on robots with general nodes, such as "
            f"{self.mechanism.first_general!r}: it is {self.how}, in NumPy only"
        )


class _ByColumns(WithoutKernel):
    """What functions have in common whose recursion computes one column at a time."""

    how = "computed column by column"

    def _is_default(self, *_: Any) -> bool:
        return False


class FrameColumnFunction(_ByColumns, FrameFunction[P, R]):
    """A matrix for each frame, of q and v: recursions take q, v and w, and are linear in both vectors.

    Args:
        along: Which of v and w the columns of the matrix belong to; the other one is given.
    """

    def __init__(
        self, name: str, mechanism: Mechanism, algorithms: Mapping[str, Algorithm], *, site: Callable[[str], Site],
        frames: tuple[str, ...] = (), along: str = "v", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(name, mechanism, algorithms, site=site, frames=frames, **options)
        self._arrays, self._along = self._arrays[:2], along

    def _computed(self, bound: Callable[..., Any]) -> Callable[..., Any]:
        units = np.eye(self.mechanism.nv)

        def columns(q: Any, v: Any, out: Any = None) -> Array:
            q, v = (arguments.numbers(self.name, name, x, "fiucO") for name, x in (("q", q), ("v", v)))
            if q.ndim == 0 or v.ndim == 0:
                bound(q, v, v)  # which says what is wrong
            given = (units, v[..., None, :]) if self._along == "v" else (v[..., None, :], units)
            rank = max(q.ndim, v.ndim)
            found = np.moveaxis(bound(q[..., None, :], *given), rank - 1, -1)
            if out is None:
                return np.ascontiguousarray(found)
            (home,) = arguments.results(self.name, out, ("result",), (found.shape,), found.dtype)
            home[...] = found
            return home

        return columns

    def count(self, frames: Any = None, reference: str | None = None) -> Count:
        """Operations of one evaluation."""
        return super().count(frames, reference) * self.mechanism.nv


class _Derivatives(_ByColumns, ForcedFunction[P, R]):
    """Functions made of derivatives along all directions of (q, v, x), from a recursion that takes one direction."""

    @cached_property
    def _directions(self) -> tuple[Array, ...]:
        """All directions of (q, v, x), (3 nv, nv) each. Kernels take contiguous arrays as they are."""
        whole = np.eye(3 * self.mechanism.nv)
        return tuple(np.ascontiguousarray(part) for part in np.split(whole, 3, axis=-1))

    def _rows(self, arrays: Sequence[Any], f_ext: Any, along: Sequence[Any] = ()) -> Array:
        """Change of the result along each direction, (…, 3 nv, nv); or the rate of this change along another one."""
        sites, wrenches = self._wrenches(f_ext)
        sizes = self.mechanism.nq, self.mechanism.nv, self.mechanism.nv
        names = [argument.name for argument in self.algorithm.inputs]
        arrays = [arguments.numbers(self.name, name, array, "fiucO") for name, array in zip(names, arrays)]
        for name, array, size in zip(names, arrays, sizes, strict=False):
            arguments.require_shape(f"{self.name}: {name}", array.shape, (size,))
        states = [array if array.ndim == 1 else array[..., None, :] for array in arrays]
        further = [arguments.numbers(self.name, "direction", x, "fiucO") for x in along]
        further = [x if x.ndim == 1 else x[..., None, :] for x in further]
        pushed = [wrench[..., None, :, :] for wrench in wrenches]
        rows: Array = self._run(sites, self.algorithm, (*states, *self._directions, *further, *pushed), None)
        return rows

    def _bundled(self, parts: tuple[Array, ...], out: Any) -> Any:
        parts = tuple(map(np.ascontiguousarray, parts))
        if out is not None:
            names = [argument.name for argument in self.algorithm.inputs[3:6]]
            given = arguments.results(self.name, out, names, [part.shape for part in parts], parts[0].dtype)
            for place, part in zip(given, parts, strict=True):
                place[...] = part
            parts = given
        return parts if self._bundle is tuple else self._bundle(*parts)

    def count(self) -> Count:
        """Operations of one evaluation."""
        return super().count() * (3 * self.mechanism.nv)


class LinearizedFunction(_Derivatives[P, R]):
    """Derivatives of a function with respect to q, v and x, (…, nv, nv) each."""

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute all columns."""
        *arrays, f_ext = self._arguments(inputs, named)
        rows, n = self._rows(arrays, f_ext), self.mechanism.nv
        return self._bundled(tuple(np.swapaxes(rows[..., i : i + n, :], -1, -2) for i in range(0, 3 * n, n)), out)


class GradientFunction(_Derivatives[P, R]):
    """Gradients of the weighted sum of a function's results with respect to q, v and x, (…, nv) each."""

    #: Whether the recursion gives second derivatives, and a direction follows the weights.
    second: ClassVar[bool] = False

    def __init__(self, name: str, mechanism: Mechanism, algorithm: Algorithm, **options: Any) -> None:
        names = [argument.name for argument in algorithm.inputs[:3]]
        self._further = tuple(argument.name for argument in algorithm.inputs[3:6]) if self.second else ()
        arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in (*names, "w", *self._further)]
        f_ext = Parameter("f_ext", Parameter.POSITIONAL_OR_KEYWORD, default=None)
        signature = Signature([*arrays, f_ext, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])
        super().__init__(name, mechanism, algorithm, signature=signature, **options)

    @property
    def ranks(self) -> dict[str, int]:
        """The number of axes of one sample of each array."""
        return {**super().ranks, **dict.fromkeys(("w", *self._further), 1)}

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute all directions, and weigh them."""
        *arrays, f_ext = self._arguments(inputs, named)
        w = arguments.numbers(self.name, "w", arrays[3], "fiucO")
        arguments.require_shape(f"{self.name}: w", w.shape, (self.mechanism.nv,))
        for name, array in zip(self._further, arrays[4:], strict=True):
            arguments.require_shape(f"{self.name}: {name}", np.shape(array), (self.mechanism.nv,))
        # entry by entry in order, so that bits do not depend on a BLAS
        rows, weights = self._rows(arrays[:3], f_ext, arrays[4:]), w[..., None, :]
        total = rows[..., 0] * weights[..., 0]
        for i in range(1, self.mechanism.nv):
            total = total + rows[..., i] * weights[..., i]
        return self._bundled(tuple(np.split(total, 3, axis=-1)), out)


class HessianFunction(GradientFunction[P, R]):
    """Directional derivatives of these gradients, (…, nv) each."""

    second: ClassVar[bool] = True
