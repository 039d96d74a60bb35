"""Gradients of wᵀa for the joint accelerations a: wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹. Cost O(n).

    pass           loop       computes                                                 source
    motion         scatter    V, Coriolis acceleration, gyroscopic force                 [J11] Alg. 6.1
    hinge          gather     P, D, G; residual accelerations of τ and of w              [J11] Eqs. 33, 58
    acceleration   scatter    α; u = M⁻¹ w and its virtual velocity ω                    [J11] Eq. 58
    gradient       gather     forces f; momenta g = Σ M ω and ĝ = Σ M̂ᵀ ω; gradients      Lemmas 3.1 and 4.1, transposed

By Lemma 4.1, wᵀ ∂a = −(M⁻¹ w)ᵀ ∂τ. M⁻¹ w and its ω are computed in the same sweeps as a.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.linearized.forward_dynamics_jvp import motion, push
from kinetree.algorithms.linearized.inverse_dynamics_vjp import gradient, hand_down, start, vary
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Here
from kinetree.spatial.motion import Force


@algorithm(
    q=("q",), v=("v",), tau=("v",), w=("v",), wrench=("frames", 6), dq=("v",), dv=("v",), dtau=("v",),
    outputs=("dq", "dv", "dtau"),
)  # fmt: skip
def forward_dynamics_vjp(
    tree: Tree,
    q: Indexed,
    v: Indexed,
    tau: Indexed,
    w: Indexed,
    wrench: Indexed,
    dq: Indexed,
    dv: Indexed,
    dtau: Indexed,
) -> None:
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
    start(tree)
    tree.world.z = Force.zero()
    tree.world.z_w = Force.zero()
    articulated_inertia.start(tree)

    for k, parent in tree.scatter():
        motion(k, parent, q[k], v[k])
        k.z_w = k.M @ (k.H @ np.zeros(len(k.armature)))

    for frame, carrier in tree.frames():
        push(carrier, frame.X.T @ Force(wrench[frame]))

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
        vary(k, Here(k.X, k.V, k.alpha, v[k], acceleration, V_p, alpha_p, k.V_plus), omega_p, u)
        dtau[k] = u

    for k, parent in tree.gather():
        by_q, by_v = gradient(k)
        dq[k], dv[k] = -by_q, -by_v  # Lemma 4.1
        hand_down(k, parent)
