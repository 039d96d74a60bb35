"""Heights of points above fixed shapes, and outward normals there. Cost O(1) for each point.

A height is the signed distance from the surface, negative inside. It is stored as the last of three numbers for each
point, where `contact_problem` expects the normal row of a contact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.recursion.tree import Indexed
from kinetree.spatial.scalar import magnitude, select, sqrt

Vector = tuple[Any, Any, Any]
#: A point and the numbers of a shape to the height and the normal.
Measure = Callable[[Vector, Any], tuple[Any, Vector]]


def _shape(numbers: int) -> Callable[[Measure], Kernel]:
    """A kernel that measures all points."""

    def declare(measure: Measure) -> Kernel:
        def run(k: Workspace, points: Indexed, shape: Indexed, normal: Indexed, height: Indexed) -> None:
            for point in k.c:
                h, n = measure(tuple(points[point]), shape[...])
                normal[point] = np.array(n)
                height[point] = np.array([0.0, 0.0, h])

        run.__name__, run.__doc__ = measure.__name__, measure.__doc__
        declared = kernel(
            points=("c", 3), shape=(numbers,), normal=("c", 3), height=("c", 3),
            outputs=("normal", "height"),
        )  # fmt: skip
        return declared(run)

    return declare


@_shape(4)
def above_plane(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a plane: unit normal, and distance from the origin along it."""
    n = shape[0], shape[1], shape[2]
    return _dot(p, n) - shape[3], n


@_shape(4)
def above_sphere(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a sphere: centre, radius."""
    return _around(_minus(p, shape[:3]), shape[3])


@_shape(8)
def above_capsule(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a capsule: start and axis of its segment, one over the axis' squared length or zero, radius."""
    way, axis = _minus(p, shape[:3]), tuple(shape[3:6])
    share = _clipped(_dot(way, axis) * shape[6])
    return _around(_minus(way, [share * a for a in axis]), shape[7])


@_shape(6)
def above_block(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a box along the world axes: centre, half edges. Inside, the nearest face counts."""
    way = _minus(p, shape[:3])
    x, y, z = (magnitude(w) - half for w, half in zip(way, shape[3:], strict=True))
    outside = tuple(0.5 * (b + magnitude(b)) for b in (x, y, z))
    far = sqrt(_dot(outside, outside))
    # one face, even at an edge
    face = (
        select(x, y, 0.0, select(x, z, 0.0, 1.0)),
        select(x, y, select(y, z, 0.0, 1.0), 0.0),
        select(select(x, y, y, x), z, 1.0, 0.0),
    )
    inside = select(select(x, y, y, x), z, z, select(x, y, y, x))
    safe = select(-far, 0.0, far, 1.0)
    normal = [
        select(w, 0.0, -1.0, 1.0) * select(-far, 0.0, o / safe, f) for w, o, f in zip(way, outside, face, strict=True)
    ]
    return select(-far, 0.0, far, inside), (normal[0], normal[1], normal[2])


def _around(way: Any, radius: Any) -> tuple[Any, Vector]:
    """Height above a surface around a point or line, and the direction away from it; up, exactly on the latter."""
    far = sqrt(_dot(way, way))
    safe = select(-far, 0.0, far, 1.0)
    x, y, z = (w / safe for w in way)
    return far - radius, (x, y, select(-far, 0.0, z, 1.0))


def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _minus(a: Any, b: Any) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _clipped(x: Any) -> Any:
    low = 0.5 * (x + magnitude(x))
    return select(-low, -1.0, 1.0, low)
