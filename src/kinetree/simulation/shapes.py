"""Shapes that points of a robot may touch: signed distances and normals.

Every shape is fixed in the world and has a `friction` coefficient μ. Gaps are positive outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from kinetree.algorithms.contact_shapes import above_block, above_capsule, above_plane, above_sphere
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.errors import InputError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.topology import WORLD
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class Shape:
    """A fixed shape that points may touch."""

    friction: float
    #: The recursion that measures heights (`kinetree.algorithms.contact_shapes`), for shapes that compiled steps know.
    algorithm: ClassVar[Algorithm | None] = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the recursion takes to describe the shape."""
        return ()

    def gap(self, points: Any) -> tuple[Array, Array]:
        """Signed distances of points, (…, 3) to (…), and outward unit normals, (…, 3).

        Shapes of your own override this; they are measured by Python code in each step.
        """
        if self.algorithm is None:
            raise NotImplementedError(f"{type(self).__name__} has no gap(points)")
        normals, heights = measured(self.algorithm, 1)(np.asarray(points)[..., None, :], self.numbers)
        return heights[..., 0, 2], normals[..., 0, :]


@lru_cache(maxsize=64)
def measured(algorithm: Algorithm, points: int) -> Compiled:
    """Heights and normals of a number of points, which belong to the world: all robots share the compiled code."""
    return bind(algorithm, *contact_sites(points), algorithm.name)


def contact_sites(contacts: int) -> tuple[Mechanism, list[Site]]:
    """A mechanism with nothing but contacts, of three rows each."""
    place = Transform.identity().data
    sites = [Site(str(i), WORLD, place, (3, 4, 5)) for i in range(contacts)]
    return Mechanism((), (), (), (), np.zeros(3)), sites


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

    algorithm: ClassVar[Algorithm | None] = above_plane

    def __post_init__(self) -> None:
        normal = _vector("normal", self.normal)
        size = float(np.sqrt(sum(x * x for x in normal)))
        if size == 0.0:
            raise InputError("a plane needs a normal other than zero")
        object.__setattr__(self, "normal", tuple(x / size for x in normal))
        _require("offset", self.offset, -np.inf)
        _require("friction", self.friction)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Normal, offset."""
        return (*self.normal, self.offset)


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

    algorithm: ClassVar[Algorithm | None] = above_sphere

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        _require("radius", self.radius)
        _require("friction", self.friction)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Centre, radius."""
        return (*self.center, self.radius)


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

    algorithm: ClassVar[Algorithm | None] = above_capsule

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _vector("start", self.start))
        object.__setattr__(self, "end", _vector("end", self.end))
        _require("radius", self.radius)
        _require("friction", self.friction)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Start, axis, one over the axis' squared length, radius."""
        axis = tuple(b - a for a, b in zip(self.start, self.end, strict=True))
        square = sum(x * x for x in axis)
        return (*self.start, *axis, 1.0 / square if square > 0.0 else 0.0, self.radius)


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

    algorithm: ClassVar[Algorithm | None] = above_block

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        size = _vector("size", self.size)
        for edge in size:
            _require("size", edge)
        object.__setattr__(self, "size", size)
        _require("friction", self.friction)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Centre, half edges."""
        return (*self.center, *(0.5 * edge for edge in self.size))


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
