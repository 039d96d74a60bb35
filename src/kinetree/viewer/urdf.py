"""Visuals of a URDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kinetree.errors import LoadError
from kinetree.loading.diagnostics import Diagnostics
from kinetree.loading.document import Document, Element
from kinetree.loading.poses import origin
from kinetree.loading.source import Source
from kinetree.model.specs import matrix_of_pose
from kinetree.spatial.value import Array
from kinetree.viewer import geometry, meshes
from kinetree.viewer.geometry import Color, Mesh, Visual

# Larger shapes [m], or scales, are implausible for a robot.
_LARGEST = 1e4

_Parts = list[Mesh]


def urdf_visuals(source: Source, roots: meshes.Roots, diagnostics: Diagnostics) -> Iterator[Visual]:
    """The visuals of the links of a file; meshes are read on demand.

    Args:
        source: The URDF source.
        roots: Directories from which meshes may be read.
        diagnostics: Collects what cannot be drawn.
    """
    document = Document(source, Diagnostics(source.file), _ATTRIBUTES)
    loaded: dict[str, _Parts | LoadError] = {}

    def mesh(name: str) -> _Parts:
        if name not in loaded:
            try:
                loaded[name] = meshes.load(name, roots)
            except LoadError as error:
                loaded[name] = error
        found = loaded[name]
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
    for part in _SHAPES[shapes[0].tag](document, shapes[0], mesh):
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


def _box(document: Document, element: Element, _mesh: Callable[[str], _Parts]) -> _Parts:
    return [geometry.box(_lengths(document, element, "size", 3))]


def _cylinder(document: Document, element: Element, _mesh: Callable[[str], _Parts]) -> _Parts:
    radius, length = (_lengths(document, element, name, 1)[0] for name in ("radius", "length"))
    return [geometry.cylinder(radius, length)]


def _capsule(document: Document, element: Element, _mesh: Callable[[str], _Parts]) -> _Parts:
    radius, length = (_lengths(document, element, name, 1)[0] for name in ("radius", "length"))
    end = np.array([0.0, 0.0, length / 2.0])
    return [geometry.capsule(-end, end, radius)]


def _sphere(document: Document, element: Element, _mesh: Callable[[str], _Parts]) -> _Parts:
    (radius,) = _lengths(document, element, "radius", 1)
    return [geometry.ellipsoid((radius, radius, radius))]


def _mesh(document: Document, element: Element, mesh: Callable[[str], _Parts]) -> _Parts:
    scale = np.array(document.vector(element, "scale", (1.0, 1.0, 1.0)))
    if not (np.all(scale != 0.0) and np.all(np.abs(scale) <= _LARGEST)):
        raise document.error(element, f"scale={element.get('scale')[:40]!r} of <mesh> is zero, or above {_LARGEST:g}")
    return [scaled(part, scale) for part in mesh(document.text(element, "filename"))]


def scaled(part: Mesh, scale: Array) -> Mesh:
    """A mesh scaled along the axes; the faces of a mirrored mesh still point outwards."""
    faces = part.faces if np.prod(scale) > 0.0 else part.faces[:, ::-1]
    return Mesh(part.vertices * scale, faces, part.color, part.smooth)


_SHAPES = {"mesh": _mesh, "box": _box, "cylinder": _cylinder, "sphere": _sphere, "capsule": _capsule}

_ATTRIBUTES = {"origin": frozenset(("xyz", "rpy", "quat_xyzw"))}
