"""Distances of hulls: from planes in closed form, from all others by coal, with certificates; and of height fields.

The signed distance of two convex shapes is the largest of

    s(n) = min n·x over A − max n·y over B                                                                 (1)

over all unit vectors n, apart and overlapping. So s of the normal that is found is a bound from below, and its distance
from the d that is found is the certificate. coal's iterations (GJK [M24]) stop early at some tolerances, and at others
find no result at all: the tolerance is changed until the certificate is small. Of a few pairs it never is. Then GJK
[G88] goes on here, from coal's normal: simplices of at most four points of A ⊖ B bound d from above. Of polytopes it
ends after finitely many steps.

Where shapes overlap, (1) has several local maxima, and coal's EPA may return the wrong one, or nothing. −d is the
distance from the origin to the surface of B ⊖ A. Polytopes of some points of that surface are inside: their nearest
face bounds −d from below, and s of any normal from above. Points in the directions of the faces that are nearer than
that expand the polytope [B01], until both bounds agree.

[B01] G. van den Bergen, "Proximity queries and penetration depth computation on 3D game objects", GDC 2001.
[G88] E. Gilbert, D. Johnson, S. Keerthi, "A fast procedure for computing the distance between complex objects in
      three-dimensional space", IEEE Journal on Robotics and Automation 4, 1988.
[M24] L. Montaut et al., "GJK++: Leveraging acceleration methods for faster collision detection", IEEE Transactions on
      Robotics 40, 2024.
"""

from __future__ import annotations

import itertools
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
# Of overlapping shapes: directions that are tried first, by how much both bounds may differ, relative to the sizes of
# shapes, most expansions, and most points of each.
_DIRECTIONS, _AGREE, _EXPANSIONS, _AT_ONCE = 32, 1e-11, 60, 256
# Of shapes that are apart: most steps.
_STEPS = 100
# Vertices of a hull that differ by less than this part of its size support it together.
_LEVEL = 1e-12

Found = tuple[Array, Array, Array]
# d, n, (3,), points, (2, 3), and the certificate of one sample
Proven = tuple[float, Array, Array, float]


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
        finite = np.isfinite(T[:, (i, j)]).all(axis=(1, 2, 3))
        own, radius = probes(self.shapes[i])
        (R, c), (Q, base) = ((T[finite, k, :3, :3], T[finite, k, :3, 3]) for k in (i, j))
        found = self._grounds[j].distances((own @ R.swapaxes(1, 2) + (c - base)[:, None]) @ Q)
        lowest = np.arange(len(c)), found[0].argmin(axis=1)
        far, up, q = (each[lowest] for each in found)
        d[finite] = far - radius
        n[finite], nearest = ((Q @ each[..., None])[..., 0] for each in (up, q))
        points[finite, 1] = base + nearest
        points[:, 0] = points[:, 1] + d[:, None] * n
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
        inside = np.zeros(len(T), dtype=bool)
        around = np.array([0.0 if isinstance(one := self.shapes[k], Hull) else one.around for k in (i, j)])
        for tolerance in TOLERANCES:
            request = _request(tolerance)
            for sample in left.tolist():
                new_d, new_n, new_points = _measured(compute, at(sample, i), at(sample, j), request)
                inside[sample] = new_d <= 0.0
                new_off = 0.0 if inside[sample] else self._off(i, j, T[sample], new_d, new_n)
                if new_off < off[sample]:
                    d[sample], n[sample], points[sample], off[sample] = new_d, new_n, new_points, new_off
            left = left[off[left] > GOOD]
            if not len(left):
                break
        for sample in np.flatnonzero(inside | (off > GOOD)).tolist():
            guess = float(d[sample]), n[sample], points[sample]
            proven = self._proven(i, j, T[sample], guess, around)
            if inside[sample] or proven[-1] < off[sample]:
                d[sample], n[sample], points[sample], off[sample] = proven
        lost = ~(off <= WORST * (1.0 + np.abs(d))) & finite
        if lost.any():
            a, b = self.shapes[i].name, self.shapes[j].name
            raise ConvergenceError(
                f"there is no distance of {a!r} and {b!r} that can be certified, at {int(lost.sum())} of {len(T)} "
                f"configurations, the first is number {int(np.flatnonzero(lost)[0])}; put capsules around such shapes: "
                "geometry.fit, or geometry.simplified"
            )
        return d, n, points

    def _off(self, i: int, j: int, T: Array, d: float, n: Array) -> float:
        """The certificate of one sample."""
        return float(self.certificate(i, j, T[None], np.array([d]), n[None])[0])

    def _proven(self, i: int, j: int, T: Array, guess: tuple[float, Array, Array], less: Array) -> Proven:
        """Of shapes that overlap, or of which coal's `guess` has no certificate, at their poses T, (n, 4, 4).

        Radii of shapes are `less`: most cores are polytopes, of which few steps find the nearest points, and few
        expansions all faces.
        """
        from scipy.spatial import QhullError

        d, n, points = guess
        size = float(np.linalg.norm(n))
        n = n / size if 0.5 < size < 2.0 else _AROUND[0]
        try:
            found = self._expanded(i, j, T, n, less)
        except QhullError:  # rounding is larger than the shapes
            return np.nan, n, np.full((2, 3), np.nan), np.inf
        if found is not None:
            return found
        if d > -less.sum() and (off := self._off(i, j, T, d, n)) <= GOOD:  # cores are apart for coal, too
            return d, n, points, off
        return self._nearest(i, j, T, n, less)

    def _nearest(self, i: int, j: int, T: Array, n: Array, less: Array) -> Proven:
        """The same by GJK of cores that are apart, from a normal on."""
        kept, low, high, best, found = np.empty((0, 2, 3)), -np.inf, np.inf, n, np.zeros((2, 3))
        for _ in range(_STEPS):
            new = self._ends(i, j, T, n[None], less)
            s = float((new[0, 0] - new[0, 1]) @ n)
            if s > low:
                low, best = s, n
            if low >= (1.0 - _AGREE) * high:
                break
            ends = np.concatenate([kept, new])
            shares = _least(ends[:, 0] - ends[:, 1])
            nearest = np.tensordot(shares, ends, 1)
            size = float(np.linalg.norm(nearest[0] - nearest[1]))
            if not size < high:
                break
            kept, high, found = ends[shares > 0.0], size, nearest
            corners = kept[:, 0] - kept[:, 1]
            edges, n = corners[1:] - corners[0], found[0] - found[1]
            n = n - np.linalg.pinv(edges) @ (edges @ n)  # what rounding leaves along them is most of it near zero
            if not n.any():
                break
            n /= np.linalg.norm(n)
        return _found(high, best, found, less, high - low)

    def _expanded(self, i: int, j: int, T: Array, guess: Array, less: Array) -> Proven | None:
        """The same by polytopes; None if cores are apart."""
        from scipy.spatial import ConvexHull

        axes = np.concatenate([T[i, :3, :3].T, T[j, :3, :3].T])
        n = np.concatenate([_AROUND, axes, -axes, guess[None]])
        more, ends, polytope = n, self._ends(i, j, T, n, less), None
        for _ in range(_EXPANSIONS):
            s = ((ends[:, 0] - ends[:, 1]) * n).sum(-1)
            if s.max() >= 0.0:
                return None
            if polytope is None:
                polytope = ConvexHull(ends[:, 1] - ends[:, 0], incremental=True)
                agree = _AGREE * np.ptp(polytope.points)
            else:
                polytope.add_points(ends[-len(more) :, 1] - ends[-len(more) :, 0])
            out, near = polytope.equations[:, :3], -polytope.equations[:, 3]
            nearer = np.flatnonzero(near < -s.max() - agree)
            if not len(nearer):
                break
            more = out[nearer[np.argsort(near[nearer])[:_AT_ONCE]]]
            n, ends = np.concatenate([n, more]), np.concatenate([ends, self._ends(i, j, T, more, less)])
        else:
            return np.nan, guess, np.full((2, 3), np.nan), np.inf
        top, side = float(s.max()), n[s.argmax()]
        # −s n, where its ray leaves the polytope, as a sum of the corners of that face: of those that are as near
        faces = polytope.simplices[near + top * (out @ side) <= agree]
        corners = np.concatenate([polytope.points[faces].swapaxes(1, 2), np.ones((len(faces), 1, 3))], axis=1)
        shares = np.linalg.pinv(corners) @ np.append(-top * side, 1.0)
        inside = int(shares.min(axis=1).argmax())
        found = np.tensordot(shares[inside], ends[faces[inside]], 1)
        return _found(top, side, found, less, float(agree))

    def _ends(self, i: int, j: int, T: Array, n: Array, less: Array) -> Array:
        """The points of two shapes that are the farthest along −n and n, (m, 2, 3), of normals, (m, 3)."""
        found = []
        for k, out, radius in ((i, -n, less[0]), (j, n, less[1])):
            at = np.broadcast_to(T[k], (len(n), 4, 4))
            found.append(support(self.shapes[k], self._vertices[k], at, out, radius))
        return np.stack(found, axis=1)


def around(count: int) -> Array:
    """Unit vectors, evenly in all directions, along a spiral, (n, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    across = np.sqrt(1.0 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=-1)


_AROUND = around(_DIRECTIONS)


def _found(s: float, n: Array, ends: Array, less: Array, off: float) -> Proven:
    """What is known of shapes, of what is known of their cores."""
    d, middle = s - float(less.sum()), (ends + np.outer(less * (-1.0, 1.0), n)).mean(axis=0)
    return d, n, middle + np.outer((0.5 * d, -0.5 * d), n), off


def _least(points: Array) -> Array:
    """Shares of up to four points in the nearest point of their simplex to the origin; the last one has some."""
    least, best = np.inf, np.zeros(len(points))
    for count in range(3):  # all four only have a nearest point of their own where it is the origin
        for others in itertools.combinations(range(len(points) - 1), count):
            some = list(others)
            along = np.linalg.pinv((points[some] - points[-1]).T) @ -points[-1]
            shares = np.zeros(len(points))
            shares[some], shares[-1] = along, 1.0 - along.sum()
            size = float(np.linalg.norm(shares @ points))
            if shares.min() >= 0.0 and size < least:
                least, best = size, shares
    return best


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


def _vertices(shape: SolidShape) -> Array | None:
    return shape.vertices if isinstance(shape, Hull) else None


def support(shape: SolidShape, vertices: Array | None, T: Array, direction: Array, less: float = 0.0) -> Array:
    """The farthest point of a shape at poses, (m, 4, 4), along directions, (m, 3).

    Args:
        shape: The shape.
        vertices: Those of a hull.
        T: Its poses.
        direction: The directions.
        less: By how much the radius around its core is smaller: this keeps the digits of small cores.
    """
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
        local = np.sign(u) * np.array(shape.half) + (shape.around - less) * u / size
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
