"""Assets of an MJCF file: meshes and height fields. Those that MuJoCo needs are read, meshes that collide are noted."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np

from kinetree.errors import LoadError, ModelError
from kinetree.io.document import Element
from kinetree.io.mjcf_file import Defaults, MjcfFile, MjcfText, Origin
from kinetree.io.source import clipped
from kinetree.model.shapes import Hull
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

#: Bytes of meshes that MuJoCo may read, at 24 MB/s; the viewer allows more.
MOST_BYTES, MOST_TO_DRAW = 256 * 2**20, 512 * 2**20

# factor by which convex hulls take longer
_HULL = 5

# Finest resolution of MuJoCo's built-in meshes, and the file size that takes as long as one of their facets.
_FINEST, _FACET = 200.0, 150

_KEPT = ("class", "scale", "refpos", "refquat", "inertia", "vertex", "face", "builtin", "params")
#: Formats of meshes that MuJoCo reads.
SUFFIXES = (".stl", ".obj", ".msh")
_CONTENT_TYPES = {"model/stl": ".stl", "model/obj": ".obj", "model/vnd.mujoco.msh": ".msh"}


# Most points of a height field.
_MOST_POINTS = 4_000_000


class Assets:
    """The meshes and height fields of a file by name; writes those that are needed, of at most `most` bytes in total.

    `defaults` has what meshes inherit.
    """

    def __init__(self, file: MjcfFile, most: int, defaults: Defaults) -> None:
        self._file, self._most, self._defaults = file, most, defaults
        self._bytes = 0
        self._folder, self._strip = "", False
        for compiler in file.sections("compiler"):
            self._folder = compiler.get("meshdir", compiler.get("assetdir", self._folder))
            self._strip = compiler.get("strippath", "true" if self._strip else "false") == "true"
        self._elements: dict[str, dict[str, Element]] = {"mesh": {}, "hfield": {}}
        for section in file.sections("asset"):
            for element in section.iterchildren("mesh", "hfield"):
                stem = os.path.splitext(os.path.basename(element.get("file", "").replace("\\", "/")))[0]
                self._elements[element.tag].setdefault(element.get("name", stem), element)

    def hull(self, name: str) -> Hull | None:
        """The hull of a mesh in the frame of its geom, without a body; None if MuJoCo has to make it."""
        mesh = self._elements["mesh"].get(name)
        if mesh is None or mesh.get("builtin") is not None or mesh.find("plugin") is not None:
            return None
        scale = _numbers(self._defaults.of(mesh, None).get("scale", "1 1 1"), 3)
        shift, turn = _numbers(mesh.get("refpos", "0 0 0"), 3), _numbers(mesh.get("refquat", "1 0 0 0"), 4)
        if scale is None or shift is None or turn is None or not turn.any():
            return None
        at = None
        if shift.any() or turn[1:].any():  # vertices are S Rᵀ(x − p), a pose of scaled ones if all scales are equal
            if np.ptp(scale):
                return None
            R = matrix_of(turn[None] / np.sqrt((turn * turn).sum()))[0].T
            at = pose(R, -scale[0] * (R @ shift))
        try:
            if mesh.get("file") is None:
                points = _numbers(mesh.get("vertex", ""), None)
                return None if points is None else Hull(name, "", scale, at, points=points.reshape(-1, 3))
            return Hull(name, self._place(mesh), scale, at, source="file", directories=self._file.directory.searched)
        except (ModelError, ValueError):  # MuJoCo says what is wrong
            return None

    def _place(self, mesh: Element) -> str:
        """Where the file of a mesh is, or would be."""
        base = self._file.directory.base
        if base is not None and self._file.folder(mesh) != str(base.absolute()):
            with suppress(LoadError):
                return str(self._found(mesh, self._file.origin(mesh)))
        return Path(self._folder, self._named(mesh)).as_posix()

    def missing(self, tag: str, name: str) -> LoadError | None:
        """What is wrong with the file of a mesh or height field, if there should be one."""
        asset = self._elements[tag].get(name)
        if asset is None or asset.get("file") is None:
            return None
        try:
            self._found(asset, self._file.origin(asset))
        except LoadError as error:
            return error
        return None

    def write_field(self, name: str, text: MjcfText) -> None:
        """Write a height field, with the content of its file; a missing one is left for MuJoCo to report."""
        field = self._elements["hfield"].get(name)
        if field is None:
            return
        origin, kept = self._file.origin(field), ("name", "nrow", "ncol", "size", "elevation", "content_type")
        attributes = {key: field.get(key) for key in kept if field.get(key) is not None}
        sizes = _numbers(" ".join(field.get(key, "0") for key in ("nrow", "ncol")), 2)
        points = 0.0 if sizes is None else float(sizes.prod())
        if field.get("file") is not None:
            path = self._found(field, origin)
            data = self._file.directory.read(path, origin)
            points = max(points, _points_of(data))
            attributes["file"] = f"{len(text.assets)}{path.suffix}"
            text.assets[attributes["file"]] = data
        if not points <= _MOST_POINTS:
            raise origin.error(f"height field {clipped(name)} has more than {_MOST_POINTS} points; give less")
        text.put("hfield", {**attributes, "name": name}, origin)

    def write(self, name: str, text: MjcfText) -> None:
        """Write a mesh, with the content of its file; a missing one is left for MuJoCo to report."""
        mesh = self._elements["mesh"].get(name)
        if mesh is None:
            return
        origin = self._file.origin(mesh)
        attributes = {"name": name, **{key: mesh.get(key) for key in _KEPT if mesh.get(key) is not None}}
        weight = _HULL if mesh.get("inertia") == "convex" else 1
        if mesh.find("plugin") is not None:
            raise origin.error(
                f"mesh {clipped(name)} is made by a plugin, which Kinetree does not run; give bodies <inertial>"
            )
        self._bytes += weight * _built(mesh, origin)
        if mesh.get("file") is not None:
            data, suffix = self._content(mesh, origin)
            attributes["file"] = f"{len(text.assets)}{suffix}"
            text.assets[attributes["file"]] = data
            self._bytes += weight * len(data)
        self._bytes += weight * sum(len(mesh.get(key, "")) for key in ("vertex", "face"))
        if self._bytes > self._most:
            raise origin.error(
                f"meshes that are needed have more than {self._most} bytes, hulls counted {_HULL} times; "
                "give the bodies <inertial>, or compile the file with MuJoCo and use kinetree.from_mujoco()"
            )
        text.put("mesh", attributes, origin)

    def _content(self, mesh: Element, origin: Origin) -> tuple[bytes, str]:
        name = mesh.get("file")
        suffix = _CONTENT_TYPES.get(mesh.get("content_type", ""), os.path.splitext(name)[1].lower())
        if suffix not in SUFFIXES:
            raise origin.error(
                f"mesh file {clipped(name, 200)} is of a type that is not read; give one of {', '.join(SUFFIXES)}, or "
                "give the bodies <inertial>"
            )
        return self._file.directory.read(self._found(mesh, origin), origin), suffix

    def _named(self, asset: Element) -> str:
        name = str(asset.get("file")).replace("\\", "/")
        return os.path.basename(name) if self._strip else name

    def _found(self, asset: Element, origin: Origin) -> Path:
        """The file of an asset, beside the model or beside the file that names it."""
        name, folder = self._named(asset), self._file.folder(asset)
        places = [Path(self._folder, name), Path(folder, self._folder, name), Path(folder, name)]
        return self._file.directory.find([str(place) for place in places], origin)


def _built(mesh: Element, origin: Origin) -> int:
    """Approximate file size of one of MuJoCo's built-in meshes; one that is too fine is refused."""
    if mesh.get("builtin") is None:
        return 0
    finest = 1.0
    for word in mesh.get("params", "").split():
        with suppress(ValueError):  # MuJoCo says what is wrong
            number = abs(float(word))
            finest = number if not number <= finest else finest
    if not finest <= _FINEST:
        given = clipped(mesh.get("params"))
        raise origin.error(f"params={given} of <mesh> asks for more than {_FINEST:g} facets a side; give less")
    return int(_FACET * finest * finest)


def _numbers(text: str, count: int | None) -> Array | None:
    """Finite numbers; None if they are not, or not that many: MuJoCo then says what is wrong."""
    try:
        found = np.array(text.split(), dtype=float)
    except ValueError:
        return None
    right = len(found) == count if count is not None else len(found) % 3 == 0 and len(found) > 0
    return found if right and np.isfinite(found).all() else None


def _points_of(data: bytes) -> int:
    """The number of points that a height field's file announces: a PNG image, or MuJoCo's own format."""
    if data.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", data[16:24].ljust(8, b"\0"))
    else:
        height, width = struct.unpack("<II", data[:8].ljust(8, b"\0"))
    return int(width * height)
