"""Copies single samples between user arrays and contiguous scratch memory, as LLVM assembly.

    take      user array -> numbers
    put       numbers -> user array, unless they are there already
    mirror    upper triangle -> lower triangle

User memory is assumed to be aligned to single numbers only.
"""

from __future__ import annotations

from kinetree.engines.formats import Format
from kinetree.engines.llvm.transposes import transpose
from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.chunks import chunks
from kinetree.engines.native.strides import CoreStrides

# Bytes of vectors from which on processors have masks.
_MASKED = 32

_SIGNATURE = "(ptr %area, ptr %operand, ptr %sample, ptr %steps)"


def take(block: int, scalar: Format) -> str:
    """A sample from a user array.

    Args:
        block: Numbers in a vector register.
        scalar: The format.
    """
    number, align = scalar.llvm, f"align {scalar.bytes}"
    f = FunctionWriter(f"define internal void @take{_SIGNATURE}")
    core = CoreStrides(f, "%operand", "%steps", scalar)
    with f.returning_when(core.contiguous()):
        _copy(f, "%sample", core.size, block, scalar)
    with core.each() as (place, offset):
        value = f.let(f"load {number}, ptr {f.at('%sample', offset)}, {align}")
        f.do(f"store {number} {value}, ptr {f.at('%area', place, number)}, {align}")
    return f.text()


def put(scalar: Format) -> str:
    """A sample to a user array."""
    number, align = scalar.llvm, f"align {scalar.bytes}"
    f = FunctionWriter(f"define internal void @put{_SIGNATURE}")
    with CoreStrides(f, "%operand", "%steps", scalar).each() as (place, offset):
        value = f.let(f"load {number}, ptr {f.at('%area', place, number)}, {align}")
        f.do(f"store {number} {value}, ptr {f.at('%sample', offset)}, {align}")
    return f.text()


def _copy(f: FunctionWriter, source: str, size: str, block: int, scalar: Format) -> None:
    """Copy numbers to `%area`: by vectors under masks, as the C library takes longer for the few of a small robot."""
    if scalar.bytes * block < _MASKED:
        bytes_, align = f.let(f"mul i64 {size}, {scalar.bytes}"), f"ptr align {scalar.bytes}"
        f.do(f"call void @llvm.memcpy.p0.p0.i64({align} %area, {align} {source}, i64 {bytes_}, i1 0)")
        return
    with chunks(f, "0", size, block, scalar, size) as chunk:
        chunk.store(chunk.load(source), "%area")


def mirror(block: int, scalar: Format) -> str:
    """Mirror a square of n x n numbers in blocks; the last block of a row overlaps the one before it."""
    f = FunctionWriter("define internal void @mirror(ptr %area, i64 %n)")
    vector, number, align = scalar.vector(block), scalar.llvm, f"align {scalar.bytes}"
    small = f.let(f"icmp slt i64 %n, {block}")
    with f.returning_when(small), f.loop(0, "%n") as i:
        row = f.let(f"mul i64 {i}, %n")
        with f.loop(f.let(f"add i64 {i}, 1"), "%n") as j:
            upper = f.at("%area", f.let(f"add i64 {row}, {j}"), number)
            lower = f.at("%area", f.let(f"add i64 {f.let(f'mul i64 {j}, %n')}, {i}"), number)
            f.do(f"store {number} {f.let(f'load {number}, ptr {upper}, {align}')}, ptr {lower}, {align}")

    last = f.let(f"sub i64 %n, {block}")
    stop = f.let(f"add i64 %n, {block - 1}")
    stop = f.let(f"and i64 {stop}, {-block}")

    def clamp(start: str) -> str:
        fits = f.let(f"icmp slt i64 {start}, {last}")
        return f.let(f"select i1 {fits}, i64 {start}, i64 {last}")

    def slots(row: str, column: str) -> list[str]:
        rows = [f.let(f"mul i64 {f.let(f'add i64 {row}, {k}')}, %n") for k in range(block)]
        return [f.at("%area", f.let(f"add i64 {r}, {column}"), number) for r in rows]

    def load(places: list[str]) -> list[str]:
        return [f.let(f"load {vector}, ptr {place}, {align}") for place in places]

    # blocks on the diagonal first, because overlapping blocks read them
    with f.loop(0, stop, block) as start:
        i = clamp(start)
        places = slots(i, i)
        rows = load(places)
        for k, (place, row, column) in enumerate(zip(places, rows, transpose(f, rows, scalar), strict=True)):
            picks = ", ".join(f"i32 {c if c < k else block + c}" for c in range(block))
            mixed = f.let(f"shufflevector {vector} {column}, {vector} {row}, <{block} x i32> <{picks}>")
            f.do(f"store {vector} {mixed}, ptr {place}, {align}")
    with f.loop(0, stop, block) as start:
        i = clamp(start)
        with f.loop(f.let(f"add i64 {start}, {block}"), stop, block) as other:
            j = clamp(other)
            columns = transpose(f, load(slots(i, j)), scalar)
            for place, column in zip(slots(j, i), columns, strict=True):
                f.do(f"store {vector} {column}, ptr {place}, {align}")
    return f.text()
