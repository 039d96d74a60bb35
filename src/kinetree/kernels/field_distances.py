"""Distances of points from height fields: exact, from triangles.

Each cell of the grid is two triangles, which share its diagonal. The nearest point of the ground is no farther away
than what is right below or above, so rows of cells that are farther than that are left out. There is no index that
depends on a sample: all cells of the other rows are looked at, in lanes.

Both triangles are looked at with their diagonal and the edges that begin at the first corner: all other edges are those
of the next cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less, smaller, where
from kinetree.kernels.distances import Vector, dot, minus, times
from kinetree.kernels.language import Scalar, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import sqrt

#: Numbers of a result: the signed distance, the normal, and the nearest point.
FOUND = 7
# Relative to a metre or the height, below which the normal is that of the ground; how much farther rows are looked at.
_TOUCHING, _SPARE = 1e-12, 1.0 + 1e-9


@kernel(
    points=("f", 3), rows=("a", 6), columns=(4, "b"), z=("a", "b"), found=("f", FOUND), outputs=("found",),
    rounds=("once",),
)  # fmt: skip
def field_distances(k: Workspace, points: Indexed, rows: Indexed, columns: Indexed, z: Indexed, found: Indexed) -> None:
    """The signed distance of each point from the ground, negative below it, its normal, and the nearest point.

    Args:
        k: The workspace.
        points: In the axes of the field, within the rectangle of its cells and not at its last lines.
        rows: Start, end, width, 1/width, and the least and the greatest height of the row of cells after each line.
        columns: Start, end, width, 1/width of the column of cells after each line.
        z: The heights where lines cross.
        found: Of each point.
    """
    for i in k.f:
        p = points[i]
        over = _over(k, p, rows, columns, z)
        best = _Nearest(k)
        limit = over * over * _SPARE
        for row, after in k.a.pairs():
            start, end, height, one, low, high = rows[row]
            beside, level = _outside(p[1], start, end), _outside(p[2], low, high)
            skip = k.scalar(less(limit, beside * beside + level * level, 1.0, 0.0))
            for _ in k.once.until(skip):
                for j, beyond in k.b.pairs():
                    corners = z[row, j], z[row, beyond], z[after, j], z[after, beyond]
                    best.take(j, skip, _in_cell(p, (start, height, one), columns[j], corners))
                skip[...] = 1.0
        square, rest, slopes = best.of(k)
        far = sqrt(square)
        side, near = less(over, 0.0, -1.0, 1.0), less(far, _TOUCHING * (1.0 + larger(p[2], -p[2])), 1.0, 0.0)
        up = 1.0 / sqrt(1.0 + dot(slopes, slopes))
        away = times(side / where(near, 1.0, far), rest)
        level_n = -up * slopes[0], -up * slopes[1], up
        n = [where(near, a, b) for a, b in zip(level_n, away, strict=True)]
        found[i] = np.array([side * far, *n, *minus((p[0], p[1], p[2]), rest)])


def _outside(x: Any, low: Any, high: Any) -> Any:
    """How far a number is outside of an interval."""
    return larger(larger(low - x, x - high), 0.0)


def _over(k: Workspace, p: Any, rows: Indexed, columns: Indexed, z: Indexed) -> Any:
    """How far a point is above the ground that is right below."""
    above, each = k.scalar(0.0), k.array("b")
    for row, after in k.a.pairs():
        start, end, _, one, _, _ = rows[row]
        elsewhere = k.scalar(less(p[1], start, 1.0, less(p[1], end, 0.0, 1.0)))
        for _ in k.once.until(elsewhere):
            for j, beyond in k.b.pairs():
                first, last, _, part = columns[j]
                corners = z[row, j], z[row, beyond], z[after, j], z[after, beyond]
                P, z1, z2, z3 = _local(p, (first, start), corners)
                u, v = P[0] * part, P[1] * one
                rise = less(v, u, u * z1 + v * (z3 - z1), v * z2 + u * (z3 - z2))
                each[j] = less(p[0], first, 0.0, less(p[0], last, P[2] - rise, 0.0))
            own = k.sum(each[j] for j, _ in k.b.pairs())
            above[...] = where(elsewhere[...], above[...], own)
            elsewhere[...] = 1.0
    return above[...][()]


def _local(p: Any, at: tuple[Any, Any], corners: tuple[Any, Any, Any, Any]) -> tuple[Vector, Any, Any, Any]:
    """A point in relation to the first corner of a cell, and how far the others are above that: along x, y, both."""
    base, z1, z2, z3 = (each[()] for each in corners)
    return (p[0] - at[0], p[1] - at[1], p[2] - base), z1 - base, z2 - base, z3 - base


def _in_cell(p: Any, row: tuple[Any, Any, Any], column: Any, corners: tuple[Any, Any, Any, Any]) -> list[Any]:
    """The least squared distance of a cell, the point in relation to the nearest one, and the slopes there."""
    start, height, one = row
    first, _, width, part = column
    P, z1, z2, z3 = _local(p, (first, start), corners)
    faces = (z1 * part, (z3 - z1) * one), ((z3 - z2) * part, z2 * one)
    edges = ((width, 0.0, z1), faces[0]), ((0.0, height, z2), faces[1]), ((width, height, z3), faces[0])
    best: list[Any] = []
    for edge, slopes in edges:
        share = smaller(larger(dot(P, edge) / dot(edge, edge), 0.0), 1.0)
        rest = minus(P, times(share, edge))
        best = _better(best, [dot(rest, rest), *rest, *slopes])
    for k, (a, b) in enumerate(faces):
        rise = (P[2] - a * P[0] - b * P[1]) / (1.0 + a * a + b * b)
        u, v = (P[0] + a * rise) * part, (P[1] + b * rise) * one
        u, v = (v, u) if k else (u, v)
        inside = smaller(smaller(v, u - v), 1.0 - u)
        square = less(inside, 0.0, np.inf, rise * rise * (1.0 + a * a + b * b))
        best = _better(best, [square, -a * rise, -b * rise, rise, a, b])
    return best


def _better(best: list[Any], other: list[Any]) -> list[Any]:
    """The nearer one of two results."""
    if not best:
        return other
    return [less(other[0], best[0], x, y) for x, y in zip(other, best, strict=True)]


class _Nearest:
    """What is nearest in each column, of all rows so far."""

    def __init__(self, k: Workspace) -> None:
        self._entries = [k.array("b") for _ in range(6)]
        for j in k.b:
            for entry, value in zip(self._entries, (np.inf, *(0.0,) * 5), strict=True):
                entry[j] = value

    def take(self, j: Any, skip: Scalar, found: list[Any]) -> None:
        """Take what was found in a cell of a column, if it is nearer."""
        nearer = where(skip[...], 0.0, less(found[0], self._entries[0][j], 1.0, 0.0))
        for entry, value in zip(self._entries, found, strict=True):
            entry[j] = where(nearer, value, entry[j])

    def of(self, k: Workspace) -> tuple[Any, Vector, Any]:
        """The nearest of all columns."""
        best = [k.scalar(value) for value in (np.inf, *(0.0,) * 5)]
        for j, _ in k.b.pairs():
            nearer = less(self._entries[0][j], best[0][...], 1.0, 0.0)
            for own, entry in zip(best, self._entries, strict=True):
                own[...] = where(nearer, entry[j], own[...])
        square, x, y, z, a, b = (own[...][()] for own in best)
        return square, (x, y, z), (a, b, 0.0)
