"""Collision shapes of URDF, SDF and USD files: what `<collision>` says is noted, and no mesh file is opened.

A shape that cannot be read is reported and left out: the dynamics do not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kinetree.errors import LoadError
from kinetree.io.document import Document, Element
from kinetree.io.origins import origin
from kinetree.io.source import clipped
from kinetree.model.body import frozen_tables
from kinetree.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Hull, Plane, SolidShape, Sphere
from kinetree.model.specs import Pose
from kinetree.spatial.value import Array

#: More shapes than this are left out, with a warning.
MOST = 20_000
#: The heading of what is reported.
UNREADABLE = "collision shapes that cannot be read, left out"


class ShapeSpec(NamedTuple):
    """A shape of a link, as plain numbers."""

    name: str
    link: str
    placement: Pose
    kind: str
    numbers: tuple[float, ...] = ()  # lengths, or the scale of a mesh
    file: str = ""
    points: Array | None = None  # of a mesh that is part of the robot's file, frozen


Reader = Callable[[Document, Element, str], ShapeSpec | None]


def read_shapes(
    document: Document, link: Element, name: str, tag: str | None, reader: Reader, found: list[ShapeSpec]
) -> None:
    """Add the shapes of a link to a list, those in elements with this tag."""
    if tag is None:
        return
    for element in link.iterchildren(tag):
        if len(found) >= MOST:
            document.diagnostics.add("collision shapes, left out", f"more than {MOST}", element.sourceline)
            return
        try:
            shape = reader(document, element, name)
        except LoadError as error:
            shape = None
            document.diagnostics.add(UNREADABLE, error.problem, error.line)
        if shape is not None:
            found.append(shape)


def urdf_shape(document: Document, element: Element, link: str) -> ShapeSpec | None:
    """A <collision> of a URDF; None if it is empty."""
    inside = {child.tag: child for child in element[::-1]}  # the first of each tag
    geometry = inside.get("geometry")
    if geometry is None or not len(geometry):
        return None
    shape, at = geometry[0], origin(document, inside.get("origin"))
    name, tag = element.get("name") or link, shape.tag
    if tag == "mesh":
        scale = document.vector(shape, "scale", (1.0, 1.0, 1.0))
        return ShapeSpec(name, link, at, "hull", scale, document.text(shape, "filename"))
    if tag == "box":
        return ShapeSpec(name, link, at, tag, _positive(document, shape, document.vector(shape, "size", (0.0,) * 3)))
    lengths = {"sphere": ("radius",), "cylinder": ("radius", "length"), "capsule": ("radius", "length")}
    if tag not in lengths:
        raise document.error(shape, f"<{tag[:60]}> of link {clipped(link)} is not a shape of URDF; write one")
    sizes = tuple(document.number(shape, length) for length in lengths[tag])
    return ShapeSpec(name, link, at, tag, _positive(document, shape, sizes))


def sdf_shape(pose: Callable[[Document, Element, str], Pose]) -> Reader:
    """Reads a <collision> of an SDF file, given what finds its pose in its link."""

    def read(document: Document, element: Element, link: str) -> ShapeSpec | None:
        shapes = [shape for geometry in element.iterchildren("geometry") for shape in geometry]
        if not shapes or shapes[0].tag == "empty":
            return None
        shape, at = shapes[0], pose(document, element, link)
        name, tag = element.get("name") or link, shape.tag
        inside = {child.tag: child for child in shape}
        if tag == "mesh":
            if "submesh" in inside:
                raise document.error(
                    inside["submesh"],
                    f"a part, <submesh>, of the mesh of link {clipped(link)} is not read; give it a file of its own",
                )
            scale = document.numbers_inside(inside["scale"], 3) if "scale" in inside else (1.0, 1.0, 1.0)
            file = (inside["uri"].text or "").strip() if "uri" in inside else ""
            return ShapeSpec(name, link, at, "hull", scale, file)
        if tag == "plane":
            normal = document.numbers_inside(inside["normal"], 3) if "normal" in inside else (0.0, 0.0, 1.0)
            if normal[:2] != (0.0, 0.0) or normal[2] <= 0.0:
                raise document.error(shape, "a <plane> whose normal is not 0 0 1 is not read; turn it by its <pose>")
            return ShapeSpec(name, link, at, tag)
        counts = {
            "box": {"size": 3},
            "ellipsoid": {"radii": 3},
            "sphere": {"radius": 1},
            "cylinder": {"radius": 1, "length": 1},
            "capsule": {"radius": 1, "length": 1},
        }
        if tag not in counts:
            raise document.error(shape, f"<{tag[:60]}> of link {clipped(link)} is not a shape that Kinetree reads")
        missing = [key for key in counts[tag] if key not in inside]
        if missing:
            raise document.error(shape, f"<{tag}> of link {clipped(link)} has no <{missing[0]}>; add it")
        sizes = [x for key, count in counts[tag].items() for x in document.numbers_inside(inside[key], count)]
        return ShapeSpec(name, link, at, tag, _positive(document, shape, tuple(sizes)))

    return read


def _positive(document: Document, shape: Element, sizes: tuple[float, ...]) -> tuple[float, ...]:
    if not all(size > 0.0 for size in sizes):
        raise document.error(shape, f"a size of <{shape.tag}> is not positive; correct it")
    return sizes


def made_shapes(
    specs: Iterable[ShapeSpec], bodies: Mapping[str, str], directories: tuple[str, ...]
) -> list[SolidShape]:
    """The shapes of a model, of checked numbers.

    Args:
        specs: The shapes of all links.
        bodies: The body of each link that is part of the model; links that are not have no shapes.
        directories: Where meshes may lie, as `Hull` takes them.
    """
    specs = [spec for spec in specs if spec.link in bodies]
    used: set[str] = set()
    found: list[SolidShape] = []
    poses, vectors = frozen_tables(
        ([(*spec.placement, 0.0, 0.0, 0.0, 1.0) for spec in specs], (4, 4)),
        ([(*spec.numbers, 0.0, 0.0, 0.0)[:3] for spec in specs], (3,)),
    )
    for spec, placement, vector in zip(specs, poses, vectors, strict=True):
        name, number = spec.name, 0
        while name in used:
            number += 1
            name = f"{spec.name}_{number}"
        used.add(name)
        found.append(_made(spec, name, bodies[spec.link], placement, vector, directories))
    return found


def _made(
    spec: ShapeSpec, name: str, body: str, placement: Array, vector: Array, directories: tuple[str, ...]
) -> SolidShape:
    shared = {"name": name, "body": body, "friction": None, "source": "file", "masks": None}
    if spec.kind == "sphere":
        return Sphere(center=placement[:3, 3], radius=spec.numbers[0], **shared)  # type: ignore[arg-type]
    if spec.kind == "capsule":
        along = 0.5 * spec.numbers[1] * placement[:3, 2]
        start, end = placement[:3, 3] - along, placement[:3, 3] + along
        return Capsule(start=start, end=end, radius=spec.numbers[0], **shared)  # type: ignore[arg-type]
    posed = {"placement": placement, **shared}
    if spec.kind == "plane":
        return Plane.trusted(**posed)
    if spec.kind == "cylinder":
        return Cylinder.trusted(radius=spec.numbers[0], length=spec.numbers[1], **posed)
    if spec.kind == "box":
        return Box.trusted(size=vector, rounding=0.0, **posed)
    if spec.kind == "ellipsoid":
        return Ellipsoid.trusted(semi_axes=vector, **posed)
    return Hull.trusted(file=spec.file, scale=vector, points=spec.points, directories=directories, **posed)
