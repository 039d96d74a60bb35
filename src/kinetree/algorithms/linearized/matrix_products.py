"""Products of matrices over the degrees of freedom, several rows and columns at a time. Cost O(n³).

A tile of the left matrix, four rows by four columns, stays in registers while it is multiplied by four rows of the
right one: sixteen products for four entries of the result that are read and written. Tiles at the edges have single
rows or columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetree.recursion.entities import Entity, Group
from kinetree.recursion.loops import Table
from kinetree.recursion.roles import GroupRole
from kinetree.recursion.setup import Setup
from kinetree.recursion.tree import Indexed, Tree

_SIZE = 4


def _count(setup: Setup) -> int:
    whole, rest = divmod(setup.mechanism.nv, _SIZE)
    return whole + rest


def _start(setup: Setup, tile: int) -> int:
    whole = setup.mechanism.nv // _SIZE
    return _SIZE * min(tile, whole) + max(tile - whole, 0)


def _length(setup: Setup, tile: int) -> int:
    return _SIZE if tile < setup.mechanism.nv // _SIZE else 1


#: All degrees of freedom, four at a time, and those that are left one at a time.
_TILES: Table[GroupRole] = Table(
    Group("tile", Entity("tile", _count, {"v": _start}), {"v": "v"}, _length, lambda _: [_SIZE, 1]),
    rows=lambda setup: [(tile,) for tile in range(_count(setup))],
    name="tiles",
)


def add_product(tree: Tree, results: Sequence[Indexed], left: Indexed, factor: Any, right: Sequence[Indexed]) -> None:
    """Add products with one matrix, `result += factor · left @ right`.

    Args:
        tree: The mechanism.
        results: Matrices, (nv, nv) each.
        left: (nv, nv).
        factor: A number.
        right: As many matrices, (nv, nv) each.
    """
    for one in _TILES(tree):
        for other in _TILES(tree):
            tile = [[left[i, j] * factor for j in other.rows] for i in one.rows]
            for c in tree.columns():
                for result, matrix in zip(results, right, strict=True):
                    entries = [matrix[j, c] for j in other.rows]
                    for i, coefficients in zip(one.rows, tile, strict=True):
                        total = result[i, c]
                        for coefficient, entry in zip(coefficients, entries, strict=True):
                            total = total + coefficient * entry
                        result[i, c] = total
