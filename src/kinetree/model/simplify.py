"""Capsules around cylinders and ellipsoids."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinetree.errors import InputError
from kinetree.model.shapes import Capsule, Cylinder, Ellipsoid, SolidShape, Sphere
from kinetree.spatial.value import Array


def simplified(shapes: Iterable[SolidShape]) -> list[SolidShape]:
    """Shapes with capsules around cylinders and ellipsoids; all others as they are.

    The capsule around a cylinder has its radius and length, and caps beyond its ends. The one around an ellipsoid with
    semi-axes a ≥ b ≥ c has the radius b, and touches it at the ends of its longest axis.
    """
    return [
        capsule_around(shape) if isinstance(shape, (Cylinder, Ellipsoid)) else shape
        for shape in listed("simplified", shapes)
    ]


def listed(function: str, shapes: Iterable[SolidShape]) -> list[SolidShape]:
    """The shapes that a user gives; one alone is refused."""
    if isinstance(shapes, SolidShape) or not isinstance(shapes, Iterable):
        raise InputError(f"{function}: shapes is a list of shapes, such as robot.shapes; got {type(shapes).__name__}")
    return list(shapes)


def capsule_around(shape: Cylinder | Ellipsoid) -> Sphere | Capsule:
    """See `simplified`; a sphere if the capsule has no length."""
    if isinstance(shape, Cylinder):
        axis, half, radius = 2, 0.5 * shape.length, shape.radius
    else:
        order = np.argsort(shape.semi_axes)
        axis, radius = int(order[2]), float(shape.semi_axes[order[1]])
        half = float(shape.semi_axes[axis]) - radius
    center: Array = shape.placement[:3, 3]
    rest = shape.body, shape.friction, "fitted", shape.masks
    if half <= 0.0:
        return Sphere(shape.name, center, radius, *rest)
    along = half * shape.placement[:3, axis]
    return Capsule(shape.name, center - along, center + along, radius, *rest)
