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
# The largest part of a radius that tight ones lose.
_THINNER = 0.9


class Fit:
    """Shapes that contain others; iterating gives them.

    Attributes:
        shapes: All shapes, in their order; those that have closed forms are as they were.
        excess: How far the fitted ones reach beyond what they stand for, by name [m]: of the largest distance of one of
            their points from it, the largest that was found.
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


def _excess(shape: SolidShape, larger: SolidShape) -> float:
    """The largest difference of how far both reach, over all directions: the Hausdorff distance of convex sets."""
    vertices = shape.vertices if isinstance(shape, Hull) else None

    def beyond(n: Array) -> Array:
        n = n / np.linalg.norm(n, axis=-1, keepdims=True)
        reach = [
            (support(one, own, np.broadcast_to(one.pose, (len(n), 4, 4)), n) * n).sum(-1)
            for one, own in ((larger, None), (shape, vertices))
        ]
        difference: Array = reach[0] - reach[1]
        return difference

    # best of many directions, then of smaller and smaller neighbourhoods
    n = around(1000)
    for width in 0.1 * 0.5 ** np.arange(30):
        best = n[beyond(n).argmax()]
        n = np.concatenate([best[None], best + width * around(30)])
    return float(beyond(n).max())
