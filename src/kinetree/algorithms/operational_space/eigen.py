"""Eigenvalues and eigenvectors of a weighted symmetric matrix, and functions of it. Cost O(r³).

Every sample takes the same operations in the same order, so its bits depend neither on its neighbours in the batch nor
on the processor. LAPACK guarantees neither.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.choices import less, magnitude
from kinetree.algorithms.operational_space.qr_iteration import qr_iteration
from kinetree.algorithms.operational_space.tridiagonal import tridiagonalize
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

_INFINITE = float("inf")


@algorithm(
    A=("rows", "rows"),
    own=("rows",),
    mean=("rows", "rows"),
    reach=("rows",),
    weighted=("rows", "rows"),
    roots=("rows",),
    infinite=(),
    outputs=("weighted", "roots", "infinite"),
    sparse=("infinite",),
)
def weigh(
    tree: Tree,
    A: Indexed,
    own: Indexed,
    mean: Indexed,
    reach: Indexed,
    weighted: Indexed,
    roots: Indexed,
    infinite: Indexed,
) -> None:
    """Divide rows and columns of a symmetric matrix by the square roots of the weights: means of `own`, plus `reach`.

    Args:
        tree: Provides the rows; nothing else of it is used.
        A: Symmetric, (r, r).
        own: What the weights are means of, (r,).
        mean: Symmetric; replaces each entry of a vector by the mean over its group, (r, r).
        reach: (r,).
        weighted: (r, r).
        roots: Square roots of the weights; one for rows that are immobile or not finite, (r,).
        infinite: Number of entries of `weighted` that are not finite, ().
    """
    root, bad = tree.array("rows"), tree.array("rows")
    root_weights(tree, own, mean, reach, root)
    for one in tree.task_rows():
        roots[one] = root[one]
        bad[one] = 0.0
    for one in tree.task_rows():
        scale = root[one]
        for other in tree.task_rows():
            entry = A[one, other] / (scale * root[other])
            weighted[one, other] = entry
            bad[other] = bad[other] + less(magnitude(entry), _INFINITE, 0.0, 1.0)
    for one in tree.task_rows():
        infinite[...] = infinite[...] + bad[one]


def root_weights(tree: Tree, own: Indexed, mean: Indexed, reach: Indexed, root: Indexed) -> None:
    """Square roots of the weights, the last argument; the others are those of `weigh`."""
    for one in tree.task_rows():
        root[one] = reach[one]
    for other in tree.task_rows():
        entry = own[other]
        for one in tree.task_rows():
            root[one] = root[one] + mean[other, one] * entry
    for one in tree.task_rows():
        root[one] = sqrt(less(-root[one], 0.0, root[one], 1.0))


@algorithm(A=("rows", "rows"), values=("rows",), vectors=("rows", "rows"), outputs=("values", "vectors"))
def diagonalize(tree: Tree, A: Indexed, values: Indexed, vectors: Indexed) -> None:
    """Eigenvalues and eigenvectors.

    Args:
        tree: Provides the rows; nothing else of it is used.
        A: Symmetric, (r, r).
        values: In no particular order, (r,).
        vectors: One eigenvector in each row, (r, r).
    """
    B, V = tree.array("rows", "rows"), tree.array("rows", "rows")
    diagonal, beside = tree.array("rows"), tree.array("rows")
    for one in tree.task_rows():
        for other in tree.task_rows():
            B[one, other] = A[one, other]
    tridiagonalize(tree, B, V, diagonal, beside)
    qr_iteration(tree, diagonal, beside, V)
    for one in tree.task_rows():
        values[one] = diagonal[one]
    for one in tree.task_rows():
        for other in tree.task_rows():
            vectors[one, other] = V[one, other]


@algorithm(
    computed=("rows",),
    infinite=(),
    cut=(),
    values=("rows",),
    edge=(),
    rank=(),
    condition=(),
    outputs=("values", "edge", "rank", "condition"),
    sparse=("edge", "rank", "condition"),
)
def settle(
    tree: Tree,
    computed: Indexed,
    infinite: Indexed,
    cut: Indexed,
    values: Indexed,
    edge: Indexed,
    rank: Indexed,
    condition: Indexed,
) -> None:
    """How many eigenvalues are singular.

    Args:
        tree: Provides the rows.
        computed: Eigenvalues, (r,).
        infinite: From `weigh`, ().
        cut: Fraction of the largest eigenvalue, or of one, up to which directions are singular, ().
        values: The same; NaN where the matrix was not finite, (r,).
        edge: The largest eigenvalue that counts as singular, ().
        rank: Number of larger ones; −1 where the matrix was not finite, ().
        condition: Condition number; infinite where a direction is singular, ().
    """
    poison = sqrt(-infinite[...])  # NaN, or −0
    condition[...] = _INFINITE
    for row in tree.task_rows():
        value = computed[row]
        edge[...] = less(edge[...], value, value, edge[...])
        condition[...] = less(value, condition[...], value, condition[...])
    most, least = edge[...], condition[...]
    limit = cut[...] * less(most, 1.0, 1.0, most)
    edge[...] = limit + poison
    condition[...] = less(limit, least, most / least, _INFINITE) + poison
    for row in tree.task_rows():
        value = computed[row] + poison
        values[row] = value
        rank[...] = rank[...] + less(limit, value, 1.0, 0.0)
    rank[...] = less(infinite[...], 0.5, rank[...], -1.0)


@algorithm(
    values=("rows",),
    vectors=("rows", "rows"),
    roots=("rows",),
    edge=(),
    softness=(),
    inverse=("rows", "rows"),
    outputs=("inverse",),
    symmetric=("inverse",),
)
def invert(
    tree: Tree, values: Indexed, vectors: Indexed, roots: Indexed, edge: Indexed, softness: Indexed, inverse: Indexed
) -> None:
    """The inverse of a weighted matrix, regularised in its singular directions.

    Args:
        tree: Provides the rows.
        values: λ, (r,).
        vectors: One eigenvector in each row, (r, r).
        roots: Square roots of the weights, (r,).
        edge: ε, the largest eigenvalue that counts as singular, ().
        softness: 1/λ is replaced by this times 2 ε/(λ² + ε²) in singular directions, ().
        inverse: (r, r).
    """
    reciprocals = tree.array("rows")
    limit = edge[...]
    for row in tree.task_rows():
        reciprocals[row] = regularized(values[row], limit, softness[...])
    _sum(tree, vectors, roots, reciprocals, inverse)


def regularized(value: Any, limit: Any, softness: Any) -> Any:
    """The reciprocal of an eigenvalue, or what replaces it up to the limit: see `invert`."""
    remaining = less(value, 0.0, 0.0, value)
    softened = softness * (2.0 * limit / (remaining * remaining + limit * limit))
    return less(limit, value, 1.0 / less(limit, value, value, limit), softened)


@algorithm(
    vectors=("rows", "rows"),
    roots=("rows",),
    values=("rows",),
    result=("rows", "rows"),
    outputs=("result",),
    symmetric=("result",),
)
def compose(tree: Tree, vectors: Indexed, roots: Indexed, values: Indexed, result: Indexed) -> None:
    """The symmetric matrix with the given eigenvectors, one per row, and eigenvalues, its rows divided by roots."""
    _sum(tree, vectors, roots, values, result)


def _sum(tree: Tree, vectors: Indexed, roots: Indexed, values: Any, result: Indexed) -> None:
    """Σ value · vector vectorᵀ, with entries of the vectors divided by roots."""
    scaled, B = tree.array("rows"), tree.array("rows", "rows")
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            B[one, other] = 0.0
    for vector in tree.task_rows():
        value = values[vector]
        for one in tree.task_rows():
            scaled[one] = vectors[vector, one] / roots[one]
        for one in tree.task_rows():
            entry = value * scaled[one]
            for other in tree.task_rows(one):
                B[one, other] = B[one, other] + entry * scaled[other]
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            result[one, other] = B[one, other]
