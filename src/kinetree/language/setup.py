"""A mechanism with the frames of a call: the rows of its tasks, dimensions of arrays, and variants of loop bodies.

A task row is one scalar direction of a frame. Rows are numbered so that those carried by any subtree are contiguous, as
columns are, with those of the subtree's root first. The user's order is kept if it satisfies this and all tasks are
single frames; otherwise rows are sorted by the node that carries them, the world first. Inputs and outputs keep the
user's order. Each end of a relative task has rows of its own. Corresponding rows of both ends share one position in the
user's order, where their sum is stored.

Variants are the combinations of node kinds and parent ports that occur in a mechanism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from kinetree.language.mechanism import WORLD, Mechanism, Site, Topology
from kinetree.language.node import NodeKind

_T = TypeVar("_T")


#: Offset to the other end of a relative task.
_PARTNER = {"near": 1, "far": -1}


class Rows:
    """The task rows of a mechanism with given frames.

    Attributes:
        starts: For each frame, the number of its first row.
        task_starts: For each frame, the position of its first row in the order of the tasks.
        count: Number of rows.
        task_row_count: Number of task rows; smaller than `count` if there are relative tasks.
    """

    def __init__(self, mechanism: Mechanism, sites: Sequence[Site]) -> None:
        self._topology, self._sites = mechanism.topology, sites
        ends = tuple(accumulate(0 if site.part == "near" else len(site.rows) for site in sites))
        # a near end and the far end after it start at the same position
        self.task_starts = tuple(
            end - (0 if site.part == "near" else len(site.rows)) for end, site in zip(ends, sites, strict=True)
        )
        self.count = sum(len(site.rows) for site in sites)
        self.task_row_count = ends[-1] if ends else 0
        # ends of relative tasks share positions, and rows of the centre of mass come first
        kept = all(site.part == "frame" for site in sites) and self._together()
        self._order = sorted(range(len(sites)), key=lambda i: 0 if kept else sites[i].node)
        starts, self._firsts = [0] * len(sites), [0]
        for i in self._order:
            starts[i] = self._firsts[-1]
            self._firsts.append(self._firsts[-1] + len(sites[i].rows))
        self.starts = tuple(starts)

    @cached_property
    def task_rows(self) -> tuple[int, ...]:
        """For each row, its position in the user's order."""
        return tuple(self.task_starts[i] + local for i in self._order for local in range(len(self._sites[i].rows)))

    @property
    def in_order(self) -> bool:
        """Whether rows are numbered in the user's order."""
        return self.task_rows == tuple(range(self.count))

    @cached_property
    def _spans(self) -> dict[int, range]:
        """For each node, the frames that its subtree carries, as positions in the row order."""
        return self._between_first_and_last(self._order)

    def _between_first_and_last(self, order: Sequence[int]) -> dict[int, range]:
        spans: dict[int, range] = {}
        for place, i in enumerate(order):
            for k in self.path(i):
                spans[k] = range(spans[k].start if k in spans else place, place + 1)
        return spans

    def _together(self) -> bool:
        """Whether the user's order keeps each subtree's frames contiguous, with those of the subtree's root first."""
        carried = Counter(k for i in range(len(self._sites)) for k in self.path(i))
        own = Counter(site.node for site in self._sites)
        return all(
            len(span) == carried[k] and all(self._sites[i].node == k for i in span[: own[k]])
            for k, span in self._between_first_and_last(range(len(self._sites))).items()
        )

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """The rows of each frame, in the row order."""
        return tuple(self.of(i) for i in self._order)

    def carried_groups(self, node: int) -> range:
        """Positions in `groups` of the frames that a node and its subtree carry."""
        return self._spans.get(node, range(0))

    def carried(self, node: int) -> range:
        """The rows of all frames that a node and its subtree carry."""
        groups = self.carried_groups(node)
        return range(self._firsts[groups.start], self._firsts[groups.stop])

    def following(self, node: int) -> range:
        """The rows after those that a node and its subtree carry; none if they carry none."""
        carried = self.carried(node)
        return range(carried.stop, self.count if carried else carried.stop)

    def of(self, frame: int) -> range:
        """The rows of a frame."""
        return range(self.starts[frame], self.starts[frame] + len(self._sites[frame].rows))

    @cached_property
    def tasks(self) -> tuple[range, ...]:
        """The positions of each task's rows in the user's order."""
        tasks = (
            (start, site) for start, site in zip(self.task_starts, self._sites, strict=True) if site.part != "near"
        )
        return tuple(range(start, start + len(site.rows)) for start, site in tasks)

    @cached_property
    def relatives(self) -> tuple[tuple[int, int], ...]:
        """The near and the far end of each relative task."""
        return tuple((i, i + 1) for i, site in enumerate(self._sites) if site.part == "near")

    def support(self, frame: int) -> tuple[int, ...]:
        """The nodes that move a frame, base first; for an end of a relative task, without those that move both ends."""
        part, own = self._sites[frame].part, self.path(frame)
        if part not in _PARTNER:
            return own
        both = set(self.path(frame + _PARTNER[part]))
        return tuple(k for k in own if k not in both)

    def path(self, frame: int) -> tuple[int, ...]:
        """The nodes from the base to the one that carries a frame."""
        return self._topology.support(self._sites[frame].node)

    @cached_property
    def common_ancestors(self) -> tuple[tuple[int, int, int], ...]:
        """Unordered pairs of frames, including each with itself, with their nearest common ancestor.

        Pairs whose only common ancestor is the world are left out. In a pair, the first frame's rows come first.
        """
        found = []
        for position, one in enumerate(self._order):
            for other in self._order[position:]:
                node = self._topology.nearest_common_ancestor(self._sites[one].node, self._sites[other].node)
                if node != WORLD:
                    found.append((node, one, other))
        return tuple(found)

    def branches(self, to: str) -> tuple[tuple[int, int, int], ...]:
        """For each pair, the nodes from its common ancestor (exclusive) to frame "one" or "other", with the pair."""
        found = []
        for node, one, other in self.common_ancestors:
            path = self._topology.support(self._sites[one if to == "one" else other].node)
            found += [(k, one, other) for k in path if k > node]
        return tuple(found)


class Setup:
    """A mechanism and the frames of a call.

    Attributes:
        mechanism: The robot.
        sites: The frames, with the rows of their tasks.
        nodes: The nodes that sweeps visit, base to tips; by default all.
    """

    def __init__(self, mechanism: Mechanism, sites: Sequence[Site] = (), nodes: Sequence[int] | None = None) -> None:
        self.mechanism, self.sites = mechanism, sites
        self.nodes = range(len(mechanism.kinds)) if nodes is None else nodes
        self._derived: dict[Any, Any] = {}

    @property
    def topology(self) -> Topology:
        return self.mechanism.topology

    @cached_property
    def rows(self) -> Rows:
        """The rows of the tasks."""
        return Rows(self.mechanism, self.sites)

    def derived(self, make: Callable[[Setup], _T]) -> _T:
        """The result of `make(self)`, computed once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        made: _T = self._derived[make]
        return made


@dataclass(frozen=True)
class Dimension:
    """What an axis of an array runs over."""

    name: str  # the name in declarations of arguments and in `tree.array`
    length: Callable[[Setup], int]
    within: str = ""  # a dimension whose indices are the first indices of this one

    def __post_init__(self) -> None:
        DIMENSIONS[self.name] = self


DIMENSIONS: dict[str, Dimension] = {}

Dimension("node", lambda setup: len(setup.mechanism.kinds) + 1)  # the world's index is 0
Dimension("depth", lambda setup: max(setup.topology.depths, default=0) + 1)
Dimension("q", lambda setup: setup.mechanism.nq)
Dimension("v", lambda setup: setup.mechanism.nv)
Dimension("m", lambda setup: setup.mechanism.m_starts[-1])  # components of the velocities of all nodes
Dimension("joints", lambda setup: setup.mechanism.joint_starts[-1])  # velocities of all joints, independent or not
Dimension("loops", lambda setup: setup.mechanism.loop_starts[-1])  # constraints that close loops
Dimension("frames", lambda setup: len(setup.sites))
Dimension("sorted_rows", lambda setup: setup.rows.count)
Dimension("rows", lambda setup: setup.rows.task_row_count)
Dimension("constants", lambda setup: len(setup.mechanism.total_parameters) + 3)  # of all nodes, then gravity
Dimension("gravity", lambda setup: len(setup.mechanism.total_parameters))  # where it starts among the constants


def length(setup: Setup, dimension: str) -> int:
    """Number of indices of a dimension."""
    return DIMENSIONS[dimension].length(setup)


WORLD_CLASS = "world"
_FrameKey = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Variants:
    """The variants for which loop bodies are traced. Robots with equal variants share compiled code."""

    #: Pairs of a node's kind and its parent's port ("world" for the world), parents first.
    nodes: tuple[tuple[NodeKind, str], ...]
    #: Combinations of a frame's task rows, its part in the task, and the port of the node that carries it.
    frames: tuple[tuple[_FrameKey, str], ...]
    #: Such combinations for the near and the far end of a relative task.
    relatives: tuple[tuple[_FrameKey, str, _FrameKey, str], ...] = ()
    in_order: bool = False  # Whether task rows are numbered in the user's order. Only for algorithms with rows.

    @classmethod
    def of(cls, mechanism: Mechanism, sites: Sequence[Site]) -> Variants:
        """The variants that occur in a mechanism, in an order determined by the variants alone."""
        pairs = {
            (kind, port_of(mechanism, parent)) for kind, parent in zip(mechanism.kinds, mechanism.parents, strict=True)
        }
        ordered: list[tuple[NodeKind, str]] = []
        reached = {WORLD_CLASS}
        while pairs:
            ready = sorted((p for p in pairs if p[1] in reached), key=lambda p: (p[1] != WORLD_CLASS, p[0].name, p[1]))
            ordered += ready
            pairs.difference_update(ready)
            reached.update(kind.port for kind, _ in ready)
        frames = [((site.rows, site.part), port_of(mechanism, site.node)) for site in sites]
        ends = [(*near, *far) for near, far in pairwise(frames) if near[0][1] == "near"]
        return cls(tuple(ordered), tuple(sorted(set(frames))), tuple(sorted(set(ends))))

    @property
    def key(self) -> str:
        """Identifier of the variants in names of compiled code."""
        nodes = ",".join(f"{kind.name}<{parent}" for kind, parent in self.nodes)
        frames = ",".join(f"{port}:{part}:{''.join(map(str, rows))}" for (rows, part), port in self.frames)
        relatives = ",".join(f"{near}>{far}:{''.join(map(str, rows))}" for (rows, _), near, _, far in self.relatives)
        return f"{nodes};{frames};{relatives};{self.in_order}"

    @property
    def sizes(self) -> set[int]:
        """The numbers of rows that occur in tasks."""
        return {len(rows) for (rows, _), _ in self.frames}

    @property
    def names(self) -> list[tuple[str, str]]:
        """Kind name and parent's port of each node variant."""
        return [(kind.name, parent) for kind, parent in self.nodes]

    @property
    def ports(self) -> list[str]:
        """Ports of all nodes, without duplicates."""
        return list(dict.fromkeys(kind.port for kind, _ in self.nodes))

    def classes_of(self, port: str) -> tuple[str, ...]:
        """Names of all kinds with a given port."""
        if port == WORLD_CLASS:
            return (WORLD_CLASS,)
        return tuple(dict.fromkeys(kind.name for kind, _ in self.nodes if kind.port == port))


def port_of(mechanism: Mechanism, node: int) -> str:
    """The port of a node, "world" for the world."""
    return WORLD_CLASS if node == WORLD else mechanism.kinds[node].port
