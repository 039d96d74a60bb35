"""Meshes that define inertias of bodies, and attached models: the only files that a reduced MJCF file refers to."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kinetree.loading.directory import Origin
from kinetree.loading.document import Element
from kinetree.loading.mjcf_file import MjcfFile
from kinetree.loading.mjcf_text import MjcfText
from kinetree.loading.source import clipped

#: MuJoCo takes about a second for meshes of this size [bytes]; the viewer allows more.
MOST, MOST_TO_DRAW = 24 * 2**20, 512 * 2**20

# factor by which convex hulls take longer
_HULL = 5

# Finest resolution of MuJoCo's built-in meshes, and the file size that takes as long as one of their facets.
_FINEST, _FACET = 200.0, 150

_KEPT = ("class", "scale", "refpos", "refquat", "inertia", "vertex", "face", "builtin", "params")
_SUFFIXES = (".stl", ".obj", ".msh")
_CONTENT_TYPES = {"model/stl": ".stl", "model/obj": ".obj", "model/vnd.mujoco.msh": ".msh"}


class Meshes:
    """The meshes of a file by name; writes those that are needed.

    Args:
        file: The file that contains them.
        most: Limit on their total size [bytes].
    """

    def __init__(self, file: MjcfFile, most: int) -> None:
        self._file, self._most = file, most
        self._bytes = 0
        self._folder, self._strip = "", False
        for compiler in file.sections("compiler"):
            self._folder = compiler.get("meshdir", compiler.get("assetdir", self._folder))
            self._strip = compiler.get("strippath", "true" if self._strip else "false") == "true"
        self._elements: dict[str, Element] = {}
        for section in file.sections("asset"):
            for mesh in section.iterchildren("mesh"):
                stem = os.path.splitext(os.path.basename(mesh.get("file", "").replace("\\", "/")))[0]
                self._elements.setdefault(mesh.get("name", stem), mesh)

    def write(self, name: str, text: MjcfText) -> None:
        """Write a mesh, with the content of its file; a missing one is left for MuJoCo to report.

        Args:
            name: Name of the mesh.
            text: The reduced file.
        """
        mesh = self._elements.get(name)
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
        if suffix not in _SUFFIXES:
            raise origin.error(
                f"mesh file {clipped(name, 200)} is of a type that is not read; give one of {', '.join(_SUFFIXES)}, or "
                "give the bodies <inertial>"
            )
        name = os.path.basename(name) if self._strip else name
        folder = self._file.folder(mesh)
        places = [Path(self._folder, name), Path(folder, self._folder, name), Path(folder, name)]
        path = self._file.directory.find([str(place) for place in places], origin)
        return self._file.directory.read(path, origin), suffix


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
