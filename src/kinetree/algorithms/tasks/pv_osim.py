"""Λ⁻¹ by the Popov–Vereshchagin sweep (PV-OSIM): a single inward pass. Cost O(n + m²d).

    pass      loop                 leaves                                                              source
    place     scatter              weights and poses of all nodes
    seed      frames, their rows   K of each task: its rows at the body on which they act              [S24]
    sweep     gather, groups       K propagated through every joint, and L += (K S) D⁻¹ (K S)ᵀ there    [S24]

The solver of Popov and Vereshchagin propagates the rows K of all constraints from the tips to the base, together with
L, the accelerations that unit forces along the rows produce through the joints passed so far. With U = I^A S,

    K(p) = [K(p); (K − (K S) D⁻¹ Uᵀ) X]        L(p) = blkdiag(L(p), L + (K S) D⁻¹ (K S)ᵀ)

and L at the base is Λ⁻¹. A floating base is a joint with six degrees of freedom and needs no extra term. Here S is H,
`G` is U D⁻¹, `chi` is K and `block` is L, in which the blocks of all subtrees lie side by side from the start. Nodes
may have any number of components and degrees of freedom.

[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.roles import GroupRole, RowRole
from kinetree.language.tree import Indexed, Tree

#: Of `tree.carried_groups`, or `accumulation.passing_groups` where there are accumulation nodes.
Groups = Iterator[tuple[GroupRole, Iterator[RowRole]]]


def pv_osim(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def pv_osim(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.inward("sorted_rows", like="none"), tree.array("sorted_rows", "sorted_rows")
        scaled = [tree.array("sorted_rows") for _ in range(task_space.place(tree, q))]
        task_space.clear(tree, block)
        task_space.seed(tree, reference, chi, parts)

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            through_joint(k, parent, k.subspace, tree.carried_groups(k), chi, scaled, block)

        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return pv_osim


def through_joint(
    k: Any, parent: Any, H: Any, groups: Groups, chi: Indexed, scaled: list[Indexed], block: Indexed
) -> None:
    """Propagate rows through the joint of a node with X, D and G, and add its share of Λ⁻¹ for all pairs of them.

    H is the basis of its motions to which D and G belong; `scaled` has an array for each possible degree of freedom of
    a joint, for `task_space.accumulate`.
    """
    for group, later in groups:
        KS = []
        for row in group.rows:
            force = chi[k, row]
            KS.append(H.T @ force)
            chi[parent, row] = k.X.T @ k.G.past(force, KS[-1])  # (K − (K S) D⁻¹ Uᵀ) X
        task_space.accumulate(group, later, k.D, KS, scaled, block)  # L + (K S) D⁻¹ (K S)ᵀ
