"""Shapes that points of a robot may touch: signed distances and normals.

Every shape is fixed in the world and has a `friction` coefficient μ. Gaps are positive outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinetree.errors import InputError
from kinetree.kernels.contact_problem import (
    above_block,
    above_capsule,
    above_plane,
    above_sphere,
    block_slopes,
    capsule_slopes,
    plane_slopes,
    sphere_slopes,
)
from kinetree.kernels.language import Kernel
from kinetree.runtime import arguments
from kinetree.runtime.function import compiled
from kinetree.spatial.value import Array


class Shape:
    """A fixed shape that points may touch."""

    friction: float
    #: The kernel that measures heights (`kinetree.kernels.contact_problem`), for shapes that compiled steps know.
    kernel: ClassVar[Kernel | None] = None
    #: The kernel of `slopes`.
    slope_kernel: ClassVar[Kernel | None] = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the kernel takes to describe the shape."""
        return ()

    def gap(self, points: Any) -> tuple[Array, Array]:
        """Signed distances of points, (…, 3) to (…), and outward unit normals, (…, 3).

        Shapes of your own override this; they are measured by Python code in each step.
        """
        if self.kernel is None:
            raise InputError(
                f"{type(self).__name__} has no gap(points); define it, to return signed distances and outward normals"
            )
        normals, heights = compiled(self.kernel, c=1)(np.asarray(points)[..., None, :], self.numbers)
        return heights[..., 0, 2], normals[..., 0, :]

    def slopes(self, points: Any) -> tuple[Array, Array]:
        """Derivatives of gaps and normals with respect to points, (…, 3) to (…, 3) and (…, 3, 3).

        Shapes of your own override this, for derivatives of steps.
        """
        if self.slope_kernel is None:
            raise InputError(
                f"{type(self).__name__} has no slopes(points); define it, to return derivatives of gaps and normals "
                f"with respect to {np.shape(points)[-1]} coordinates"
            )
        slopes, bends = compiled(self.slope_kernel, c=1)(np.asarray(points)[..., None, :], self.numbers)
        return slopes[..., 0, :], bends[..., 0, :, :]


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

    kernel: ClassVar[Kernel | None] = above_plane
    slope_kernel: ClassVar[Kernel | None] = plane_slopes

    def __post_init__(self) -> None:
        normal = _vector("normal", self.normal)
        longest = max(map(abs, normal))
        if longest == 0.0:
            raise InputError("a plane needs a normal other than zero")
        # squares of the components themselves may overflow, or vanish
        normal = _vector("normal", [x / longest for x in normal])
        size = math.sqrt(sum(x * x for x in normal))
        object.__setattr__(self, "normal", tuple(x / size for x in normal))
        _set(self, "offset")
        _set(self, "friction", 0.0)

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

    kernel: ClassVar[Kernel | None] = above_sphere
    slope_kernel: ClassVar[Kernel | None] = sphere_slopes

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        _set(self, "radius", 0.0)
        _set(self, "friction", 0.0)

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

    kernel: ClassVar[Kernel | None] = above_capsule
    slope_kernel: ClassVar[Kernel | None] = capsule_slopes

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _vector("start", self.start))
        object.__setattr__(self, "end", _vector("end", self.end))
        _set(self, "radius", 0.0)
        _set(self, "friction", 0.0)

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

    kernel: ClassVar[Kernel | None] = above_block
    slope_kernel: ClassVar[Kernel | None] = block_slopes

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _vector("center", self.center))
        object.__setattr__(self, "size", _numbers("size", self.size, 3, 0.0))
        _set(self, "friction", 0.0)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Centre, half edges."""
        return (*self.center, *(0.5 * edge for edge in self.size))


@dataclass(frozen=True, eq=False)
class HeightField(Shape):
    """Ground whose height is given on a grid, interpolated bilinearly; beyond the grid, that of its border.

    The gap of a point is its distance from the tangent plane below it: exact on even ground, and to first order in the
    gap elsewhere. Measured by Python code in each step.

    Attributes:
        heights: (nx, ny), at least two of each, along the world's x and y axes [m].
        size: Lengths of the grid along x and y [m].
        center: x and y of its centre [m].
        friction: μ.
    """

    heights: Any
    size: tuple[float, float]
    center: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.7

    def __post_init__(self) -> None:
        heights = np.array(arguments.numbers("HeightField", "heights", self.heights), dtype=np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            raise InputError(
                f"heights of a HeightField are (nx, ny), finite, at least 2 by 2; got shape {heights.shape}"
            )
        heights.setflags(write=False)
        object.__setattr__(self, "heights", heights)
        for name in ("size", "center"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name), 2))
        if min(self.size) <= 0.0:
            raise InputError(f"size={self.size!r} of a HeightField is not positive")
        _set(self, "friction", 0.0)

    def gap(self, points: Any) -> tuple[Array, Array]:
        """Distances from the tangent planes below points, and their normals."""
        gap, normal, *_ = self._measured(np.asarray(points, dtype=float))
        return gap, normal

    def slopes(self, points: Any) -> tuple[Array, Array]:
        """Derivatives of both: gaps do not grow along normals alone, where the ground is curved."""
        points = np.asarray(points, dtype=float)
        _, _, height, (x, y), up, twist, inside = self._measured(points)
        zero = np.zeros_like(up)
        dx, dy = (
            np.stack(each, axis=-1) for each in ((zero, twist * inside[1], zero), (twist * inside[0], zero, zero))
        )
        rise = np.stack([x * inside[0], y * inside[1], zero - 1.0], axis=-1)
        shrink = -(up**3)[..., None] * (x[..., None] * dx + y[..., None] * dy)
        slope = -up[..., None] * rise + (points[..., 2] - height)[..., None] * shrink
        turns = [-(up[..., None] * d + s[..., None] * shrink) for d, s in ((dx, x), (dy, y))]
        return slope, np.stack([*turns, shrink], axis=-2)

    def _measured(self, points: Array) -> tuple[Any, ...]:
        """Gap, normal, height below, its slopes, 1/√(1 + slopes²), ∂²height/∂x∂y, and whether x and y are inside."""
        cells, shares, spacing, inside = [], [], [], []
        for axis in range(2):
            count = self.heights.shape[axis] - 1
            step = self.size[axis] / count
            place = np.clip((points[..., axis] - self.center[axis] + 0.5 * self.size[axis]) / step, 0.0, count)
            inside.append((place > 0.0) & (place < count))
            cell = np.minimum(np.nan_to_num(place).astype(int), count - 1)
            cells.append(cell)
            shares.append(place - cell)
            spacing.append(step)
        (i, j), (s, t) = cells, shares
        a, b, c, d = (self.heights[i + di, j + dj] for di in (0, 1) for dj in (0, 1))
        height = (1.0 - s) * ((1.0 - t) * a + t * b) + s * ((1.0 - t) * c + t * d)
        across = [(1.0 - t) * (c - a) + t * (d - b), (1.0 - s) * (b - a) + s * (d - c)]
        slope = [rise / step for rise, step in zip(across, spacing, strict=True)]
        up = 1.0 / np.sqrt(1.0 + slope[0] * slope[0] + slope[1] * slope[1])
        normal = np.stack([-slope[0] * up, -slope[1] * up, up], axis=-1)
        twist = (a - b - c + d) / (spacing[0] * spacing[1])
        return (points[..., 2] - height) * up, normal, height, slope, up, twist, inside


def _vector(name: str, values: Any) -> tuple[float, float, float]:
    x, y, z = _numbers(name, values, 3)
    return x, y, z


def _numbers(name: str, values: Any, count: int, least: float = -np.inf) -> tuple[float, ...]:
    given = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(given, (list, tuple)) or len(given) != count:
        raise InputError(f"{name} takes {('two', 'three')[count - 2]} numbers, got {values!r}")
    return tuple(_number(name, value, least) for value in given)


def _set(shape: Shape, name: str, least: float = -np.inf) -> None:
    """Convert a number among the attributes of a shape."""
    object.__setattr__(shape, name, _number(name, getattr(shape, name), least))


def _number(name: str, value: Any, least: float) -> float:
    what = "a finite number from zero on" if least == 0.0 else "a finite number"
    return arguments.number(name, value, least, what)
