"""Shapes that stand in for others in contacts: capsules and boxes around those whose contacts have no closed form."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from kinetree.model.fit import fit
from kinetree.model.shapes import Box, Capsule, Hull, SolidShape
from kinetree.model.simplify import simplified
from kinetree.spatial.value import Array

# Rounding, by which boxes are larger than what they contain.
_SPARE = 1.0 + 1e-12


def closed(shape: SolidShape) -> SolidShape:
    """A capsule around a cylinder or an ellipsoid, the smaller one of a capsule and a box around a hull; else itself.

    Raises:
        LoadError: If a mesh cannot be read.
        UnsupportedError: If SciPy is not installed.
    """
    return _around(shape) if isinstance(shape, Hull) else simplified([shape])[0]


@lru_cache(maxsize=512)
def centred(hull: Hull) -> Hull:
    """The same hull of points, with the middle of its extents at the origin of its pose."""
    vertices = hull.vertices
    middle = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    placement = np.array(hull.placement)
    placement[:3, 3] += placement[:3, :3] @ middle
    changed = {"points": vertices - middle, "file": "", "scale": (1.0, 1.0, 1.0), "directories": None}
    return replace(hull, placement=placement, **changed)


def probes(hull: Hull) -> list[tuple[float, ...]]:
    """What stands for a hull above a height field: vertices farthest towards corners, edges and faces of a cube."""
    vertices = hull.points
    ways = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if x or y or z], float)
    size = np.ptp(vertices, axis=0)
    found = np.argmax(vertices @ (ways / size).T, axis=0)
    return [tuple(vertices[i].tolist()) for i in dict.fromkeys(found.tolist())]


@lru_cache(maxsize=512)
def _around(hull: Hull) -> SolidShape:
    (capsule,) = fit([hull])
    box = _box(hull)
    if not isinstance(capsule, Capsule):
        return box
    length, radius = 2.0 * capsule.half[2], capsule.radius
    return capsule if np.pi * radius**2 * (length + 4.0 / 3.0 * radius) < np.prod(box.size) else box


def _box(hull: Hull) -> Box:
    """The smaller one of the boxes around a hull along the axes of its mesh and along its principal axes."""
    vertices, found = hull.vertices, list[tuple[Array, Array, Array]]()
    turned: Array = np.linalg.svd(vertices - vertices.mean(axis=0), full_matrices=False)[2].T
    turned[:, 2] *= np.sign(np.linalg.det(turned))
    for axes in (np.eye(3), turned):
        along = vertices @ axes
        found.append((axes, along.min(axis=0), along.max(axis=0)))
    axes, low, high = min(found, key=lambda box: float(np.prod(box[2] - box[1])))
    placement = np.array(hull.placement)
    placement[:3, 3] += placement[:3, :3] @ (axes @ (0.5 * (low + high)))
    placement[:3, :3] = placement[:3, :3] @ axes
    rest = {"body": hull.body, "friction": hull.friction, "source": "fitted", "masks": hull.masks}
    return Box(hull.name, _SPARE * (high - low), placement, **rest)  # type: ignore[arg-type]
