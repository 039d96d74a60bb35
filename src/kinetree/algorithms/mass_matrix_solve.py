"""M⁻¹ x without forming M⁻¹, and the determinant of M, from the articulated-body factorisation. Cost O(n).

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.forward_dynamics import articulated_body
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), x=("v",), y=("v",), outputs=("y",), any_node=True)
def mass_matrix_solve(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """y = M⁻¹(q) x: forward dynamics at rest, without gravity. [J11] Eq. 51.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        x: Joint forces, (nv,).
        y: Joint accelerations, (nv,).
    """
    articulated_body(tree, q, Zeros(), x, Motion.zero(), None, y, springs=False)


@algorithm(q=("q",), reciprocals=("v",), outputs=("reciprocals",), any_node=True)
def mass_matrix_pivots(tree: Tree, q: Indexed, reciprocals: Indexed) -> None:
    """Reciprocals of the pivots of D; det M = ∏ det D is the product of the pivots. [J11] Corollary 6.1, Eq. 53.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        reciprocals: One per degree of freedom, (nv,).
    """
    articulated_inertia.start(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()

    for k, parent in tree.gather():
        articulated_inertia.hinge(k, parent)
        reciprocals[k] = k.D.reciprocals
