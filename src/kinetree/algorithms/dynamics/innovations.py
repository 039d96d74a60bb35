"""Diagonalised dynamics: velocities ν in which the mass matrix is the identity. Cost O(n) each.

M = m mᵀ with m = [1 + H A K] D^½ ([J11] Lemma 11), and D^½ = L √d for D = L d Lᵀ. With ν = mᵀ v, the kinetic energy is
½ νᵀν and the equations of motion are ν̇ + C = m⁻¹ τ, each joint by itself [JR95].

    recursion                   loop              computes
    innovations                 scatter, gather   articulated inertias
                                scatter           ν = D^½ᵀ (v + Gᵀ V⁺)
    innovations_to_velocities   the same          v = D^−½ᵀ ν − Gᵀ V⁺: m⁻ᵀ ν, with covariance M⁻¹ if that of ν is 1
    innovation_forces           scatter, gather   m⁻¹ τ = D^−½ ε                                        Eqs. 58a–58d
    log_determinant_gradient    scatter, gather   articulated inertias
                                scatter           mobilities Y, gradient of ln det M

The gradient of ln det M is the mean of vᵀ (∂M/∂q) v over velocities v of covariance M⁻¹. In terms of innovations, the
velocity of a node depends on those of its ancestors and its own alone, so that E[h Vᵀ] = P Y for the momentum h of all
that it carries and Y = E[V Vᵀ], the diagonal block of Ω.

[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[JR95] A. Jain, G. Rodriguez, "Diagonalized Lagrangian robot dynamics", IEEE Transactions on Robotics and Automation 11,
       1995.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.contract import components, describe, rebuild
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.language.variation import inertia_rates, turned_velocities
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.screw import dot


def _articulate(tree: Tree, q: Indexed) -> None:
    """Set X, D, G and P at every node."""
    inertias.start_articulated(tree)
    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
    for k, parent in tree.gather():
        k.articulated = k.P
        inertias.hinge(k, parent)


@algorithm(q=("q",), v=("v",), nu=("v",), outputs=("nu",))
def innovations(tree: Tree, q: Indexed, v: Indexed, nu: Indexed) -> None:
    """ν = mᵀ v."""
    tree.world.V = Motion.zero()
    _articulate(tree, q)
    for k, parent in tree.scatter():
        V_plus = k.X @ parent.V
        nu[k] = k.D.root_transposed(v[k] + k.G.T @ V_plus)
        k.V = V_plus + k.H @ v[k]


@algorithm(q=("q",), nu=("v",), v=("v",), outputs=("v",))
def innovations_to_velocities(tree: Tree, q: Indexed, nu: Indexed, v: Indexed) -> None:
    """v = m⁻ᵀ ν."""
    tree.world.V = Motion.zero()
    _articulate(tree, q)
    for k, parent in tree.scatter():
        V_plus = k.X @ parent.V
        own = k.D.root_transposed_solve(nu[k]) - k.G.T @ V_plus
        v[k] = own
        k.V = V_plus + k.H @ own


@algorithm(q=("q",), tau=("v",), epsilon=("v",), outputs=("epsilon",))
def innovation_forces(tree: Tree, q: Indexed, tau: Indexed, epsilon: Indexed) -> None:
    """m⁻¹ τ."""
    tree.world.z = Force.zero()
    inertias.start_articulated(tree)
    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.z = k.M @ (k.H @ Zeros()[k])  # no force
    for k, parent in tree.gather():
        z = k.z
        inertias.hinge(k, parent)
        left = tau[k] - k.H.T @ z
        epsilon[k] = k.D.root_solve(left)
        parent.z += k.X.T @ (z + k.G @ left)


@algorithm(q=("q",), gradient=("v",), outputs=("gradient",))
def log_determinant_gradient(tree: Tree, q: Indexed, gradient: Indexed) -> None:
    """∂ ln det M/∂q along the tangent."""
    tree.world.Y = np.zeros((6, 6))
    tree.world.still = Motion.zero()
    inertias.start_articulated(tree)
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.still = k.X @ parent.still + k.H @ Zeros()[k]  # the type of velocities
    for k, parent in tree.gather():
        k.articulated = k.P
        inertias.hinge(k, parent)
    for k, parent in tree.scatter():
        gradient[k], k.Y = _mean_change(k, parent.still, parent.Y)


def _mean_change(k: Any, still_p: Any, Y_p: Any) -> tuple[Any, Any]:
    """E[vᵀ (∂M/∂q) v] for the coordinates of a node, and its Y, given that of its parent."""
    n = len(k.armature)
    units, size = np.eye(n), len(components(k.still))
    above = [rebuild(describe(still_p), Y_p[:, i]) for i in range(len(Y_p))]  # E[V_p (V_p)ᵢ]
    carried = [k.X @ column for column in above]  # E[V⁺ (V_p)ᵢ]
    Y_plus = np.array(
        [components(k.X @ rebuild(describe(still_p), row)) for row in _columns(carried).reshape(size, -1)]
    )
    # joint velocities are D⁻¹ε − Gᵀ V⁺ with independent ε of covariance D
    GY = [k.G.T @ rebuild(describe(k.still), row) for row in Y_plus]  # Gᵀ Y⁺, by columns
    across = -np.array(GY).reshape(size, n).T  # E[v V⁺ᵀ]
    own = k.D.inverse().reshape(n, n) - across @ np.array([components(k.G @ u) for u in units]).reshape(n, size).T
    with_V = across + own @ np.array([components(k.H @ u) for u in units]).reshape(n, size)  # E[v Vᵀ]
    H = _columns([k.H @ u for u in units]).reshape(size, n)
    Y = Y_plus + H @ across + with_V.T @ H.T
    total = [0.0] * n
    # E[h (V_p)ᵢ] = P⁺ E[V⁺ (V_p)ᵢ] and E[h vⱼ] = P E[V vⱼ], for the momentum h of all that the node carries
    pairs = []
    for i, motion in enumerate(carried):
        force = k.articulated @ motion
        pairs.append((rebuild(describe(still_p), np.eye(len(Y_p))[i]), np.zeros(n), k.G.past(force, k.H.T @ force)))
    for j in range(n):
        force = k.articulated @ rebuild(describe(k.still), with_V[j])
        pairs.append((rebuild(describe(still_p), np.zeros(len(Y_p))), units[j], force))
    for V_p, v, force in pairs:
        for c, turned in enumerate(turned_velocities(k, k.X, V_p, v)):
            total[c] = total[c] + 2.0 * dot(components(turned), components(force))
    for c, rates in enumerate(inertia_rates(k)):
        total[c] = total[c] + np.sum(rates * Y)
    return np.array(total), Y


def _columns(vectors: list[Any]) -> Any:
    return np.array([components(vector) for vector in vectors]).T
