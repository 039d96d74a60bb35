"""Signed distances, normals and nearest points of shapes, in closed form and without branches.

A shape is a core and a radius around it: a point (sphere), a segment c ± u (capsule), a box c + R [±h]. With the signed
distance d₀ of the cores, that of the shapes is d₀ − r_a − r_b, inside too: the Minkowski difference of rounded shapes
is that of the cores, rounded. Only boxes have cores that can overlap (`kinetree.kernels.box_distances`).

Results are d, n, p_a, p_b: n is the unit normal from the second shape to the first, p_a − p_b = d n, and the rate of d
is nᵀ(v_a − v_b) with the velocities of the bodies at these points. d < 0 inside.

Vectors are tuples of three scalars of any type, arrays too: one text for kernels, the reference engine and NumPy.

    segments    s = −(r × b)·(a × b) / |a × b|², clip, t from s, clip, s from t, clip [E05 §5.1.9]. Cross products
                instead of |a|²|b|² − (a·b)² keep all digits at small angles. With a small weight, the middle of the
                overlap takes part, so that parallel segments are nearest there

[E05] C. Ericson, "Real-Time Collision Detection", 2005.
"""

from __future__ import annotations

from typing import Any

from kinetree.spatial.dual import select
from kinetree.spatial.scalar import Constant, magnitude, sqrt

#: Three scalars.
Vector = tuple[Any, Any, Any]
#: Centre c and half axis u of a segment c ± u, |u|² and 1/|u|², which is 0 for a point.
Segment = tuple[Vector, Vector, Any, Any]
#: d, n, p_a, p_b.
Found = tuple[Any, Vector, Vector, Vector]

#: Weight of the middle of the overlap, relative to the squared sine of the angle between two segments.
PARALLEL = Constant(1e-12, 1e-6)
#: Keeps a division by zero from happening.
TINY = Constant(1e-300, 1e-30)
#: The distance below which segments meet, relative to their lengths, squared: ten times what `PARALLEL` makes of zero.
CROSSED = Constant(1e-22, 1e-10)
UP: Vector = (0.0, 0.0, 1.0)


def dot(a: Vector, b: Vector) -> Any:
    """The inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def minus(a: Vector, b: Vector) -> Vector:
    """The difference."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def plus(a: Vector, s: Any, b: Vector) -> Vector:
    """a + s b."""
    return a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]


def times(s: Any, a: Vector) -> Vector:
    """s a."""
    return s * a[0], s * a[1], s * a[2]


def cross(a: Vector, b: Vector) -> Vector:
    """The cross product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def clip(x: Any, h: Any) -> Any:
    """x within ±h."""
    x = select(x, h, x, h)
    return select(x, -h, -h, x)


def chosen(a: Any, b: Any, x: Vector, y: Vector) -> Vector:
    """x where a < b, else y."""
    return select(a, b, x[0], y[0]), select(a, b, x[1], y[1]), select(a, b, x[2], y[2])


def sign(x: Any) -> Any:
    """−1 for negative numbers, else 1."""
    return select(x, 0.0, -1.0, 1.0)


def along(w: Vector, fallback: Vector = UP) -> tuple[Any, Vector]:
    """Length and direction of a vector; the direction of the fallback where it is zero."""
    square = dot(w, w)
    v = chosen(-square, 0.0, w, fallback)
    size = sqrt(dot(v, v))
    one = 1.0 / size
    return select(-square, 0.0, size, square), times(one, v)


def rounded(core: Found, ra: Any, rb: Any) -> Found:
    """Shapes around cores, with these radii."""
    d, n, pa, _ = core
    d, pa = d - ra - rb, plus(pa, -ra, n)
    return d, n, pa, plus(pa, -d, n)


def segment(c: Vector, u: Vector) -> Segment:
    """A segment c ± u."""
    square = dot(u, u)
    return c, u, square, select(-square, 0.0, 1.0, 0.0) / (square + TINY)


def nearest_parameters(a: Segment, b: Segment) -> tuple[Any, Any, Vector]:
    """s, t in ±1 and the difference c_a + s u − (c_b + t w) of the nearest points of two segments.

    The middle of the overlap if they are parallel.
    """
    (ca, u, _, iu), (cb, w, _, iw) = a, b
    r, across = minus(ca, cb), cross(u, w)
    uw, ur, wr = dot(u, w), dot(u, r), dot(w, r)
    middle = 0.5 * (clip((uw - ur) * iu, 1.0) + clip((-uw - ur) * iu, 1.0))
    weight = _parallel(a, b)
    s = clip((weight * middle - dot(cross(r, w), across)) / (dot(across, across) + weight), 1.0)
    t = clip((uw * s + wr) * iw, 1.0)
    s = clip((uw * t - ur) * iu, 1.0)
    return s, t, plus(plus(r, s, u), -t, w)


def _parallel(a: Segment, b: Segment) -> Any:
    """The squared size of u × w below which two segments count as parallel."""
    return PARALLEL * a[2] * b[2] + TINY


def _crossed(a: Segment, b: Segment) -> Any:
    """The squared distance of two segments below which they meet."""
    return CROSSED * (a[2] + b[2]) + TINY


def from_segment(p: Vector, b: Segment) -> Vector:
    """The difference of a point and the nearest one of a segment."""
    c, u, _, iu = b
    r = minus(p, c)
    return plus(r, -clip(dot(u, r) * iu, 1.0), u)


def apart(a: Segment, b: Segment, w: Vector) -> Any:
    """The distance of two segments alone, given the difference of their nearest points."""
    square, least = dot(w, w), _crossed(a, b)
    return select(square, least, 0.0, sqrt(square))


def point_segment(a: Segment, b: Segment, across: Vector) -> Found:
    """A segment that is a point, and another one; `across` is the normal where they meet."""
    w = from_segment(a[0], b)
    return _found(a[0], w, dot(w, w), _crossed(a, b), across, 1.0)


def segments(a: Segment, b: Segment, across: Vector) -> Found:
    """Two segments. Where they meet, their common perpendicular is the normal: what rounding leaves has any direction.

    Args:
        a: The first segment; a point only if the second is one.
        b: The second segment.
        across: The normal where they meet and are parallel.
    """
    (ca, u, _, _), (_, v, _, _) = a, b
    s, _, w = nearest_parameters(a, b)
    up, least = cross(u, v), _parallel(a, b)
    square = dot(up, up)
    up, size = chosen(square, least, across, up), select(square, least, 1.0, square)
    return _found(plus(ca, s, u), w, dot(w, w), _crossed(a, b), up, size)


def _found(p: Vector, w: Vector, square: Any, least: Any, up: Vector, size: Any) -> Found:
    """Cores whose nearest points differ by w, p on the first; n is along up, up² = size, if w² is below the least."""
    d = sqrt(select(square, least, size, square))
    n = times(1.0 / d, chosen(square, least, up, w))
    d = select(square, least, 0.0, d)
    return d, n, p, plus(p, -d, n)


def above_plane(c: Vector, axes: tuple[Vector, Vector, Vector], h: Vector, n: Vector, offset: Any) -> Found:
    """A core c + R [±h] and the half-space n·x ≤ offset: its lowest point, and the middle of what is level."""
    p = c
    for u, e in zip(axes, h, strict=True):
        fall = dot(u, n) * e
        p = plus(p, select(fall, 0.0, e, select(-fall, 0.0, -e, 0.0 * e)), u)
    d = dot(p, n) - offset
    return d, n, p, plus(p, -d, n)


def cylinder_above_plane(c: Vector, axes: tuple[Vector, Vector, Vector], h: Vector, n: Vector, offset: Any) -> Found:
    """A cylinder with radius h_x and half length h_z, as `above_plane`."""
    x, y, z = axes
    a, b, fall = dot(x, n), dot(y, n), dot(z, n) * h[2]
    across = sqrt(a * a + b * b)
    out = h[0] * select(-across, 0.0, 1.0, 0.0) / select(-across, 0.0, across, 1.0)
    p = plus(plus(c, -out * a, x), -out * b, y)
    p = plus(p, select(fall, 0.0, h[2], select(-fall, 0.0, -h[2], 0.0)), z)
    d = dot(p, n) - offset
    return d, n, p, plus(p, -d, n)


def ellipsoid_above_plane(c: Vector, axes: tuple[Vector, Vector, Vector], h: Vector, n: Vector, offset: Any) -> Found:
    """An ellipsoid with semi-axes h, as `above_plane`."""
    u: Vector = dot(axes[0], n) * h[0], dot(axes[1], n) * h[1], dot(axes[2], n) * h[2]
    one, p = 1.0 / sqrt(dot(u, u)), c
    for axis, e, x in zip(axes, h, u, strict=True):
        p = plus(p, -one * x * e, axis)
    d = dot(p, n) - offset
    return d, n, p, plus(p, -d, n)


def point_cylinder(p: Vector, h: Vector) -> Found:
    """A point and a cylinder along z around the origin, with radius h_x and half length h_z; before its radius."""
    across, out = along((p[0], p[1], 0.0 * p[2]), (1.0, 0.0, 0.0))
    end: Vector = (0.0, 0.0, sign(p[2]))
    beside, beyond = across - h[0], magnitude(p[2]) - h[2]
    side, top = select(beside, 0.0, 0.0, beside), select(beyond, 0.0, 0.0, beyond)
    far, rim = along(plus(times(side, out), top, end))
    # inside, the nearer one of both
    n = chosen(beside, beyond, end, out)
    n = chosen(-far, 0.0, rim, n)
    d = select(-far, 0.0, far, select(beside, beyond, beyond, beside))
    return d, n, p, plus(p, -d, n)
