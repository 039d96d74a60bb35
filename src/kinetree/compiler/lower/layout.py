"""Memory: live ranges of fields, their layout in records, and the tables of a mechanism.

The workspace holds one record per node (the world's first), then the tree's arrays. Code depends on the layout of a
record but not on the number of nodes: everything that does is in tables. Fields with disjoint live ranges share
storage.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.ir import (
    ArrayEntry,
    Component,
    Program,
    Store,
    TreeLoop,
    field_accesses,
    place_of,
    sweep_direction,
    walk,
)
from kinetree.compiler.lower.loop_carried import RECORD, RELATIVES, LoopCarried, SiblingFlags, register_only, relatives
from kinetree.compiler.passes import hoist as angle
from kinetree.language.algorithm import Algorithm
from kinetree.language.loops import FRAME, INDICES, LOOPS, Chain, Runs, Table, numbers_of
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.setup import WORLD_CLASS, Setup, Variants, length
from kinetree.spatial.value import Array

#: Rows of arrays are padded to a multiple of the widest vector, so that loops over all columns load aligned vectors.
LINE = 8


class LiveRange(NamedTuple):
    """The first and the last time at which a field is in use. Every field is set before it is read.

    Outermost items of a program have a number, and two halves: the bodies of a sweep read fields of their node in the
    first and set them in the second.
    """

    first: int
    last: int

    @classmethod
    def throughout(cls, number: int) -> LiveRange:
        """In use during the whole of an item."""
        return cls(2 * number, 2 * number + 1)

    def joined(self, other: LiveRange | None) -> LiveRange:
        """In use during both, and between them."""
        return self if other is None else LiveRange(min(self.first, other.first), max(self.last, other.last))

    def meets(self, other: LiveRange) -> bool:
        """Whether both are in use at the same time."""
        return self.first <= other.last and other.first <= self.last


def live_ranges(program: Program) -> dict[Component, dict[str, LiveRange]]:
    """The live range of each component of a field, in each class of nodes that has it."""
    found: dict[Component, dict[str, LiveRange]] = {}
    for number, item in enumerate(program.top.items):
        own = {roles[0] for roles in item.roles.values()} if isinstance(item, TreeLoop) else set()
        # the classes of nodes in which the item uses each component, and whether it is "read" or "set"; in sweeps,
        # whether that is "at its turn", by the node itself, or by its children
        uses: dict[Component, tuple[dict[str, None], set[str]]] = {}
        for component, role, access in field_accesses(item):
            classes, ways = uses.setdefault(component, ({}, set()))
            classes.update(dict.fromkeys(role.classes))
            way = "set" if isinstance(access, Store) else "read"
            ways.add(f"{way} at its turn" if role in own else way)
        direction = sweep_direction(item)
        for component, (classes, ways) in uses.items():
            life, ranges = _live_range(ways, direction, number), found.setdefault(component, {})
            for c in classes:
                ranges[c] = (LiveRange.throughout(number) if c == WORLD_CLASS else life).joined(ranges.get(c))
    return found


def _live_range(ways: set[str], direction: str, number: int) -> LiveRange:
    """When a component of a node is in use during an item, a sweep if it has a direction.

    Towards the base, children are done with a node before its turn; towards the tips, they come after it.
    """
    life, before, after = LiveRange.throughout(number), {"read at its turn"}, {"set at its turn"}
    if direction == "inward":
        before |= {"read", "set"}
    elif direction == "outward":
        after |= {"read"}
    else:
        return life
    if ways <= before:
        return LiveRange(life.first, life.first)
    return LiveRange(life.last, life.last) if ways <= after else life


def extended(
    lives: dict[Component, dict[str, LiveRange]], program: Program, passed: dict[TreeLoop, LoopCarried]
) -> dict[Component, dict[str, LiveRange]]:
    """Live ranges in which what a sweep carries is in use in all classes of nodes, even in those that do not have it.

    The sweep knows it by its offset, which must mean nothing else there.
    """
    made = {component: dict(own) for component, own in lives.items()}
    classes = sorted({c for own in lives.values() for c in own} - {WORLD_CLASS})
    for loop, one in passed.items():
        now = LiveRange.throughout(program.top.items.index(loop))
        for component in one.values:
            own = made[component]
            own.update((c, now.joined(own.get(c))) for c in classes if c not in own or not own[c].meets(now))
    return made


@dataclass(frozen=True)
class Layout:
    """Offsets inside records and arrays, in scalars."""

    fields: dict[tuple[str, str, int], int]  # offset of (class of node, field, component)
    records: dict[str, int]  # length of a record of each class
    passing: dict[str, int]  # the same without fields that few nodes need, if sweeps carry them (`register_only`)
    #: For each of the tree's arrays, its dimensions and the position of each component that is used. If rows are only
    #: passed from parents to children, one row per depth suffices: nodes are visited depth first, so a parent's row
    #: stays intact while its subtree is visited.
    arrays: list[tuple[tuple[str, ...], dict[int, int]]]

    @classmethod
    def of(cls, program: Program, variants: Variants, passed: dict[TreeLoop, LoopCarried]) -> Layout:
        """Lay out the memory of a simplified program, given what its sweeps carry.

        A field has one offset in all classes, so that one loop body can serve several. Fields that are never in use at
        the same time share memory: those of forward dynamics would take a third more otherwise.
        """
        handed_down = _handed_down(program, {n for n, (over, _) in enumerate(program.arrays) if "node" in over})
        arrays: list[tuple[tuple[str, ...], dict[int, int]]] = [
            (("depth", over[1]) if number in handed_down else over, {})
            for number, (over, _) in enumerate(program.arrays)
        ]
        for item in walk(program.top) if arrays else ():
            if isinstance(place := place_of(item), ArrayEntry):
                positions = arrays[place.number][1]
                positions.setdefault(place.component, len(positions))
        inner = {kind.name for kind, parent in variants.nodes if parent != WORLD_CLASS}
        few = register_only(program, passed)
        lives = live_ranges(program)
        offsets = _offsets(extended(lives, program, passed), inner, few)
        classes = (WORLD_CLASS, *(kind.name for kind, _ in variants.nodes))

        def lengths(left_out: Collection[Component]) -> dict[str, int]:
            found = dict.fromkeys(classes, 0)
            for key, own in lives.items():
                for c in own if key not in left_out else ():
                    found[c] = max(found[c], offsets[key] + 1)
            return found

        fields = {(c, *key): offsets[key] for key, own in lives.items() for c in own}
        return cls(fields, lengths(()), lengths(few), arrays)


def _offsets(
    lives: dict[Component, dict[str, LiveRange]], inner: set[str], few: set[Component]
) -> dict[Component, int]:
    """Offsets of fields in records.

    Those of classes that may have many nodes (`inner`: with parents other than the world) come first, and of these,
    those that all nodes have in memory, unlike `few`, so that records of others end there. Then those of more classes
    come first, because they are in the records of all; of these, those that are in use longest, so that the last loops
    find theirs together. Given the order of last use, the first offset that is free leaves no memory unused.
    """

    def place(key: tuple[str, int]) -> tuple[bool, bool, int, int]:
        many = sum(c in inner for c in lives[key])
        return not many, key in few, -many, -max(life.last for life in lives[key].values())

    found: dict[tuple[str, int], int] = {}
    taken: dict[tuple[str, int], list[LiveRange]] = {}  # in a class, at an offset
    free: dict[tuple[tuple[str, LiveRange], ...], int] = {}  # fields with equal lives need not search from the start
    for key in sorted(lives, key=place):
        own = tuple(lives[key].items())
        offset = free.get(own, 0)
        while any(life.meets(other) for c, life in own for other in taken.get((c, offset), ())):
            offset += 1
        found[key], free[own] = offset, offset + 1
        for c, life in own:
            taken.setdefault((c, offset), []).append(life)
    return found


def _handed_down(program: Program, candidates: set[int]) -> set[int]:
    """Arrays over nodes whose rows are set and read in a single outward sweep, through a node and its parent."""
    directions: dict[int, list[str]] = {}
    for item in program.top.items:
        if isinstance(item, TreeLoop) and candidates:
            places = [place_of(inner) for body in item.blocks for inner in walk(body)]
            rows = [place for place in places if isinstance(place, ArrayEntry) and place.number in candidates]
            for number in {row.number for row in rows if row.at[0][0].role.name != WORLD_CLASS}:
                directions.setdefault(number, []).append(item.loop.direction if isinstance(item.loop, Table) else "")
    return {number for number, found in directions.items() if found == ["outward"]}


def size_of(setup: Setup, name: str) -> int:
    """A size of a mechanism: the length of a dimension, that of an array "line" along it, or the "count" of a loop."""
    kind, _, rest = name.partition(" ")
    if kind == "line":
        return LINE * -(-length(setup, rest) // LINE)
    if kind == "count":
        return len(LOOPS[rest].visits(setup, WORLD))
    return length(setup, name)


class Tables:
    """All data of one mechanism that compiled code reads.

    Args:
        algorithm: The recursion.
        variants: The variants of loop bodies; their order defines their numbers.
        mechanism: The robot.
        sites: The frames.
        metadata: The tables and sizes that a program uses (`kinetree.compiler.lower.lower.Lowered.metadata`).
        carrying: Whether sweeps carry values from node to node, so that most records can be shorter.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        variants: Variants,
        mechanism: Mechanism,
        sites: Sequence[Site],
        metadata: dict[str, Any],
        carrying: bool = False,
    ) -> None:
        self.setup = Setup(mechanism, sites, algorithm.visited(mechanism, sites))
        self._algorithm, self.variants, self.metadata = algorithm, variants, metadata
        self._cells: dict[str, Array] = {}
        # where the record of each node is
        self._record_of = {WORLD: 0}
        #: Length of all records together.
        self.records: int = self._place_records(carrying)

    def _place_records(self, carrying: bool) -> int:
        """Choose where records are; returns the length of all together."""
        nodes, metadata = self.setup.nodes, self.metadata
        lengths = self.lengths("records")
        if carrying and metadata["passing"] != metadata["records"]:
            lengths = np.where(self._relatives & SiblingFlags.LATER_CHILDREN, lengths, self.lengths("passing"))
        starts = np.cumsum(np.append(metadata["records"][WORLD_CLASS], lengths))
        self._record_of |= zip(nodes, starts.tolist(), strict=False)
        return int(starts[-1])

    def lengths(self, which: str) -> Array:
        """For each node, the length of its record as the metadata has it: of all "records", or of "passing" ones."""
        lengths, kinds = self.metadata[which], self.setup.mechanism.kinds
        return np.array([lengths[kinds[k].name] for k in self.setup.nodes], dtype=np.int64)

    @cached_property
    def _relatives(self) -> Array:
        """The column `RELATIVES` of the table of nodes."""
        return relatives([(k, self.setup.mechanism.parents[k]) for k in self.setup.nodes])

    def size(self, name: str) -> int:
        """A size of the mechanism; see `size_of`."""
        return size_of(self.setup, name)

    def array_size(self, number: int) -> int:
        """Number of scalars in one of the tree's arrays."""
        over, components = self.metadata["arrays"][number]
        lines = math.prod(length(self.setup, dimension) for dimension in over[:-1])
        return int(components * lines * self.size(f"line {over[-1]}"))

    def cells(self, name: str) -> Array:
        """A table, (rows, columns)."""
        if name not in self._cells:
            self._cells[name] = self._computed(name)
        return self._cells[name]

    def _computed(self, name: str) -> Array:
        columns = self.metadata["tables"][name]
        loop = LOOPS.get(name)
        if isinstance(loop, Table):
            rows = list(loop.rows(self.setup))
            numbers = np.array([self._column(loop, rows, column) for column in columns], dtype=np.int64)
            return np.ascontiguousarray(numbers.reshape(len(columns), len(rows)).T)
        if isinstance(loop, Runs):
            found = [[getattr(run, column) for column in columns] for run in loop.all_runs(self.setup)]
        elif isinstance(loop, Chain):
            found = [[link] for link in loop.links(self.setup)]
        else:
            index, _, what = name.partition(".")
            entity = INDICES[index]
            found = [[entity.numbers[what](self.setup, i)] for i in range(entity.count(self.setup))]
        return np.array(found, dtype=np.int64).reshape(len(found), len(columns))

    def _column(self, loop: Table[Any], rows: Sequence[Sequence[int]], column: str) -> list[int]:
        if column == "variant":
            numbers = {variant: i for i, variant in enumerate(loop.cases(self.variants))}
            return [numbers[variant] for variant in loop.variants(self.setup, rows)]
        if column == RELATIVES:
            return list(map(int, self._relatives))
        position, _, what = column.partition(".")
        place, entity = int(position), loop.roles[int(position)].entity
        if what == RECORD:
            return [self._record_of[row[place]] for row in rows]
        if what == "constants":
            starts = self._frame_constants if entity is FRAME else self.node_constants
            return [starts[row[place]] for row in rows]
        return numbers_of(self.setup, entity, [row[place] for row in rows], what)

    @cached_property
    def node_constants(self) -> Sequence[int]:
        """Index at which the constants of each node start.

        Nodes with equal constants read those of the first, which then stay in the cache. If constants are an input,
        each node has its own.
        """
        parameters = self.setup.mechanism.parameters
        own: list[int] = np.cumsum([0, *map(len, parameters)]).tolist()[:-1]
        if self._algorithm.constants is None:
            first: dict[bytes, int] = {}
            own = [first.setdefault(each.tobytes(), start) for each, start in zip(parameters, own, strict=True)]
        return own

    @cached_property
    def _frame_constants(self) -> Sequence[int]:
        """Index at which the constants of each frame start."""
        mechanism = self.setup.mechanism
        first = len(mechanism.total_parameters) + len(mechanism.gravity)
        lengths = [len(site.placement) for site in self.setup.sites]
        return [first + start for start in [0, *np.cumsum(lengths, dtype=int).tolist()]]

    @property
    def constants(self) -> Array:
        """Constants of nodes, gravity, placements of frames, float64."""
        mechanism = self.setup.mechanism
        parts = [mechanism.total_parameters, mechanism.gravity, *(site.placement for site in self.setup.sites)]
        return np.ascontiguousarray(np.concatenate(parts), dtype=np.float64)

    def packed(self) -> tuple[Array, int]:
        """All tables in one array, preceded by a head of sizes; and the length of the workspace in scalars."""
        tables = {name: self.cells(name) for name in self.metadata["tables"]}
        starts, position = {}, len(self.metadata["head"])
        for name, table in tables.items():
            starts[f"table {name}"] = position
            position += table.size
        angles = self._angles()
        starts[angle.POSITIONS], starts[angle.COUNT] = position, len(angles)
        angles = np.pad(angles, (0, -len(angles) % angle.MOST_LANES))
        position += len(angles)
        starts["node lanes"] = position
        workspace = self.records
        for i in range(len(self.metadata["arrays"])):
            starts[f"array {i}"] = workspace = LINE * -(-workspace // LINE)
            workspace += self.array_size(i)
        starts[angle.KEPT] = workspace = LINE * -(-workspace // LINE)
        workspace += 2 * len(angles)
        head = [starts[name] if name in starts else self.head(name) for name in self.metadata["head"]]
        cells = [table.reshape(-1) for table in (*tables.values(), angles)]
        return np.concatenate([np.array(head, dtype=np.int64), *cells]), workspace

    def _angles(self) -> Array:
        """Where in its input the angle of each node is, up to the last that has one."""
        if self.metadata["angles"] is None:
            return np.zeros(0, dtype=np.int64)
        columns, cells = self.metadata["tables"][angle.TABLE], self.cells(angle.TABLE)
        offsets, default = dict(self.metadata["angles"]), dict(self.metadata["angles"]).get(angle.ALL, -1)
        variants = cells[:, columns.index("variant")] if "variant" in columns else np.full(len(cells), angle.ALL)
        own = np.array([offsets.get(variant, default) for variant in variants.tolist()], dtype=np.int64)
        length = 1 + int(np.max(np.flatnonzero(own >= 0), initial=-1))
        first: Array = cells[:length, columns.index(angle.COORDINATES)]
        return first + np.maximum(own[:length], 0)

    def head(self, name: str) -> int:
        """A number at the head of the tables that does not depend on where they are: an input's start, or a size."""
        kind, _, number = name.partition(" ")
        if kind != "input":
            return self.size(name)
        sizes = self._algorithm.sizes(self.setup.mechanism, self.setup.sites)
        return sum(math.prod(argument.shape(sizes)) for argument in self._algorithm.inputs[: int(number)])
