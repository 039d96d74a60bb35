"""Shapes of bodies and scenes, for distances and collisions: frozen records, compared and hashed by content.

A shape on a robot belongs to one of its frames, `body`; without one it belongs to the frame that has its name. A shape
of a `Scene` belongs to the world.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinetree.errors import InputError, LoadError, ModelError, UnsupportedError
from kinetree.model.body import Record, frozen
from kinetree.model.hulls import convex_hull, hull_of_file, roots_of
from kinetree.model.mesh_formats import Mesh
from kinetree.model.specs import WORLD_NAME, checked_placement
from kinetree.spatial.reproducible import product
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

#: Kinds whose distances are compiled, in the order in which they come in pairs.
COMPILED = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "plane")
# Larger numbers are refused, here as in files: their squares would overflow.
_HUGE = 1e100
#: Kinds that have distances.
MEASURED = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull", "plane", "height field")


class SolidShape(Record):
    """A shape fixed to a frame of a robot, or to the world.

    Attributes:
        name: Unique on a robot, and in a scene.
        body: Name of the frame or body that carries it; None until it is part of a robot or scene.
        friction: Coefficient of friction; None if it is not known.
        source: Where it comes from: "given", "file" or "fitted".
        masks: MuJoCo's contype and conaffinity. Two shapes with masks may collide if one's type and the other's
            affinity have a bit in common.
    """

    kind: ClassVar[str]
    name: str
    body: str | None
    friction: float | None
    source: str
    masks: tuple[int, int] | None
    placement: Array

    @property
    def half(self) -> tuple[float, float, float]:
        """Half edges of its core along its axes [m]: (0, 0, half length) of a capsule, semi-axes of an ellipsoid."""
        raise UnsupportedError(_no_core(self))

    @property
    def around(self) -> float:
        """The radius around its core [m]."""
        raise UnsupportedError(_no_core(self))

    @property
    def pose(self) -> Array:
        """Pose of its core in the frame that carries it, (4, 4)."""
        return self.placement

    def moved(self, at: Array, body: str, name: str) -> Self:
        """The same shape, on another body that has its own at a pose, (4, 4), and under another name."""
        changed: dict[str, Any] = {"placement": product(at, self.placement), "body": body, "name": name}
        return replace(self, **changed)  # type: ignore[type-var]

    def renamed(self, name: str, body: str) -> Self:
        """The same shape with another name, or on another body with the same pose there."""
        changed: dict[str, Any] = {"name": name, "body": body}
        return replace(self, **changed)  # type: ignore[type-var]

    def __repr__(self) -> str:
        on = "" if self.body in (None, self.name) else f" on {self.body!r}"
        sizes = [
            f"{name} {Path(value).name if name == 'file' else ' '.join(f'{x:.4g}' for x in np.ravel(value))}"
            for name, value in self._contents().items()
            if isinstance(value, float) or (name == "file" and value) or getattr(value, "ndim", 0) == 1
        ]
        return f"<{self.kind} {self.name!r}{on}{': ' * bool(sizes)}{', '.join(sizes)}>"

    def _check(self, **sizes: Any) -> None:
        """Check and freeze its contents; sizes are positive numbers."""
        what = f"{self.kind} {self.name!r}"
        if not isinstance(self.name, str) or not self.name:
            raise ModelError(f"a {self.kind} needs a name that is not empty; got {self.name!r}")
        if self.body is not None and not isinstance(self.body, str):
            raise ModelError(f"{what}: body={self.body!r} is not the name of a frame")
        if self.friction is not None:
            friction = _number(self.friction)
            if not 0.0 <= friction < math.inf:
                raise ModelError(f"{what}: friction={self.friction!r} is not a coefficient, from 0 on")
            self.__dict__["friction"] = friction
        if self.masks is not None and not _is_two_integers(self.masks):
            raise ModelError(f"{what}: masks={self.masks!r} are not two integers, contype and conaffinity")
        self.__dict__.update({key: _size(what, key, value) for key, value in sizes.items()})


def _no_core(shape: SolidShape) -> str:
    on = "" if shape.body is None else f" of {shape.body!r}"
    return (
        f"shape {shape.name!r}{on} is a {shape.kind}, not one of {', '.join(COMPILED)}: put capsules around hulls, "
        "with geometry.fit"
    )


def _number(value: Any) -> float:
    """A float; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _is_two_integers(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, (int, np.integer)) for each in value)


def _size(what: str, name: str, value: Any) -> float:
    number = _number(value)
    if not 0.0 < number <= _HUGE:
        raise ModelError(f"{what}: {name}={value!r} is not a positive length in metres, or too large")
    return number


def _three(what: str, name: str, values: Any) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape != (3,) or not (np.abs(array) <= _HUGE).all():  # NaN fails too
        raise ModelError(f"{what}: {name}={values!r} is not three finite numbers, or too large")
    return frozen(array, (3,))


def _points(what: str, values: Any) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 2 or array.shape[-1] != 3 or not len(array) or not np.isfinite(array).all():
        raise ModelError(f"{what}: points are (n, 3) finite numbers, got an array of shape {array.shape}")
    return frozen(array, array.shape)


@dataclass(frozen=True, eq=False, repr=False)
class Sphere(SolidShape):
    """A ball.

    Attributes:
        center: In the frame that carries it, (3,) [m].
        radius: [m].
    """

    kind: ClassVar[str] = "sphere"
    name: str
    center: Any
    radius: float
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check(radius=self.radius)
        self.__dict__.update(center=_three(f"sphere {self.name!r}", "center", self.center))

    @property
    def placement(self) -> Array:  # type: ignore[override]
        """Pose in the frame that carries it, (4, 4)."""
        return pose(np.eye(3), self.center)

    @property
    def half(self) -> tuple[float, float, float]:
        """Zeros."""
        return 0.0, 0.0, 0.0

    @property
    def around(self) -> float:
        """The radius [m]."""
        return self.radius

    def moved(self, at: Array, body: str, name: str) -> Self:
        """See `SolidShape`."""
        return replace(self, center=product(at, self.placement)[:3, 3], body=body, name=name)


@dataclass(frozen=True, eq=False, repr=False)
class Capsule(SolidShape):
    """All points within a radius of a segment.

    Attributes:
        start: One end of the segment, in the frame that carries it, (3,) [m].
        end: The other one.
        radius: [m].
    """

    kind: ClassVar[str] = "capsule"
    name: str
    start: Any
    end: Any
    radius: float
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check(radius=self.radius)
        what = f"capsule {self.name!r}"
        self.__dict__.update(start=_three(what, "start", self.start), end=_three(what, "end", self.end))

    @property
    def placement(self) -> Array:  # type: ignore[override]
        """Pose in the frame that carries it, (4, 4): the middle, with z along the segment."""
        return pose(_turned_to(self.end - self.start), 0.5 * (self.start + self.end))

    @property
    def half(self) -> tuple[float, float, float]:
        """(0, 0, half length) [m]."""
        return 0.0, 0.0, 0.5 * float(np.sqrt(((self.end - self.start) ** 2).sum()))

    @property
    def around(self) -> float:
        """The radius [m]."""
        return self.radius

    def moved(self, at: Array, body: str, name: str) -> Self:
        """See `SolidShape`."""
        ends = [product(at, pose(np.eye(3), end))[:3, 3] for end in (self.start, self.end)]
        return replace(self, start=ends[0], end=ends[1], body=body, name=name)


def _turned_to(vector: Array) -> Array:
    """A rotation whose third column points along a vector, (3, 3)."""
    size = float(np.sqrt((vector * vector).sum()))
    if size == 0.0:
        return np.eye(3)
    x, y, z = (float(each) / size for each in vector)
    # [D17] T. Duff et al., "Building an orthonormal basis, revisited", Journal of Computer Graphics Techniques 6, 2017
    s = math.copysign(1.0, z)
    a = -1.0 / (s + z)
    b = x * y * a
    return np.array([[1.0 + s * x * x * a, b, x], [s * b, s + y * y * a, y], [-s * x, -y, z]])


class _Posed(SolidShape):
    """A shape with a pose of its own."""

    def _place(self) -> None:
        self.__dict__.update(placement=frozen(checked_placement(self.placement, f"{self.kind} {self.name!r}"), (4, 4)))


@dataclass(frozen=True, eq=False, repr=False)
class Box(_Posed):
    """A box, with rounded edges if there is a rounding.

    Attributes:
        size: Edges along its axes, (3,) [m], rounding included.
        placement: Pose of its centre in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
        rounding: Radius of its edges, at most half the shortest edge [m].
    """

    kind: ClassVar[str] = "box"
    name: str
    size: Any
    placement: Any = None
    rounding: float = 0.0
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check()
        what = f"box {self.name!r}"
        size = _three(what, "size", self.size)
        if not (size > 0.0).all():
            raise ModelError(f"{what}: size={self.size!r} has an edge that is not positive")
        rounding = _number(self.rounding)
        if not 0.0 <= rounding <= 0.5 * size.min():
            raise ModelError(f"{what}: rounding={self.rounding!r} is not between 0 and half its shortest edge")
        self.__dict__.update(size=size, rounding=rounding)
        self._place()

    @property
    def half(self) -> tuple[float, float, float]:
        """Half edges without the rounding [m]."""
        x, y, z = (0.5 * self.size - self.rounding).tolist()
        return x, y, z

    @property
    def around(self) -> float:
        """The rounding [m]."""
        return self.rounding


@dataclass(frozen=True, eq=False, repr=False)
class Cylinder(_Posed):
    """A cylinder along the z axis of its pose.

    Attributes:
        radius: [m].
        length: [m].
        placement: Pose of its centre in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
    """

    kind: ClassVar[str] = "cylinder"
    name: str
    radius: float
    length: float
    placement: Any = None
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check(radius=self.radius, length=self.length)
        self._place()

    @property
    def half(self) -> tuple[float, float, float]:
        """(radius, radius, half length) [m]."""
        return self.radius, self.radius, 0.5 * self.length

    @property
    def around(self) -> float:
        """Zero."""
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Ellipsoid(_Posed):
    """An ellipsoid.

    Attributes:
        semi_axes: Along the axes of its pose, (3,) [m].
        placement: Pose of its centre in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
    """

    kind: ClassVar[str] = "ellipsoid"
    name: str
    semi_axes: Any
    placement: Any = None
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check()
        what = f"ellipsoid {self.name!r}"
        semi_axes = _three(what, "semi_axes", self.semi_axes)
        if not (semi_axes > 0.0).all():
            raise ModelError(f"{what}: semi_axes={self.semi_axes!r} are not all positive")
        self.__dict__.update(semi_axes=semi_axes)
        self._place()

    @property
    def half(self) -> tuple[float, float, float]:
        """The semi-axes [m]."""
        x, y, z = self.semi_axes.tolist()
        return x, y, z

    @property
    def around(self) -> float:
        """Zero."""
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Hull(_Posed):
    """The convex hull of a mesh file, or of points. The file is opened when it is needed.

    Attributes:
        file: As the robot's file names it, or a path; empty if there are points.
        scale: Along the axes of the mesh, (3,); negative numbers mirror it.
        placement: Pose of the mesh in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
        points: The points, (n, 3) [m], which are scaled, too; None if there is a file.
        directories: Where the file may lie: the directory of the robot's file, or "", and then those that contain
            packages. None allows any path.
    """

    kind: ClassVar[str] = "hull"
    name: str
    file: str = ""
    scale: Any = (1.0, 1.0, 1.0)
    placement: Any = None
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None
    points: Any = None
    directories: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._check()
        what = f"hull {self.name!r}"
        if not isinstance(self.file, (str, os.PathLike)) or bool(os.fspath(self.file)) == (self.points is not None):
            raise ModelError(f"{what} takes either a file or points")
        self.__dict__.update(file=os.fspath(self.file), scale=_three(what, "scale", self.scale))
        if self.points is not None:
            self.__dict__.update(points=_points(what, self.points))
        self._place()

    @property
    def path(self) -> Path:
        """Where its file is. Does not open it.

        Raises:
            LoadError: If it is not there, or may not be read.
        """
        return roots_of(self.file, self.directories)[1]

    @property
    def mesh(self) -> Mesh:
        """Its surface in the axes of its pose: vertices, (n, 3) [m], and triangles. Opens the file.

        Raises:
            LoadError: If the file cannot be read, or has no volume.
            ModelError: If the points have no volume.
            UnsupportedError: If SciPy is not installed.
        """
        try:
            if self.points is not None:
                return convex_hull(self.points * self.scale)
            return hull_of_file(self.file, self.directories, self.scale)
        except LoadError as error:
            raise LoadError(f"{error.problem} (the mesh of shape {self.name!r})", error.file) from None
        except ModelError as error:
            raise ModelError(f"hull {self.name!r}: {error}") from None

    @property
    def vertices(self) -> Array:
        """Its vertices in the axes of its pose, (n, 3) [m]. Opens the file, as `mesh`."""
        return self.mesh.vertices


@dataclass(frozen=True, eq=False, repr=False)
class Plane(_Posed):
    """The half-space below a plane: that of its pose's x and y axes, with z pointing out of the ground.

    Attributes:
        placement: Pose in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
    """

    kind: ClassVar[str] = "plane"
    name: str = "plane"
    placement: Any = None
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check()
        self._place()

    @property
    def half(self) -> tuple[float, float, float]:
        """Zeros."""
        return 0.0, 0.0, 0.0

    @property
    def around(self) -> float:
        """Zero."""
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class HeightField(_Posed):
    """Ground with a height over each point of a rectangle, interpolated between the points of a grid.

    Attributes:
        heights: Above the plane of its pose, (rows along y, columns along x) [m].
        size: Lengths along x and y; the rectangle has its centre in the origin of its pose [m].
        placement: Pose in the frame that carries it: a 4×4 array, a pair (R, p) [m], or None.
    """

    kind: ClassVar[str] = "height field"
    heights: Any
    size: Any
    placement: Any = None
    name: str = "height field"
    body: str | None = None
    friction: float | None = None
    source: str = "given"
    masks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._check()
        what = f"height field {self.name!r}"
        try:
            heights, size = np.asarray(self.heights, dtype=float), np.asarray(self.size, dtype=float)
        except (TypeError, ValueError):
            heights = size = np.zeros(0)
        if heights.ndim != 2 or min(heights.shape) < 2 or not (np.abs(heights) <= _HUGE).all():
            raise ModelError(f"{what}: heights are a matrix of finite numbers, two rows and columns at least")
        if size.shape != (2,) or not ((size > 0.0) & (size <= _HUGE)).all():
            raise ModelError(f"{what}: size={self.size!r} is not two positive lengths, along x and y")
        self.__dict__.update(heights=frozen(heights, heights.shape), size=frozen(size, (2,)))
        self._place()


class Scene:
    """Shapes that do not move, around robots.

    Args:
        shapes: The shapes; each keeps its name.

    Raises:
        ModelError: If a name occurs twice, or a shape belongs to a robot.
    """

    def __init__(self, shapes: Iterable[SolidShape] = ()) -> None:
        found: dict[str, SolidShape] = {}
        if not isinstance(shapes, Iterable):
            raise ModelError(f"a scene consists of a list of shapes, got {shapes!r}")
        for shape in shapes:
            if not isinstance(shape, SolidShape):
                raise ModelError(f"a scene consists of shapes, got {shape!r}")
            if shape.body not in (None, WORLD_NAME):
                raise ModelError(f"shape {shape.name!r} belongs to {shape.body!r}; shapes of a scene have no body")
            if shape.name in found:
                raise ModelError(f"two shapes of the scene are called {shape.name!r}; rename one")
            found[shape.name] = shape.renamed(shape.name, WORLD_NAME)
        #: The shapes, on the world.
        self.shapes = tuple(found.values())

    def __repr__(self) -> str:
        return f"Scene([{', '.join(map(repr, self.shapes))}])"


def surroundings(scene: Any) -> tuple[SolidShape, ...]:
    """The shapes of a scene that a user gives, or none."""
    if scene is None:
        return ()
    if not isinstance(scene, Scene):
        raise InputError(f"scene is a kinetree.Scene, got {type(scene).__name__}: pass kt.Scene([shapes])")
    return scene.shapes


def named(shapes: Iterable[SolidShape], taken: Iterable[str] = ()) -> list[SolidShape]:
    """Shapes with unique names on the bodies that they name: "hand", "hand_1", …; checks their types."""
    if not isinstance(shapes, Iterable):
        raise ModelError(f"shapes are a list of such as geometry.Sphere('hand', (0, 0, 0), 0.1); got {shapes!r}")
    used, found = set(taken), []
    for shape in shapes:
        if not isinstance(shape, SolidShape):
            raise ModelError(f"a shape is such as geometry.Sphere('hand', (0, 0, 0), 0.1); got {shape!r}")
        name, number = shape.name, 0
        while name in used:
            number += 1
            name = f"{shape.name}_{number}"
        used.add(name)
        found.append(shape.renamed(name, shape.name if shape.body is None else shape.body))
    return found
