"""Λ⁻¹ by the Extended-Force-Propagator Algorithm (EFPA) of Wensing, Featherstone and Orin. Cost O(n + m·d + m²).

    Table I                                        loop                  leaves
    Initialize                                     scatter, rows         I^A = I, Λ⁻¹(0, k) = 0
    first loop, over k                             frames, their rows    χ(k, p(k)) = X(k, p(k))
    second loop, i = N … 1      inward             gather, ES(i)         K, L, I^A; χ(k, i) of the bodies that carry k
    third loop, i = 1 … N       outward            scatter, ES(i)        Λ⁻¹(i, k) of the same
                                cross terms        GCA(i)                Λ⁻¹(k₁, k₂)
    fourth loop, over k                            GCA(p(k))             Λ⁻¹(k, k)

A body is `k` here and i in the paper, where k is an end-effector. Here end-effectors are split into individual rows, so
that tasks may have fewer than six. Entry `chi[k, row]` is that row of the paper's χ(k, i), `Lambda[k, row]` that column
of Λ⁻¹(i, k). `P` is I^A and `subspace` is Φ. With D = Φᵀ I^A Φ and G = I^A Φ D⁻¹,

    K = Φ D⁻¹ Φᵀ        L = 1 − K I^A = 1 − Φ Gᵀ        Lᵀ I^A = I^A − G Φᵀ I^A = P⁺

so that neither K nor L is formed. ES(i), the end-effectors that joint i supports, Eq. 2, is `tree.carried(k)`; GCA(i),
the pairs whose greatest common ancestor is i, Eq. 15, is `tree.common_ancestors()`.

Departures. Eq. 15 requires k₁ < k₂; `common_ancestors` also pairs each end-effector with itself, at p(k). There χ is
still X, and the product of Eq. 14 is that of the fourth loop, which is therefore omitted. Table I leaves the blocks of
end-effectors on different trees of a fixed base unset, since they are in no GCA(i): they are zero.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def efpa(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def efpa(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, Lambda = tree.array("node", "sorted_rows", like="none"), tree.array("node", "sorted_rows")
        block = tree.array("sorted_rows", "sorted_rows")

        # Initialize
        task_space.place(tree, q)  # I^A = I
        for row in tree.sorted_rows():
            Lambda[tree.world, row] = Motion.zero()
        task_space.clear(tree, block)  # different trees: not in the paper

        # First loop
        task_space.seed(tree, reference, chi, parts)

        # Second loop: inward recursion
        for k, parent in tree.gather():
            task_space.hinge(k, parent)  # K and L; Xᵀ Lᵀ I^A X, first term of Eq. 10
            for row in tree.carried(k):  # ES(i)
                force = chi[k, row]
                chi[parent, row] = k.X.T @ k.G.past(force, k.subspace.T @ force)  # χ L X, Eq. 11

        # Third loop: outward recursion
        for k, parent in tree.scatter():
            for row in tree.carried(k):  # ES(i)
                moved, Phi = k.X @ Lambda[parent, row], k.subspace
                # L X Λ⁻¹(p, k) + K χᵀ, Eq. 13
                Lambda[k, row] = moved + Phi @ (k.D.solve(Phi.T @ chi[k, row]) - k.G.T @ moved)

        # Cross terms, and the fourth loop
        for k, one, other in tree.common_ancestors():  # GCA(i)
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    block[r, s] = Lambda[k, s].dot(chi[k, r])  # Eq. 14

        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return efpa
