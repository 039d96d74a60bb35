"""Where two shapes may touch: candidates for contacts, in closed form and without branches.

A pair of shapes has a fixed number of candidates, each with a gap, a unit normal from the second shape to the first,
and a point half-way between both surfaces. All of them are stated, near or far: gaps decide which count. The first one
with the smallest gap is where the shapes touch first; the others are where they touch next when one of them turns, so
that the set of contacts of a face is complete, and changes only where gaps are positive.

    pair                        candidates    where
    sphere, anything            1             the nearest point
    capsule, plane              2             both ends
    capsule, capsule or box     3             the nearest point, and both ends of what is beside the other shape
    box, plane                  4             corners of the face that looks at the plane most
    cylinder, plane             5             four points of the lower rim from its lowest on, the lowest of the other
    ellipsoid, plane            1             its lowest point
    hull, plane                 9             vertices that are lowest if the plane leans a little to each of four
                                              sides, corners of a face; the four lowest of those that are not in
                                              the plane of these; and the lowest, if it is lower
    box, box                    6             faces: corners of what is above the other box, extreme along four
                                              directions, and the deepest; edges: where they cross; the nearest
                                              point instead, if they are rounded

Corners of two faces are among 24: those of both rectangles inside the other one, and where edges cross. An axis of two
edges wins over one of a face only by a part of the size of the boxes, for faces do not flicker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kinetree.kernels.box_distances import CLOSE, along_edges, along_faces, deepest, largest, nearest_in, segment_box
from kinetree.kernels.distances import (
    TINY,
    Vector,
    chosen,
    clip,
    cross,
    dot,
    minus,
    plus,
    rounded,
    segments,
    sign,
    times,
)
from kinetree.kernels.pair_distances import CLASSES, PosedShape
from kinetree.spatial.dual import select
from kinetree.spatial.scalar import Constant, magnitude, sqrt

#: Gap of what is no candidate at all [m].
FAR = 1e30
#: Vertices of a hull off a plane that count.
SEVERAL = 4
# relative to lengths: candidates this near are one; how far inside points on an edge count as inside
_SAME, _INSIDE = Constant(1e-6, 1e-4), Constant(1e-9, 1e-5)
# gap up to which vertices of a hull count that do not bulge out of the plane of its corners, times `_SAME`
_NEAR = 100.0
# by which part of the shortest half edge an axis of two edges must win over one of a face
_PREFERENCE = 1e-3
# by which angle a plane leans, for the corners of a face of a hull [rad]
_LEAN = 0.03
# four directions, a right angle apart: those of the corners of every square are different
_DIRECTIONS = ((1.0, 0.9), (-0.9, 1.0), (-1.0, -0.9), (0.9, -1.0))


class PosedHull(PosedShape):
    """A hull in the world.

    Attributes:
        lowest: From directions in its axes, its vertices, in its axes, that are farthest along each of them.
        off: From a direction, the normal of a plane and its distance along it, in its axes, the `SEVERAL` vertices that
            are farthest along the direction, of those that are farther than a last number from the plane; and whether
            there are as many, 1 or 0.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        lowest: Callable[[Sequence[Vector]], list[Vector]],
        off: Callable[[Vector, Vector, Any, Any], list[tuple[Vector, Any]]],
    ) -> None:
        super().__init__(read)
        self.lowest, self.off = lowest, off


class Candidate(NamedTuple):
    """A place where two shapes may touch."""

    gap: Any
    normal: Vector
    point: Vector


def _between(gap: Any, n: Vector, on_a: Vector) -> Candidate:
    """Half-way from a point on the surface of a to b."""
    return Candidate(gap, n, plus(on_a, -0.5 * select(gap, 1.0, gap, 0.0), n))


def _nearest_point(name: str) -> Callable[[PosedShape, PosedShape], list[Candidate]]:
    def one(a: PosedShape, b: PosedShape) -> list[Candidate]:
        d, n, pa, _ = rounded(CLASSES[name][0](a, b), a.r, b.r)
        return [_between(d, n, pa)]

    return one


def _capsule_plane(a: PosedShape, b: PosedShape) -> list[Candidate]:
    n, u = b.axis(2), a.segment[1]
    ends = [plus(plus(a.c, s, u), -a.r, n) for s in (1.0, -1.0)]
    return [_between(dot(minus(end, b.c), n), n, end) for end in ends]


def _line(near: Candidate, ends: Sequence[tuple[Any, Any, Vector]], length: Any, radius: Any) -> list[Candidate]:
    """The ends of a line along a capsule, each with its parameter, gap and point on the capsule; and the nearest point.

    The latter only if it is nearer than both ends.
    """
    (t, gap, p), (t1, gap1, p1) = ends
    gap1 = select(magnitude(t1 - t) * length, _SAME * (length + radius), FAR, gap1)
    least = select(gap, gap1, gap, gap1)
    middle = select(near.gap, least - _SAME * radius, near.gap, FAR)
    return [_between(gap, near.normal, p), _between(gap1, near.normal, p1), near._replace(gap=middle)]


def _capsules(a: PosedShape, b: PosedShape) -> list[Candidate]:
    (ca, u, uu, iu), (cb, w, _, iw) = a.segment, b.segment
    d, n, pa, _ = rounded(segments(a.segment, b.segment, b.across), a.r, b.r)
    uw, ur = dot(u, w), dot(u, minus(ca, cb))
    ends = []
    for end in (1.0, -1.0):
        t = clip((end * uw - ur) * iu, 1.0)
        p = plus(ca, t, u)
        away = minus(p, plus(cb, clip(dot(w, minus(p, cb)) * iw, 1.0), w))
        ends.append((t, sqrt(dot(away, away)) - a.r - b.r, plus(p, -a.r, n)))
    return _line(_between(d, n, pa), ends, sqrt(uu), a.r)


def _capsule_box(a: PosedShape, b: PosedShape) -> list[Candidate]:
    c, u, h = b.inside(minus(a.c, b.c)), b.inside(a.segment[1]), b.h
    d, n, p, _ = segment_box(c, u, h)
    _, _, uu, iu = a.segment
    at = dot(minus(p, c), u) * iu
    # beside the face whose normal is nearest to n; its rectangle is as large as it takes to include the nearest point
    low, high = -1.0, 1.0
    _, _, number = largest([magnitude(x) for x in n], [n, n, n])
    for i in range(3):
        edge = select(h[i], magnitude(p[i]), magnitude(p[i]), h[i])
        one = 1.0 / select(magnitude(u[i]), TINY, TINY, u[i])
        ends = (-edge - c[i]) * one, (edge - c[i]) * one
        first, last = (select(ends[0], ends[1], x, y) for x, y in (ends, ends[::-1]))
        first, last = select(first, at, first, at), select(last, at, at, last)
        across = magnitude(number - float(i))
        low = select(across, 0.5, low, select(-first, -low, first, low))
        high = select(across, 0.5, high, select(last, high, last, high))
    found = []
    for t in (low, high):
        there = plus(c, t, u)
        away = minus(there, nearest_in(there, h))
        far = sqrt(dot(away, away))
        gap = select(d, CLOSE, d + dot(minus(there, p), n), far)
        found.append((t, gap - a.r - b.r, b.placed(plus(there, -a.r, n))))
    turned = b.turned(n)
    near = _between(d - a.r - b.r, turned, b.placed(plus(p, -a.r, n)))
    return _line(near, found, sqrt(uu), a.r)


def _facing(axes: Sequence[Vector], h: Vector, out: Vector) -> tuple[Vector, Vector, Vector]:
    """Of the face of a box that looks against a direction most: its middle from the centre, and its half edges."""
    falls = [dot(axis, out) for axis in axes]
    sized = [times(e, axis) for e, axis in zip(h, axes, strict=True)]
    _, _, number = largest([magnitude(fall) for fall in falls], axes)
    turns = [
        (times(-sign(falls[i]), sized[i]), sized[(i + 1) % 3], sized[(i + 2) % 3]) for i in range(3)
    ]  # fmt: skip
    middle, x, y = _numbered(number, turns)
    return middle, x, y


def _numbered(number: Any, given: Sequence[tuple[Vector, ...]]) -> Any:
    """The first, second or third of some vectors."""
    return tuple(chosen(number, 0.5, x, chosen(number, 1.5, y, z)) for x, y, z in zip(*given, strict=True))


def _box_plane(a: PosedShape, b: PosedShape) -> list[Candidate]:
    n = b.axis(2)
    middle, x, y = _facing(a.axes, a.h, n)
    middle = plus(plus(a.c, 1.0, middle), -a.r, n)
    corners = [plus(plus(middle, s, x), t, y) for s, t in ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))]
    return [_between(dot(minus(corner, b.c), n), n, corner) for corner in corners]


def rim(a: PosedShape, n: Vector) -> list[Vector]:
    """Points of a cylinder that may touch what is below it: four of the lower rim, the lowest of the other one."""
    z, (radius, _, half) = a.axis(2), a.h
    rise = dot(z, n)
    fall = minus(times(rise, z), n)
    size = sqrt(dot(fall, fall))
    e = chosen(size, _SAME, a.axis(0), times(1.0 / select(size, _SAME, 1.0, size), fall))
    ahead, aside = times(radius, e), times(radius, cross(z, e))
    low, high = (plus(a.c, s * sign(rise) * half, z) for s in (-1.0, 1.0))
    return [
        plus(low, 1.0, ahead), plus(low, -1.0, ahead), plus(low, 1.0, aside), plus(low, -1.0, aside),
        plus(high, 1.0, ahead),
    ]  # fmt: skip


def _cylinder_plane(a: PosedShape, b: PosedShape) -> list[Candidate]:
    n = b.axis(2)
    return [_between(dot(minus(p, b.c), n), n, p) for p in rim(a, n)]


def lowest(a: PosedShape, n: Vector) -> Vector:
    """The point of an ellipsoid that is lowest along a normal."""
    x, y, z = (e * dot(axis, n) for e, axis in zip(a.h, a.axes, strict=True))
    one = -1.0 / sqrt(x * x + y * y + z * z)
    p = a.c
    for part, e, axis in zip((x, y, z), a.h, a.axes, strict=True):
        p = plus(p, one * part * e, axis)
    return p


def _ellipsoid_plane(a: PosedShape, b: PosedShape) -> list[Candidate]:
    n = b.axis(2)
    p = lowest(a, n)
    return [_between(dot(minus(p, b.c), n), n, p)]


def _hull_plane(a: PosedHull, b: PosedShape) -> list[Candidate]:
    n = b.axis(2)
    up = a.inside(n)
    # leaning along the two axes of the hull that are most level, so that a face keeps its corners as it turns
    _, _, number = largest([magnitude(x) for x in up], [up, up, up])
    down = times(-1.0, up)
    tilted = []
    for x, y in _DIRECTIONS:
        one, two = _LEAN * x, _LEAN * y
        (way,) = _numbered(number, [((0.0, one, two),), ((two, 0.0, one),), ((one, two, 0.0),)])
        tilted.append(plus(down, 1.0, way))
    deepest, *corners = a.lowest([down, *tilted])
    size, least = _SAME * (a.h[0] + a.h[1] + a.h[2]), FAR
    # a bowed face rests on what bulges out between its corners, a narrow one on vertices that lie to no side; of those
    # in the plane of all corners, rounding would choose others in each step
    out = _through(corners, down)
    plane = dot(out, corners[0])
    others = a.off(down, out, plane, select(dot(out, out), 0.5, -1.0, size))
    on = [*((p, 1.0) for p in corners), *others]
    found: list[Candidate] = []
    for i, (p, exists) in enumerate(on):
        gap = select(exists, 0.5, FAR, dot(minus(a.placed(p), b.c), n))
        if i >= len(corners):
            gap = select(dot(out, p), plane, select(gap, _NEAR * size, gap, FAR), gap)
        least = select(gap, least, gap, least)
        for other, _ in on[:i]:
            away = minus(p, other)
            gap = select(magnitude(away[0]) + magnitude(away[1]) + magnitude(away[2]), size, FAR, gap)
        found.append(_between(gap, n, a.placed(p)))
    # of vertices that are level, rounding would choose another one in each step
    gap = dot(minus(a.placed(deepest), b.c), n)
    return [*found, _between(select(gap, least - size, gap, FAR), n, a.placed(deepest))]


def _through(corners: Sequence[Vector], down: Vector) -> Vector:
    """The normal of a plane along four points, downwards; zero if they are on a line."""
    one, two = minus(corners[0], corners[2]), minus(corners[1], corners[3])
    across = cross(one, two)
    square, least = dot(across, across), _SAME * _SAME * dot(one, one) * dot(two, two)
    long = select(least, square, square, 1.0)
    return times(select(least, square, 1.0, 0.0) * sign(dot(across, down)) / sqrt(long), across)


def _boxes(a: PosedShape, b: PosedShape) -> list[Candidate]:
    c, ha, hb = b.inside(minus(a.c, b.c)), a.h, b.h
    x, y, z = a.axes
    R, one = (b.inside(x), b.inside(y), b.inside(z)), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    gap, n, face = largest(*along_faces(c, R, ha, hb))
    edge_gap, edge_n, edge = largest(*along_edges(c, R, ha, hb))
    shortest = ha[0]
    for e in (*ha[1:], *hb):
        shortest = select(e, shortest, e, shortest)
    faces = select(gap + _PREFERENCE * shortest, edge_gap, 0.0, 1.0)
    around, more = a.r + b.r, select(face, 2.5, b.r - a.r, a.r - b.r)

    # the box whose face it is, r, and the other one, i; the face of r has the axis k, its middle f, half edges u and v
    origin = (0.0, 0.0, 0.0)
    out = times(select(face, 2.5, 1.0, -1.0), n)
    cr, ci = (chosen(face, 2.5, x, y) for x, y in ((origin, c), (c, origin)))
    Ar, Ai = ([chosen(face, 2.5, x, y) for x, y in zip(*both, strict=True)] for both in ((one, R), (R, one)))
    hr, hi = (chosen(face, 2.5, x, y) for x, y in ((hb, ha), (ha, hb)))
    turns = [(Ar[j], Ar[k], (hr[i], hr[j], hr[k])) for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    u, v, (hk, hu, hv) = _numbered(face - select(face, 2.5, 0.0, 3.0), turns)
    f = plus(cr, hk, out)
    # of the face of i that looks at it, the middle g and half edges X and Y: along u, v and out
    middle, X, Y = _facing(Ai, hi, out)
    g = minus(plus(ci, 1.0, middle), f)
    (gu, gv, gh), (Xu, Xv, Xh), (Yu, Yv, Yh) = ((dot(w, u), dot(w, v), dot(w, out)) for w in (g, X, Y))
    inverse = 1.0 / (Xu * Yv - Xv * Yu)

    def within(p: Any, q: Any) -> tuple[Any, Any]:
        """The coordinates along X and Y of a point of the plane, ±1 at edges."""
        return ((p - gu) * Yv - (q - gv) * Yu) * inverse, (Xu * (q - gv) - Xv * (p - gu)) * inverse

    def inside(*pairs: tuple[Any, Any]) -> Any:
        """1 where all numbers are at most ± their limits, else 0."""
        found = 1.0
        for number, limit in pairs:
            found = select(magnitude(number), limit * (1.0 + _INSIDE), found, 0.0)
        return found

    corners = [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)]
    candidates = []
    for s, t in corners:
        p, q = gu + s * Xu + t * Yu, gv + s * Xv + t * Yv
        candidates.append((p, q, inside((p, hu), (q, hv))))
        p, q = s * hu, t * hv
        xi, eta = within(p, q)
        candidates.append((p, q, inside((xi, 1.0), (eta, 1.0))))
    for (pu, pv), (du, dv) in (((Xu, Xv), (Yu, Yv)), ((Yu, Yv), (Xu, Xv))):
        for s in (1.0, -1.0):
            start = gu + s * pu, gv + s * pv
            for axis, (d, other, limit, opposite) in enumerate(((du, dv, hu, hv), (dv, du, hv, hu))):
                share = 1.0 / select(magnitude(d), TINY, TINY, d)
                for side in (1.0, -1.0):
                    t = (side * limit - start[axis]) * share
                    crossing = start[1 - axis] + t * other
                    ok = inside((t, 1.0), (crossing, opposite))
                    candidates.append((side * limit, crossing, ok) if axis == 0 else (crossing, side * limit, ok))

    ends = [(FAR, -FAR), (FAR, -FAR)]
    for p, q, ok in candidates:
        for i, x in enumerate((p, q)):
            low, high = ends[i]
            ends[i] = select(select(ok, 0.5, FAR, x), low, x, low), select(-select(ok, 0.5, -FAR, x), -high, x, high)
    middles = [0.5 * (low + high) for low, high in ends]
    shares = [1.0 / (select(high - low, TINY, 1.0, high - low)) for low, high in ends]
    best: list[tuple[Any, ...]] = [(-FAR, 0.0, 0.0, FAR)] * 5
    for p, q, ok in candidates:
        xi, eta = within(p, q)
        height = gh + xi * Xh + eta * Yh
        there = [(x - middle) * share for x, middle, share in zip((p, q), middles, shares, strict=True)]
        scores = [*(x * there[0] + y * there[1] for x, y in _DIRECTIONS), -height]
        for i, (score, was) in enumerate(zip(scores, best, strict=True)):
            found = select(ok, 0.5, -FAR, score), p, q, height
            best[i] = tuple(select(-found[0], -was[0], x, y) for x, y in zip(found, was, strict=True))

    manifold = []
    size = _SAME * (hu + hv)
    for i, (_, p, q, height) in enumerate(best):
        height = select(faces, 0.5, FAR, height)
        for _, other, another, _ in best[:i]:
            apart = magnitude(p - other) + magnitude(q - another)
            height = select(apart, size, FAR, height)
        at = plus(plus(plus(f, p, u), q, v), 0.5 * select(height, 1.0, height + more, 0.0), out)
        manifold.append(Candidate(height - around, b.turned(n), b.placed(at)))
    pa = deepest(c, R, ha, hb, edge_gap, edge_n, edge + 6.0)
    at = b.placed(plus(pa, -0.5 * (edge_gap + a.r - b.r), edge_n))
    manifold.append(Candidate(select(faces, 0.5, edge_gap, FAR) - around, b.turned(edge_n), at))
    return manifold


def _rounded_boxes(a: PosedShape, b: PosedShape) -> list[Candidate]:
    """With edges that are round: corners may touch, too, where their cores are apart."""
    *found, _ = _boxes(a, b)
    d, n, pa, _ = rounded(CLASSES["boxes"][0](a, b), a.r, b.r)
    least = FAR
    for one in found:
        least = select(one.gap, least, one.gap, least)
    gap = select(d, least - _SAME * (a.r + b.r), d, FAR)
    return [*found, _between(gap, n, pa)]


#: By the kinds of two shapes, the function of their poses, and the number of candidates.
MANIFOLDS: dict[tuple[str, ...], tuple[Callable[[PosedShape, PosedShape], list[Candidate]], int]] = {
    ("sphere", "sphere"): (_nearest_point("points"), 1),
    ("sphere", "capsule"): (_nearest_point("points"), 1),
    ("sphere", "box"): (_nearest_point("sphere_boxes"), 1),
    ("sphere", "plane"): (_nearest_point("planes"), 1),
    ("capsule", "capsule"): (_capsules, 3),
    ("capsule", "box"): (_capsule_box, 3),
    ("capsule", "plane"): (_capsule_plane, 2),
    ("box", "box"): (_boxes, 6),
    ("box", "box", "rounded"): (_rounded_boxes, 6),
    ("box", "plane"): (_box_plane, 4),
    ("cylinder", "plane"): (_cylinder_plane, 5),
    ("ellipsoid", "plane"): (_ellipsoid_plane, 1),
    ("hull", "plane"): (_hull_plane, 5 + SEVERAL),  # type: ignore[dict-item]
}
