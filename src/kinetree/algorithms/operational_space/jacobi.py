"""A sweep of Jacobi rotations over a symmetric matrix that is nearly diagonal. Cost O(r³).

A rotation in the plane of two rows annihilates their common entry; a sweep does so for every pair in turn. Off-diagonal
entries that are small become quadratically smaller, with errors relative to the diagonal entries they lie between.

[GV] G. Golub, C. Van Loan, "Matrix Computations", 4th edition, §8.5.
"""

from __future__ import annotations

from kinetree.algorithms.choices import less, magnitude
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

_NEVER_ZERO = 2.0**-500


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
            root = sqrt(apart * apart + 4.0 * (entry * entry))
            tangent = less(apart, 0.0, -2.0 * entry, 2.0 * entry) / (magnitude(apart) + root + _NEVER_ZERO)
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
