"""Strict priorities: a block LDLᵀ factorisation of the one Λ⁻¹ of all rows, level by level.

With A = Λ⁻¹ of all rows in order of priority, and r the residual acceleration of the rows,

    for level k:   G_k replaces A_kk⁻¹                                                          (1)
                   for rows after:  C = A_·k G_k,   r_· −= C r_k,   A_·· −= C A_k·              (2)
    backwards:     f_k = G_k (r_k − A_k· f_·)                                                    (3)

which is the null-space recursion of [SK05] without matrices of the robot's size. What remains of A after (2) is the
inverse inertia of the lower levels with all higher levels at rest. If every level is feasible, the result solves
A f = r.

The eigenvalues λ of A_kk, with rows weighted as in `kinetree.tasks.singular` by their values *before* (2),
show which directions are left to a level. G has its eigenvectors, and the eigenvalues

    "truncated"    1/λ for λ > ε, else 0
    "blend"        ω/λ with ω = s²(3 − 2s), s = clip((λ − ε₀)/(ε − ε₀), 0, 1), ε₀ = ε/100

Both hand the directions that a level gives up to the levels below, the second one continuously. Damping would not: it
would still push along a direction that a higher level blocks.

[SK05] L. Sentis, O. Khatib, "Synthesis of whole-body behaviors through hierarchical control of behavioral primitives",
       International Journal of Humanoid Robotics 2, 2005.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.eigen import compose, diagonalize, settle, weigh
from kinetree.kernels.language import Kernel
from kinetree.kernels.priorities import add_level, blended_reciprocals, eliminate, least_share, truncated_reciprocals
from kinetree.model.constraints import REDUNDANT
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import executed
from kinetree.spatial.value import Array
from kinetree.tasks.singular import CUT, means
from kinetree.tasks.tasks import Tasks

#: G by the values of a controller's `singular=`.
_RECIPROCALS: dict[str, Kernel] = {"blend": blended_reciprocals, "truncated": truncated_reciprocals}
POLICIES = tuple(_RECIPROCALS)


class Level(NamedTuple):
    """Rows of one priority.

    Attributes:
        rows: Indices of its rows.
        cut: ε, the eigenvalue below which directions are treated as singular.
        policy: One of `POLICIES`.
        mean: Maps a number per row to the mean over rows of the same kind, (k, k).
        reach: Added to the weights, (k,).
    """

    rows: slice
    cut: float
    policy: str
    mean: Array
    reach: Array


def forces(levels: Sequence[Level], run: Any, A: Any, r: Any) -> tuple[Any, Any]:
    """The recursion: forces along all rows, (r,), and the eigenvalues of each level in the place of its rows, (r,).

    Levels partition the rows, highest priority first; A is Λ⁻¹ of all rows, r their residual accelerations.
    """
    rows = levels[-1].rows.stop
    numbers = np.arange(rows * rows).reshape(rows, rows)
    own = run.taken(A, np.diagonal(numbers))  # weights do not change with (2)
    passed, values = [], []
    for level in levels:
        block, n = numbers[level.rows, level.rows], level.rows.stop - level.rows.start
        weighing, diagonalizing, settling, inverting, composing = (
            compiled(kernel, n=n) for kernel in (weigh, diagonalize, settle, _RECIPROCALS[level.policy], compose)
        )
        given = run.taken(A, block), run.taken(own, np.arange(rows)[level.rows])
        weighted, roots, infinite = run(weighing, *given, level.mean, level.reach)
        found, vectors = run(diagonalizing, weighted)
        found, *_ = run(settling, found, infinite, CUT)
        values.append(found)
        G = run.placed(run(composing, vectors, roots, run(inverting, found, level.cut)), block, (rows, rows))  # (1)
        passed.append((A, r, G))
        if level is not levels[-1]:
            A, r = run(compiled(eliminate, n=rows), A, r, G, 1.0 * (np.arange(rows) >= level.rows.stop))  # (2)
    f: Any = np.zeros(rows)
    for A, r, G in reversed(passed):  # (3)
        f = run(compiled(add_level, n=rows), A, r, G, f)
    return f, run.joined(*values)


def reciprocals(values: Array, cut: float, policy: str) -> Array:
    """Regularised 1/λ, of the shape of λ; NaN stays NaN."""
    result: Array = compiled(_RECIPROCALS[policy], n=values.shape[-1])(values, cut)
    return result


#: Eigenvalue below which a joint limit cannot be enforced.
STUCK = 1e-8
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
        rows = len(A)
        text = executed([Operand("A", (rows, rows)), Operand("r", (rows,))], partial(forces, levels), "native")
        _, every = text(A, np.zeros(rows))
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
        """All levels, with a number of joints at their limits."""
        if limits not in self._known:
            self._known[limits] = self._blocks(self.cuts, self._policy, limits, self._tasks.core.recursions.reach)
        return self._known[limits]

    def forces(self, run: Any, A: Any, residual: Any, limits: int = 0) -> tuple[Any, Any]:
        """Forces along the rows, and the smallest eigenvalue divided by its cut, over all levels of goals."""
        force, values = forces(self.blocks(limits), run, A, residual)
        of_rows = self._shares(limits)
        return force, run(compiled(least_share, n=len(of_rows)), values, of_rows)

    def _shares(self, limits: int) -> Array:
        """What `least_share` needs of each row, (r, 2): eigenvalues of goals are divided by their cuts."""
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
