"""Sweeps out and back over one subtree after another, so that the way back finds records in the cache.

Many recursions sweep from the base to the tips, and then back. Over many thousands of nodes, the records of the first
sweep would be in memory when the second one needs them. But a subtree needs nothing from others: once the nodes that
carry it are known, it can be swept out and back by itself. Nodes are numbered depth first, so subtrees are ranges of
rows. The way back visits all rows in the order of a single sweep, so that sums have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.engines.angles import TABLE
from kinetree.engines.carried import memory_of
from kinetree.engines.ir import Access, For, Op, Program, Store, walk
from kinetree.spatial.value import Array

#: Numbers at the head of the tables: where the table of ranges starts, and how many rows it has; for single samples,
#: then for batches, which need more memory for a node.
SUBTREES = SINGLE, BATCH = ("single ranges", "single range count"), ("batch ranges", "batch range count")
#: Columns of that table: the first row and the end of a sweep outwards, and of the one back.
COLUMNS = 4
#: Cells with the junctions of nodes and their parents.
_JUNCTIONS = memory_of(TABLE, 0)[1], memory_of(TABLE, 1)[1]
#: Scratch memory of the nodes that are swept together [bytes]: a large part of a core's own cache. Less would be
#: slower, since the processor fetches memory ahead only after the first nodes of a range.
_TOGETHER = 640_000
#: Scratch memory of a number [bytes], for a single sample and for a batch: one vector.
_BYTES = 8, 64
#: Smaller subtrees are swept with the nodes that carry them, because a loop takes time to start.
_FEWEST = 16


class OutAndBack(NamedTuple):
    """Two consecutive loops over all nodes: outwards, then back."""

    outward: For
    inward: For

    def keep_junctions(self, program: Program) -> bool:
        """Whether no loop of the program needs what others left in junctions, except for these two."""
        loops: dict[int, set[int]] = {}
        for loop in program.top.items:
            for item in walk(loop.body) if isinstance(loop, For) else ():
                access: Any = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
                if isinstance(access, Access) and access.base is not None and access.base.attr in _JUNCTIONS:
                    loops.setdefault(access.offset, set()).add(id(loop))
        return all(len(found) == 1 or found == {id(self.outward), id(self.inward)} for found in loops.values())


def out_and_back(program: Program) -> OutAndBack | None:
    """The first two loops of a lowered program that may take turns, subtree by subtree; None if there are none.

    The program must consist of sweeps (`kinetree.engines.sweeps`).
    """
    outward: For | None = None
    for item in program.top.items:
        if isinstance(item, For):
            if outward is not None and item.backwards and _over_nodes(item) and not _overlap(outward, item):
                return OutAndBack(outward, item)
            outward = item if _over_nodes(item) and not item.backwards else None
        elif isinstance(item, Store) or (isinstance(item, Op) and item.code == "load"):
            outward = None  # memory that is accessed in between, after the whole of the first loop
    return None


def _over_nodes(loop: For) -> bool:
    return loop.stop.code == "size" and bool(loop.stop.attr == f"count {TABLE}")


def _overlap(outward: For, inward: For) -> bool:
    """Whether one loop reads from parents what the other adds to them."""
    reads = {place for place, stored in _of_parents(outward) if not stored}
    return any(stored and place in reads for place, stored in _of_parents(inward))


def _of_parents(loop: For) -> Iterator[tuple[tuple[Any, int], bool]]:
    """Places in records of parents that a loop accesses: cell, None for the world, and offset; whether it stores."""
    for item in walk(loop.body):
        access: Any = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
        if not isinstance(access, Access) or access.space[0] != "records":
            continue
        cell = None if access.base is None else access.base.attr
        if cell is None or cell in memory_of(TABLE, 1):
            yield (cell, access.offset), isinstance(item, Store)


def tables(ends: Sequence[int], record: int) -> list[Array]:
    """The tables of ranges for single samples and for batches, which divide those of single samples.

    Args:
        ends: For each node, the end of its subtree.
        record: Length of the longest record, in numbers.
    """
    most = [_TOGETHER // (each * max(record, 1)) for each in _BYTES]
    return [ranges(ends, *most[: i + 1]) for i in range(len(most))]


def ranges(ends: Sequence[int], *most: int) -> Array:
    """The ranges of rows to sweep outwards and back, in this order, (n, 4).

    Args:
        ends: For each node, the end of its subtree.
        most: Number of nodes that are swept together, if they are subtrees. With several numbers, ranges of at most as
            many nodes as the first are divided into ranges of at most the second.
    """
    return np.array(list(_turns(ends, 0, len(ends), [max(each, 2 * _FEWEST) for each in most])), dtype=np.int64)


def in_turns(table: Array) -> list[tuple[int, int]]:
    """The subtrees of a table of ranges that take turns; none if all nodes are swept together."""
    return [(a, b) for a, b, c, d in table.tolist() if (a, b) == (c, d)] if len(table) > 1 else []


def places_in_turn(lengths: Array, turns: Sequence[tuple[int, int]]) -> tuple[Array, int]:
    """Places in memory that ranges use in turn: for each row, the distance from its start; and the length of it all.

    Args:
        lengths: For each row, how much it needs.
        turns: The ranges.
    """
    ends, found = np.cumsum(np.append(0, lengths)), np.zeros(len(lengths), dtype=np.int64)
    for first, end in turns:
        found[first:end] = ends[first:end] - ends[first]
    return found, max((int(ends[end] - ends[first]) for first, end in turns), default=0)


def _turns(ends: Sequence[int], start: int, stop: int, most: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """The rows of a table of ranges for some subtrees."""
    if not most:
        yield start, stop, start, stop
        return
    if stop - start <= most[0]:
        yield from _turns(ends, start, stop, most[1:])
        return
    found: list[tuple[int, int, bool]] = []  # ranges, and whether they are whole subtrees
    while start < stop:
        end = start
        while end < stop and ends[end] - start <= most[0]:
            end = ends[end]
        whole = end - start >= _FEWEST
        if not whole:
            end = max(end, start + 1)
        if not whole and found and not found[-1][2]:
            found[-1] = found[-1][0], end, False
        else:
            found.append((start, end, whole))
        start = end
    yield from ((a, b, 0, 0) for a, b, whole in found if not whole)
    for a, b, whole in reversed(found):
        if whole:
            yield from _turns(ends, a, b, most[1:])
        else:
            yield 0, 0, a, b
