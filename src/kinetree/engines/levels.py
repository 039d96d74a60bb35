"""Groups of nodes in trees of many thousand nodes, level by level.

Subtrees that take turns (`kinetree.engines.subtrees`) have groups of their own. They are *parts* of the tree, which
follow the part with the nodes that carry them. In each part, nodes of the same level and variant form groups; the level
of a node comes after that of its parent, and not before those of its earlier siblings. There are a few more groups than
`kinetree.engines.groups` would find, but all parts are divided at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinetree.engines.groups import LANES
from kinetree.recursion.topology import WORLD
from kinetree.spatial.value import Array


def parts_of(parents: Array, turns: Sequence[tuple[int, int]]) -> Array:
    """The number of the part of each node: 0 if it carries others.

    Part 0 comes back last. So that siblings add to their parent in order, nodes with later siblings there belong to it.

    Args:
        parents: For each node, its parent.
        turns: Ranges of subtrees that take turns, in this order.
    """
    nodes, parts = np.arange(len(parents)), np.zeros(len(parents), dtype=np.int64)
    for number, (first, end) in enumerate(reversed(turns), 1):
        parts[first:end] = number
    carrying = np.flatnonzero(parts == 0)
    last = np.full(len(parents) + 1, WORLD)  # the world's is at the end
    last[parents[carrying]] = carrying  # of several, the last remains
    parts[nodes < last[parents]] = 0
    return parts


def groups_by_level(parents: Array, variants: Array, parts: Array) -> tuple[Array, Array]:
    """Partition a tree into groups.

    Args:
        parents: For each node, its parent.
        variants: For each node, its variant.
        parts: For each node, its part.

    Returns:
        The nodes in the lanes of each group, (n, LANES), in the order of parts, and the part of each group. Lanes that
        are left over repeat nodes of the group.
    """
    levels, ranks = _levels(parents, variants, parts), _ranks(parents)
    above = np.append(parents, WORLD)
    # numbers of the world are at the end, and it is in all lanes
    group_of, lane_of = np.zeros((2, len(above)), dtype=np.int64)
    members, count = np.full((len(above), LANES), WORLD), 0
    group_of[WORLD] = len(parents)
    order = np.argsort(levels, kind="stable")
    for nodes in np.split(order, np.flatnonzero(np.diff(levels[order])) + 1):
        # siblings in order; first children in the order of the lanes of their parents
        keys = lane_of[above[nodes]], ranks[nodes], group_of[above[nodes]], variants[nodes], parts[nodes]
        nodes = nodes[np.lexsort(keys)]
        starts = np.append(True, np.diff(variants[nodes]) | np.diff(parts[nodes]))
        numbers = np.arange(len(nodes))
        places = (numbers - np.maximum.accumulate(numbers * (starts != 0))) % LANES
        chosen = np.full((np.count_nonzero(places == 0), LANES), WORLD)
        chosen[np.cumsum(places == 0) - 1, places] = nodes
        own = np.arange(count, count + len(chosen))
        members[own] = _placed(chosen, above, lane_of, members[group_of[above[chosen[:, 0]]]])
        for lane in reversed(range(LANES)):  # of several lanes, a node counts as being in the first
            group_of[members[own, lane]], lane_of[members[own, lane]] = own, lane
        count += len(own)
    of_group = parts[members[:count, 0]]
    order = np.argsort(of_group, kind="stable")
    return members[order], of_group[order]


def _levels(parents: Array, variants: Array, parts: Array) -> Array:
    """For each node, the level of its group: groups of a level are in the order of their variants."""
    levels = [0] * len(parents)
    part_of = [*parts.tolist(), WORLD]
    # of each parent's children so far, the last: its part, level and variant
    part_before, level_before, variant_before = ([WORLD] * len(part_of) for _ in range(3))
    for node, (parent, variant, part) in enumerate(zip(parents.tolist(), variants.tolist(), part_of, strict=False)):
        level = 0 if part_of[parent] != part else levels[parent] + 1
        if part_before[parent] == part:
            level = max(level, level_before[parent] + (variant < variant_before[parent]))
        levels[node] = level
        part_before[parent], level_before[parent], variant_before[parent] = part, level, variant
    return np.array(levels, dtype=np.int64)


def _ranks(parents: Array) -> Array:
    """For each node, the number of its earlier siblings."""
    order = np.argsort(parents, kind="stable")
    numbers, starts = np.arange(len(parents)), np.append(True, np.diff(parents[order]) != 0)
    found = np.zeros(len(parents), dtype=np.int64)
    found[order] = numbers - np.maximum.accumulate(numbers * starts[: len(parents)])
    return found


def _placed(chosen: Array, above: Array, lane_of: Array, around: Array) -> Array:
    """Assign nodes to lanes: where possible to that of the parent, whose fields are then loaded as a vector.

    Args:
        chosen: The nodes of each group, followed by −1.
        above: For each node, its parent.
        lane_of: The lanes of nodes of earlier groups.
        around: The group of the first node's parent.
    """
    rows, made, left = np.arange(len(chosen)), np.full(chosen.shape, WORLD), chosen != WORLD
    for i in range(LANES):
        wanted = lane_of[above[chosen[:, i]]]
        fits = left[:, i] & (made[rows, wanted] == WORLD)
        made[rows[fits], wanted[fits]] = chosen[fits, i]
        left[fits, i] = False
    for i in range(LANES):
        late = rows[left[:, i]]
        made[late, np.argmax(made[late] == WORLD, axis=1)] = chosen[late, i]
    # lanes that are left over repeat a node whose parent is there
    for lane in range(LANES):
        empty, repeated = made[:, lane] == WORLD, chosen[:, 0].copy()
        for i in range(LANES):
            fits = (chosen[:, i] != WORLD) & (above[chosen[:, i]] == around[:, lane])
            repeated[fits] = chosen[fits, i]
        made[empty, lane] = repeated[empty]
    return made
