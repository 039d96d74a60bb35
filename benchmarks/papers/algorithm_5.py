"""[JR] Algorithm 5, corrected: the change of the joint accelerations along a direction, with a given. Cost O(n).

    step   loop       leaves                                                            source
    1      scatter    V, α; H*, Ḣ*, Ḧ* and M, M̂ in the common frame                  Eq. 3.4
    2      gather     f; articulated inertias P and P̂; D, G, Ĝ; Y_A, Y_B                  Eq. 4.16
    3      (same)     z, residual ε                                                     Eq. 4.17
           scatter    δa; changes of velocity ϑ and acceleration λ                        Eq. 4.18

No function of the library runs it: `forward_dynamics.jvp` has to find the accelerations first, and is cheaper by Lemma
4.6. It is here to be counted, for the published [259n − 129] M + [232n − 123] A are less than those of Algorithm 1, of
which it contains Step 1 and the sweep of f.

Corrected from the print: H̃* f for H̃ f in Y_B; Ĝ = P̂ᵀ H* D⁻¹ for P̂ H* D⁻¹ in (4.16), where P̂ is not symmetric; Ĝ*
for G* in the term 2 G* ϑ of (4.18). As everywhere in `kinetree.algorithms.derivatives`, Ḣ* and Ḧ* are Ψ̇ and Ψ̈, and
H̃* f
acts on the ancestors only: so it holds for trees and for joints of several degrees of freedom. P̂ is kept as its three
columns that are not zero.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, CoriolisInertia
from kinetree.spatial.motion import Force, Motion


@algorithm(q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), dtau=("v",), da=("v",), outputs=("da",))
def _algorithm_5(
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
    tree.world.V = tree.world.theta = tree.world.response = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = tree.world.z = Force.zero()
    tree.world.P = ArticulatedInertia.zero()
    tree.world.P_hat = np.zeros((6, 3))

    for k, parent in tree.scatter():
        k.weight(q[k])  # the identity
        V, alpha, own = parent.V, parent.alpha, k.H @ v[k]
        k.V = V + own
        k.alpha = alpha + k.H @ a[k] + k.V.cross(own)
        _rates(k, V, alpha)
        M_hat = CoriolisInertia.of(k.M, k.V)
        k.f = k.M @ k.alpha + M_hat @ k.V
        k.P, k.P_hat = k.M.articulated(), M_hat.angular_columns()
        k.z = Force.zero()

    for k, parent in tree.gather():
        P, P_hat, S = k.P.matrix(), k.P_hat, k.H.matrix()
        D, k.G, P_plus = k.H.hinge(k.P, k.armature)
        SP_hat = S.T @ P_hat
        k.G_hat = D.solve(SP_hat)  # Ĝ* = D⁻¹ H P̂
        Y_A = P @ k.both_rates.matrix() + P_hat @ S[:3] * 2.0
        Y_B = P @ k.psi_rate_rate.matrix() + P_hat @ k.psi_rate.matrix()[:3] * 2.0
        z = k.z + Force(Y_A @ dv[k] + Y_B @ dq[k])
        epsilon = dtau[k] - k.H.T @ z
        k.nu = D.solve(epsilon)
        turned = (k.H @ dq[k]).cross(k.f)  # H̃* f δθ, the last term of Y_B, for the ancestors only
        parent.z += z + turned + k.G @ epsilon  # z⁺
        parent.f += k.f
        parent.P += P_plus
        parent.P_hat += P_hat - k.G.matrix() @ SP_hat

    for k, parent in tree.scatter():
        theta, response = parent.theta, parent.response
        change = k.nu - k.G_hat @ theta.angular * 2.0 - k.G.T @ response
        k.response = response + k.H @ change + k.both_rates @ dv[k] + k.psi_rate_rate @ dq[k]  # λ
        k.theta = theta + k.H @ dv[k] + k.psi_rate @ dq[k]
        da[k] = change


def _rates(k: Any, V: Motion, alpha: Motion) -> None:
    """Set Ψ̇, Ψ̈ and Ṡ + Ψ̇ at a node, given its parent's velocity and acceleration."""
    k.psi_rate = k.H.map(V.cross)
    k.psi_rate_rate = k.H.map(alpha.cross) + k.psi_rate.map(V.cross)
    k.both_rates = k.H.map((k.V + V).cross)


#: δa about given accelerations. The text takes the weights of the common frame, the identity, for granted.
algorithm_5 = in_common_frame(_algorithm_5)
