"""Gaps of points over a height field: balls around points of bodies above the tangent plane of the ground below them.

Heights are bilinear between the points of a grid. Their weights are hat functions of all rows and columns, of which two
are not zero: there is no index that depends on a sample, and rows without weight are left out. Beyond the edges of the
grid, the ground goes on level at their height.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import less, where
from kinetree.kernels.distances import cross
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import magnitude, sqrt

#: Numbers of a probe's result: a point half-way to the ground, the normal there, the gap, 1 if it is out of reach.
PROBED = 8


@kernel(
    T=("n", 4, 4), twist=("n", 6), probe=("f", 4), pose=(4, 4), heights=("a", "b"), rows=("a",), columns=("b",),
    grid=(5,), limits=(2,), probed=("f", PROBED), outputs=("probed",), lists={"probes": {"n": 1, "f": 1}},
    rounds=("once",),
)  # fmt: skip
def field_probes(
    k: Workspace, T: Indexed, twist: Indexed, probe: Indexed, pose: Indexed, heights: Indexed, rows: Indexed,
    columns: Indexed, grid: Indexed, limits: Indexed, probed: Indexed,
) -> None:  # fmt: skip
    """Where balls around points of bodies are above the ground, and whether they can reach it within a step.

    `probe` are points in the frames of shapes, and radii; `pose` is that of the field. `rows` and `columns` count from
    zero on; `grid` are the distances of columns and of rows, the numbers of the last ones, and the greatest height;
    `limits` are dt and the margin.
    """
    top = grid[...][4]
    dt, margin = limits[...]
    base = pose[...]
    for (i,), (f,) in k.probes:
        place, V, (*at, radius) = T[i], twist[i], probe[f]
        away = place[:3, :3] @ np.array(at)
        world = place[:3, 3] + away
        x, y, z = base[:3, :3].T @ (world - base[:3, 3])
        v = V[3:] + cross(V[:3], away)
        reach = margin + dt * sqrt(v @ v)
        far = k.scalar(less(top + radius + reach, z, 1.0, 0.0))
        probed[f] = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
        for _ in k.once.until(far):
            h, (a, b), _ = ground_below(k, (x, y, z), heights, rows, columns, grid)
            up = 1.0 / sqrt(1.0 + a * a + b * b)
            n = base[:3, :3] @ np.array([-a * up, -b * up, up])
            gap = (z - h) * up - radius
            point = world - (radius + 0.5 * gap) * n
            off = where(far[...], 1.0, less(gap, reach, 0.0, 1.0))
            probed[f] = np.array([*point, *n, gap, off])
            far[...] = 1.0


def ground_below(
    k: Workspace, point: Any, heights: Indexed, rows: Indexed, columns: Indexed, grid: Indexed
) -> tuple[Any, tuple[Any, Any], Any]:
    """Of the ground at x and y of a point, its height, its slopes along x and y, and how these twist, ∂²h/∂x∂y."""
    dx, dy, last_column, last_row, _ = grid[...]
    weight, rise = k.array("b"), k.array("b")
    u, inside_u = _within(point[0] / dx + 0.5 * last_column, last_column)
    w, inside_w = _within(point[1] / dy + 0.5 * last_row, last_row)
    for j in k.b:
        weight[j], rise[j] = _hat(u - columns[j])
    h, h_u, h_w, h_uw = (k.scalar(0.0) for _ in range(4))
    for row in k.a:
        part, slope = _hat(w - rows[row])
        none = k.scalar(less(magnitude(w - rows[row]), 1.0, 0.0, 1.0))
        along, across = k.scalar(0.0), k.scalar(0.0)
        for _ in k.once.until(none):
            along[...] = k.sum(weight[j] * heights[row, j] for j in k.b)
            across[...] = k.sum(rise[j] * heights[row, j] for j in k.b)
            none[...] = 1.0
        h[...] = h[...] + part * along[...]
        h_u[...] = h_u[...] + part * across[...]
        h_w[...] = h_w[...] + slope * along[...]
        h_uw[...] = h_uw[...] + slope * across[...]
    slopes = inside_u * h_u[...] / dx, inside_w * h_w[...] / dy
    return h[...], slopes, inside_u * inside_w * h_uw[...] / (dx * dy)


def _within(x: Any, last: Any) -> tuple[Any, Any]:
    """A coordinate within the grid, short of its last line, and 1 unless it was outside."""
    most = last * (1.0 - 1e-12)
    inside = less(x, 0.0, 0.0, less(x, most, 1.0, 0.0))
    return less(x, 0.0, 0.0, less(x, most, x, most)), inside


def _hat(x: Any) -> tuple[Any, Any]:
    """The hat function 1 − |x| on ±1, and its slope to the right of x."""
    size = magnitude(x)
    slope = less(x, 0.0, 1.0, -1.0)
    near = less(size, 1.0, 1.0, 0.0)
    return near * (1.0 - size), where(near, slope, less(magnitude(x + 1.0), 1e-30, 1.0, 0.0))
