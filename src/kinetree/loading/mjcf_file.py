"""Reads an MJCF file and its includes safely; MuJoCo's own parser would open any file that is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kinetree.errors import LoadError
from kinetree.loading.diagnostics import Diagnostics
from kinetree.loading.directory import Directory, Origin
from kinetree.loading.document import Document, Element
from kinetree.loading.source import LARGEST, Source, clipped

#: Largest number of files.
_MOST_FILES = 200
#: Largest number of elements or attributes: even skipped ones take time.
_MOST_TAGS = 150_000


class MjcfFile:
    """The elements of an MJCF file, with includes replaced by the elements of the included files.

    Names of included files are relative to the model, or else to the file that includes them. As in MuJoCo, no file is
    included twice.

    Args:
        source: The file.
        directory: Reads included files.
        diagnostics: Collects what is not read.
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
