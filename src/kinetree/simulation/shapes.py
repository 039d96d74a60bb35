"""Shapes that points of a robot may touch: signed distances and normals.

Every shape is fixed in the world and has a `friction` coefficient μ. Gaps are positive outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.spatial.fixed import length
from kinetree.spatial.value import Array


class Shape(ABC):
    """A fixed shape that points may touch."""

    friction: float

    @abstractmethod
    def gap(self, points: Array) -> tuple[Array, Array]:
        """Signed distances of points, (…, 3) to (…), and outward unit normals, (…, 3)."""


@dataclass(frozen=True)
class Plane(Shape):
    """A floor or a slope.

    Attributes:
        normal: Outward normal; normalised.
        offset: Distance of the plane from the world's origin along its normal [m].
        friction: μ.
    """

    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    offset: float = 0.0
    friction: float = 0.7

    def __post_init__(self) -> None:
        normal = _vector("normal", self.normal)
        size = float(np.sqrt(sum(x * x for x in normal)))
        if size == 0.0:
            raise InputError("a plane needs a normal other than zero")
        object.__setattr__(self, "normal", tuple(x / size for x in normal))
        _require("offset", self.offset, -np.inf)
        _require("friction", self.friction)

    def gap(self, points: Array) -> tuple[Array, Array]:
        """Heights above the plane."""
        x, y, z = self.normal
        height = points[..., 0] * x + points[..., 1] * y + points[..., 2] * z - self.offset
        return height, np.broadcast_to(np.array(self.normal), points.shape)


@dataclass(frozen=True)
class Sphere(Shape):
    """A ball.

    Attributes:
        center: [m].
        radius: [m].
        friction: μ.
    """

    center: tuple[float, float, float]
    radius: float
    friction: float = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        _require("radius", self.radius)
        _require("friction", self.friction)

    def gap(self, points: Array) -> tuple[Array, Array]:
        """Distances from the surface."""
        return _around(points - np.array(self.center), self.radius)


@dataclass(frozen=True)
class Capsule(Shape):
    """A cylinder with hemispherical ends.

    Attributes:
        start: One end of its axis [m].
        end: The other end [m].
        radius: [m].
        friction: μ.
    """

    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius: float
    friction: float = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _vector("start", self.start))
        object.__setattr__(self, "end", _vector("end", self.end))
        _require("radius", self.radius)
        _require("friction", self.friction)

    def gap(self, points: Array) -> tuple[Array, Array]:
        """Distances from the surface."""
        first, axis = np.array(self.start), np.array(self.end) - np.array(self.start)
        square = float(sum(x * x for x in axis.tolist()))
        way = points - first
        along = way[..., 0] * axis[0] + way[..., 1] * axis[1] + way[..., 2] * axis[2]
        share = np.clip(along / square if square > 0.0 else 0.0 * along, 0.0, 1.0)
        return _around(way - share[..., None] * axis, self.radius)


@dataclass(frozen=True)
class Block(Shape):
    """A box aligned with the world axes.

    Attributes:
        center: [m].
        size: Edge lengths [m].
        friction: μ.
    """

    center: tuple[float, float, float]
    size: tuple[float, float, float]
    friction: float = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        size = _vector("size", self.size)
        for edge in size:
            _require("size", edge)
        object.__setattr__(self, "size", size)
        _require("friction", self.friction)

    def gap(self, points: Array) -> tuple[Array, Array]:
        """Distances from the surface; inside, from the nearest face."""
        way, half = points - np.array(self.center), 0.5 * np.array(self.size)
        beyond = np.abs(way) - half
        sign = np.where(way < 0.0, -1.0, 1.0)
        outside = np.maximum(beyond, 0.0)
        far = length(outside)
        inside = beyond.max(axis=-1)
        face = (beyond == inside[..., None]).astype(float)
        face = face * (np.cumsum(face, axis=-1) == 1.0)  # one face, even at an edge
        is_out = (far > 0.0)[..., None]
        normal = sign * np.where(is_out, outside / np.where(is_out, far[..., None], 1.0), face)
        return np.where(far > 0.0, far, inside), normal


def _around(way: Array, radius: float) -> tuple[Array, Array]:
    """Distance from a surface around a point or line, and the direction away from it; up, exactly on the latter."""
    far = length(way)
    apart = (far > 0.0)[..., None]
    normal = np.where(apart, way / np.where(apart, far[..., None], 1.0), np.array([0.0, 0.0, 1.0]))
    return far - radius, normal


def _vector(name: str, values: Any) -> tuple[float, float, float]:
    try:
        x, y, z = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(f"{name} takes three numbers, got {values!r}") from None
    if not np.isfinite([x, y, z]).all():
        raise InputError(f"{name} must be finite, got {values!r}")
    return x, y, z


def _require(name: str, value: Any, least: float = 0.0) -> None:
    if not isinstance(value, (int, float, np.floating)) or not least <= value < np.inf:
        raise InputError(f"{name}={value!r} is not a number {'from zero on' if least == 0.0 else 'that is finite'}")
