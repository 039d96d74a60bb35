"""The loops of the kernel language as data: over a size, over blocks of it, over lists of its indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from threading import RLock
from typing import Any

from kinetree.language.contract import refuse
from kinetree.language.loops import COLUMN, PLACE, Entity, Group, IndexEntity, Number, Range, Table
from kinetree.language.mechanism import Sizes
from kinetree.language.roles import GroupRole, Index, RowRole
from kinetree.language.setup import Dimension, Setup

#: Lengths that blocks may have.
BLOCKS = (2, 3, 4, 6, 8)
#: Of a block, the index before it.
PREVIOUS = "previous"


class SizeIndex(RowRole):
    """An index of a kernel."""

    def span(self, dimension: str) -> tuple[Index, int | None]:
        if dimension not in self.at:
            over = " and ".join(map(plain_name, self.at))
            refuse(f"an axis over {plain_name(dimension)} is indexed by an index over {over}")
        return self.at[dimension], None

    def start(self, dimension: str) -> Index:
        return self.span(dimension)[0]


class OuterIndex(SizeIndex):
    """An index that is not a loop's own: of a block, before another, of a list."""

    def __add__(self, i: Any) -> OuterIndex:
        """As many further on as a loop inside has come."""
        if type(i) is not SizeIndex or len(i.at) != 1:
            refuse("an index of a block or a list is added to an index of a loop inside, such as j + t")
        ((inner, shift),) = i.at.values()
        return OuterIndex({dimension: (inner + base, offset + shift) for dimension, (base, offset) in self.at.items()})


class ListedIndex(OuterIndex):
    """An index of a list."""

    def __init__(self, at: dict[str, Index], handle: Any, of: GroupList) -> None:
        super().__init__(at)
        self.handle, self.of = handle, of


class _BlockLoops:
    """The loops over blocks of one length."""

    def __init__(self, index: IndexEntity, length: int) -> None:
        self._index, self._length, dimension = index, length, index.dimension
        self._name = f"{dimension}:blocks {length}"
        #: The block before it starts at the index before; the first block has its own first index there.
        numbers = {dimension: self._start, PREVIOUS: lambda setup, block: max(self._start(setup, block) - 1, 0)}
        entity = Entity(f"{dimension}:block {length}", self._count, numbers)
        self._group = Group("block", entity, {dimension: dimension}, self._size, lambda _: [length, 1])
        self.all: Table[GroupRole] = Table(self._group, rows=self._rows, name=self._name)
        self.backwards: Table[GroupRole] = Table(
            self._group, of=self.all, backwards=True, name=f"{self._name} reversed"
        )
        self.since = self.part("since", index, lambda setup, i: range(self.of(setup, i), self._count(setup)))

    def part(self, name: str, over: Entity, part: Callable[[Setup, int], range]) -> Table[GroupRole]:
        """Some of the blocks, given an entity."""
        return Table(self._group, of=self.all, over=over, part=part, name=f"{self._name} {name}")

    def of(self, setup: Setup, i: int) -> int:
        """The block of an index."""
        whole = self._whole(setup)
        return min(i // self._length, whole) + max(i - whole * self._length, 0)

    def _whole(self, setup: Setup) -> int:
        return self._index.count(setup) // self._length

    def _count(self, setup: Setup) -> int:
        return self._whole(setup) + self._index.count(setup) % self._length

    def _start(self, setup: Setup, block: int) -> int:
        return self._length * min(block, self._whole(setup)) + max(block - self._whole(setup), 0)

    def _size(self, setup: Setup, block: int) -> int:
        return self._length if block < self._whole(setup) else 1

    def _rows(self, setup: Setup) -> list[tuple[int]]:
        return [(block,) for block in range(self._count(setup))]


class _Loops:
    """The loops over a dimension."""

    def __init__(self, index: IndexEntity) -> None:
        self.index, dimension = index, index.dimension
        self.forwards: Range[Any] = Range(index, name=f"{dimension}:all")
        self.backwards: Range[Any] = Range(index, backwards=True, name=f"{dimension}:reversed")
        self.blocks = {length: _BlockLoops(index, length) for length in BLOCKS}


class GroupList:
    """Groups of indices that are given when a kernel is compiled: some of each of one or several sizes."""

    def __init__(self, name: str, over: Mapping[str, int]) -> None:
        self._name, self.over = name, over
        numbers: dict[str, Number] = {d: partial(self._start, place) for place, d in enumerate(over)}
        self.entity = Entity(name, lambda setup: len(self._starts(setup)), numbers)
        groups = [
            Group(f"of {dimension}", self.entity, {dimension: dimension}, _always(length), _always([length]))
            for dimension, length in over.items()
        ]
        self.all: Table[Any] = Table(*groups, rows=self._rows, name=name)
        self.backwards: Table[Any] = Table(*groups, of=self.all, backwards=True, name=f"{name} reversed")
        self.before: Table[Any] = Table(
            *groups, of=self.all, over=self.entity, part=lambda _, row: range(row), name=f"{name} before"
        )
        self.through: dict[int, Table[GroupRole]] = {}
        if list(over.values()) == [1]:
            (dimension,) = over
            self.through = {
                length: blocks.part(name, self.entity, self._part(blocks))
                for length, blocks in loops_over(dimension).blocks.items()
            }

    def _starts(self, setup: Setup) -> Sequence[tuple[int, ...]]:
        return Sizes.lists_of(setup.mechanism)[self._name]

    def _start(self, place: int, setup: Setup, row: int) -> int:
        return self._starts(setup)[row][place]

    def _rows(self, setup: Setup) -> list[tuple[int, ...]]:
        return [(row,) * len(self.over) for row in range(len(self._starts(setup)))]

    def _part(self, blocks: _BlockLoops) -> Callable[[Setup, int], range]:
        return lambda setup, row: range(blocks.of(setup, self._start(0, setup, row)) + 1)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


#: Dimensions of trees that kernels may run over.
_OF_TREES = {"rows": PLACE, "v": COLUMN}


# Loops and lists are made once, when a kernel that names them is declared: code from the cache needs them, untraced.
_making = RLock()


def loops_over(dimension: str) -> _Loops:
    """The loops over a dimension."""
    with _making:
        return _loops_made(dimension)


@cache
def _loops_made(dimension: str) -> _Loops:
    return _Loops(_OF_TREES.get(dimension) or _index(dimension))


def group_list(name: str, over: tuple[tuple[str, int], ...]) -> GroupList:
    """A list of groups of indices of named sizes."""
    with _making:
        return _list_made(name, over)


@cache
def _list_made(name: str, over: tuple[tuple[str, int], ...]) -> GroupList:
    return GroupList(name, {inner_name(size): length for size, length in over})


def _index(dimension: str) -> IndexEntity:
    def size(setup: Setup) -> int:
        return Sizes.of(setup.mechanism)[dimension]

    Dimension(dimension, size)
    return IndexEntity(dimension, size, {"index": lambda _, i: i}, dimension=dimension, role=SizeIndex)


for _dimension in _OF_TREES:  # texts name them when they are traced, but their code may come from the cache
    loops_over(_dimension)


def inner_name(name: str) -> str:
    """The dimension of a named size; no tree has one of this name."""
    return f"size {name}"


def plain_name(dimension: str) -> str:
    """A dimension, as its author calls it."""
    return dimension.removeprefix("size ")
