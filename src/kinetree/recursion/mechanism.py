"""A tree of nodes with their constants: all that an engine knows of a robot."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from kinetree.recursion.node import NodeKind
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.value import Array

#: The parts that a frame can have in a task.
PARTS = ("frame", "near", "far", "mass")


@dataclass(frozen=True, eq=False)
class Site:
    """A frame fixed to a node, or to the world (node −1), and its part in a task.

    Attributes:
        name: What it is called.
        node: The node that carries it.
        placement: The 12 numbers of the transform from the node's coordinates to the frame's.
        rows: The components of the frame's motion that a task of it consists of, angular ones first.
        part: "frame": the task is the motion of the frame. "near", and "far" for the site after it: the task is the
            motion of the far frame as seen from the near one; they share their rows. "mass": the task is the motion
            of the centre of mass, whatever the frame; the world carries it.
    """

    name: str
    node: int
    placement: Array
    rows: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    part: str = "frame"


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Nodes numbered depth first, each with its kind and constants.

    Attributes:
        parents: Parent of each node, −1 for the world.
        kinds: Kind of each node.
        parameters: Constants of each node, float64, as many as its kind asks for.
        names: Name of each node, for messages.
        gravity: Acceleration of free fall in the world frame, (3,) [m/s²].
    """

    parents: tuple[int, ...]
    kinds: tuple[NodeKind, ...]
    parameters: tuple[Array, ...] = field(repr=False)
    names: tuple[str, ...]
    gravity: Array

    @cached_property
    def topology(self) -> Topology:
        return Topology(self.parents)

    @cached_property
    def q_starts(self) -> tuple[int, ...]:
        """Where each node's configuration starts; one more entry holds nq."""
        return tuple(accumulate((kind.nq for kind in self.kinds), initial=0))

    @cached_property
    def v_starts(self) -> tuple[int, ...]:
        """Where each node's velocity starts; one more entry holds nv."""
        return tuple(accumulate((kind.nv for kind in self.kinds), initial=0))

    @cached_property
    def column_parents(self) -> tuple[int, ...]:
        """For each degree of freedom the one before it on the way to the base, −1 for none.

        As if joints of several degrees of freedom were chains: Featherstone's expanded parent array.
        """
        found: list[int] = []
        for k, kind in enumerate(self.kinds):
            found += [self.column_above(k), *range(self.v_starts[k], self.v_starts[k + 1] - 1)][: kind.nv]
        return tuple(found)

    def column_above(self, k: int) -> int:
        """The last degree of freedom of the nodes that carry k, −1 for none."""
        parent = self.parents[k]
        while parent != WORLD and self.kinds[parent].nv == 0:
            parent = self.parents[parent]
        return -1 if parent == WORLD else self.v_starts[parent + 1] - 1

    @property
    def nq(self) -> int:
        return self.q_starts[-1]

    @property
    def nv(self) -> int:
        return self.v_starts[-1]

    @cached_property
    def total_parameters(self) -> Array:
        """All nodes' constants in one array."""
        return np.concatenate([np.zeros(0), *self.parameters])
