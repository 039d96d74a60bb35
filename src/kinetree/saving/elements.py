"""XML, written line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kinetree.errors import ModelError

_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)

_FORBIDDEN = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Elements:
    """Collects the lines of an XML document."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []

    def open(self, tag: str, **attributes: str) -> None:
        """Start an element; attributes whose name ends with "_" are written without it."""
        self._put(tag, attributes, ">")
        self._open.append(tag)

    def close(self) -> None:
        """End the innermost element."""
        tag = self._open.pop()
        self._lines.append(f"{'  ' * len(self._open)}</{tag}>")

    def put(self, tag: str, **attributes: str) -> None:
        """Write an empty element."""
        self._put(tag, attributes, "/>")

    def _put(self, tag: str, attributes: dict[str, str], end: str) -> None:
        for value in attributes.values():
            if re.search(_FORBIDDEN, value):
                raise ModelError(f"{value!r} has a character that no XML file can hold; rename it")
        inside = "".join(f' {name.rstrip("_")}="{value.translate(_ESCAPES)}"' for name, value in attributes.items())
        self._lines.append(f"{'  ' * len(self._open)}<{tag}{inside}{end}")

    def text(self) -> str:
        """The document."""
        return "\n".join(self._lines) + "\n"


def numbers(values: Iterable[float]) -> str:
    """Numbers separated by spaces, each with as many digits as needed to read it back exactly."""
    return " ".join(number(value) for value in values)


def number(value: float) -> str:
    """A number with as many digits as needed to read it back exactly."""
    return f"{float(value)!r}".removesuffix(".0")
