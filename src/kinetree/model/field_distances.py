"""Distances of points from height fields: exact, from triangles.

Each cell of the grid is two triangles. Beyond its edges, the ground goes on level at their height. The nearest point of
the ground is no farther away to the side than the ground is below or above, so only cells within that reach count.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from kinetree.model.shapes import HeightField, Hull, SolidShape
from kinetree.spatial.value import Array

#: Kinds whose distances from height fields are those of some of their points.
PROBED = ("sphere", "capsule", "box", "hull")
#: How far the ground goes on [m].
_FAR = 1e4
#: Along x and y, how many points of the grid bound a distance first.
_COARSE = 24


def probes(shape: SolidShape) -> tuple[Array, float]:
    """The points of a shape that stand for it in the axes of its core, (k, 3), and the radius around them [m]."""
    if isinstance(shape, Hull):
        return shape.vertices, 0.0
    corners = dict.fromkeys(product(*((-h, h) for h in shape.half)))
    return np.array([*corners]), shape.around


class Ground:
    """A height field in the axes of its pose."""

    def __init__(self, field: HeightField) -> None:
        self._z = np.pad(field.heights, 1, mode="edge")
        self._low, self._top = float(self._z.min()), float(self._z.max())
        self._x, self._y = (
            np.concatenate([[-_FAR], np.linspace(-0.5 * length, 0.5 * length, count), [_FAR]])
            for length, count in zip(field.size, field.heights.shape[::-1], strict=True)
        )

    def distance(self, p: Array) -> tuple[float, Array, Array]:
        """d, negative below the ground, the normal, (3,), and the nearest point of the ground, of a point, (3,)."""
        a, b, c = self._triangles(*(np.array([self._cell(line, at)]) for line, at in self._lines(p)))
        over = [self._height(a[k], b[k], c[k], p) for k in range(2)]
        k = int(self._upper(a[0], c[0], p))
        above = p[2] >= over[k]
        bound = abs(p[2] - over[k])
        columns, rows = self._cells(p, bound)
        # a few of the points of the grid bound it better
        some = [each[:: max(1, len(each) // _COARSE)] for each in (columns, rows)]
        x, y = np.meshgrid(self._x[some[0]], self._y[some[1]])
        square = (x - p[0]) ** 2 + (y - p[1]) ** 2 + (self._z[np.ix_(some[1], some[0])] - p[2]) ** 2
        columns, rows = self._cells(p, min(bound, float(np.sqrt(square.min()))))
        a, b, c = self._triangles(columns, rows)
        q = _nearest(p, a, b, c)
        away = p - q
        size = np.sqrt((away * away).sum(-1))
        best = int(size.argmin())
        up = np.cross(b[best] - a[best], c[best] - a[best])
        sign = 1.0 if above else -1.0
        if size[best] > 1e-12 * (1.0 + abs(p[2])):
            return sign * float(size[best]), sign * away[best] / size[best], q[best]
        return sign * float(size[best]), up / np.linalg.norm(up), q[best]

    def _cells(self, p: Array, bound: float) -> tuple[Array, Array]:
        """Columns and rows of cells with points within a distance."""
        level = max(float(p[2]) - self._top, self._low - float(p[2]), 0.0)
        reach = np.sqrt(max(bound * bound - level * level, 0.0)) * (1.0 + 1e-9)
        first, second = (
            np.arange(self._cell(line, at - reach), self._cell(line, at + reach) + 1) for line, at in self._lines(p)
        )
        return first, second

    def _lines(self, p: Array) -> tuple[tuple[Array, float], tuple[Array, float]]:
        return (self._x, float(p[0])), (self._y, float(p[1]))

    @staticmethod
    def _cell(line: Array, at: float) -> int:
        """The cell of a coordinate."""
        return int(np.clip(np.searchsorted(line, at, side="right") - 1, 0, len(line) - 2))

    def _triangles(self, columns: Array, rows: Array) -> tuple[Array, Array, Array]:
        """The corners of the triangles of some cells, seen from above anticlockwise, (k, 3) each."""
        i, j = (each.reshape(-1) for each in np.meshgrid(rows, columns, indexing="ij"))

        def corner(di: int, dj: int) -> Array:
            return np.stack([self._x[j + dj], self._y[i + di], self._z[i + di, j + dj]], axis=-1)

        first, last = corner(0, 0), corner(1, 1)
        return (
            np.concatenate([first, first]), np.concatenate([corner(0, 1), last]), np.concatenate([last, corner(1, 0)])
        )  # fmt: skip

    @staticmethod
    def _upper(first: Array, last: Array, p: Array) -> bool:
        """Whether a point is over the triangle of a cell that is beyond its diagonal."""
        along = last[:2] - first[:2]
        return bool(along[0] * (p[1] - first[1]) > along[1] * (p[0] - first[0]))

    @staticmethod
    def _height(a: Array, b: Array, c: Array, p: Array) -> float:
        """Of the plane of a triangle, at x and y of a point."""
        n = np.cross(b - a, c - a)
        return float(a[2] - (n[:2] @ (p[:2] - a[:2])) / n[2])


def _nearest(p: Array, a: Array, b: Array, c: Array) -> Array:
    """The points of triangles that are nearest to a point, (k, 3)."""
    u, v, w = b - a, c - a, p - a
    out = np.cross(u, v)
    size = (out * out).sum(-1)
    s, t = (np.cross(w, v) * out).sum(-1) / size, (np.cross(u, w) * out).sum(-1) / size
    inside = (s >= 0.0) & (t >= 0.0) & (s + t <= 1.0)
    best = a + s[:, None] * u + t[:, None] * v
    square = np.where(inside, ((p - best) ** 2).sum(-1), np.inf)
    for start, end in ((a, b), (b, c), (c, a)):
        along = end - start
        share = np.clip(((p - start) * along).sum(-1) / (along * along).sum(-1), 0.0, 1.0)
        q = start + share[:, None] * along
        other = ((p - q) ** 2).sum(-1)
        nearer = other < square
        best, square = np.where(nearer[:, None], q, best), np.where(nearer, other, square)
    return np.asarray(best)
