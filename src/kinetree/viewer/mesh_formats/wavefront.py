"""Wavefront OBJ: vertices, polygons, and the diffuse colours of its materials. Textures are not read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from kinetree.errors import LoadError
from kinetree.spatial.value import Array
from kinetree.viewer.geometry import Color, Mesh

# Most materials of a mesh that are drawn separately; the rest take the colour of the last one.
_MOST_MATERIALS = 200


def read(data: bytes, beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The parts of a file, one for each material.

    Args:
        data: The bytes of the file.
        beside: Reads a file referenced by this one.
    """
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
        raise LoadError("is not a valid OBJ file: a vertex is not three numbers; export it again") from None
    parts = [_part(points, np.array(part), colors.get(name)) for name, part in faces.items() if part]
    if not parts:
        raise LoadError("has no faces; export it again")
    return parts


def _triangles(words: list[str], count: int, line: int) -> list[tuple[int, ...]]:
    """A polygon as a triangle fan; vertices are counted from one, or, if negative, backwards from the last."""
    try:
        given = [int(word.split("/", 1)[0]) for word in words]
    except ValueError:
        raise LoadError(
            f"is not a valid OBJ file: the face in line {line} is not made of numbers; export it again"
        ) from None
    corners = [index - 1 if index > 0 else count + index for index in given]
    if 0 in given or min(corners, default=0) < 0 or max(corners, default=0) >= count:
        raise LoadError(
            f"is not a valid OBJ file: the face in line {line} has a vertex that is not there; export it again"
        )
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
