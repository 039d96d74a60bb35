"""Single samples with a node in each lane: which programs can run so, and the tables that they then read.

A kernel for batches computes one node of W samples at a time; this one computes W nodes of one sample. It is printed
from the same lowered program (`kinetree.engines.llvm.node_lanes`), so every node's numbers come from the same
operations. What differs is memory: a record holds the fields of a group of nodes (`kinetree.engines.groups`), and

    reading a parent     is a vector load if each lane's parent is in the same lane of one group; otherwise the parents'
                         fields are first collected in a record of their own
    adding to a parent   happens in rounds, last child first, in each of which a lane of a group of parents takes the
                         terms of one child or stays as it is
    inputs and outputs   remain in the user's order; each lane has its own index

The world is a group of its own, with the same numbers in all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kinetree.engines.groups import LANES, Group, grouped
from kinetree.engines.ir import Access, Block, For, Op, Store, Switch
from kinetree.engines.layout import Tables
from kinetree.engines.lower import Lowered
from kinetree.recursion.loops import LOOPS
from kinetree.recursion.topology import WORLD
from kinetree.recursion.variants import WORLD_CLASS
from kinetree.spatial.value import Array

TABLE = "scatter"
OWN_RECORD, PARENT_RECORD = "0.record", "1.record"
#: Words of a round: the record that is added to, then for each of its lanes the child's lane and whether there is one.
ROUND_WORDS = 1 + 2 * LANES
#: Columns for all lanes together, and for each lane, that every table has.
_COMMON, _EACH = ("variant", OWN_RECORD, PARENT_RECORD, "parents", "first round", "last round"), ("parent's lane",)
#: What an operation costs in additions, if not one.
_COSTS = {"const": 0, "sin": 10, "cos": 10, "div": 4, "sqrt": 4}
#: An access in each lane of its own takes a load for each and their insertion into a vector.
_SCATTERED = 8
#: Groups must cost at most this fraction of single nodes.
_WORTH = 0.8
#: Larger mechanisms would take as long to group as for thousands of calls.
_MOST_NODES = 10_000


class Parents(IntEnum):
    """How the parents of a group are arranged."""

    IN_LANE = 0  # each in the lane of its only child
    SHARED = 1  # each in the lanes of its children, of which there may be several
    SCATTERED = 2  # anywhere


@dataclass(frozen=True)
class Body:
    """A body of a sweep.

    Attributes:
        row: The row of its node.
        reads: Components of the parent that it reads.
        ops: Operations on components of the parent that it adds to, their loads included.
        stores: Their stores.
        operands: What they take from the node itself.
    """

    row: Op
    reads: list[Access]
    ops: list[Op]
    stores: list[Store]
    operands: list[Op]


@dataclass(frozen=True)
class Sweeps:
    """A program that consists of sweeps over nodes.

    Attributes:
        bodies: The bodies of its loops.
        each: Columns of the table of nodes that have a number for each lane.
        uniform: The other columns.
    """

    bodies: dict[Block, Body]
    each: list[str]
    uniform: list[str]

    @property
    def metadata(self) -> dict[str, Any]:
        """What is needed to bind the program; serialisable as JSON."""
        costs: dict[str, list[int]] = {}
        for variant, block in _cases(self):
            ops, scattered = costs.setdefault(str(variant), [0, 0])
            arithmetic = sum(_COSTS.get(op.code, 1) for op in block.items if isinstance(op, Op) and op.args)
            costs[str(variant)] = [ops + arithmetic, scattered + sum(1 for _ in _outside(block))]
        return {
            "each": [*self.each, *_EACH],
            "uniform": [*dict.fromkeys([*_COMMON, *self.uniform])],
            "slots": max((len(body.operands) for body in self.bodies.values()), default=0),
            "costs": costs,
        }


class _Unfit(Exception):
    """A program does more than sweep over nodes."""


def sweeps(lowered: Lowered) -> Sweeps | None:
    """The sweeps of a program; None if it has other loops, or accesses memory in other ways than a node's own."""
    try:
        return _Analysis(lowered).result
    except _Unfit:
        return None


class _Analysis:
    def __init__(self, lowered: Lowered) -> None:
        self.each: dict[str, None] = {}
        self.uniform: dict[str, None] = {}
        self.bodies: dict[Block, Body] = {}
        _require(not lowered.layout.arrays and list(lowered.tables) == [TABLE])
        for item in lowered.program.top.items:
            if isinstance(item, For):
                _require(item.stop.code == "size" and item.stop.attr == f"count {TABLE}")
                self.loop(item)
            else:
                _require(isinstance(item, (Op, Store)))
                self.item(item, inside=False)
        _require(bool(self.bodies) and not self.each.keys() & {*self.uniform, *_COMMON})
        self.result = Sweeps(self.bodies, list(self.each), list(self.uniform))

    def loop(self, loop: For) -> None:
        *before, last = loop.body.items
        blocks = [loop.body]
        if isinstance(last, Switch):
            _require(all(isinstance(item, Op) and item.code == "cell" for item in before))
            blocks = last.blocks
        for block in blocks:
            for item in block.items:
                _require(isinstance(item, (Op, Store)))
                self.item(item, inside=True)
            self.bodies[block] = _body(block, loop.index)

    def item(self, item: Any, inside: bool) -> None:
        """Check the memory that an item accesses, and note the columns that it needs."""
        access = item.place if isinstance(item, Store) else item.attr
        if not isinstance(access, Access):
            return
        space, base = access.space[0], access.base
        _require(access.stride is None)
        columns = [] if base is None else list(_columns(base))
        if space in ("input", "output"):
            _require(space == "input" or (bool(columns) if inside else base is None))
            _require(space == "input" or all(column.startswith("0.") for column in columns))
            self.each |= dict.fromkeys(columns)
        else:
            _require(base is None or base.code == "cell")
            self.uniform |= dict.fromkeys(columns)
            _require(space != "records" or set(columns) <= {OWN_RECORD, PARENT_RECORD})
            _require(space != "constants" or columns == ["0.constants"])


def _require(condition: bool) -> None:
    if not condition:
        raise _Unfit


def _columns(op: Op) -> Iterator[str]:
    """The columns of a node's row that an index is computed from."""
    if op.code == "cell":
        _require(op.attr[0] == TABLE and op.args[0].code == "index")
        yield op.attr[1]
    else:
        _require(op.code in ("int", "size", "iadd", "imul"))
        for argument in op.args:
            yield from _columns(argument)


def _of_parent(access: Any) -> bool:
    """Whether a body accesses its node's parent there; records without a base are the world's."""
    if not isinstance(access, Access) or access.space[0] != "records":
        return False
    return access.base is None or access.base.attr == (TABLE, PARENT_RECORD)


def _place(access: Access) -> tuple[Any, ...]:
    return access.space, access.base, access.offset


def _body(block: Block, row: Op) -> Body:
    """Find what a body reads from its node's parent, and what it adds to it."""
    stores = [item for item in block.items if isinstance(item, Store) and _of_parent(item.place)]
    places = {_place(store.place) for store in stores}  # type: ignore[arg-type]
    reads: dict[tuple[Any, ...], Access] = {}
    ops: list[Op] = []
    adding: set[int] = set()
    operands: dict[int, Op] = {}
    for item in block.items:
        if isinstance(item, Store):
            _require((id(item.value) in adding) == _of_parent(item.place))
            continue
        if not isinstance(item, Op):
            continue
        load = item.code == "load" and _of_parent(item.attr)
        if load and _place(item.attr) not in places:
            if item.attr.base is not None:  # the world is in every lane
                reads[_place(item.attr)] = item.attr
        elif load or any(id(a) in adding for a in item.args):
            adding.add(id(item))
            ops.append(item)
            operands |= {id(a): a for a in item.args if id(a) not in adding and a.code != "const"}
    loaded = [_place(op.attr) for op in ops if op.code == "load"]
    _require(len(loaded) == len(places) == len(stores))
    return Body(row, list(reads.values()), ops, stores, list(operands.values()))


def _cases(sweeps: Sweeps) -> Iterator[tuple[int, Block]]:
    """The bodies with their variants; 0 if there is only one."""
    for block in sweeps.bodies:
        outer: Any = block.outer
        switches = [item for item in outer.items if isinstance(item, Switch)]
        numbers = [number for switch in switches for number, case in switch.cases.items() if case is block]
        yield (numbers or [0])[0], block


def _outside(block: Block) -> Iterator[Access]:
    """Accesses to inputs and outputs."""
    for item in block.items:
        access = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
        if isinstance(access, Access) and access.space[0] in ("input", "output"):
            yield access


class LaneTables:
    """All data of one mechanism that a kernel with nodes in its lanes reads.

    Args:
        tables: The data for kernels that compute one node at a time.
        metadata: Of the program (`Sweeps.metadata`).
        groups: The mechanism's groups.
        cost: What they cost, as a fraction of what single nodes do.
    """

    def __init__(self, tables: Tables, metadata: dict[str, Any], groups: list[Group], cost: float) -> None:
        self._tables, self._metadata, self._groups, self.cost = tables, metadata, groups, cost
        setup, lengths = tables.setup, tables.metadata["records"]
        kinds = setup.mechanism.kinds
        starts = np.cumsum([lengths[WORLD_CLASS], *(lengths[kinds[group[0]].name] for group in groups)])
        #: For each node, its group's record and its lanes.
        self._home = {WORLD: (0, (WORLD,) * LANES)}
        for group, start in zip(groups, starts.tolist(), strict=False):
            self._home |= dict.fromkeys(group, (start, group))
        self._collected = int(starts[-1])
        self._slots = self._collected + max(lengths.values())
        #: Length of the scratch memory.
        self.workspace: int = LANES * (self._slots + metadata["slots"])

    @classmethod
    def of(cls, tables: Tables) -> LaneTables | None:
        """The tables of a mechanism; None if single nodes are expected to be as fast."""
        metadata, setup = tables.metadata["sweeps"], tables.setup
        depth, count = max(setup.topology.depths, default=0), len(setup.nodes)
        every = count == len(setup.mechanism.kinds)
        if metadata is None or not every or not 0 < depth <= _WORTH * count or count > _MOST_NODES:
            return None
        table: Any = LOOPS[TABLE]
        variants = [table.variant(setup, row) for row in table.rows(setup)]
        numbers = {variant: number for number, variant in enumerate(table.cases(tables.variants))}
        groups = grouped(setup.topology, tuple(numbers[variant] for variant in variants))
        costs = [metadata["costs"].get(str(number), (0, 0)) for number in range(len(numbers))]
        single = sum(costs[numbers[variant]][0] + costs[numbers[variant]][1] for variant in variants)
        together = sum(c[0] + _SCATTERED * c[1] for c in (costs[numbers[variants[group[0]]]] for group in groups))
        return cls(tables, metadata, groups, together / single) if together <= _WORTH * single else None

    def packed(self, first_constant: int) -> tuple[Array, Array]:
        """All tables in one array, preceded by a head of sizes; and the constants of nodes, interleaved.

        Args:
            first_constant: Where the constants will start among those of the mechanism, a multiple of `LANES`.
        """
        rounds: list[list[int]] = []
        parents = [self._parents(group, rounds) for group in self._groups]
        constants, starts = self._constants(first_constant // LANES)
        cells = self._tables.cells(TABLE)
        names = self._tables.metadata["tables"][TABLE]
        members = np.array(self._groups)
        columns: dict[str, Any] = {name: cells[members, i] for i, name in enumerate(names)}
        columns |= {name: columns[name][:, 0] for name in ("variant",) if name in columns}
        columns |= {OWN_RECORD: [self._home[group[0]][0] for group in self._groups], "0.constants": starts}
        columns |= {name: [found[i] for found in parents] for i, name in enumerate(_COMMON[2:] + _EACH)}
        table = np.concatenate(
            [
                np.reshape(columns.get(name, np.zeros(len(members))), (len(members), -1))
                for name in (*self._metadata["uniform"], *self._metadata["each"])
            ],
            axis=1,
        )
        head = head_names(self._tables.metadata["head"])
        own = {f"count {TABLE}": len(members), f"table {TABLE}": len(head), "slots": self._slots}
        own["rounds"] = len(head) + table.size
        values = [own[name] if name in own else self._tables.head(name) for name in head]
        parts = [np.array(values), table.reshape(-1), np.array(rounds, dtype=np.int64).reshape(-1)]
        return np.concatenate(parts).astype(np.int64), constants

    def _parents(self, group: Group, rounds: list[list[int]]) -> tuple[Any, ...]:
        """The parents' record, their arrangement, rounds and lanes; adds rounds to the list."""
        parents = [self._tables.setup.mechanism.parents[node] for node in group]
        arrangement, first = Parents.IN_LANE, len(rounds)
        for record, above in dict.fromkeys(self._home[parent] for parent in parents):
            # children of each of these parents, last first
            children = [sorted({n for n, p in zip(group, parents, strict=True) if p == one})[::-1] for one in above]
            for turn in range(max(map(len, children))):
                taking = [group.index(each[turn]) if turn < len(each) else -1 for each in children]
                rounds.append([record, *(max(lane, 0) for lane in taking), *(int(lane >= 0) for lane in taking)])
            if list(above) != parents:
                arrangement = Parents.SCATTERED
        if arrangement is Parents.IN_LANE and len(rounds) - first > 1:
            arrangement = Parents.SHARED
        record = self._collected if arrangement is Parents.SCATTERED else self._home[parents[0]][0]
        lanes = [LANES * self._home[parent][0] + self._home[parent][1].index(parent) for parent in parents]
        return record, arrangement, first, len(rounds), lanes

    def _constants(self, first: int) -> tuple[Array, list[int]]:
        """The constants of all groups, interleaved, and where those of each start, in vectors."""
        parameters = self._tables.setup.mechanism.parameters
        parts = [np.array([parameters[node] for node in group]).T for group in self._groups]
        starts = np.cumsum([first, *(len(part) for part in parts)]).tolist()
        return np.concatenate([np.zeros(0), *(part.reshape(-1) for part in parts)]), starts[:-1]


def head_names(names: list[str]) -> list[str]:
    """Names of the numbers at the head of the tables, given those of a kernel for one node at a time."""
    return [*(name for name in names if name != "node lanes"), "rounds", "slots"]


def column_places(metadata: dict[str, Any]) -> tuple[dict[str, int], int]:
    """The position of each column in a row, and the length of a row."""
    widths = [1] * len(metadata["uniform"]) + [LANES] * len(metadata["each"])
    starts = np.cumsum([0, *widths]).tolist()
    return dict(zip((*metadata["uniform"], *metadata["each"]), starts, strict=False)), starts[-1]
