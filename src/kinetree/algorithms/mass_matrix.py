"""The mass matrix by composite inertias. Cost O(n·d).

    pass        loop               computes                                              source
    place       scatter            weight and inertia R of each node
    composite   gather, columns    composite R; M(l, k) = Hᵀ(l) X(l) with X = R(k) H(k)   Algs. 4.1 and 4.2, Eq. 20

Algorithm 4.2 walks from each node k to the base and propagates X(k) on the way. Here all columns travel at once, so
the same products are formed row by row: node l uses the X of its descendants. (The printed algorithm propagates X with
φ instead of A, and includes the inertial node.)

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms import composite_inertia
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros


@algorithm(q=("q",), M=("v", "v"), outputs=("M",), symmetric=("M",))
def mass_matrix(tree: Tree, q: Indexed, M: Indexed) -> None:
    """Joint-space inertia M(q). [J11] Algorithms 4.1 and 4.2.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        M: Mass matrix, (nv, nv); blocks of nodes on different branches are zero.
    """
    X = tree.inward("v", like="none")
    composite_inertia.start(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.R = composite_inertia.own(tree, k)
        k.none = k.M @ (k.H @ Zeros()[k])  # the type of forces

    for k, parent in tree.gather():
        own = [k.R @ (k.H @ unit) for unit in np.eye(len(Zeros()[k]))]  # X = R H
        rows = [k.H.T @ column for column in own]
        M[k, k] = np.array(rows).reshape(len(own), len(own)).T + np.diag(k.armature)
        for c, column in zip(k.columns(), own, strict=True):
            X[parent, c] = k.X.T @ column
        for c in tree.descendants(k):
            M[k, c] = k.H.T @ X[k, c]
            X[parent, c] = k.X.T @ X[k, c]
        parent.R += k.X.congruence(k.R)  # Eq. 20
