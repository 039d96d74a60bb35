"""Untrusted mesh files: allowed locations, size limits and supported formats.

The mesh names in a robot's file may have been written by anybody. A mesh is read only if it resolves to a path inside
one of the directories given by the user, with `..`, absolute paths and symbolic links taken into account. Nothing is
downloaded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from kinetree.errors import LoadError
from kinetree.model import mesh_formats
from kinetree.model.mesh_formats import Mesh

#: How untrusted files are opened: without waiting for a pipe, unchanged by Windows.
READ_ONLY = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"))

#: Larger mesh files are rejected [bytes].
LARGEST = 64 * 2**20

#: Meshes with more triangles are rejected: browsers choke on them.
MOST_FACES = 1_000_000

#: Larger coordinates are implausible for a robot, and exceed the range of graphics cards [m].
FARTHEST = 1e6

_READERS: dict[str, Callable[[bytes, Callable[[str], bytes | None]], list[Mesh]]] = {
    ".stl": mesh_formats.read_stl,
    ".obj": mesh_formats.read_obj,
    ".msh": mesh_formats.read_msh,
    ".dae": mesh_formats.read,
}


class Roots:
    """The directories from which meshes may be read: that of the robot's file, and others that contain packages.

    `package://name/rest` is looked up as `name/rest` in each of the latter, and as `rest` in those named `name`.
    """

    def __init__(self, given: Sequence[str | os.PathLike[str]] = (), beside: Path | None = None) -> None:
        self.given = tuple(Path(os.path.realpath(root)) for root in given)
        for root, name in zip(self.given, given):
            if not root.is_dir():
                raise LoadError(
                    "is not a directory; pass the directory that holds the robot's packages", os.fsdecode(name)
                )
        self.beside = None if beside is None else Path(os.path.realpath(beside))

    def find(self, name: str) -> Path:
        """The resolved path of a mesh from a name as in the robot's file: `package://…`, `file://…`, or a path."""
        scheme, separator, rest = name.partition("://")
        if separator and scheme not in ("package", "model", "file"):
            raise LoadError(f"{scheme}:// is not followed: nothing is fetched; download it and give its path", name)
        outside = False
        for candidate in self._candidates(name if not separator else rest, scheme if separator else ""):
            try:
                real = Path(os.path.realpath(candidate))
                there = real.exists()
            except (OSError, ValueError):  # a name too long, or with a null character
                continue
            if not there:
                continue
            if self.hold(real):
                return real
            outside = True
        if outside:
            raise LoadError("lies outside of the directories given; add its own as a package root to allow it", name)
        where = ", ".join(map(str, self._searched())) or "no directory, since none is given"
        raise LoadError(f"not found; looked in {where}{self._hint(rest) if scheme == 'package' else ''}", name)

    def _hint(self, name: str) -> str:
        """A guess at the package's location, from the path of the robot's file."""
        package = name.partition("/")[0]
        for directory in (self.beside, *self.beside.parents) if self.beside is not None else ():
            if directory.name == package:
                return f"; try {directory.parent} as package root"
        return ""

    def _candidates(self, name: str, scheme: str) -> list[Path]:
        name = name.replace("\\", "/")
        if scheme in ("package", "model"):
            package, _, rest = name.partition("/")
            inside = [root / name.lstrip("/") for root in self.given]
            return inside + [root / rest.lstrip("/") for root in self.given if root.name == package]
        if os.path.isabs(name):
            return [Path(name)]
        return [root / name for root in self._searched()]

    def _searched(self) -> tuple[Path, ...]:
        return self.given if self.beside is None else (self.beside, *self.given)

    def hold(self, real: Path) -> bool:
        """Whether a path without symbolic links lies inside one of the roots."""
        return any(real.is_relative_to(root) for root in self._searched())


def load(name: str, roots: Roots) -> list[Mesh]:
    """The parts of a mesh file, one for each colour; errors name it as the robot's file does."""
    shown = name if len(name) <= 200 else name[:200] + "…"
    try:
        path = roots.find(name)
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            raise LoadError(f"{path.suffix[:60]!r} is not read; convert it to {', '.join(_READERS)}", shown)
        parts = reader(content_of(path), lambda other: _beside(path, other, roots))
    except LoadError as error:
        raise LoadError(error.problem, shown) from None
    if sum(len(part.faces) for part in parts) > MOST_FACES:
        raise LoadError(f"has more than {MOST_FACES} triangles; simplify it", shown)
    for part in parts:
        if not np.all(np.abs(part.vertices) <= FARTHEST):  # NaN fails too
            raise LoadError("has vertices that are not finite, or kilometres away; export it again in metres", shown)
    return parts


def content_of(path: Path) -> bytes:
    """The content of a regular file; reading pipes or devices might never end."""
    try:
        descriptor = os.open(path, READ_ONLY)
        with open(descriptor, "rb") as opened:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise LoadError("is no regular file")
            if state.st_size > LARGEST:
                raise LoadError(f"has {state.st_size} bytes, more than {LARGEST}; simplify it")
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}") from None


def _beside(path: Path, name: str, roots: Roots) -> bytes | None:
    """A file referenced by a mesh, such as its materials; None if it may not or cannot be read."""
    try:
        real = Path(os.path.realpath(path.parent / name))
        return content_of(real) if roots.hold(real) else None
    except (LoadError, ValueError):  # a name with a null character is a ValueError
        return None
