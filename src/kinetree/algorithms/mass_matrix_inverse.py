"""The inverse of the mass matrix, without forming the mass matrix. Cost O(n²).

    pass       loop                computes                                                      lines
    place      scatter             weight and inertia P of each node                               2–5
    hinge      gather, columns     P, D, G; rows of M⁻¹ for descendant columns; forces F           8–26
    response   scatter, columns    rows of M⁻¹ for all later columns; accelerations A (paper: P)   28–35

Algorithm 1 as printed does not yield M⁻¹. Corrections: line 21 before line 11, with line 12 for descendants only; `+=`
in line 14; and in lines 30–34 all columns from i on, not those of subtree(i). The engine mirrors the upper
triangle. F and A travel by the weights of [J11], so that nodes may be of any kind.

[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), Minv=("v", "v"), outputs=("Minv",), symmetric=("Minv",))
def mass_matrix_inverse(tree: Tree, q: Indexed, Minv: Indexed) -> None:
    """M⁻¹(q). [C18] Algorithm 1, as corrected.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        Minv: Inverse of the mass matrix, (nv, nv); blocks of nodes on different trees are zero.
    """
    F, A = tree.inward("v", like="none"), tree.array("node", "v")
    articulated_inertia.start(tree)
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ Zeros()[k])  # the type of forces

    for k, parent in tree.gather():
        articulated_inertia.hinge(k, parent)  # lines 9, 10, 23, 24
        inverse_rows_inward(tree, k, parent, F, Minv)

    for k, parent in tree.scatter():
        inverse_rows_outward(tree, k, parent, A, Minv)


def inverse_rows_inward(tree: Tree, k: Any, parent: Any, F: Indexed, Minv: Indexed) -> None:
    """On the way to the base: rows of M⁻¹ as far as descendants determine them.

    Args:
        tree: The mechanism.
        k: A node with X, D and G.
        parent: Its parent.
        F: Force on each node per unit force of its descendants' joints; of `tree.inward`.
        Minv: Inverse of the mass matrix.
    """
    Minv[k, k] = k.D.inverse().reshape(k.D.order, k.D.order)  # line 21, moved up
    for c, unit in zip(k.columns(), np.eye(k.D.order), strict=True):
        F[parent, c] = k.X.T @ (k.G @ unit)  # lines 14 and 19: U D⁻¹
    for c in tree.descendants(k):
        projected = k.H.T @ F[k, c]
        Minv[k, c] = -k.D.solve(projected)  # line 12
        # line 14, accumulating: U Minv[k, c] = −G Hᵀ F
        F[parent, c] = k.X.T @ k.G.past(F[k, c], projected)


def inverse_rows_outward(tree: Tree, k: Any, parent: Any, A: Indexed, Minv: Indexed) -> None:
    """On the way to the tips: the part of these rows that is due to the motion of the parent.

    Args:
        tree: The mechanism.
        k: A node with X and G.
        parent: Its parent.
        A: Acceleration of each node per unit force of a joint.
        Minv: Inverse of the mass matrix, its upper triangle.
    """
    for c in tree.onward(k):
        onward = k.X @ A[parent, c]
        row = Minv[k, c] - k.G.T @ onward  # line 30
        Minv[k, c] = row
        A[k, c] = onward + k.H @ row  # lines 32, 34
