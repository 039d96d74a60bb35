"""Gradients of wᵀτ: wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M. Cost O(n), twice inverse dynamics.

    pass       loop       computes                                                 source
    motion     scatter    V, α, force f; virtual velocity ω of joint velocities w    transpose of Lemma 3.1
    wrenches   frames     external forces on the bodies
    gradient   gather     forces f; momenta g = Σ M ω and ĝ = Σ M̂ᵀ ω; gradients

Transposed, the operators of Lemma 3.1 are again one scatter and one gather. Everything is in body coordinates.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from typing import Any

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.contract import components, describe, rebuild
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import (
    Carried,
    Here,
    coriolis_momentum,
    drag,
    gradients,
    gyroscopic,
    prepare_gradients,
)
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), da=("v",),
    outputs=("dq", "dv", "da"),
)  # fmt: skip
def inverse_dynamics_vjp(
    tree: Tree,
    q: Indexed,
    v: Indexed,
    a: Indexed,
    w: Indexed,
    wrench: Indexed,
    dq: Indexed,
    dv: Indexed,
    da: Indexed,
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
    start(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, alpha_p = parent.V, parent.alpha
        V_plus = k.X @ V_p
        k.V = V_plus + k.H @ v[k]
        k.alpha = k.X @ alpha_p + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ k.alpha + gyroscopic(k, k.V, v[k])
        vary(k, Here(k.X, k.V, k.alpha, v[k], a[k], V_p, alpha_p, V_plus), parent.omega, w[k])

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
    """Set ω, its momenta, and what the gradients need of a node.

    Args:
        k: The node; after `gyroscopic`.
        here: Its state.
        omega_p: ω of its parent.
        w: Its virtual joint velocities.
    """
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
