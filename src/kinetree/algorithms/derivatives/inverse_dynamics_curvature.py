"""Second derivatives of wᵀτ of inverse dynamics with respect to q, v and a, for fixed w. Cost O(n·d).

    pass        loop               computes
    motion      scatter            V, α, virtual velocity ω of joint velocities w; forces, momenta; changes ϑ, ζ and o
    composite   gather, columns    composite R, R̂, Q; forces f, g, ĝ; six columns of forces, and the second derivatives

The power of inertial forces along ω is wᵀτ = Σ ωᵀ (M α + b). A change of the position of joint j changes V by ϑ, α by ζ
(`language.variation`) and ω by o = ω⁺ × h, the same for all that joint j carries; of its velocity, V by h and α by 2 ϑ.
So derivatives along the joint k that is nearer to the tips, which are sums over what k carries [JR],

    ∂q = oᵀf + ζᵀg + ϑᵀĝ,    ∂v = 2 ϑᵀg + hᵀĝ,    ∂a = hᵀg,        g = Σ M ω,  ĝ = Σ M̂ᵀω                             (1)

change with joint j in proportion to its o, ζ, ϑ and h, and with Jacobi's identity for the products × of motions,

    qⱼqₖ  oⱼᵀ(h ×* f + R ζ + R̂ ϑ) + ζⱼᵀr + ϑⱼᵀs             r = R o + h ×* g
    qⱼvₖ  oⱼᵀ(2 R ϑ + R̂ h) + ϑⱼᵀt                            s = R̂ᵀo + 2 ϑ ×* g − Q ϑ + h ×* ĝ
    qₖvⱼ  2 ϑⱼᵀr + hⱼᵀs                                      t = 2 h ×* g − Q h
    vⱼvₖ  hⱼᵀt          qⱼaₖ  oⱼᵀR h          qₖaⱼ  hⱼᵀr                                                             (2)

where all that has no index is that of k, and Q is R̂ of the virtual velocity. Published recursions [SRW] compute arrays
of n³ numbers; these are their products with w. Joints have one degree of freedom each.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[SRW] S. Singh, R. Russell, P. Wensing, "On second-order derivatives of rigid-body dynamics: theory & implementation",
      IEEE Transactions on Robotics 40, 2024.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms.derivatives.jvp import inverse_motion
from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.contract import components
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import coriolis_inertia, coriolis_momentum, variation
from kinetree.spatial.inertia import CoriolisInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array

_SQUARE = ("v", "v")


@in_common_frame
@algorithm(
    q=("q",), v=("v",), a=("v",), w=("v",), qq=_SQUARE, qv=_SQUARE, qa=_SQUARE, vv=_SQUARE,
    outputs=("qq", "qv", "qa", "vv"), sparse=("qq", "qv", "qa", "vv"), symmetric=("qq", "vv"),
)  # fmt: skip
def inverse_dynamics_curvature(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, w: Indexed, qq: Indexed, qv: Indexed, qa: Indexed, vv: Indexed
) -> None:
    """∂²(wᵀτ) by pairs of q, v and a: rows of `qv` and `qa` belong to q. Those by v and a, and by a twice, are zero."""
    world = tree.world
    world.V, world.alpha, world.omega = Motion.zero(), -tree.gravity, Motion.zero()
    world.f, world.g, world.g_hat = Force.zero(), Force.zero(), Force.zero()
    world.R_hat, world.Q = CoriolisInertia.zero(), CoriolisInertia.zero()
    inertias.start_composite(tree)

    for k, parent in tree.scatter():
        here = inverse_motion(k, parent, q[k], v[k], a[k])
        omega_plus = here.X @ parent.omega
        k.omega = omega_plus + k.H @ w[k]
        k.g, k.g_hat = k.M @ k.omega, coriolis_momentum(k, here.V, here.v, k.omega)
        k.R, k.R_hat = inertias.own(tree, k), coriolis_inertia(k, here.V, here.v)
        k.Q = CoriolisInertia.of(k.M, k.omega) * 2.0
        change = variation(k, here)
        k.h = k.H @ np.ones(1)
        k.theta, k.zeta, k.o = Motion(change.theta[:, 0]), Motion(change.zeta_q[:, 0]), omega_plus.cross(k.h)
        k.none = k.M @ (k.H @ np.zeros(1))  # the type of forces

    columns = [tree.inward("v", like="none") for _ in range(6)]
    for k, parent in tree.gather():
        h, theta, zeta, o = k.h, k.theta, k.zeta, k.o
        f, g, g_hat, R, R_hat, Q, W = k.f, k.g, k.g_hat, k.R, k.R_hat, k.Q, k.X
        along, turning = h.cross(g), theta.cross(g)
        r = R @ o + along
        s = R_hat.transposed(o) + turning * 2.0 - Q @ theta + h.cross(g_hat)
        t = along * 2.0 - Q @ h
        p, u, x = h.cross(f) + R @ zeta + R_hat @ theta, (R @ theta) * 2.0 + R_hat @ h, R @ h
        # (2), of the joint itself
        qq[k, k] = (_power(o, p) + _power(zeta, r) + _power(theta, s))[:, None]
        qv[k, k], qa[k, k] = (_power(o, u) + _power(theta, t))[:, None], _power(o, x)[:, None]
        vv[k, k] = _power(h, t)[:, None]
        for c in k.columns():
            for column, force in zip(columns, (p, r, s, t, u, x), strict=True):
                column[parent, c] = W.T @ force
        for c in tree.descendants(k):
            p, r, s, t, u, x = (column[k, c] for column in columns)
            qq[k, c] = _power(o, p) + _power(zeta, r) + _power(theta, s)
            qv[k, c], qv[c, k] = _power(o, u) + _power(theta, t), _power(theta, r) * 2.0 + _power(h, s)
            qa[k, c], qa[c, k], vv[k, c] = _power(o, x), _power(h, r), _power(h, t)
            for column, force in zip(columns, (p, r, s, t, u, x), strict=True):
                column[parent, c] = W.T @ force
        parent.f += W.T @ f
        parent.g += W.T @ g
        parent.g_hat += W.T @ g_hat
        parent.R += W.congruence(R)
        parent.R_hat += W.congruence(R_hat)
        parent.Q += W.congruence(Q)


def _power(motion: Motion, force: Force) -> Array:
    return np.array([components(motion) @ components(force)])
