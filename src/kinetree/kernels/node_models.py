"""Residuals of a node of a horizon within bounds, its quadratic model, and sums over all nodes.

A row of a residual r costs ½ w d², where d is the distance of r + s from an interval [l, h]: of a soft row s = 0, and
without bounds d = r; of a hard row of an augmented Lagrangian s = y/ρ and w = ρ. The model of a node has the gradient
Jᵀ W d and the Hessian JᵀW J of Gauss and Newton, in halves of the state as `kinetree.kernels.euler_riccati` takes them.
Cost O(r nv²) for r rows.
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import above, larger, less, magnitude
from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, add_product, add_products, mirror, transposed
from kinetree.language.tree import Indexed

_SQUARE, _WIDE = ("nv", "nv"), ("nu", "nv")


@kernel(x=("n",), y=("n",), apart=("n",), outputs=("apart",))
def difference(k: Workspace, x: Indexed, y: Indexed, apart: Indexed) -> None:
    """x − y."""
    for i in k.n:
        apart[i] = x[i] - y[i]


@kernel(
    residual=("n",), shift=("n",), weight=("n",), lower=("n",), upper=("n",), equal=("n",), distance=("n",),
    acting=("n",), worst=(), outputs=("distance", "acting", "worst"),
)  # fmt: skip
def outside(
    k: Workspace, residual: Indexed, shift: Indexed, weight: Indexed, lower: Indexed, upper: Indexed, equal: Indexed,
    distance: Indexed, acting: Indexed, worst: Indexed,
) -> None:  # fmt: skip
    """Distances of r + s from [l, h], the weights that act there, and the largest distance of r that has a weight.

    Weights of rows inside do not act, unless both bounds are `equal`, 1 or 0.
    """
    most = k.scalar(0.0)
    for i in k.n:
        d = _apart(residual[i] + shift[i], lower[i], upper[i])
        distance[i] = d
        acting[i] = above(larger(magnitude(d), equal[i]), 0.0, weight[i], 0.0)
        own = magnitude(_apart(residual[i], lower[i], upper[i]))
        most[...] = larger(most[...], above(weight[i], 0.0, own, 0.0))
    worst[...] = most[...]


def _apart(x: Any, lower: Any, upper: Any) -> Any:
    """The distance of a number from an interval, negative below it."""
    return less(x, lower, x - lower, less(upper, x, x - upper, 0.0))


@kernel(weight=("n",), distance=("n",), cost=(), outputs=("cost",))
def half_squares(k: Workspace, weight: Indexed, distance: Indexed, cost: Indexed) -> None:
    """½ Σ w d², summed in order."""
    total = k.scalar(0.0)
    for i in k.n:
        total[...] = total[...] + weight[i] * (distance[i] * distance[i])
    cost[...] = 0.5 * total[...]


@kernel(
    A=("n", "f"), weight=("n",), distance=("n",), H=("f", "f"), slope=("f",), outputs=("H", "slope"),
    sparse=("H", "slope"),
)  # fmt: skip
def force_model(k: Workspace, A: Indexed, weight: Indexed, distance: Indexed, H: Indexed, slope: Indexed) -> None:
    """The model of rows A λ as one of the forces: AᵀW A and AᵀW d."""
    for r in k.n:
        w, s = weight[r], weight[r] * distance[r]
        for i in k.f:
            factor = w * A[r, i]
            slope[i] = slope[i] + s * A[r, i]
            for j in k.f:
                H[i, j] = H[i, j] + factor * A[r, j]


@kernel(
    of_q=("a", "nv"), weight_q=("a", "nv"), of_v=("b", "nv"), weight_v=("b", "nv"), of_u=("c", "nu"),
    weight_u=("c", "nu"), of_rows=("m",), weight_rows=("m",), rows=("m", "nv"), of_all=("n",), weight_all=("n",),
    by_q=("n", "nv"), by_v=("n", "nv"), by_u=("n", "nu"), Hff=("f", "f"), lf=("f",), force_q=("f", "nv"),
    force_v=("f", "nv"), force_u=("f", "nu"), Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Huv=_WIDE,
    Huu=("nu", "nu"), lq=("nv",), lv=("nv",), lu=("nu",),
    outputs=("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu"),
    sparse=("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu"),
)  # fmt: skip
def node_model(
    k: Workspace, of_q: Indexed, weight_q: Indexed, of_v: Indexed, weight_v: Indexed, of_u: Indexed, weight_u: Indexed,
    of_rows: Indexed, weight_rows: Indexed, rows: Indexed, of_all: Indexed, weight_all: Indexed, by_q: Indexed,
    by_v: Indexed, by_u: Indexed, Hff: Indexed, lf: Indexed, force_q: Indexed, force_v: Indexed, force_u: Indexed,
    Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed, Huv: Indexed, Huu: Indexed, lq: Indexed, lv: Indexed,
    lu: Indexed,
) -> None:  # fmt: skip
    """The model of one node: diagonals of q, v and u, m rows of q, n rows of everything, a model of f forces."""
    nv, nu, m, n, f = k.nv, k.nu, k.m, k.n, k.f
    for r in k.a:
        for i in nv:
            Hqq[i, i], lq[i] = Hqq[i, i] + weight_q[r, i], lq[i] + weight_q[r, i] * of_q[r, i]
    for r in k.b:
        for i in nv:
            Hvv[i, i], lv[i] = Hvv[i, i] + weight_v[r, i], lv[i] + weight_v[r, i] * of_v[r, i]
    for r in k.c:
        for i in nu:
            Huu[i, i], lu[i] = Huu[i, i] + weight_u[r, i], lu[i] + weight_u[r, i] * of_u[r, i]

    scaled = k.array("m", "nv")
    for r in m:
        w, slope = weight_rows[r], weight_rows[r] * of_rows[r]
        for j in nv:
            scaled[r, j], lq[j] = w * rows[r, j], lq[j] + slope * rows[r, j]
    add_product(Hqq, (nv, m, nv), transposed(rows), scaled, symmetric=True)

    all_q, all_v, all_u = k.array("n", "nv"), k.array("n", "nv"), k.array("n", "nu")
    for r in n:
        w, slope = weight_all[r], weight_all[r] * of_all[r]
        for j in nv:
            all_q[r, j], all_v[r, j] = w * by_q[r, j], w * by_v[r, j]
            lq[j], lv[j] = lq[j] + slope * by_q[r, j], lv[j] + slope * by_v[r, j]
        for j in nu:
            all_u[r, j], lu[j] = w * by_u[r, j], lu[j] + slope * by_u[r, j]

    push_q, push_v, push_u = k.array("f", "nv"), k.array("f", "nv"), k.array("f", "nu")
    add_products([push_q, push_v], (f, f, nv), Hff, [force_q, force_v], ZERO)
    add_product(push_u, (f, f, nu), Hff, force_u, ZERO)
    for r in f:
        slope = lf[r]
        for j in nv:
            lq[j], lv[j] = lq[j] + slope * force_q[r, j], lv[j] + slope * force_v[r, j]
        for j in nu:
            lu[j] = lu[j] + slope * force_u[r, j]

    every, forces = (by_q, by_v, by_u, all_q, all_v, all_u), (force_q, force_v, force_u, push_q, push_v, push_u)
    for terms, (left_q, left_v, left_u, right_q, right_v, right_u) in ((n, every), (f, forces)):
        add_product(Hqq, (nv, terms, nv), transposed(left_q), right_q, symmetric=True)
        add_product(Hqv, (nv, terms, nv), transposed(left_q), right_v)
        add_product(Hvv, (nv, terms, nv), transposed(left_v), right_v, symmetric=True)
        add_products([Huq, Huv], (nu, terms, nv), transposed(left_u), [right_q, right_v])
        add_product(Huu, (nu, terms, nu), transposed(left_u), right_u, symmetric=True)
    for size, matrix in ((nv, Hqq), (nv, Hvv), (nu, Huu)):
        mirror(size, matrix)


@kernel(
    costs=("S",), worst=("S",), gap_q=("T", "nv"), gap_v=("T", "nv"), cost=(), violation=(), gaps=(), gap=(),
    outputs=("cost", "violation", "gaps", "gap"),
)  # fmt: skip
def summary(
    k: Workspace, costs: Indexed, worst: Indexed, gap_q: Indexed, gap_v: Indexed, cost: Indexed, violation: Indexed,
    gaps: Indexed, gap: Indexed,
) -> None:  # fmt: skip
    """The cost of all nodes and the largest violation; the sum of all gaps, and the largest one."""
    total, most, length, longest = k.scalar(0.0), k.scalar(0.0), k.scalar(0.0), k.scalar(0.0)
    for t in k.S:
        total[...], most[...] = total[...] + costs[t], larger(most[...], worst[t])
    for t in k.T:
        for i in k.nv:
            q, v = magnitude(gap_q[t, i]), magnitude(gap_v[t, i])
            length[...] = length[...] + (q + v)
            longest[...] = larger(longest[...], larger(q, v))
    cost[...], violation[...], gaps[...], gap[...] = total[...], most[...], length[...], longest[...]


@kernel(x=("n",), y=("n",), product=("n",), outputs=("product",))
def products(k: Workspace, x: Indexed, y: Indexed, product: Indexed) -> None:
    """x y, entry by entry."""
    for i in k.n:
        product[i] = x[i] * y[i]


@kernel(x=("n",), most=(), outputs=("most",))
def largest_of(k: Workspace, x: Indexed, most: Indexed) -> None:
    """The largest of some numbers that are not negative."""
    found = k.scalar(0.0)
    for i in k.n:
        found[...] = larger(found[...], x[i])
    most[...] = found[...]


@kernel(x=("n",), more=("n",), share=(), total=("n",), outputs=("total",))
def with_share(k: Workspace, x: Indexed, more: Indexed, share: Indexed, total: Indexed) -> None:
    """x + s y."""
    for i in k.n:
        total[i] = x[i] + share[...] * more[i]
