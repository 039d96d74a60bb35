"""The largest eigenvalue of a symmetric tridiagonal matrix T, and how many eigenvalues lie below given numbers.

The pivots t(i) = x − d(i) − e(i)²/t(i−1) of xI − T are ratios of its leading minors. As many of them are positive as
eigenvalues of T lie below x ([P] §3.3).

The largest eigenvalue is enclosed between a number below it, at first the largest diagonal entry, and a number x above,
at first Gershgorin's bound. Each step of Laguerre's iteration for the polynomial p = Πt(i),

    x ← x − r/(G + √((r/m − 1)(r H − G²))),    G = p'/p,    H = −G'

with m = 1 comes closer without passing the eigenvalue, at a cubic rate if it is alone. So does m = 2 for a double one,
as of two equal arms, and so on. In each step, pivots show on which side of the eigenvalue the results for several m
lie, and where numbers at equal distances between the bounds lie, which help while eigenvalues can hardly be told apart.
The number of steps is fixed; in rare cases they are not enough, which counting shows.

[P] B. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetree.algorithms.choices import larger, less, magnitude, smaller
from kinetree.algorithms.operational_space.tridiagonal import DOWNWARDS, SINGLE, single
from kinetree.recursion.entities import PLACE
from kinetree.recursion.loops import Range, Table
from kinetree.recursion.roles import GroupRole, RowRole
from kinetree.recursion.setup import Setup
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

#: Steps of Laguerre's iteration. Three were too few for a tenth of 160 matrices of robots, four for none.
_STEPS = 4
#: Groups of rows that stand for points; twelve points fit into one or two vectors.
_GROUPS = 2
#: Pivots are never zero.
_LEAST_PIVOT = 2.0**-200
#: What is added to results for m > 1, in proportion, so that rounding does not take them past the eigenvalue.
_SLACK = 2.0**-50
_HUGE = 2.0**500


def _ends(setup: Setup) -> list[tuple[int, int]]:
    count = setup.rows.task_row_count
    return [(0, count - 1)] if count else []


def ends_times(count: int) -> Table[tuple[GroupRole, GroupRole]]:
    """A loop that visits the first row together with the last one a number of times."""
    return Table(single("first"), single("last"), rows=lambda setup: _ends(setup) * count, name=f"ends_{count}_times")


#: The first row together with the last one.
ENDS = ends_times(1)


def _groups_of_points(setup: Setup) -> int:
    return min(len(setup.rows.tasks), _GROUPS)


def _count_of_points(setup: Setup) -> int:
    return setup.rows.tasks[_groups_of_points(setup) - 1].stop


def _rounds(count: int, name: str) -> Table[tuple[GroupRole, GroupRole, GroupRole]]:
    def rows(setup: Setup) -> list[tuple[int, int, int]]:
        return [(*ends, _count_of_points(setup) - 1) for ends in _ends(setup)] * count

    return Table(single("first"), single("last"), single("point"), rows=rows, name=name)


# The first and the last row with the last of the points that are compared with the eigenvalue.
_ONCE, _LAGUERRE = _rounds(1, "points_once"), _rounds(_STEPS, "laguerre")
_POINTS: Range[RowRole] = Range(PLACE, SINGLE, stop=lambda setup, _: _count_of_points(setup), name="points")
_POINT_GROUPS: Table[tuple[GroupRole, GroupRole]] = Table(
    *DOWNWARDS.roles,
    of=DOWNWARDS,
    over=SINGLE,
    part=lambda setup, _: range(_groups_of_points(setup)),
    name="groups_of_points",
)


def largest_eigenvalue(tree: Tree, d: Indexed, e: Indexed, count: Indexed, largest: Indexed) -> None:
    """The largest eigenvalue.

    Args:
        tree: Provides the rows; nothing else of it is used.
        d: Diagonal, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).
        count: Numbers of the rows, from 1 on, (r,).
        largest: The result, in its last entry, (r,).
    """
    below, x, *workspace = (tree.array("rows") for _ in range(4))
    _enclose(tree, d, e, below, largest)
    for _, last, final in _ONCE(tree):
        (end,), (most,) = last.rows, final.rows
        width = (largest[end] - below[end]) / count[most]
        for point in _POINTS(tree, last):
            x[point] = below[end] + width * count[point]
    _compare(tree, d, e, x, below, largest, *workspace)

    # 1/t, t'/t and t''/t of a row, and the sums up to it
    *_, G, H = state = [tree.array("rows") for _ in range(5)]
    for first, last, final in _LAGUERRE(tree):
        (top,), (end,), (most,) = first.rows, last.rows, final.rows
        start, n, points = largest[end], count[end], count[most]
        for array in state:
            array[top] = 0.0
        for group, before in DOWNWARDS(tree):
            (previous,) = before.rows
            own, slope, curve, first_sum, second_sum = (array[previous] for array in state)
            for row in group.rows:
                # with w = e²/t of the pivot before: t' = 1 + w t'/t, t'' = w (t''/t − 2 (t'/t)²)
                w = (e[row] * e[row]) * own
                own = 1.0 / _pivot((start - d[row]) - w)
                slope, curve = (1.0 + w * slope) * own, (w * (curve - 2.0 * (slope * slope))) * own
                first_sum, second_sum = first_sum + slope, second_sum + (slope * slope - curve)
            for array, value in zip(state, (own, slope, curve, first_sum, second_sum), strict=True):
                array[group.rows[-1]] = value
        slope = less(-G[end], 0.0, G[end], _HUGE)  # if not positive, it has been passed, by a rounding error
        under = larger(n * H[end] - G[end] * G[end], 0.0)
        single = start - n / (slope + sqrt((n - 1.0) * under))
        bottom = below[end]
        largest[end] = larger(single, bottom)
        for point in _POINTS(tree, last):
            m = count[point]
            multiple = (start + _SLACK * start) - n / (slope + sqrt((n / m - 1.0) * under))
            between = bottom + (single - bottom) * ((2.0 * m - points) / points)
            x[point] = less(2.0 * m, points + 0.5, multiple, between)
        _compare(tree, d, e, x, below, largest, *workspace)


def _enclose(tree: Tree, d: Indexed, e: Indexed, below: Indexed, above: Indexed) -> None:
    """Lower and upper bounds of the largest eigenvalue, in last entries."""
    disc = tree.array("rows")
    for first, _ in ENDS(tree):
        (top,) = first.rows
        disc[top], below[top], above[top] = 0.0, d[top], 0.0
    for group, before in DOWNWARDS(tree):
        (previous,) = before.rows
        # the right ends of Gershgorin's discs; that of a row needs the next one
        end, lower, upper = disc[previous], below[previous], above[previous]
        for row in group.rows:
            side = magnitude(e[row])
            lower, upper, end = larger(lower, d[row]), larger(upper, end + side), d[row] + side
        disc[group.rows[-1]], below[group.rows[-1]], above[group.rows[-1]] = end, lower, larger(upper, end)


def _compare(
    tree: Tree, d: Indexed, e: Indexed, x: Indexed, below: Indexed, above: Indexed, pivot: Indexed, least: Indexed
) -> None:
    """Improve both bounds, in last entries, by numbers x, which pivots show to lie on one side of the eigenvalue."""
    for _, last in ENDS(tree):
        (end,) = last.rows
        for point in _POINTS(tree, last):
            pivot[point] = 1.0
            least[point] = 1.0
        for group, _ in DOWNWARDS(tree):
            entries = [(d[row], e[row] * e[row]) for row in group.rows]
            for point in _POINTS(tree, last):
                own, smallest = pivot[point], least[point]
                for diagonal, square in entries:
                    own = _pivot((x[point] - diagonal) - square / own)
                    smallest = smaller(smallest, own)
                pivot[point], least[point] = own, smallest
        for group, _ in _POINT_GROUPS(tree, last):
            lower, upper = below[end], above[end]
            for point in group.rows:
                upper = less(-least[point], 0.0, smaller(upper, x[point]), upper)
                lower = less(least[point], 0.0, larger(lower, x[point]), lower)
            below[end], above[end] = lower, upper


def counts_below(tree: Tree, d: Indexed, e: Indexed, points: Sequence[Any]) -> list[Any]:
    """For each point, an array whose last entry is the number of eigenvalues below it; less if something is NaN.

    Args:
        tree: Provides the rows.
        d: Diagonal, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).
        points: Arrays with the points in their last entries, (r,).
    """
    pivots, counts = [tree.array("rows") for _ in points], [tree.array("rows") for _ in points]
    for first, last in ENDS(tree):
        (top,), (end,) = first.rows, last.rows
        values = [point[end] for point in points]
        for pivot, count in zip(pivots, counts, strict=True):
            pivot[top], count[top] = 1.0, 0.0
        for group, before in DOWNWARDS(tree):
            (previous,) = before.rows
            squares = [e[row] * e[row] for row in group.rows]
            for x, pivot, count in zip(values, pivots, counts, strict=True):
                own, found = pivot[previous], count[previous]
                for row, square in zip(group.rows, squares, strict=True):
                    own = _pivot((x - d[row]) - square / own)
                    found = found + less(-own, 0.0, 1.0, 0.0)
                pivot[group.rows[-1]], count[group.rows[-1]] = own, found
    return counts


def _pivot(value: Any) -> Any:
    """A pivot, unless it is too small to divide by."""
    return less(magnitude(value), _LEAST_PIVOT, _LEAST_PIVOT, value)
