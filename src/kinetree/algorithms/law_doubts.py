"""Counts how often the law of `operational_space.control_law` was too close to a singularity to be trusted."""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import select


@algorithm(spread=(), before=(), after=(), outputs=("after",), any_node=True)
def law_doubts(tree: Tree, spread: Indexed, before: Indexed, after: Indexed) -> None:
    """Add one unless the law's `spread` is less than one.

    Args:
        tree: Not used.
        spread: As of `control_law`; NaN counts.
        before: The number so far.
        after: The number.
    """
    del tree
    after[...] = before[...] + select(spread[...][()], 1.0, 0.0, 1.0)
