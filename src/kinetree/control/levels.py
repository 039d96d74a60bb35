"""The levels of a controller: constraints, joints at their limits and goals, each with its cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.control.hierarchy import Level, solver
from kinetree.control.limited import STUCK
from kinetree.engines.kernel_function import compiled
from kinetree.engines.native.compiled import Compiled
from kinetree.kernels.priorities import least_share
from kinetree.model.constraint_solver import REDUNDANT
from kinetree.operational_space.prepared import Tasks
from kinetree.operational_space.singular import means
from kinetree.spatial.value import Array

#: Bounds of `cut="auto"`.
_LEAST_CUT, _LARGEST_CUT = 1e-6, 1e-2


class Levels:
    """All levels; limits come between constraints and goals.

    Args:
        tasks: The rows of constraints and goals.
        held: Number of rows of constraints.
        rows: Number of rows of each level of goals.
        cut: As of `OperationalSpace`.
        policy: As of `hierarchy`.
        start: The configuration at which cuts are chosen.
    """

    def __init__(self, tasks: Tasks, held: int, rows: Sequence[int], cut: Any, policy: str, start: Array) -> None:
        self._tasks, self._held, self._rows = tasks, held, tuple(rows)
        self._cut, self._policy, self._start = cut, policy, start
        self._known: dict[int, list[Level]] = {}
        self._solvers: dict[int, Compiled] = {}

    def _uncut(self, reach: Array) -> list[Level]:
        """The levels with the least cuts, for a given reach of all rows."""
        return self._blocks([_LEAST_CUT] * len(self._rows), "truncated", 0, reach)

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """`cut` of each level of goals."""
        if self._cut != "auto":
            return (float(self._cut),) * len(self._rows)
        A = self._tasks.core.recursions.inverse_inertia_at(self._start)
        levels = self._uncut(self._tasks.core.recursions.reach)
        _, every = solver(levels)(A, np.zeros(len(A)))
        cuts = []
        for level in levels[-len(self._rows) :]:
            values = every[level.rows]
            regular = values[values > _LEAST_CUT]
            cuts.append(min(_LARGEST_CUT, 0.1 * float(regular.min(initial=1.0))))
        return tuple(cuts)

    @cached_property
    def row_cuts(self) -> Array:
        """The cut of each row's level."""
        return np.concatenate([np.full(one.rows.stop - one.rows.start, one.cut) for one in self.blocks()])

    def blocks(self, limits: int = 0) -> list[Level]:
        """All levels.

        Args:
            limits: Number of joints at their limits.
        """
        if limits not in self._known:
            self._known[limits] = self._blocks(self.cuts, self._policy, limits, self._tasks.core.recursions.reach)
        return self._known[limits]

    def solve(self, A: Array, residual: Array, limits: int = 0) -> tuple[Array, Array]:
        """Forces along the rows, and the smallest eigenvalue divided by its cut, over all levels of goals.

        Args:
            A: Λ⁻¹ of all rows, (…, r, r).
            residual: (…, r).
            limits: Number of joints at their limits.
        """
        force, values = self.solver(limits)(A, residual)
        of_rows = self.shares(limits)
        return force, compiled(least_share, n=len(of_rows))(values, of_rows)

    def solver(self, limits: int = 0) -> Compiled:
        """See `hierarchy.solver`."""
        if limits not in self._solvers:
            self._solvers[limits] = solver(self.blocks(limits))
        return self._solvers[limits]

    def shares(self, limits: int = 0) -> Array:
        """What `least_share` needs of each row, (r, 2): eigenvalues of goals are divided by their cuts.

        Args:
            limits: Number of joints at their limits.
        """
        levels = self.blocks(limits)
        found = np.tile([0.0, np.inf], (levels[-1].rows.stop, 1))
        for level, cut in zip(levels[-len(self._rows) :], self.cuts, strict=True):
            found[level.rows] = 1.0 / cut, 0.0
        return found

    def _blocks(self, cuts: Sequence[float], policy: str, limits: int, reach: Array) -> list[Level]:
        groups = self._tasks.core.recursions.groups
        found: list[Level] = []
        start = 0

        def add(rows: int, cut: float, policy: str, own: slice | None) -> None:
            nonlocal start
            mean, away = (np.eye(rows), np.zeros(rows)) if own is None else (means(groups[own]), reach[own])
            found.append(Level(slice(start, start + rows), cut, policy, mean, away))
            start += rows

        if self._held:
            add(self._held, REDUNDANT, "truncated", slice(0, self._held))
        if limits:
            add(limits, STUCK, "truncated", None)
        at = self._held
        for rows, cut in zip(self._rows, cuts, strict=True):
            add(rows, cut, policy, slice(at, at + rows))
            at += rows
        return found
