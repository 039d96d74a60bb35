"""Costs of the nodes of a horizon, ½ Σ w r², and their quadratic models. Cost O(r nv²) for r residuals.

Residuals r of a node depend on its configuration, on all of (q, v, u), or are entries of the tangents themselves. The
model of a node has the gradient rₓᵀ W r and the Hessian rₓᵀ W rₓ of Gauss and Newton, in halves of the state as
`kinetree.kernels.euler_riccati` takes them. The curvature of the dynamics adds to it what Newton's method needs.

Inverse dynamics is linear in a, so that with H its second derivatives along −M⁻¹w, those of wᵀa(q, v, u) are

    S = H + H_·a A + (H_·a A)ᵀ,   A = (a_q, a_v, a_u)                                                                (1)
"""

from __future__ import annotations

import numpy as np

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.poses import turn_of
from kinetree.kernels.products import ZERO, add_product, transposed
from kinetree.language.tree import Indexed
from kinetree.spatial.screw import inverse_right_jacobian, linear_velocity
from kinetree.spatial.value import Array


def _apart(pose: Array, target: Array) -> Array:
    """log(target⁻¹ pose), angular part first."""
    R = target[:3, :3].T
    w, angle = turn_of(R @ pose[:3, :3])
    return np.concatenate([w, linear_velocity(w, angle, R @ (pose[:3, 3] - target[:3, 3]))])


@kernel(pose=(4, 4), target=(4, 4), residual=(6,), outputs=("residual",))
def pose_residual(_k: Workspace, pose: Indexed, target: Indexed, residual: Indexed) -> None:
    """The twist log(target⁻¹ pose), angular part first."""
    residual[...] = _apart(pose[...], target[...])


@kernel(
    pose=(4, 4), target=(4, 4), jacobian=(6, "nv"), residual=(6,), rows=(6, "nv"), outputs=("residual", "rows"),
)  # fmt: skip
def pose_rows(
    k: Workspace, pose: Indexed, target: Indexed, jacobian: Indexed, residual: Indexed, rows: Indexed
) -> None:
    """The same, and its derivative along tangents, from the frame's Jacobian in its own axes."""
    r = _apart(pose[...], target[...])
    residual[...] = r
    D = inverse_right_jacobian(r)
    for j in k.nv:
        rows[j] = D @ jacobian[j]


@kernel(weight=("n",), residual=("n",), cost=(), outputs=("cost",))
def half_squares(k: Workspace, weight: Indexed, residual: Indexed, cost: Indexed) -> None:
    """½ Σ w r², summed in order."""
    total = k.scalar(0.0)
    for i in k.n:
        total[...] = total[...] + weight[i] * (residual[i] * residual[i])
    cost[...] = 0.5 * total[...]


_SQUARE, _WIDE = ("nv", "nv"), ("nu", "nv")


@kernel(
    weight_q=("nv",), weight_v=("nv",), weight_u=("nu",), slope_q=("nv",), slope_v=("nv",), slope_u=("nu",),
    rows=("m", "nv"), row_weight=("m",), row_slope=("m",), by_q=("n", "nv"), by_v=("n", "nv"), by_u=("n", "nu"),
    weight=("n",), slope=("n",), Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Huv=_WIDE, Huu=("nu", "nu"),
    lq=("nv",), lv=("nv",), lu=("nu",), outputs=("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu"),
    sparse=("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu"),
)  # fmt: skip
def quadratic_model(
    k: Workspace, weight_q: Indexed, weight_v: Indexed, weight_u: Indexed, slope_q: Indexed, slope_v: Indexed,
    slope_u: Indexed, rows: Indexed, row_weight: Indexed, row_slope: Indexed, by_q: Indexed, by_v: Indexed,
    by_u: Indexed, weight: Indexed, slope: Indexed, Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed,
    Huv: Indexed, Huu: Indexed, lq: Indexed, lv: Indexed, lu: Indexed,
) -> None:  # fmt: skip
    """The model of one node: diagonals, m rows of the configuration, n rows of everything; slopes are W r."""
    nv, nu = k.nv, k.nu
    for i in nv:
        Hqq[i, i], Hvv[i, i] = weight_q[i], weight_v[i]
        lq[i], lv[i] = slope_q[i], slope_v[i]
    for i in nu:
        Huu[i, i], lu[i] = weight_u[i], slope_u[i]
    for r in k.m:
        w, s = row_weight[r], row_slope[r]
        for j in nv:
            lq[j] = lq[j] + s * rows[r, j]
        for i in nv:
            factor = w * rows[r, i]
            for j in nv:
                Hqq[i, j] = Hqq[i, j] + factor * rows[r, j]
    for r in k.n:
        w, s = weight[r], slope[r]
        for j in nv:
            lq[j], lv[j] = lq[j] + s * by_q[r, j], lv[j] + s * by_v[r, j]
        for j in nu:
            lu[j] = lu[j] + s * by_u[r, j]
        for i in nv:
            of_q, of_v = w * by_q[r, i], w * by_v[r, i]
            for j in nv:
                Hqq[i, j] = Hqq[i, j] + of_q * by_q[r, j]
                Hqv[i, j] = Hqv[i, j] + of_q * by_v[r, j]
                Hvv[i, j] = Hvv[i, j] + of_v * by_v[r, j]
        for i in nu:
            of_u = w * by_u[r, i]
            for j in nv:
                Huq[i, j], Huv[i, j] = Huq[i, j] + of_u * by_q[r, j], Huv[i, j] + of_u * by_v[r, j]
            for j in nu:
                Huu[i, j] = Huu[i, j] + of_u * by_u[r, j]


@kernel(
    a_q=_SQUARE, a_v=_SQUARE, a_u=("nv", "nu"), qq=_SQUARE, qv=_SQUARE, qa=_SQUARE, vv=_SQUARE, va=_SQUARE, share=(),
    Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Huv=_WIDE, Sqq=_SQUARE, Sqv=_SQUARE, Svv=_SQUARE, Suq=_WIDE,
    Suv=_WIDE, outputs=("Sqq", "Sqv", "Svv", "Suq", "Suv"),
)  # fmt: skip
def with_curvature(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_u: Indexed, qq: Indexed, qv: Indexed, qa: Indexed, vv: Indexed,
    va: Indexed, share: Indexed, Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed, Huv: Indexed, Sqq: Indexed,
    Sqv: Indexed, Svv: Indexed, Suq: Indexed, Suv: Indexed,
) -> None:  # fmt: skip
    """Hessians of a node with a share of the curvature (1) of its dynamics, from second derivatives qq, qv, … ."""
    nv, nu, some = k.nv, k.nu, share[...]
    one, other, third = (k.array("nv", "nv") for _ in range(3))
    square, wide = (nv, nv, nv), (nu, nv, nv)
    add_product(one, square, qa, a_q, ZERO)
    add_product(other, square, va, a_v, ZERO)
    for i in nv:
        for j in nv:
            Sqq[i, j] = Hqq[i, j] + some * (0.5 * (qq[i, j] + qq[j, i]) + (one[i, j] + one[j, i]))
            Svv[i, j] = Hvv[i, j] + some * (0.5 * (vv[i, j] + vv[j, i]) + (other[i, j] + other[j, i]))
    add_product(third, square, qa, a_v, ZERO)
    add_product(third, square, transposed(a_q), transposed(va))
    for i in nv:
        for j in nv:
            Sqv[i, j] = Hqv[i, j] + some * (qv[i, j] + third[i, j])
    left, right = k.array("nu", "nv"), k.array("nu", "nv")
    add_product(left, wide, transposed(a_u), transposed(qa), ZERO)
    add_product(right, wide, transposed(a_u), transposed(va), ZERO)
    for i in nu:
        for j in nv:
            Suq[i, j] = Huq[i, j] + some * left[i, j]
            Suv[i, j] = Huv[i, j] + some * right[i, j]


@kernel(
    dq=("nv",), dv=("nv",), du=("nu",), Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Huv=_WIDE, Huu=("nu", "nu"),
    by_q=("nv",), by_v=("nv",), value=(), outputs=("by_q", "by_v", "value"),
)  # fmt: skip
def change_along(
    k: Workspace, dq: Indexed, dv: Indexed, du: Indexed, Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed,
    Huv: Indexed, Huu: Indexed, by_q: Indexed, by_v: Indexed, value: Indexed,
) -> None:  # fmt: skip
    """Changes of a node's gradient with respect to q and v along a step z = (dq, dv, du), and zᵀH z."""
    nv, nu, total = k.nv, k.nu, k.scalar(0.0)
    of_q, of_v = k.zeros("nv"), k.zeros("nv")
    for j in nv:
        q, v = dq[j], dv[j]
        for i in nv:
            of_q[i], of_v[i] = of_q[i] + Hqq[j, i] * q, of_v[i] + Hqv[j, i] * q + Hvv[j, i] * v
        of_q[j] = of_q[j] + k.sum(Hqv[j, i] * dv[i] for i in nv)
    for j in nu:
        u = du[j]
        for i in nv:
            of_q[i], of_v[i] = of_q[i] + Huq[j, i] * u, of_v[i] + Huv[j, i] * u
        of_x = k.sum(Huq[j, i] * dq[i] + Huv[j, i] * dv[i] for i in nv)
        total[...] = total[...] + u * (of_x + k.sum(Huu[j, i] * du[i] for i in nu))
    for i in nv:
        by_q[i], by_v[i] = of_q[i], of_v[i]
        total[...] = total[...] + of_q[i] * dq[i] + of_v[i] * dv[i]
    value[...] = total[...]


@kernel(
    v=("nv",), u=("nu",), Kq=_WIDE, Kv=_WIDE, k_u=("nu",), dq=("nv",), v_now=("nv",), share=(), new=("nu",),
    outputs=("new",),
)  # fmt: skip
def feedback(
    k: Workspace, v: Indexed, u: Indexed, Kq: Indexed, Kv: Indexed, k_u: Indexed, dq: Indexed, v_now: Indexed,
    share: Indexed, new: Indexed,
) -> None:  # fmt: skip
    """Inputs u − share k − K (x ⊖ x̄), given the tangent dq from the plan to the state."""
    for i in k.nu:
        state = k.sum(Kq[i, j] * dq[j] + Kv[i, j] * (v_now[j] - v[j]) for j in k.nv)
        new[i] = u[i] - share[...] * k_u[i] - state


@kernel(
    gap_q=("nv",), gap_v=("nv",), v=("nv",), share=(), back=("nv",), rate=("nv",), outputs=("back", "rate"),
)  # fmt: skip
def kept_gap(
    k: Workspace, gap_q: Indexed, gap_v: Indexed, v: Indexed, share: Indexed, back: Indexed, rate: Indexed
) -> None:
    """What is left of a gap after a share of a step: its tangent, and the velocity behind it."""
    for i in k.nv:
        back[i], rate[i] = (share[...] - 1.0) * gap_q[i], v[i] + (share[...] - 1.0) * gap_v[i]


@kernel(v=("n",), a=("n",), pace=(), after=("n",), outputs=("after",))
def moved_on(k: Workspace, v: Indexed, a: Indexed, pace: Indexed, after: Indexed) -> None:
    """Velocities after a step, v + pace a."""
    for i in k.n:
        after[i] = v[i] + pace[...] * a[i]


@kernel(A=("m", "n"), x=("n",), y=("m",), outputs=("y",))
def product(k: Workspace, A: Indexed, x: Indexed, y: Indexed) -> None:
    """A x."""
    for i in k.m:
        y[i] = k.sum(A[i, j] * x[j] for j in k.n)


@kernel(A=("m", "n"), B=("n", "p"), C=("m", "p"), outputs=("C",), sparse=("C",))
def matrix_product(k: Workspace, A: Indexed, B: Indexed, C: Indexed) -> None:
    """A B."""
    add_product(C, (k.m, k.n, k.p), A, B)
