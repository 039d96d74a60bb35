"""Λ from Λ⁻¹, with a measure of how far it can be trusted: see `kinetree.kernels.solve`.

Weights of rows are how far a task moves at this configuration, plus how far the mechanism can move it at any (`reach`),
so that the rounding left by rows that cancel is never mistaken for motion.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, invert
from kinetree.language.tree import Indexed, Tree


def inertia_by(inverse_inertia: Callable[..., None], parts: TaskKinds) -> Callable[..., None]:
    """Λ in a single program, by one of the methods for Λ⁻¹."""

    def inertia(tree: Tree, q: Indexed, reach: Indexed, inertia: Indexed, spread: Indexed) -> None:
        B, weight = tree.array("rows", "rows"), tree.array("rows")
        if parts.relative:
            clear(tree, B)
        inverse_inertia(tree, q, B)
        weigh(tree, B, reach, weight)
        rows = task_rows(tree)
        invert(rows, B)
        add_spread(rows, B, weight, spread)
        for one in tree.task_rows():
            for other in tree.task_rows(one):
                inertia[one, other] = -B[one, other]

    return inertia


def clear(tree: Tree, B: Indexed) -> None:
    """Set all entries to zero, since the contributions of the two ends of relative tasks are accumulated."""
    for one in tree.task_rows():
        for other in tree.task_rows():
            B[one, other] = 0.0


def weigh(tree: Tree, B: Indexed, reach: Indexed, weight: Indexed) -> None:
    """Weights of rows: the mean diagonal entry in B of the task's angular, or of its linear rows, plus reach."""
    for frame, _ in tree.frames():
        rows = list(frame.rows())
        for moves in (False, True):
            alike = [row for row in rows if row.moves is moves]
            mean = sum(B[row, row] for row in alike) * (1.0 / max(len(alike), 1))
            for row in alike:
                weight[row] = mean + reach[row]
