"""The sweeps of a linear-quadratic problem with dense steps, for integrators without Euler's structure. O(T nx³).

As `kinetree.kernels.riccati`, with gaps d and gradients l of costs: with g = p + P d and H = R + BᵀP B,

    qu = lu + Bᵀg,   k = H⁻¹ qu,   p ← lx + Aᵀg − Gᵀ k                                                           (1)
"""

from __future__ import annotations

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, add_product, at, mirror, transposed
from kinetree.kernels.riccati import eliminate, substitute
from kinetree.language.tree import Indexed

_A, _B, _WIDE = ("T", "nx", "nx"), ("T", "nx", "nu"), ("T", "nu", "nx")


@kernel(
    A=_A, B=_B, gap=("T", "nx"), Q=_A, N=_WIDE, R=("T", "nu", "nu"), lx=("T", "nx"), lu=("T", "nu"), damping=(),
    end=("nx", "nx"), end_x=("nx",), K=_WIDE, k_u=("T", "nu"), next_xx=_A, next_x=("T", "nx"), pivot=(), decrease=(),
    outputs=("K", "k_u", "next_xx", "next_x", "pivot", "decrease"),
)  # fmt: skip
def dense_backward(
    k: Workspace, A: Indexed, B: Indexed, gap: Indexed, Q: Indexed, N: Indexed, R: Indexed, lx: Indexed, lu: Indexed,
    damping: Indexed, end: Indexed, end_x: Indexed, K: Indexed, k_u: Indexed, next_xx: Indexed, next_x: Indexed,
    pivot: Indexed, decrease: Indexed,
) -> None:  # fmt: skip
    """Gains of all steps, δu = −K δx − k_u, and costs to go of the nodes that steps reach; see `euler_riccati`."""
    nx, nu = k.nx, k.nu
    P, p, g = k.copy(end, "nx", "nx"), k.copy(end_x, "nx"), k.array("nx")
    PA, PB = k.array("nx", "nx"), k.array("nx", "nu")
    H, Y, W, share, y = k.array("nu", "nu"), k.array("nu", "nx"), k.array("nu", "nx"), k.array("nu"), k.array("nu")
    least, fall = k.scalar(float("inf")), k.scalar(0.0)
    for t in reversed(k.T):
        a, b = at(A, t), at(B, t)
        for i in nx:
            next_x[t, i], g[i] = p[i], p[i]
        for i in nx:
            entry = gap[t, i]
            for j in nx:
                next_xx[t, i, j] = P[i, j]
                g[j] = g[j] + P[i, j] * entry
        for j in nu:
            y[j] = lu[t, j]
        for j in nx:
            p[j] = lx[t, j]
        for i in nx:  # (1)
            entry = g[i]
            for j in nx:
                p[j] = p[j] + A[t, i, j] * entry
            for j in nu:
                y[j] = y[j] + B[t, i, j] * entry
        add_product(PA, (nx, nx, nx), P, a, ZERO)
        add_product(PB, (nx, nx, nu), P, b, ZERO)
        add_product(H, (nu, nx, nu), transposed(b), PB, at(R, t), symmetric=True)
        for i in nu:
            H[i, i] = H[i, i] + damping[...]
        add_product(Y, (nu, nx, nx), transposed(b), PA, at(N, t))
        eliminate(k, H, ((Y, nx),), share, least, y)
        for i in nu:
            factor, entry = -share[i], -share[i] * y[i]
            fall[...] = fall[...] - entry * y[i]
            for j in nx:
                W[i, j], p[j] = factor * Y[i, j], p[j] + entry * Y[i, j]
        add_product(P, (nx, nx, nx), transposed(a), PA, at(Q, t), symmetric=True)
        add_product(P, (nx, nu, nx), transposed(W), Y, symmetric=True)
        mirror(nx, P)
        substitute(k, H, ((Y, nx),), share, y)
        for i in nu:
            for j in nx:
                K[t, i, j] = Y[i, j]
            k_u[t, i] = y[i]
    pivot[...], decrease[...] = least[...], fall[...]


@kernel(
    A=_A, B=_B, gap=("T", "nx"), K=_WIDE, k_u=("T", "nu"), next_xx=_A, next_x=("T", "nx"), lx=("T", "nx"),
    lu=("T", "nu"), end_x=("nx",), damping=(), dx=("T", "nx"), du=("T", "nu"), w=("T", "nx"), slope=(), curve=(),
    outputs=("dx", "du", "w", "slope", "curve"),
)  # fmt: skip
def dense_forward(
    k: Workspace, A: Indexed, B: Indexed, gap: Indexed, K: Indexed, k_u: Indexed, next_xx: Indexed, next_x: Indexed,
    lx: Indexed, lu: Indexed, end_x: Indexed, damping: Indexed, dx: Indexed, du: Indexed, w: Indexed, slope: Indexed,
    curve: Indexed,
) -> None:  # fmt: skip
    """The step that the gains lead to: states and costates of nodes that steps reach; see `euler_forward`."""
    nx, nu = k.nx, k.nu
    x, new, u, of = k.zeros("nx"), k.array("nx"), k.array("nu"), k.array("nx")
    total, rest = k.scalar(0.0), k.scalar(0.0)
    for t in k.T:
        for i in nu:
            u[i] = -k_u[t, i] - k.sum(K[t, i, j] * x[j] for j in nx)
            du[t, i] = u[i]
            total[...] = total[...] + lu[t, i] * u[i]
            rest[...] = rest[...] - damping[...] * (u[i] * u[i])
        for i in nx:
            total[...] = total[...] + lx[t, i] * x[i]
            state = k.sum(A[t, i, j] * x[j] for j in nx)
            new[i] = gap[t, i] + state + k.sum(B[t, i, j] * u[j] for j in nu)
        for i in nx:
            x[i], of[i] = new[i], next_x[t, i]
        for j in nx:
            entry = x[j]
            for i in nx:
                of[i] = of[i] + next_xx[t, j, i] * entry
        for i in nx:
            dx[t, i], w[t, i] = x[i], of[i]
            rest[...] = rest[...] + gap[t, i] * of[i]
    for i in nx:
        total[...] = total[...] + end_x[i] * x[i]
    slope[...], curve[...] = total[...], rest[...] - total[...]
