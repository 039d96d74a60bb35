"""The variants of loop bodies: combinations of node kinds and parent ports that occur in a mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.node import NodeKind
from kinetree.recursion.topology import WORLD

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
