"""Λ, and Λ with J̄ and N, as functions of q for hot loops: one kernel for all samples that are far from singular.

The kernel says of each sample how far from singular it is (`spread`, see `kinetree.algorithms.operational_space
.inversion`). Samples for which that is not far enough are computed again as an `OperationalSpace`, which knows what to
do with singular directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kinetree.engines.count import Count
from kinetree.errors import InputError
from kinetree.operational_space.function import TaskFunction
from kinetree.operational_space.space import OperationalSpace
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self


class TaskDynamics(NamedTuple):
    """Λ, J̄ and N of tasks with r rows.

    Attributes:
        inertia: Λ, (…, r, r).
        dynamically_consistent_inverse: J̄ = M⁻¹JᵀΛ, (…, nv, r).
        nullspace: N = 1 − J̄J, (…, nv, nv).
    """

    inertia: Array
    dynamically_consistent_inverse: Array
    nullspace: Array


class HotFunction:
    """What inertias and task dynamics have in common.

    Args:
        kernel: Gives Λ, its spread, and whatever else.
        trusted: The spread below which a sample is regular.
        space: The operational space of the same tasks at some q.
        policy: What to do with singular directions.
    """

    #: What an operational space calls the results.
    quantities: tuple[str, ...] = ("inertia",)

    def __init__(
        self, kernel: TaskFunction, trusted: float, space: Callable[[Array], OperationalSpace], policy: str
    ) -> None:
        self._kernel, self._trusted, self._space, self._policy = kernel, trusted, space, policy

    def engine(self, name: str) -> Self:
        """The same function on another engine: "native" or "reference"."""
        return type(self)(self._kernel.engine(name), self._trusted, self._space, self._policy)

    def compile(self) -> None:
        """Compile now what later calls need."""
        self._kernel.compile()

    def count(self) -> Count:
        """Operations of one evaluation, where no task is singular."""
        return self._kernel.count()

    def _into(self, q: Any, out: Sequence[Any]) -> Any:
        """Λ, spread and the rest in a user's arrays, right for all samples."""
        # Samples may be computed again after the kernel has written: q must still be what it was.
        if isinstance(q, np.ndarray) and any(np.may_share_memory(q, one) for one in out if isinstance(one, np.ndarray)):
            q = q.copy()
        first, *rest = out
        results = self._kernel(q, out=(first, np.empty(np.shape(q)[:-1]), *rest))
        self._mend(q, results)
        return results

    def _mend(self, q: Any, results: Any) -> None:
        """Compute samples again that are not trusted."""
        doubtful = np.logical_not(results[1] < self._trusted)
        if doubtful.any():
            # An error tells the places of samples in the whole batch.
            alone = doubtful.ndim == 0 or self._policy == "raise"
            self._again(np.asarray(q, dtype=np.float64), ... if alone else doubtful, results)

    def _again(self, q: Array, which: Any, results: Any) -> None:
        space = self._space(q[which])
        for result, name in zip((results[0], *results[2:]), self.quantities, strict=True):
            result[which] = getattr(space, name)


class Inertia(HotFunction):
    """Λ of some tasks as a function of q, (…, r, r): `f(q)` or `f(q, out=…)`."""

    def __call__(self, q: Any, out: Any = None) -> Array:
        """Λ, (…, r, r)."""
        inertia: Array
        if out is not None:
            inertia, _ = self._into(q, (out,))
            return inertia
        inertia, spread = results = self._kernel(q)
        if spread.ndim or not spread.item() < self._trusted:  # a single sample is judged in no time
            self._mend(q, results)
        return inertia


class TaskDynamicsFunction(HotFunction):
    """Λ, J̄ and N of some tasks as a function of q: `f(q)` or `f(q, out=(…, …, …))`."""

    quantities = TaskDynamics._fields

    def __call__(self, q: Any, out: tuple[Any, Any, Any] | None = None) -> TaskDynamics:
        """Λ, J̄ and N."""
        if out is not None and (not isinstance(out, (tuple, list)) or len(out) != len(self.quantities)):
            given = f"{len(out)} arrays" if isinstance(out, (tuple, list)) else type(out).__name__
            raise InputError(f"task_dynamics: out is a tuple of three arrays, for Λ, J̄ and N; got {given}")
        if out is not None:
            inertia, _, consistent, nullspace = self._into(q, out)
            return TaskDynamics(inertia, consistent, nullspace)
        inertia, spread, consistent, nullspace = results = self._kernel(q)
        if spread.ndim or not spread.item() < self._trusted:
            self._mend(q, results)
        return TaskDynamics(inertia, consistent, nullspace)
