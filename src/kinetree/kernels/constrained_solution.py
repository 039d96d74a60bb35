"""Dense algebra of derivatives of constrained dynamics. Cost O(n² c) for n degrees of freedom and c rows.

    M x − Jᵀy = r        J x = s                                                                 (1)
    x = M⁻¹ r + M⁻¹Jᵀ y  y = Λ (s − J M⁻¹ r)           Λ⁻¹ = J M⁻¹Jᵀ                              (2)

with Λ the pseudo-inverse where rows depend on each other. With x_f = M⁻¹ r, which does not know the rows,

    x = x_f − M⁻¹Jᵀ X        y = −X        X = Λ (J x_f − s)                                      (3)

    Minv       M⁻¹
    response   J M⁻¹, (c, n)
    inertia    Λ
    moving     degrees of freedom that move rows, four at a time, and `rest`, those that are left
    K          ∂(Jᵀλ)/∂q besides that of wrenches, (n, n)
    T          change of λ in axes that turn, (c, n)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import TILE, ZERO, MatrixView, add_product, add_products, transposed
from kinetree.kernels.solve import invert, write_inverse
from kinetree.language.tree import Indexed

MOVING = {"moving": {"n": TILE}, "rest": {"n": 1}}


class MovingColumns:
    """The degrees of freedom that move rows, as terms of products with J."""

    def __init__(self, k: Workspace) -> None:
        self._k = k

    def blocks(self, _length: int) -> Iterator[Any]:
        yield from self._k.moving
        for one in self._k.rest:
            yield (one,)


def moving_columns(columns: Iterable[int], n: int) -> dict[str, list[tuple[int]]]:
    """The lists `moving` and `rest` of kernels that need some of n columns; further ones may be among them."""
    found: dict[str, list[tuple[int]]] = {"moving": [], "rest": []}
    after = 0
    for column in sorted(columns):
        if column >= after:
            whole = column + TILE <= n
            found["moving" if whole else "rest"].append((column,))
            after = column + (TILE if whole else 1)
    return found


@kernel(
    J=("c", "n"), Minv=("n", "n"), response=("c", "n"), A=("c", "c"), own=("c",), outputs=("response", "A", "own"),
    sparse=("response", "A"), lists=MOVING,
)  # fmt: skip
def row_response(k: Workspace, J: Indexed, Minv: Indexed, response: Indexed, A: Indexed, own: Indexed) -> None:
    """J M⁻¹, and Λ⁻¹ = J M⁻¹Jᵀ with its diagonal."""
    columns = k.array("n", "c")
    terms: Any = MovingColumns(k)
    add_product(response, (k.c, terms, k.n), J, Minv)
    for j in k.n:
        for i in k.c:
            columns[j, i] = response[i, j]
    add_product(A, (k.c, terms, k.c), J, columns)
    for i in k.c:
        own[i] = A[i, i]


@kernel(A=("c", "c"), inertia=("c", "c"), outputs=("inertia",))
def regular_inverse(k: Workspace, A: Indexed, inertia: Indexed) -> None:
    """Λ of independent rows."""
    B = k.copy(A, "c", "c")
    invert(k.c, B)
    write_inverse(k.c, B, inertia)


@kernel(
    response=("c", "n"), inertia=("c", "c"), Minv=("n", "n"), P=("n", "n"), outputs=("P",), sparse=("P",),
    symmetric=("P",),
)  # fmt: skip
def held_mobility(k: Workspace, response: Indexed, inertia: Indexed, Minv: Indexed, P: Indexed) -> None:
    """x = P r of (2) with s = 0: P = M⁻¹ − M⁻¹Jᵀ Λ J M⁻¹, symmetric."""
    Y = k.array("c", "n")
    add_product(Y, (k.c, k.c, k.n), inertia, response, start=ZERO)
    back = MatrixView(lambda i, j: -response[j, i])
    add_product(P, (k.n, k.c, k.n), back, Y, start=Minv, symmetric=True)


@kernel(x=("n",), minus=("n",), outputs=("minus",))
def negative(k: Workspace, x: Indexed, minus: Indexed) -> None:
    """−x."""
    for i in k.n:
        minus[i] = -x[i]


_LINEARIZED = ("dq", "dv", "dtau", "dwanted", "forces_dq", "forces_dv", "forces_dtau")


@kernel(
    J=("c", "n"), response=("c", "n"), inertia=("c", "c"), Minv=("n", "n"), free_q=("n", "n"), free_v=("n", "n"),
    psi_q=("c", "n"), psi_v=("c", "n"), T=("c", "n"), dq=("n", "n"), dv=("n", "n"), dtau=("n", "n"), dwanted=("n", "c"),
    forces_dq=("c", "n"), forces_dv=("c", "n"), forces_dtau=("c", "n"), outputs=_LINEARIZED,
    sparse=("dq", "dv"), symmetric=("dtau",), lists=MOVING,
)  # fmt: skip
def constrained_linearization(
    k: Workspace, J: Indexed, response: Indexed, inertia: Indexed, Minv: Indexed, free_q: Indexed, free_v: Indexed,
    psi_q: Indexed, psi_v: Indexed, T: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, dwanted: Indexed,
    forces_dq: Indexed, forces_dv: Indexed, forces_dtau: Indexed,
) -> None:  # fmt: skip
    """(3) for derivatives ∂a_f of accelerations at given λ, with s = −ψ; for M⁻¹ at s = 0; and at r = 0."""
    n, c = k.n, k.c
    Z_q, Z_v, X_q, X_v, Y = (k.array("c", "n") for _ in range(5))
    for i in c:
        for j in n:
            Z_q[i, j], Z_v[i, j] = psi_q[i, j], psi_v[i, j]
    terms: Any = MovingColumns(k)
    add_products([Z_q, Z_v], (c, terms, n), J, [free_q, free_v])
    for out, right in ((X_q, Z_q), (X_v, Z_v), (Y, response)):
        add_product(out, (c, c, n), inertia, right, start=ZERO)
    back = MatrixView(lambda i, j: -response[j, i])
    add_product(dq, (n, c, n), back, X_q, start=free_q)
    add_product(dv, (n, c, n), back, X_v, start=free_v)
    add_product(dtau, (n, c, n), back, Y, start=Minv, symmetric=True)
    for i in c:
        for j in n:
            forces_dq[i, j], forces_dv[i, j], forces_dtau[i, j] = -X_q[i, j] - T[i, j], -X_v[i, j], -Y[i, j]
    for i in n:
        for j in c:
            dwanted[i, j] = Y[j, i]


@kernel(Minv=("n", "n"), K=("n", "n"), free_q=("n", "n"), moved=("n", "n"), outputs=("moved",), sparse=("moved",))
def stiffened(k: Workspace, Minv: Indexed, K: Indexed, free_q: Indexed, moved: Indexed) -> None:
    """∂a_f/∂q with K: ∂a_f/∂q + M⁻¹K."""
    add_product(moved, (k.n, k.n, k.n), Minv, K, start=free_q)


@kernel(A=("c", "n"), x=("n",), y=("c",), sign=(), total=("c",), outputs=("total",))
def with_product(k: Workspace, A: Indexed, x: Indexed, y: Indexed, sign: Indexed, total: Indexed) -> None:
    """y + sign A x."""
    for i in k.c:
        total[i] = y[i] + sign[...] * k.sum(A[i, j] * x[j] for j in k.n)


@kernel(A=("c", "n"), x=("c",), y=("n",), sign=(), total=("n",), outputs=("total",), sparse=("total",))
def with_transposed_product(k: Workspace, A: Indexed, x: Indexed, y: Indexed, sign: Indexed, total: Indexed) -> None:
    """y + sign Aᵀx."""
    for j in k.n:
        total[j] = y[j]
    for i in k.c:
        entry = sign[...] * x[i]
        for j in k.n:
            total[j] = total[j] + A[i, j] * entry


@kernel(
    psi_q=("c", "n"), psi_v=("c", "n"), dq=("n",), dv=("n",), dtau=("n",), dwanted=("c",), change=("n",),
    r=("n",), s=("c",), outputs=("r", "s"),
)  # fmt: skip
def changed_sides(
    k: Workspace, psi_q: Indexed, psi_v: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, dwanted: Indexed,
    change: Indexed, r: Indexed, s: Indexed,
) -> None:  # fmt: skip
    """Right-hand sides of the derivative along a direction; `change` is that of inverse dynamics."""
    for i in k.n:
        r[i] = dtau[i] - change[i]
    for i in k.c:
        s[i] = dwanted[i] - k.sum(psi_q[i, j] * dq[j] + psi_v[i, j] * dv[j] for j in k.n)


@kernel(
    psi_q=("c", "n"), psi_v=("c", "n"), y=("c",), by_q=("n",), by_v=("n",), dq=("n",), dv=("n",),
    outputs=("dq", "dv"), sparse=("dq", "dv"),
)  # fmt: skip
def gathered_gradients(
    k: Workspace, psi_q: Indexed, psi_v: Indexed, y: Indexed, by_q: Indexed, by_v: Indexed, dq: Indexed, dv: Indexed
) -> None:
    """ψ_qᵀy and ψ_vᵀy, less gradients of inverse dynamics."""
    for j in k.n:
        dq[j] = -by_q[j]
        dv[j] = -by_v[j]
    for i in k.c:
        entry = y[i]
        for j in k.n:
            dq[j] = dq[j] + psi_q[i, j] * entry
            dv[j] = dv[j] + psi_v[i, j] * entry


@kernel(
    Minv=("n", "n"), response=("c", "n"), inertia=("c", "c"), regressor=("n", "p"), x=("n", "p"), y=("c", "p"),
    outputs=("x", "y"), sparse=("x", "y"),
)  # fmt: skip
def parameter_solutions(
    k: Workspace, Minv: Indexed, response: Indexed, inertia: Indexed, regressor: Indexed, x: Indexed, y: Indexed
) -> None:
    """(2) for r = −Y and s = 0, with a regressor Y of p columns."""
    pushed = k.array("c", "p")
    add_product(pushed, (k.c, k.n, k.p), response, regressor, start=ZERO)
    add_product(y, (k.c, k.c, k.p), inertia, pushed)
    add_product(x, (k.n, k.n, k.p), MatrixView(lambda i, j: -Minv[i, j]), regressor)
    add_product(x, (k.n, k.c, k.p), transposed(response), y)
