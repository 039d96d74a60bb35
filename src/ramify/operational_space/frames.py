"""Tasks of single frames: all of their quantities come straight out of recursions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from ramify.algorithms.kinematics import JACOBIANS_DOT_V
from ramify.algorithms.operational_space import inertia, inverse_inertia, task_dynamics
from ramify.algorithms.operational_space.response import RESPONSES, TASK_JACOBIANS
from ramify.operational_space.function import TaskFunction
from ramify.operational_space.methods import chosen
from ramify.recursion.mechanism import Mechanism, Site
from ramify.spatial.value import Array

Guard = Callable[[Mechanism], None]


class TaskSet(Protocol):
    """What can be computed of the rows of some tasks, at a configuration q of shape (…, nq)."""

    #: For each row, the number of its group: rows of one task that all turn, or all move.
    groups: Array

    @property
    def inverse_inertia(self) -> Callable[..., Array]:
        """Λ⁻¹ = J M⁻¹ Jᵀ of q, (…, r, r)."""

    @property
    def jacobian(self) -> Callable[..., Array]:
        """J of q, (…, r, nv)."""

    @property
    def response(self) -> Callable[..., Array]:
        """M⁻¹Jᵀ of q, (…, nv, r)."""

    def drift(self, q: Array, v: Array) -> Array:
        """J̇v, (…, r)."""


class FrameTasks:
    """Rows of frames, seen from a reference.

    Args:
        mechanism: The robot.
        sites: The frames, with their rows.
        method: Name of the algorithm for Λ⁻¹, or "auto".
        reference: From where motions are seen.
        guard: Raises for mechanisms without an inverse mass matrix.
    """

    def __init__(
        self, mechanism: Mechanism, sites: tuple[Site, ...], method: str, reference: str, guard: Guard | None
    ) -> None:
        self._mechanism, self._sites, self._guard = mechanism, sites, guard
        self._method, self._reference = method, reference
        self.groups = row_groups([site.rows for site in sites])
        self._asked = np.array([6 * i + row for i, site in enumerate(sites) for row in site.rows])

    @cached_property
    def _chosen(self) -> str:
        return chosen(self._method, self._mechanism, self._sites)

    @cached_property
    def inverse_inertia(self) -> TaskFunction:
        algorithm = inverse_inertia(self._chosen, self._reference)
        return TaskFunction("inverse_inertia", self._mechanism, algorithm, self._sites, self._guard)

    @cached_property
    def inertia(self) -> TaskFunction:
        """Λ of q, (…, r, r), and its spread, (…)."""
        algorithm = inertia(self._chosen, self._reference)
        return TaskFunction("inertia", self._mechanism, algorithm, self._sites, self._guard)

    @cached_property
    def dynamics(self) -> TaskFunction:
        """Λ of q, its spread, J̄, (…, nv, r), and N, (…, nv, nv)."""
        algorithm = task_dynamics(self._reference)
        return TaskFunction("task_dynamics", self._mechanism, algorithm, self._sites, self._guard)

    @cached_property
    def jacobian(self) -> TaskFunction:
        algorithm = TASK_JACOBIANS[self._reference]
        return TaskFunction("jacobian", self._mechanism, algorithm, self._sites)

    @cached_property
    def response(self) -> TaskFunction:
        algorithm = RESPONSES[self._reference]
        return TaskFunction("response", self._mechanism, algorithm, self._sites, self._guard)

    @cached_property
    def _accelerations(self) -> TaskFunction:
        algorithm = JACOBIANS_DOT_V[self._reference]
        return TaskFunction("jacobian_dot_v", self._mechanism, algorithm, self._sites)

    def drift(self, q: Array, v: Array) -> Array:
        """J̇v, (…, r)."""
        accelerations = self._accelerations(q, v)
        flat: Array = accelerations.reshape(*accelerations.shape[:-2], 6 * len(self._sites))
        return flat[..., self._asked]


def row_groups(rows: list[tuple[int, ...]]) -> Array:
    """For each row of some tasks, a number that it shares with those rows of its task that have the same unit."""
    return np.array([2 * i + (row >= 3) for i, each in enumerate(rows) for row in each])
