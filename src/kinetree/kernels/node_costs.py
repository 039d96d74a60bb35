"""Residuals of the nodes of a horizon, the curvature of their dynamics, and what roll-outs under gains need.

Inverse dynamics is linear in a, so that with H its second derivatives along −M⁻¹w, those of wᵀa(q, v, u) are

    S = H + H_·a A + (H_·a A)ᵀ,   A = (a_q, a_v, a_u)                                                                (1)

where H_va = H_aa = 0. H_vv does not depend on v: its rows are the gradients with respect to v at unit velocities.
"""

from __future__ import annotations

import numpy as np

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.poses import turn_of
from kinetree.kernels.products import ZERO, add_product, transposed
from kinetree.language.tree import Indexed
from kinetree.spatial.rotation import cross
from kinetree.spatial.screw import dot, inverse_right_jacobian, linear_velocity
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


_SQUARE, _WIDE = ("nv", "nv"), ("nu", "nv")
#: Steps of central differences along a twist.
_STEP = 1e-5


@kernel(
    pose=(4, 4), target=(4, 4), jacobian=(6, "nv"), slope=(6,), start=_SQUARE, bend=_SQUARE, outputs=("bend",),
    symmetric=("bend",),
)  # fmt: skip
def pose_bend(
    k: Workspace, pose: Indexed, target: Indexed, jacobian: Indexed, slope: Indexed, start: Indexed, bend: Indexed
) -> None:
    """Σ s ∂²r/∂q² of `pose_residual`, added to a matrix, of joints of one degree of freedom in the order of the chain.

    A column of the frame's Jacobian in its own axes does not change with the joints up to its own. So the derivative of
    sᵀD(r) J_k along joint j ≤ k is that of D alone, by differences along D J_j.
    """
    r, s = _apart(pose[...], target[...]), slope[...]
    D = inverse_right_jacobian(r)
    for j in k.nv:
        way = _STEP * (D @ jacobian[j])
        ends = inverse_right_jacobian(r + way) - inverse_right_jacobian(r - way)
        along = (0.5 / _STEP) * (s @ ends)
        for i in k.nv.since(j):
            bend[j, i] = start[j, i] + along @ jacobian[i]


@kernel(jacobian=(6, "nv"), slope=(3,), start=_SQUARE, bend=_SQUARE, outputs=("bend",), symmetric=("bend",))
def position_bend(k: Workspace, jacobian: Indexed, slope: Indexed, start: Indexed, bend: Indexed) -> None:
    """The same of a frame's origin, from its Jacobian in world axes: joints turn the columns from their own on."""
    s = slope[...]
    for j in k.nv:
        along = cross(s, jacobian[j][:3])
        for i in k.nv.since(j):
            bend[j, i] = start[j, i] + dot(along, jacobian[i][3:])


@kernel(
    a_q=_SQUARE, a_v=_SQUARE, a_u=("nv", "nu"), qq=_SQUARE, qv=_SQUARE, qa=_SQUARE, vv=_SQUARE, bend=_SQUARE, share=(),
    Hqq=_SQUARE, Hqv=_SQUARE, Hvv=_SQUARE, Huq=_WIDE, Sqq=_SQUARE, Sqv=_SQUARE, Svv=_SQUARE, Suq=_WIDE,
    outputs=("Sqq", "Sqv", "Svv", "Suq"),
)  # fmt: skip
def with_curvature(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_u: Indexed, qq: Indexed, qv: Indexed, qa: Indexed, vv: Indexed,
    bend: Indexed, share: Indexed, Hqq: Indexed, Hqv: Indexed, Hvv: Indexed, Huq: Indexed, Sqq: Indexed, Sqv: Indexed,
    Svv: Indexed, Suq: Indexed,
) -> None:  # fmt: skip
    """Hessians of a node with a share of the curvature of its residuals, and of that (1) of its dynamics."""
    nv, nu, some = k.nv, k.nu, share[...]
    one, other = k.array("nv", "nv"), k.array("nv", "nv")
    square, wide = (nv, nv, nv), (nu, nv, nv)
    add_product(one, square, qa, a_q, ZERO)
    add_product(other, square, qa, a_v, ZERO)
    for i in nv:
        for j in nv:
            dynamics = 0.5 * (qq[i, j] + qq[j, i]) + (one[i, j] + one[j, i])
            Sqq[i, j] = Hqq[i, j] + some * (bend[i, j] + dynamics)
            Svv[i, j] = Hvv[i, j] + some * (0.5 * (vv[i, j] + vv[j, i]))
            Sqv[i, j] = Hqv[i, j] + some * (qv[i, j] + other[i, j])
    left = k.array("nu", "nv")
    add_product(left, wide, transposed(a_u), transposed(qa), ZERO)
    for i in nu:
        for j in nv:
            Suq[i, j] = Huq[i, j] + some * left[i, j]


@kernel(wq=("n",), wv=("n",), dt=(), push=("n",), outputs=("push",))
def pushed(k: Workspace, wq: Indexed, wv: Indexed, dt: Indexed, push: Indexed) -> None:
    """−dt (w_v + dt w_q): what an acceleration changes costs by, given costates, with the opposite sign."""
    for i in k.n:
        push[i] = -(dt[...] * (wv[i] + dt[...] * wq[i]))


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


@kernel(A=("n", "n"), share=(), B=("n", "n"), outputs=("B",))
def mean_of_both(k: Workspace, A: Indexed, share: Indexed, B: Indexed) -> None:
    """A share of the symmetric part, (A + Aᵀ)/2."""
    for i in k.n:
        for j in k.n:
            B[i, j] = 0.5 * share[...] * (A[i, j] + A[j, i])


@kernel(A=("m", "n"), x=("n",), y=("m",), outputs=("y",))
def product(k: Workspace, A: Indexed, x: Indexed, y: Indexed) -> None:
    """A x."""
    for i in k.m:
        y[i] = k.sum(A[i, j] * x[j] for j in k.n)


@kernel(A=("m", "n"), B=("n", "p"), C=("m", "p"), outputs=("C",), sparse=("C",))
def matrix_product(k: Workspace, A: Indexed, B: Indexed, C: Indexed) -> None:
    """A B."""
    add_product(C, (k.m, k.n, k.p), A, B)
