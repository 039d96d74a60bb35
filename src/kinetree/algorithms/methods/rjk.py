"""Λ⁻¹ = B* Ω B by the algorithm of Rodriguez, Jain and Kreutz-Delgado. Cost O(n + d·m²).

    pass       loop                    leaves                                                     source
    place      scatter                 weights and poses of all nodes
    project    frames, their rows      χ, the columns of B                                          §6.2
    hinge      gather                  𝒫, 𝒟, 𝒢                                                      Eqs. 32, 33
    diagonal   scatter                 Y(k), the diagonal of Ω                                      Lemma 5, Eq. 24
    elements   pairs of tasks          Ω of pairs, outwards from their last common ancestor         Alg. 4.3
    result     pairs of tasks, rows    Λ⁻¹ = B* Ω B                                                 Eq. 60

Algorithm 4.3 computes Z = 𝔸* X 𝔸 element by element, here with 𝔸 = ψ and X = H* D⁻¹ H, so that Z = Ω: (1) the diagonal
Y(i) of the last common ancestor i, (2) and (3) outwards along the two branches, (4) zero where there is no such i. The
6×6 block of each pair of tasks is propagated along both branches, so the cost grows with d·m².

`V` is the paper's Y, `subspace` its H*, and ψ(p, k) = A (1 − G H). Here (3) comes before (2). §6.2 prints φ where ψ is
meant, from which Ω is built.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[R92] G. Rodriguez, A. Jain, K. Kreutz-Delgado, "Spatial operator algebra for multibody system dynamics", Journal of the
      Astronautical Sciences 40, 1992.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.methods import mobility
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import Compliance


def rjk(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def rjk(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("sorted_rows"), tree.array("sorted_rows", "sorted_rows")
        Omega, moved = tree.array("frames", "frames"), tree.array("sorted_rows")
        tree.world.V = Compliance.zero()
        task_space.clear(tree, block)  # Alg. 4.3 (4)

        task_space.place(tree, q)
        task_space.rows(tree, reference, chi, parts)

        for k, parent in tree.gather():
            task_space.hinge(k, parent)  # Eqs. 32, 33

        for k, parent in tree.scatter():
            k.V = mobility.beyond(parent.V, k)  # Eq. 24

        for k, one, other in tree.common_ancestors():
            Omega[one, other] = k.V.matrix()  # Alg. 4.3 (1)
        for k, one, other in tree.branches("other"):
            here = mobility.moved(k.X, Omega[one, other].T).T
            Omega[one, other] = here - (here @ k.G.matrix()) @ k.subspace.matrix().T  # (3)
        for k, one, other in tree.branches("one"):
            here = mobility.moved(k.X, Omega[one, other])
            Omega[one, other] = here - k.subspace.matrix() @ (k.G.matrix().T @ here)  # (2)

        for _, one, other in tree.common_ancestors():
            for r in tree.rows_of(one):
                moved[r] = chi[r].data @ Omega[one, other]
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    block[r, s] = moved[r] @ chi[s].data  # Eq. 60

        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return rjk
