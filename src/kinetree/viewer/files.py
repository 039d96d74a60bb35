"""Visuals of robots, shapes fixed to bodies: from URDF and MJCF files, or made from the bodies themselves.

MJCF is compiled by MuJoCo. Bodies without visuals get capsules along their links, or boxes of equal inertia.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, KinetreeError, LoadError, ModelWarning
from kinetree.interop.mujoco_models import Names
from kinetree.io.document import Document, Element
from kinetree.io.mjcf_convert import compiled
from kinetree.io.mjcf_file import Directory
from kinetree.io.mjcf_reduce import Reduction
from kinetree.io.options import Diagnostics
from kinetree.io.origins import origin
from kinetree.io.source import Source, usd_file
from kinetree.model import mesh_formats, meshes
from kinetree.model.body import Body
from kinetree.model.mesh_formats import Color, Mesh, Visual
from kinetree.model.meshes import Roots
from kinetree.model.model import Model
from kinetree.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Hull, Plane, SolidShape, Sphere
from kinetree.model.specs import matrix_of_pose
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

# Groups that MuJoCo's viewer shows by default; the others hold collision geometry.
_SHOWN = (0, 1, 2)

# Size at which infinite planes are drawn [m].
_HORIZON = 5.0

# How far planes are drawn to each side, and how far below the grid of the floor, relative to the robot's size.
_AROUND, _BELOW = 2.5, 2e-3

# Colour of a geom without material or colour.
_UNPAINTED = (0.5, 0.5, 0.5, 1.0)


def mjcf_visuals(
    source: Source, diagnostics: Diagnostics, package_roots: Sequence[str | os.PathLike[str]] = ()
) -> list[Visual]:
    """The visuals of the bodies of an MJCF file."""
    reduction = Reduction(source, Directory(source, None, package_roots), diagnostics, looks=True)
    # MuJoCo's warnings were already reported when the robot itself was loaded
    return visuals_of(compiled(reduction, Diagnostics(source.file)), diagnostics)


def visuals_of(model: Any, diagnostics: Diagnostics) -> list[Visual]:
    """The visuals of the bodies of a `mujoco.MjModel`."""
    names = Names(model)
    visuals: list[Visual] = []
    for geom in range(model.ngeom):
        body = names.bodies[model.geom_bodyid[geom]]
        rgba = model.geom_rgba[geom]
        if model.geom_matid[geom] >= 0 and np.allclose(rgba, _UNPAINTED):
            rgba = model.mat_rgba[model.geom_matid[geom]]
        if model.geom_group[geom] not in _SHOWN or rgba[3] == 0.0:
            continue
        mesh = _geom(model, geom)
        if mesh is None:
            diagnostics.add("geoms that cannot be drawn", f"height field or SDF of body {body!r}")
            continue
        placement = pose(matrix_of(np.array(model.geom_quat[geom])), np.array(model.geom_pos[geom]))
        red, green, blue, opacity = (float(x) for x in rgba)
        visuals.append(Visual(body, placement, mesh, (red, green, blue, opacity)))
    return visuals


def _geom(model: Any, geom: int) -> Mesh | None:
    """The shape of a geom; None for height fields and SDFs."""
    x, y, z = (float(size) for size in model.geom_size[geom])
    match int(model.geom_type[geom]):  # `mujoco.mjtGeom`
        case 0:
            width, depth = (2.0 * half if half > 0.0 else _HORIZON for half in (x, y))
            return mesh_formats.box((width, depth, 1e-3))
        case 2:
            return mesh_formats.ellipsoid((x, x, x))
        case 3:
            return _upright_capsule(x, 2.0 * y)
        case 4:
            return mesh_formats.ellipsoid((x, y, z))
        case 5:
            return mesh_formats.cylinder(x, 2.0 * y)
        case 6:
            return mesh_formats.box((2.0 * x, 2.0 * y, 2.0 * z))
        case 7:
            mesh = model.geom_dataid[geom]
            vertices = slice(model.mesh_vertadr[mesh], model.mesh_vertadr[mesh] + model.mesh_vertnum[mesh])
            faces = slice(model.mesh_faceadr[mesh], model.mesh_faceadr[mesh] + model.mesh_facenum[mesh])
            return Mesh(np.array(model.mesh_vert[vertices], dtype=float), np.array(model.mesh_face[faces]))
    return None


def _upright_capsule(radius: float, length: float) -> Mesh:
    end: Array = np.array([0.0, 0.0, length / 2.0])
    return mesh_formats.capsule(-end, end, radius)


def solid(shape: SolidShape, scale: float) -> Mesh:
    """A collision shape as a mesh in its own axes. Planes are drawn as far as a robot of the size `scale` [m] needs.

    Raises:
        KinetreeError: If it is a hull that cannot be computed.
    """
    if isinstance(shape, Hull):
        return shape.mesh
    if isinstance(shape, Plane):
        x, y = np.meshgrid(*2 * [_AROUND * scale * np.array([-1.0, 1.0])])
        return _sheet(x, y, np.full((2, 2), -_BELOW * scale))
    if isinstance(shape, HeightField):
        x, y = np.meshgrid(*(np.linspace(-0.5, 0.5, n) * a for n, a in zip(shape.heights.shape[::-1], shape.size)))
        return _sheet(x, y, shape.heights)
    if isinstance(shape, Sphere):
        return mesh_formats.ellipsoid((shape.radius,) * 3)
    if isinstance(shape, Capsule):
        return _upright_capsule(shape.radius, 2.0 * shape.half[2])
    if isinstance(shape, Cylinder):
        return mesh_formats.cylinder(shape.radius, shape.length)
    if isinstance(shape, Box):
        return mesh_formats.box(tuple(shape.size))
    if isinstance(shape, Ellipsoid):
        return mesh_formats.ellipsoid(tuple(shape.semi_axes))
    raise AssertionError(shape)


def _sheet(x: Array, y: Array, z: Array) -> Mesh:
    """A grid of points, each array (rows, columns), with two triangles in each cell, as height fields have them."""
    number = np.arange(x.size).reshape(x.shape)
    a, b, c, d = (each.ravel() for each in (number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]))
    faces = np.concatenate([np.stack([a, b, c], axis=-1), np.stack([a, c, d], axis=-1)])
    return Mesh(np.stack([x.ravel(), y.ravel(), z.ravel()], axis=-1), faces)


# Radius of capsules relative to their length, and its bounds relative to the robot's size.
_THICKNESS, _THINNEST, _THICKEST = 0.12, 0.01, 0.03

# Links shorter than this, relative to the robot's size, are drawn as their joint only.
_SHORT = 0.01

#: Muted colours, one for each branch.
PALETTE: tuple[Color, ...] = (
    (0.45, 0.47, 0.50, 1.0),
    (0.26, 0.45, 0.65, 1.0),
    (0.79, 0.42, 0.24, 1.0),
    (0.34, 0.58, 0.34, 1.0),
    (0.59, 0.35, 0.63, 1.0),
    (0.71, 0.59, 0.24, 1.0),
)


def size(robot: Model, poses: Array) -> float:
    """Size of the robot: the longest edge of the bounding box of all its frames [m]."""
    points = poses[:, :3, 3]
    extent = float(np.max(np.ptp(points, axis=0), initial=0.0))
    reach = max((float(np.linalg.norm(body.com)) for body in robot.bodies), default=0.0)
    largest = max(extent, 2.0 * reach)
    return largest if 0.0 < largest < np.inf else 1.0


def capsules(robot: Model, scale: float) -> dict[str, list[Mesh]]:
    """Capsules from each body's joint to what it carries, in its link frame; `scale` is the robot's size [m].

    Free objects look like their collision shapes, or are boxes.
    """
    ends: dict[str, list[Array]] = {body.name: [] for body in robot.bodies}
    for body in robot.bodies:
        if body.parent in ends:
            ends[body.parent].append(robot.joint(body.joint).placement[:3, 3])
    for frame in robot.extra_frames:
        if frame.body in ends:
            ends[frame.body].append(frame.placement[:3, 3])
    found = {}
    for body in robot.bodies:
        alone = robot.joint(body.joint).kind == "floating" and not ends[body.name]
        block = inertia_block(body) if alone else None
        found[body.name] = _links(body, ends[body.name], scale) if block is None else [block]
    return found | objects(robot, scale)


def objects(robot: Model, scale: float) -> dict[str, list[Mesh]]:
    """The collision shapes of free objects that have any, in their link frames."""
    parents = {body.parent for body in robot.bodies}
    free = {body.name for body in robot.bodies if robot.joint(body.joint).kind == "floating"} - parents
    found: dict[str, list[Mesh]] = {}
    for shape, name, at in placed_shapes(robot):
        if name in free:
            try:
                mesh = solid(shape, scale)
            except KinetreeError:  # said where shapes are shown
                continue
            mesh = Mesh(mesh.vertices @ at[:3, :3].T + at[:3, 3], mesh.faces, smooth=mesh.smooth)
            found.setdefault(name, []).append(mesh)
    return found


def placed_shapes(robot: Model) -> Iterator[tuple[SolidShape, str, Array]]:
    """The collision shapes, each with the name of its body, or "world", and its pose there, (4, 4)."""
    frames = {frame.name: frame for frame in robot.extra_frames}
    for shape in robot.shapes:
        body, at = str(shape.body), shape.pose
        if body in frames:
            body, at = frames[body].body, frames[body].placement @ at
        yield shape, body, at


def _links(body: Body, ends: list[Array], scale: float) -> list[Mesh]:
    far = [end for end in ends if np.linalg.norm(end) > _SHORT * scale]
    if not far and np.linalg.norm(body.com) > _SHORT * scale:
        far = [2.0 * body.com]  # as if it were a rod
    if not far:
        radius = _THINNEST * scale
        return [mesh_formats.ellipsoid((radius, radius, radius))] if ends or body.mass else []
    radii = [np.clip(_THICKNESS * np.linalg.norm(end), _THINNEST * scale, _THICKEST * scale) for end in far]
    return [mesh_formats.capsule(np.zeros(3), end, float(radius)) for end, radius in zip(far, radii)]


def branch_colors(robot: Model) -> dict[str, Color]:
    """A colour for each body; it changes where the tree branches."""
    children: dict[str, int] = {}
    for body in robot.bodies:
        children[body.parent] = children.get(body.parent, 0) + 1
    colors: dict[str, Color] = {}
    used = 0
    for body in robot.bodies:
        if children[body.parent] > 1 or body.parent not in colors:
            colors[body.name] = PALETTE[used % len(PALETTE)]
            used += 1
        else:
            colors[body.name] = colors[body.parent]
    return colors


def inertia_block(body: Body) -> Mesh | None:
    """The homogeneous box with the body's mass and inertia, in its link frame; None if `inertia_ellipsoid` is."""
    found = inertia_ellipsoid(body)
    if found is None:
        return None
    axes, semi_axes = found
    # ∫x² of a box with half edge a is a²/3, of an ellipsoid with semi-axis b it is b²/5, both times the mass
    block = mesh_formats.box(tuple(2.0 * np.sqrt(0.6) * semi_axes))
    return Mesh(block.vertices @ axes.T + body.com, block.faces, smooth=block.smooth)


def inertia_ellipsoid(body: Body) -> tuple[Array, Array] | None:
    """Axes as columns, (3, 3), and semi-axes, (3,) [m], of the homogeneous ellipsoid with a body's mass and inertia.

    None for a massless body or a physically inconsistent inertia.
    """
    if not body.mass > 0.0:
        return None
    moments, axes = np.linalg.eigh(body.inertia)
    squares = 2.5 / body.mass * (moments.sum() - 2.0 * moments)
    if not np.all(np.isfinite(squares)) or squares.min() < -1e-9 * max(squares.max(), 1e-12):
        return None
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    # flat ellipsoids get semi-axes of at least a millimetre
    return axes, np.maximum(np.sqrt(np.maximum(squares, 0.0)), 1e-3)


# Larger shapes [m], or scales, are implausible for a robot.
_LARGEST = 1e4

_Parts = list[Mesh]


def urdf_visuals(source: Source, roots: meshes.Roots, diagnostics: Diagnostics) -> Iterator[Visual]:
    """The visuals of the links of a URDF; meshes are read on demand."""
    document = Document(source, Diagnostics(source.file), _ATTRIBUTES)
    loaded: dict[str, _Parts | LoadError] = {}

    def mesh(name: str) -> _Parts:
        try:
            found = loaded[name] = loaded.get(name) or meshes.load(name, roots)
        except LoadError as error:
            found = loaded[name] = error
        if isinstance(found, LoadError):
            raise found
        return found

    named = {
        material.get("name"): color
        for material in document.root.iter("material")
        if (color := _color(document, material)) is not None
    }

    def drawn(link: str, element: Element) -> list[Visual]:
        try:
            return list(_visual(document, link, element, named, mesh))
        except LoadError as error:
            what = f"link {link[:60]!r}" if error.file == document.file else error.file
            diagnostics.add(f"not drawn, {error.problem}", what, element.sourceline)
            return []

    return (
        visual
        for link in document.root.findall("link")
        for element in link.findall("visual")
        for visual in drawn(link.get("name") or "", element)
    )


def _visual(
    document: Document,
    link: str,
    element: Element,
    named: dict[str, Color],
    mesh: Callable[[str], _Parts],
) -> Iterator[Visual]:
    """One visual, in as many parts as its mesh has."""
    placement = matrix_of_pose(origin(document, element.find("origin")))
    shapes = element.findall("geometry/*")
    if len(shapes) != 1 or shapes[0].tag not in _SHAPES:
        told = ", ".join(f"<{shape.tag[:40]}>" for shape in shapes) or "nothing"
        raise document.error(element, f"<geometry> holds {told}; write one of {', '.join(_SHAPES)}")
    material = element.find("material")
    color = None if material is None else _color(document, material) or named.get(material.get("name"))
    for part in _parts(document, shapes[0], mesh):
        yield Visual(link, placement, part, color or part.color)


def _color(document: Document, material: Element) -> Color | None:
    """The colour of a material; None if it is missing or malformed."""
    element = material.find("color")
    if element is None:
        return None
    try:
        red, green, blue, opacity = (
            min(max(x, 0.0), 1.0) for x in document.vector(element, "rgba", (0.7, 0.7, 0.7, 1.0))
        )
    except LoadError:
        return None
    return red, green, blue, opacity


def _lengths(document: Document, element: Element, name: str, count: int) -> tuple[float, ...]:
    document.text(element, name)
    values = document.vector(element, name, (1.0,) * count)
    if not all(0.0 < x <= _LARGEST for x in values):
        raise document.error(
            element, f"{name}={element.get(name)[:40]!r} of <{element.tag}> is not positive, or above {_LARGEST:g}"
        )
    return values


def _parts(document: Document, element: Element, mesh: Callable[[str], _Parts]) -> _Parts:
    """The shape of a visual, in as many parts as its mesh has."""

    def length(name: str) -> float:
        return _lengths(document, element, name, 1)[0]

    match element.tag:
        case "box":
            return [mesh_formats.box(_lengths(document, element, "size", 3))]
        case "cylinder":
            return [mesh_formats.cylinder(length("radius"), length("length"))]
        case "capsule":
            return [_upright_capsule(length("radius"), length("length"))]
        case "sphere":
            return [mesh_formats.ellipsoid((length("radius"),) * 3)]
    scale = np.array(document.vector(element, "scale", (1.0, 1.0, 1.0)))
    if not (np.all(scale != 0.0) and np.all(np.abs(scale) <= _LARGEST)):
        raise document.error(element, f"scale={element.get('scale')[:40]!r} of <mesh> is zero, or above {_LARGEST:g}")
    return [scaled(part, scale) for part in mesh(document.text(element, "filename"))]


def scaled(part: Mesh, scale: Array) -> Mesh:
    """A mesh scaled along the axes; the faces of a mirrored mesh still point outwards."""
    faces = part.faces if np.prod(scale) > 0.0 else part.faces[:, ::-1]
    return Mesh(part.vertices * scale, faces, part.color, part.smooth)


_SHAPES = ("mesh", "box", "cylinder", "sphere", "capsule")
_ATTRIBUTES = {"origin": frozenset(("xyz", "rpy", "quat_xyzw"))}


#: Most triangles, in total, sent to a browser.
MOST_FACES = 4_000_000


def own_or_given(robot: Model, visuals: Any, package_roots: Sequence[str | os.PathLike[str]]) -> list[Visual]:
    """The visuals of a file, by default of the one that the robot was loaded from; none for False."""
    if visuals is not None:
        return [] if visuals is False else read(visuals, package_roots)
    try:
        return [] if robot.source is None else read(robot.source, package_roots)
    except LoadError as error:  # it is gone, or of a format whose visuals are not read
        warnings.warn(f"bodies are drawn as capsules along their links: {error}", ModelWarning, stacklevel=3)
        return []


def read(source: Any, package_roots: Sequence[str | os.PathLike[str]] = ()) -> list[Visual]:
    """The visuals of a URDF or MJCF file, given as for `kinetree.load`.

    Shapes that cannot be drawn are omitted and reported in a `ModelWarning`, with file, line and reason.
    """
    if isinstance(package_roots, (str, os.PathLike)):
        raise InputError(f"package_roots={os.fspath(package_roots)!r} is one directory; pass a list of them")
    stage = usd_file(source)
    if stage is not None:
        raise LoadError("visuals are read from URDF and MJCF, not from USD", str(stage))
    text = Source.of(source)
    roots = Roots(package_roots, None if text.path is None else text.path.absolute().parent)
    diagnostics = Diagnostics(text.file, listed=2)
    kind = text.root.rpartition(":")[2]
    if kind == "robot":
        found: Iterable[Visual] = urdf_visuals(text, roots, diagnostics)
    elif kind in ("mujoco", "mujocoinclude"):
        found = mjcf_visuals(text, diagnostics, package_roots)
    else:
        raise LoadError(f"visuals are read from URDF and MJCF, not from <{kind[:60]}>", text.file)
    kept: list[Visual] = []
    faces = 0
    for visual in found:
        faces += len(visual.mesh.faces)
        if faces > MOST_FACES:
            problem = f"more than {MOST_FACES} triangles in all; nothing more is read or drawn, from here on"
            diagnostics.add(problem, repr(visual.body))
            break
        kept.append(visual)
    diagnostics.warn(stacklevel=4)
    return kept
