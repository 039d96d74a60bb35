"""Λ⁻¹ = B* Ω B by the algorithm of Rodriguez, Jain and Kreutz-Delgado. Cost O(n + d·m²).

    pass       loop                    leaves                                                        source
    place      scatter, frames         bodies and task rows χ, the columns of B, in the tree's frame
    hinge      gather                  hinges
    diagonal   scatter                 Y(k), the diagonal of Ω                                          Lemma 5, Eq. 23
    ways       ways of pairs, twice    Ω of pairs of tasks, out from where they meet                    Alg. 4.3
    project    pairs, rows             Λ⁻¹ = B* Ω B                                                     Eq. 60

Algorithm 4.3 computes Z = 𝔸* X 𝔸 element by element: from the diagonal Y(p) of the last common ancestor p outwards
along one branch, then along the other, here with 𝔸 = ψ and X = H* D⁻¹ H. Each pair of tasks goes its two ways with its
own 6×6 block, which is what makes the cost grow with d·m².

`V` is the paper's Y, `S` its H*, and ψ(p, k) = 1 − G Sᵀ.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[R92] G. Rodriguez, A. Jain, K. Kreutz-Delgado, "Spatial operator algebra for multibody system dynamics", Journal of the
      Astronautical Sciences 40, 1992.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import mobility, task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree


def rjk(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹, seen through a reference."""

    def rjk(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("row"), tree.array("row", "row")
        Omega, moved = tree.array("frames", "frames"), tree.array("row")
        task_space.place(tree, q, view, chi, parts=parts, any_basis=True)
        task_space.clear(tree, block)

        for k, parent in tree.gather():
            task_space.hinge(k, parent)

        mobility.scatter(tree)

        for k, one, other in tree.meetings():
            Omega[one, other] = k.V.matrix()  # Alg. 4.3 (1)
        for k, one, other in tree.ways("other"):
            Omega[one, other] = Omega[one, other] - (Omega[one, other] @ k.G.matrix()) @ k.S.matrix().T  # (2)
        for k, one, other in tree.ways("one"):
            Omega[one, other] = Omega[one, other] - k.S.matrix() @ (k.G.matrix().T @ Omega[one, other])  # (3)

        for _, one, other in tree.meetings():
            for r in tree.rows_of(one):
                moved[r] = chi[r].data @ Omega[one, other]
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    block[r, s] = moved[r] @ chi[s].data  # Eq. 60

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return rjk
