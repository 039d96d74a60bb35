"""The mass matrix by composite rigid-body inertias. Cost O(n·d).

    pass        loop               computes                                              source
    place       scatter            motions S and inertia R of each node in the tree's frame
    composite   gather             composite inertia R, a plain sum                        Alg. 4.1, Eq. 20
    column      gather, columns    M(l, k) = Hᵀ(l) X(l) with X = R(k) H(k)                 Alg. 4.2

Algorithm 4.2 walks from each node k to the base and propagates X(k) on the way. In the frame of the tree X needs no
propagation, so the same products are formed row by row: node l uses the X of its descendants. (The printed algorithm
propagates X with φ instead of A, and includes the inertial node.)

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import RigidInertia


@algorithm(q=("q",), M=("v", "v"), outputs=("M",), symmetric=("M",))
def mass_matrix(tree: Tree, q: Indexed, M: Indexed) -> None:
    """Joint-space inertia M(q). [J11] Algorithms 4.1 and 4.2.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        M: Mass matrix, (nv, nv); blocks of nodes on different branches are zero.
    """
    X = tree.array("v")
    tree_frame.start(tree)
    tree.world.R = RigidInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.R = k.C.congruence(k.M)

    for k, parent in tree.gather():
        own = k.S.map(lambda column, R=k.R: R @ column)
        for c in k.columns():
            X[c] = c.of(own)
        diagonal = k.S.matrix().T @ own.matrix()
        M[k, k] = diagonal + np.diag(k.armature)
        for c in tree.descendants(k):
            M[k, c] = k.S.T @ X[c]
        parent.R += k.R  # Eq. 20, A = 1
