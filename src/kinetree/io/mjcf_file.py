"""MJCF files: reads one and its includes safely, and writes a reduced one.

MuJoCo's own parser would open any file that is named; here, all files must be below one directory. A reduced file has
one element per line, so that lines in MuJoCo's messages map back to the original; it refers only to meshes that define
inertias and to attached models.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple

from kinetree.errors import InputError, LoadError
from kinetree.io.document import Document, Element
from kinetree.io.options import Diagnostics
from kinetree.io.source import LARGEST, Source, clipped, content

#: Largest number of files.
_MOST_FILES = 200
#: Largest number of elements or attributes: even skipped ones take time.
_MOST_TAGS = 150_000


class Origin(NamedTuple):
    """The file and line of an element, for messages."""

    file: str
    line: int | None

    def error(self, problem: str) -> LoadError:
        """An error that names this file and line."""
        return LoadError(problem, self.file, self.line)


class Directory:
    """Reads the files that a model refers to, if they are below a directory after resolving links.

    Args:
        source: The model. Relative names start from the directory of its file.
        given: The directory to which reading is restricted, by default that of the file. Content given as a string
            reads nothing unless a directory is given, which relative names then start from.
        more: Further directories that may be read.
    """

    def __init__(
        self,
        source: Source,
        given: str | os.PathLike[str] | None,
        more: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self.base = source.path.parent if source.path is not None else None
        if given is not None:
            try:
                boundary = Path(os.fsdecode(given))
            except TypeError:
                raise InputError(f"directory={given!r} is not a path") from None
            if "\0" in str(boundary) or not boundary.is_dir():
                raise InputError(f"directory={os.fsdecode(given)!r} is not a directory")
            self.base = boundary if self.base is None else self.base
        else:
            boundary = self.base if self.base is not None else Path()
        self._boundary = os.path.realpath(boundary)
        self._allowed = [self._boundary, *map(os.path.realpath, more)]

    def beside(self, path: Path) -> Directory:
        """The same directory for another model, whose relative names start from its own file."""
        other = copy(self)
        other.base = path.parent
        return other

    def find(self, names: list[str], origin: Origin) -> Path:
        """The path, with links resolved, of the first of several that exists, which must be below the directory."""
        wanted = clipped(names[0], 200)
        if self.base is None:
            raise origin.error(
                f"refers to the file {wanted}, but content given as a string may not read files; load it from a file, "
                "or allow a directory with load(…, directory=…)"
            )
        outside = None
        for name in names:
            path = Path(os.path.realpath(self.base / name.replace("\0", "")))
            if not any(path.is_relative_to(root) for root in self._allowed):
                outside = outside or path
            elif os.path.lexists(path):
                return path
        if outside is not None:
            raise origin.error(
                f"refers to {wanted}, which is {clipped(str(outside), 200)} and so outside the directory "
                f"{clipped(self._boundary, 200)}; allow a directory above both with load(…, directory=…)"
            )
        raise origin.error(
            f"refers to the file {wanted}, which does not exist; looked in {clipped(str(self.base), 200)}"
        )

    @staticmethod
    def read(path: Path, origin: Origin) -> bytes:
        """The bytes of a regular file of limited size, at a path from `find`."""
        try:
            return content(str(path))
        except LoadError as error:
            raise origin.error(f"refers to {clipped(str(path), 200)}, which {error.problem}") from None


class MjcfFile:
    """The elements of an MJCF file, with includes replaced by the elements of the included files.

    Names of included files are relative to the model, or else to the file that includes them. As in MuJoCo, no file is
    included twice.
    """

    def __init__(self, source: Source, directory: Directory, diagnostics: Diagnostics) -> None:
        self.source, self.directory = source, directory
        self.diagnostics = diagnostics
        self._characters = self._tags = 0
        self._files: dict[Element, str] = {}
        self._included = {source.path.resolve()} if source.path is not None else set()
        self.root = self._parsed(source)
        self._splice(self.root, source)
        self._sections: dict[str, list[Element]] = {}
        for section in self.root:
            self._sections.setdefault(section.tag, []).append(section)

    def origin(self, element: Element) -> Origin:
        """The origin of an element."""
        if len(self._files) == 1:
            return Origin(self.source.file, element.sourceline)
        above = element
        while above not in self._files:
            above = above.getparent()
        return Origin(self._files[above], element.sourceline)

    def folder(self, element: Element) -> str:
        """The directory of the file that contains an element."""
        file = self.origin(element).file
        return str(Path(file).absolute().parent) if file != "<string>" else ""

    def sections(self, *tags: str) -> Iterator[Element]:
        """Elements at the top level, those of the first tag first."""
        return (section for tag in tags for section in self._sections.get(tag, ()))

    def _parsed(self, source: Source) -> Element:
        self._characters += len(source.text)
        self._tags += max(source.text.count("<"), source.text.count("="))
        if self._characters > LARGEST or self._tags > _MOST_TAGS:
            raise LoadError(
                f"has more than {LARGEST} characters or {_MOST_TAGS} elements and attributes, included files counted; "
                "is it the right file?",
                self.source.file,
            )
        root = Document(source, self.diagnostics, {}).root
        self._files[root] = source.file
        return root

    def _splice(self, root: Element, source: Source) -> None:
        """Replace <include> elements by the content of the included files."""
        folder = str(source.path.absolute().parent) if source.path is not None else ""
        for element in list(root.iter("include")):
            origin = self.origin(element)
            name = element.get("file")
            if name is None or len(element):
                raise origin.error("<include> must have file= and nothing inside; correct it")
            path = self.directory.find([name, str(Path(folder, name))], origin)
            if path in self._included:
                raise origin.error(f"{clipped(name)} is included twice; MuJoCo includes a file once, copy its content")
            self._included.add(path)
            included = self._read(path, origin)
            part = self._parsed(included)
            if not len(part):
                raise origin.error(f"{clipped(name)} has no elements to include; delete this <include>")
            self._splice(part, included)
            parent = element.getparent()
            if parent is None:
                raise origin.error("consists only of an <include>; load the included file instead")
            place, children = parent.index(element), list(part)
            for child in children:
                self._files.setdefault(child, included.file)
            parent[place : place + 1] = children  # in one step: inserting them one by one would count up to each place

    def _read(self, path: Path, origin: Origin) -> Source:
        try:
            source = Source.of(path)
        except LoadError as error:
            raise origin.error(f"includes {error}") from None
        if len(self._included) > _MOST_FILES:
            raise origin.error(f"includes more than {_MOST_FILES} files; is it the right file?")
        return source


# attributes with names or keywords
_WORDS = frozenset(
    (
        "name", "class", "childclass", "mesh", "model", "body", "frame", "prefix", "joint", "jointinparent", "file",
        "sep", "active", "body1", "body2", "geom1", "geom2", "joint1", "joint2", "site1", "site2",
    )
)  # fmt: skip
# attributes that may be infinite, meaning no limit
_LIMITS = frozenset(("range", "actuatorfrcrange", "forcerange"))
# larger magnitudes are refused, so that mass times length squared cannot overflow
_HUGE = 1e100
# longest attribute with numbers, and longest list of vertices or faces [characters]
_LONGEST, _LONGEST_LIST = 10_000, 2_000_000
_LISTS = frozenset(("vertex", "face"))

# no element has more attributes than this; parsers compare each with all others
_MOST = 100

_NUMBER = re.compile(r"[+-]?(?:[\d.]|nan|inf)", re.IGNORECASE)
_SPECIAL = re.compile(r'[&<>"\n\r\t]')
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


class MjcfText:
    """Writes MJCF for a model and those that it attaches; all their elements have different line numbers."""

    def __init__(self) -> None:
        self.origins: list[Origin] = []  # of the element on each line
        self.assets: dict[str, bytes] = {}  # other files that the MJCF refers to, by name
        self._lines: list[str] = []
        # words known to be finite numbers: most occur several times
        self._finite: set[str] = set()

    def open(self, tag: str, attributes: Mapping[str, str], origin: Origin) -> None:
        """Start an element, whose numbers must be finite; `origin` is that in the file."""
        written = [f"<{tag}"]
        special = _SPECIAL.search("".join(attributes.values())) is not None
        for name, value in attributes.items():
            if name not in _WORDS:
                self._require_finite(tag, name, value, origin)
            written.append(f' {name}="{value.translate(_ESCAPES) if special else value}"')
        self._lines.append("".join(written) + ">")
        self.origins.append(origin)

    def close(self, tag: str) -> None:
        """End an element."""
        self._lines[-1] += f"</{tag}>"

    def put(self, tag: str, attributes: Mapping[str, str], origin: Origin) -> None:
        """Write an empty element."""
        self.open(tag, attributes, origin)
        self.close(tag)

    def take(self) -> str:
        """Everything written since the last call, preceded by as many blank lines as were returned before."""
        text = "\n" * (len(self.origins) - len(self._lines)) + "\n".join(self._lines)
        self._lines = []
        return text

    def _require_finite(self, tag: str, name: str, value: str, origin: Origin) -> None:
        if len(value) > (_LONGEST_LIST if name in _LISTS else _LONGEST):
            raise origin.error(f"{name}= of <{tag}> has {len(value)} characters, too many to read; shorten it")
        for word in value.split():
            if word in self._finite:
                continue
            try:
                number = float(word) if word.isascii() and "_" not in word else math.nan
            except ValueError:
                number = math.nan
            if -_HUGE <= number <= _HUGE:
                self._finite.add(word)
            # of other words, MuJoCo says what is wrong
            elif _NUMBER.match(word) and not (name in _LIMITS and math.isinf(number)):
                raise origin.error(
                    f"{name}={clipped(value)} of <{tag}> has {clipped(word)}, which is no number, not finite, or too "
                    "great to compute with; correct it"
                )


def attributes_of(element: Element, origin: Origin) -> dict[str, str]:
    """The attributes of an element, whose number is limited."""
    if len(element.attrib) > _MOST:
        raise origin.error(f"<{element.tag}> has {len(element.attrib)} attributes, more than MJCF knows; delete some")
    return dict(element.items())


#: Bytes of meshes that MuJoCo may read, at 24 MB/s; the viewer allows more.
MOST_BYTES, MOST_TO_DRAW = 256 * 2**20, 512 * 2**20

# factor by which convex hulls take longer
_HULL = 5

# Finest resolution of MuJoCo's built-in meshes, and the file size that takes as long as one of their facets.
_FINEST, _FACET = 200.0, 150

_KEPT = ("class", "scale", "refpos", "refquat", "inertia", "vertex", "face", "builtin", "params")
_SUFFIXES = (".stl", ".obj", ".msh")
_CONTENT_TYPES = {"model/stl": ".stl", "model/obj": ".obj", "model/vnd.mujoco.msh": ".msh"}


class Meshes:
    """The meshes of a file by name; writes those that are needed, of at most `most` bytes in total."""

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
        """Write a mesh, with the content of its file; a missing one is left for MuJoCo to report."""
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
