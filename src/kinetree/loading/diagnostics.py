"""Collects warnings about a file that could be loaded."""

from __future__ import annotations

import warnings

from kinetree.errors import ModelWarning

# of each kind of finding, this many are listed; the rest are counted
_LISTED = 40


class Diagnostics:
    """Collects findings about one file and reports them as one `ModelWarning` for each kind.

    Args:
        file: The file named in each warning.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self._listed: dict[str, list[str]] = {}
        self._unread: dict[str, list[int]] = {}

    def add(self, kind: str, what: str, line: int | None = None) -> None:
        """Add a finding.

        Args:
            kind: Title of its list, with possible remedies.
            what: The object concerned.
            line: Its line.
        """
        self._listed.setdefault(kind, []).append(what if line is None else f"{what} (line {line})")

    def unread(self, what: str, line: int) -> None:
        """Add an element or attribute that is not read but might have been intended."""
        self._unread.setdefault(what, []).append(line)

    def texts(self) -> list[str]:
        """One message for each kind of finding."""
        lists = dict(self._listed)
        if self._unread:
            lists["not read, check the spelling or ignore this"] = [
                f"{what} (line {lines[0]}{f' and {len(lines) - 1} more' if len(lines) > 1 else ''})"
                for what, lines in self._unread.items()
            ]
        texts = []
        for kind, items in lists.items():
            shown = "; ".join(items[:_LISTED])
            rest = f"; … ({len(items)} in all)" if len(items) > _LISTED else ""
            texts.append(f"{self.file}: {kind}: {shown}{rest}")
        return texts

    def warn(self, stacklevel: int) -> None:
        """Issue the warnings.

        Args:
            stacklevel: 1 attributes them to the caller of this method, 2 to its caller.
        """
        for text in self.texts():
            warnings.warn(text, ModelWarning, stacklevel=stacklevel + 1)
