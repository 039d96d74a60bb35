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
from kinetree.engines.ir import Access, For, Op, Program, Store, walk
from kinetree.spatial.value import Array

#: The cell with the record of a node's parent.
_PARENT = TABLE, "1.record"
#: Numbers at the head of the tables: where the table of ranges starts, and how many rows it has; for single samples,
#: then for batches, which need more memory for a node.
SUBTREES = SINGLE, BATCH = ("single ranges", "single range count"), ("batch ranges", "batch range count")
#: Columns of that table: the first row and the end of a sweep outwards, and of the one back.
COLUMNS = 4
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


def _of_parents(loop: For) -> Iterator[tuple[tuple[bool, int], bool]]:
    """Places in records of parents that a loop accesses: whether it is the world, and the offset; whether it stores."""
    for item in walk(loop.body):
        access: Any = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
        if not isinstance(access, Access) or access.space[0] != "records":
            continue
        if access.base is None or access.base.attr == _PARENT:
            yield (access.base is None, access.offset), isinstance(item, Store)


def tables(ends: Sequence[int], record: int) -> list[Array]:
    """The tables of ranges for single samples and for batches.

    Args:
        ends: For each node, the end of its subtree.
        record: Length of the longest record, in numbers.
    """
    return [ranges(ends, _TOGETHER // (each * max(record, 1))) for each in _BYTES]


def ranges(ends: Sequence[int], most: int) -> Array:
    """The ranges of rows to sweep outwards and back, in this order, (n, 4).

    Args:
        ends: For each node, the end of its subtree.
        most: Number of nodes that are swept together, if they are subtrees.
    """
    count, most = len(ends), max(most, 2 * _FEWEST)
    if count <= most:
        return np.array([[0, count, 0, count]], dtype=np.int64)
    found: list[tuple[int, int, bool]] = []  # ranges, and whether they are whole subtrees
    start = 0
    while start < count:
        end = start
        while end < count and ends[end] - start <= most:
            end = ends[end]
        whole = end - start >= _FEWEST
        if not whole:
            end = max(end, start + 1)
        if not whole and found and not found[-1][2]:
            found[-1] = found[-1][0], end, False
        else:
            found.append((start, end, whole))
        start = end
    carrying = [(a, b, 0, 0) for a, b, whole in found if not whole]
    back = [(a, b, a, b) if whole else (0, 0, a, b) for a, b, whole in reversed(found)]
    return np.array([*carrying, *back], dtype=np.int64)
