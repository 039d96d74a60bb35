"""How many rows of tasks can be independent at best, from the structure of the tree alone."""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.topology import WORLD

#: Independent rows of frames on one rigid body.
_RIGID = 6


def most_independent_rows(mechanism: Mechanism, sites: Sequence[Site]) -> int:
    """An upper bound of the rank of J at any configuration.

    Of the rows that a subtree carries, no more are independent than its joints have degrees of freedom, and of those of
    frames on one body no more than six. If the body that the subtree begins with can move in any way, six are added to
    those of the subtrees that it carries. The bound follows from tips to base.

    Args:
        mechanism: The robot.
        sites: The frames, with their rows and their parts in tasks.
    """
    if mechanism.first_general is not None or any(site.part != "frame" for site in sites):
        return mechanism.nv
    rows: dict[int, int] = {}
    for site in sites:
        rows[site.node] = rows.get(site.node, 0) + len(site.rows)
    rows.pop(WORLD, None)
    # of each node that carries rows: those of all its children's subtrees if it can move in any way, or not at all
    moving: dict[int, int] = {}
    still: dict[int, int] = {}
    for node in reversed(mechanism.topology.supporting(rows)):
        carried = still.get(node, 0)
        free = min(min(rows.get(node, 0), _RIGID) + moving.get(node, 0), _RIGID + carried)
        held = min(free, mechanism.kinds[node].nv + carried)
        parent = mechanism.parents[node]
        moving[parent] = moving.get(parent, 0) + free
        still[parent] = still.get(parent, 0) + held
    return still.get(WORLD, 0)
