"""Writes reduced MJCF with one element per line, so that lines in MuJoCo's messages map back to the original file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kinetree.loading.directory import Origin
from kinetree.loading.document import Element
from kinetree.loading.source import clipped

# attributes with names or keywords
_WORDS = frozenset(
    (
        "name", "class", "childclass", "mesh", "model", "body", "frame", "prefix", "joint", "jointinparent", "file",
        "sep", "active", "body1", "body2", "joint1", "joint2", "site1", "site2",
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
    """Writes MJCF for a model and those that it attaches; all their elements have different line numbers.

    Attributes:
        origins: Origin of the element on each line.
        assets: Other files that the MJCF refers to, by name.
    """

    def __init__(self) -> None:
        self.origins: list[Origin] = []
        self.assets: dict[str, bytes] = {}
        self._lines: list[str] = []
        # words known to be finite numbers: most occur several times
        self._finite: set[str] = set()

    def open(self, tag: str, attributes: Mapping[str, str], origin: Origin) -> None:
        """Start an element, whose numbers must be finite.

        Args:
            tag: Its name.
            attributes: Its attributes.
            origin: Its origin in the file.
        """
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
