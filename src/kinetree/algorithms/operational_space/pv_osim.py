"""Λ⁻¹ by the Popov–Vereshchagin sweep (PV-OSIM): a single inward pass. Cost O(n + m²d).

    pass      loop                 leaves                                                              source
    place     scatter              motions and articulated inertias in the frame of the tree
    seed      frames, their rows   K of each task: its rows at the body on which they act              [S24]
    sweep     gather, groups       K propagated through every joint, and L += (K S) D⁻¹ (K S)ᵀ there    [S24]

The solver of Popov and Vereshchagin propagates the rows K of all constraints from the tips to the base, together with
L, the accelerations that unit forces along the rows produce through the joints passed so far. With U = I^A S,

    K(p) = [K(p); (K − (K S) D⁻¹ Uᵀ) X]        L(p) = blkdiag(L(p), L + (K S) D⁻¹ (K S)ᵀ)

and L at the base is Λ⁻¹. A floating base is a joint with six degrees of freedom and needs no extra term. Here X = 1,
`G` is U D⁻¹, `chi` is K and `block` is L, in which the blocks of all subtrees lie side by side from the start.

[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.roles import GroupRole, RowRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia

#: `tree.carried_groups`, or `accumulation.passing_groups` where there are accumulation nodes.
Groups = Callable[..., Iterator[tuple[GroupRole, Iterator[RowRole]]]]


def pv_osim(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def pv_osim(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("sorted_rows"), tree.array("sorted_rows", "sorted_rows")
        scaled = [tree.array("sorted_rows") for _ in range(6)]
        tree_frame.start(tree)
        tree.world.P = ArticulatedInertia.zero()
        task_space.clear(tree, block)

        for k, parent in tree.scatter():
            tree_frame.move(k, parent, q)
            k.S = k.H.basis(k.C, k.armature)
            k.inertia = k.C.congruence(k.M)
            k.P = k.inertia.articulated()
        task_space.rows(tree, view, chi, parts)

        for k, parent in tree.gather():
            k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)
            parent.P += P_plus
            through_joint(k, tree.carried_groups, chi, scaled, block)

        task_space.finish(tree, view, block, inverse_inertia, parts)

    return pv_osim


def through_joint(k: Any, groups: Groups, chi: Indexed, scaled: list[Indexed], block: Indexed) -> None:
    """Propagate rows through a joint, and add the joint's contribution to Λ⁻¹ for all pairs of them.

    Args:
        k: The node, with S, D and G.
        groups: The rows that pass through its joint, one task at a time.
        chi: The rows.
        scaled: One array for each possible degree of freedom of a joint, for `task_space.accumulate`.
        block: Λ⁻¹ accumulated so far.
    """
    for group, later in groups(k):
        KS = []
        for row in group.rows:
            KS.append(k.S.T @ chi[row])
            chi[row] = chi[row] - k.G @ KS[-1]  # K − (K S) D⁻¹ Uᵀ
        task_space.accumulate(group, later, k.D, KS, scaled, block)  # L + (K S) D⁻¹ (K S)ᵀ
