"""The backward sweep of a linear-quadratic problem over a horizon. Cost O(T (nx³ + nx² nu + nu³)).

For x(t+1) = A x + B u and the cost ½ Σ (xᵀQ x + 2 uᵀN x + uᵀR u) + ½ x(T)ᵀ P x(T), all of them functions of t,

    H = R + BᵀP B,   G = N + BᵀP A,   K = H⁻¹ G,   P ← Q + AᵀP A − Gᵀ H⁻¹ G                      (1)

from the last step to the first; the best u is −K x. H is factored as UᵀD U without square roots, so that with Y = U⁻ᵀ G
the last term is Yᵀ D⁻¹ Y, and K = U⁻¹ D⁻¹ Y. Of symmetric matrices, the upper triangle is computed.

[AM90] B. Anderson, J. Moore, "Optimal Control: Linear Quadratic Methods", 1990, §2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetree.kernels.branchless import smaller
from kinetree.kernels.language import Scalar, Size, Workspace, kernel
from kinetree.kernels.products import TILE, ZERO, add_product, at, mirror, transposed
from kinetree.language.tree import Indexed


@kernel(
    A=("T", "nx", "nx"), B=("T", "nx", "nu"), Q=("T", "nx", "nx"), R=("T", "nu", "nu"), N=("T", "nu", "nx"),
    end=("nx", "nx"), K=("T", "nu", "nx"), P=("nx", "nx"), pivot=(), outputs=("K", "P", "pivot"), symmetric=("P",),
)  # fmt: skip
def riccati(
    k: Workspace, A: Indexed, B: Indexed, Q: Indexed, R: Indexed, N: Indexed, end: Indexed, K: Indexed, P: Indexed,
    pivot: Indexed,
) -> None:  # fmt: skip
    """Gains K of all steps, and the cost to go P at the first one, given that of the last state, `end`.

    `pivot` is the smallest entry of D: the problem is convex in u if it is positive; else K means nothing.
    """
    X, PA, PB = k.copy(end, "nx", "nx"), k.array("nx", "nx"), k.array("nx", "nu")
    H, Y, W, share = k.array("nu", "nu"), k.array("nu", "nx"), k.array("nu", "nx"), k.array("nu")
    least, nx, nu = k.scalar(float("inf")), k.nx, k.nu
    for t in reversed(k.T):
        a, b = at(A, t), at(B, t)
        add_product(PA, (nx, nx, nx), X, a, ZERO)
        add_product(PB, (nx, nx, nu), X, b, ZERO)
        add_product(H, (nu, nx, nu), transposed(b), PB, at(R, t), symmetric=True)
        add_product(Y, (nu, nx, nx), transposed(b), PA, at(N, t))
        eliminate(k, H, ((Y, nx),), share, least)
        for i in nu:
            factor = -share[i]
            for j in nx:
                W[i, j] = factor * Y[i, j]
        add_product(X, (nx, nx, nx), transposed(a), PA, at(Q, t), symmetric=True)  # (1)
        add_product(X, (nx, nu, nx), transposed(W), Y, symmetric=True)
        mirror(nx, X)
        substitute(k, H, ((Y, nx),), share)
        for i in nu:
            for j in nx:
                K[t, i, j] = Y[i, j]
    for i in nx:
        for j in nx.since(i):
            P[i, j] = X[i, j]
    pivot[...] = least[...]


def eliminate(
    k: Workspace, H: Indexed, right: Sequence[tuple[Indexed, Size]], share: Indexed, least: Scalar, y: Any = None,
    tile: int = TILE,
) -> None:  # fmt: skip
    """H becomes D U, share 1/D and each Y of `right` becomes U⁻ᵀ Y, some pivots at a time; so does the vector y.

    Only the upper triangle of H counts.
    """

    def reduce(i: Any, above: Sequence[Any]) -> None:
        factors = [H[p, i] * share[p] for p in above]
        for matrix, columns in ((H, k.nu.since(i)), *right):
            for j in columns:
                matrix[i, j] = _less(matrix[i, j], factors, [matrix[p, j] for p in above])
        if y is not None:
            y[i] = _less(y[i], factors, [y[p] for p in above])

    for block in k.nu.blocks(tile):
        for n, i in enumerate(block):
            if n:
                reduce(i, block[:n])
            least[...] = smaller(least[...], H[i, i])
            share[i] = 1.0 / H[i, i]
        for i in k.nu.after(block):
            reduce(i, block)


def substitute(
    k: Workspace, H: Indexed, right: Sequence[tuple[Indexed, Size]], share: Indexed, y: Any = None, tile: int = TILE
) -> None:
    """Each Y becomes U⁻¹ D⁻¹ Y, and so does y, given D U and 1/D, some rows at a time."""
    for block in k.nu.blocks(tile, backwards=True):
        for p in k.nu.after(block):
            factors = [H[i, p] for i in block]
            for matrix, columns in right:
                for j in columns:
                    entry = matrix[p, j]
                    for factor, i in zip(factors, block, strict=True):
                        matrix[i, j] = matrix[i, j] - factor * entry
            if y is not None:
                entry = y[p]
                for factor, i in zip(factors, block, strict=True):
                    y[i] = y[i] - factor * entry
        for n, i in reversed(list(enumerate(block))):
            below, scale = block[n + 1 :], share[i]
            factors = [H[i, p] for p in below]
            for matrix, columns in right:
                for j in columns:
                    matrix[i, j] = scale * _less(matrix[i, j], factors, [matrix[p, j] for p in below])
            if y is not None:
                y[i] = scale * _less(y[i], factors, [y[p] for p in below])


def _less(x: Any, factors: Sequence[Any], entries: Sequence[Any]) -> Any:
    """What is left of x without products, first product first."""
    for factor, entry in zip(factors, entries, strict=True):
        x = x - factor * entry
    return x
