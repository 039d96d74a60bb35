"""M⁻¹ x without forming M⁻¹, and the determinant of M, from the articulated-body factorisation. Cost O(n).

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.forward_dynamics import articulated_body
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion
from kinetree.spatial.scalar import log


@algorithm(q=("q",), x=("v",), y=("v",), outputs=("y",))
def mass_matrix_solve(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """y = M⁻¹(q) x: forward dynamics at rest, without gravity. [J11] Eq. 51.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        x: Joint forces, (nv,).
        y: Joint accelerations, (nv,).
    """
    articulated_body(tree, q, Zeros(), x, Motion.zero(), None, y, springs=False)


@algorithm(q=("q",), determinant=(), outputs=("determinant",), sparse=("determinant",))
def mass_matrix_determinant(tree: Tree, q: Indexed, determinant: Indexed) -> None:
    """det M = ∏ det D. [J11] Corollary 6.1, Eq. 53.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        determinant: ().
    """
    reciprocals = _pivots(tree, q)
    determinant[...] = 1.0
    for c in tree.columns():
        determinant[...] = determinant[...] * (1.0 / reciprocals[c])


@algorithm(q=("q",), logarithm=(), outputs=("logarithm",), sparse=("logarithm",))
def mass_matrix_log_determinant(tree: Tree, q: Indexed, logarithm: Indexed) -> None:
    """ln det M = Σ ln det D, which neither overflows nor underflows.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        logarithm: ().
    """
    reciprocals = _pivots(tree, q)
    logarithms = tree.array("v")
    for c in tree.columns():
        logarithms[c] = log(reciprocals[c])
    for c in tree.columns():
        logarithm[...] = logarithm[...] - logarithms[c]


def _pivots(tree: Tree, q: Indexed) -> Any:
    """Reciprocals of the pivots of D, an array over columns; the product of the pivots is det M."""
    reciprocals = tree.array("v")
    articulated_inertia.start(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()

    for k, parent in tree.gather():
        articulated_inertia.hinge(k, parent)
        for c, reciprocal in zip(k.columns(), k.D.reciprocals, strict=True):
            reciprocals[c] = reciprocal
    return reciprocals
