"""Inverses of symmetric positive-definite matrices by sweeps, with a measure of how far they can be trusted: O(n³).

Each sweep pivots on a block of up to six rows: with D the block itself and C its columns in the rest of the matrix,

    D ← −D⁻¹,    C ← C D⁻¹,    rest ← rest − C D⁻¹ Cᵀ

and after the last sweep A has become −A⁻¹. Only the upper triangle is stored. On the rows of tasks, blocks are the
tasks.

`spread` measures how close the matrix is to being singular. Weights w make rows of different units comparable. The
least eigenvalue of W^(−½) A W^(−½) is at least 1/√spread, by the Frobenius norm of its inverse. A pivot that is zero or
NaN makes `spread` infinite or NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import less
from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.kernels.products import mirror
from kinetree.language.tree import Indexed
from kinetree.spatial.inertia import Factor
from kinetree.spatial.value import Array

#: Rows of a block.
BLOCK = 6


@kernel(A=("n", "n"), b=("n",), weight=("n",), x=("n",), spread=(), outputs=("x", "spread"), sparse=("spread",))
def solve_symmetric(k: Workspace, A: Indexed, b: Indexed, weight: Indexed, x: Indexed, spread: Indexed) -> None:
    """The solution of A x = b for a symmetric and positive definite A, and its `spread` with given weights."""
    B, total = k.copy(A, "n", "n"), k.array("n")
    invert(k.n, B)
    add_spread(k.n, B, weight, spread)
    apply_inverse(k.n, B, b, total)
    for i in k.n:
        x[i] = total[i]


def invert(n: Size, B: Indexed) -> None:
    """Turn A, the upper triangle of B, into −A⁻¹."""
    # one array for each possible row of a block: C, and C D⁻¹
    crossing, turned = ([n.vector() for _ in range(BLOCK)] for _ in range(2))

    def exchange(D: Factor, column: list[Any], other: Any) -> Array:
        solved = D.solve(np.array(column))
        for i, (entry, turned_entry) in enumerate(zip(column, solved, strict=True)):
            crossing[i][other], turned[i][other] = entry, turned_entry
        return solved

    for own in n.blocks(BLOCK):
        size = len(own)
        D = Factor.of(np.array([[B[own[min(i, j)], own[max(i, j)]] for j in range(size)] for i in range(size)]))
        for other in n.before(own):
            for row, entry in zip(own, exchange(D, [B[other, row] for row in own], other), strict=True):
                B[other, row] = entry
        for other in n.after(own):
            for row, entry in zip(own, exchange(D, [B[row, other] for row in own], other), strict=True):
                B[row, other] = entry
        inverse = D.inverse()
        for i, row in enumerate(own):
            for j in range(i, size):
                B[row, own[j]] = -inverse[i, j]
            for each in (*crossing[:size], *turned[:size]):
                each[row] = 0.0  # the update below is for the rest
        for one in n:
            entries = [array[one] for array in crossing[:size]]
            for other in n.since(one):
                B[one, other] = B[one, other] - sum(x * y[other] for x, y in zip(entries, turned, strict=False))


def write_inverse(n: Size, B: Indexed, inverse: Indexed) -> None:
    """A⁻¹, both triangles, from the upper triangle of B = −A⁻¹, whose other triangle is filled."""
    mirror(n, B)
    for one in n:
        for other in n:
            inverse[one, other] = -B[one, other]


def apply_inverse(n: Size, B: Indexed, right: Indexed, x: Indexed) -> None:
    """x = A⁻¹ r from the upper triangle of B = −A⁻¹, whose other triangle is filled."""
    mirror(n, B)
    for one in n:
        x[one] = 0.0
    for one in n:
        entry = right[one]
        for other in n:
            x[other] = x[other] - B[one, other] * entry


def add_spread(n: Size, B: Indexed, weight: Indexed, spread: Indexed) -> None:
    """Accumulate `spread`, which starts at zero, from the upper triangle of B = −A⁻¹."""
    squares = n.vector()
    for one in n:
        squares[one] = 0.0
    for one in n:
        share = weight[one]
        for other in n.since(one):
            squares[other] = squares[other] + share * (B[one, other] * B[one, other])
    # entries off the diagonal count twice; twice the sum of all is enough
    for one in n:
        spread[...] = spread[...] + 2.0 * (squares[one] * weight[one])


@kernel(spread=(), before=(), after=(), outputs=("after",))
def count_doubt(_k: Workspace, spread: Indexed, before: Indexed, after: Indexed) -> None:
    """Add one unless a `spread`, divided by what can be trusted, is less than one; NaN counts."""
    after[...] = before[...] + less(spread[...], 1.0, 0.0, 1.0)
