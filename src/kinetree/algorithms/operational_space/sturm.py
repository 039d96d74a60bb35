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
from typing import Any, NamedTuple

from kinetree.algorithms.choices import larger, less, magnitude, smaller
from kinetree.algorithms.operational_space.tridiagonal import DOWNWARDS, SINGLE, single
from kinetree.recursion.entities import PLACE
from kinetree.recursion.loops import Range, Table
from kinetree.recursion.roles import GroupRole, RowRole
from kinetree.recursion.setup import Setup
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

#: Steps of Laguerre's iteration. With five, it finds all of 4,000 random matrices with 24 rows, and all but ten if the
#: two largest eigenvalues differ by a thousandth; four are enough for twelve rows.
_STEPS, _STEPS_FOR_FEW, _FEW = 5, 4, 12
#: How many numbers are compared with the eigenvalue at once; these fit into a vector.
_MOST_POINTS = 8
#: Pivots are never zero.
_LEAST_PIVOT = 2.0**-200
#: What is added to results, in proportion, so that rounding does not take them past the eigenvalue.
_SLACK = 2.0**-49
_HUGE, _INFINITE = 2.0**500, float("inf")


def _ends(setup: Setup) -> list[tuple[int, int]]:
    count = setup.rows.task_row_count
    return [(0, count - 1)] if count else []


def ends_times(count: int) -> Table[tuple[GroupRole, GroupRole]]:
    """A loop that visits the first row together with the last one a number of times."""
    return Table(single("first"), single("last"), rows=lambda setup: _ends(setup) * count, name=f"ends_{count}_times")


#: The first row together with the last one.
ENDS = ends_times(1)


def _count_of_points(setup: Setup) -> int:
    return min((2 * setup.rows.task_row_count + 2) // 3, _MOST_POINTS)


def _last_ones(setup: Setup) -> list[tuple[int, int]]:
    return [(end, _count_of_points(setup) - 1) for _, end in _ends(setup)]


def _steps(setup: Setup) -> list[tuple[int, int]]:
    return _last_ones(setup) * (_STEPS if setup.rows.task_row_count > _FEW else _STEPS_FOR_FEW)


# The last row with the last of the points that are compared with the eigenvalue.
_ONCE: Table[tuple[GroupRole, GroupRole]] = Table(single("last"), single("point"), rows=_last_ones, name="points_once")
_LAGUERRE: Table[tuple[GroupRole, GroupRole]] = Table(single("last"), single("point"), rows=_steps, name="laguerre")
_POINTS: Range[RowRole] = Range(PLACE, SINGLE, stop=lambda setup, _: _count_of_points(setup), name="points")


def largest_eigenvalue(tree: Tree, d: Indexed, e: Indexed, count: Indexed, largest: Indexed) -> None:
    """The largest eigenvalue.

    Args:
        tree: Provides the rows; nothing else of it is used.
        d: Diagonal, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).
        count: Numbers of the rows, from 1 on, (r,).
        largest: The result, in its last entry, (r,).
    """
    below, slope, curve, x, *state = (tree.array("rows") for _ in range(10))
    bounds = _Bounds(below, slope, curve, largest)
    _enclose(tree, d, e, bounds.below, largest)
    for last, final in _ONCE(tree):
        (end,), (most,) = last.rows, final.rows
        # the last point is certain to lie above the eigenvalue
        width = (largest[end] * (1.0 + _SLACK) + _LEAST_PIVOT - bounds.below[end]) / count[most]
        for point in _POINTS(tree, last):
            x[point] = bounds.below[end] + width * count[point]
        bounds.slope[end], bounds.curve[end], bounds.above[end] = _HUGE, 0.0, _INFINITE
    for last, final in _LAGUERRE(tree):
        (end,), (most,) = last.rows, final.rows
        _compare(tree, d, e, last, x, state, bounds)
        bottom, n, points = bounds.below[end], count[end], count[most]
        single = _closer(bounds, end, n, 1.0)
        for point in _POINTS(tree, last):
            m = count[point]
            multiple = _closer(bounds, end, n, m) + _SLACK * largest[end]
            between = bottom + (single - bottom) * ((2.0 * m - points) / points)
            x[point] = less(2.0 * m, points + 0.5, multiple, between)
    for _, last in ENDS(tree):
        (end,) = last.rows
        _compare(tree, d, e, last, x, state, bounds)
        largest[end] = _closer(bounds, end, count[end], 1.0)


class _Bounds(NamedTuple):
    """Numbers that enclose the largest eigenvalue, in last entries, (r,) each.

    Attributes:
        below: The lower bound.
        slope: G at the upper bound.
        curve: H at the upper bound.
        above: The upper bound.
    """

    below: Indexed
    slope: Indexed
    curve: Indexed
    above: Indexed


def _closer(bounds: _Bounds, end: Any, n: Any, m: Any) -> Any:
    """The result of a step for an eigenvalue of multiplicity m."""
    slope = bounds.slope[end]
    under = larger(n * bounds.curve[end] - slope * slope, 0.0)
    return bounds.above[end] - n / (slope + sqrt((n / m - 1.0) * under))


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
    tree: Tree, d: Indexed, e: Indexed, last: GroupRole, x: Indexed, state: Sequence[Indexed], bounds: _Bounds
) -> None:
    """Improve both bounds by numbers x, which pivots show to lie on one side of the eigenvalue."""
    (end,) = last.rows
    # 1/t, t'/t and t''/t of a row, sums up to it, and the least 1/t
    *_, G, H, least = state
    for point in _POINTS(tree, last):
        for array in state:
            array[point] = 0.0
        least[point] = 1.0
    for group, _ in DOWNWARDS(tree):
        entries = [(d[row], e[row] * e[row]) for row in group.rows]
        for point in _POINTS(tree, last):
            own, slope, curve, first_sum, second_sum, smallest = (array[point] for array in state)
            for diagonal, square in entries:
                # with w = e²/t of the pivot before: t' = 1 + w t'/t, t'' = w (t''/t − 2 (t'/t)²)
                w = square * own
                own = 1.0 / _pivot((x[point] - diagonal) - w)
                slope, curve = (1.0 + w * slope) * own, (w * (curve - 2.0 * (slope * slope))) * own
                first_sum, second_sum = first_sum + slope, second_sum + (slope * slope - curve)
                smallest = smaller(smallest, own)
            for array, value in zip(state, (own, slope, curve, first_sum, second_sum, smallest), strict=True):
                array[point] = value
    for point in _POINTS(tree, last):
        # if G is not positive, the eigenvalue has been passed by a rounding error
        above = less(-least[point], 0.0, less(-G[point], 0.0, x[point], _INFINITE), _INFINITE)
        upper = bounds.above[end]
        for bound, value in ((bounds.slope, G[point]), (bounds.curve, H[point]), (bounds.above, above)):
            bound[end] = less(above, upper, value, bound[end])
        bounds.below[end] = less(least[point], 0.0, larger(bounds.below[end], x[point]), bounds.below[end])


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
