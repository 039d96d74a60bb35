"""Products of square matrices for the chain rule. Cost O(n³)."""

from __future__ import annotations

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import MatrixView, add_product
from kinetree.language.tree import Indexed

_SQUARE = ("n", "n")


@kernel(start=_SQUARE, A=_SQUARE, X=_SQUARE, scale=(), result=_SQUARE, outputs=("result",), sparse=("result",))
def chained(k: Workspace, start: Indexed, A: Indexed, X: Indexed, scale: Indexed, result: Indexed) -> None:
    """start + scale A X."""
    factor = scale[...]
    add_product(result, (k.n, k.n, k.n), MatrixView(lambda i, j: A[i, j] * factor), X, start=start)


@kernel(start=_SQUARE, factors=("n",), X=_SQUARE, result=_SQUARE, outputs=("result",))
def row_scaled(k: Workspace, start: Indexed, factors: Indexed, X: Indexed, result: Indexed) -> None:
    """start + diag(factors) X."""
    for i in k.n:
        factor = factors[i]
        for j in k.n:
            result[i, j] = start[i, j] + factor * X[i, j]


@kernel(x=("n",), y=("n",), factors=("n",), sums=("n",), outputs=("sums",))
def scaled_total(k: Workspace, x: Indexed, y: Indexed, factors: Indexed, sums: Indexed) -> None:
    """x + diag(factors) y."""
    for i in k.n:
        sums[i] = x[i] + factors[i] * y[i]
