"""COLLADA (.dae): polygons of a scene, placed by its nodes, with the diffuse colours of their materials.

The file's unit is applied. Its up axis is not: RViz ignores it too, and robot meshes are made for RViz.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kinetree.errors import LoadError
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.value import Array
from kinetree.viewer.geometry import Color, Mesh

# More elements would fill memory with small objects; deeper nesting and more copies are implausible for a robot.
_MOST_TAGS, _DEEPEST, _MOST_INSTANCES = 500_000, 64, 5_000

_Element = Any
_Materials = dict[str, str]


def read(data: bytes, _beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The parts of a file's scene, one for each set of polygons.

    Args:
        data: The bytes of the file.
    """
    file = _File(_parsed(data))
    parts = list(file.parts())
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
        raise LoadError(f"is not a valid COLLADA file: {problem}; export it again")
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
            raise LoadError("is not a valid COLLADA file: its unit is not a positive length; export it again")

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
            raise LoadError("is not a valid COLLADA file: its nodes are nested without end; export it again")
        for child in node:
            if child.tag in _MOVES:
                at = at @ _MOVES[child.tag](child.text or "")
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
                    yield from self._geometry(target, at, self._materials(child))

    def _materials(self, instance: _Element) -> _Materials:
        """Material ids by the symbols that polygons use."""
        bound = instance.iter("instance_material")
        return {one.get("symbol") or "": (one.get("target") or "").removeprefix("#") for one in bound}

    def _geometry(self, geometry: _Element, at: Array, materials: _Materials) -> Iterator[Mesh]:
        for polygons in geometry.iterfind("mesh/*"):
            if polygons.tag in _CORNERS:
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
            raise LoadError("is not a valid COLLADA file: polygons without vertices; export it again")
        points = _numbers(array.text or "")
        if len(points) % 3:
            raise LoadError("is not a valid COLLADA file: its vertices are not three numbers each; export it again")
        points = points.reshape(-1, 3)
        try:
            stride = 1 + max(int(one.get("offset") or 0) for one in inputs.values())
            corners = _CORNERS[polygons.tag](polygons, stride, int(vertex.get("offset") or 0))
        except (ValueError, IndexError, OverflowError):
            raise LoadError(
                "is not a valid COLLADA file: its polygons do not fit their vertices; export it again"
            ) from None
        if len(corners) and not 0 <= corners.min() <= corners.max() < len(points):
            raise LoadError("is not a valid COLLADA file: a polygon has a vertex that is not there; export it again")
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
        raise LoadError(
            "is not a valid COLLADA file: a list of numbers holds something else; export it again"
        ) from None
    if count is not None and len(numbers) != count:
        raise LoadError(f"is not a valid COLLADA file: {len(numbers)} numbers where {count} should be; export it again")
    return numbers


def _matrix(text: str) -> Array:
    return _numbers(text, 16).reshape(4, 4)


def _translation(text: str) -> Array:
    move = np.eye(4)
    move[:3, 3] = _numbers(text, 3)
    return move


def _rotation(text: str) -> Array:
    *axis, angle = _numbers(text, 4)
    move = np.eye(4)
    length = math.hypot(*axis)
    if length > 0.0:
        move[:3, :3] = exp_matrix(np.array(axis) / length * math.radians(angle))
    return move


def _scaling(text: str) -> Array:
    return np.diag([*_numbers(text, 3), 1.0])


_MOVES: dict[str, Callable[[str], Array]] = {
    "matrix": _matrix,
    "translate": _translation,
    "rotate": _rotation,
    "scale": _scaling,
}


def _integers(element: _Element | None) -> Array:
    return np.array(("" if element is None else element.text or "").split(), dtype=np.int64)


def _of_triangles(polygons: _Element, stride: int, offset: int) -> Array:
    return _integers(polygons.find("p")).reshape(-1, 3, stride)[:, :, offset]


def _of_lists(polygons: _Element, stride: int, offset: int) -> Array:
    corners = _integers(polygons.find("p")).reshape(-1, stride)[:, offset]
    counts = _integers(polygons.find("vcount"))
    if counts.min(initial=0) < 0 or counts.sum() != len(corners):
        raise ValueError("counts and corners differ")
    if (counts == 3).all():
        return corners.reshape(-1, 3)
    return _fans(np.split(corners, np.cumsum(counts)[:-1]))


def _of_polygons(polygons: _Element, stride: int, offset: int) -> Array:
    return _fans([_integers(p).reshape(-1, stride)[:, offset] for p in polygons.findall("p")])


def _fans(polygons: list[Array]) -> Array:
    fans = [np.stack([np.full(len(p) - 2, p[0]), p[1:-1], p[2:]], axis=-1) for p in polygons if len(p) > 2]
    return np.concatenate(fans) if fans else np.zeros((0, 3), dtype=np.int64)


_CORNERS: dict[str, Callable[[_Element, int, int], Array]] = {
    "triangles": _of_triangles,
    "polylist": _of_lists,
    "polygons": _of_polygons,
}
