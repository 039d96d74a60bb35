"""Distances of hulls: from planes in closed form, from all others by coal, with certificates; and of height fields.

The signed distance of two convex shapes is the largest of

    s(n) = min n·x over A − max n·y over B                                                                 (1)

over all unit vectors n, apart and overlapping. So s of the normal that is found is a bound from below, and its distance
from the d that is found is the certificate. coal's iterations (GJK [M24]) stop early at some tolerances, and at others
find no result at all: the tolerance is changed until the certificate is small.

Where shapes overlap, (1) has several local maxima, and coal's EPA may return the wrong one, or nothing. Here, s is
evaluated for many n. From the best one, and from that of coal, A is moved by t = ε − s(n) along n, out of B; the
normal n' of the distance d' that it then has gives

    s(n') = d' − t n·n' ≥ ε − t = s(n)                                                                     (2)

since d' is the largest of all, so repeating this ascends, until n' = n. It needs distances of shapes apart only. With
w = x − y of (1), s(n') ≤ w·n' for all n', so within an angle δ of n

    s(n') ≤ s(n) cos δ + |w − s(n) n| sin δ                                                                (3)

Each n is ascended from, too, whose neighbourhood may hold more by (3) than what is found.

[M24] L. Montaut et al., "GJK++: Leveraging acceleration methods for faster collision detection", IEEE Transactions on
      Robotics 40, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.errors import ConvergenceError, UnsupportedError
from kinetree.model.field_distances import Ground, probes
from kinetree.model.hulls import INSTALL
from kinetree.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Hull, SolidShape, Sphere
from kinetree.spatial.value import Array

#: Tolerances of coal's iterations, tried in this order until the certificate is below `GOOD` [m].
TOLERANCES = (1e-11, 1e-9, 1e-8, 1e-7, 1e-6)
GOOD = 1e-9
#: Results with a larger certificate, relative to one metre or the distance, are none.
WORST = 1e-6

_ITERATIONS = 500
# Of overlapping shapes: directions that are tried, the angle within which each other one has one of them, the cosine
# below which two are different, most ascents, how far apart shapes are moved, relative to the smaller one, most steps
# of an ascent, and the rise that counts [m].
_DIRECTIONS, _SPACING, _OTHER, _ASCENTS, _GAP, _STEPS, _RISE = 512, 0.112, 0.99, 24, 0.02, 60, 1e-13
# Vertices of a hull that differ by less than this part of its size support it together.
_LEVEL = 1e-12

Found = tuple[Array, Array, Array]


class ConvexDistances:
    """Distances of some pairs of shapes, any of which may be a hull, and the second one a height field.

    Args:
        shapes: All shapes that pairs name.
        numbers: The two shapes of each pair, (p, 2).

    Raises:
        UnsupportedError: If coal or SciPy is missing.
        LoadError: If a mesh cannot be read.
    """

    def __init__(self, shapes: Sequence[SolidShape], numbers: Array) -> None:
        self.shapes, self.numbers = shapes, numbers
        used = {int(i) for pair in numbers for i in pair}
        level = {int(j) for _, j in numbers if shapes[j].kind in ("plane", "height field")}
        self._grounds = {j: Ground(shape) for j in level if isinstance(shape := shapes[j], HeightField)}
        self._sizes = {i: _size(shapes[i]) for i in used - level}
        self._vertices = {i: _vertices(shapes[i]) for i in used - level}
        curved = [(int(i), int(j)) for i, j in numbers if int(j) not in level]
        self._solids = _coal_shapes(shapes, self._vertices, {i for pair in curved for i in pair}) if curved else {}

    def __call__(self, T: Array) -> Found:
        """d, (m, p), n, (m, p, 3), and nearest points, (m, p, 2, 3), of shapes at some poses, (m, n, 4, 4)."""
        count = len(self.numbers)
        d, normal, points = np.empty((len(T), count)), np.empty((len(T), count, 3)), np.empty((len(T), count, 2, 3))
        placed: dict[tuple[int, int], Any] = {}
        for k, (i, j) in enumerate(self.numbers.tolist()):
            if j in self._grounds:
                found = self._over(i, j, T)
            else:
                found = self._above(i, j, T) if self.shapes[j].kind == "plane" else self._apart(i, j, T, placed)
            d[:, k], normal[:, k], points[:, k] = found
        return d, normal, points

    def support(self, i: int, T: Array, direction: Array) -> Array:
        """The farthest point of a shape at some poses, (m, 4, 4), along directions, (m, 3); the middle of several."""
        return support(self.shapes[i], self._vertices[i], T, direction)

    def certificate(self, i: int, j: int, T: Array, d: Array, normal: Array) -> Array:
        """|d − s(n)|, (m,) [m], infinite where n is no unit vector."""
        low = ((self.support(i, T[:, i], -normal) - self.support(j, T[:, j], normal)) * normal).sum(-1)  # (1)
        off = np.abs(d - low) + np.abs((normal * normal).sum(-1) - 1.0)
        return np.where(np.isfinite(off), off, np.inf)

    def _above(self, i: int, j: int, T: Array) -> Found:
        """Above a plane."""
        n = T[:, j, :3, 2]
        low = self.support(i, T[:, i], -n)
        d = ((low - T[:, j, :3, 3]) * n).sum(-1)
        return d, n, np.stack([low, low - d[:, None] * n], axis=1)

    def _over(self, i: int, j: int, T: Array) -> Found:
        """Over a height field: the lowest one of some points."""
        d, n, points = np.full(len(T), np.nan), np.full((len(T), 3), np.nan), np.full((len(T), 2, 3), np.nan)
        own, radius = probes(self.shapes[i])
        for sample in np.flatnonzero(np.isfinite(T[:, i]).all(axis=(1, 2)) & np.isfinite(T[:, j]).all(axis=(1, 2))):
            (R, c), (Q, base) = ((T[sample, k, :3, :3], T[sample, k, :3, 3]) for k in (i, j))
            found = [self._grounds[j].distance(p) for p in (own @ R.T + c - base) @ Q]
            far, up, q = min(found, key=lambda each: each[0])
            d[sample], n[sample] = far - radius, Q @ up
            nearest = base + Q @ q
            points[sample] = nearest + d[sample] * n[sample], nearest
        return d, n, points

    def _apart(self, i: int, j: int, T: Array, placed: dict[tuple[int, int], Any]) -> Found:
        """By coal."""
        import coal

        compute = coal.ComputeDistance(self._solids[i], self._solids[j])

        def at(sample: int, shape: int) -> Any:
            if (sample, shape) not in placed:
                placed[sample, shape] = coal.Transform3s(T[sample, shape, :3, :3], T[sample, shape, :3, 3])
            return placed[sample, shape]

        d, n, points = np.full(len(T), np.nan), np.full((len(T), 3), np.nan), np.full((len(T), 2, 3), np.nan)
        finite = np.isfinite(T[:, i]).all(axis=(1, 2)) & np.isfinite(T[:, j]).all(axis=(1, 2))
        off, left = np.where(finite, np.inf, 0.0), np.flatnonzero(finite)
        inside: list[int] = []
        for tolerance in TOLERANCES:
            request = _request(tolerance)
            for sample in left.tolist():
                new_d, new_n, new_points = _measured(compute, at(sample, i), at(sample, j), request)
                if new_d <= 0.0:
                    inside.append(sample)
                    off[sample], n[sample] = 0.0, new_n
                    continue
                new_off = self.certificate(i, j, T[[sample]], np.array([new_d]), new_n[None])[0]
                if new_off < off[sample]:
                    d[sample], n[sample], points[sample], off[sample] = new_d, new_n, new_points, new_off
            left = left[off[left] > GOOD]
            if not len(left):
                break
        for sample in inside:
            d[sample], n[sample], points[sample], off[sample] = self._deepest(i, j, T[sample], n[sample], compute)
        lost = ~(off <= WORST * (1.0 + np.abs(d))) & finite
        if lost.any():
            a, b = self.shapes[i].name, self.shapes[j].name
            raise ConvergenceError(
                f"coal finds no distance of {a!r} and {b!r} that can be certified, at {int(lost.sum())} of {len(T)} "
                f"configurations, the first is number {int(np.flatnonzero(lost)[0])}; put capsules around such shapes: "
                "geometry.fit, or geometry.simplified"
            )
        return d, n, points

    def _deepest(self, i: int, j: int, T: Array, guess: Array, compute: Any) -> tuple[float, Array, Array, float]:
        """d, n, (3,), points, (2, 3), and certificate of overlapping shapes at their poses T, (n, 4, 4)."""
        axes = np.concatenate([T[i, :3, :3].T, T[j, :3, :3].T])
        tried = np.concatenate([_AROUND, axes, -axes, guess[None] if np.isfinite(guess).all() else axes[:1]])
        s, w = self._least(i, j, T, tried)
        most = s * np.cos(_SPACING) + np.sqrt(np.maximum((w * w).sum(-1) - s * s, 0.0)) * np.sin(_SPACING)  # (3)
        best = self._ascended(i, j, T, tried[-1], compute)
        for _ in range(_ASCENTS):
            n = tried[s.argmax()]
            best = max(best, self._ascended(i, j, T, n, compute), key=lambda found: found[0])
            s = np.where((tried @ n < _OTHER) & (most > best[0]), s, -np.inf)
            if s.max() == -np.inf:
                break
        return best

    def _least(self, i: int, j: int, T: Array, n: Array) -> tuple[Array, Array]:
        """(1) of normals, (m, 3): s, (m,), and w = x − y, (m, 3)."""
        here = [np.broadcast_to(T[k], (len(n), 4, 4)) for k in (i, j)]
        w = self.support(i, here[0], -n) - self.support(j, here[1], n)
        return (w * n).sum(-1), w

    def _ascended(self, i: int, j: int, T: Array, n: Array, compute: Any) -> tuple[float, Array, Array, float]:
        """(2) repeated, until d' is ε: the certificate of a local maximum."""
        import coal

        a, fixed = T[i], coal.Transform3s(T[j, :3, :3], T[j, :3, 3])
        gap = _GAP * min(self._sizes[i], self._sizes[j])
        s, off, points = float(self._least(i, j, T, n[None])[0][0]), np.inf, np.zeros((2, 3))
        tolerances = iter(TOLERANCES)
        request = _request(next(tolerances))
        for _ in range(_STEPS):
            t = gap - s
            d, new_n, new = _measured(compute, coal.Transform3s(a[:3, :3], a[:3, 3] + t * n), fixed, request)
            if abs(d - gap) < off:
                off, points = abs(d - gap), new - np.array([t * n, np.zeros(3)])
            new_s = float(self._least(i, j, T, new_n[None])[0][0])
            if new_s > s + _RISE:
                s, n = new_s, new_n
                continue
            tolerance = None if off < GOOD else next(tolerances, None)
            if tolerance is None:
                break
            request = _request(tolerance)
        middle = points.mean(axis=0)
        return s, n, np.stack([middle + 0.5 * s * n, middle - 0.5 * s * n]), off


def around(count: int) -> Array:
    """Unit vectors, evenly in all directions, along a spiral, (n, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    across = np.sqrt(1.0 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=-1)


_AROUND = around(_DIRECTIONS)


def _request(tolerance: float) -> Any:
    import coal

    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = tolerance
    request.gjk_max_iterations = request.epa_max_iterations = _ITERATIONS
    return request


def _measured(compute: Any, first: Any, second: Any, request: Any) -> tuple[float, Array, Array]:
    """d, n, (3,), and points, (2, 3); coal's normals point from the first shape to the second."""
    import coal

    result = coal.DistanceResult()
    d = float(compute(first, second, request, result))
    return d, -np.array(result.normal), np.array([result.getNearestPoint1(), result.getNearestPoint2()])


def _size(shape: SolidShape) -> float:
    """The least extent of a shape, about [m]."""
    if isinstance(shape, Hull):
        return float(np.ptp(shape.vertices, axis=0).min())
    if isinstance(shape, Cylinder):
        return min(shape.radius, 0.5 * shape.length)
    if isinstance(shape, Ellipsoid):
        return float(shape.semi_axes.min())
    return max(shape.around, min(shape.half))


def _vertices(shape: SolidShape) -> Array | None:
    return shape.vertices if isinstance(shape, Hull) else None


def support(shape: SolidShape, vertices: Array | None, T: Array, direction: Array) -> Array:
    """The farthest point of a shape at poses, (m, 4, 4), along directions, (m, 3); of a hull with these vertices."""
    R, c = T[:, :3, :3], T[:, :3, 3]
    u = np.einsum("mji,mj->mi", R, direction)
    size = np.sqrt((u * u).sum(-1, keepdims=True))
    if vertices is not None:
        heights = u @ vertices.T
        top = heights.max(axis=1, keepdims=True)
        level = heights >= top - _LEVEL * np.abs(heights).max(axis=1, keepdims=True)
        local = level @ vertices / np.maximum(level.sum(axis=1, keepdims=True), 1)
    elif isinstance(shape, Cylinder):
        across = np.hypot(u[:, 0], u[:, 1])[:, None]
        unit = np.divide(u[:, :2], across, out=np.zeros_like(u[:, :2]), where=across > 0.0)
        local = np.concatenate([shape.radius * unit, 0.5 * shape.length * np.sign(u[:, 2:])], axis=1)
    elif isinstance(shape, Ellipsoid):
        scaled = u * shape.semi_axes
        local = scaled * shape.semi_axes / np.sqrt((scaled * scaled).sum(-1, keepdims=True))
    else:
        local = np.sign(u) * np.array(shape.half) + shape.around * u / size
    return np.asarray(np.einsum("mij,mj->mi", R, local) + c)


def _coal_shapes(shapes: Sequence[SolidShape], vertices: dict[int, Array | None], used: set[int]) -> dict[int, Any]:
    try:
        import coal
    except ModuleNotFoundError:
        odd = next(shapes[i] for i in sorted(used) if not isinstance(shapes[i], (Sphere, Capsule, Box)))
        raise UnsupportedError(
            f"shape {odd.name!r} is a {odd.kind}, whose distances are coal's, which is not installed. Install it with: "
            f"{INSTALL}, or put capsules around such shapes: geometry.simplified, geometry.fit"
        ) from None
    made: dict[int, Any] = {}
    for i in used:
        shape, corners = shapes[i], vertices[i]
        if isinstance(shape, Hull) and corners is not None:
            points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
            points.extend(list(corners))
            triangles.extend([coal.Triangle(*face) for face in shape.mesh.faces.tolist()])
            try:
                made[i] = coal.Convex(points, triangles)
            except RuntimeError:
                raise UnsupportedError(
                    f"hull {shape.name!r} has a vertex with more edges than coal takes; simplify its mesh, or put a "
                    "capsule around it: geometry.fit"
                ) from None
        elif isinstance(shape, Cylinder):
            made[i] = coal.Cylinder(shape.radius, shape.length)
        elif isinstance(shape, Ellipsoid):
            made[i] = coal.Ellipsoid(*shape.semi_axes)
        elif isinstance(shape, Sphere):
            made[i] = coal.Sphere(shape.radius)
        elif isinstance(shape, Capsule):
            made[i] = coal.Capsule(shape.radius, 2.0 * shape.half[2])
        else:
            made[i] = coal.Box(2.0 * np.array(shape.half))
            made[i].setSweptSphereRadius(shape.around)
    return made
