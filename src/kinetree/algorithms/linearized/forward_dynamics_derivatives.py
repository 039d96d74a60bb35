"""Linearised forward dynamics: ∂a/∂q (the paper's −B_C), ∂a/∂v (−A_C) and M⁻¹, without ∂τ or M. Cost O(n²).

    pass       loop                computes                                                       source
    place      scatter             S, V; inertias P and P̂, bias force z; in the tree's frame         Step 1
    wrenches   frames              external forces on the bodies
    hinge      gather, columns     P, P̂, D, G, Ĝ; ν; rows of M⁻¹ for descendant columns             Eqs. 4.3, 4.12
    inboard    scatter, columns    α, f, Λ, Ĵ, Y, E, Q; M⁻¹; responses of joints outside the subtree Eq. 4.26, X
    outboard   gather, columns     responses of descendants                                         Eq. 4.26, W

A small change of the position or velocity of joint x changes the motion of all its descendants by one ζ and one ϑ. This
requires the force Y = P ζ + 2 P̂ ϑ at the joint's node, which is its only effect on the rest of the tree, and H̃* f at
the parent. So

    joints outside the subtree of x respond with  −Aᵀ Y⁺        A: acceleration of x's parent per unit of their force
    descendants of x respond with                 −Wᵀ E − Qᵀ ϑ  W: G propagated inward; E: acceleration of x, and 2 Ĵ ϑ

A free joint passes neither force nor inertia on: (1 − G Hᵀ) is zero, and Y⁺ and E with it (`hinge.FreeMotions`).

The paper's X(j), propagated from each link k to the tips, is A, from which M⁻¹ is computed, also on branched trees.
`Minv` first holds the result of the gather of [C18], then M⁻¹. The accelerations about which the dynamics are
linearised, and the forces f = P α + z, are computed in the same sweeps.

Corrections to the paper: Ĝ = P̂ᵀ H D⁻¹ for P̂ H D⁻¹; H̃* f for H̃ f; the sign of −Λ Y in E; and see the package for joints
with several degrees of freedom. P̂ has no linear columns, so Q has three components instead of six.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.hinge import ForceColumns, MotionColumns
from kinetree.spatial.inertia import ArticulatedInertia, Compliance, CoriolisInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array


@algorithm(
    q=("q",), v=("v",), tau=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), Minv=("v", "v"),
    outputs=("dq", "dv", "Minv"), sparse=("Minv",),
)  # fmt: skip
def forward_dynamics_derivatives(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, Minv: Indexed
) -> None:
    """∂a/∂q along the tangent, ∂a/∂v and M⁻¹ = ∂a/∂τ. [JR] Lemma 4.9 and Algorithm 6.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        tau: Joint forces, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: ∂a/∂q, (nv, nv).
        dv: ∂a/∂v, (nv, nv).
        Minv: Inverse of the mass matrix, (nv, nv).
    """
    F, W, Q = (tree.array("v") for _ in range(3))
    A = tree.array("node", "v")
    tree_frame.start(tree)
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.z = Force.zero()
    tree.world.P = ArticulatedInertia.zero()
    tree.world.P_hat = np.zeros((6, 3))
    tree.world.J_hat = np.zeros((6, 3))
    tree.world.compliance = Compliance.zero()
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        own = k.S @ v[k]
        k.V = parent.V + own
        k.a = k.V.cross(own)
        R = k.C.congruence(k.M)
        R_hat = CoriolisInertia.of(R, k.V)
        k.P, k.P_hat = R.articulated(), R_hat.angular_columns()
        k.z = R_hat @ k.V

    for frame, carrier in tree.frames():
        carrier.z -= carrier.C.T @ (frame.X.T @ Force(wrench[frame]))

    for k, parent in tree.gather():
        D, G, P_plus = k.S.hinge(k.P, k.armature)
        z = k.z + k.P @ k.a
        epsilon = tau[k] - k.S.T @ z
        k.nu = D.solve(epsilon)
        projected_hat = k.S.matrix().T @ k.P_hat
        k.G_hat = D.solve(projected_hat)  # Ĝᵀ, Eq. 4.12
        k.D, k.G = D, G
        Minv[k, k] = D.inverse()
        for c in k.columns():
            F[c] = c.of(G)
        for c in tree.descendants(k):
            projected = k.S.T @ F[c]
            Minv[k, c] = -D.solve(projected)
            F[c] = Force(G.without(F[c].data, projected))
        parent.P += P_plus
        parent.P_hat += G.without(k.P_hat, projected_hat)
        parent.z += z + G @ epsilon

    for k, parent in tree.scatter():
        S, G = k.S, k.G
        alpha, J_hat, compliance = parent.alpha, parent.J_hat, parent.compliance
        rates(k, parent.V, alpha)
        k.acceleration = k.nu - G.T @ alpha
        k.alpha = alpha + S @ k.acceleration + k.a
        f = k.P @ k.alpha + k.z
        # Λ, Ĵ and Q
        Z = compliance.matrix() @ G.matrix()
        L = k.D.inverse() + G.matrix().T @ Z
        U = S.matrix() @ L - Z
        k.compliance = compliance + Compliance.from_matrix(S.matrix() @ U.T - Z @ S.matrix().T)
        half_Q = k.G_hat - G.matrix().T @ J_hat  # Ĝᵀ − C
        k.J_hat = J_hat + S.matrix() @ half_Q
        for c in k.columns():
            Q[c] = half_Q[c.local] * 2.0
        # the force on the rest of the tree due to a change of this joint, and the responses to it
        Y_q = _force(k, k.psi_rate_rate, k.psi_rate) + S.map(lambda s, f=f: s.cross(f))  # H̃* f, at the parent
        Y_v = _force(k, k.both_rates, S)
        zeta_q, zeta_v = k.psi_rate_rate - Y_q.map(compliance.__matmul__), k.both_rates - Y_v.map(compliance.__matmul__)
        k.E_q, own_q = _responses(k, zeta_q, k.psi_rate, J_hat, half_Q)
        k.E_v, own_v = _responses(k, zeta_v, S, J_hat, half_Q)
        for c in tree.elsewhere(k):
            inward = A[parent, c]
            row = -(G.T @ inward)
            Minv[k, c] = row
            A[k, c] = inward + S @ row
            dq[c, k] = -(Y_q.T @ inward)
            dv[c, k] = -(Y_v.T @ inward)
        for c in tree.subtree(k):
            inward = A[parent, c]
            row = Minv[k, c] - G.T @ inward
            Minv[k, c] = row
            A[k, c] = inward + S @ row
        dq[k, k], dv[k, k] = own_q, own_v

    for k, _ in tree.gather():
        for c in k.columns():
            W[c] = c.of(k.G)
        for c in tree.descendants(k):
            w = W[c]
            dq[c, k] = -(k.E_q.T @ w + k.psi_rate.matrix()[:3].T @ Q[c])
            dv[c, k] = -(k.E_v.T @ w + k.S.matrix()[:3].T @ Q[c])
            W[c] = Force(k.G.without(w.data, k.S.T @ w))


def _force(k: Any, zeta: MotionColumns, theta: MotionColumns) -> ForceColumns:
    """Y⁺ = (1 − G Hᵀ)(P ζ + 2 P̂ ϑ), Eq. 4.14, column by column."""
    Y = k.P.matrix() @ zeta.matrix() + k.P_hat @ theta.matrix()[:3] * 2.0
    return ForceColumns(k.G.without(Y, k.S.matrix().T @ Y).T.reshape(-1), zeta.count)


def _responses(
    k: Any, zeta: MotionColumns, theta: MotionColumns, J_hat: Array, half_Q: Array
) -> tuple[MotionColumns, Array]:
    """E = (1 − H Gᵀ)(ζ + 2 Ĵ ϑ), and the response of the joint itself, −Gᵀ(ζ + 2 Ĵ ϑ) − Qᵀ ϑ, column by column.

    Args:
        k: The node.
        zeta: Changes of its acceleration if it were locked to its parent, −Λ Y⁺ included.
        theta: Changes of its velocity.
        J_hat: Ĵ of its parent.
        half_Q: Half of Qᵀ.
    """
    doubled = theta.matrix()[:3] * 2.0
    motion = zeta.matrix() + J_hat @ doubled
    taken = k.G.matrix().T @ motion
    return MotionColumns(k.S.without(motion, taken).T.reshape(-1), zeta.count), -(taken + half_Q @ doubled)


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
