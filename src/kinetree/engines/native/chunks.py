"""Consecutive numbers of samples that are moved at once, in LLVM assembly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kinetree.engines.formats import Format
from kinetree.engines.llvm.writer import FunctionWriter


@dataclass
class SampleChunk:
    """Consecutive numbers of a sample in a user's array, which is aligned to single numbers only.

    Attributes:
        f: The function.
        scalar: The format.
        length: How many numbers there are at most.
        start: The first one.
        mask: Those that are to be moved, unless all of them are.
    """

    f: FunctionWriter
    scalar: Format
    length: int
    start: str
    mask: str | None = None

    def load(self, sample: str) -> str:
        """The numbers of a sample."""
        vector, size = self.scalar.vector(self.length), self.scalar.bytes
        place = self._place(sample)
        if self.mask is None:
            return self.f.let(f"load {vector}, ptr {place}, align {size}")
        load = f"call {vector} @llvm.masked.load.{self.scalar.suffix(self.length)}.p0"
        options = f"i32 {size}, <{self.length} x i1> {self.mask}, {vector} zeroinitializer"
        return self.f.let(f"{load}(ptr {place}, {options})")

    def store(self, value: str, sample: str) -> None:
        """Store the numbers of a sample."""
        vector, size = self.scalar.vector(self.length), self.scalar.bytes
        place = self._place(sample)
        if self.mask is None:
            self.f.do(f"store {vector} {value}, ptr {place}, align {size}")
        else:
            store = f"call void @llvm.masked.store.{self.scalar.suffix(self.length)}.p0"
            self.f.do(f"{store}({vector} {value}, ptr {place}, i32 {size}, <{self.length} x i1> {self.mask})")

    def _place(self, sample: str) -> str:
        return self.f.at(sample, self.start, self.scalar.llvm)


@contextmanager
def chunks(
    f: FunctionWriter, start: str, stop: str, length: int, scalar: Format, size: str | None = None
) -> Iterator[SampleChunk]:
    """Loop over chunks of samples.

    Args:
        f: The function.
        start: Where the first one starts.
        stop: Starts of all of them are below.
        length: Numbers in a chunk.
        scalar: The format.
        size: Numbers in a sample, if chunks may go beyond them, which are then moved under masks.
    """
    with f.loop(start, stop, length) as first:
        mask = None if size is None else _mask(f, length, f.let(f"sub i64 {size}, {first}"), scalar)
        yield SampleChunk(f, scalar, length, first, mask)


def declarations(length: int, scalar: Format) -> list[str]:
    """Declarations of what moves chunks under masks."""
    vector, suffix, mask = scalar.vector(length), scalar.suffix(length), f"<{length} x i1>"
    return [
        f"declare {vector} @llvm.masked.load.{suffix}.p0(ptr, i32, {mask}, {vector})",
        f"declare void @llvm.masked.store.{suffix}.p0({vector}, ptr, i32, {mask})",
    ]


def _mask(f: FunctionWriter, width: int, count: str, scalar: Format) -> str:
    """A mask of the first `count` elements of a vector."""
    integer = scalar.integer
    if integer != "i64":
        count = f.let(f"trunc i64 {count} to {integer}")
    numbers = ", ".join(f"{integer} {k}" for k in range(width))
    return f.let(f"icmp slt <{width} x {integer}> <{numbers}>, {f.splat(count, width, integer)}")
