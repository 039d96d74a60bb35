"""Access to the files that a model refers to, restricted to one directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import NamedTuple

from kinetree.errors import InputError, LoadError
from kinetree.loading.source import Source, clipped, content


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
        """The first existing file of several, which must be below the directory.

        Args:
            names: Paths to try, in this order; relative ones start from the model's directory.
            origin: Origin of the element that refers to it.

        Returns:
            Its path with links resolved.
        """
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
        """The bytes of a regular file of limited size.

        Args:
            path: A path from `find`.
            origin: Origin of the element that refers to it.
        """
        try:
            return content(str(path))
        except LoadError as error:
            raise origin.error(f"refers to {clipped(str(path), 200)}, which {error.problem}") from None
