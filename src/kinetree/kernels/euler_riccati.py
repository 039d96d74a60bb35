"""The sweeps of a linear-quadratic problem with the structure of semi-implicit Euler steps.

A step v′ = v + s a(q, v, u), q′ = q ⊕ dt v′ has the linearisation

    δv′ = C (δq, δv) + D δu,    δq′ = X δq + dt J δv′,    C = (s a_q, 1 + s a_v),   D = s a_u                        (1)

where `pace` s is dt, but for impacts, which take no time: s = 1 and dt = 0. X and J, the derivatives of ⊕, are
identities but for the blocks of joints whose coordinates are not numbers.
With G = (dt J; 1) and E = (X 0; 0 0), A = E + G C and B = G D. So with the cost to go ½ xᵀP x + pᵀx of the next node
and the gap d by which a step misses it,

    R = GᵀP,   P′ = R G,   N = R E,   S = P′ C + N                                                                   (2)
    Qxx = Hxx + CᵀS + NᵀC + EᵀP E,   Qux = Hux + DᵀS,   Quu = Huu + DᵀP′ D                                           (3)
    g = p + P d,   qx = lx + Eᵀg + CᵀGᵀg,   qu = lu + DᵀGᵀg                                                          (4)

where only columns of q have E and N, and the block of Qxx that mixes q and v is Hqv + Sqᵀ Cv, as P′ is symmetric: at
9 nv³ operations instead of the 24 nv³ of `kinetree.kernels.riccati`, from which elimination is taken. States are
kept in halves, q and v, so that P is Pqq, Pqv and Pvv.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, MatrixView, Over, add_image, add_products, add_row, at, mirror, transposed
from kinetree.kernels.riccati import eliminate, substitute
from kinetree.language.tree import Indexed

#: Blocks of velocities of joints that are not numbers: their first index among all, and among themselves.
_BLOCKS = {"threes": {"nv": 3, "nb": 3}, "sixes": {"nv": 6, "nb": 6}}
#: Rows and terms of a tile of products: arms, legs and bases have six degrees of freedom, or a multiple.
_TILE = 6
_RESULTS = (
    "Kq", "Kv", "k_u", "next_qq", "next_qv", "next_vv", "next_q", "next_v", "P_qq", "P_qv", "P_vv", "p_q", "p_v",
    "pivot", "decrease",
)  # fmt: skip
_SQUARE, _WIDE, _BLOCK = ("T", "nv", "nv"), ("T", "nu", "nv"), ("T", "nb", "nb")


@kernel(
    a_q=_SQUARE, a_v=_SQUARE, a_u=("T", "nv", "nu"), dt=("T",), pace=("T",), turn=_BLOCK, drift=_BLOCK,
    gap_q=("T", "nv"), gap_v=("T", "nv"), Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Huv=_WIDE,
    Huu=("T", "nu", "nu"), lq=("T", "nv"), lv=("T", "nv"), lu=("T", "nu"), damping=(), end_qq=("nv", "nv"),
    end_qv=("nv", "nv"), end_vv=("nv", "nv"), end_q=("nv",), end_v=("nv",), end_pivot=(), end_decrease=(), Kq=_WIDE,
    Kv=_WIDE, k_u=("T", "nu"), next_qq=_SQUARE, next_qv=_SQUARE, next_vv=_SQUARE, next_q=("T", "nv"),
    next_v=("T", "nv"), P_qq=("nv", "nv"), P_qv=("nv", "nv"), P_vv=("nv", "nv"), p_q=("nv",), p_v=("nv",), pivot=(),
    decrease=(), outputs=_RESULTS, symmetric=("P_qq", "P_vv"), lists=_BLOCKS,
)  # fmt: skip
def euler_riccati(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_u: Indexed, dt: Indexed, pace: Indexed, turn: Indexed, drift: Indexed,
    gap_q: Indexed, gap_v: Indexed, Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed, Huv: Indexed, Huu: Indexed,
    lq: Indexed, lv: Indexed, lu: Indexed, damping: Indexed, end_qq: Indexed, end_qv: Indexed, end_vv: Indexed,
    end_q: Indexed, end_v: Indexed, end_pivot: Indexed, end_decrease: Indexed, Kq: Indexed, Kv: Indexed, k_u: Indexed,
    next_qq: Indexed, next_qv: Indexed, next_vv: Indexed, next_q: Indexed, next_v: Indexed, P_qq: Indexed,
    P_qv: Indexed, P_vv: Indexed, p_q: Indexed, p_v: Indexed, pivot: Indexed, decrease: Indexed,
) -> None:  # fmt: skip
    """Gains of all steps, δu = −Kq δq − Kv δv − k_u, and the cost to go: of nodes that steps reach, and of the first.

    `damping` is added to the diagonal of Quu. `pivot` is the smallest of its elimination: the problem is convex in u if
    it is positive, else the gains mean nothing. `decrease` is Σ quᵀ Quu⁻¹ qu. Both go on from those of later steps.
    """
    nv, nu = k.nv, k.nu
    square, wide, right = (nv, nv, nv), (nu, nv, nv), (nv, nv, nu)
    Pqq, Pqv, Pvv = (k.copy(x, "nv", "nv") for x in (end_qq, end_qv, end_vv))
    pq, pv = k.copy(end_q, "nv"), k.copy(end_v, "nv")
    Rq, Rv, N, XP, Sq, Sv, Cq, Cv = (k.array("nv", "nv") for _ in range(8))
    D, PD, Quu = k.array("nv", "nu"), k.array("nv", "nu"), k.array("nu", "nu")
    Yq, Yv, Wq, Wv = (k.array("nu", "nv") for _ in range(4))
    gq, gv, g = (k.array("nv") for _ in range(3))
    y, w, share = (k.array("nu") for _ in range(3))
    least, fall = k.scalar(end_pivot[...]), k.scalar(end_decrease[...])
    for t in reversed(k.T):
        step = dt[t]
        for i in nv:
            next_q[t, i], next_v[t, i] = pq[i], pv[i]
        for i in nv:
            for j in nv:
                next_qq[t, i, j], next_qv[t, i, j], next_vv[t, i, j] = Pqq[i, j], Pqv[i, j], Pvv[i, j]
        for i in nv:
            for j in nv:
                Cq[i, j], Cv[i, j] = pace[t] * a_q[t, i, j], pace[t] * a_v[t, i, j]
            Cv[i, i] = Cv[i, i] + 1.0
            for j in nu:
                D[i, j] = pace[t] * a_u[t, i, j]

        # (2), first with X = J = 1; P′ takes the place of Rv
        for i in nv:
            for j in nv:
                Rq[i, j] = step * Pqq[i, j] + Pqv[j, i]
                Rv[i, j] = step * Pqv[i, j] + Pvv[i, j]
        for own, block in _blocks(k):
            for j in nv:
                for c, row in zip(block, own, strict=True):
                    by_q, by_v = Pqv[j, row], Pvv[row, j]
                    for other, b in zip(own, block, strict=True):
                        by_q = by_q + step * drift[t, b, c] * Pqq[other, j]
                        by_v = by_v + step * drift[t, b, c] * Pqv[other, j]
                    Rq[row, j], Rv[row, j] = by_q, by_v
        for i in nv:
            for j in nv:
                N[i, j], XP[i, j] = Rq[i, j], Pqq[i, j]
        for own, block in _blocks(k):
            _turn_rows(k, XP, own, _transposed_block(turn, t, block))
            mirrored = _block(turn, t, block)
            _turn_columns(k, XP, own, mirrored)
            _turn_columns(k, N, own, mirrored)
        for i in nv:
            for j in nv:
                Sq[i, j] = step * Rq[i, j]
        for own, block in _blocks(k):
            _turn_columns(k, Sq, own, _block(drift, t, block))
        for i in nv:
            for j in nv:
                Rv[i, j] = Rv[i, j] + Sq[i, j]
        add_product(Sq, square, Rv, Cq, N)
        add_product(Sv, square, Rv, Cv, ZERO)

        # the vectors of (4)
        for i in nv:
            gq[i], gv[i] = pq[i], pv[i]
        for out, matrix, gap in ((gq, Pqq, gap_q), (gv, Pqv, gap_q), (gv, Pvv, gap_v)):
            add_row(out, (nv, nv), at(gap, t), matrix, _TILE)
        add_image(gq, (nv, nv), Pqv, at(gap_v, t), _TILE)
        for i in nv:
            g[i] = gv[i] + step * gq[i]
        for own, block in _blocks(k):
            values = [gq[row] for row in own]
            for c, row in zip(block, own, strict=True):
                g[row] = gv[row] + step * sum(drift[t, b, c] * x for b, x in zip(block, values, strict=True))
        for own, block in _blocks(k):
            values = [gq[row] for row in own]
            for c, row in zip(block, own, strict=True):
                gq[row] = sum(turn[t, b, c] * x for b, x in zip(block, values, strict=True))
        for i in nv:
            pq[i], pv[i] = lq[t, i] + gq[i], lv[t, i]
        for j in nu:
            y[j] = lu[t, j]
        for out, size, matrix in ((pq, nv, Cq), (pv, nv, Cv), (y, nu, D)):
            add_row(out, (nv, size), g, matrix, _TILE)

        # (3), and what elimination of u takes from it
        add_product(PD, right, Rv, D, ZERO)
        add_product(Quu, (nu, nv, nu), transposed(D), PD, at(Huu, t), symmetric=True)
        for i in nu:
            Quu[i, i] = Quu[i, i] + damping[...]
        add_product(Yq, wide, transposed(D), Sq, at(Huq, t))
        add_product(Yv, wide, transposed(D), Sv, at(Huv, t))
        eliminate(k, Quu, ((Yq, nv), (Yv, nv)), share, least, y, _TILE)
        for i in nu:
            factor = -share[i]
            w[i] = factor * y[i]
            fall[...] = fall[...] - w[i] * y[i]
            for j in nv:
                Wq[i, j], Wv[i, j] = factor * Yq[i, j], factor * Yv[i, j]
        for out, matrix in ((pq, Yq), (pv, Yv)):
            add_row(out, (nu, nv), w, matrix, _TILE)
        add_product(Pqq, square, transposed(Cq), Sq, _sum(at(Hqq, t), XP), symmetric=True)
        add_product(Pqq, square, transposed(N), Cq, symmetric=True)
        add_product(Pqq, (nv, nu, nv), transposed(Wq), Yq, symmetric=True)
        add_product(Pqv, square, transposed(Sq), Cv, at(Hqv, t))
        add_product(Pqv, (nv, nu, nv), transposed(Wq), Yv)
        add_product(Pvv, square, transposed(Cv), Sv, at(Hvv, t), symmetric=True)
        add_product(Pvv, (nv, nu, nv), transposed(Wv), Yv, symmetric=True)
        mirror(nv, Pqq)
        mirror(nv, Pvv)
        substitute(k, Quu, ((Yq, nv), (Yv, nv)), share, y, _TILE)
        for i in nu:
            for j in nv:
                Kq[t, i, j], Kv[t, i, j] = Yq[i, j], Yv[i, j]
            k_u[t, i] = y[i]
    for i in nv:
        for j in nv:
            P_qv[i, j] = Pqv[i, j]
        for j in nv.since(i):
            P_qq[i, j], P_vv[i, j] = Pqq[i, j], Pvv[i, j]
        p_q[i], p_v[i] = pq[i], pv[i]
    pivot[...] = least[...]
    decrease[...] = fall[...]


@kernel(
    a_q=_SQUARE, a_v=_SQUARE, a_u=("T", "nv", "nu"), dt=("T",), pace=("T",), turn=_BLOCK, drift=_BLOCK,
    gap_q=("T", "nv"), gap_v=("T", "nv"), Kq=_WIDE, Kv=_WIDE, k_u=("T", "nu"), next_qq=_SQUARE, next_qv=_SQUARE,
    next_vv=_SQUARE, next_q=("T", "nv"), next_v=("T", "nv"), lq=("T", "nv"), lv=("T", "nv"), lu=("T", "nu"),
    end_q=("nv",), end_v=("nv",), damping=(), dq=("T", "nv"), dv=("T", "nv"), du=("T", "nu"), wq=("T", "nv"),
    wv=("T", "nv"), slope=(), curve=(), outputs=("dq", "dv", "du", "wq", "wv", "slope", "curve"), lists=_BLOCKS,
)  # fmt: skip
def euler_forward(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_u: Indexed, dt: Indexed, pace: Indexed, turn: Indexed, drift: Indexed,
    gap_q: Indexed, gap_v: Indexed, Kq: Indexed, Kv: Indexed, k_u: Indexed, next_qq: Indexed, next_qv: Indexed,
    next_vv: Indexed, next_q: Indexed, next_v: Indexed, lq: Indexed, lv: Indexed, lu: Indexed, end_q: Indexed,
    end_v: Indexed, damping: Indexed, dq: Indexed, dv: Indexed, du: Indexed, wq: Indexed, wv: Indexed, slope: Indexed,
    curve: Indexed,
) -> None:  # fmt: skip
    """The step z that the gains lead to: states and costates w of nodes that steps reach, inputs, lᵀz and zᵀH z.

    The first state is zero. Without damping, H z + l + (A, B)ᵀw′ − w = 0 at all nodes, so that zᵀ(H z + l) = Σ wᵀd.
    """
    nv, nu = k.nv, k.nu
    q, v, new, u = k.zeros("nv"), k.zeros("nv"), k.array("nv"), k.array("nu")
    of_q, of_v = k.array("nv"), k.array("nv")
    # sums of each entry on its own over all steps, which do not wait for each other
    total_u, rest_u, total_x, rest_x = k.zeros("nu"), k.zeros("nu"), k.zeros("nv"), k.zeros("nv")
    for t in k.T:
        step, s = dt[t], pace[t]
        for i in nu:
            u[i] = k_u[t, i]
        for gain, x in ((Kq, q), (Kv, v)):
            add_image(u, (nu, nv), at(gain, t), x, _TILE)
        for i in nu:
            u[i] = -u[i]
            du[t, i] = u[i]
            total_u[i] = total_u[i] + lu[t, i] * u[i]
            rest_u[i] = rest_u[i] - damping[...] * (u[i] * u[i])
        for i in nv:
            total_x[i] = total_x[i] + lq[t, i] * q[i] + lv[t, i] * v[i]
            new[i] = 0.0
        for rates, x, size in ((a_q, q, nv), (a_v, v, nv), (a_u, u, nu)):
            add_image(new, (nv, size), at(rates, t), x, _TILE)
        for i in nv:
            new[i] = v[i] + s * new[i]
        # (1): q′ = X q + dt J v′, blocks after the numbers
        for own, block in _blocks(k):
            before, rates = [q[i] for i in own], [step * new[i] for i in own]
            for b, row in zip(block, own, strict=True):
                moved = sum(turn[t, b, c] * x for c, x in zip(block, before, strict=True))
                q[row] = moved + sum(drift[t, b, c] * x for c, x in zip(block, rates, strict=True)) - step * new[row]
        for i in nv:
            q[i] = q[i] + step * new[i] + gap_q[t, i]
            v[i] = new[i] + gap_v[t, i]
            of_q[i], of_v[i] = next_q[t, i], next_v[t, i]
        # w = P x + p
        for out, x, matrices in ((of_q, q, next_qq), (of_v, q, next_qv), (of_v, v, next_vv)):
            add_row(out, (nv, nv), x, at(matrices, t), _TILE)
        add_image(of_q, (nv, nv), at(next_qv, t), v, _TILE)
        for i in nv:
            dq[t, i], dv[t, i], wq[t, i], wv[t, i] = q[i], v[i], of_q[i], of_v[i]
            rest_x[i] = rest_x[i] + gap_q[t, i] * of_q[i] + gap_v[t, i] * of_v[i]
    total = k.sum(total_u[i] for i in nu) + k.sum(total_x[i] + end_q[i] * q[i] + end_v[i] * v[i] for i in nv)
    slope[...] = total
    curve[...] = k.sum(rest_u[i] for i in nu) + k.sum(rest_x[i] for i in nv) - total


def add_product(out: Indexed, over: Over, left: Any, right: Any, start: Any = None, symmetric: bool = False) -> None:
    """Add a product, in tiles that fit halves of a state."""
    add_products([out], over, left, [right], start, symmetric, _TILE)


def _blocks(k: Workspace) -> Iterator[Any]:
    """The blocks of both lengths: indices among all velocities, and among those of blocks."""
    yield from k.threes
    yield from k.sixes


def _block(matrices: Indexed, t: Any, block: Any) -> list[list[Any]]:
    return [[matrices[t, b, c] for c in block] for b in block]


def _transposed_block(matrices: Indexed, t: Any, block: Any) -> list[list[Any]]:
    return [[matrices[t, c, b] for c in block] for b in block]


def _turn_rows(k: Workspace, matrix: Indexed, own: Any, by: list[list[Any]]) -> None:
    """Rows of a block are multiplied from the left."""
    for j in k.nv:
        entries = [matrix[row, j] for row in own]
        for row, factors in zip(own, by, strict=True):
            matrix[row, j] = sum(factor * x for factor, x in zip(factors, entries, strict=True))


def _turn_columns(k: Workspace, matrix: Indexed, own: Any, by: list[list[Any]]) -> None:
    """Columns of a block are multiplied from the right."""
    for i in k.nv:
        entries = [matrix[i, column] for column in own]
        for c, column in enumerate(own):
            matrix[i, column] = sum(x * factors[c] for x, factors in zip(entries, by, strict=True))


def _sum(one: Any, other: Any) -> MatrixView:
    return MatrixView(lambda i, j: one[i, j] + other[i, j])
