"""Products of square matrices for the chain rule. Cost O(n³)."""

from __future__ import annotations

from typing import Any

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, MatrixView, add_product, add_products
from kinetree.language.tree import Indexed

_SQUARE = ("n", "n")


@kernel(start=_SQUARE, A=_SQUARE, X=_SQUARE, scale=(), result=_SQUARE, outputs=("result",), sparse=("result",))
def chained(k: Workspace, start: Indexed, A: Indexed, X: Indexed, scale: Indexed, result: Indexed) -> None:
    """start + scale A X."""
    factor = scale[...]
    add_product(result, (k.n, k.n, k.n), MatrixView(lambda i, j: A[i, j] * factor), X, start=start)


@kernel(start=_SQUARE, A=_SQUARE, scale=(), result=_SQUARE, outputs=("result",))
def shifted(k: Workspace, start: Indexed, A: Indexed, scale: Indexed, result: Indexed) -> None:
    """start + scale A."""
    factor = scale[...]
    for i in k.n:
        for j in k.n:
            result[i, j] = start[i, j] + factor * A[i, j]


@kernel(start=_SQUARE, factors=("n",), X=_SQUARE, result=_SQUARE, outputs=("result",))
def row_scaled(k: Workspace, start: Indexed, factors: Indexed, X: Indexed, result: Indexed) -> None:
    """start + diag(factors) X."""
    for i in k.n:
        factor = factors[i]
        for j in k.n:
            result[i, j] = start[i, j] + factor * X[i, j]


_CHANGES = tuple(f"{of}_{by}" for of in "qv" for by in ("q", "v", "tau"))
_RESULTS = tuple(f"after_{name}" for name in _CHANGES)


_MATRICES: dict[str, Any] = dict.fromkeys(
    ("start", "end", "x_q", "by_q", "by_tau", "momentum_q", "M", *_CHANGES, *_RESULTS), _SQUARE
)


@kernel(**_MATRICES, outputs=_RESULTS, sparse=_RESULTS)
def projected_changes(
    k: Workspace, start: Indexed, end: Indexed, x_q: Indexed, by_q: Indexed, by_tau: Indexed, momentum_q: Indexed,
    M: Indexed, q_q: Indexed, q_v: Indexed, q_tau: Indexed, v_q: Indexed, v_v: Indexed, v_tau: Indexed,
    after_q_q: Indexed, after_q_v: Indexed, after_q_tau: Indexed, after_v_q: Indexed, after_v_v: Indexed,
    after_v_tau: Indexed,
) -> None:  # fmt: skip
    """Changes of q′ = q ⊕ x(q) and v′(q′, M v) from those of q and v, with respect to three others each.

    start and end are derivatives of q ⊕ x with respect to q and x, by_q and by_tau those of v′ at given M v, whose
    derivative with respect to q is momentum_q.
    """
    square = k.n, k.n, k.n
    moved, turned, kept = (k.array("n", "n") for _ in range(3))
    add_product(moved, square, end, x_q, start=start)
    add_product(turned, square, by_tau, momentum_q, start=by_q)
    add_product(kept, square, by_tau, M, start=ZERO)
    q_after, v_after = (after_q_q, after_q_v, after_q_tau), (after_v_q, after_v_v, after_v_tau)
    add_products(q_after, square, moved, (q_q, q_v, q_tau))
    add_products(v_after, square, turned, q_after)
    add_products(v_after, square, kept, (v_q, v_v, v_tau))
