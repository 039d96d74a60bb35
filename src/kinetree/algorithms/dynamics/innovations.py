"""Diagonalised dynamics: velocities ν in which the mass matrix is the identity. Cost O(n) each.

M = m mᵀ with m = [1 + H A K] D^½ ([J11] Lemma 11), and D^½ = L √d for D = L d Lᵀ. With ν = mᵀ v, the kinetic energy is
½ νᵀν and the equations of motion are ν̇ + C = m⁻¹ τ, each joint by itself [JR95].

    recursion                   loop              computes
    innovations                 scatter, gather   articulated inertias
                                scatter           ν = D^½ᵀ (v + Gᵀ V⁺)
    innovations_to_velocities   the same          v = D^−½ᵀ ν − Gᵀ V⁺: m⁻ᵀ ν, with covariance M⁻¹ if that of ν is 1
    innovation_forces           scatter, gather   m⁻¹ τ = D^−½ ε                                        Eqs. 58a–58d
    log_determinant_gradient    gather, scatter   ln det M of [J11] Corollary 6.1, backwards

[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[JR95] A. Jain, G. Rodriguez, "Diagonalized Lagrangian robot dynamics", IEEE Transactions on Robotics and Automation 11,
       1995.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_log_determinant
from kinetree.language import reverse_mode
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion


def _articulate(tree: Tree, q: Indexed) -> None:
    """Set X, D, G and P at every node."""
    inertias.start_articulated(tree)
    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
    for k, parent in tree.gather():
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


class _One:
    """The weight of the only result."""

    def __getitem__(self, _: Any) -> Any:
        return np.ones(())


_backwards = reverse_mode.gradient(mass_matrix_log_determinant, "log_determinant_gradient", ["q"], ["gradient"])


@algorithm(q=("q",), gradient=("v",), outputs=("gradient",))
def log_determinant_gradient(tree: Tree, q: Indexed, gradient: Indexed) -> None:
    """∂ ln det M/∂q along the tangent: the recursion of ln det M, backwards."""
    _backwards.run(tree, q, _One(), gradient)
