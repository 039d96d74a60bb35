"""Opens and decodes untrusted files, and detects their format."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from kinetree.errors import InputError, LoadError
from kinetree.model.meshes import READ_ONLY

#: Largest file that is read [bytes]. A robot with a thousand bodies takes about one megabyte.
LARGEST = 32 * 2**20

# more elements than this would fill memory with small objects, whatever the size of the file
_MOST_TAGS = 500_000

# supported encodings; some of Python's other codecs are not character encodings, such as compression
_ENCODINGS = ("utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.:-]{1,40})["']""")
# most instructions and comments have no ">" inside, which is found faster than two or three characters
_PROLOGUE = re.compile(r"\s*(?:<\?[^>]*\?>|<!--[^>]*-->|<\?.*?\?>|<!--.*?-->)|\s+", re.DOTALL)
_ROOT = re.compile(r"<([^\s/>!?]{1,100})")
_DECLARATION = re.compile(r"\s*<\?xml\s.*?\?>", re.DOTALL)
# UTF-8 that a parser takes as it is: a plain declaration, or none
_PLAIN = re.compile(rb"""<\?xml version=(["'])1\.0\1(?: encoding=(["'])utf-8\2)? ?\?>|(?!\s*<\?xml)""", re.IGNORECASE)
# how marks of encodings start
_MARKED = frozenset(b"\xef\xff\xfe\0")
# of a directory, this many names are compared with that of a missing file
_MOST_NAMES = 1_000
_USD = (".usd", ".usda", ".usdc", ".usdz")


class Source(NamedTuple):
    """The content of a file and its origin."""

    text: str  # the decoded content, without a byte order mark
    file: str  # the path, or "<string>", for messages
    name: str | None  # the path; None for content given as a string
    root: str  # name of the XML root element, including its prefix
    data: bytes | None = None  # the content as UTF-8 that a parser takes as it is, if it was read like that

    @property
    def path(self) -> Path | None:
        """The path; None for content given as a string."""
        return None if self.name is None else Path(self.name)

    @property
    def xml(self) -> bytes:
        """The content as UTF-8, without a declaration, which may name another encoding."""
        if self.data is not None:
            return self.data
        text = self.text
        if declaration := _DECLARATION.match(text):
            # removed, except for its line breaks
            text = "\n" * declaration[0].count("\n") + text[declaration.end() :]
        return text.encode()

    @classmethod
    def of(cls, given: Any) -> Source:
        """Read a file, or accept its content as bytes or as a string that starts with "<"."""
        if isinstance(given, str) and (given.lstrip("\ufeff \t\r\n").startswith("<") or not given.strip()):
            try:
                given.encode()
            except UnicodeEncodeError as error:
                line = given.count("\n", 0, error.start) + 1
                problem = "the content has a lone surrogate, which is not valid Unicode; decode it again"
                raise LoadError(problem, "<string>", line) from None
            return cls._checked(given, None, "<string>", None)
        if isinstance(given, (bytes, bytearray, memoryview)):
            return cls._checked(*_decoded(bytes(given), "<string>"), "<string>", None)
        if not isinstance(given, (str, os.PathLike)):
            raise InputError(f"load() needs a path or the content of a file, got {type(given).__name__}")
        file = os.path.expanduser(os.fsdecode(given))
        return cls._checked(*_decoded(content(file), file), file, file)

    @classmethod
    def expanded(cls, data: bytes, source: Source) -> Source:
        """The expanded content of a file."""
        file = f"{source.file} (expanded)"
        return cls._checked(*_decoded(data, file), file, source.name)

    @classmethod
    def _checked(cls, text: str, data: bytes | None, file: str, name: str | None) -> Source:
        text = text.removeprefix("\ufeff")
        if not text or text.isspace():
            raise LoadError("is empty; give a URDF or MJCF file", file)
        if len(text) > LARGEST:
            raise LoadError(f"has more than {LARGEST} characters; is it the description of a robot?", file)
        if len(text) > _MOST_TAGS and max(text.count("<"), text.count("=")) > _MOST_TAGS:
            raise LoadError(f"has more than {_MOST_TAGS} elements or attributes; split it", file)
        return cls(text, file, name, _root(text, file), data)


def usd_file(given: Any) -> Path | None:
    """The path of a USD file, which is recognised by its name; None if it is anything else."""
    text = isinstance(given, str)
    if text or isinstance(given, (bytes, bytearray, memoryview)):
        start = given[:8] if text else bytes(given[:8]).decode("ascii", "replace")
        if start.startswith(("#usda", "PXR-USDC")):
            raise LoadError("this is the content of a USD file; save it in one, and pass its path")
    if not text and not isinstance(given, os.PathLike):
        return None
    path = os.fsdecode(given)
    if not path[-5:].lower().endswith(_USD) or (text and ("\n" in given or given.lstrip().startswith("<"))):
        return None
    return Path(os.path.expanduser(path))


def content(file: str) -> bytes:
    """The bytes of a regular file of limited size; pipes and devices, which may be endless, are refused."""
    try:
        descriptor = os.open(file, READ_ONLY)
        try:
            state = os.fstat(descriptor)
            if stat.S_ISDIR(state.st_mode):
                raise LoadError("is a directory; give the path of a file in it", file)
            if not stat.S_ISREG(state.st_mode):
                raise LoadError("is not a regular file; save its content in one, or pass the content to load()", file)
            if state.st_size > LARGEST:
                raise LoadError(f"has {state.st_size} bytes, more than {LARGEST}; is it the right file?", file)
            data = os.read(descriptor, state.st_size + 1)
            if len(data) == state.st_size:
                return data
            # a file that grows, or reports no size: one more than allowed
            with open(descriptor, "rb", closefd=False) as opened:
                return data + opened.read(LARGEST + 1 - len(data))
        finally:
            os.close(descriptor)
    except LoadError:
        raise
    except FileNotFoundError:
        raise LoadError(f"there is no such file; {_alternatives(file)}", _clipped(file)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LoadError(f"cannot be read: {reason}; check the path", _clipped(file)) from None


def _alternatives(file: str) -> str:
    """Files with similar names, in the nearest directory that exists; else where the file was looked for."""
    try:
        folder, name = os.path.split(file)
        with os.scandir(folder or ".") as entries:
            names = sorted(entry.name for entry in entries if entry.is_file())
    except (OSError, ValueError):
        return f"looked in {_here()}"
    close = get_close_matches(name, names[:_MOST_NAMES], n=3, cutoff=0.6)
    found = ", ".join(os.path.join(folder, each) for each in close)
    return f"did you mean {_clipped(found)}?" if close else f"looked in {_here()}"


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "a directory that no longer exists"


def _decoded(data: bytes, file: str) -> tuple[str, bytes | None]:
    """The text, and the data again if a parser takes it as it is."""
    if data and data[0] in _MARKED:
        if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
            raise LoadError("its encoding UTF-32 is not supported; save it as UTF-8", file, 1)
        for mark, name in _MARKS.items():
            if data.startswith(mark):
                return _decode(data.removeprefix(mark), name, file), None
    if _PLAIN.match(data):
        return _decode(data, "utf-8", file), data
    declared = _DECLARED.match(data[:400])
    name = declared[1].decode("ascii", "replace") if declared else "utf-8"
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        codec = ""
    if codec not in _ENCODINGS and not codec.startswith("iso8859"):
        raise LoadError(f"its encoding {name!r} is not supported; save it as UTF-8", file, 1)
    return _decode(data, codec, file), None


def _decode(data: bytes, codec: str, file: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if b"\0" in data[:4096] and not codec.startswith("utf-16"):
            raise LoadError("contains binary data; give a URDF or MJCF file, which is text", file, line) from None
        raise LoadError(f"is not valid {codec}; save it as UTF-8", file, line) from None


def _root(text: str, file: str) -> str:
    """Name of the root element."""
    start = 0
    while found := _PROLOGUE.match(text, start):
        start = found.end()
    root = _ROOT.match(text, start)
    if root is not None:
        return root[1]
    line = text.count("\n", 0, start) + 1
    if text.startswith("<!DOCTYPE", start):
        raise LoadError(
            "document types and entities are not supported; delete <!DOCTYPE …> and write out the values", file, line
        )
    raise LoadError(f"is not XML: found {clipped(text[start:])} instead of <robot>; is it a URDF?", file, line)


def clipped(text: str, most: int = 60) -> str:
    """A quoted string, shortened for a message."""
    return repr(text if len(text) <= most else text[:most] + "…")


def unused(name: str, taken: Collection[str]) -> str:
    """A name that is not taken: with underscores appended if necessary."""
    while name in taken:
        name += "_"
    return name


def _clipped(file: str) -> str:
    return file if len(file) <= 300 else file[:300] + "…"
