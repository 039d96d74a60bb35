"""What tracing knows of a mechanism: which kinds of nodes there are, and what they hang on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.node import NodeKind
from kinetree.recursion.topology import WORLD

WORLD_CLASS = "world"


@dataclass(frozen=True)
class Variants:
    """The cases that loop bodies come in. Robots with equal variants share compiled code.

    Attributes:
        nodes: Kind of a node, and the port of its parent ("world" for the world), each pair once, parents first.
        frames: Port of the node that carries a frame asked for, the rows of its task and its part in it, each once.
        relatives: Ports of the nodes that carry the ends of a relative task, and its rows, each once.
        in_order: Rows of tasks are numbered in the order asked for. For algorithms with rows only.
    """

    nodes: tuple[tuple[NodeKind, str], ...]
    frames: tuple[tuple[str, tuple[int, ...], str], ...]
    relatives: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    in_order: bool = False

    @classmethod
    def of(cls, mechanism: Mechanism, sites: Sequence[Site]) -> Variants:
        """The variants that occur in a mechanism, in an order that depends on nothing else."""
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
        ends = pairwise(sites)
        return cls(
            tuple(ordered),
            tuple(sorted({frame_variant(mechanism, site) for site in sites})),
            tuple(sorted({relative_variant(mechanism, a, b) for a, b in ends if a.part == "near"})),
        )

    @property
    def key(self) -> str:
        """Identifies the variants in names of compiled code."""
        nodes = ",".join(f"{kind.name}<{parent}" for kind, parent in self.nodes)
        frames = ",".join(f"{port}:{part}:{''.join(map(str, rows))}" for port, rows, part in self.frames)
        relatives = ",".join(f"{near}>{far}:{''.join(map(str, rows))}" for near, far, rows in self.relatives)
        return f"{nodes};{frames};{relatives};{self.in_order}"

    @property
    def sizes(self) -> set[int]:
        """How many rows tasks have."""
        return {len(rows) for _, rows, _ in self.frames}

    @property
    def names(self) -> list[tuple[str, str]]:
        """Name of the kind, and port of the parent, of each variant of a node."""
        return [(kind.name, parent) for kind, parent in self.nodes]

    @property
    def ports(self) -> list[str]:
        """Ports of all nodes, each once."""
        return list(dict.fromkeys(kind.port for kind, _ in self.nodes))

    def classes_of(self, port: str) -> tuple[str, ...]:
        """Names of all kinds with a port."""
        if port == WORLD_CLASS:
            return (WORLD_CLASS,)
        return tuple(dict.fromkeys(kind.name for kind, _ in self.nodes if kind.port == port))


def loop_variants(source: str, variants: Variants) -> list[tuple[Any, ...]]:
    """The variants of the bodies of a loop over a table; their places in this list are their numbers in the table."""
    if source == "frames":
        return list(variants.frames)
    if source == "relatives":
        return list(variants.relatives)
    if source in ("meetings", "joins"):
        return [(port,) for port in variants.ports]
    if source.endswith("groups") or source == "tasks":
        return [(size,) for size in range(1, 7)]
    if source.startswith("ways"):
        return list(dict.fromkeys((kind.name,) for kind, _ in variants.nodes))
    if source.endswith("stations"):
        return [(port, above) for above in (WORLD_CLASS, *variants.ports) for port in variants.ports]
    return list(variants.names)


def frame_variant(mechanism: Mechanism, site: Site) -> tuple[str, tuple[int, ...], str]:
    """The variant of a frame."""
    return port_of(mechanism, site.node), site.rows, site.part


def relative_variant(mechanism: Mechanism, near: Site, far: Site) -> tuple[str, str, tuple[int, ...]]:
    """The variant of the ends of a relative task."""
    return port_of(mechanism, near.node), port_of(mechanism, far.node), near.rows


def port_of(mechanism: Mechanism, node: int) -> str:
    """The port of a node, "world" for the world."""
    return WORLD_CLASS if node == WORLD else mechanism.kinds[node].port
