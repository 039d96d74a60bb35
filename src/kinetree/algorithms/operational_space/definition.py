"""Λ⁻¹ = J M⁻¹ Jᵀ by definition: dense Jacobian, dense mass matrix, Gaussian elimination. Cost O(n³ + n²·m + n·m²).

    pass        loop                  leaves                                                            source
    place       scatter               motions S and inertias R of each node in the tree's frame
    mass        gather, columns       M, dense, with its zeros                                          [J11] Alg. 4.2
    jacobian    frames, columns       Jᵀ, dense, with its zeros
    eliminate   columns, three deep   M = Uᵀ d U, Y = U⁻ᵀ Jᵀ, and Λ⁻¹ = Yᵀ d⁻¹ Y                        [CK01] Eq. 14

The tree structure is used only to set up J and M. This is the oracle for all other methods, and the baseline for
operation counts.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import RigidInertia


def definition(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def definition(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("sorted_rows"), tree.array("sorted_rows", "sorted_rows")
        S, X = tree.array("v"), tree.array("v")
        M, Y = tree.array("v", "v"), tree.array("v", "sorted_rows")
        pivot_row, pivot_rows = tree.array("v"), tree.array("sorted_rows")
        tree_frame.start(tree)
        tree.world.R = RigidInertia.zero()
        task_space.clear(tree, block)
        for c in tree.columns():
            M[c, c] = 0.0
            for other in tree.columns(c):
                M[c, other] = 0.0
            for row in tree.sorted_rows():
                Y[c, row] = 0.0

        for k, parent in tree.scatter():
            tree_frame.place(k, parent, q)
            k.R = k.C.congruence(k.M)
            for c in k.columns():
                S[c] = c.of(k.S)
        task_space.rows(tree, view, chi, parts)

        # M
        for k, parent in tree.gather():
            momenta = k.S.map(lambda column, R=k.R: R @ column)
            own = k.S.matrix().T @ momenta.matrix() + np.diag(k.armature)
            for i, c in enumerate(k.columns()):
                X[c] = c.of(momenta)
                for j, other in enumerate(k.columns()):
                    if j >= i:
                        M[c, other] = own[i, j]
            for c in tree.descendants(k):
                for one, m in zip(k.columns(), k.S.T @ X[c], strict=True):
                    M[one, c] = m
            parent.R += k.R

        # Jᵀ
        for frame, _ in tree.frames():
            for c in tree.support(frame):
                for row in tree.rows_of(frame):
                    Y[c, row] = chi[row].data @ S[c].data

        if parts.mass:
            share = 1.0 / tree.world.R.mass
            for center, _ in tree.frames("mass"):
                for c in tree.columns():
                    for row in center.rows():
                        Y[c, row] = X[c].data[row.component] * share  # momentum of the bodies moved by the column

        # Gaussian elimination of [M | Jᵀ] with pivots p
        for p in tree.columns():
            reciprocal = 1.0 / M[p, p]
            for c in tree.columns(p):
                pivot_row[c] = M[p, c]
            for row in tree.sorted_rows():
                pivot_rows[row] = Y[p, row]
            for c in tree.columns(p):
                factor = pivot_row[c] * reciprocal
                M[c, c] = M[c, c] - factor * pivot_row[c]
                for other in tree.columns(c):
                    M[c, other] = M[c, other] - factor * pivot_row[other]
                for row in tree.sorted_rows():
                    Y[c, row] = Y[c, row] - factor * pivot_rows[row]
            for row in tree.sorted_rows():
                factor = pivot_rows[row] * reciprocal
                for column in tree.sorted_rows(row):
                    block[row, column] = block[row, column] + factor * pivot_rows[column]

        task_space.hand_over(tree, block, inverse_inertia, parts)

    return definition
