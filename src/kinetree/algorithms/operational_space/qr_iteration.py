"""Eigenvalues and eigenvectors of a symmetric tridiagonal matrix by shifted QR steps. Cost O(r³).

A step factors T − σI = Q R and forms R Q + σI, by one rotation for each pair of neighbouring rows, first pair first.
With Wilkinson's shift σ, the last entry beside the diagonal that is not negligible converges to zero, at a cubic rate.

The rotations follow the rational variant of Pal, Walker and Kahan ([P] §8.15): the pivots of a factorisation without
square roots, t(i) = d(i) − σ − e(i)²/t(i−1), and the squared cosines C(i) form the only chains from row to row. The
rotations' square roots do not wait for each other, and several of them are computed at once. Two departures:

- There is no test for convergence. Steps are taken from a fixed list, so every sample takes the same operations in the
  same order, and its bits depend neither on its neighbours in the batch nor on the processor.
- The matrix is not split. A negligible entry beside the diagonal becomes zero, and no rotation mixes the two sides of
  it; σ comes from the last entry that is left. A pivot of zero becomes a tiny number, as in bisection.

Eigenvalues have errors of the size of rounding errors of the largest one.

[P] B. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetree.algorithms.choices import larger, less, magnitude
from kinetree.algorithms.operational_space.tridiagonal import DOWNWARDS, SINGLE, group_of, neighbours, single
from kinetree.recursion.entities import PLACE
from kinetree.recursion.loops import Range, Table
from kinetree.recursion.roles import GroupRole, RowRole
from kinetree.recursion.setup import Setup
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

#: Entries beside the diagonal are negligible below this fraction of the largest row sum.
_NEGLIGIBLE = 2.0**-53
#: Eigenvalues that may still converge when a step leaves out rows.
_LAG = 2
#: Pivots are at least this fraction of it, and never zero.
_LEAST_PIVOT, _NEVER_ZERO = 2.0**-110, 2.0**-400


def schedule(rows: int) -> list[int]:
    """The last row of each step.

    Householder reflections leave the large entries in the first rows and the small ones in the last, where eigenvalues
    converge first. Each takes two steps, some three, after a few more for the first of them. Steps leave out rows whose
    eigenvalues have converged; an entry that couples them to the others would be an error. So the steps lag two
    eigenvalues behind: without a lag, one matrix in 10⁵ was too slow, with it none of 24 million. The last steps visit
    all rows again.
    """
    if rows < 3:
        return [1] * (rows - 1)
    each = [last for last in range(rows - 1, 0, -1) for _ in range(3 if (rows - last) % 4 == 2 else 2)]
    return [rows - 1] * (5 + rows // 4) + [min(last + _LAG, rows - 1) for last in each] + [rows - 1] * 3


def _steps(setup: Setup) -> Sequence[tuple[int]]:
    return [(last,) for last in schedule(setup.rows.task_row_count)]


_STEPS: Table[GroupRole] = Table(single("last"), rows=_steps, name="qr_steps")
_PAIRS: Table[tuple[GroupRole, GroupRole]] = Table(single("before"), single("after"), rows=neighbours, name="qr_pairs")
_ROTATIONS: Table[tuple[GroupRole, GroupRole]] = Table(
    *_PAIRS.roles, of=_PAIRS, over=SINGLE, part=lambda _, last: range(last), name="qr_rotations"
)
# what passes from row to row stays in registers within a group of rows
_ROTATED: Table[tuple[GroupRole, GroupRole]] = Table(
    *DOWNWARDS.roles,
    of=DOWNWARDS,
    over=SINGLE,
    part=lambda setup, last: range(group_of(setup, last) + 1),
    name="qr_rotated",
)
_WINDOW: Range[RowRole] = Range(PLACE, SINGLE, stop=lambda _, last: last + 1, name="qr_window")


class _Trailing:
    """The last entry beside the diagonal that is not zero, with the diagonal entries above it and to its right.

    For each row, those of the rows before it are kept, so that they follow from the first row to the last.
    """

    def __init__(self, tree: Tree) -> None:
        self._preceding, self._kept = tree.array("rows"), [tree.array("rows") for _ in range(3)]
        for row in tree.task_rows():
            for array in (self._preceding, *self._kept):
                array[row] = 0.0

    def pass_on(self, before: Any, row: Any, beside: Any, diagonal: Any) -> None:
        """Take note of the row before one, given its entries."""
        for array, value in zip(self._kept, self.at(before, beside, diagonal), strict=True):
            array[row] = value
        self._preceding[row] = diagonal

    def at(self, row: Any, beside: Any, diagonal: Any) -> list[Any]:
        """The last entry up to a row, given the row's own, and its two diagonal entries, the last one first."""
        own = beside, diagonal, self._preceding[row]
        return [less(-magnitude(beside), 0.0, x, y[row]) for x, y in zip(own, self._kept, strict=True)]


def qr_iteration(tree: Tree, d: Indexed, e: Indexed, V: Indexed) -> None:
    """Diagonalise a tridiagonal matrix.

    Args:
        tree: Provides the rows; nothing else of it is used.
        d: Diagonal; becomes the eigenvalues, in no particular order, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,); overwritten.
        V: The rotations are applied to its rows, (r, r).
    """
    t, C, gamma, sign, sine, cosine, length, scale = (tree.array("rows") for _ in range(8))
    for row in tree.task_rows():
        scale[row] = 0.0
    for row in tree.task_rows():
        size = magnitude(d[row]) + 2.0 * magnitude(e[row])
        for other in tree.task_rows():
            scale[other] = larger(scale[other], size)
    for row in tree.task_rows():
        e[row] = _or_zero(e[row], scale[row])
    trailing = _Trailing(tree)
    for before, after in _PAIRS(tree):
        (i,), (j,) = before.rows, after.rows
        trailing.pass_on(i, j, e[i], d[i])

    for final in _STEPS(tree):
        (last,) = final.rows
        # Wilkinson's shift
        entry, own, above = trailing.at(last, e[last], d[last])
        half = 0.5 * (above - own)
        root = magnitude(half) + sqrt(half * half + entry * entry) + _NEVER_ZERO
        sigma = own - less(half, 0.0, -entry, entry) * (entry / root)
        least = _LEAST_PIVOT * scale[last] + _NEVER_ZERO
        for row in _WINDOW(tree, final):  # the chains start in the first row, which has no rotation
            t[row] = _or_least(d[row] - sigma, least)
            C[row] = 1.0
            length[row] = 1.0
            sign[row] = 1.0
        for row in tree.task_rows():  # neither the first row nor those after the last one are rotated
            cosine[row] = 1.0
            sine[row] = 0.0

        for before, after in _ROTATIONS(tree, final):
            (i,), (j,) = before.rows, after.rows
            pivot, square = t[i], e[j] * e[j]
            weight = C[i] * (pivot * pivot)
            total = weight + square
            C[j] = weight / total
            t[j] = _or_least((d[j] - sigma) - square / pivot, least)
            length[j] = total
            sign[j] = less(pivot, 0.0, -sign[i], sign[i])

        for row in _WINDOW(tree, final):
            size = sqrt(length[row])
            length[row] = size
            sine[row] = e[row] / size
            cosine[row] = sign[row] * sqrt(C[row])
            gamma[row] = C[row] * t[row]

        for before, after in _ROTATIONS(tree, final):
            (i,), (j,) = before.rows, after.rows
            entry, own = _or_zero(sine[i] * length[j], scale[i]), gamma[i] + (d[j] - gamma[j])
            trailing.pass_on(i, j, entry, own)
            e[i], d[i] = entry, own
        e[last] = _or_zero(sine[last] * (cosine[last] * t[last]), scale[last])
        d[last] = gamma[last] + sigma

        for group, before in _ROTATED(tree, final):
            (previous,) = before.rows
            angles = [(cosine[row], sine[row]) for row in group.rows]
            for k in tree.task_rows():
                x, above = V[previous, k], previous
                for row, (c, s) in zip(group.rows, angles, strict=True):
                    y = V[row, k]
                    V[above, k] = c * x + s * y
                    x, above = c * y - s * x, row
                V[above, k] = x


def _or_zero(entry: Any, scale: Any) -> Any:
    """An entry beside the diagonal, or zero if it is negligible."""
    return less(magnitude(entry), _NEGLIGIBLE * scale, 0.0, entry)


def _or_least(pivot: Any, least: Any) -> Any:
    """A pivot, unless it is too small to divide by."""
    return less(magnitude(pivot), least, least, pivot)
