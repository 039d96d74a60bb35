"""Gradients of wᵀτ and of wᵀa for nodes of any kind: the recursions beside this file, transposed. Cost O(n).

    pass       loop       computes                                               source
    motion     scatter    V, α, force f; virtual velocity ω of joint velocities w    [J11] Alg. 3.1
    gradient   gather     forces f; momenta g = Σ Mω and ĝ = Σ M̂ᵀω; gradients        [JR] Lemma 3.1, transposed

With ϑ and ζ per degree of freedom (`recursion.variation`), the gradients are products of g with ζ, of ĝ with ϑ, and
of f with the change of ω. For forward dynamics, wᵀ ∂a = −(M⁻¹ w)ᵀ ∂τ ([JR] Lemma 4.1), and M⁻¹ w comes from the sweeps
that compute a. Sources: see the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.contract import components, describe, rebuild
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Here, columns, drag, gyroscopic, turned_velocities, variation
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), da=("v",),
    outputs=("dq", "dv", "da"), any_node=True,
)  # fmt: skip
def inverse_dynamics_vjp_by_weights(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, w: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, da: Indexed
) -> None:
    """Gradients of wᵀτ with respect to q (along the tangent), v and a.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        w: Weights of the joint forces, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: wᵀ ∂τ/∂q, (nv,).
        dv: wᵀ ∂τ/∂v, (nv,).
        da: wᵀ M, (nv,).
    """
    _start(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, alpha_p = parent.V, parent.alpha
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ alpha_p + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ k.alpha + k.gyroscopic(k.V, v[k])
        _vary(k, Here(k.X, k.V, k.alpha, v[k], a[k], V_p, alpha_p), parent.omega, w[k])

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        dq[k], dv[k] = _pull(k)
        da[k] = k.H.T @ k.g + k.armature * w[k]
        _hand_down(k, parent)


@algorithm(
    q=("q",), v=("v",), tau=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), dtau=("v",),
    outputs=("dq", "dv", "dtau"), any_node=True,
)  # fmt: skip
def forward_dynamics_vjp_by_weights(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, w: Indexed, wrench: Indexed,
    dq: Indexed, dv: Indexed, dtau: Indexed,
) -> None:  # fmt: skip
    """Gradients of wᵀa with respect to q (along the tangent), v and τ.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        tau: Joint forces, (nv,).
        w: Weights of the joint accelerations, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: wᵀ ∂a/∂q, (nv,).
        dv: wᵀ ∂a/∂v, (nv,).
        dtau: wᵀ M⁻¹, (nv,).
    """
    _start(tree)
    tree.world.z = Force.zero()
    tree.world.z_w = Force.zero()
    articulated_inertia.start(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.a = k.coriolis(k.V, v[k], V_p)
        k.z = k.f = k.gyroscopic(k.V, v[k])
        k.z_w = k.M @ (k.H @ np.zeros(len(k.armature)))
        k.P = k.M.articulated()

    for frame, carrier in tree.frames():
        force = frame.X.T @ Force(wrench[frame])
        carrier.z -= force
        carrier.f -= force

    for k, parent in tree.gather():
        z, z_w = k.z + k.P @ k.a, k.z_w
        articulated_inertia.hinge(k, parent)
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
        _vary(k, Here(k.X, k.V, k.alpha, v[k], acceleration, V_p, alpha_p), omega_p, u)
        dtau[k] = u

    for k, parent in tree.gather():
        by_q, by_v = _pull(k)
        dq[k], dv[k] = -by_q, -by_v
        _hand_down(k, parent)


def _start(tree: Tree) -> None:
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.omega = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.g = Force.zero()
    tree.world.g_hat = Force.zero()


def _vary(k: Any, here: Here, omega_p: Any, w: Any) -> None:
    """Set ω, its momenta, and what the gradients need of the node; `w` are its virtual joint velocities."""
    change, turning = variation(k, here), gyroscopic(k, here.V, here.v)
    k.omega = here.X @ omega_p + k.H @ w
    k.g = k.M @ k.omega
    omega = components(k.omega)
    k.g_hat = turning.M_hat.transposed(k.omega)
    k.theta, k.zeta_q, k.zeta_v = change.theta, change.zeta_q, change.zeta_v
    k.drag = drag(k, here.X, here.V, here.v, here.V_p)
    k.omega_q = columns(turned_velocities(k, here.X, omega_p, w), k.dimension)
    k.own_q = change.force_q.T @ omega + change.spring_q.T @ w
    k.own_v = change.force_v.T @ omega + change.spring_v.T @ w


def _pull(k: Any) -> tuple[Any, Any]:
    """Gradients with respect to the node's q and v."""
    f, g, g_hat = components(k.f), components(k.g), components(k.g_hat)
    by_q = k.theta.T @ g_hat + k.zeta_q.T @ g + k.omega_q.T @ f + k.own_q
    return by_q, k.H.T @ k.g_hat + k.zeta_v.T @ g + k.own_v


def _hand_down(k: Any, parent: Any) -> None:
    """Add f, g and ĝ to the parent's."""
    g, back = k.g, k.X.T @ k.g_hat
    parent.f += k.X.T @ k.f
    parent.g += k.X.T @ g
    parent.g_hat += back + rebuild(describe(back), k.drag.T @ components(g))
