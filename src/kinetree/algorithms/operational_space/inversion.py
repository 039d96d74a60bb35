"""Λ from Λ⁻¹ by symmetric sweeps, with a measure of how far it can be trusted. Cost O(r³).

Each sweep pivots on the rows of one task: with D the task's own block and C its columns in the rest of the matrix,

    D ← −D⁻¹,    C ← C D⁻¹,    rest ← rest − C D⁻¹ Cᵀ

and after the last sweep Λ⁻¹ has become −Λ. Only the upper triangle is stored. Nothing here depends on a tree; only the
tree language's loops over rows are used.

`spread` measures how close the matrix is to being singular. Weights w make rows of different units comparable: how far
a task moves at this configuration, plus how far the mechanism can move it at any (`reach`), so that the rounding left
by rows that cancel is never mistaken for motion. The least eigenvalue of W^(−½) Λ⁻¹ W^(−½) is at least 1/√spread, by
the Frobenius norm of its inverse. A pivot that is zero or NaN makes `spread` infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.symmetric import Factor
from kinetree.spatial.value import Array


def inertia_by(inverse_inertia: Callable[..., None], parts: Parts) -> Callable[..., None]:
    """Λ in a single program, by one of the methods for Λ⁻¹."""

    def inertia(tree: Tree, q: Indexed, reach: Indexed, inertia: Indexed, spread: Indexed) -> None:
        B, weight = tree.array("rows", "rows"), tree.array("rows")
        if parts.relative:
            clear(tree, B)
        inverse_inertia(tree, q, B)
        weigh(tree, B, reach, weight)
        sweep(tree, B)
        distrust(tree, B, weight, spread)
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


def sweep(tree: Tree, B: Indexed) -> None:
    """Turn Λ⁻¹, the upper triangle of B, into −Λ."""
    # One array for each possible row of a task: C, and C D⁻¹.
    crossing, turned = ([tree.array("rows") for _ in range(6)] for _ in range(2))

    def exchange(D: Factor, column: list[Any], other: Any) -> Array:
        solved = D.solve(np.array(column))
        for n, (entry, turned_entry) in enumerate(zip(column, solved, strict=True)):
            crossing[n][other], turned[n][other] = entry, turned_entry
        return solved

    for task, before, beyond in tree.tasks():
        own = task.rows
        D = Factor.of(np.array([[B[own[min(i, j)], own[max(i, j)]] for j in range(len(own))] for i in range(len(own))]))
        for other in before:
            for row, entry in zip(own, exchange(D, [B[other, row] for row in own], other), strict=True):
                B[other, row] = entry
        for other in beyond:
            for row, entry in zip(own, exchange(D, [B[row, other] for row in own], other), strict=True):
                B[row, other] = entry
        inverse = D.inverse()
        for i, row in enumerate(own):
            for j in range(i, len(own)):
                B[row, own[j]] = -inverse[i, j]
            for n in range(len(own)):
                crossing[n][row] = turned[n][row] = 0.0  # the update below is for the rest

        for one in tree.task_rows():
            entries = [array[one] for array in crossing[: len(own)]]
            for other in tree.task_rows(one):
                B[one, other] = B[one, other] - sum(x * y[other] for x, y in zip(entries, turned, strict=False))


def write(tree: Tree, B: Indexed, inertia: Indexed) -> None:
    """Λ from the upper triangle of B = −Λ, whose other triangle is filled.

    Args:
        tree: Provides the rows.
        B: From `sweep`, (r, r).
        inertia: Λ, both triangles, (r, r).
    """
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            B[other, one] = B[one, other]
    for one in tree.task_rows():
        for other in tree.task_rows():
            inertia[one, other] = -B[one, other]


def solve(tree: Tree, B: Indexed, right: Indexed, x: Indexed) -> None:
    """x = Λ r from the upper triangle of B = −Λ, whose other triangle is filled.

    Args:
        tree: Provides the rows.
        B: From `sweep`, (r, r).
        right: r, (r,).
        x: Another array, (r,).
    """
    for one in tree.task_rows():
        x[one] = 0.0
        for other in tree.task_rows(one):
            B[other, one] = B[one, other]
    for one in tree.task_rows():
        entry = right[one]
        for other in tree.task_rows():
            x[other] = x[other] - B[one, other] * entry


def distrust(tree: Tree, B: Indexed, weight: Indexed, spread: Indexed) -> None:
    """Accumulate `spread`, which starts at zero."""
    squares = tree.array("rows")
    for one in tree.task_rows():
        squares[one] = 0.0
    for one in tree.task_rows():
        share = weight[one]
        for other in tree.task_rows(one):
            squares[other] = squares[other] + share * (B[one, other] * B[one, other])
    # Entries off the diagonal count twice; twice the sum of all is enough.
    for one in tree.task_rows():
        spread[...] = spread[...] + 2.0 * (squares[one] * weight[one])
