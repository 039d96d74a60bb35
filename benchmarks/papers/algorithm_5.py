"""[JR] Algorithm 5, corrected: the change of the joint accelerations along a direction, with a given. Cost O(n).

    step   loop       leaves                                                            source
    1      scatter    V, α; H*, Ḣ*, Ḧ* and M, M̂ in the frame of the tree                  Eq. 3.4
    2      gather     f; articulated inertias P and P̂; D, G, Ĝ; Y_A, Y_B                  Eq. 4.16
    3      (same)     z, residual ε                                                     Eq. 4.17
           scatter    δa; changes of velocity ϑ and acceleration λ                        Eq. 4.18

No function of the library runs it: `forward_dynamics.jvp` has to find the accelerations first, and is cheaper by Lemma
4.6. It is here to be counted, for the published [259n − 129] M + [232n − 123] A are less than those of Algorithm 1, of
which it contains Step 1 and the sweep of f.

Corrected from the print: H̃* f for H̃ f in Y_B; Ĝ = P̂ᵀ H* D⁻¹ for P̂ H* D⁻¹ in (4.16), where P̂ is not symmetric; Ĝ* for
G* in the term 2 G* ϑ of (4.18). As everywhere in `kinetree.algorithms.linearized`, Ḣ* and Ḧ* are Ψ̇ and Ψ̈, and H̃* f acts
on the ancestors only: so it holds for trees and for joints of several degrees of freedom. P̂ is kept as its three
columns that are not zero.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.linearized.forward_dynamics_derivatives import rates
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, CoriolisInertia
from kinetree.spatial.motion import Force, Motion


@algorithm(q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), dtau=("v",), da=("v",), outputs=("da",))
def algorithm_5(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, da: Indexed
) -> None:
    """δa about given accelerations.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        dq: Direction of the configuration, a tangent, (nv,).
        dv: Direction of the velocities, (nv,).
        dtau: Direction of the joint forces, (nv,).
        da: Change of the joint accelerations, (nv,).
    """
    tree_frame.start(tree)
    tree.world.V = tree.world.theta = tree.world.response = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = tree.world.z = Force.zero()
    tree.world.P = ArticulatedInertia.zero()
    tree.world.P_hat = np.zeros((6, 3))

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        V, alpha, own = parent.V, parent.alpha, k.S @ v[k]
        k.V = V + own
        k.alpha = alpha + k.S @ a[k] + k.V.cross(own)
        rates(k, V, alpha)
        M = k.C.congruence(k.M)
        M_hat = CoriolisInertia.of(M, k.V)
        k.f = M @ k.alpha + M_hat @ k.V
        k.P, k.P_hat = M.articulated(), M_hat.angular_columns()
        k.z = Force.zero()

    for k, parent in tree.gather():
        P, P_hat, S = k.P.matrix(), k.P_hat, k.S.matrix()
        D, k.G, P_plus = k.S.hinge(k.P, k.armature)
        SP_hat = S.T @ P_hat
        k.G_hat = D.solve(SP_hat)  # Ĝ* = D⁻¹ H P̂
        Y_A = P @ k.both_rates.matrix() + P_hat @ S[:3] * 2.0
        Y_B = P @ k.psi_rate_rate.matrix() + P_hat @ k.psi_rate.matrix()[:3] * 2.0
        z = k.z + Force(Y_A @ dv[k] + Y_B @ dq[k])
        epsilon = dtau[k] - k.S.T @ z
        k.nu = D.solve(epsilon)
        turned = (k.S @ dq[k]).cross(k.f)  # H̃* f δθ, the last term of Y_B, for the ancestors only
        parent.z += z + turned + k.G @ epsilon  # z⁺
        parent.f += k.f
        parent.P += P_plus
        parent.P_hat += P_hat - k.G.matrix() @ SP_hat

    for k, parent in tree.scatter():
        theta, response = parent.theta, parent.response
        change = k.nu - k.G_hat @ theta.angular * 2.0 - k.G.T @ response
        k.response = response + k.S @ change + k.both_rates @ dv[k] + k.psi_rate_rate @ dq[k]  # λ
        k.theta = theta + k.S @ dv[k] + k.psi_rate @ dq[k]
        da[k] = change
