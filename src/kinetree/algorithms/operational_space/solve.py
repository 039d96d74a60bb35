"""Symmetric positive-definite systems by the sweeps of `inversion`, with the same measure of trust, `spread`."""

from __future__ import annotations

from kinetree.algorithms.operational_space import inversion
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree


@algorithm(
    A=("rows", "rows"),
    b=("rows",),
    weight=("rows",),
    x=("rows",),
    spread=(),
    outputs=("x", "spread"),
    sparse=("spread",),
)
def solve_symmetric(tree: Tree, A: Indexed, b: Indexed, weight: Indexed, x: Indexed, spread: Indexed) -> None:
    """The solution of A x = b.

    Args:
        tree: Provides the rows; nothing else of it is used.
        A: Symmetric and positive definite, (r, r).
        b: (r,).
        weight: Weights that make the rows comparable, (r,).
        x: (r,).
        spread: 1/√spread is a lower bound on the eigenvalues of A with its rows and columns divided by √weight.
    """
    B, w, total = tree.array("rows", "rows"), tree.array("rows"), tree.array("rows")
    for one in tree.task_rows():
        w[one] = weight[one]
        for other in tree.task_rows():
            B[one, other] = A[one, other]
    inversion.sweep(tree, B)
    inversion.distrust(tree, B, w, spread)
    inversion.solve(tree, B, b, total)
    for one in tree.task_rows():
        x[one] = total[one]
