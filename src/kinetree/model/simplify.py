"""Capsules around cylinders and ellipsoids."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinetree.model.shapes import Capsule, Cylinder, Ellipsoid, SolidShape, Sphere
from kinetree.spatial.value import Array


def simplified(shapes: Iterable[SolidShape]) -> list[SolidShape]:
    """Shapes with capsules around cylinders and ellipsoids; all others as they are.

    The capsule around a cylinder has its radius and length, and caps beyond its ends. The one around an ellipsoid with
    semi-axes a ≥ b ≥ c has the radius b, and touches it at the ends of its longest axis.
    """
    return [_simplified(shape) for shape in shapes]


def _simplified(shape: SolidShape) -> SolidShape:
    if isinstance(shape, Cylinder):
        return _capsule(shape, 2, 0.5 * shape.length, shape.radius)
    if isinstance(shape, Ellipsoid):
        order = np.argsort(shape.semi_axes)
        radius, longest = float(shape.semi_axes[order[1]]), float(shape.semi_axes[order[2]])
        return _capsule(shape, int(order[2]), longest - radius, radius)
    return shape


def _capsule(shape: SolidShape, axis: int, half: float, radius: float) -> SolidShape:
    """A capsule around the origin of a shape, along one of its axes; a sphere if it has no length."""
    center: Array = shape.placement[:3, 3]
    rest = shape.body, shape.friction, "fitted", shape.masks
    if half <= 0.0:
        return Sphere(shape.name, center, radius, *rest)
    along = half * shape.placement[:3, axis]
    return Capsule(shape.name, center - along, center + along, radius, *rest)
