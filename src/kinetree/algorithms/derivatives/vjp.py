"""Gradients (vjp) and Hessian-vector products (hvp) of inverse and forward dynamics. Cost O(n) each.

Gradients of wᵀτ, which are wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M, at twice the cost of inverse dynamics:

    pass       loop       computes                                                 source
    motion     scatter    V, α, force f; virtual velocity ω of joint velocities w    transpose of Lemma 3.1
    wrenches   frames     external forces on the bodies
    gradient   gather     forces f; momenta g = Σ M ω and ĝ = Σ M̂ᵀ ω; gradients

Transposed, the operators of Lemma 3.1 are again one scatter and one gather. Everything is in body coordinates.

Gradients of wᵀa, which are wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹:

    pass           loop       computes                                                 source
    motion         scatter    V, Coriolis acceleration, gyroscopic force                 [J11] Alg. 6.1
    hinge          gather     P, D, G; residual accelerations of τ and of w              [J11] Eqs. 33, 58
    acceleration   scatter    α; u = M⁻¹ w and its virtual velocity ω                    [J11] Eq. 58
    gradient       gather     as above                                                   Lemmas 3.1 and 4.1, transposed

By Lemma 4.1, wᵀ ∂a = −(M⁻¹ w)ᵀ ∂τ. M⁻¹ w and its ω are computed in the same sweeps as a.

Hessian-vector products are directional derivatives of these gradients for fixed w, at about three times their cost: the
same recursions on dual numbers (`kinetree.language.forward_mode`), so they are exact and compiled. Published
second-order recursions compute arrays of n³ numbers; these are their products with w and a direction, without the
arrays. On joints with several degrees of freedom the Hessian is not symmetric: the tangent basis of the gradient
rotates with q, and eᵀ h(d) − dᵀ h(e) is the gradient along the bracket of d and e.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.derivatives.jvp import inverse_motion, motion, push
from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.contract import components, describe, rebuild
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import Carried, Here, coriolis_momentum, drag, gradients, prepare_gradients
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), da=("v",),
    outputs=("dq", "dv", "da"),
)  # fmt: skip
def inverse_dynamics_vjp(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, w: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, da: Indexed
) -> None:
    """Gradients of wᵀτ with respect to q (along the tangent), v and a."""
    start(tree)

    for k, parent in tree.scatter():
        vary(k, inverse_motion(k, parent, q[k], v[k], a[k]), parent.omega, w[k])

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        dq[k], dv[k] = gradient(k)
        da[k] = k.H.T @ k.g + k.armature * w[k]
        hand_down(k, parent)


def start(tree: Tree) -> None:
    """Initialise what the other functions here read and add to on the world."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.omega = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.g = Force.zero()
    tree.world.g_hat = Force.zero()


def vary(k: Any, here: Here, omega_p: Any, w: Any) -> None:
    """Set ω, its momenta, and what the gradients need of a node; after `gyroscopic`."""
    k.V_plus, k.alpha_plus, k.omega_plus = here.V_plus, here.X @ here.alpha_p, here.X @ omega_p
    k.omega = k.omega_plus + k.H @ w
    k.g = k.M @ k.omega
    k.g_hat = coriolis_momentum(k, here.V, here.v, k.omega)
    k.drag = drag(k, here.X, here.V, here.v, here.V_p)
    prepare_gradients(k, here, k.omega, omega_p, w)


def gradient(k: Any) -> tuple[Any, Any]:
    """Gradients with respect to the q and v of a node with the fields of `vary` and the gathered f, g and g_hat."""
    return gradients(k, Carried(k.V, k.V_plus, k.alpha_plus, k.omega_plus), k.f, k.g, k.g_hat)


def hand_down(k: Any, parent: Any) -> None:
    """Add f, g and ĝ to the parent's."""
    g, back = k.g, k.X.T @ k.g_hat
    parent.f += k.X.T @ k.f
    parent.g += k.X.T @ g
    parent.g_hat += back + rebuild(describe(back), k.drag.T @ components(g))


@algorithm(
    q=("q",), v=("v",), tau=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), dtau=("v",),
    outputs=("dq", "dv", "dtau"),
)  # fmt: skip
def forward_dynamics_vjp(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, w: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed,
    dtau: Indexed,
) -> None:  # fmt: skip
    """Gradients of wᵀa with respect to q (along the tangent), v and τ."""
    start(tree)
    tree.world.z = Force.zero()
    tree.world.z_w = Force.zero()
    inertias.start_articulated(tree)

    for k, parent in tree.scatter():
        motion(k, parent, q[k], v[k])
        k.z_w = k.M @ (k.H @ np.zeros(len(k.armature)))

    for frame, carrier in tree.frames():
        push(carrier, frame.X.T @ Force(wrench[frame]))

    for k, parent in tree.gather():
        z, z_w = k.z + k.P @ k.a, k.z_w
        inertias.hinge(k, parent)
        epsilon, epsilon_w = tau[k] - k.resistance(q[k], v[k]) - k.H.T @ z, w[k] - k.H.T @ z_w
        k.nu, k.nu_w = k.D.solve(epsilon), k.D.solve(epsilon_w)
        parent.z += k.X.T @ (z + k.G @ epsilon)
        parent.z_w += k.X.T @ (z_w + k.G @ epsilon_w)

    for k, parent in tree.scatter():
        V_p, alpha_p, omega_p = parent.V, parent.alpha, parent.omega
        alpha_plus = k.X @ alpha_p
        acceleration, u = k.nu - k.G.T @ alpha_plus, k.nu_w - k.G.T @ (k.X @ omega_p)
        k.alpha = alpha_plus + k.H @ acceleration + k.a
        k.f = k.f + k.M @ k.alpha
        vary(k, Here(k.X, k.V, k.alpha, v[k], acceleration, V_p, alpha_p, k.V_plus), omega_p, u)
        dtau[k] = u

    for k, parent in tree.gather():
        by_q, by_v = gradient(k)
        dq[k], dv[k] = -by_q, -by_v  # Lemma 4.1
        hand_down(k, parent)


#: Directional derivatives of wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M along (dq, dv, da).
inverse_dynamics_hvp = directional_derivative(
    inverse_dynamics_vjp, "inverse_dynamics_hvp", "dq", {"dv": "v", "da": "a"}, outputs=("hq", "hv", "ha")
)

#: The same along (dq, dv, da, dw) and changes of the wrenches.
inverse_dynamics_vjp_change = directional_derivative(
    inverse_dynamics_vjp, "inverse_dynamics_vjp_change", "dq", {"dv": "v", "da": "a", "dw": "w", "dwrench": "wrench"},
    outputs=("hq", "hv", "ha"),
)  # fmt: skip

#: Directional derivatives of wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹ along (dq, dv, dτ).
forward_dynamics_hvp = directional_derivative(
    forward_dynamics_vjp, "forward_dynamics_hvp", "dq", {"dv": "v", "dtau": "tau"}, outputs=("hq", "hv", "htau")
)
