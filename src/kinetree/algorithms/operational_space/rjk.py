"""Λ⁻¹ = B* Ω B by the algorithm of Rodriguez, Jain and Kreutz-Delgado. Cost O(n + d·m²).

    pass       loop                    leaves                                                     source
    place      scatter                 motions and inertias in the frame of the tree
    project    frames, their rows      χ, the columns of B                                          §6.2
    hinge      gather                  𝒫, 𝒟, 𝒢                                                      Eqs. 32, 33
    diagonal   scatter                 Y(k), the diagonal of Ω                                      Lemma 5, Eq. 24
    elements   pairs of tasks          Ω of pairs, outwards from their last common ancestor         Alg. 4.3
    result     pairs of tasks, rows    Λ⁻¹ = B* Ω B                                                 Eq. 60

Algorithm 4.3 computes Z = 𝔸* X 𝔸 element by element, here with 𝔸 = ψ and X = H* D⁻¹ H, so that Z = Ω: (1) the diagonal
Y(i) of the last common ancestor i, (2) and (3) outwards along the two branches, (4) zero where there is no such i. The
6×6 block of each pair of tasks is propagated along both branches, so the cost grows with d·m².

Everything is in the tree's frame, where A = 1. `V` is the paper's Y, `S` its H*, and ψ(p, k) = 1 − G Sᵀ. Here (3)
comes before (2). §6.2 prints φ where ψ is meant, from which Ω is built.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[R92] G. Rodriguez, A. Jain, K. Kreutz-Delgado, "Spatial operator algebra for multibody system dynamics", Journal of the
      Astronautical Sciences 40, 1992.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import mobility, task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, Compliance


def rjk(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def rjk(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("sorted_rows"), tree.array("sorted_rows", "sorted_rows")
        Omega, moved = tree.array("frames", "frames"), tree.array("sorted_rows")
        tree_frame.start(tree)
        tree.world.P = ArticulatedInertia.zero()
        tree.world.V = Compliance.zero()
        task_space.clear(tree, block)  # Alg. 4.3 (4)

        for k, parent in tree.scatter():
            tree_frame.move(k, parent, q)
            k.S = k.H.basis(k.C, k.armature)
            k.inertia = k.C.congruence(k.M)
            k.P = k.inertia.articulated()
        task_space.rows(tree, view, chi, parts)

        for k, parent in tree.gather():
            k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)  # Eq. 32
            parent.P += P_plus  # Eq. 33

        for k, parent in tree.scatter():
            k.V = mobility.beyond(parent.V, k)  # Eq. 24

        for k, one, other in tree.common_ancestors():
            Omega[one, other] = k.V.matrix()  # Alg. 4.3 (1)
        for k, one, other in tree.branches("other"):
            Omega[one, other] = Omega[one, other] - (Omega[one, other] @ k.G.matrix()) @ k.S.matrix().T  # (3)
        for k, one, other in tree.branches("one"):
            Omega[one, other] = Omega[one, other] - k.S.matrix() @ (k.G.matrix().T @ Omega[one, other])  # (2)

        for _, one, other in tree.common_ancestors():
            for r in tree.rows_of(one):
                moved[r] = chi[r].data @ Omega[one, other]
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    block[r, s] = moved[r] @ chi[s].data  # Eq. 60

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return rjk
