"""Eigenvalues and eigenvectors of a symmetric matrix by cyclic Jacobi rotations, and functions of it. Cost O(r³).

A rotation in the plane of two rows annihilates their common entry. A sweep does so for every pair in turn; after a few
sweeps, whose number depends only on the size of the matrix, the off-diagonal entries are below rounding. Every sample
takes the same operations in the same order, so its bits depend neither on its neighbours in the batch nor on the
processor. LAPACK guarantees neither.

The tree language has no comparisons, so |x| is √x², and the sign of x is x/|x|. Constants far below rounding avoid
zero divided by zero.

[GV] G. Golub, C. Van Loan, "Matrix Computations", 4th edition, §8.5.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

_NUDGE, _NEVER_ZERO = 2.0**-400, 2.0**-500


@algorithm(
    A=("rows", "rows"),
    basis=("rows", "rows"),
    pairs=("rows", "rows"),
    rotated=("rows", "rows"),
    vectors=("rows", "rows"),
    outputs=("rotated", "vectors"),
)
def jacobi_sweep(tree: Tree, A: Indexed, basis: Indexed, pairs: Indexed, rotated: Indexed, vectors: Indexed) -> None:
    """Rotate every pair of rows of a symmetric matrix once: R A Rᵀ, and R times the rotations of earlier sweeps.

    Args:
        tree: Provides the rows; nothing else of it is used.
        A: Symmetric, (r, r).
        basis: The rotations of earlier sweeps, (r, r); the identity for the first.
        pairs: One above the diagonal, zero on it, (r, r): a row does not pair with itself.
        rotated: R A Rᵀ, (r, r). After `sweeps(r)` sweeps its diagonal holds the eigenvalues, in no particular order.
        vectors: R times `basis`, (r, r): after all sweeps, one eigenvector in each row.
    """
    B, V = tree.array("rows", "rows"), tree.array("rows", "rows")
    for one in tree.task_rows():
        for other in tree.task_rows():
            B[one, other] = A[one, other]
            V[one, other] = basis[one, other]

    for one in tree.task_rows():
        for other in tree.task_rows(one):
            # [GV] Algorithm 8.5.1; a row does not pair with itself, so its angle is zero
            entry, apart = pairs[one, other] * B[one, other], B[other, other] - B[one, one]
            nudged = apart + _NUDGE
            sign = nudged / (sqrt(nudged * nudged) + _NEVER_ZERO)
            square = apart * apart
            root = sqrt(square + 4.0 * (entry * entry))
            tangent = 2.0 * (entry * sign) / (sqrt(square) + root + _NEVER_ZERO)
            cosine = 1.0 / sqrt(1.0 + tangent * tangent)
            sine = tangent * cosine
            # rotate the rows; the columns are equal by symmetry, except for the four entries where they intersect
            first, last, rest = B[one, one] - tangent * entry, B[other, other] + tangent * entry, B[one, other] - entry
            for k in tree.task_rows():
                x, y = B[one, k], B[other, k]
                B[one, k] = cosine * x - sine * y
                B[other, k] = sine * x + cosine * y
            for k in tree.task_rows():
                B[k, one] = B[one, k]
                B[k, other] = B[other, k]
            B[one, other] = rest
            B[other, one] = rest
            B[one, one] = first
            B[other, other] = last
            for k in tree.task_rows():
                x, y = V[one, k], V[other, k]
                V[one, k] = cosine * x - sine * y
                V[other, k] = sine * x + cosine * y

    for one in tree.task_rows():
        for other in tree.task_rows():
            rotated[one, other] = B[one, other]
            vectors[one, other] = V[one, other]


def sweeps(rows: int) -> int:
    """Number of sweeps until only rounding is left; one more than any tested matrix of this size needed."""
    return 4 + rows.bit_length()


@algorithm(
    vectors=("rows", "rows"), values=("rows",), result=("rows", "rows"), outputs=("result",), symmetric=("result",)
)
def compose(tree: Tree, vectors: Indexed, values: Indexed, result: Indexed) -> None:
    """The symmetric matrix with the given eigenvectors, one per row, and eigenvalues."""
    B = tree.array("rows", "rows")
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            B[one, other] = 0.0
    for vector in tree.task_rows():
        value = values[vector]
        for one in tree.task_rows():
            scaled = value * vectors[vector, one]
            for other in tree.task_rows(one):
                B[one, other] = B[one, other] + scaled * vectors[vector, other]
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            result[one, other] = B[one, other]
