"""Loops as data: what a loop yields, and what it visits on a mechanism.

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
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import Any, Generic, NamedTuple, TypeVar, overload

from kinetree.language.contract import refuse
from kinetree.language.entities import Engine, Entity, FrameEntity, Group, IndexEntity, NodeEntity, Number
from kinetree.language.roles import Index, Ledger, handle_of
from kinetree.language.setup import Setup, Variants

_T = TypeVar("_T")


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
        """Run over a tree.

        Args:
            tree: The mechanism.
            *arguments: For an inner loop, the role it is over; then, optionally, the index to start at.
        """
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
        """What the loop visits, in order: rows of entity numbers, or indices.

        Args:
            setup: The mechanism.
            over: Number of the entity that an inner loop is over; ignored by outer loops.
            start: Index to start at, if not at the beginning.
            stop: Index before which to stop, if not at the end.
        """


#: All loops, by name.
LOOPS: dict[str, LoopShape[Any]] = {}


class Inner(NamedTuple):
    """A loop over indices that is yielded along with each row of a table.

    Attributes:
        loop: The loop.
        own: Whether it is over the row's own entity; otherwise it is over the entity of the table's loop.
        start: Name of the entity's number at which it starts, if not at its own beginning.
    """

    loop: LoopShape[Any]
    own: bool = True
    start: str = ""


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
    """A loop over indices.

    Args:
        index: The kind of index that it yields.
        over: The entity that it is over.
        skip: Distance from a given start index to the first one visited.
        name: Name of the loop.
    """

    def __init__(self, index: IndexEntity, over: Entity | None, skip: int, name: str) -> None:
        self.index, self.skip = index, skip
        super().__init__(name, over)

    def _index_of(self, first: Any) -> Index:
        base, offset = first.start(self.index.dimension)
        return base, offset + self.skip


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
    """A loop over several ranges of indices.

    Args:
        index: The kind of index that it yields.
        over: The entity that it is over.
        runs: The ranges of each entity.
        name: Name of the loop.
    """

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
    """A loop that follows links from index to index.

    Args:
        index: The kind of index that it yields.
        over: The entity that it is over.
        start: The first index, or −1 for none.
        links: The successor of each index, or −1 for none.
        name: Name of the loop.
    """

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
