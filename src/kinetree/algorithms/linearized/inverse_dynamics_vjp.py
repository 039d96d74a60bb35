"""Gradients of wᵀτ: wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M. Cost O(n), twice inverse dynamics.

    pass       loop       computes                                                 source
    motion     scatter    V, α; virtual velocity W of joint velocities w             transpose of Lemma 3.1
    wrenches   frames     external forces on the bodies
    gradient   gather     forces f; momenta g = Σ M W and ĝ = Σ 2 M̂ᵀ W; gradients

Transposed, the operators of Lemma 3.1 are again one scatter and one gather. With (V × h)ᵀ f = −hᵀ (V ×* f), every
gradient is the component along H of a single force. Everything is in body coordinates.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import CoriolisInertia
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
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.W = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.g = Force.zero()
    tree.world.g_hat = Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.V_plus, k.alpha_plus, k.W_plus = k.X @ parent.V, k.X @ parent.alpha, k.X @ parent.W
        k.V = k.V_plus + k.H @ v[k]
        k.alpha = k.alpha_plus + k.H @ a[k] + k.coriolis(k.V, v[k])
        k.W = k.W_plus + k.H @ w[k]
        M_hat = CoriolisInertia.of(k.M, k.V)
        k.f = k.M @ k.alpha + M_hat @ k.V
        k.g = k.M @ k.W
        k.g_hat = M_hat.transposed(k.W) * 2.0

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        pull = gradient(k)
        dq[k], dv[k] = k.H.T @ pull.q, k.H.T @ pull.v
        da[k] = k.H.T @ k.g + k.armature * w[k]
        hand_down(k, parent)


class Gradient(NamedTuple):
    """Forces whose components along H are the gradients with respect to q and v."""

    q: Force
    v: Force


def gradient(k: Any) -> Gradient:
    """Rows of Lemma 3.1, transposed: Ψ̈ᵀ g + Ψ̇ᵀ ĝ + (H̃*f)ᵀ W⁺ and (Ṡ + Ψ̇)ᵀ g + Hᵀ ĝ, each before Hᵀ.

    Args:
        k: A node with V, V_plus, alpha_plus, W_plus and the gathered f, g and g_hat.
    """
    by_q = k.V_plus.cross(k.V_plus.cross(k.g) - k.g_hat) - k.alpha_plus.cross(k.g) - k.W_plus.cross(k.f)
    by_v = k.g_hat - (k.V + k.V_plus).cross(k.g)
    return Gradient(by_q, by_v)


def hand_down(k: Any, parent: Any) -> None:
    """Add f, g and ĝ to the parent's."""
    parent.f += k.X.T @ k.f
    parent.g += k.X.T @ k.g
    parent.g_hat += k.X.T @ k.g_hat
