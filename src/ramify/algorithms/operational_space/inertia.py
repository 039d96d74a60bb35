"""Λ from Λ⁻¹ by symmetric sweeps, with a number that says whether it can be trusted. Cost O(r³).

Each sweep exchanges one task direction: after all of them Λ⁻¹ has become −Λ. Only the upper triangle is kept. Nothing
here depends on a tree; the language's loops over rows are all that is used.

`spread` tells how far the matrix is from being singular. Weights w make rows of different units comparable. The least
eigenvalue of C = W^(−½) Λ⁻¹ W^(−½) is at least 1/√spread, by the Frobenius norm of C⁻¹. A pivot that is zero or not a
number makes `spread` infinite or not a number.
"""

from __future__ import annotations

from ramify.recursion.algorithm import algorithm
from ramify.recursion.tree import Indexed, Tree


@algorithm(
    A=("rows", "rows"),
    scale=("rows", "rows"),
    means=("rows", "rows"),
    inertia=("rows", "rows"),
    spread=(),
    outputs=("inertia", "spread"),
    symmetric=("inertia",),
    sparse=("spread",),
)
def sweep_inverse(tree: Tree, A: Indexed, scale: Indexed, means: Indexed, inertia: Indexed, spread: Indexed) -> None:
    """Inverse of a symmetric positive definite matrix.

    Args:
        tree: Has the rows, nothing else of it is used.
        A: Λ⁻¹, (r, r).
        scale: Matrix on whose diagonal the weights are based, (r, r): A itself, or what A was made from.
        means: Takes the diagonal of `scale` to the weights w, (r, r).
        inertia: Λ, (r, r).
        spread: At least ‖C⁻¹‖², at most twice that, ().
    """
    B, crossing = tree.array("row", "row"), tree.array("row")
    weight, squares = tree.array("row"), tree.array("row")
    for one in tree.rows():
        weight[one], squares[one] = 0.0, 0.0
        for other in tree.rows(one):
            B[one, other] = A[one, other]
    for one in tree.rows():
        own = scale[one, one]
        for other in tree.rows():
            weight[other] = weight[other] + own * means[one, other]

    for k in tree.rows():
        turned = 1.0 / B[k, k]
        # Row k of the symmetric matrix, out of its upper triangle.
        for one in tree.rows():
            crossing[one] = B[one, k]
        for one in tree.rows(k):
            crossing[one] = B[k, one]
        for one in tree.rows():
            share = crossing[one] * turned
            for other in tree.rows(one):
                B[one, other] = B[one, other] - share * crossing[other]
            B[one, k] = share
        for one in tree.rows(k):
            B[k, one] = crossing[one] * turned
        B[k, k] = -turned

    for one in tree.rows():
        share = weight[one]
        for other in tree.rows(one):
            inertia[one, other] = -B[one, other]
            squares[other] = squares[other] + share * (B[one, other] * B[one, other])
    # Entries off the diagonal count twice; twice the sum of all is enough.
    for one in tree.rows():
        spread[...] = spread[...] + 2.0 * (squares[one] * weight[one])
