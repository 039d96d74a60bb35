"""Λ⁻¹ = Y d⁻¹ Yᵀ from a sparse factorisation of the mass matrix. Cost O(n·d² + m·d² + m²·d).

    pass       loop                          leaves                                                       source
    place      scatter                       motions S and inertias R in the frame of the tree
    rows       frames, their rows            χ, so that J(row, c) = χᵀ S(c) on the row's support
    mass       gather, columns               H(i, c) of all i that carry c                                   Alg. 4.2
    factor     gather, ancestors             H = Lᵀ d L, in place, on the expanded parent array              [F05]
    solve      (same), rows                  Y = J L⁻¹ on the support of each row                            [F10]
    product    (same), rows                  Λ⁻¹ += y d⁻¹ yᵀ of all pairs of rows that a node carries        [F10]

L has the sparsity of H, and Y that of J: row i of L is zero except at i and its ancestors. [F05] calls this
branch-induced sparsity. The paper's factorisation is H = Lᵀ L, with square roots; here L has unit diagonal blocks and
`D` is a joint's block of d. `Y` accumulates Σ y d⁻¹ ℓᵀ of the joints processed so far, which back substitution in
Y L = J subtracts from J when it reaches the joint.

[F05] R. Featherstone, "Efficient factorization of the joint-space inertia matrix for branched kinematic trees",
      International Journal of Robotics Research 24, 2005.
[F10] R. Featherstone, "Exploiting sparsity in operational-space dynamics", International Journal of Robotics Research
      29, 2010. The SFA of [W12].
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.roles import ColumnRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, RigidInertia
from kinetree.spatial.symmetric import Factor
from kinetree.spatial.value import Array


def sparse_factorization(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def sparse_factorization(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block, Y = (
            tree.array("sorted_rows"),
            tree.array("sorted_rows", "sorted_rows"),
            tree.array("v", "sorted_rows"),
        )
        X, H = tree.array("v"), tree.array("v", "v")
        scaled = [tree.array("sorted_rows") for _ in range(6)]  # one for each possible degree of freedom of a joint
        ell = [tree.array("v") for _ in range(6)]
        tree_frame.start(tree)
        tree.world.R = RigidInertia.zero()
        task_space.clear(tree, block)

        for k, parent in tree.scatter():
            tree_frame.move(k, parent, q)
            k.S = k.H.basis(k.C, k.armature)
            k.R = k.C.congruence(k.M)
        task_space.rows(tree, view, chi, parts)

        # H: composite inertias R, and their momenta X for unit velocity of each degree of freedom
        for k, parent in tree.gather():
            momenta = k.S.map(lambda column, R=k.R: R @ column)
            for c in k.columns():
                X[c] = c.of(momenta)
                for row in tree.carried(k):
                    Y[c, row] = 0.0
            for c in tree.descendants(k):
                for i, h in zip(k.columns(), k.S.T @ X[c], strict=True):
                    H[i, c] = h
            diagonal = k.S.matrix().T @ momenta.matrix() + np.diag(k.armature)
            for (i, j), h in zip(_pairs(k), diagonal[np.triu_indices(len(diagonal))], strict=True):
                H[i, j] = h
            parent.R += k.R

        for k, _ in tree.gather():
            # [F05]: row k of L, then H(j, i) −= ℓ(j) d⁻¹ ℓ(i) for all pairs of ancestors
            D = Factor.of(_own(k, H))
            for i in tree.ancestors(k):
                for part, h in zip(ell, D.forward(np.array([H[i, c] for c in k.columns()])), strict=False):
                    part[i] = h
            for i in tree.ancestors(k):
                give = [ell[n][i] * r for n, r in enumerate(D.reciprocals)]
                for j in tree.ancestors(k, i):
                    H[j, i] = H[j, i] - sum(part * ell[n][j] for n, part in enumerate(give))

            # [F10]: y = J − Σ y d⁻¹ ℓ, its contribution to Λ⁻¹, and its updates of the ancestors' columns
            for group, later in tree.carried_groups(k):
                y = [k.S.T @ chi[row] - np.array([Y[c, row] for c in k.columns()]) for row in group.rows]
                task_space.accumulate(group, later, D, y, scaled, block)
            for i in tree.ancestors(k):
                give = [ell[n][i] * r for n, r in enumerate(D.reciprocals)]
                for row in tree.carried(k):
                    Y[i, row] = Y[i, row] + sum(part * scaled[n][row] for n, part in enumerate(give))

        if parts.mass:  # only the rows of the centre of mass need P, D and G
            tree.world.P = ArticulatedInertia.zero()
            for k, _ in tree.scatter():
                k.P = k.C.congruence(k.M).articulated()
            for k, parent in tree.gather():
                task_space.hinge(k, parent)
        task_space.finish(tree, view, block, inverse_inertia, parts)

    return sparse_factorization


def _pairs(k: Any) -> list[tuple[ColumnRole, ColumnRole]]:
    """The upper triangle of a node's own block."""
    columns = list(k.columns())
    return [(one, other) for i, one in enumerate(columns) for other in columns[i:]]


def _own(k: Any, H: Indexed) -> Array:
    """A node's own block; `Factor` reads its lower triangle."""
    columns = list(k.columns())
    return np.array(
        [[H[columns[min(i, j)], columns[max(i, j)]] for j in range(len(columns))] for i in range(len(columns))]
    )
