"""Distances of points from height fields: the tables that `kernels.field_distances` takes.

Beyond the edges of the grid, the ground goes on level at their height: on cells that are `_FAR` wide, and for points
that are farther away as there.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from kinetree.kernels.field_distances import FOUND, field_distances
from kinetree.model.shapes import HeightField, Hull, SolidShape
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.spatial.value import Array

#: Kinds whose distances from height fields are those of some of their points.
PROBED = ("sphere", "capsule", "box", "hull")
#: How far the ground goes on [m].
_FAR = 1e4
# Points that are computed at once.
_AT_ONCE = 64


def probes(shape: SolidShape) -> tuple[Array, float]:
    """The points of a shape that stand for it in the axes of its core, (k, 3), and the radius around them [m]."""
    if isinstance(shape, Hull):
        return shape.vertices, 0.0
    corners = dict.fromkeys(product(*((-h, h) for h in shape.half)))
    return np.array([*corners]), shape.around


class Ground:
    """A height field in the axes of its pose."""

    def __init__(self, field: HeightField) -> None:
        self._z = z = np.pad(field.heights, 1, mode="edge")
        ends = [0.5 * length + _FAR for length in field.size]
        columns, rows = (
            _intervals(np.concatenate([[-end], np.linspace(-0.5 * length, 0.5 * length, count), [end]]))
            for end, length, count in zip(ends, field.size, field.heights.shape[::-1], strict=True)
        )
        least, most = (extreme(z[:-1], z[1:]) for extreme in (np.minimum, np.maximum))
        levels = np.pad([least.min(axis=1), most.max(axis=1)], ((0, 0), (0, 1)))
        self._rows, self._columns = np.concatenate([rows, levels]).T.copy(), columns
        # the last lines do not belong to the last cells
        self._within = np.array([*ends, np.inf]) * (1.0 - 1e-12)
        self._functions: dict[int, KernelFunction] = {}

    def distances(self, points: Array) -> tuple[Array, Array, Array]:
        """d, (…), negative below the ground, normals, and the nearest points of the ground, (…, 3), of points, (…, 3).

        Many points at once are one sample of the kernel, since each sample gets a copy of the heights.
        """
        near = np.clip(points, -self._within, self._within)
        flat = near.reshape(-1, 3)
        found, count = np.empty((len(flat), FOUND)), min(len(flat), _AT_ONCE)
        for start in range(0, len(flat), max(count, 1)):
            some = slice(min(start, len(flat) - count), min(start, len(flat) - count) + count)
            found[some] = self._function(count)(flat[some], self._rows, self._columns, self._z)
        found = found.reshape(*near.shape[:-1], FOUND)
        return found[..., 0], found[..., 1:4], found[..., 4:] + (points - near)

    def _function(self, count: int) -> KernelFunction:
        """For a number of points."""
        if count not in self._functions:
            rows, columns = self._z.shape
            self._functions[count] = compiled(field_distances, f=count, a=rows, b=columns, once=1)
        return self._functions[count]


def _intervals(lines: Array) -> Array:
    """Start, end, width, and 1/width between each line and the next, (4, n); zeros for the last one."""
    width = np.diff(lines)
    return np.pad([lines[:-1], lines[1:], width, 1.0 / width], ((0, 0), (0, 1)))
