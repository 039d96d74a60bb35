"""Loops as data: the entities that they visit, what they yield, and what they visit on a mechanism.

An entity (a node, a frame, a group of rows, a column) is identified by its number. Engines need only the other numbers
attached to it, such as where its part of q starts or where the columns of its descendants end. Compiled code reads them
from tables.

Loops come in four shapes. Engines know the shapes, but no individual loop:

    Table   rows of nodes, frames or groups of rows; the body is traced once for each variant of a row
    Range   contiguous indices, with bounds that depend on the entity the loop is over, or from a given index on
    Runs    several ranges, one after the other
    Chain   from index to index along links, until they end

`kinetree.language.tree` defines the loops of the library. A loop is a value: `loop(tree, k)` runs it, and a loop that
is an attribute of `Tree` runs as `tree.loop(k)`. Algorithms can therefore define loops of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, Generic, NamedTuple, TypeVar, overload

from kinetree.language.contract import refuse
from kinetree.language.mechanism import WORLD
from kinetree.language.roles import (
    Cell,
    ColumnRole,
    FrameRole,
    GroupRole,
    Index,
    Ledger,
    NodeRole,
    RowRole,
    handle_of,
)
from kinetree.language.setup import WORLD_CLASS, Setup, Variants, port_of
from kinetree.spatial.value import Array

_T = TypeVar("_T")


Number = Callable[[Setup, int], int]


class Engine(ABC):
    """The services that loops need from an engine. Engines identify nodes, frames and indices by their own handles."""

    @abstractmethod
    def visit(self, loop: Any, over: Any, start: Index | None, stop: Index | None = None) -> Iterator[Any]:
        """Run a loop: over the entity with a handle if it is an inner loop, from `start` on, and before `stop`."""

    @abstractmethod
    def number(self, entity: Entity, handle: Any, what: str) -> Any:
        """One of the numbers of an entity, as a value or a symbol."""

    @abstractmethod
    def cell(self, node: NodeEntity, handle: Any, key: Any) -> Cell:
        """The memory of a node, given the role through which it is accessed, its handle and its variant."""

    @abstractmethod
    def placement(self, handle: Any) -> Array:
        """The placement of a frame."""


@dataclass(frozen=True, eq=False)
class Entity:
    """Something that loops visit, identified by number."""

    name: str  # used in error messages and names of tables
    count: Callable[[Setup], int]
    #: The numbers attached to each. Loops over the entity add their own start and end.
    numbers: dict[str, Number] = field(default_factory=dict)


#: All kinds of indices, by name.
INDICES: dict[str, IndexEntity] = {}


@dataclass(frozen=True, eq=False)
class IndexEntity(Entity):
    """A single index along a dimension: a column, or a row of a task. Its number `index` is the index itself."""

    dimension: str = ""  # the dimension that it indexes
    maps: tuple[str, ...] = ()  # further dimensions along which it has an index; each is also the name of that number
    #: Whether a number equals the index for all mechanisms with these variants.
    identity: Callable[[Variants, str], bool] = lambda _, what: what == "index"
    #: Whether several indices can have the same value of this number.
    shared: Callable[[Variants, str], bool] = lambda *_: False
    exists: Callable[[Variants], bool] = lambda _: True  # whether mechanisms with these variants have any
    #: Creates the role that the loop yields, from the index along each dimension.
    role: Callable[[dict[str, Index]], Any] = RowRole

    def __post_init__(self) -> None:
        INDICES[self.name] = self

    def of(self, tree: Engine, handle: Any) -> Any:
        """The role that the loop yields for an index."""
        own = {self.dimension: (tree.number(self, handle, "index"), 0)}
        return self.role({**own, **{what: (tree.number(self, handle, what), 0) for what in self.maps}})


NODE = Entity(
    "node",
    lambda setup: len(setup.mechanism.kinds),
    {
        "node": lambda _, k: k + 1,
        "depth": lambda setup, k: setup.topology.depths[k],
        "q": lambda setup, k: setup.mechanism.q_starts[k],
        "v": lambda setup, k: setup.mechanism.v_starts[k],
        "m": lambda setup, k: setup.mechanism.m_starts[k],
        "joints": lambda setup, k: setup.mechanism.joint_starts[k],
        "loops": lambda setup, k: setup.mechanism.loop_starts[k],
    },
)
FRAME = Entity(
    "frame",
    lambda setup: len(setup.sites),
    {
        "frame": lambda _, i: i,
        "sorted_rows": lambda setup, i: setup.rows.starts[i],
        "rows": lambda setup, i: setup.rows.task_starts[i],
    },
)
#: The rows of a frame, in the order in which rows are numbered.
GROUP = Entity(
    "group",
    lambda setup: len(setup.rows.groups),
    {
        "sorted_rows": lambda setup, g: setup.rows.groups[g].start,
        "rows": lambda setup, g: setup.rows.task_rows[setup.rows.groups[g].start],
        "beyond": lambda setup, g: setup.rows.groups[g].stop,
    },
)
#: The rows of a task, in the user's order.
TASK = Entity("task", lambda setup: len(setup.rows.tasks), {"rows": lambda setup, t: setup.rows.tasks[t].start})
COLUMN = IndexEntity(
    "column",
    lambda setup: setup.mechanism.nv,
    {"index": lambda _, c: c},
    dimension="v",
    exists=lambda variants: bool(variants.nodes),
    role=lambda at: ColumnRole(at["v"]),
)
ROW = IndexEntity(
    "sorted_rows",
    lambda setup: setup.rows.count,
    {"index": lambda _, r: r, "rows": lambda setup, r: setup.rows.task_rows[r]},
    dimension="sorted_rows",
    maps=("rows",),
    identity=lambda variants, what: what == "index" or variants.in_order,
    shared=lambda variants, what: what == "rows" and bool(variants.relatives),  # the two ends of a task
    exists=lambda variants: bool(variants.frames),
)
PLACE = IndexEntity(
    "place",
    lambda setup: setup.rows.task_row_count,
    {"index": lambda _, r: r},
    dimension="rows",
    exists=lambda variants: bool(variants.frames),
)


# Members of the rows of a table


@dataclass(frozen=True)
class NodeEntity:
    """A node."""

    name: str  # name of its role, for error messages
    right: str = "read"  # access of the body to its fields: "set", "add" or "read"
    #: "kind": the body is traced for each kind and can use what the kind supplies; "port": only for each port.
    by: str = "port"
    world: bool = False  # whether it may be the world
    entity = NODE

    def keys(self, variants: Variants) -> list[Any]:
        """All its variants."""
        if self.by == "kind":
            return list(dict.fromkeys(kind.name for kind, _ in variants.nodes))
        return [*([WORLD_CLASS] if self.world else []), *variants.ports]

    def key(self, setup: Setup, k: int) -> Any:
        """The variant of one of them."""
        return setup.mechanism.kinds[k].name if self.by == "kind" else port_of(setup.mechanism, k)

    def role(self, tree: Engine, handle: Any, key: Any, ledger: Ledger) -> NodeRole:
        """The role that the body receives."""
        return NodeRole(tree.cell(self, handle, key), self.name, self.right, ledger, self.by == "kind")


@dataclass(frozen=True)
class FrameEntity:
    """A frame."""

    name: str
    known: bool = False  # whether the body knows its rows and its part in a task
    entity = FRAME

    def keys(self, _: Variants) -> list[Any]:
        """All its variants. Those of known frames depend on the nodes that carry them, so their loops have `cases`."""
        return [None]

    def key(self, setup: Setup, i: int) -> Any:
        """The variant of one of them."""
        return (setup.sites[i].rows, setup.sites[i].part) if self.known else None

    def role(self, tree: Engine, handle: Any, key: Any, _: Ledger) -> FrameRole:
        """The role that the body receives."""
        at = {what: tree.number(FRAME, handle, what) for what in ("frame", "sorted_rows", "rows")}
        return FrameRole(handle, tree.placement(handle), at, key[0] if self.known else ())


@dataclass(frozen=True)
class Group:
    """Rows that are visited together."""

    name: str
    entity: Entity  # the group as an entity
    #: For each dimension along which its rows have indices, the name of the number at which they start.
    at: Mapping[str, str]
    size: Number  # number of rows of a group
    keys: Callable[[Variants], list[Any]] = lambda variants: sorted(variants.sizes)  # sizes that occur

    def key(self, setup: Setup, n: int) -> Any:
        """The variant of one of them."""
        return self.size(setup, n)

    def role(self, tree: Engine, handle: Any, key: Any, _: Ledger) -> GroupRole:
        """The role that the body receives."""
        starts = {dimension: tree.number(self.entity, handle, what) for dimension, what in self.at.items()}
        rows = (RowRole({dimension: (start, i) for dimension, start in starts.items()}) for i in range(key))
        return GroupRole(handle, tuple(rows))


def number_of(setup: Setup, entity: Entity, n: int, what: str) -> int:
    """A number of an entity; for the world always 0."""
    return 0 if n == WORLD else entity.numbers[what](setup, n)


def numbers_of(setup: Setup, entity: Entity, entities: Sequence[int], what: str) -> list[int]:
    """A number of each of some entities; for the world always 0."""
    number = entity.numbers[what]
    return [0 if n == WORLD else number(setup, n) for n in entities]


class LoopShape(ABC, Generic[_T]):
    """A loop of any shape.

    Args:
        name: Unique among loops; by default the name of the attribute of `Tree`.
        over: For an inner loop, the entity it is called with: a node, a frame or a task.
    """

    def __init__(self, name: str, over: Entity | None) -> None:
        self.name, self.over = "", over
        if name:
            self.__set_name__(LoopShape, name)

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            return
        if name in LOOPS:
            raise ValueError(f"a loop with the name {name} already exists")
        self.name = name
        LOOPS[name] = self
        if self.over is not None:
            self.over.numbers.update({f"{name}.{what}": number for what, number in self._numbers().items()})

    def _numbers(self) -> dict[str, Number]:
        """The numbers that the loop attaches to each entity it is over."""
        return {}

    @overload
    def __get__(self, tree: None, owner: type) -> LoopShape[_T]: ...
    @overload
    def __get__(self, tree: Engine, owner: type) -> Callable[..., Iterator[_T]]: ...
    def __get__(self, tree: Engine | None, owner: type) -> Any:
        return self if tree is None else lambda *arguments: self(tree, *arguments)

    def __call__(self, tree: Engine, *arguments: Any) -> Iterator[_T]:
        """Run over a tree. An inner loop takes the role it is over; both may take the index to start at."""
        over = None
        if self.over is not None:
            over, *rest = arguments
            over, arguments = handle_of(over), tuple(rest)
        first: Any = arguments[0] if arguments else None
        return tree.visit(self, over, None if first is None else self._index_of(first))

    def _index_of(self, _: Any) -> Index:
        return refuse(f"the loop {self.name} cannot start at an index")

    @abstractmethod
    def visits(self, setup: Setup, over: int, start: int | None = None, stop: int | None = None) -> Sequence[Any]:
        """What the loop visits, in order: rows of entity numbers, or indices."""


#: All loops, by name.
LOOPS: dict[str, LoopShape[Any]] = {}


class Inner(NamedTuple):
    """A loop over indices that is yielded along with each row of a table."""

    loop: LoopShape[Any]
    own: bool = True  # whether it is over the row's own entity; otherwise it is over the entity of the table's loop
    start: str = ""  # name of the entity's number at which it starts, if not at its own beginning


class Table(LoopShape[_T]):
    """A loop over rows of entities, with one body per variant of a row.

    Args:
        *roles: The members of a row.
        rows: All rows, each with one number per role.
        of: A loop with the same rows, or a superset, to share them with.
        backwards: Whether the last row comes first.
        direction: "outward" if a node comes after its parent, "inward" if before, "" if it does not matter.
        cases: The variants of rows. The default combines those of each role.
        where: Selects the variants of rows that are visited; default all.
        over: The entity that an inner loop is over.
        part: The range of `rows` that belongs to the entity that the loop is over.
        inner: Loops that the body receives in addition to the roles.
        name: Name of the loop.
    """

    def __init__(
        self,
        *roles: NodeEntity | FrameEntity | Group,
        rows: Callable[[Setup], Sequence[tuple[int, ...]]] | None = None,
        of: Table[Any] | None = None,
        backwards: bool = False,
        direction: str = "",
        cases: Callable[[Variants], Sequence[tuple[Any, ...]]] | None = None,
        where: Callable[[tuple[Any, ...]], bool] | None = None,
        over: Entity | None = None,
        part: Callable[[Setup, int], range] | None = None,
        inner: tuple[Inner, ...] = (),
        name: str = "",
    ) -> None:
        self.roles, self.backwards, self.direction, self.inner = roles, backwards, direction, inner
        self.source: Table[Any] = self if of is None else of.source
        self._rows, self._cases, self._where, self._part = rows, cases, where, part
        super().__init__(name, over)

    def _numbers(self) -> dict[str, Number]:
        part = self._part
        if part is None:
            raise TypeError(f"a table over {self.over} needs `part`, the rows that belong to each")
        return {"begin": lambda setup, n: part(setup, n).start, "end": lambda setup, n: part(setup, n).stop}

    def cases(self, variants: Variants) -> list[tuple[Any, ...]]:
        """The variants of rows. Their positions among those of `source` identify them in compiled code."""
        if self.source is not self:
            return [case for case in self.source.cases(variants) if self._where is None or self._where(case)]
        if self._cases is not None:
            return list(self._cases(variants))
        return list(product(*(role.keys(variants) for role in self.roles)))

    def variant(self, setup: Setup, row: Sequence[int]) -> tuple[Any, ...]:
        """The variant of a row."""
        return tuple(role.key(setup, n) for role, n in zip(self.roles, row, strict=True))

    def variants(self, setup: Setup, rows: Sequence[Sequence[int]]) -> list[tuple[Any, ...]]:
        """The variants of rows."""
        columns = zip(self.roles, zip(*rows, strict=True), strict=True) if rows else ()
        return list(zip(*([role.key(setup, n) for n in numbers] for role, numbers in columns), strict=True))

    def rows(self, setup: Setup) -> Sequence[tuple[int, ...]]:
        """All rows."""
        if self.source._rows is None:
            raise TypeError(f"the loop {self.source.name} needs `rows` or `of`")
        return setup.derived(self.source._rows)

    def visits(self, setup: Setup, over: int, *_: int | None) -> Sequence[tuple[int, ...]]:
        rows = self.rows(setup)
        if self._part is not None:
            part = self._part(setup, over)
            rows = rows[part.start : part.stop]
        if self._where is not None:
            rows = [row for row in rows if self._where(self.variant(setup, row))]
        return rows[::-1] if self.backwards else rows

    def yielded(self, tree: Engine, handles: Sequence[Any], variant: tuple[Any, ...], over: Any) -> Any:
        """The roles and inner loops that the body receives for a row."""
        ledger = Ledger()
        seen: list[Any] = [r.role(tree, h, key, ledger) for r, h, key in zip(self.roles, handles, variant, strict=True)]
        for loop, own, start in self.inner:
            at = (tree.number(self.roles[0].entity, handles[0], start), 0) if start else None
            seen.append(tree.visit(loop, handles[0] if own else over, at))
        return tuple(seen) if len(seen) > 1 else seen[0]


class IndexLoop(LoopShape[_T]):
    """A loop over indices of a kind. A given start index is `skip` before the first one that is visited."""

    def __init__(self, index: IndexEntity, over: Entity | None, skip: int, name: str) -> None:
        self.index, self.skip = index, skip
        super().__init__(name, over)

    def _index_of(self, first: Any) -> Index:
        base, offset = first.start(self.index.dimension)
        return base, offset + self.skip

    def length(self, setup: Setup, over: int, start: int | None = None, stop: int | None = None) -> int:
        """The number of indices that `visits` gives."""
        return len(self.visits(setup, over, start, stop))


class Range(IndexLoop[_T]):
    """A loop over contiguous indices, which engines may compute in parallel lanes.

    Args:
        index: The kind of index that it yields.
        over: The entity that it is over.
        start: First index, by default 0.
        stop: One past the last index, by default the length of the dimension.
        skip: Distance from a given start index to the first one visited.
        backwards: Whether the last index comes first.
        name: Name of the loop.
    """

    def __init__(
        self,
        index: IndexEntity,
        over: Entity | None = None,
        start: Number | None = None,
        stop: Number | None = None,
        skip: int = 0,
        backwards: bool = False,
        name: str = "",
    ) -> None:
        self.backwards = backwards
        self.bounds = {what: number for what, number in (("start", start), ("stop", stop)) if number is not None}
        super().__init__(index, over, skip, name)

    def _numbers(self) -> dict[str, Number]:
        return self.bounds

    def visits(self, setup: Setup, over: int, start: int | None = None, stop: int | None = None) -> range:
        first = self.bounds["start"](setup, over) if "start" in self.bounds else 0
        end = self.bounds["stop"](setup, over) if "stop" in self.bounds else self.index.count(setup)
        visited = range(first if start is None else max(start, first), end if stop is None else min(stop, end))
        return visited[::-1] if self.backwards else visited


class Runs(IndexLoop[_T]):
    """A loop over several ranges of indices, which depend on the entity it is over."""

    def __init__(
        self, index: IndexEntity, over: Entity, runs: Callable[[Setup, int], Sequence[range]], name: str = ""
    ) -> None:
        self.runs = runs
        super().__init__(index, over, 0, name)

    def _numbers(self) -> dict[str, Number]:
        return {
            "begin": lambda setup, n: setup.derived(self._ends)[n],
            "end": lambda setup, n: setup.derived(self._ends)[n + 1],
        }

    def all_runs(self, setup: Setup) -> list[range]:
        """The ranges of all entities."""
        count = self.over.count(setup) if self.over is not None else 0
        return [run for n in range(count) for run in self.runs(setup, n)]

    def _ends(self, setup: Setup) -> list[int]:
        ends = [0]
        for n in range(self.over.count(setup) if self.over is not None else 0):
            ends.append(ends[-1] + len(self.runs(setup, n)))
        return ends

    def visits(self, setup: Setup, over: int, *_: int | None) -> Sequence[int]:
        return list(chain(*self.runs(setup, over)))


class Chain(IndexLoop[_T]):
    """A loop that follows links from index to index, from a first one on; −1 ends it."""

    def __init__(
        self, index: IndexEntity, over: Entity, start: Number, links: Callable[[Setup], Sequence[int]], name: str = ""
    ) -> None:
        self.start, self.links = start, links
        super().__init__(index, over, 0, name)

    def _numbers(self) -> dict[str, Number]:
        return {"start": self.start}

    def visits(self, setup: Setup, over: int, start: int | None = None, _: int | None = None) -> Sequence[int]:
        links, found = self.links(setup), []
        index = self.start(setup, over) if start is None else start
        while index >= 0:
            found.append(index)
            index = links[index]
        return found

    def length(self, setup: Setup, over: int, start: int | None = None, _: int | None = None) -> int:
        index = self.start(setup, over) if start is None else start
        return setup.derived(self._lengths)[index] if index >= 0 else 0

    def _lengths(self, setup: Setup) -> list[int]:
        """How many indices follow from each, which comes after those that it is linked to."""
        lengths: list[int] = []
        for link in self.links(setup):
            lengths.append(1 + lengths[link] if link >= 0 else 1)
        return lengths
