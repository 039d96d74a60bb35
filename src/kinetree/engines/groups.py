"""Groups of nodes that a single sample computes at once, one node per lane.

Nodes of a group share a variant, so that one loop body serves them all. Groups are ordered: a node's group comes after
that of its parent, and not before that of an earlier sibling. Visited backwards, siblings therefore add to their parent
in the same order as one node at a time, and sums have the same bits.

Finding the fewest groups is the scheduling of a tree on machines that can only do equal jobs at a time. The highest
nodes first is the usual rule: those with the longest way to a tip.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heappop, heappush

from kinetree.recursion.topology import WORLD, Topology

#: Nodes per group. Wider groups are rarely full, and cost twice as much on processors with registers of four numbers.
LANES = 4

#: Groups must cost at most this fraction of single nodes.
WORTH = 0.8
#: It would take too long to find groups of more nodes in this way.
MOST_NODES = 20_000

Group = tuple[int, ...]


def may_pay(topology: Topology, worth: float = WORTH) -> bool:
    """Whether groups of a tree can be worthwhile: the longest way to a tip takes as many groups as it has nodes."""
    return 0 < max(topology.depths, default=0) <= worth * len(topology) and len(topology) <= MOST_NODES


@lru_cache(maxsize=32)
def grouped(topology: Topology, variants: tuple[int, ...]) -> list[Group]:
    """Partition a tree into groups.

    Args:
        topology: The tree.
        variants: The variant of each node.

    Returns:
        The nodes in the lanes of each group. Lanes that are left over repeat nodes of the group.
    """
    heights, leaves = _heights_and_leaves(topology)
    # a node waits for its earlier siblings, so it is as urgent as the highest of those that wait for it
    urgency = list(heights)
    following = [WORLD] * len(topology)
    for children in topology.children:
        for before, after in zip(reversed(children[:-1]), reversed(children[1:]), strict=True):
            urgency[before] = max(urgency[before], urgency[after])
            following[before] = after

    groups: list[Group] = []
    home: dict[int, int] = {WORLD: 0}
    ready: dict[int, list[tuple[int, int, int]]] = {}

    def release(node: int) -> None:
        # equally urgent ones whose parents are in the same group stay together
        place = -urgency[node], -home[topology.parents[node]], node
        heappush(ready.setdefault(variants[node], []), place)

    for first in topology.children[WORLD][:1]:
        release(first)
    while any(ready.values()):
        waiting = min((heap[0][0], -len(heap), variant) for variant, heap in ready.items() if heap)[-1]
        chosen: list[int] = []
        while ready[waiting] and len(chosen) < LANES:
            chosen.append(heappop(ready[waiting])[-1])
            if following[chosen[-1]] != WORLD:
                release(following[chosen[-1]])
        for node in chosen:
            home[node] = len(groups)
            for first in topology.children[node][:1]:
                release(first)
        groups.append(_placed(chosen, topology, groups, home, leaves))
    return groups


def _heights_and_leaves(topology: Topology) -> tuple[list[int], list[int]]:
    """For each node, the number of nodes on the way to its farthest tip, and the number of its tips."""
    heights, leaves = [1] * len(topology), [0] * len(topology)
    for node in reversed(range(len(topology))):
        leaves[node] = leaves[node] or 1
        parent = topology.parents[node]
        if parent != WORLD:
            heights[parent] = max(heights[parent], heights[node] + 1)
            leaves[parent] += leaves[node]
    return heights, leaves


def _placed(
    nodes: list[int], topology: Topology, groups: list[Group], home: dict[int, int], leaves: list[int]
) -> Group:
    """Assign nodes to lanes: where possible to that of the parent, whose fields are then loaded as a vector.

    Lanes that are left over repeat the node with the most tips per lane, whose children will need them.
    """
    parents = [topology.parents[node] for node in nodes]
    homes = [home[parent] for parent in parents if parent != WORLD]
    above = groups[max(set(homes), key=lambda g: (homes.count(g), g))] if homes else (WORLD,) * LANES
    lanes: list[int | None] = [None] * LANES
    left = []
    for node, parent in zip(nodes, parents, strict=True):
        free = [lane for lane in range(LANES) if lanes[lane] is None and above[lane] == parent]
        if free:
            lanes[free[0]] = node
        else:
            left.append(node)
    for node in left:
        lanes[lanes.index(None)] = node
    while None in lanes:
        lane = lanes.index(None)
        fitting = [node for node, parent in zip(nodes, parents, strict=True) if parent == above[lane]] or nodes
        lanes[lane] = max(fitting, key=lambda node: leaves[node] / lanes.count(node))
    return tuple(node for node in lanes if node is not None)
