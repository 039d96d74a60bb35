"""Accumulation nodes: bodies at which six unit forces replace the task rows that arrive there.

On the way to the base, every task row is propagated through the joints that support it. But a body has only six
directions of motion: where more than six rows arrive, they can stop, and six unit forces continue in their place. A
chain of joints that supports many tasks is then traversed once instead of once per task. Such bodies are the
accumulation nodes of [S24]; the chain between two of them is a serial segment in the sense of [J11] §7.

[S24] places one at every node where sources of rows meet. Here it must also pay off, which depends on the degrees of
freedom inboard, before other rows join, and outboard, since so many rows came together. It takes about seven of them
for four tasks of six rows, twelve for two, and fewer if the chain inboard ends at the world.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from kinetree.language.loops import NODE, Entity, FrameEntity, Group, IndexEntity, Inner, NodeEntity, Range, Table
from kinetree.language.mechanism import WORLD, Mechanism
from kinetree.language.node import NodeKind
from kinetree.language.roles import FrameRole, GroupRole, NodeRole, RowRole, handle_of
from kinetree.language.setup import Dimension, Rows, Setup
from kinetree.language.tree import Tree

#: Number of unit forces of an accumulation node.
UNITS = 6


class _Chain(NamedTuple):
    """Joints in series: their degrees of freedom, and the operations for propagating one row through them."""

    freedom: int = 0
    work: int = 0

    def then(self, kind: NodeKind) -> _Chain:
        """The chain extended by one joint. A joint with six degrees of freedom needs no projection."""
        return _Chain(self.freedom + kind.nv, self.work + kind.nv * (6 if kind.nv == UNITS else 24))

    def cost(self, rows: int) -> int:
        """Operations for a number of rows and all their pairs."""
        return self.work * rows + self.freedom * rows * rows

    def pays(self, rows: int, last: bool) -> bool:
        """Whether an accumulation node at the start of the chain saves more operations than it costs.

        It costs one product with a 6×6 matrix per row and one scalar product per unordered pair of rows. Unless it is
        the last, its unit forces and all rows must also be propagated to the next accumulation node.
        """
        price = 66 * rows + 11 * rows * rows / 2 + (0 if last else 66 * rows + 648)
        return self.cost(rows) - self.cost(UNITS) > price


class AccumulationNodes:
    """The accumulation nodes of a tree with given task rows.

    Rows that pass through joints share one numbering: first the task rows, as in `Rows`, then six per node; there are
    `count` of them.
    """

    def __init__(self, mechanism: Mechanism, rows: Rows) -> None:
        self._rows, self._parents = rows, mechanism.parents
        self._units: dict[int, int] = {}
        self._passing = [range(0)] * len(self._parents)
        ahead = self._ahead(mechanism)
        arriving: list[list[range]] = [[] for _ in range(len(self._parents) + 1)]
        behind = [_Chain()] * (len(self._parents) + 1)
        for k in reversed(range(len(self._parents))):
            carried, sources = rows.carried(k), arriving[k]
            others = sum(len(rows.carried(child)) for child in mechanism.topology.children[k])
            if own := carried[: len(carried) - others]:
                sources.append(own)
            count = sum(map(len, sources))
            chain, last = ahead[k]
            together = all(source.start < rows.count for source in sources)  # and therefore contiguous
            pays = not together or max(chain, behind[k]).pays(count, last)
            if count > UNITS and pays:
                self._units[k] = rows.count + UNITS * len(self._units)
                self._passing[k] = range(self._units[k], self._units[k] + UNITS)
                travelled = _Chain()
            else:
                self._passing[k] = carried if together else sources[0]
                travelled = behind[k].then(mechanism.kinds[k]) if count > UNITS else _Chain()
            if self._passing[k]:
                arriving[self._parents[k]].append(self._passing[k])
                behind[self._parents[k]] = max(behind[self._parents[k]], travelled)
        self.nodes = tuple(sorted(self._units))  # base to tips
        self.count = rows.count + UNITS * len(self._units)
        self._nearest: list[int] = []
        for k, parent in enumerate(self._parents):
            self._nearest.append(k if k in self._units else self._at_or_above(parent))

    def _ahead(self, mechanism: Mechanism) -> list[tuple[_Chain, bool]]:
        """For each node, the chain of joints inboard until other rows join, and whether it ends at the world."""
        ahead: list[tuple[_Chain, bool]] = []
        for k, parent in enumerate(self._parents):
            alone = parent != WORLD and self._rows.carried(parent) == self._rows.carried(k)
            chain, last = ahead[parent] if alone else (_Chain(), parent == WORLD)
            ahead.append((chain.then(mechanism.kinds[k]), last))
        return ahead

    def _at_or_above(self, node: int) -> int:
        return WORLD if node == WORLD else self._nearest[node]

    def passing(self, node: int) -> range:
        """The rows that pass through a node's joint: those it carries, or the unit forces of an accumulation node."""
        return self._passing[node]

    @property
    def groups(self) -> tuple[range, ...]:
        """The rows of each frame, then the unit forces of each accumulation node."""
        starts = sorted(self._units.values())
        return (*self._rows.groups, *(range(start, start + UNITS) for start in starts))

    def passing_groups(self, node: int) -> range:
        """Indices in `groups` of the rows that pass through a node's joint."""
        passing = self._passing[node]
        if passing.start < self._rows.count or not passing:
            return self._rows.carried_groups(node)
        place = len(self._rows.groups) + (passing.start - self._rows.count) // UNITS
        return range(place, place + 1)

    def units(self, node: int) -> int:
        """The first of the six rows of an accumulation node."""
        return self._units[node]

    def above(self, node: int) -> int:
        """The next accumulation node towards the base, or the world."""
        return self._at_or_above(self._parents[node])

    @cached_property
    def joins(self) -> tuple[tuple[int, int, int], ...]:
        """Pairs of frames, including each with itself, and the first accumulation node that both reach, if any."""
        found = ((self._nearest[node], one, other) for node, one, other in self._rows.common_ancestors)
        return tuple(join for join in found if join[0] != WORLD)


# Loops


def _made(setup: Setup) -> AccumulationNodes:
    return AccumulationNodes(setup.mechanism, setup.rows)


def _of(setup: Setup) -> AccumulationNodes:
    """The accumulation nodes of a mechanism and its tasks."""
    return setup.derived(_made)


#: Task rows, then the unit forces of accumulation nodes.
Dimension("passing", lambda setup: _of(setup).count, within="sorted_rows")
NODE.numbers["units"] = lambda setup, k: _of(setup).units(k)
_GROUPS = Entity(
    "passing group",
    lambda setup: len(_of(setup).groups),
    {"sorted_rows": lambda setup, g: _of(setup).groups[g].start, "beyond": lambda setup, g: _of(setup).groups[g].stop},
)
_PASSING = IndexEntity(
    "passing", lambda setup: _of(setup).count, {"index": lambda _, r: r}, dimension="passing",
    exists=lambda variants: bool(variants.frames),
)  # fmt: skip
_BEYOND: Range[RowRole] = Range(
    _PASSING, NODE, stop=lambda setup, k: _of(setup).passing(k).stop, name="beyond_passing_group"
)
#: The groups that pass through the joint of k: tasks, last first, each with a loop over later rows; or six unit forces.
passing_groups: Table[tuple[GroupRole, Iterator[RowRole]]] = Table(
    Group(
        "group",
        _GROUPS,
        {"passing": "sorted_rows"},
        lambda setup, g: len(_of(setup).groups[g]),
        lambda variants: sorted({UNITS, *variants.sizes}),
    ),
    rows=lambda setup: [(g,) for g in range(len(_of(setup).groups))],
    over=NODE,
    part=lambda setup, k: _of(setup).passing_groups(k),
    backwards=True,
    inner=(Inner(_BEYOND, own=False, start="beyond"),),
    name="passing_groups",
)
#: Accumulation nodes, each with the next one towards the base (or the world), base to tips.
scatter: Table[tuple[NodeRole, NodeRole]] = Table(
    NodeEntity("node", "set"),
    NodeEntity("above", world=True),
    rows=lambda setup: [(k, _of(setup).above(k)) for k in _of(setup).nodes],
    direction="outward",
    name="scatter_accumulation_nodes",
)
#: Accumulation nodes, each with the next one towards the base (or the world), tips to base.
gather: Table[tuple[NodeRole, NodeRole]] = Table(
    *scatter.roles, of=scatter, backwards=True, direction="inward", name="gather_accumulation_nodes"
)
#: Pairs of frames, including each with itself, and the first accumulation node that both reach, if any.
joins: Table[tuple[NodeRole, FrameRole, FrameRole]] = Table(
    NodeEntity("ancestor"),
    FrameEntity("one"),
    FrameEntity("other"),
    rows=lambda setup: _of(setup).joins,
    name="joins",
)


def units(tree: Tree, k: Any) -> list[RowRole]:
    """The six unit forces of an accumulation node, as a list; not a loop."""
    first = tree.number(NODE, handle_of(k), "units")
    return [RowRole({"passing": (first, i)}) for i in range(UNITS)]
