"""Λ⁻¹ by the Popov–Vereshchagin sweep: one gather, nothing else. Cost O(n + m²d).

    pass      loop              leaves                                                      source
    place     scatter, frames   bodies and task rows χ in the frame of the tree
    sweep     gather, groups    Λ⁻¹ += (χS) D⁻¹ (χS)ᵀ at every joint, rows taken through it    [S24] PV-OSIM

At each joint two tasks feel each other through what the joint gives way to both. Summed over the joints that carry
both, this is Λ⁻¹.

[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree


def pv_osim(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹, seen through a reference."""

    def pv_osim(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("row"), tree.array("row", "row")
        felt = [tree.array("row") for _ in range(6)]
        task_space.place(tree, q, view, chi, parts=parts, any_basis=True)
        task_space.clear(tree, block)

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            task_space.feel(k, tree.carried_groups, chi, felt, block)

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return pv_osim
