"""Joint-space inertia M and its inverse for nodes of any kind. Cost O(n·d) and O(n²).

`mass_matrix.py` and `mass_matrix_inverse.py` work in the frame of the tree, where columns need no propagation; here
they are propagated by the weights of [J11], in each node's own coordinates. That is faster for most robots, too; only
long chains pass columns through so many nodes that the frame of the tree pays (`kinetree.model.propagation`).

[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia, composite_inertia
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), M=("v", "v"), outputs=("M",), symmetric=("M",), any_node=True)
def mass_matrix_by_weights(tree: Tree, q: Indexed, M: Indexed) -> None:
    """Joint-space inertia M(q). [J11] Algorithms 4.1 and 4.2.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        M: Mass matrix, (nv, nv); blocks of nodes on different branches are zero.
    """
    F = tree.array("node", "v", like="none")
    composite_inertia.start(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.R = composite_inertia.own(tree, k)
        k.none = k.M @ (k.H @ Zeros()[k])

    for k, parent in tree.gather():
        own = [k.R @ (k.H @ unit) for unit in np.eye(len(Zeros()[k]))]  # X = R H
        rows = [k.H.T @ column for column in own]
        M[k, k] = np.array(rows).reshape(len(own), len(own)).T + np.diag(k.armature)
        for c, column in zip(k.columns(), own, strict=True):
            F[parent, c] = k.X.T @ column
        for c in tree.descendants(k):
            M[k, c] = k.H.T @ F[k, c]
            F[parent, c] = k.X.T @ F[k, c]
        parent.R += k.X.congruence(k.R)  # Eq. 20


@algorithm(q=("q",), Minv=("v", "v"), outputs=("Minv",), symmetric=("Minv",), any_node=True)
def mass_matrix_inverse_by_weights(tree: Tree, q: Indexed, Minv: Indexed) -> None:
    """M⁻¹(q), by the recursions of [C18] with the weights of [J11].

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        Minv: Inverse of the mass matrix, (nv, nv); blocks of nodes on different trees are zero.
    """
    F, A = tree.array("node", "v", like="none"), tree.array("node", "v")
    articulated_inertia.start(tree)
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ Zeros()[k])

    for k, parent in tree.gather():
        articulated_inertia.hinge(k, parent)
        inverse_rows_inward(tree, k, parent, F, Minv)

    for k, parent in tree.scatter():
        inverse_rows_outward(tree, k, parent, A, Minv)


def inverse_rows_inward(tree: Tree, k: Any, parent: Any, F: Indexed, Minv: Indexed) -> None:
    """[C18], on the way to the base: rows of M⁻¹ as far as descendants determine them.

    Args:
        tree: The mechanism.
        k: A node with X, D and G.
        parent: Its parent.
        F: Force on each node per unit force of its descendants' joints.
        Minv: Inverse of the mass matrix.
    """
    Minv[k, k] = k.D.inverse().reshape(k.D.order, k.D.order)
    for c, unit in zip(k.columns(), np.eye(k.D.order), strict=True):
        F[parent, c] = k.X.T @ (k.G @ unit)
    for c in tree.descendants(k):
        projected = k.H.T @ F[k, c]
        Minv[k, c] = -k.D.solve(projected)
        F[parent, c] = k.X.T @ (F[k, c] - k.G @ projected)


def inverse_rows_outward(tree: Tree, k: Any, parent: Any, A: Indexed, Minv: Indexed) -> None:
    """[C18], on the way to the tips: the part of these rows that is due to the motion of the parent.

    Args:
        tree: The mechanism.
        k: A node with X and G.
        parent: Its parent.
        A: Acceleration of each node per unit force of a joint.
        Minv: Inverse of the mass matrix, its upper triangle.
    """
    for c in tree.onward(k):
        onward = k.X @ A[parent, c]
        row = Minv[k, c] - k.G.T @ onward
        Minv[k, c] = row
        A[k, c] = onward + k.H @ row
