"""The inverse of the mass matrix, without forming the mass matrix. Cost O(n²).

    pass       loop                computes                                                      lines
    place      scatter             motions S and inertia P of each node in the tree's frame          2–5
    hinge      gather, columns     P, D, G; rows of M⁻¹ for descendant columns; forces F             8–26
    response   scatter, columns    rows of M⁻¹ for all later columns; accelerations A (paper: P)     28–35

Algorithm 1 as printed does not yield M⁻¹. Corrections: line 21 before line 11, with line 12 for descendants only; `+=`
in line 14; and in lines 30–34 all columns from i on, not those of subtree(i). The engine mirrors the upper
triangle. In the frame of the tree all F fit into one array.

[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
"""

from __future__ import annotations

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia
from kinetree.spatial.motion import Force, Motion


@algorithm(q=("q",), Minv=("v", "v"), outputs=("Minv",), symmetric=("Minv",))
def mass_matrix_inverse(tree: Tree, q: Indexed, Minv: Indexed) -> None:
    """M⁻¹(q). [C18] Algorithm 1, as corrected.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        Minv: Inverse of the mass matrix, (nv, nv); blocks of nodes on different trees are zero.
    """
    F = tree.array("v")
    A = tree.array("node", "v")
    tree_frame.start(tree)
    tree.world.P = ArticulatedInertia.zero()
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.P = k.C.congruence(k.M).articulated()

    for k, parent in tree.gather():
        D, G, P_plus = k.S.hinge(k.P, k.armature)  # lines 9, 10
        Minv[k, k] = D.inverse()  # line 21, moved up
        for c in k.columns():
            F[c] = c.of(G)  # lines 14 and 19: U D⁻¹
        for c in tree.descendants(k):
            projected = k.S.T @ F[c]
            Minv[k, c] = -D.solve(projected)  # line 12
            F[c] = Force(G.without(F[c].data, projected))  # line 14, accumulating: U Minv[k, c] = −G Sᵀ F
        k.G = G
        parent.P += P_plus  # lines 23, 24

    for k, parent in tree.scatter():
        for c in tree.onward(k):
            row = Minv[k, c] - k.G.T @ A[parent, c]  # line 30
            Minv[k, c] = row
            A[k, c] = A[parent, c] + k.S @ row  # lines 32, 34
