"""Λ⁻¹ = J M⁻¹ Jᵀ by definition: dense Jacobian, dense mass matrix, Gaussian elimination. Cost O(n³ + n²·m + n·m²).

    pass        loop                  leaves                                                            source
    jacobian    frames, columns       Jᵀ, dense, with its zeros                                         `response.py`
    mass        gather, columns       M, dense, with its zeros                                          [J11] Alg. 4.2
    eliminate   columns, three deep   M = Uᵀ d U, Y = U⁻ᵀ Jᵀ, and Λ⁻¹ = Yᵀ d⁻¹ Y                        [CK01] Eq. 14

The tree structure is used only to set up J and M. This is the oracle for all other methods, and the baseline for
operation counts.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.tasks.response import jacobian_rows
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree, Zeros


def definition(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""
    jacobian = jacobian_rows(reference, parts)

    def definition(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        J, M, Y, block = (tree.array(*over) for over in (("rows", "v"), ("v", "v"), ("v", "rows"), ("rows", "rows")))
        pivot_row, pivot_rows = tree.array("v"), tree.array("rows")
        for row in tree.task_rows():
            for column in tree.task_rows():
                block[row, column] = 0.0
            for c in tree.columns():
                J[row, c] = 0.0
        for c in tree.columns():
            M[c, c] = 0.0
            for other in tree.columns(c):
                M[c, other] = 0.0

        jacobian(tree, q, J)
        mass(tree, M, lambda k: k.H)
        for c in tree.columns():
            for row in tree.task_rows():
                Y[c, row] = J[row, c]

        # Gaussian elimination of [M | Jᵀ] with pivots p
        for p in tree.columns():
            reciprocal = 1.0 / M[p, p]
            for c in tree.columns(p):
                pivot_row[c] = M[p, c]
            for row in tree.task_rows():
                pivot_rows[row] = Y[p, row]
            for c in tree.columns(p):
                factor = pivot_row[c] * reciprocal
                M[c, c] = M[c, c] - factor * pivot_row[c]
                for other in tree.columns(c):
                    M[c, other] = M[c, other] - factor * pivot_row[other]
                for row in tree.task_rows():
                    Y[c, row] = Y[c, row] - factor * pivot_rows[row]
            for row in tree.task_rows():
                factor = pivot_rows[row] * reciprocal
                for column in tree.task_rows(row):
                    block[row, column] = block[row, column] + factor * pivot_rows[column]

        for row in tree.task_rows():
            for column in tree.task_rows(row):
                inverse_inertia[row, column] = block[row, column]
                inverse_inertia[column, row] = block[row, column]

    return definition


def mass(tree: Tree, M: Indexed, motions: Callable[[Any], Any]) -> None:
    """Write M(i, c), upper triangle, of all columns c that i carries, itself included; nodes must be placed.

    `motions` is H of a node, or another basis of its motions.
    """
    F = tree.inward("v", like="none")
    inertias.start_composite(tree)
    for k, _ in tree.scatter():
        k.R = inertias.own(tree, k)
        k.none = k.M @ (k.H @ Zeros()[k])  # the type of forces
    for k, parent in tree.gather():
        H, columns = motions(k), list(k.columns())
        own = [k.R @ (H @ unit) for unit in np.eye(len(columns))]
        for j, (c, force) in enumerate(zip(columns, own, strict=True)):
            for one, entry in zip(columns[: j + 1], H.T @ force, strict=False):
                M[one, c] = entry + k.armature[j] if one is c else entry
            F[parent, c] = k.X.T @ force
        for c in tree.descendants(k):
            force = F[k, c]
            for one, entry in zip(columns, H.T @ force, strict=True):
                M[one, c] = entry
            F[parent, c] = k.X.T @ force
        parent.R += k.X.congruence(k.R)
