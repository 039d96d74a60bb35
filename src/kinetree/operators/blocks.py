"""Blocks of block diagonal and shift operators, and the Lyapunov equations of [J11] on them.

Blocks have the batch axes of the configurations; a loop over the nodes solves the equations for all samples at once.
Any block of Ω follows from the diagonal ones along the path between its two nodes.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kinetree.language.mechanism import WORLD, Mechanism
from kinetree.operators.algebra import Blocks, Expression, Operator
from kinetree.spatial.value import Array


def units(starts: Sequence[int]) -> Array:
    """Unit vectors of all nodes at once, (m, most): column i has a one at the i-th component of every node."""
    units = np.zeros((starts[-1], max((b - a for a, b in pairwise(starts)), default=0)))
    for a, b in pairwise(starts):
        units[a:b, : b - a] = np.eye(b - a)
    return units


def is_diagonal(expression: Expression) -> bool:
    """Whether an operator on nodes has no blocks beside the diagonal."""
    if expression.kind in ("product", "sum", "transpose"):
        return all(map(is_diagonal, expression.parts))
    return expression.kind in ("identity", "diagonal", "given")


def diagonal_blocks(operator: Operator, starts: Sequence[int]) -> list[Array]:
    """The diagonal blocks of an operator on nodes: of a diagonal one all at once, of another node by node."""
    if is_diagonal(operator._expression):
        columns = operator @ units(starts)
        return [columns[..., a:b, : b - a] for a, b in pairwise(starts)]
    return [operator.block(k, k) for k in range(len(starts) - 1)]


def shift_blocks(operator: Operator, mechanism: Mechanism) -> list[Array | None]:
    """E(p, k) of each node k, (…, size of p, size of k); None below the world. The transpose reads the parent only."""
    starts, parents = mechanism.m_starts, mechanism.parents
    rows = operator.T @ units(starts)
    found: list[Array | None] = []
    for k, p in enumerate(parents):
        block = rows[..., starts[k] : starts[k + 1], : starts[p + 1] - starts[p]] if p != WORLD else None
        found.append(None if block is None else np.swapaxes(block, -1, -2))
    return found


def gathered(X: list[Array], A: list[Any], B: list[Any], parents: Sequence[int]) -> list[Array]:
    """Y(k) = X(k) + Σ A(k, i) Y(i) Bᵀ(k, i) over the children i. Lemma 3, Eq. 13."""
    Y = list(X)
    for k in reversed(range(len(Y))):
        if (p := parents[k]) != WORLD:
            Y[p] = Y[p] + A[k] @ Y[k] @ np.swapaxes(B[k], -1, -2)
    return Y


def scattered(X: list[Array], A: list[Any], B: list[Any], parents: Sequence[int]) -> list[Array]:
    """Y(k) = Aᵀ(p, k) Y(p) B(p, k) + X(k). Lemma 5, Eq. 24."""
    Y = list(X)
    for k, p in enumerate(parents):
        if p != WORLD:
            Y[k] = np.swapaxes(A[k], -1, -2) @ Y[p] @ B[k] + Y[k]
    return Y


def block_on_path(
    Y: Sequence[Array], E: Sequence[Any], parents: Sequence[int], i: int, j: int, known: dict[Any, Array | None]
) -> Array | None:
    """Y(i, j) of Aᵀ X A from its diagonal blocks; None if the world is between the nodes. Lemma 5, Algorithm 4.3.

    The later of two nodes is no ancestor of the other, and is replaced by its parent until both are the nearest common
    ancestor; then Y(i, j) = Aᵀ(p, i) Y(p, j) or Y(i, p) A(p, j), back along the path. `known` keeps blocks of a path.
    """
    path = []
    while i != j and (i, j) not in known:
        path.append((i, j))
        i, j = (parents[i], j) if i > j else (i, parents[j])
    found = known[i, j] if i != j else None if i == WORLD else Y[i]
    for k, m in reversed(path):
        if found is not None:
            found = np.swapaxes(E[k], -1, -2) @ found if k > m else found @ E[m]
        known[k, m] = found
    return found


def times_blocks(blocks: Blocks, starts: Sequence[int], x: Array, *, transposed: bool, columns: bool) -> Array:
    """A block diagonal matrix times vectors in the last axis, term by term so that batches have the same bits."""
    parts = []
    for block, (a, b) in zip(blocks.each, pairwise(starts), strict=True):
        matrix = np.swapaxes(block, -1, -2) if transposed else block
        matrix = matrix[..., None, :, :] if columns else matrix
        parts.append(sum((matrix[..., i] * x[..., a + i, None] for i in range(b - a)), np.zeros(b - a)))
    shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)
