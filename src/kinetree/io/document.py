"""Parser for untrusted XML, which opens no files and expands no entities, with readers that name lines in errors."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lxml import etree

from kinetree.errors import LoadError
from kinetree.io.options import Diagnostics
from kinetree.io.source import Source, clipped

#: An element of lxml, which has no types.
Element = Any

# larger magnitudes are refused, so that mass times length squared cannot overflow
_HUGE = 1e100

# longest attribute with numbers [characters]
_LONGEST = 1000

# parts of the parser's messages: positions, which are reported separately, and advice to programmers
_DETAILS = re.compile(r",? line \d+, column \d+.*|, (?:try|use) XML_PARSE_HUGE(?: option)?", re.DOTALL)


class _OwnParser(threading.local):
    """A parser for each thread, which is used again: making one takes half as long as parsing a small file."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,  # keeps limits on depth and on the length of names and attributes
            remove_comments=True,
            remove_pis=True,
            remove_blank_text=True,
            collect_ids=False,
        )


_own = _OwnParser()


class Document:
    """A parsed XML file, with readers whose errors name file and line.

    `attributes` are those that are read, by element; others are reported.
    """

    def __init__(
        self,
        source: Source,
        diagnostics: Diagnostics,
        attributes: Mapping[str, frozenset[str]],
        snap_angles: bool = False,
    ) -> None:
        self.attributes = attributes
        self.snap_angles = snap_angles
        #: By how much angles were changed [rad].
        self.snapped: list[float] = []
        #: Numbers by the strings that they were read from.
        self.vectors = _Vectors()
        self.file = source.file
        self.diagnostics = diagnostics
        self.root = self._parsed(source.xml)

    def _parsed(self, data: bytes) -> Element:
        try:
            return etree.fromstring(data, _own.parser)
        except etree.XMLSyntaxError as error:
            what = " ".join(_DETAILS.sub("", error.msg or "not well-formed").split())
            line = error.lineno or 1
        # outside the handler: lxml's error cannot be pickled, and Dask pickles errors with what they were raised from
        if "xacro" in what:
            raise self.xacro(line)
        raise LoadError(f"broken XML: {what[:200]}; fix it, or export the file again", self.file, line)

    def error(self, element: Element, problem: str) -> LoadError:
        """An error at the line of an element."""
        return LoadError(problem, self.file, element.sourceline)

    def xacro(self, line: int | None) -> LoadError:
        """The error for a xacro file that has not been expanded."""
        name = self.file if self.file != "<string>" else "robot.urdf.xacro"
        output = name.removesuffix(".xacro").removesuffix(".urdf") + ".urdf"
        output = output if output != name else "expanded.urdf"
        return LoadError(
            f"this is a xacro file, which has to be expanded first: xacro {name} > {output} (or with "
            'load(…, xacro={}), if you trust it; pip install "kinetree[xacro]")',
            self.file,
            line,
        )

    def parts(self, element: Element, read: Collection[str], passed_over: Collection[str] = ()) -> dict[str, Element]:
        """Children by name, each at most once; those neither read nor passed over are reported."""
        found: dict[str, Element] = {}
        for child in element[:]:
            tag = child.tag
            if tag in read:
                if tag in found:
                    first = found[tag].sourceline
                    raise self.error(
                        child, f"a second <{tag}> in one <{element.tag}>, the first is in line {first}; delete one"
                    )
                found[tag] = child
            elif tag not in passed_over:
                self.unread(child)
        return found

    def unread(self, element: Element) -> None:
        """Report an element that is not read; a xacro element is an error."""
        tag: str = element.tag
        if tag.startswith("{"):
            space, tag = tag[1:].split("}", 1)
            if "xacro" in space or element.prefix == "xacro":
                raise self.xacro(element.sourceline)
            tag = f"{element.prefix}:{tag}" if element.prefix else tag
        self.diagnostics.unread(f"<{tag[:60]}> in <{element.getparent().tag[:60]}>", element.sourceline)

    def known(self, element: Element) -> None:
        """Report attributes of an element that are not read, since they may be misspelt."""
        given: list[str] = element.keys()
        names = self.attributes[element.tag]
        if not names.issuperset(given):
            for name in given:
                if name not in names:
                    self.diagnostics.unread(f"{name[:60]}= of <{element.tag}>", element.sourceline)

    def text(self, element: Element, name: str) -> str:
        """A required attribute, which must not be empty."""
        value: str | None = element.get(name)
        if value is None:
            raise self.error(element, f"<{element.tag}> has no {name}=; add it")
        if not value.strip():
            raise self.error(element, f"{name}= of <{element.tag}> is empty; fill it in")
        return value

    def number(self, element: Element, name: str, default: float | None = None, infinite: bool = False) -> float:
        """A number. The attribute is required unless there is a default."""
        value: str | None = element.get(name)
        if value is None:
            if default is None:
                raise self.error(element, f"<{element.tag}> has no {name}=; add it")
            return default
        found = self.vectors[value]
        if len(found) != 1:
            found = self.values(element, _written(element, name, value), value, 1, infinite)
        return found[0]

    def number_inside(self, element: Element | None, default: float, infinite: bool = False) -> float:
        """The number inside an element, or the default if there is no such element."""
        return default if element is None else self.numbers_inside(element, 1, infinite)[0]

    def numbers_inside(self, element: Element, count: int, infinite: bool = False) -> tuple[float, ...]:
        """The numbers inside an element, separated by whitespace."""
        text: str = element.text or ""
        found = self.vectors[text]
        return found if len(found) == count else self.values(element, f"<{element.tag}>", text, count, infinite)

    def numbers(self, element: Element, defaults: Mapping[str, float | None]) -> Sequence[float]:
        """The numbers of all attributes that an element may have, with their defaults; None for required ones."""
        self.known(element)
        return [self.number(element, name, default) for name, default in defaults.items()]

    def vector(self, element: Element, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """A vector of the same length as the default."""
        value: str | None = element.get(name)
        if value is None:
            return default
        found = self.vectors[value]
        if len(found) != len(default):
            return self.values(element, _written(element, name, value), value, len(default))
        return found

    def values(self, element: Element, where: str, value: str, count: int, infinite: bool = False) -> tuple[float, ...]:
        """Numbers separated by whitespace; `where` describes their position in messages."""
        numbers = _converted(value)
        fault = "is not"
        if len(numbers) == count:
            if all(-_HUGE <= number <= _HUGE or (infinite and number == number) for number in numbers):
                return numbers
            fault = "is not finite, or too large, for"
        if "${" in value or "$(" in value:
            raise self.xacro(element.sourceline)
        wanted = "one number, such as 0.5" if count == 1 else f"{count} numbers separated by blanks"
        shown = where if "=" in where else f"{where} {clipped(value.strip())}"
        raise self.error(element, f"{shown} {fault} {wanted}; correct it")


def _written(element: Element, name: str, value: str) -> str:
    """An attribute, for messages."""
    return f"{name}={clipped(value)} of <{element.tag}>"


class _Vectors(dict[str, tuple[float, ...]]):
    """Finite numbers separated by whitespace, by the strings that they are read from: most occur several times.

    Empty if there is any doubt, which `Document.values` then settles.
    """

    def __missing__(self, text: str) -> tuple[float, ...]:
        numbers = _converted(text)
        self[text] = found = numbers if math.hypot(*numbers) <= _HUGE else ()
        return found


def _converted(text: str) -> tuple[float, ...]:
    """Numbers separated by whitespace, or nothing if one of them is none.

    The text must be short, without digits of other scripts and underscores, which `float` would accept.
    """
    if len(text) > _LONGEST or "_" in text or not text.isascii():
        return ()
    try:
        return tuple(map(float, text.split()))
    except ValueError:
        return ()
