"""Shapes of robots and scenes, the pairs of them that may collide, and shapes around others."""

from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.distances import Clearance, Distances, NearestDistances
from kinetree.model.fit import Fit, fit
from kinetree.model.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    HeightField,
    Hull,
    Plane,
    SolidShape,
    Sphere,
)
from kinetree.model.simplify import simplified

__all__ = [
    "Box",
    "Capsule",
    "Clearance",
    "CollisionPairs",
    "Cylinder",
    "Distances",
    "Ellipsoid",
    "Fit",
    "HeightField",
    "Hull",
    "NearestDistances",
    "Plane",
    "SolidShape",
    "Sphere",
    "fit",
    "simplified",
]
