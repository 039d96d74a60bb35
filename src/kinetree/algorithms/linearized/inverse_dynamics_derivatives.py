"""Linearised inverse dynamics: ∂τ/∂q (the paper's B_D), ∂τ/∂v (A_D) and M. Cost O(n·d).

    pass        loop               computes                                                    source
    place       scatter            S, Ṡ, Ψ̇, Ψ̈; V, α; inertias R and R̂, force f; tree's frame     Step 1
    wrenches    frames             external forces on the bodies
    composite   gather, columns    composite R, R̂, force f; rows and columns of the matrices     Eq. 3.8

All nodes are in the frame of their tree, the paper's inertial frame I. The paper's inner loop walks from link k to the
base; here, as in `mass_matrix.py`, node k uses the columns X, X̂, X_A, X_B of all its descendants c.

Corrections to the paper: H̃* f for H̃ f; R sums over the descendant links, not M(k) again; and see the package for joints
with several degrees of freedom. M̂ᵀ has no linear rows, so products with X̂ cost 3 multiplications instead of 6: 36 per
pair of joints instead of the paper's 42.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), M=("v", "v"),
    outputs=("dq", "dv", "M"), sparse=("dq", "dv"), symmetric=("M",),
)  # fmt: skip
def inverse_dynamics_derivatives(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, M: Indexed
) -> None:
    """∂τ/∂q along the tangent, ∂τ/∂v and M = ∂τ/∂a. [JR] Lemma 3.2 and Algorithm 2.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: ∂τ/∂q, (nv, nv).
        dv: ∂τ/∂v, (nv, nv).
        M: Mass matrix, (nv, nv).
    """
    X, X_hat, X_A, X_B = (tree.array("v") for _ in range(4))
    tree_frame.start(tree)
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = Force.zero()
    tree.world.R = RigidInertia.zero()
    tree.world.R_hat = CoriolisInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        V, alpha, own = parent.V, parent.alpha, k.S @ v[k]
        k.V = V + own
        k.alpha = alpha + k.S @ a[k] + k.V.cross(own)
        rates(k, V, alpha)
        k.R = k.C.congruence(k.M)
        k.R_hat = CoriolisInertia.of(k.R, k.V)
        k.f = k.R @ k.alpha + k.R_hat @ k.V  # Eq. 2.9

    for frame, carrier in tree.frames():
        carrier.f -= carrier.C.T @ (frame.X.T @ Force(wrench[frame]))

    for k, parent in tree.gather():
        R, R_hat, f = k.R, k.R_hat, k.f
        x = k.S.map(lambda s, R=R: R @ s)
        x_hat = k.S.map(lambda s, R_hat=R_hat: R_hat.transposed(s) * 2.0)
        x_A = k.both_rates.map(lambda s, R=R: R @ s) + k.S.map(lambda s, R_hat=R_hat: (R_hat @ s) * 2.0)
        x_B = k.psi_rate.map(lambda s, R_hat=R_hat: (R_hat @ s) * 2.0) + k.psi_rate_rate.map(lambda s, R=R: R @ s)
        turned = x_B + k.S.map(lambda s, f=f: s.cross(f))  # H̃* f, for the ancestors only
        for c in k.columns():
            X[c], X_hat[c], X_A[c], X_B[c] = c.of(x), c.of(x_hat), c.of(x_A), c.of(turned)
        own = k.S.matrix().T
        M[k, k] = own @ x.matrix() + np.diag(k.armature)
        dv[k, k] = own @ x_A.matrix()
        dq[k, k] = own @ x_B.matrix()
        for c in tree.descendants(k):
            M[k, c] = k.S.T @ X[c]
            dv[k, c] = k.S.T @ X_A[c]
            dq[k, c] = k.S.T @ X_B[c]
            dv[c, k] = k.both_rates.T @ X[c] + k.S.T @ X_hat[c]
            dq[c, k] = k.psi_rate_rate.T @ X[c] + k.psi_rate.T @ X_hat[c]
        parent.R += R
        parent.R_hat += R_hat
        parent.f += f


def rates(k: Any, V: Motion, alpha: Motion) -> None:
    """Set Ψ̇, Ψ̈ and Ṡ + Ψ̇ at a node that has S and V.

    Args:
        k: The node.
        V: Its parent's velocity.
        alpha: Its parent's acceleration.
    """
    k.psi_rate = k.S.map(V.cross)
    k.psi_rate_rate = k.S.map(alpha.cross) + k.psi_rate.map(V.cross)
    k.both_rates = k.S.map((k.V + V).cross)
