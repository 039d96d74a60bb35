"""Triangle meshes: shapes, and readers of STL, OBJ and COLLADA files. Malformed files raise `LoadError`.

Colours are the diffuse ones of materials; textures are not read. COLLADA's unit is applied, its up axis is not: RViz
ignores it too, and robot meshes are made for RViz.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kinetree.errors import LoadError
from kinetree.spatial.rotation import alignment, exp_matrix
from kinetree.spatial.value import Array

#: Red, green, blue and opacity, each in 0…1.
Color = tuple[float, float, float, float]

# Segments of a full circle.
_AROUND = 24


@dataclass(frozen=True, eq=False)
class Mesh:
    """A triangle mesh."""

    vertices: Array  # (n, 3) [m]
    faces: Array  # three vertices each, counterclockwise seen from outside, (m, 3)
    color: Color | None = None  # colour given in the mesh file; None if there is none
    smooth: bool = False  # whether shading is interpolated across edges; otherwise triangles are shaded flat


@dataclass(frozen=True, eq=False)
class Visual:
    """A shape fixed to a body."""

    body: str  # name of the body, or "world"
    placement: Array  # pose in the body's link frame, (4, 4)
    mesh: Mesh
    color: Color | None  # None leaves the choice to the viewer


def _invalid(form: str, problem: str) -> LoadError:
    return LoadError(f"is not a valid {form} file: {problem}; export it again")


def box(size: tuple[float, ...]) -> Mesh:
    """A box centred at the origin, edges along the axes [m]."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triangle for a, b, c, d in quads for triangle in ((a, b, c), (a, c, d))]
    return Mesh(signs * (np.array(size) / 2.0), np.array(faces))


def cylinder(radius: float, length: float) -> Mesh:
    """A cylinder centred at the origin, its axis along z [m]."""
    half = length / 2.0
    # rims are duplicated, so that the edge between cap and wall stays sharp
    rings = [(-half, 0.0), (-half, radius), (-half, radius), (half, radius), (half, radius), (half, 0.0)]
    return _revolved(rings, skip=(1, 3))


def ellipsoid(semi_axes: tuple[float, ...]) -> Mesh:
    """An ellipsoid centred at the origin [m]; a sphere has three equal semi-axes."""
    angles = np.linspace(0.0, np.pi, _AROUND // 2 + 1)
    rings = [(-np.cos(angle), np.sin(angle)) for angle in angles[:-1]]
    unit = _revolved([*rings, (1.0, 0.0)])
    return Mesh(unit.vertices * np.array(semi_axes), unit.faces, smooth=True)


def capsule(start: Array, end: Array, radius: float) -> Mesh:
    """A cylinder with round ends from one point to another [m]."""
    along = np.asarray(end, dtype=float) - start
    length = float(np.linalg.norm(along))
    angles = np.linspace(0.0, np.pi / 2.0, _AROUND // 4 + 1)
    lower = [(-radius * np.cos(angle), radius * np.sin(angle)) for angle in angles]
    rings = lower + [(length - height, width) for height, width in reversed(lower)]
    mesh = _revolved(rings)
    R = alignment(along / length) if length > 0.0 else np.eye(3)
    return Mesh(mesh.vertices @ R.T + start, mesh.faces, smooth=True)


def _revolved(rings: list[tuple[float, float]], skip: tuple[int, ...] = ()) -> Mesh:
    """Surface through rings of (height, radius) along z, bottom first; `skip` lists those not joined to the next."""
    turn = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
    circle = np.stack([np.cos(turn), np.sin(turn), np.zeros(_AROUND)], axis=-1)
    vertices = np.concatenate([radius * circle + [0.0, 0.0, height] for height, radius in rings])
    here = np.arange(_AROUND)
    there = np.roll(here, -1)
    faces = []
    for ring, (low, high) in enumerate(pairwise(rings)):
        if ring in skip:
            continue
        base, top = _AROUND * ring, _AROUND * (ring + 1)
        if high[1] > 0.0:
            faces.append(np.stack([base + here, top + there, top + here], axis=-1))
        if low[1] > 0.0:
            faces.append(np.stack([base + here, base + there, top + there], axis=-1))
    return Mesh(vertices, np.concatenate(faces), smooth=True)


# More elements would fill memory with small objects; deeper nesting and more copies are implausible for a robot.
_MOST_TAGS, _DEEPEST, _MOST_INSTANCES = 500_000, 64, 5_000

_Element = Any
_Materials = dict[str, str]


def read(data: bytes, _beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The parts of a COLLADA file's scene, one for each set of polygons."""
    parts = list(_File(_parsed(data)).parts())
    if not parts:
        raise LoadError("has no polygons in its scene; export it again")
    return parts


def _parsed(data: bytes) -> _Element:
    from lxml import etree

    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise LoadError("document types and entities are not supported; export it again")
    if data.count(b"<") > _MOST_TAGS:
        raise LoadError(f"has more than {_MOST_TAGS} elements; simplify it")
    # arrays of numbers can exceed the default limit of ten million characters
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        root, problem = None, str(error)[:200]
    if root is None:  # outside the handler, since lxml's error cannot be pickled
        raise _invalid("COLLADA", problem)
    for element in root.iter(etree.Element):
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "COLLADA":
        raise LoadError(f"is not a valid COLLADA file: it starts with <{root.tag[:60]}>")
    return root


class _File:
    """Elements by id, and the meshes that the scene instantiates from them."""

    def __init__(self, root: _Element) -> None:
        self.root = root
        self.by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
        self.instances = 0
        unit = root.find("asset/unit")
        self.unit = _numbers(unit.get("meter") or "1", 1)[0] if unit is not None else 1.0
        if not 0.0 < self.unit < math.inf:
            raise _invalid("COLLADA", "its unit is not a positive length")

    def parts(self) -> Iterator[Mesh]:
        shown = self.root.find("scene/instance_visual_scene")
        scene = (
            self._target(shown, "url") if shown is not None else self.root.find("library_visual_scenes/visual_scene")
        )
        if scene is None:
            return
        scale = np.diag([self.unit, self.unit, self.unit, 1.0])
        for node in scene.findall("node"):
            yield from self._node(node, scale, 0)

    def _target(self, element: _Element, attribute: str) -> _Element | None:
        """The element referenced by an attribute of the form "#id"."""
        return self.by_id.get((element.get(attribute) or "").removeprefix("#"))

    def _node(self, node: _Element, at: Array, depth: int) -> Iterator[Mesh]:
        if depth > _DEEPEST:
            raise _invalid("COLLADA", "its nodes are nested without end")
        for child in node:
            if child.tag in _MOVES:
                at = at @ _move(child.tag, child.text or "")
            elif child.tag == "node":
                yield from self._node(child, at, depth + 1)
            elif child.tag in ("instance_node", "instance_geometry"):
                self.instances += 1
                if self.instances > _MOST_INSTANCES:
                    raise LoadError(f"has more than {_MOST_INSTANCES} parts; simplify it")
                target = self._target(child, "url")
                if target is not None and child.tag == "instance_node":
                    yield from self._node(target, at, depth + 1)
                elif target is not None:
                    bound = child.iter("instance_material")  # ids by the symbols that polygons use
                    materials = {
                        each.get("symbol") or "": (each.get("target") or "").removeprefix("#") for each in bound
                    }
                    yield from self._geometry(target, at, materials)

    def _geometry(self, geometry: _Element, at: Array, materials: _Materials) -> Iterator[Mesh]:
        for polygons in geometry.iterfind("mesh/*"):
            if polygons.tag in _POLYGONS:
                points, faces = self._polygons(polygons)
                if len(faces):
                    used, inverse = np.unique(faces, return_inverse=True)
                    placed = points[used] @ at[:3, :3].T + at[:3, 3]
                    symbol = polygons.get("material") or ""
                    yield Mesh(placed, inverse.reshape(-1, 3), self._color(materials.get(symbol, symbol)))

    def _polygons(self, polygons: _Element) -> tuple[Array, Array]:
        """Points, (n, 3), and triangles as indices of points, (m, 3)."""
        inputs = {one.get("semantic"): one for one in polygons.findall("input")}
        vertex = inputs.get("VERTEX")
        vertices = None if vertex is None else self._target(vertex, "source")
        position = None if vertices is None else vertices.find("input[@semantic='POSITION']")
        source = None if position is None else self._target(position, "source")
        array = None if source is None else source.find("float_array")
        if array is None or vertex is None:
            raise _invalid("COLLADA", "polygons without vertices")
        points = _numbers(array.text or "")
        if len(points) % 3:
            raise _invalid("COLLADA", "its vertices are not three numbers each")
        points = points.reshape(-1, 3)
        try:
            stride = 1 + max(int(one.get("offset") or 0) for one in inputs.values())
            corners = _corners(polygons, stride, int(vertex.get("offset") or 0))
        except (ValueError, IndexError, OverflowError):
            raise _invalid("COLLADA", "its polygons do not fit their vertices") from None
        if len(corners) and not 0 <= corners.min() <= corners.max() < len(points):
            raise _invalid("COLLADA", "a polygon has a vertex that is not there")
        return points, corners

    def _color(self, material: str) -> Color | None:
        found = self.by_id.get(material)
        instance = None if found is None else found.find("instance_effect")
        effect = None if instance is None else self._target(instance, "url")
        color = None if effect is None else effect.find(".//diffuse/color")
        if color is None:
            return None
        red, green, blue, *_ = (min(max(float(x), 0.0), 1.0) for x in (*_numbers(color.text or ""), 0.5, 0.5, 0.5))
        return red, green, blue, 1.0


def _numbers(text: str, count: int | None = None) -> Array:
    try:
        numbers = np.array(text.split(), dtype=np.float64)
    except ValueError:
        raise _invalid("COLLADA", "a list of numbers holds something else") from None
    if count is not None and len(numbers) != count:
        raise _invalid("COLLADA", f"{len(numbers)} numbers where {count} should be")
    return numbers


def _move(tag: str, text: str) -> Array:
    """The matrix by which an element of a node moves what follows, (4, 4)."""
    if tag == "matrix":
        return _numbers(text, 16).reshape(4, 4)
    move = np.eye(4)
    if tag == "translate":
        move[:3, 3] = _numbers(text, 3)
    elif tag == "scale":
        move[:3, :3] = np.diag(_numbers(text, 3))
    else:
        *axis, angle = _numbers(text, 4)
        length = math.hypot(*axis)
        if length > 0.0:
            move[:3, :3] = exp_matrix(np.array(axis) / length * math.radians(angle))
    return move


_MOVES = ("matrix", "translate", "rotate", "scale")


def _integers(element: _Element | None) -> Array:
    return np.array(("" if element is None else element.text or "").split(), dtype=np.int64)


def _corners(polygons: _Element, stride: int, offset: int) -> Array:
    """Triangles as indices of points, (m, 3)."""
    if polygons.tag == "polygons":
        return _fans([_integers(p).reshape(-1, stride)[:, offset] for p in polygons.findall("p")])
    corners = _integers(polygons.find("p"))
    if polygons.tag == "triangles":
        return corners.reshape(-1, 3, stride)[:, :, offset]
    corners, counts = corners.reshape(-1, stride)[:, offset], _integers(polygons.find("vcount"))
    if counts.min(initial=0) < 0 or counts.sum() != len(corners):
        raise ValueError("counts and corners differ")
    if (counts == 3).all():
        return corners.reshape(-1, 3)
    return _fans(np.split(corners, np.cumsum(counts)[:-1]))


def _fans(polygons: list[Array]) -> Array:
    fans = [np.stack([np.full(len(p) - 2, p[0]), p[1:-1], p[2:]], axis=-1) for p in polygons if len(p) > 2]
    return np.concatenate(fans) if fans else np.zeros((0, 3), dtype=np.int64)


_POLYGONS = ("triangles", "polylist", "polygons")

_HEADER = 84
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("vertices", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)")


def read_stl(data: bytes, _beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The triangles of an STL file; the format has no colours."""
    count = int.from_bytes(data[80:_HEADER], "little")
    # a binary file may start with "solid" too: only its length is conclusive
    if len(data) >= _HEADER and len(data) == _HEADER + _TRIANGLE.itemsize * count:
        corners = np.frombuffer(data, _TRIANGLE, count, _HEADER)["vertices"]
    elif data.lstrip()[:5].lower() == b"solid":
        corners = _text(data)
    else:
        expected = _HEADER + _TRIANGLE.itemsize * count
        raise _invalid("STL", f"{count} triangles take {expected} bytes, it has {len(data)}")
    if not len(corners):
        raise LoadError("has no triangles; export it again")
    return [joined(corners.reshape(-1, 3).astype(np.float64))]


def read_msh(data: bytes, _beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The triangles of a file in MuJoCo's binary format: four counts, vertices, normals, texture coordinates, faces."""
    counts = np.frombuffer(data[:16].ljust(16, b"\0"), "<i4").astype(int)
    vertices, _, _, faces = counts.tolist()
    expected = 16 + int(4 * (counts * (3, 3, 2, 3)).sum())
    if (counts < 0).any() or len(data) != expected:
        raise _invalid("MSH", f"what it announces takes {expected} bytes, it has {len(data)}")
    points = np.frombuffer(data, "<f4", 3 * vertices, 16).reshape(-1, 3).astype(np.float64)
    corners = np.frombuffer(data, "<i4", 3 * faces, len(data) - 12 * faces).reshape(-1, 3).astype(int)
    if not vertices or (corners < 0).any() or (corners >= vertices).any():
        raise _invalid("MSH", f"a face names a vertex that is not one of its {vertices}")
    return [Mesh(points, corners)]


def _text(data: bytes) -> Array:
    try:
        numbers = np.array(_VERTEX.findall(data), dtype=np.float64).reshape(-1, 3)
    except ValueError:
        raise _invalid("STL", "a vertex is not three numbers") from None
    if len(numbers) % 3:
        raise _invalid("STL", f"it has {len(numbers)} vertices, which are no triangles")
    return numbers.reshape(-1, 3, 3)


def joined(corners: Array) -> Mesh:
    """Triangles from their corners, three each, (3 m, 3); equal corners are merged into one vertex."""
    rows = np.ascontiguousarray(corners + 0.0)  # −0 and 0 are the same coordinate
    _, first, inverse = np.unique(rows.view(f"V{rows.itemsize * 3}").ravel(), return_index=True, return_inverse=True)
    return Mesh(rows[first], inverse.reshape(-1, 3))


# Most materials of a mesh that are drawn separately; the rest take the colour of the last one.
_MOST_MATERIALS = 200


def read_obj(data: bytes, beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The polygons of an OBJ file, one part for each colour; `beside` reads a file of materials next to it."""
    vertices: list[list[str]] = []
    faces: dict[str, list[tuple[int, ...]]] = {}
    colors: dict[str, Color] = {}
    material = ""
    current = faces.setdefault(material, [])
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if words[0] == "v":
            vertices.append(words[1:4])
        elif words[0] == "f":
            current += _triangles(words[1:], len(vertices), number)
        elif words[0] == "usemtl" and len(words) > 1 and len(faces) < _MOST_MATERIALS:
            material = words[1]
            current = faces.setdefault(material, [])
        elif words[0] == "mtllib" and len(words) > 1:
            colors.update(_colors(beside(" ".join(words[1:])) or b""))
    try:
        points = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        raise _invalid("OBJ", "a vertex is not three numbers") from None
    parts = [_part(points, np.array(part), colors.get(name)) for name, part in faces.items() if part]
    if not parts:
        raise LoadError("has no faces; export it again")
    return parts


def _triangles(words: list[str], count: int, line: int) -> list[tuple[int, ...]]:
    """A polygon as a triangle fan; vertices are counted from one, or, if negative, backwards from the last."""
    try:
        given = [int(word.split("/", 1)[0]) for word in words]
    except ValueError:
        raise _invalid("OBJ", f"the face in line {line} is not made of numbers") from None
    corners = [index - 1 if index > 0 else count + index for index in given]
    if 0 in given or min(corners, default=0) < 0 or max(corners, default=0) >= count:
        raise _invalid("OBJ", f"the face in line {line} has a vertex that is not there")
    return [(corners[0], b, c) for b, c in pairwise(corners[1:])]


def _part(points: Array, faces: Array, color: Color | None) -> Mesh:
    """The faces of one material, with only the vertices they use."""
    used, inverse = np.unique(faces, return_inverse=True)
    return Mesh(points[used], inverse.reshape(-1, 3), color)


def _colors(data: bytes) -> dict[str, Color]:
    """Diffuse colours by material name; malformed entries are skipped."""
    colors: dict[str, Color] = {}
    name = ""
    for line in data.decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "newmtl":
            name = words[1]
        elif len(words) == 4 and words[0] == "Kd":
            try:
                red, green, blue = (min(max(float(word), 0.0), 1.0) for word in words[1:])
            except ValueError:
                continue
            colors[name] = (red, green, blue, 1.0)
    return colors
