"""Matrices computed column by column, from a recursion that multiplies by them: exact, at O(n) per column.

Used for nodes that the recursions of whole matrices do not take. All columns of all samples are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinetree.engines import arguments
from kinetree.engines.count import Count
from kinetree.engines.function import FrameFunction, Function, P, R
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


def _columns(name: str, multiply: Callable[..., Any], q: Any, nv: int, out: Any) -> Array:
    """What `multiply(q, x)` makes of unit vectors x, along a new last axis."""
    q = np.asarray(q)
    if q.ndim == 0:
        multiply(q, np.zeros(nv))  # which says what is wrong with it
    columns = np.moveaxis(multiply(q[..., None, :], np.eye(nv)), q.ndim - 1, -1)
    if out is None:
        return np.ascontiguousarray(columns)
    (given,) = arguments.results(name, out, ("result",), (columns.shape,), columns.dtype)
    given[...] = columns
    return given


class ColumnFunction(Function[P, R]):
    """A matrix function of q whose recursion takes q and a vector, and gives the matrix times the vector."""

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute all columns."""
        (q,) = self._arguments(inputs, named)
        return _columns(self.name, self._multiply, q, self.mechanism.nv, out)

    def _multiply(self, q: Any, x: Any) -> Any:
        return self._run((), self.algorithm, (q, x), None)

    def _is_default(self, *_: Any) -> bool:
        return False

    def count(self) -> Count:
        """Operations of one evaluation."""
        return super().count() * self.mechanism.nv


class FrameColumnFunction(FrameFunction[P, R]):
    """The same for frames: recursions take q and joint velocities, and give velocities of frames."""

    def __init__(
        self, name: str, mechanism: Mechanism, algorithms: Mapping[str, Algorithm], *, site: Callable[[str], Site],
        frames: tuple[str, ...] = (), **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(name, mechanism, algorithms, site=site, frames=frames, **options)
        self._arrays = self._arrays[:1]

    def _computed(self, bound: Callable[..., Any]) -> Callable[..., Any]:
        return lambda q, out=None: _columns(self.name, bound, q, self.mechanism.nv, out)

    def _is_default(self, *_: Any) -> bool:
        return False

    def count(self, frames: Any = None, reference: str | None = None) -> Count:
        """Operations of one evaluation."""
        return super().count(frames, reference) * self.mechanism.nv
