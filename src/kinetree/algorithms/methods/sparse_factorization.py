"""Λ⁻¹ = Y d⁻¹ Yᵀ from a sparse factorisation of the mass matrix. Cost O(n·d² + m·d² + m²·d).

    pass       loop                          leaves                                                       source
    place      scatter                       weights and poses of all nodes
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

from kinetree.algorithms.methods.definition import mass
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import Factor
from kinetree.spatial.value import Array


def sparse_factorization(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def sparse_factorization(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.inward("sorted_rows", like="none"), tree.array("sorted_rows", "sorted_rows")
        Y, H = tree.array("v", "sorted_rows"), tree.array("v", "v")
        most = task_space.place(tree, q)
        scaled, ell = ([tree.array(over) for _ in range(most)] for over in ("sorted_rows", "v"))
        task_space.clear(tree, block)
        task_space.seed(tree, reference, chi, parts)
        mass(tree, H, lambda k: k.subspace)
        for k, _ in tree.scatter():
            for c in k.columns():
                for row in tree.carried(k):
                    Y[c, row] = 0.0

        for k, parent in tree.gather():
            # [F05]: row k of L, then H(j, i) −= ℓ(j) d⁻¹ ℓ(i) for all pairs of ancestors
            D = Factor.of(_own(k, H))
            for i in tree.ancestors(k):
                for part, h in zip(ell, D.forward(np.array([H[i, c] for c in k.columns()])), strict=False):
                    part[i] = h
            for i in tree.ancestors(k):
                give = [ell[n][i] * r for n, r in enumerate(D.reciprocals)]
                for j in tree.ancestors(k, i):
                    H[j, i] = H[j, i] - sum((part * ell[n][j] for n, part in enumerate(give)), 0.0)

            # [F10]: y = J − Σ y d⁻¹ ℓ, its contribution to Λ⁻¹, and its updates of the ancestors' columns
            for group, later in tree.carried_groups(k):
                y = [k.subspace.T @ chi[k, row] - np.array([Y[c, row] for c in k.columns()]) for row in group.rows]
                task_space.accumulate(group, later, D, y, scaled, block)
                for row in group.rows:
                    chi[parent, row] = k.X.T @ chi[k, row]
            for i in tree.ancestors(k):
                give = [ell[n][i] * r for n, r in enumerate(D.reciprocals)]
                for row in tree.carried(k):
                    Y[i, row] = Y[i, row] + sum((part * scaled[n][row] for n, part in enumerate(give)), 0.0)

        if parts.mass:  # only the rows of the centre of mass need P, D and G
            for k, parent in tree.gather():
                task_space.hinge(k, parent)
        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return sparse_factorization


def _own(k: Any, H: Indexed) -> Array:
    """A node's own block; `Factor` reads its lower triangle."""
    columns = list(k.columns())
    n = range(len(columns))
    entries = [[H[columns[min(i, j)], columns[max(i, j)]] for j in n] for i in n]
    return np.array(entries).reshape(len(n), len(n))
