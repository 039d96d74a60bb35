"""The topology of a tree: parents, children, subtrees, supports.

Nodes are numbered depth first, so that every subtree is a contiguous range and a parent precedes its children. The
world is node −1; it may have several children (a forest).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

WORLD = -1


def depth_first(roots: Sequence[str], children: Mapping[str, Sequence[str]]) -> list[str]:
    """Names in depth-first order, siblings as given."""
    order: list[str] = []
    pending = list(reversed(roots))
    while pending:
        order.append(name := pending.pop())
        pending += children[name][::-1]
    return order


class Topology:
    """A tree given by the parent of each node."""

    def __init__(self, parents: tuple[int, ...]) -> None:
        for node, parent in enumerate(parents):
            if not WORLD <= parent < node:
                raise ValueError(f"node {node} has parent {parent}: nodes must be numbered after their parents")
        self.parents = parents
        sizes = [1] * len(parents)
        for node in reversed(range(len(parents))):
            if self.subtree_end(node) - node != sizes[node]:
                raise ValueError(f"nodes are not numbered depth first: the subtree of node {node} is not contiguous")
            if parents[node] != WORLD:
                sizes[parents[node]] += sizes[node]

    def __len__(self) -> int:
        return len(self.parents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.parents == other.parents

    def __hash__(self) -> int:
        return hash(self.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each node; the last entry, which index −1 reads, holds those of the world."""
        lists: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for node, parent in enumerate(self.parents):
            lists[parent].append(node)
        return tuple(map(tuple, lists))

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        ends = list(range(1, len(self) + 1))
        for node in reversed(range(len(self))):
            parent = self.parents[node]
            if parent != WORLD:
                ends[parent] = max(ends[parent], ends[node])
        return tuple(ends)

    def subtree_end(self, node: int) -> int:
        """One past the last node of the subtree rooted at `node`."""
        return len(self) if node == WORLD else self._ends[node]

    def subtree(self, node: int) -> range:
        """The node and all its descendants."""
        return range(max(node, 0), self.subtree_end(node))

    def support(self, node: int) -> tuple[int, ...]:
        """The node and its ancestors, base first, without the world."""
        path = []
        while node != WORLD:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def supporting(self, nodes: Iterable[int]) -> list[int]:
        """Some nodes and their ancestors, base to tips, without the world."""
        found: set[int] = {WORLD}
        for node in nodes:
            while node not in found:
                found.add(node)
                node = self.parents[node]
        return sorted(found - {WORLD})

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of joints between each node and the world."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == WORLD else depths[parent] + 1)
        return tuple(depths)

    def nearest_common_ancestor(self, one: int, other: int) -> int:
        """The last node that supports both, possibly one of them; the world if there is none."""
        while one != other:
            if one > other:
                one = self.parents[one]
            else:
                other = self.parents[other]
        return one

    @cached_property
    def segments(self) -> tuple[tuple[int, ...], ...]:
        """The serial chains between branchings, base first, in order of their first node. [J11] §7."""
        segments: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            if parent == WORLD or len(self.children[parent]) > 1:
                segments.append([node])
            else:
                next(s for s in reversed(segments) if s[-1] == parent).append(node)
        return tuple(map(tuple, segments))
