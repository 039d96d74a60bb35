"""Λ⁻¹ by extended force propagators. Cost O(n + m·d + m²).

    pass       loop              leaves                                                       source
    place      scatter, frames   bodies and task rows χ in the frame of the tree                 Table I, first loop
    reach      gather, rows      hinges; extended force propagator χ of each row at each node    Table I, second loop
    response   scatter, rows     acceleration Λ of each node per unit force along each row       Eq. 13
    meet       pairs of tasks    Λ⁻¹ at the last node that carries both                          Eq. 14

`S` is the paper's Φ, `G` its I^A Φ (Φᵀ I^A Φ)⁻¹, so that L = 1 − S Gᵀ and K χᵀ = S D⁻¹ (χS)ᵀ. Table I leaves blocks of
tasks on different trees of a fixed base unset; they are zero.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def efpa(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹, seen through a reference."""

    def efpa(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("row"), tree.array("row", "row")
        reach, response = tree.array("node", "row"), tree.array("node", "row")
        task_space.place(tree, q, view, chi, parts=parts, any_basis=True)
        task_space.clear(tree, block)
        for row in tree.rows():
            response[tree.world, row] = Motion.zero()

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            for row in tree.carried(k):
                reach[k, row] = chi[row]
                chi[row] = chi[row] - k.G @ (k.S.T @ chi[row])  # Eq. 11

        for k, parent in tree.scatter():
            for row in tree.carried(k):
                moved = response[parent, row]
                own = k.D.solve(k.S.T @ reach[k, row]) - k.G.T @ moved
                response[k, row] = moved + k.S @ own  # Eq. 13

        for k, one, other in tree.meetings():
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    block[r, s] = reach[k, r].data @ response[k, s].data  # Eq. 14

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return efpa
