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
from copy import copy
from pathlib import Path
from typing import NamedTuple

from kinetree.errors import InputError, LoadError
from kinetree.io.document import Document, Element
from kinetree.io.options import Diagnostics
from kinetree.io.source import LARGEST, Source, clipped, content
from kinetree.model.shapes import Hull

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

    @property
    def searched(self) -> tuple[str, ...]:
        """Where a `Hull` may look for its mesh: beside the file, and below the directories that may be read."""
        return ("",) if self.base is None else (os.path.realpath(self.base), *self._allowed)

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
_LISTS = frozenset(("vertex", "face", "elevation"))

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
        self.hulls: list[Hull] = []  # meshes that collide, by number, from 1 on
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


# for shapes, whether they have mass and collide; for joints, their number of coordinates; for meshes, their size
_ATTRIBUTES = {
    "geom": ("type", "mesh", "hfield", "mass", "density", "group", "contype", "conaffinity"),
    "joint": ("type",),
    "mesh": ("scale",),
}
_MAIN = "main"


class Defaults:
    """Attributes that shapes, joints and meshes inherit from default classes, in <default>s at the top level."""

    def __init__(self, sections: Iterable[Element]) -> None:
        self._classes: dict[str, dict[str, dict[str, str]]] = {_MAIN: {tag: {} for tag in _ATTRIBUTES}}
        pending = [(section, section.get("class", _MAIN), _MAIN) for section in reversed(list(sections))]
        while pending:
            section, name, parent = pending.pop()
            inherited = {tag: dict(attributes) for tag, attributes in self._classes[parent].items()}
            own = self._classes.setdefault(name, inherited)
            for element in section:
                if element.tag in own:
                    own[element.tag].update(_of_interest(element))
            pending += [(child, child.get("class", ""), name) for child in section.iterchildren("default")]

    def of(self, element: Element, inherited: str | None) -> dict[str, str]:
        """The relevant attributes of an element; its own override those of its class, or of the inherited one."""
        name = element.get("class") or inherited or _MAIN
        return {**self._classes.get(name, {}).get(element.tag, {}), **_of_interest(element)}


def _of_interest(element: Element) -> dict[str, str]:
    return picked(element, _ATTRIBUTES[element.tag])


def picked(element: Element, names: Iterable[str]) -> dict[str, str]:
    """Those of the named attributes that an element has."""
    return {name: element.get(name) for name in names if element.get(name) is not None}
