"""Λ⁻¹ by weights: the rows of tasks propagated to the base through every node. Cost O(n·r²).

    pass      loop                 leaves                                                              source
    place     scatter              weight, pose, inertia of each node
    seed      frames, their rows   χ of each task at the node on which it acts
    sweep     gather, groups       χ(p) = Xᵀ(χ − G Hᵀχ);   Λ⁻¹ += (Hᵀχ)ᵀ D⁻¹ (Hᵀχ)                       Lemma 5, Eq. 33

With χ = ψ B this is Λ⁻¹ = Bᵀ Ω B with Ω = ψᵀ Hᵀ D⁻¹ H ψ (in the paper's notation), summed node by node as in `pv_osim`.
Nodes may have any number of components and degrees of freedom.

Rows of the centre of mass are forces M e on every node, for the motion e of the node when the world accelerates; their
propagated sum is χ(k) = P(k) e(k), as in `center_of_mass_rows`.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.operational_space import center_of_mass_rows, task_space
from kinetree.algorithms.operational_space.by_weights import frames
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.vector3 import pack3, stack, unpack3


def inverse_inertia(reference: str, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def weights(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("node", "sorted_rows", like="none"), tree.array("sorted_rows", "sorted_rows")
        frames.place(tree, q)
        articulated_inertia.start(tree)
        task_space.clear(tree, block)
        for k, _ in tree.scatter():
            k.P = k.M.articulated()
        frames.seed(tree, reference, parts, chi)
        for k, parent in tree.gather():
            articulated_inertia.hinge(k, parent)
            through(tree, k, parent, chi, block)
        finish(tree, reference, block, inverse_inertia, parts)

    return weights


def through(tree: Tree, k: Any, parent: Any, chi: Indexed, block: Indexed) -> None:
    """Propagate rows through a node, and add its contribution to Λ⁻¹ for all pairs of them.

    Args:
        tree: The mechanism.
        k: The node, with X, D and G.
        parent: Its parent.
        chi: The rows at each node.
        block: Λ⁻¹ accumulated so far.
    """
    for group, later in tree.carried_groups(k):
        parts, give = [], []
        for row in group.rows:
            force = chi[k, row]
            y = k.H.T @ force
            chi[parent, row] = k.X.T @ (force - k.G @ y)
            parts.append(k.D.forward(y))
            give.append([part * r for part, r in zip(parts[-1], k.D.reciprocals, strict=True)])
        for i, one in enumerate(group.rows):
            for j, other in enumerate(group.rows[i:], start=i):
                block[one, other] = block[one, other] + _dot(give[i], parts[j])
        for other in later:
            theirs = k.D.forward(k.H.T @ chi[k, other])
            for one, own in zip(group.rows, give, strict=True):
                block[one, other] = block[one, other] + _dot(own, theirs)


def finish(tree: Tree, reference: str, block: Indexed, inverse_inertia: Indexed, parts: Parts) -> None:
    """Fill in the rows of the centre of mass, given X, P, D and G, and write the result."""
    if parts.mass:
        tips = tree.array("sorted_rows")
        frames.rows(tree, reference, parts, tips)
        _fill(tree, tips, block)
    task_space.hand_over(tree, block, inverse_inertia, parts)


def _fill(tree: Tree, tips: Indexed, block: Indexed) -> None:
    """The blocks of Λ⁻¹ that belong to the centre of mass."""
    side = tree.array("sorted_rows")
    frames.fall(tree)
    for i in range(3):
        setattr(tree.world, f"A{i}", Motion.zero())
    tree.world.total = np.zeros(7)

    for k, parent in tree.scatter():
        y = [k.H.T @ (k.P @ getattr(k, f"e{i}")) for i in range(3)]
        for i in range(3):
            onward = k.X @ getattr(parent, f"A{i}")
            setattr(k, f"A{i}", onward + k.H @ (k.D.solve(y[i]) - k.G.T @ onward))
        forward = [k.D.forward(each) for each in y]
        scaled = [[x * r for x, r in zip(each, k.D.reciprocals, strict=True)] for each in forward]
        given = np.array([[_dot(one, other) for other in scaled] for one in forward])
        k.total = stack(k.e0.dot(k.M @ k.e0), pack3(given))
    for k, parent in tree.gather():
        parent.total += k.total

    share = 1.0 / tree.world.total[0]
    corner = unpack3(tree.world.total[1:]) * (share * share)
    for frame, carrier in tree.frames():
        for row in tree.rows_of(frame):
            side[row] = np.array([getattr(carrier, f"A{i}").dot(tips[row]) for i in range(3)]) * share
    center_of_mass_rows.write(tree, corner, side, block)


def _dot(one: list[Any], other: list[Any]) -> Any:
    return sum((a * b for a, b in zip(one, other, strict=True)), 0.0)
