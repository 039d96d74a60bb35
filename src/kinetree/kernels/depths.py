"""The depth of overlapping shapes that are sums of ellipsoids, proven: a search of all directions with bounds.

With c from the centre of b to that of a, and the terms {Wᵀw, |w| ≤ 1} of both, the depth is the least

    h(u) = Σ |W u| − c·u                                                                                  (1)

over unit vectors u; of u and −u, the one on the side of c is less. h may have many local minima. At an angle θ from u
towards e, with t = |W u|, its part s of the slope of h, and t' = |W u'| there,

    t' = t cos θ + s sin θ + (|W e|² − s²) sin² θ / (t' + t cos θ + s sin θ)                              (2)

    h' ≥ h cos θ + g·e sin θ + e·R e (1 − cos θ)                                                          (3)
    R = Σ (WᵀW − s sᵀ) (1 + cos δ) / (t' + t cos δ + |s| sin δ)

up to an angle δ, with bounds t' ≥ t and |s| there, and the part g of ∇h that is level to u. Of balls, both sides are
equal. Where t = 0, a term adds any Wᵀw to g and what is left, (1 − |w|) |W e| sin θ, to (3); that w is taken for which
g is least.

Cells of the half-space of c, on a pyramid, are bounded from one point: where h is least of the middle and of where
some W u = 0. Those that may hold less than what was found are quartered. A minimum with h < R closes its cell as soon
as (3) sees it, so a few hundred cells do, and what is left is no better by more than 10⁻⁹ of the shapes' sizes. The
path to a cell is a fraction in each direction, whose first bit is the cell in its parent: there are no indices of data.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less, magnitude, smaller, where
from kinetree.kernels.distances import TINY, Vector, cross, dot, minus, plus, times
from kinetree.kernels.language import Scalar, Workspace
from kinetree.spatial.scalar import Constant, sqrt

#: Most cells.
CELLS = 20_000
#: What is not looked for, and the largest |W u| that is none; relative to the sizes of shapes.
_SPARED, _NONE = Constant(1e-9, 1e-5), Constant(1e-12, 1e-6)
# The least cosine of cells that are bounded from elsewhere than their middle; how many cells may end at once.
_NEAR, _ENDS = 0.866, 3

#: The rows of W, at right angles to each other.
Rows = tuple[Vector, ...]


def inner(a: list[Any], b: list[Any]) -> Any:
    """The inner product of lists."""
    found = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        found = found + x * y
    return found


def size_of(v: list[Any]) -> Any:
    """The norm of a list."""
    return magnitude(v[0]) if len(v) == 1 else sqrt(inner(v, v))


def along(rows: Rows, n: Vector) -> list[Any]:
    """W n."""
    return [dot(row, n) for row in rows]


def unit(v: Vector) -> Vector:
    """A vector's direction; zero if it is zero."""
    return times(1.0 / sqrt(dot(v, v) + TINY), v)


def apart_along(c: Vector, terms: list[Rows], u: Vector) -> Any:
    """−h(u) of (1), for a u that is about a unit vector; none for one that is not."""
    found = dot(c, u)
    for rows in terms:
        found = found - size_of(along(rows, u))
    return less(magnitude(dot(u, u) - 1.0), 0.5, found, -np.inf) / sqrt(dot(u, u) + TINY)


class _Kinks:
    """Where terms are zero: at right angles to axes, and at points on the side of c, each with −h."""

    def __init__(self, c: Vector, terms: list[Rows]) -> None:
        self.axes = [unit(rows[0]) for rows in terms if len(rows) == 1]
        across = [*combinations(self.axes, 2), *(rows for rows in terms if len(rows) == 2)]
        self.points = []
        for pair in across:
            point = unit(cross(pair[0], pair[1]))
            point = times(less(dot(c, point), 0.0, -1.0, 1.0), point)
            self.points.append((point, apart_along(c, terms, point)))


def deepest(k: Workspace, c: Vector, terms: list[Rows], u: list[Scalar], s: Scalar, idle: Scalar) -> Any:
    """Set u and s = −h(u) to the best of all directions; 1 where the search does not end, else 0.

    Args:
        k: The workspace of a kernel with the size `cells`.
        c: From the centre of the second shape to that of the first.
        terms: The rows of each term of both; the sum of their sizes is about one.
        u: A direction to begin with.
        s: What it gives.
        idle: 1 where nothing is to be done.
    """
    up = unit(c)
    none = less(dot(up, up), 0.5, 1.0, 0.0)
    up = up[0], up[1], up[2] + none
    first, second = _across(up)
    kinks = _Kinks(c, terms)
    for each in (up, *_directions(terms)):
        take(u, s, times(less(dot(each, c), 0.0, -1.0, 1.0), each), c, terms, idle[...][()])
    x, y, half = k.scalar(-0.5), k.scalar(-0.5), k.scalar(0.5)
    path, ended, done = (k.scalar(0.0), k.scalar(0.0)), k.scalar(0.0), k.scalar(idle[...])
    for _ in k.cells.until(done):
        skip, back = done[...][()], ended[...][()]
        v, cos, sin = _cell(x[...][()], y[...][()], half[...][()])
        middle = plus(plus(times(v[0], first), v[1], second), v[2], up)
        at, cos, sin = _expanded(c, terms, kinks, middle, cos, sin)
        least, better = _bounded(c, terms, at, cos, sin)
        for each in (at, better):
            take(u, s, each, c, terms, larger(skip, back))
        closed = where(back, 1.0, less(least, -s[...] - _SPARED, 0.0, 1.0))
        _go_on(x, y, half, path, ended, closed, skip)
        done[...] = where(skip, 1.0, less(half[...], 0.75, 0.0, 1.0))
    return where(idle[...], 0.0, 1.0 - done[...])


def _directions(terms: list[Rows]) -> list[Vector]:
    """Where normals may be: along rows, across pairs of them."""
    rows = [unit(row) for each in terms for row in each]
    return [*rows, *(unit(cross(a, b)) for a, b in combinations(rows, 2))]


def take(u: list[Scalar], s: Scalar, each: Vector, c: Vector, terms: list[Rows], skip: Any) -> None:
    """Another direction, if it is better."""
    value = apart_along(c, terms, each)
    better = where(skip, 0.0, less(s[...], value, 1.0, 0.0))
    for entry, new in zip((*u, s), (*each, value), strict=True):
        entry[...] = where(better, new, entry[...])


def _go_on(
    x: Scalar, y: Scalar, half: Scalar, path: tuple[Scalar, Scalar], ended: Scalar, closed: Any, skip: Any
) -> None:
    """To the first quarter of a cell, or from a closed one to the next, or to the parent, whose quarters have ended."""
    open_ = where(skip, 0.0, 1.0 - closed)
    half[...] = half[...] * (1.0 - 0.5 * open_)
    for entry, bits in zip((x, y), path, strict=True):
        entry[...] = entry[...] - open_ * half[...]
        bits[...] = bits[...] * (1.0 - 0.5 * open_)
    left = where(skip, 0.0, closed)
    for _ in range(_ENDS):
        last = [less(bits[...], 0.5, 0.0, 1.0) for bits in path]
        right, above, out = left * (1.0 - last[0]), left * last[0] * (1.0 - last[1]), left * last[0] * last[1]
        for entry, bits, step in ((x, path[0], right - above), (y, path[1], above)):
            entry[...] = entry[...] + (2.0 * step - out) * half[...]
            bits[...] = bits[...] + 0.5 * step + out * (bits[...] - 1.0)
        half[...] = half[...] * (1.0 + out)
        left = out
    ended[...] = where(skip, ended[...], left)


def _cell(x: Any, y: Any, half: Any) -> tuple[Vector, Any, Any]:
    """The middle of a cell of the square ±1, as a unit vector of the pyramid above, and the angle around it."""
    steep = less(magnitude(x), magnitude(y), 0.0, 1.0)
    z = 1.0 - larger(magnitude(x), magnitude(y))
    fall_x, fall_y = less(x, 0.0, 1.0, -1.0) * steep, less(y, 0.0, 1.0, -1.0) * (1.0 - steep)
    one = 1.0 / sqrt(x * x + y * y + z * z)
    # the corners are at ±(1, 1, fall) and ±(1, −1, fall)
    a, b = magnitude(x + y + (fall_x + fall_y) * z), magnitude(x - y + (fall_x - fall_y) * z)
    share = half * one
    low, high = share * smaller(a, b) * one, share * larger(a, b) * one
    square = (3.0 * share * share - low * low) / ((1.0 - high) * (1.0 - high))
    cos = 1.0 / sqrt(1.0 + square)
    return (x * one, y * one, z * one), cos, cos * sqrt(square)


def _across(u: Vector) -> tuple[Vector, Vector]:
    """Two unit vectors at right angles to one, and to each other."""
    side = less(u[2], 0.0, -1.0, 1.0)
    a = -1.0 / (side + u[2])
    b = u[0] * u[1] * a
    return (1.0 + side * u[0] * u[0] * a, side * b, -side * u[0]), (b, side + u[1] * u[1] * a, -u[1])


def _expanded(
    c: Vector, terms: list[Rows], kinks: _Kinks, middle: Vector, cos: Any, sin: Any
) -> tuple[Vector, Any, Any]:
    """The point from which a cell is bounded, and the angle from there: the best of what is known in it."""
    u, best, far = middle, apart_along(c, terms, middle), less(cos, _NEAR, 1.0, 0.0)
    for axis in kinks.axes:
        x = dot(axis, middle)
        level = unit(plus(middle, -x, axis))
        s = where(far, -np.inf, less(magnitude(x), sin, apart_along(c, terms, level), -np.inf))
        u, best = _either(less(best, s, 1.0, 0.0), level, u), larger(best, s)
    for point, value in kinks.points:
        behind = less(dot(point, middle), 0.0, 1.0, 0.0)
        near = times(1.0 - 2.0 * behind, point)
        moved = minus(near, middle)
        s = where(far, -np.inf, less(dot(moved, moved), sin * sin, value, -np.inf))
        u, best = _either(less(best, s, 1.0, 0.0), near, u), larger(best, s)
    turn, moved = smaller(dot(u, middle), 1.0), cross(u, middle)
    side = sqrt(dot(moved, moved))
    return u, turn * cos - side * sin, side * cos + turn * sin


def _bounded(c: Vector, terms: list[Rows], u: Vector, cos: Any, sin: Any) -> tuple[Any, Vector]:
    """What h is at least within an angle, by (3), and where it is less, by a Newton step."""
    e, f = _across(u)
    g = [-dot(c, e), -dot(c, f)]
    h, radii, half_cot = -dot(c, u), [0.0, 0.0, 0.0], (1.0 + cos) / sin
    zero: list[tuple[Any, Any, list[Any], list[Any]]] = []
    for rows in terms:
        z, p, q = along(rows, u), along(rows, e), along(rows, f)
        t, square = size_of(z), dot(rows[0], rows[0]) + TINY
        for row in rows[1:]:
            square = larger(square, dot(row, row))
        level = less(t * t, _NONE * _NONE * square, 1.0, 0.0) if len(rows) < 3 else 0.0
        one = (1.0 - level) / (t + level)
        slope = one * inner(z, p), one * inner(z, q)
        h, g = h + t, [g[0] + slope[0], g[1] + slope[1]]
        if len(rows) > 1:
            rise = sqrt(slope[0] * slope[0] + slope[1] * slope[1])
            far = t * t + 2.0 * t * rise * sin + larger(square - t * t, 0.0) * sin * sin
            share = (1.0 - level) * (1.0 + cos) / (sqrt(far) + t * cos + rise * sin + TINY)
            _add(radii, share, p, q)
            _add(radii, -share, [slope[0]], [slope[1]])
        if len(rows) < 3:
            zero.append((level, square, p, q))
    for level, square, p, q in zero:
        w = [-(a * g[0] + b * g[1]) / square for a, b in zip(p, q, strict=True)]
        w = [level * x / larger(size_of(w), 1.0) for x in w]
        g = [g[0] + inner(w, p), g[1] + inner(w, q)]
        _add(radii, level * half_cot * larger(1.0 - size_of(w), 0.0) / sqrt(square), p, q)
    return _least(u, e, f, h, g, (radii[0] - h, radii[1], radii[2] - h), cos, sin)


def _add(radii: list[Any], share: Any, p: list[Any], q: list[Any]) -> None:
    """What a term has, in the plane of two directions."""
    for i, (a, b) in enumerate(((p, p), (p, q), (q, q))):
        radii[i] = radii[i] + share * inner(a, b)


def _least(
    u: Vector, e: Vector, f: Vector, h: Any, g: list[Any], A: tuple[Any, Any, Any], cos: Any, sin: Any
) -> tuple[Any, Vector]:
    """The least of h + g·v + ½ v·A v with |v| = sin θ, by eigenvalues and by the smaller one alone; and about where."""
    middle, side = 0.5 * (A[0] + A[2]), 0.5 * (A[0] - A[2])
    spread = sqrt(side * side + A[1] * A[1] + TINY)
    turn = side / spread
    x, y = sqrt(larger(0.5 + 0.5 * turn, 0.0)), less(A[1], 0.0, -1.0, 1.0) * sqrt(larger(0.5 - 0.5 * turn, 0.0))
    steepest = sqrt(g[0] * g[0] + g[1] * g[1])
    falls, to = [], u
    for root, (a, b) in ((middle + spread, (x, y)), (middle - spread, (-y, x))):
        slope = g[0] * a + g[1] * b
        fall, step = _fall(magnitude(slope), root, cos, sin)
        falls.append(fall)
        to = plus(to, less(slope, 0.0, 1.0, -1.0) * step, plus(times(a, e), b, f))
    plain, _ = _fall(steepest, middle - spread, cos, sin)
    return h - smaller(plain, falls[0] + falls[1]), unit(to)


def _fall(slope: Any, root: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """How far h may fall in a direction with a slope and an eigenvalue, and after how much of a step."""
    inside = less(slope, root * sin, 1.0, 0.0)
    step = where(inside, slope / where(inside, root, 1.0), sin)
    # 1 − cos θ is between sin² θ / 2 and sin² θ / (1 + cos δ)
    return step * (slope - root * step * less(root, 0.0, 1.0 / (1.0 + cos), 0.5)), step


def _either(flag: Any, x: Vector, y: Vector) -> Vector:
    return where(flag, x[0], y[0]), where(flag, x[1], y[1]), where(flag, x[2], y[2])
