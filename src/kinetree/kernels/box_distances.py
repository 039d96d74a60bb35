"""Signed distances of boxes from points, segments and boxes; results as in `kinetree.kernels.distances`, before radii.

All is in the axes of the second shape, a box ±h at the origin.

    segment     half the slope of the squared distance along the segment, Σ uᵢ(yᵢ − clip(yᵢ)), never falls, and is
                linear between at most six breakpoints. The last one with slope ≤ 0 and the first one with slope ≥ 0
                bracket the root: no iteration, no sorting. Where it is flat, the middle of the flat part
    two boxes   apart: the twelve edges of a and box b, the eight corners of b and box a; every pair of features is
                among them. Overlapping: the least translation along one of fifteen separating axes [GLM96]

The sign comes from the axes, never from the distance: an edge may pierce a face while no edge of the other box touches.
Where gaps are `CLOSE` to zero, the axis is the normal as well. Nearest points of overlapping boxes depend on the axis:
a corner of a on a face of b, a corner of b on a face of a, or where two edges cross.

[GLM96] S. Gottschalk, M. Lin, D. Manocha, "OBBTree: a hierarchical structure for rapid interference detection",
        SIGGRAPH 1996.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from kinetree.kernels.distances import (
    TINY,
    Found,
    Vector,
    along,
    chosen,
    clip,
    cross,
    dot,
    minus,
    nearest_parameters,
    plus,
    segment,
    sign,
    times,
)
from kinetree.spatial.dual import select
from kinetree.spatial.scalar import Constant, magnitude, sqrt

#: Gaps below which the direction between nearest points is rounding, and a separating axis is the normal [m].
CLOSE = Constant(1e-10, 1e-4)
#: Sines of angles below which edges count as parallel, and no axis is taken from them.
_PARALLEL = Constant(1e-7, 1e-3)
_NONE, _FAR = -1e30, 1e30

#: The axes of a box in those of another one.
Axes = tuple[Vector, Vector, Vector]


def point_box(c: Vector, h: Vector) -> Found:
    """A point."""
    far, out = along(minus(c, nearest_in(c, h)))
    over = [magnitude(x) - e for x, e in zip(c, h, strict=True)]
    inside, face, _ = largest(over, [_axis(i, sign(c[i])) for i in range(3)])
    d = select(-far, 0.0, far, inside)
    n = chosen(-far, 0.0, out, face)
    return d, n, c, plus(c, -d, n)


def segment_box(c: Vector, u: Vector, h: Vector) -> Found:
    """A segment c ± u."""
    t = _parameter(c, u, h)
    pa = plus(c, t, u)
    far, out = along(minus(pa, nearest_in(pa, h)))
    # three faces of the box, and its edges with the segment
    gaps = [magnitude(x) - e - magnitude(w) for x, e, w in zip(c, h, u, strict=True)]
    normals = [_axis(i, sign(c[i])) for i in range(3)]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        size = sqrt(u[j] * u[j] + u[k] * u[k])
        one = 1.0 / select(-size, 0.0, size, 1.0)
        nj, nk = u[k] * one, -u[j] * one
        offset = nj * c[j] + nk * c[k]
        gap = magnitude(offset) - magnitude(nj) * h[j] - magnitude(nk) * h[k]
        gaps.append(select(_PARALLEL * magnitude(u[i]), size, gap, _NONE))
        parts = {j: sign(offset) * nj, k: sign(offset) * nk}
        normals.append((parts.get(0, 0.0), parts.get(1, 0.0), parts.get(2, 0.0)))
    inside, face, number = largest(gaps, normals)
    # the deepest point: the end of the segment, all of it if level, or where it passes an edge of the box
    fall = dot(u, face)
    end = select(magnitude(fall), _PARALLEL * sqrt(dot(u, u)), t, -sign(fall))
    crossed = _three([is_number(number, 3 + i) for i in range(3)])
    middle = _three([(1.0 - m) * sign(x) * e for m, x, e in zip(crossed, face, h, strict=True)])
    edge = _three([m * e for m, e in zip(crossed, h, strict=True)])
    passing, _, _ = nearest_parameters(segment(c, u), segment(middle, edge))
    end = select(number, 2.5, end, passing)
    d = select(-inside, 0.0, far, inside)
    n = chosen(-far, -CLOSE, chosen(-inside, 0.0, out, face), face)
    pa = chosen(-inside, 0.0, pa, plus(c, end, u))
    return d, n, pa, plus(pa, -d, n)


def box_box(c: Vector, R: Axes, ha: Vector, hb: Vector) -> Found:
    """A box with centre c, axes R and half edges ha; hb are those of the second one."""
    best, pa, pb = _FAR, c, c
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        edge = times(ha[i], R[i])
        for sj, sk in product((-1.0, 1.0), repeat=2):
            middle = plus(plus(c, sj * ha[j], R[j]), sk * ha[k], R[k])
            p = plus(middle, _parameter(middle, edge, hb), edge)
            best, pa, pb = _nearer(best, pa, pb, p, nearest_in(p, hb))
    for sx, sy, sz in product((-1.0, 1.0), repeat=3):
        corner = sx * hb[0], sy * hb[1], sz * hb[2]
        own = minus(corner, c)
        inner = nearest_in((dot(R[0], own), dot(R[1], own), dot(R[2], own)), ha)
        p = plus(plus(plus(c, inner[0], R[0]), inner[1], R[1]), inner[2], R[2])
        best, pa, pb = _nearer(best, pa, pb, p, corner)
    far, out = along(minus(pa, pb))
    inside, face, number = _separation(c, R, ha, hb)
    d = select(-inside, 0.0, far, inside)
    n = chosen(-far, -CLOSE, chosen(-inside, 0.0, out, face), face)
    pa = chosen(-inside, 0.0, pa, deepest(c, R, ha, hb, inside, face, number))
    return d, n, pa, plus(pa, -d, n)


def _three(values: Sequence[Any]) -> Vector:
    x, y, z = values
    return x, y, z


def _axis(i: int, s: Any) -> Vector:
    return _three([s if j == i else 0.0 for j in range(3)])


def nearest_in(p: Vector, h: Vector) -> Vector:
    """The point of a box nearest to another one."""
    return clip(p[0], h[0]), clip(p[1], h[1]), clip(p[2], h[2])


def _nearer(best: Any, pa: Vector, pb: Vector, p: Vector, q: Vector) -> tuple[Any, Vector, Vector]:
    """The nearer one of two pairs of points, with its squared distance."""
    w = minus(p, q)
    square = dot(w, w)
    return select(square, best, square, best), chosen(square, best, p, pa), chosen(square, best, q, pb)


def largest(gaps: Sequence[Any], normals: Sequence[Vector]) -> tuple[Any, Vector, Any]:
    """The largest gap, the first of several, with its normal and its number."""
    best, n, number = gaps[0], normals[0], 0.0
    for i, (gap, normal) in enumerate(zip(gaps[1:], normals[1:], strict=True), 1):
        n, number = chosen(best, gap, normal, n), select(best, gap, float(i), number)
        best = select(best, gap, gap, best)
    return best, n, number


def is_number(number: Any, i: int) -> Any:
    """1 where a number is i, else 0."""
    return select(magnitude(number - i), 0.5, 1.0, 0.0)


def _slope(c: Vector, u: Vector, h: Vector, t: Any) -> Any:
    """Half the derivative of the squared distance of c + t u from a box."""
    p = plus(c, t, u)
    return dot(u, minus(p, nearest_in(p, h)))


def _parameter(c: Vector, u: Vector, h: Vector) -> Any:
    """The t in ±1 at which c + t u is nearest to a box."""
    start, end = _slope(c, u, h, -1.0), _slope(c, u, h, 1.0)
    # −1 is the answer if the slope is positive there, 1 if it is negative there
    lo, hi = select(end, 0.0, 1.0, -1.0), select(-start, 0.0, -1.0, 1.0)
    below = select(end, 0.0, 0.0, select(start, 0.0, start, 0.0))
    above = select(-start, 0.0, 0.0, select(-end, 0.0, end, 0.0))
    for x, w, e in zip(c, u, h, strict=True):
        one = 1.0 / select(magnitude(w), TINY, TINY, w)
        for face in (-e, e):
            t = clip((face - x) * one, 1.0)
            g = _slope(c, u, h, t)
            later, earlier = select(-g, 0.0, -2.0, t), select(g, 0.0, 2.0, t)
            below, lo = select(lo, later, g, below), select(lo, later, later, lo)
            above, hi = select(earlier, hi, g, above), select(earlier, hi, earlier, hi)
    rise = above - below
    return lo + select(-rise, 0.0, -below / (rise + TINY), 0.5) * (hi - lo)


def _separation(c: Vector, R: Axes, ha: Vector, hb: Vector) -> tuple[Any, Vector, Any]:
    """The largest gap along fifteen axes, the normal towards a, and its number: faces of b, of a, pairs of edges."""
    (gaps, normals), (more, others) = along_faces(c, R, ha, hb), along_edges(c, R, ha, hb)
    return largest([*gaps, *more], [*normals, *others])


#: Gaps along some axes, and normals towards a.
Gaps = tuple[list[Any], list[Vector]]


def along_faces(c: Vector, R: Axes, ha: Vector, hb: Vector) -> Gaps:
    """Gaps along the normals of the faces of b, then of a."""
    gaps: list[Any] = []
    normals: list[Vector] = []
    for i in range(3):
        reach = magnitude(R[0][i]) * ha[0] + magnitude(R[1][i]) * ha[1] + magnitude(R[2][i]) * ha[2]
        gaps.append(magnitude(c[i]) - hb[i] - reach)
        normals.append(_axis(i, sign(c[i])))
    for i in range(3):
        offset = dot(R[i], c)
        reach = magnitude(R[i][0]) * hb[0] + magnitude(R[i][1]) * hb[1] + magnitude(R[i][2]) * hb[2]
        gaps.append(magnitude(offset) - ha[i] - reach)
        normals.append(times(sign(offset), R[i]))
    return gaps, normals


def along_edges(c: Vector, R: Axes, ha: Vector, hb: Vector) -> Gaps:
    """Gaps along the common perpendiculars of edges of a and b; none where they are parallel."""
    gaps: list[Any] = []
    normals: list[Vector] = []
    for i, j in product(range(3), repeat=2):
        w = cross(R[i], _axis(j, 1.0))
        size = sqrt(dot(w, w))
        w = times(1.0 / select(-size, 0.0, size, 1.0), w)
        offset = dot(w, c)
        reach_a = sum(magnitude(dot(w, R[k])) * ha[k] for k in range(3))
        reach_b = sum(magnitude(w[k]) * hb[k] for k in range(3))
        gaps.append(select(size, _PARALLEL, _NONE, magnitude(offset) - reach_a - reach_b))
        normals.append(times(sign(offset), w))
    return gaps, normals


def deepest(c: Vector, R: Axes, ha: Vector, hb: Vector, d: Any, n: Vector, number: Any) -> Vector:
    """The point of a that belongs to a separating axis."""
    corner = _three([sign(x) * e for x, e in zip(n, hb, strict=True)])
    of_a = [sum(is_number(number, 6 + 3 * i + j) for j in range(3)) for i in range(3)]
    of_b = [sum(is_number(number, 6 + 3 * i + j) for i in range(3)) for j in range(3)]
    own, middle, edge = c, c, (0.0, 0.0, 0.0)
    for i in range(3):
        low = -sign(dot(R[i], n)) * ha[i]
        own, middle = plus(own, low, R[i]), plus(middle, (1.0 - of_a[i]) * low, R[i])
        edge = plus(edge, of_a[i] * ha[i], R[i])
    other = _three([(1.0 - m) * x for m, x in zip(of_b, corner, strict=True)])
    along_b = _three([m * e for m, e in zip(of_b, hb, strict=True)])
    s, _, _ = nearest_parameters(segment(middle, edge), segment(other, along_b))
    return chosen(number, 2.5, own, chosen(number, 5.5, plus(corner, d, n), plus(middle, s, edge)))
