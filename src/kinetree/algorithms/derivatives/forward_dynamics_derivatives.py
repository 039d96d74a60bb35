"""Linearised forward dynamics: ∂a/∂q (the paper's −B_C), ∂a/∂v (−A_C) and M⁻¹, without ∂τ or M. Cost O(n²).

    pass       loop                computes                                                       source
    motion     scatter             V; inertias P and P̂, bias force z                                Step 1
    wrenches   frames              external forces on the bodies
    hinge      gather, columns     P, P̂, D, G, Ĝ; ν; rows of M⁻¹ for descendant columns             Eqs. 4.3, 4.12
    inboard    scatter, columns    α, f, Λ; M⁻¹; responses of joints outside the subtree            Eq. 4.26, X
    outboard   gather, columns     responses of descendants                                        Eq. 4.26, W

A small change of the position or velocity of joint x of node k changes the motion of all its descendants by one ζ and
one ϑ (`language.variation`). This requires the force Y = P ζ + P̂ ϑ at the node, of which the joint itself takes
y = Hᵀ Y. What is left, Z = (1 − G Hᵀ) Y and the change of Wᵀ f, is its only effect on the rest of the tree:

    joints outside the subtree of k    −Aᵀ Z            A: acceleration of k's parent per unit of their force
    the joint itself                   −Gᵀ ζ⁺ − D⁻¹ y    ζ⁺ = −Λ Z, the acceleration of k's parent where k is
    descendants                        −gᵀ E − hᵀ ϑ      E = ζ + ζ⁺ + H δa: acceleration of k

where g and h, forces on k per unit force of a descendant's joint, travel inward from g = G and h = Ĝ of that joint:
s = Hᵀ g, then g(p) = Wᵀ (g − G s) and h(p) = Wᵀ (h − Ĝ s) + Tᵀ (g − G s) with the drag T of nodes that are no rigid
bodies. They replace the paper's Ĵ, Q and E, so that everything travels by weights. A free joint passes neither force
nor inertia on: (1 − G Hᵀ) is zero, and Z with it.

The paper's X(j), propagated from each link k to the tips, is A, from which M⁻¹ is computed, also on branched trees.
`Minv` first holds the result of the gather of [C18], then M⁻¹. The accelerations about which the dynamics are
linearised, and the forces f = P α + z, are computed in the same sweeps. Λ is the compliance of a node: its acceleration
per unit of force on it.

Corrections to the paper: Ĝ = P̂ᵀ H D⁻¹ for P̂ H D⁻¹; H̃* f for H̃ f; the sign of −Λ Y in E; and see the package for
joints with several degrees of freedom. P̂ and M̂ include the factor 2 that the paper has beside them. P̂ of rigid
bodies has no linear columns, so h has three components instead of six.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.dynamics.mass_matrix import inverse_rows_inward
from kinetree.language.algorithm import algorithm
from kinetree.language.contract import components, describe, rebuild
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import Here, Swing, columns, coriolis_inertia, drag, gyroscopic, swung, variation
from kinetree.spatial.dense import DenseCoriolis, DenseInertia
from kinetree.spatial.inertia import ArticulatedCoriolis
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array


@algorithm(
    q=("q",), v=("v",), tau=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), Minv=("v", "v"),
    outputs=("dq", "dv", "Minv"), sparse=("Minv",),
)  # fmt: skip
def forward_dynamics_derivatives(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, Minv: Indexed
) -> None:
    """∂a/∂q along the tangent, ∂a/∂v and M⁻¹ = ∂a/∂τ. [JR] Lemma 4.9 and Algorithm 6."""
    F, g, h = (tree.inward("v", like=like) for like in ("none", "none", "no_turn"))
    A = tree.array("node", "v")
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.z = Force.zero()
    tree.world.P_hat = ArticulatedCoriolis.zero() if tree.rigid_bodies else DenseCoriolis.of(np.zeros((6, 6)))
    tree.world.compliance = DenseInertia.of(np.zeros((6, 6)))
    inertias.start_articulated(tree)
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V_plus = k.X @ V_p
        k.V = k.V_plus + k.H @ v[k]
        k.a = k.coriolis(k.V, v[k], V_p)
        k.z = gyroscopic(k, k.V, v[k])
        M_hat: Any = coriolis_inertia(k, k.V, v[k])
        k.P, k.P_hat = k.M.articulated(), M_hat.articulated() if tree.rigid_bodies else DenseCoriolis.of(M_hat.matrix())
        k.drag = drag(k, k.X, k.V, v[k], V_p)
        k.none, k.no_turn = k.M @ (k.H @ np.zeros(len(k.armature))), np.zeros(k.dimension)  # types of g and h

    for frame, carrier in tree.frames():
        carrier.z -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        z, P, P_hat = k.z + k.P @ k.a, k.P, k.P_hat.matrix()
        inertias.hinge(k, parent)
        epsilon = tau[k] - k.resistance(q[k], v[k]) - k.H.T @ z
        k.nu = k.D.solve(epsilon)
        k.G_hat = _solved(k, _projected(k, P_hat))  # Ĝᵀ, Eq. 4.12
        inverse_rows_inward(tree, k, parent, F, Minv)
        parent.z += k.X.T @ (z + k.G @ epsilon)
        parent.P_hat += _carried(tree, k, parent, P, P_hat)

    for k, parent in tree.scatter():
        X, G = k.X, k.G
        V_p, alpha_p, compliance_p = parent.V, parent.alpha, parent.compliance.matrix()
        alpha_plus = X @ alpha_p
        k.acceleration = k.nu - G.T @ alpha_plus
        k.alpha = alpha_plus + k.H @ k.acceleration + k.a
        f = k.P @ k.alpha + k.z
        change = variation(k, Here(X, k.V, k.alpha, v[k], k.acceleration, V_p, alpha_p, k.V_plus))
        k.theta, k.own = change.theta, columns([k.H @ unit for unit in np.eye(len(k.armature))], k.dimension)
        half = _moved(k, describe(V_p), compliance_p)  # W Λ
        pliant = _moved(k, describe(V_p), half.T)  # W Λ Wᵀ
        k.compliance = _beyond(k, pliant)

        swing = swung(k, X, change.weights, change.maps, f)
        of_q = _Derivative(change.zeta_q, change.theta, change.force_q, change.spring_q)
        of_v = _Derivative(change.zeta_v, k.own, change.force_v, change.spring_v)
        by_q = _response(k, of_q, swing, pliant, half)
        by_v = _response(k, of_v, Swing(*(np.zeros(part.shape) for part in swing)), pliant, half)
        k.E_q, k.E_v, Z_q, Z_v = by_q.E, by_v.E, by_q.Z, by_v.Z
        for c in tree.elsewhere(k):
            inward = A[parent, c]
            onward = X @ inward
            row = -(G.T @ onward)
            Minv[k, c] = row
            A[k, c] = onward + k.H @ row
            dq[c, k] = -(Z_q.T @ components(onward) + swing.on_parent.T @ components(inward))
            dv[c, k] = -(Z_v.T @ components(onward))
        for c in tree.subtree(k):
            onward = X @ A[parent, c]
            row = Minv[k, c] - G.T @ onward
            Minv[k, c] = row
            A[k, c] = onward + k.H @ row
        dq[k, k], dv[k, k] = by_q.own, by_v.own

    for k, parent in tree.gather():
        theta, own = _turns(tree, k.theta), _turns(tree, k.own)
        for i, (c, unit) in enumerate(zip(k.columns(), np.eye(len(k.armature)), strict=True)):
            g[parent, c] = k.X.T @ (k.G @ unit)
            h[parent, c] = _back(tree, k, k.G_hat[i], k.G @ unit)
        for c in tree.descendants(k):
            force, turn = g[k, c], h[k, c]
            dq[c, k] = -(k.E_q.T @ components(force) + theta.T @ turn)
            dv[c, k] = -(k.E_v.T @ components(force) + own.T @ turn)
            s = k.H.T @ force
            left = k.G.past(force, s)
            g[parent, c] = k.X.T @ left
            h[parent, c] = _back(tree, k, turn - k.G_hat.T @ s, left)


class _Derivative(NamedTuple):
    """Changes per unit change of each coordinate or velocity of a node; see `Variation`."""

    zeta: Array
    theta: Array
    force: Array
    spring: Array


class _Response(NamedTuple):
    """What follows from them."""

    Z: Array  # force on the rest of the tree, at the node, (m, n)
    own: Array  # response of the joint itself, (n, n)
    E: Array  # change of the node's acceleration, (m, n)


def _response(k: Any, change: _Derivative, swing: Swing, pliant: Array, half: Array) -> _Response:
    """Y = P ζ + P̂ ϑ and the responses to it, column by column, given the changes of Wᵀ f and Hᵀ f. Eq. 4.14.

    `pliant` is Λ of the parent, where the node is, and `half` the motion of the node with its parent per unit of force
    on the parent.
    """
    motion, force = describe(k.V), describe(k.none)
    P_hat = k.P_hat.matrix()
    Y = columns([k.P @ rebuild(motion, column) for column in change.zeta.T], k.dimension)
    Y = Y + P_hat @ change.theta[: P_hat.shape[1]] + change.force
    y = _projected(k, Y) + swing.of_joint + change.spring
    left = [k.G.past(rebuild(force, column), taken) for column, taken in zip(Y.T, y.T, strict=True)]
    Z = columns(left, k.dimension) + swing.at_node
    pushed = -(pliant @ Z + half @ swing.on_parent)
    own = -(columns([k.G.T @ rebuild(motion, column) for column in pushed.T], len(k.armature)) + _solved(k, y))
    return _Response(Z, own, pushed + change.zeta + columns([k.H @ column for column in own.T], k.dimension))


def _beyond(k: Any, pliant: Array) -> DenseInertia:
    """Λ of a node, given that of its parent where the node is, (m, m)."""
    H, G = k.own, columns([k.G @ unit for unit in np.eye(len(k.armature))], k.dimension)
    Z = pliant @ G
    L = k.D.inverse().reshape(k.D.order, k.D.order) + G.T @ Z
    return DenseInertia.of(pliant + H @ (H @ L - Z).T - Z @ H.T)


def _moved(k: Any, like: tuple[Any, ...], motions: Array) -> Array:
    """W times motions of the parent, column by column, (m, n)."""
    return columns([k.X @ rebuild(like, column) for column in motions.T], k.dimension)


def _projected(k: Any, forces: Array) -> Array:
    """Hᵀ times forces, column by column, (n, …)."""
    like = describe(k.none)
    return columns([k.H.T @ rebuild(like, column) for column in forces.T], len(k.armature))


def _solved(k: Any, right: Array) -> Array:
    """D⁻¹ times columns."""
    solved: Array = k.D.solve(right).reshape(right.shape)
    return solved


def _turns(tree: Tree, theta: Array) -> Array:
    """The rows of ϑ that P̂ multiplies."""
    return theta[:3] if tree.rigid_bodies else theta


def _carried(tree: Tree, k: Any, parent: Any, P: Any, P_hat: Array) -> ArticulatedCoriolis | DenseCoriolis:
    """Wᵀ (1 − G Hᵀ) (P̂ W + P T)."""
    left = _left(k, P_hat)
    if tree.rigid_bodies:
        carried: ArticulatedCoriolis = k.X.congruence(ArticulatedCoriolis(left.reshape(-1)))
        return carried
    W = _moved(k, describe(parent.V), np.eye(len(components(parent.V))))
    motion = describe(k.V)
    dragged = _left(k, columns([P @ rebuild(motion, column) for column in k.drag.T], k.dimension))
    dense: DenseCoriolis = DenseCoriolis.of(W.T @ (left @ W + dragged))
    return dense


def _left(k: Any, forces: Array) -> Array:
    """(1 − G Hᵀ) times forces, column by column."""
    like = describe(k.none)
    typed = [rebuild(like, column) for column in forces.T]
    return columns([k.G.past(force, k.H.T @ force) for force in typed], k.dimension)


def _back(tree: Tree, k: Any, turn: Array, force: Any) -> Array:
    """Wᵀ h + Tᵀ g."""
    if tree.rigid_bodies:
        back: Array = (k.X.T @ Force.of(turn, np.zeros(3))).angular
        return back
    of_parent: Array = components(k.X.T @ rebuild(describe(k.none), turn)) + k.drag.T @ components(force)
    return of_parent
