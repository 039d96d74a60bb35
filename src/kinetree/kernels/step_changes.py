"""Dense algebra of derivatives of steps with impulses. Cost O(n² c) for matrices, O(c²) along a direction.

With J the motion of c rows, which are the b of bodies that may touch something and one of each joint with friction or a
stop, Ψ = ∂(J v′)/∂q, and the response of impulses on them (`kinetree.kernels.contact_response`),

    δv′ = δv_f − M⁻¹Jᵀ (C (J δv_f + Ψ δq) + C_ξ J δq + C_μ δμ + C_h δh)                              (1)

with δv_f at given impulses. Accelerations with respect to q, v and joint forces give δv_f = δv + dt (a_q δq + …).
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.constrained_solution import MovingColumns
from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import TILE, ZERO, MatrixView, add_product, add_products
from kinetree.language.tree import Indexed
from kinetree.spatial.rotation import stack

_RESPONSE: dict[str, Any] = {
    "C": ("c", "c"), "by_place": ("c", "b"), "by_friction": ("c", "g"), "by_height": ("c", "g"),
}  # fmt: skip


@kernel(
    **_RESPONSE, moved=("c",), turned=("c",), along=("b",), friction=("g",), height=("g",), y=("c",), outputs=("y",)
)
def impulse_changes(
    k: Workspace, C: Indexed, by_place: Indexed, by_friction: Indexed, by_height: Indexed, moved: Indexed,
    turned: Indexed, along: Indexed, friction: Indexed, height: Indexed, y: Indexed,
) -> None:  # fmt: skip
    """Changes of impulses on the rows by (1): `moved` are J δv_f, `turned` Ψ δq, `along` J δq of bodies."""
    for i in k.c:
        by_motion = k.sum(C[i, j] * (moved[j] + turned[j]) for j in k.c) + k.sum(by_place[i, j] * along[j] for j in k.b)
        by_shape = k.sum(by_friction[i, j] * friction[j] + by_height[i, j] * height[j] for j in k.g)
        y[i] = -(by_motion + by_shape)


@kernel(
    **_RESPONSE, u=("c",), moved=("c",), along=("b",), friction=("g",), height=("g",),
    outputs=("moved", "along", "friction", "height"), sparse=("moved", "along", "friction", "height"),
)  # fmt: skip
def impulse_gradients(
    k: Workspace, C: Indexed, by_place: Indexed, by_friction: Indexed, by_height: Indexed, u: Indexed, moved: Indexed,
    along: Indexed, friction: Indexed, height: Indexed,
) -> None:  # fmt: skip
    """Gradients of u times the changes of impulses."""
    for i in k.c:
        weight = u[i]
        for j in k.c:
            moved[j] = moved[j] - C[i, j] * weight
        for j in k.b:
            along[j] = along[j] - by_place[i, j] * weight
        for j in k.g:
            friction[j], height[j] = friction[j] - by_friction[i, j] * weight, height[j] - by_height[i, j] * weight


@kernel(place=("m", 15), wrench=("m", 6), dt=(), force=("m", 6), outputs=("force",))
def frame_wrenches(k: Workspace, place: Indexed, wrench: Indexed, dt: Indexed, force: Indexed) -> None:
    """Mean wrenches of impulses on bodies, from world axes to those of their frames."""
    for i in k.m:
        R, n, f = place[i][:9].reshape(3, 3), wrench[i][:3], wrench[i][3:]
        force[i] = stack(R.T @ n, R.T @ f) / dt[...]


@kernel(
    q=("n",), twists=("n",), by_q=("n",), by_v=("n",), by_a=("n",), x=("n",), dt=(), q_bar=("n",), v_bar=("n",),
    speed_bar=("n",), push_bar=("n",), outputs=("q_bar", "v_bar", "speed_bar", "push_bar"),
)  # fmt: skip
def step_gradients(
    k: Workspace, q: Indexed, twists: Indexed, by_q: Indexed, by_v: Indexed, by_a: Indexed, x: Indexed, dt: Indexed,
    q_bar: Indexed, v_bar: Indexed, speed_bar: Indexed, push_bar: Indexed,
) -> None:  # fmt: skip
    """Gradients of a step before its end: of v_f = v + dt a, with those of inverse dynamics for M x = by_a."""
    h = dt[...]
    for i in k.n:
        q_bar[i] = q[i] + twists[i] - h * by_q[i]
        v_bar[i], speed_bar[i], push_bar[i] = by_a[i], -h * by_v[i], h * x[i]


_MATRICES = ("by_q", "by_v", "by_tau")


@kernel(
    J=("c", "n"), Psi=("c", "n"), C=("c", "c"), by_place=("c", "b"), Minv=("n", "n"), a_q=("n", "n"), a_v=("n", "n"),
    a_tau=("n", "n"), dt=(), by_q=("n", "n"), by_v=("n", "n"), by_tau=("n", "n"), outputs=_MATRICES, sparse=_MATRICES,
    lists={"bodies": {"c": 1, "b": 1}, "moving": {"n": TILE}, "rest": {"n": 1}},
)  # fmt: skip
def velocity_changes(
    k: Workspace, J: Indexed, Psi: Indexed, C: Indexed, by_place: Indexed, Minv: Indexed, a_q: Indexed, a_v: Indexed,
    a_tau: Indexed, dt: Indexed, by_q: Indexed, by_v: Indexed, by_tau: Indexed,
) -> None:  # fmt: skip
    """∂v′ with respect to q, v and joint forces by (1), from accelerations with respect to them."""
    n, c, h, terms = k.n, k.c, dt[...], MovingColumns(k)
    response, Z_q, Z_v, Z_tau, of_body = (*(k.array("c", "n") for _ in range(4)), k.array("b", "n"))
    for i in c:
        for j in n:
            Z_q[i, j], Z_v[i, j], Z_tau[i, j] = Psi[i, j], J[i, j], 0.0
    for (i,), (body,) in k.bodies:
        for j in n:
            of_body[body, j] = J[i, j]
    over: Any = c, terms, n
    add_product(response, over, J, Minv, start=ZERO)
    add_products([Z_q, Z_v, Z_tau], over, MatrixView(lambda i, j: h * J[i, j]), [a_q, a_v, a_tau])
    X_q, X_v, X_tau = (k.array("c", "n") for _ in range(3))
    add_products([X_q, X_v, X_tau], (c, c, n), C, [Z_q, Z_v, Z_tau], start=ZERO)
    add_product(X_q, (c, k.b, n), by_place, of_body)
    back = MatrixView(lambda i, j: -response[j, i])
    for out, a, X in ((by_q, a_q, X_q), (by_v, a_v, X_v), (by_tau, a_tau, X_tau)):
        add_product(out, (n, c, n), back, X, start=_scaled(a, h))
    for i in n:
        by_v[i, i] = by_v[i, i] + 1.0


_SQUARE = ("n", "n")


@kernel(
    J=("b", "n"), drift=("b", "b"), Minv=_SQUARE, a_q=_SQUARE, dt=(), changed=_SQUARE, outputs=("changed",),
    sparse=("changed",),
)  # fmt: skip
def drifting_changes(
    k: Workspace, J: Indexed, drift: Indexed, Minv: Indexed, a_q: Indexed, dt: Indexed, changed: Indexed
) -> None:
    """∂a with respect to q, with that of wrenches on bodies at given impulses: a_q + M⁻¹Jᵀ Y J/dt."""
    moved, pushed, one = k.array("b", "n"), k.array("n", "n"), 1.0 / dt[...]
    add_product(moved, (k.b, k.b, k.n), drift, J, start=ZERO)
    add_product(pushed, (k.n, k.b, k.n), MatrixView(lambda i, j: one * J[j, i]), moved, start=ZERO)
    add_product(changed, (k.n, k.n, k.n), Minv, pushed, start=a_q)


@kernel(
    a_q=_SQUARE, a_v=_SQUARE, a_tau=_SQUARE, f_q=_SQUARE, f_v=_SQUARE, f_tau=_SQUARE, half=(), by_q=_SQUARE,
    by_v=_SQUARE, by_tau=_SQUARE, outputs=_MATRICES, sparse=_MATRICES,
)  # fmt: skip
def predicted_changes(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_tau: Indexed, f_q: Indexed, f_v: Indexed, f_tau: Indexed, half: Indexed,
    by_q: Indexed, by_v: Indexed, by_tau: Indexed,
) -> None:  # fmt: skip
    """∂a at velocities that accelerations f have predicted, half a step ahead: a_x + ½dt a_v f_x."""
    over, outs = (k.n, k.n, k.n), (by_q, by_v, by_tau)
    for out, start in zip(outs, (a_q, a_v, a_tau), strict=True):
        for i in k.n:
            for j in k.n:
                out[i, j] = start[i, j]
    add_products(outs, over, _scaled(a_v, half[...]), (f_q, f_v, f_tau))


def _scaled(matrix: Indexed, factor: Any) -> MatrixView:
    return MatrixView(lambda i, j: factor * matrix[i, j])


@kernel(
    A=("m", "m"), B=("m", "n"), L=("n", "n"), changed=("m", "m"), outputs=("changed",), sparse=("changed",),
    lists={"columns": {"m": 1, "n": 1}},
)  # fmt: skip
def with_lift(k: Workspace, A: Indexed, B: Indexed, L: Indexed, changed: Indexed) -> None:
    """A with B L added to its columns of q, for joint forces that change by L with q."""
    for i in k.m:
        for j in k.m:
            changed[i, j] = A[i, j]
        for (column,), (c,) in k.columns:
            changed[i, column] = changed[i, column] + k.sum(B[i, j] * L[j, c] for j in k.n)


@kernel(report=(3,), before=(), after=(), outputs=("after",))
def still_sure(_k: Workspace, report: Indexed, before: Indexed, after: Indexed) -> None:
    """1 while modes are certain and derivatives unique."""
    after[...] = before[...] * (report[...][1] * report[...][2])


@kernel(A=_SQUARE, X=("n", "k"), B=_SQUARE, Y=("n", "k"), total=("n", "k"), outputs=("total",), sparse=("total",))
def two_products(k: Workspace, A: Indexed, X: Indexed, B: Indexed, Y: Indexed, total: Indexed) -> None:
    """A X + B Y."""
    add_product(total, (k.n, k.n, k.k), A, X)
    add_product(total, (k.n, k.n, k.k), B, Y)
