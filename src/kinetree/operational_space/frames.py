"""Tasks of frames, of pairs of frames and of the centre of mass: all quantities come straight out of recursions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from kinetree.algorithms.operational_space import inertia, inverse_inertia, task_dynamics
from kinetree.algorithms.operational_space.drift import task_drift
from kinetree.algorithms.operational_space.response import response, task_jacobian
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.operational_space.function import TaskFunction
from kinetree.operational_space.methods import chosen
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array

Guard = Callable[[Mechanism], None]


class TaskSet(Protocol):
    """What can be computed of the rows of some tasks, at a configuration q of shape (…, nq)."""

    #: For each row, the number of its group: rows of one task that all turn, or all move.
    groups: Array

    @property
    def inverse_inertia(self) -> Callable[..., Array]:
        """Λ⁻¹ = J M⁻¹ Jᵀ of q, (…, r, r)."""

    @property
    def dynamics(self) -> Callable[..., tuple[Array, ...]]:
        """Λ of q, its spread, J̄, (…, nv, r), and N, (…, nv, nv)."""

    @property
    def jacobian(self) -> Callable[..., Array]:
        """J of q, (…, r, nv)."""

    @property
    def response(self) -> Callable[..., Array]:
        """M⁻¹Jᵀ of q, (…, nv, r)."""

    @property
    def drift(self) -> Callable[..., Array]:
        """J̇v of q and v, (…, r)."""


class FrameTasks:
    """Rows of frames, of pairs of frames and of the centre of mass.

    Args:
        mechanism: The robot.
        sites: The frames, with their rows and their parts in tasks.
        method: Name of the algorithm for Λ⁻¹, or "auto".
        reference: From where motions of single frames are seen.
        guard: Raises for mechanisms without an inverse mass matrix.
        mass_guard: Raises for mechanisms without mass, which have no centre.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sites: tuple[Site, ...],
        method: str,
        reference: str,
        guard: Guard | None,
        mass_guard: Guard | None,
    ) -> None:
        self._mechanism, self._sites, self._guard = mechanism, sites, guard
        self._method, self._reference = method, reference
        self._parts = Parts.of(sites)
        self._mass_guard = mass_guard if self._parts.mass else None
        self.groups = row_groups([site.rows for site in sites if site.part != "near"])

    @cached_property
    def _chosen(self) -> str:
        """The name of the algorithm for Λ⁻¹."""
        return chosen(self._method, self._mechanism, self._sites)

    @cached_property
    def inverse_inertia(self) -> TaskFunction:
        return self._function("inverse_inertia", inverse_inertia(self._chosen, self._reference, self._parts), True)

    @cached_property
    def inertia(self) -> TaskFunction:
        """Λ of q, (…, r, r), and its spread, (…)."""
        return self._function("inertia", inertia(self._chosen, self._reference, self._parts), True)

    @cached_property
    def dynamics(self) -> TaskFunction:
        return self._function("task_dynamics", task_dynamics(self._reference, self._parts), True)

    @cached_property
    def jacobian(self) -> TaskFunction:
        return self._function("jacobian", task_jacobian(self._reference, self._parts))

    @cached_property
    def response(self) -> TaskFunction:
        return self._function("response", response(self._reference, self._parts), True)

    @cached_property
    def drift(self) -> TaskFunction:
        return self._function("jacobian_dot_v", task_drift(self._reference, self._parts))

    def _function(self, name: str, algorithm: Algorithm, inverts: bool = False) -> TaskFunction:
        guards = (self._mass_guard, self._guard if inverts else None)
        return TaskFunction(name, self._mechanism, algorithm, self._sites, partial(_require_all, guards))


def _require_all(guards: tuple[Guard | None, ...], mechanism: Mechanism) -> None:
    for guard in guards:
        if guard is not None:
            guard(mechanism)


def row_groups(rows: list[tuple[int, ...]]) -> Array:
    """For each row of some tasks, a number that it shares with those rows of its task that have the same unit."""
    return np.array([2 * i + (row >= 3) for i, each in enumerate(rows) for row in each])
