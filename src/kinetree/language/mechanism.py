"""A tree of nodes with their constants: everything an engine knows about a robot.

Nodes are numbered depth first, so that every subtree is a contiguous range and a parent precedes its children. The
world is node −1; it may have several children (a forest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from kinetree.language.node import NodeKind
from kinetree.spatial.value import Array

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


#: The roles that a frame can play in a task.
PARTS = ("frame", "near", "far", "mass")


@dataclass(frozen=True, eq=False)
class Site:
    """A frame fixed to a node, or to the world (node −1), and its part in a task."""

    name: str
    node: int  # the node that carries it
    placement: Array  # the 12 numbers of the transform from the node's coordinates to the frame's
    #: The components of the frame's motion that make up the task, angular ones first.
    rows: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    #: "frame": the task is the motion of the frame. "near", followed by a site with "far": the task is the motion of
    #: the far frame relative to the near one, and they share their rows. "mass": the task is the motion of the centre
    #: of mass; the world carries the frame.
    part: str = "frame"


def _starts(length: Callable[[NodeKind], int]) -> cached_property[tuple[int, ...]]:
    return cached_property(lambda mechanism: tuple(accumulate(map(length, mechanism.kinds), initial=0)))


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Nodes numbered depth first, each with its kind and constants."""

    parents: tuple[int, ...]  # parent of each node, −1 for the world
    kinds: tuple[NodeKind, ...]
    parameters: tuple[Array, ...] = field(repr=False)  # constants of each node, float64, `parameter_count` of its kind
    names: tuple[str, ...]  # name of each node, for messages
    gravity: Array  # gravitational acceleration in the world frame, (3,) [m/s²]
    #: Makes the same robot with nodes for further frames, in the same coordinates, if it differs.
    with_every_frame: Callable[[], Mechanism] | None = field(default=None, repr=False)
    #: The floating-point format in which functions compute, "float64" or "float32". Constants are float64 in either
    #: case.
    scalar: str = "float64"
    #: Empty, unless functions run on code made for this robot alone where that is expected to be faster for "single"
    #: samples, for "batch"es, or for "both" on average.
    specialized: str = ""

    @cached_property
    def reaching(self) -> Mechanism | None:
        """The same robot with nodes for further frames, if it differs. `Site`s refer to its nodes."""
        if self.with_every_frame is None:
            return None
        return replace(self.with_every_frame(), scalar=self.scalar, specialized=self.specialized)

    def at(self, sites: Sequence[Site]) -> Mechanism:
        """The mechanism on which functions of some frames run."""
        return self.reaching if sites and self.reaching is not None else self

    def computing_in(self, scalar: str) -> Mechanism:
        """The same robot, with functions that compute in a floating-point format."""
        return self if scalar == self.scalar else replace(self, scalar=scalar)

    def with_own_code(self, aim: str) -> Mechanism:
        """The same robot, specialized for "single", "batch" or "both"."""
        return replace(self, specialized=aim)

    @cached_property
    def topology(self) -> Topology:
        return Topology(self.parents)

    @cached_property
    def has_rotors(self) -> bool:
        """Whether any node has armature."""
        return any(np.any(kind.armature(own)) for kind, own in zip(self.kinds, self.parameters, strict=True))

    #: Where the part of each node starts, followed by the length of the whole: in q, in v, among the components of all
    #: nodes' velocities, among the velocities of all joints, among the constraints that close loops, and among the
    #: constants of all nodes.
    q_starts = _starts(lambda kind: kind.nq)
    v_starts = _starts(lambda kind: kind.nv)
    m_starts = _starts(lambda kind: kind.dimension)
    joint_starts = _starts(lambda kind: kind.joint_rates)
    loop_starts = _starts(lambda kind: kind.loop_rows)
    constant_starts = _starts(lambda kind: kind.parameter_count)

    @cached_property
    def column_parents(self) -> tuple[int, ...]:
        """For each degree of freedom, the next one towards the base, or −1 for none.

        Joints with several degrees of freedom count as chains: Featherstone's expanded parent array.
        """
        found: list[int] = []
        for k, kind in enumerate(self.kinds):
            found += [self.column_above(k), *range(self.v_starts[k], self.v_starts[k + 1] - 1)][: kind.nv]
        return tuple(found)

    def column_above(self, k: int) -> int:
        """The last degree of freedom among the ancestors of k, or −1 for none."""
        parent = self.parents[k]
        while parent != WORLD and self.kinds[parent].nv == 0:
            parent = self.parents[parent]
        return -1 if parent == WORLD else self.v_starts[parent + 1] - 1

    @cached_property
    def first_general(self) -> str | None:
        """Name of the first node that is not a rigid body; None if all are."""
        return next((name for name, kind in zip(self.names, self.kinds, strict=True) if not kind.rigid), None)

    @property
    def nq(self) -> int:
        return self.q_starts[-1]

    @property
    def nv(self) -> int:
        return self.v_starts[-1]

    @cached_property
    def total_parameters(self) -> Array:
        """The constants of all nodes in one array."""
        return np.concatenate([np.zeros(0), *self.parameters])


@dataclass(frozen=True, eq=False)
class Sizes(Mechanism):
    """What a dense kernel runs on: no nodes, but named sizes (`kinetree.kernels.language`)."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Sequence[tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def made(cls, sizes: Mapping[str, int], scalar: str, lists: Mapping[str, Sequence[tuple[int, ...]]]) -> Sizes:
        """From the length of each dimension, in a floating-point format, with lists of indices."""
        return cls((), (), (), (), np.zeros(3), scalar=scalar, sizes=dict(sizes), lists=dict(lists))

    @staticmethod
    def of(mechanism: Mechanism) -> Mapping[str, int]:
        """The named sizes of a mechanism; those with nodes have none."""
        return mechanism.sizes if isinstance(mechanism, Sizes) else {}

    @staticmethod
    def lists_of(mechanism: Mechanism) -> Mapping[str, Sequence[tuple[int, ...]]]:
        """The lists of indices of a mechanism; those with nodes have none."""
        return mechanism.lists if isinstance(mechanism, Sizes) else {}
