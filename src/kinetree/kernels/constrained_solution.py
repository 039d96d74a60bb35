"""Dense algebra of constrained dynamics: one system for accelerations, derivatives and gradients.

    M x − Jᵀy = r        J x = s                                                                 (1)
    y = Λ (s − J M⁻¹ r)  x = M⁻¹ r + M⁻¹Jᵀ y           Λ⁻¹ = J M⁻¹Jᵀ                              (2)

for n degrees of freedom and c rows, with Λ the pseudo-inverse where rows depend on each other. In matrices,

    ∂x/∂r = P = M⁻¹ − J̄ Λ⁻¹ J̄ᵀ     ∂x/∂s = J̄ = M⁻¹JᵀΛ     ∂y/∂r = −J̄ᵀ     ∂y/∂s = Λ               (3)

    Minv       M⁻¹
    response   J M⁻¹, (c, n)
    inertia    Λ

Cost O(n² c) for one right-hand side, O(n³) for matrices.
"""

from __future__ import annotations

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, MatrixView, add_product, add_products, transposed
from kinetree.kernels.solve import add_spread, invert, write_inverse
from kinetree.language.tree import Indexed


@kernel(J=("c", "n"), Minv=("n", "n"), response=("c", "n"), outputs=("response",), sparse=("response",))
def row_response(k: Workspace, J: Indexed, Minv: Indexed, response: Indexed) -> None:
    """J M⁻¹."""
    add_product(response, (k.c, k.n, k.n), J, Minv)


@kernel(
    A=("c", "c"), own=("c",), mean=("c", "c"), reach=("c",), cut=(), inertia=("c", "c"), spread=(),
    outputs=("inertia", "spread"), sparse=("spread",),
)  # fmt: skip
def regular_inverse(
    k: Workspace, A: Indexed, own: Indexed, mean: Indexed, reach: Indexed, cut: Indexed, inertia: Indexed,
    spread: Indexed,
) -> None:  # fmt: skip
    """Λ of independent rows, and `spread`, which is not below 1 where an eigenvalue of Λ⁻¹ may be less than `cut`.

    Weights are those of `kinetree.tasks.singular`.
    """
    B, weight = k.copy(A, "c", "c"), k.array("c")
    for i in k.c:
        weight[i] = (k.sum(mean[i, j] * own[j] for j in k.c) + reach[i]) * cut[...]
    invert(k.c, B)
    add_spread(k.c, B, weight, spread)
    write_inverse(k.c, B, inertia)


@kernel(x=("n",), y=("n",), left=("n",), outputs=("left",))
def difference(k: Workspace, x: Indexed, y: Indexed, left: Indexed) -> None:
    """x − y."""
    for i in k.n:
        left[i] = x[i] - y[i]


@kernel(
    Minv=("n", "n"), response=("c", "n"), inertia=("c", "c"), r=("n",), s=("c",), x=("n",), y=("c",),
    outputs=("x", "y"), sparse=("x", "y"),
)  # fmt: skip
def constrained_solution(
    k: Workspace, Minv: Indexed, response: Indexed, inertia: Indexed, r: Indexed, s: Indexed, x: Indexed, y: Indexed
) -> None:
    """x and y of (1), by (2)."""
    for i in k.n:
        entry = r[i]
        for j in k.n:
            x[j] = x[j] + Minv[i, j] * entry
    for i in k.c:
        lacking = s[i] - k.sum(response[i, j] * r[j] for j in k.n)
        for j in k.c:
            y[j] = y[j] + inertia[i, j] * lacking
    for i in k.c:
        entry = y[i]
        for j in k.n:
            x[j] = x[j] + response[i, j] * entry


_LINEARIZED = ("dq", "dv", "dtau", "dwanted", "forces_dq", "forces_dv", "forces_dtau")


@kernel(
    Minv=("n", "n"), response=("c", "n"), inertia=("c", "c"), F_q=("n", "n"), F_v=("n", "n"), stiffness=("n", "n"),
    psi_q=("c", "n"), psi_v=("c", "n"), dq=("n", "n"), dv=("n", "n"), dtau=("n", "n"), dwanted=("n", "c"),
    forces_dq=("c", "n"), forces_dv=("c", "n"), forces_dtau=("c", "n"), outputs=_LINEARIZED, sparse=_LINEARIZED,
)  # fmt: skip
def constrained_linearization(
    k: Workspace, Minv: Indexed, response: Indexed, inertia: Indexed, F_q: Indexed, F_v: Indexed, stiffness: Indexed,
    psi_q: Indexed, psi_v: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, dwanted: Indexed, forces_dq: Indexed,
    forces_dv: Indexed, forces_dtau: Indexed,
) -> None:  # fmt: skip
    """∂a = −P F − J̄ ψ and ∂λ = J̄ᵀ F − Λ ψ, with F_q − K for F_q; P, J̄ and −J̄ᵀ."""
    n, c = k.n, k.c
    turned, F = k.array("c", "n"), k.array("n", "n")
    add_product(turned, (c, c, n), inertia, response, start=ZERO)  # J̄ᵀ
    for i in n:
        for j in n:
            F[i, j] = F_q[i, j] - stiffness[i, j]
    add_product(dtau, (n, c, n), MatrixView(lambda i, j: -response[j, i]), turned, start=Minv)
    add_products([dq, dv], (n, n, n), MatrixView(lambda i, j: -dtau[i, j]), [F, F_v])
    add_products([dq, dv], (n, c, n), MatrixView(lambda i, j: -turned[j, i]), [psi_q, psi_v])
    add_products([forces_dq, forces_dv], (c, n, n), turned, [F, F_v])
    add_products([forces_dq, forces_dv], (c, c, n), MatrixView(lambda i, j: -inertia[i, j]), [psi_q, psi_v])
    for i in c:
        for j in n:
            forces_dtau[i, j] = -turned[i, j]
    for i in n:
        for j in c:
            dwanted[i, j] = turned[j, i]


@kernel(
    psi_q=("c", "n"), psi_v=("c", "n"), stiffness=("n", "n"), dq=("n",), dv=("n",), dtau=("n",), dwanted=("c",),
    change=("n",), r=("n",), s=("c",), outputs=("r", "s"),
)  # fmt: skip
def changed_sides(
    k: Workspace, psi_q: Indexed, psi_v: Indexed, stiffness: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed,
    dwanted: Indexed, change: Indexed, r: Indexed, s: Indexed,
) -> None:  # fmt: skip
    """Right-hand sides of the derivative along a direction; `change` is that of inverse dynamics."""
    for i in k.n:
        r[i] = dtau[i] - change[i] + k.sum(stiffness[i, j] * dq[j] for j in k.n)
    for i in k.c:
        s[i] = dwanted[i] - k.sum(psi_q[i, j] * dq[j] + psi_v[i, j] * dv[j] for j in k.n)


@kernel(
    psi_q=("c", "n"), psi_v=("c", "n"), stiffness=("n", "n"), x=("n",), y=("c",), by_q=("n",), by_v=("n",),
    dq=("n",), dv=("n",), outputs=("dq", "dv"), sparse=("dq", "dv"),
)  # fmt: skip
def gathered_gradients(
    k: Workspace, psi_q: Indexed, psi_v: Indexed, stiffness: Indexed, x: Indexed, y: Indexed, by_q: Indexed,
    by_v: Indexed, dq: Indexed, dv: Indexed,
) -> None:  # fmt: skip
    """−F_qᵀx + ψ_qᵀy and −F_vᵀx + ψ_vᵀy; by_q and by_v are gradients of xᵀτ of inverse dynamics."""
    for j in k.n:
        dq[j] = -by_q[j]
        dv[j] = -by_v[j]
    for i in k.n:
        entry = x[i]
        for j in k.n:
            dq[j] = dq[j] + stiffness[i, j] * entry
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
    """−P Y and J̄ᵀ Y of a regressor Y with p columns."""
    pushed = k.array("c", "p")
    add_product(pushed, (k.c, k.n, k.p), response, regressor, start=ZERO)
    add_product(y, (k.c, k.c, k.p), inertia, pushed)
    add_product(x, (k.n, k.n, k.p), MatrixView(lambda i, j: -Minv[i, j]), regressor)
    add_product(x, (k.n, k.c, k.p), transposed(response), y)
