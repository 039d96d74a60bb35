"""What the algorithms for Λ⁻¹ share: the mechanism in the frame of its tree, hinges, and the rows of the tasks.

A row χ of a task is a force: χᵀ m is the component of a body's motion m that the row stands for. In the frame of the
tree rows of all tasks, wherever they are, can be taken through a joint with the same few multiplications:

    χ ← χ − G (Sᵀ χ)        the articulated bodies behind the joint give way

which is [W12] Eq. 11, χ L X with X = 1, one row at a time.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ramify.algorithms import tree_frame
from ramify.algorithms.kinematics import View
from ramify.recursion.roles import RowRole
from ramify.recursion.tree import Indexed, Tree
from ramify.spatial.inertia import ArticulatedInertia
from ramify.spatial.symmetric import Factor

#: `tree.carried` or `tree.passing`.
Loop = Callable[..., Iterator[RowRole]]


def place(tree: Tree, q: Indexed, view: View, chi: Indexed, *, any_basis: bool = False) -> None:
    """Put the mechanism into the frame of its tree, and the rows of all tasks into `chi`.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        view: How the tasks are seen.
        chi: Filled.
        any_basis: Joint coordinates do not matter, as for Λ⁻¹: S is any basis of each joint's motions. Those of a
            floating base are all motions, in the tree's frame as in its own.
    """
    tree_frame.start(tree)
    tree.world.P = ArticulatedInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.move(k, parent, q)
        k.S = k.H.basis(k.C, k.armature) if any_basis else k.H.map(k.C.back)
        k.P = k.C.congruence(k.M).articulated()

    rows(tree, view, chi)


def rows(tree: Tree, view: View, chi: Indexed) -> None:
    """Put the rows of all tasks into `chi`, once the carriers are placed."""
    for frame, carrier in tree.frames():
        seen = view(frame.X @ carrier.C, carrier.origin)
        for row in frame.rows():
            chi[row] = seen.T @ row.unit()


def hinge(k: Any, parent: Any) -> None:
    """Leave S, D and G at the node, and hand P⁺ to the parent. [J11] Eqs. 32 and 33 with A = 1."""
    k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)
    parent.P += P_plus


def feel(k: Any, passing: Loop, chi: Indexed, felt: list[Indexed], block: Indexed) -> None:
    """Take rows through a joint, and add to Λ⁻¹ what the joint gives way: (χS) D⁻¹ (χS)ᵀ of all pairs that pass it.

    Args:
        k: The node, with its hinge.
        passing: A loop over the rows that pass it, or over those from one on.
        chi: The rows.
        felt: One array per degree of freedom that a joint may have.
        block: Λ⁻¹, so far.
    """
    for row in passing(k):
        along = k.S.along(chi[row])
        for i, part in enumerate(k.D.forward(along)):
            felt[i][row] = part
        chi[row] = chi[row] - k.G @ along
    share(k, passing, k.D, felt, block)


def share(k: Any, passing: Loop, D: Factor, felt: list[Indexed], block: Indexed) -> None:
    """Add y D⁻¹ yᵀ to Λ⁻¹, for all pairs of rows that pass a joint.

    The pivots of D = L d Lᵀ stand in for D⁻¹, so that joints of many degrees of freedom need no dense inverse: `felt`
    holds L⁻¹ yᵀ of each row.
    """
    for one in passing(k):
        give = [felt[i][one] * r for i, r in enumerate(D.reciprocals)]
        for other in passing(k, one):
            block[one, other] = block[one, other] + sum(part * felt[i][other] for i, part in enumerate(give))


def clear(tree: Tree, block: Indexed) -> None:
    """Pairs of tasks that no moving body supports together do not feel each other."""
    for one in tree.rows():
        for other in tree.rows(one):
            block[one, other] = 0.0


def hand_over(tree: Tree, block: Indexed, inverse_inertia: Indexed) -> None:
    """Give the result in the order in which tasks were asked for."""
    for one in tree.rows():
        for other in tree.rows(one):
            inverse_inertia[one, other] = block[one, other]
            inverse_inertia[other, one] = block[one, other]
