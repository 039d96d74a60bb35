"""What the algorithms for Λ⁻¹ share: the mechanism in the frame of its tree, hinges, and the rows of the tasks.

A row χ of a task is a force: χᵀ m is the component of a body's motion m that the row stands for. In the frame of the
tree rows of all tasks, wherever they are, can be taken through a joint with the same few multiplications:

    χ ← χ − G (Sᵀ χ)        the articulated bodies behind the joint give way

which is [W12] Eq. 11, χ L X with X = 1, one row at a time.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from typing import Any

from ramify.algorithms import tree_frame
from ramify.algorithms.kinematics import View
from ramify.recursion.tree import Indexed, Tree
from ramify.spatial.inertia import ArticulatedInertia


def place(tree: Tree, q: Indexed, view: View, chi: Indexed) -> None:
    """Put the mechanism into the frame of its tree, and the rows of all tasks into `chi`."""
    tree_frame.start(tree)
    tree.world.P = ArticulatedInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.P = k.C.congruence(k.M).articulated()

    for frame, carrier in tree.frames():
        seen = view(frame.X @ carrier.C, carrier.origin)
        for row in frame.rows():
            chi[row] = seen.T @ row.unit()


def hinge(k: Any, parent: Any) -> None:
    """Leave S, D and G at the node, and hand P⁺ to the parent. [J11] Eqs. 32 and 33 with A = 1."""
    k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)
    parent.P += P_plus


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
