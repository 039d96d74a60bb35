"""Λ⁻¹ by the recursive algorithm of Chang and Khatib. Cost O(n·m), and O(m³) for its inverse.

    step   pass       loop                   leaves                                                         source
    1, 2   place      scatter, frames        bodies and task rows χ in the frame of the tree                   Eq. 2
    2      reach      gather, rows           hinges; force propagators ʰL taken along with each row of a task  Eq. 8
    3      diagonal   scatter                V(k, k)                                                           Eq. 24
    4      others     scatter, rows          V(k, j) χ of each row, k on the way from any task to the base     Eq. 29
    5      tips       frames, rows           blocks of Λ⁻¹                                                     Eq. 22

Step 4 is written in the paper as a recursion per pair of links, O(m²d). The claimed O(n·m) needs what is done here:
V(h, j) = V(h, h) ʰL*(j) for the links h that carry task j, then one outward sweep V(k, j) = L*(k) V(parent, j) over all
others. V(k, j) is applied to the rows of task j rather than kept as a 6×6 matrix. Step 6, the inverse, is common to all
methods and not done here.

`L` is 1 − G Sᵀ: in the frame of the tree the transforms of Eq. 2 are the identity. (28) prints Ω for V.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001, Table 1.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import mobility, task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def chang_khatib(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹, seen through a reference."""

    def chang_khatib(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, tip, block = tree.array("row"), tree.array("row"), tree.array("row", "row")
        reach, response = tree.array("node", "row"), tree.array("node", "row")
        task_space.place(tree, q, view, chi, parts=parts, any_basis=True)
        task_space.clear(tree, block)
        for row in tree.rows():
            tip[row] = chi[row]
            response[tree.world, row] = Motion.zero()

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            for row in tree.carried(k):
                reach[k, row] = chi[row]
                chi[row] = chi[row] - k.G @ (k.S.T @ chi[row])  # Eq. 8

        mobility.scatter(tree)  # Eq. 24

        for k, parent in tree.scatter():
            for row in tree.carried(k):
                response[k, row] = k.V @ reach[k, row]  # Eq. 29, k carries the task
            for row in tree.following(k):
                moved = response[parent, row]
                response[k, row] = moved - k.S @ (k.G.T @ moved)  # Eq. 29, it does not

        for frame, carrier in tree.frames():
            for one in tree.rows_of(frame):
                for other in tree.rows(one):
                    block[one, other] = tip[one].data @ response[carrier, other].data  # Eq. 22

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return chang_khatib
