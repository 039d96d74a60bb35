"""A mechanism with the frames of a call, over which loops run; and the dimensions of arrays.

The variants of loop bodies: combinations of node kinds and parent ports that occur in a mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from kinetree.language.mechanism import WORLD, Mechanism, Site, Topology
from kinetree.language.node import NodeKind
from kinetree.language.rows import Rows

_T = TypeVar("_T")


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
    """What an axis of an array runs over.

    Attributes:
        name: The name in declarations of arguments and in `tree.array`.
        length: Number of indices.
        within: A dimension whose indices are the first indices of this one.
    """

    name: str
    length: Callable[[Setup], int]
    within: str = ""

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
Dimension("gravity", lambda setup: len(setup.mechanism.total_parameters))  # where it starts among the constants


def length(setup: Setup, dimension: str) -> int:
    """Number of indices of a dimension."""
    return DIMENSIONS[dimension].length(setup)


WORLD_CLASS = "world"
_FrameKey = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Variants:
    """The variants for which loop bodies are traced. Robots with equal variants share compiled code.

    Attributes:
        nodes: Pairs of a node's kind and its parent's port ("world" for the world), parents first.
        frames: Combinations of a frame's task rows, its part in the task, and the port of the node that carries it.
        relatives: Such combinations for the near and the far end of a relative task.
        in_order: Whether task rows are numbered in the user's order. Only for algorithms with rows.
    """

    nodes: tuple[tuple[NodeKind, str], ...]
    frames: tuple[tuple[_FrameKey, str], ...]
    relatives: tuple[tuple[_FrameKey, str, _FrameKey, str], ...] = ()
    in_order: bool = False

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
