"""Spheres and capsules around hulls, cylinders and ellipsoids, and by how much they are too large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnsupportedError
from kinetree.model.convex_distances import around, support
from kinetree.model.hulls import INSTALL
from kinetree.model.shapes import Capsule, Cylinder, Ellipsoid, Hull, SolidShape, Sphere
from kinetree.model.simplify import capsule_around, listed
from kinetree.spatial.value import Array

#: What `fit` puts around shapes.
KINDS = ("capsules", "spheres")

# Rounding, by which fits are larger than what they contain.
_SPARE = 1.0 + 1e-12
# Faces of a hull that are looked at for the nearest one.
_FACES = 64
# The largest part of a radius that tight ones lose.
_THINNER = 0.9


class Fit:
    """Shapes that contain others; iterating gives them.

    Attributes:
        shapes: All shapes, in their order; those that have closed forms are as they were.
        excess: How far the fitted ones reach beyond what they stand for, by name [m]: the largest distance of one of
            their points from it.
        shortfall: How far the tight ones fall short of it, by name [m]; zero for all others.
    """

    def __init__(
        self, shapes: Iterable[SolidShape], excess: Mapping[str, float], shortfall: Mapping[str, float]
    ) -> None:
        self.shapes = tuple(shapes)
        self.excess, self.shortfall = MappingProxyType(dict(excess)), MappingProxyType(dict(shortfall))

    def __iter__(self) -> Iterator[SolidShape]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __repr__(self) -> str:
        return f"<{len(self.excess)} of {len(self)} shapes fitted, by {max(self.excess.values(), default=0.0):.3g} m>"


def fit(shapes: Iterable[SolidShape], kind: str = "capsules", *, tight: bool = False) -> Fit:
    """Shapes with a capsule or sphere around each hull, cylinder and ellipsoid; all others as they are.

    Args:
        shapes: The shapes, such as `robot.shapes`.
        kind: "capsules" or "spheres".
        tight: Whether the radius is less by half the excess. Then they fall short of what they stand for by as much as
            they reach beyond it, and distances may be too large by that.

    Raises:
        LoadError: If a mesh cannot be read.
        UnsupportedError: If SciPy is not installed.
    """
    if kind not in KINDS:
        raise InputError(f"fit: kind={kind!r} is not known; choose one of {', '.join(map(repr, KINDS))}")
    found: list[SolidShape] = []
    excess, shortfall = dict[str, float](), dict[str, float]()
    for shape in listed("fit", shapes):
        if not isinstance(shape, (Hull, Cylinder, Ellipsoid)):
            found.append(shape)
            continue
        larger = _fitted(shape, kind)
        beyond = _excess(shape, larger)
        less = min(0.5 * beyond, _THINNER * larger.radius) if tight else 0.0
        found.append(replace(larger, radius=larger.radius - less))
        excess[shape.name], shortfall[shape.name] = beyond - less, less
    return Fit(found, excess, shortfall)


def _fitted(shape: Hull | Cylinder | Ellipsoid, kind: str) -> Sphere | Capsule:
    rest = shape.body, shape.friction, "fitted", shape.masks
    at = shape.placement
    if isinstance(shape, Hull):
        vertices = shape.vertices @ at[:3, :3].T + at[:3, 3]
        if kind == "spheres":
            center = _center(vertices)
            return Sphere(shape.name, center, _SPARE * _farthest(vertices, center, center), *rest)
        start, end, radius = _capsule(vertices)
        return Capsule(shape.name, start, end, radius, *rest)
    if kind == "capsules":
        return capsule_around(shape)
    whole = shape.semi_axes.max() if isinstance(shape, Ellipsoid) else np.hypot(shape.radius, 0.5 * shape.length)
    return Sphere(shape.name, at[:3, 3], float(whole), *rest)


def _center(points: Array) -> Array:
    """The centre of a small ball around points: steps towards the farthest one, [B03].

    [B03] M. Bădoiu, K. Clarkson, "Smaller core-sets for balls", SODA 2003.
    """
    center = 0.5 * (points.min(axis=0) + points.max(axis=0))
    for k in range(1000):
        away = points - center
        center = center + away[(away * away).sum(axis=1).argmax()] / (k + 2)
    return np.asarray(center)


def _farthest(points: Array, start: Array, end: Array) -> float:
    """The largest distance of points from a segment."""
    along = end - start
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-300), 0.0, 1.0)
    return float(np.linalg.norm(points - start - share[:, None] * along, axis=1).max())


def _capsule(points: Array) -> tuple[Array, Array, float]:
    """Ends and radius of a capsule of small volume around points."""
    try:
        from scipy.optimize import minimize
    except ModuleNotFoundError:
        raise UnsupportedError(f"fits are SciPy's, which is not installed. Install it with: {INSTALL}") from None
    center = 0.5 * (points.min(axis=0) + points.max(axis=0))
    _, _, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    size = float(np.ptp(points, axis=0).max())

    def volume(ends: Array) -> float:
        start, end = center + size * ends[:3], center + size * ends[3:]
        radius = _farthest(points, start, end)
        return float(np.pi * radius**2 * (np.linalg.norm(end - start) + 4.0 / 3.0 * radius)) / size**3

    best: Any = None
    for axis in axes:
        reach = 0.3 * np.ptp(points @ axis) / size * axis
        found = minimize(volume, np.concatenate([-reach, reach]), method="Nelder-Mead", options={"maxfev": 600})
        best = found if best is None or found.fun < best.fun else best
    start, end = center + size * best.x[:3], center + size * best.x[3:]
    return start, end, _SPARE * _farthest(points, start, end)


def _excess(shape: SolidShape, larger: Sphere | Capsule) -> float:
    """How far a capsule or sphere reaches beyond a shape: its radius, and how far one of its ends is outside."""
    ends = (larger.start, larger.end) if isinstance(larger, Capsule) else (larger.center,)
    return larger.radius + max(_outside(shape, end) for end in ends)


def _outside(shape: SolidShape, point: Array) -> float:
    """The signed distance of a point from a shape: the largest of how far it is beyond, over all directions."""
    if isinstance(shape, Hull):
        return _outside_hull(shape, (point - shape.placement[:3, 3]) @ shape.placement[:3, :3])

    def beyond(n: Array) -> Array:
        farthest = support(shape, None, np.broadcast_to(shape.pose, (len(n), 4, 4)), n)
        return np.asarray(((point - farthest) * n).sum(-1))

    # best of many directions, then of smaller and smaller neighbourhoods
    n = around(1000)
    for width in 0.1 * 0.5 ** np.arange(30):
        best = n[beyond(n).argmax()]
        n = best + width * np.concatenate([np.zeros((1, 3)), around(30)])
        n /= np.linalg.norm(n, axis=-1, keepdims=True)
    return float(beyond(n).max())


def _outside_hull(hull: Hull, x: Array) -> float:
    """The same of a hull and a point in its axes: inside by the nearest face, outside by the widest gap [L74].

    [L74] C. Lawson, R. Hanson, "Solving Least Squares Problems", 1974, §23.4: least distance programming.
    """
    from scipy.optimize import nnls

    vertices, (a, b, c) = hull.vertices, hull.vertices[hull.mesh.faces.T]
    normals = np.cross(b - a, c - a)
    size = np.linalg.norm(normals, axis=-1)
    normals, a = normals[size > 0.0] / size[size > 0.0, None], a[size > 0.0]
    # those of thin triangles are rough: of the nearest planes, how far vertices reach decides
    nearest = normals[np.argsort(((x - a) * normals).sum(-1))[-_FACES:]]
    beyond = float((nearest @ x - (nearest @ vertices.T).max(axis=1)).max())
    if beyond <= 0.0:
        return beyond
    # the shortest n with n·(x − v) ≥ 1 for all vertices v
    extent = np.ptp(vertices, axis=0).max()
    rows = np.concatenate([(x - vertices).T / extent, np.ones((1, len(vertices)))])
    rest = rows @ nnls(rows, np.array([0.0, 0.0, 0.0, 1.0]))[0] - (0.0, 0.0, 0.0, 1.0)
    length = float(np.linalg.norm(rest[:3]))
    return max(beyond, float(-rest[3] / length * extent) if length > 0.0 else 0.0)
