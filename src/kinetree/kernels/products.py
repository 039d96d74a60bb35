"""Products of matrices, several rows and terms at a time. Cost O(n³).

A tile of the left matrix, four rows by four terms, stays in registers while it is multiplied by four rows of the right
one: sixteen products for four entries of the result that are read and written. What is left at the edges is multiplied
one row, or one term, at a time. Columns run in lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.kernels.language import Size
from kinetree.recursion.tree import Indexed

#: Rows and terms of a tile.
TILE = 4


class View:
    """A matrix given by its entries, to be read as `view[i, j]`."""

    def __init__(self, entry: Callable[[Any, Any], Any]) -> None:
        self._entry = entry

    def __getitem__(self, keys: tuple[Any, Any]) -> Any:
        return self._entry(*keys)


def transposed(matrix: Any) -> View:
    """A matrix whose indices are swapped."""
    return View(lambda i, j: matrix[j, i])


def at(matrices: Any, t: Any) -> View:
    """One of several matrices."""
    return View(lambda i, j: matrices[t, i, j])


def add_product(
    out: Indexed, over: tuple[Size, Size, Size], left: Any, right: Any, start: Any = None, symmetric: bool = False
) -> None:
    """Add a product to a matrix, `out += left @ right`.

    Args:
        out: The matrix.
        over: Its rows, the terms of each sum, and its columns.
        left: The left matrix.
        right: The right matrix.
        start: A matrix that the product is added to instead.
        symmetric: Only the upper triangle is wanted. Some entries just below the diagonal change as well.
    """
    rows, terms, columns = over
    for block in rows.blocks(TILE):
        wanted = columns.since(block) if symmetric else columns
        if start is not None:
            for j in wanted:
                for i in block:
                    out[i, j] = start[i, j]
        for some in terms.blocks(TILE):
            tile = [[left[i, p] for p in some] for i in block]
            for j in wanted:
                entries = [right[p, j] for p in some]
                for i, factors in zip(block, tile, strict=True):
                    total = out[i, j]
                    for factor, entry in zip(factors, entries, strict=True):
                        total = total + factor * entry
                    out[i, j] = total


#: A matrix of zeros, to start from.
ZERO = View(lambda *_: 0.0)


def mirror(size: Size, matrix: Indexed) -> None:
    """Fill the lower triangle from the upper one."""
    for i in size:
        for j in size.before(i):
            matrix[i, j] = matrix[j, i]
