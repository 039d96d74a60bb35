"""Copies samples between user arrays and lane-interleaved scratch memory, as LLVM assembly.

    take, put                    contiguous samples -> lanes and back, by transposes in registers
    take_strided, put_strided    samples of any strides -> lanes and back
    fetch                        tells the processor which lines of a user array will be needed soon

User memory is assumed to be aligned to single numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from kinetree.engines.formats import Format
from kinetree.engines.llvm.transposes import lanes_of, piece_of, samples_of
from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.chunks import SampleChunk, chunks
from kinetree.engines.native.operands import OperandWord
from kinetree.engines.native.strides import CoreStrides

ALIGNMENT = 64
"""Bytes of a cache line."""

# Bytes of an operand's samples that are fetched ahead: a fraction of the smallest first-level caches.
_FETCHED = 1 << 13
# Bytes of a sample's result from which on its lines are fetched while others are written, and how far ahead: processors
# do not recognise by themselves that so many rows are written at once.
_LONG = 1 << 12
_AHEAD = 512

SIGNATURE = (
    "(ptr %area, ptr %operand, ptr %base, i64 %outer, i64 %first, i64 %last, ptr %places, ptr %steps, i1 %distant)"
)
"""Arguments of all functions that copy: where the lanes are, what the operand is, the user's array and the distance of
its samples, the first sample of the block and the last one of all, where lanes are that are not in the order of numbers
(or null), the strides of all operands, and whether these outgrow the caches."""


def take(width: int, scalar: Format) -> str:
    """Contiguous samples to lanes."""
    lanes, align = scalar.vector(width), scalar.bytes * width
    f = FunctionWriter(f"define internal void @take{SIGNATURE}")
    pointers = _samples(f, width)
    for loop in _all_chunks(f, "0", _part(width, scalar), width, scalar):
        with loop as chunk:
            samples = [chunk.load(sample) for sample in pointers]
            # lanes beyond the operand are garbage, in memory that the next operand overwrites or in the padding
            for k, column in enumerate(lanes_of(f, samples, chunk.length, scalar)):
                slot = f.at("%area", f.let(f"add i64 {chunk.start}, {k}"), lanes)
                f.do(f"store {lanes} {column}, ptr {slot}, align {align}")
    return f.text()


def put(width: int, scalar: Format) -> str:
    """Lanes to contiguous samples."""
    lanes, part = scalar.vector(width), _part(width, scalar)
    f = FunctionWriter(f"define internal void @put{SIGNATURE}")
    pointers = _samples(f, width)
    in_order = f.let("icmp eq ptr %places, null")

    def slots(chunk: SampleChunk) -> list[str]:
        numbers = [f.let(f"add i64 {chunk.start}, {k}") for k in range(chunk.length)]
        return f.either(
            in_order,
            "ptr",
            lambda: [f.at("%area", number, lanes) for number in numbers],
            lambda: [_elsewhere(f, number) for number in numbers],
        )

    def load(slot: str, first: int, count: int) -> str:
        place = f.at(slot, first, scalar.llvm)
        return f.let(f"load {scalar.vector(count)}, ptr {place}, align {scalar.bytes * count}")

    def put_chunk(chunk: SampleChunk) -> None:
        places = slots(chunk)
        if chunk.length == width:
            # as `take` does: numbers of a sample are lanes of these vectors
            samples = []
            for first in range(0, width, part):
                samples += lanes_of(f, [load(slot, first, part) for slot in places], part, scalar)
        else:
            samples = samples_of(f, [load(slot, 0, width) for slot in places], width, scalar)
        for pointer, sample in zip(pointers, samples, strict=True):
            chunk.store(sample, pointer)

    size = f.word("%operand", OperandWord.SIZE)
    stop = f.let(f"and i64 {size}, {-width}")
    is_long = f.let(f"icmp sge i64 {size}, {_LONG // scalar.bytes}")
    distant = f.let(f"select i1 {f.let(f'and i1 %distant, {is_long}')}, i64 {stop}, i64 0")
    with chunks(f, "0", distant, width, scalar) as chunk:
        put_chunk(chunk)
        for pointer in pointers:
            _prefetch(f, f.at(f.at(pointer, chunk.start, scalar.llvm), _AHEAD))
    for loop in _all_chunks(f, distant, width, width, scalar):
        with loop as chunk:
            put_chunk(chunk)
    return f.text()


def take_strided(width: int, scalar: Format) -> str:
    """Samples of any strides to lanes."""
    lanes, align = scalar.vector(width), scalar.bytes * width
    f = FunctionWriter(f"define internal void @take_strided{SIGNATURE}")
    pointers = _samples(f, width)
    with CoreStrides(f, "%operand", "%steps", scalar).each() as (number, offset):
        vector = "poison"
        for lane, sample in enumerate(pointers):
            value = f.let(f"load {scalar.llvm}, ptr {f.at(sample, offset)}, align {scalar.bytes}")
            vector = f.let(f"insertelement {lanes} {vector}, {scalar.llvm} {value}, i64 {lane}")
        f.do(f"store {lanes} {vector}, ptr {f.at('%area', number, lanes)}, align {align}")
    return f.text()


def put_strided(width: int, scalar: Format) -> str:
    """Lanes to samples of any strides."""
    lanes, align = scalar.vector(width), scalar.bytes * width
    f = FunctionWriter(f"define internal void @put_strided{SIGNATURE}")
    pointers = _samples(f, width)
    in_order = f.let("icmp eq ptr %places, null")
    with CoreStrides(f, "%operand", "%steps", scalar).each() as (number, offset):
        (slot,) = f.either(in_order, "ptr", lambda: [f.at("%area", number, lanes)], lambda: [_elsewhere(f, number)])
        vector = f.let(f"load {lanes}, ptr {slot}, align {align}")
        for lane, sample in enumerate(pointers):
            value = f.let(f"extractelement {lanes} {vector}, i64 {lane}")
            f.do(f"store {scalar.llvm} {value}, ptr {f.at(sample, offset)}, align {scalar.bytes}")
    return f.text()


def _samples(f: FunctionWriter, width: int) -> list[str]:
    """Pointers to the samples of a block; unused lanes repeat the last sample."""
    start, following = f.at("%base", f.let("mul i64 %first, %outer")), f.let("sub i64 %last, %first")

    def all_of_them() -> list[str]:
        return [f.at(start, f.let(f"mul i64 %outer, {lane}")) for lane in range(1, width)]

    def at_most_the_last() -> list[str]:
        pointers = []
        for lane in range(1, width):
            real = f.let(f"icmp slt i64 {following}, {lane}")
            clamped = f.let(f"select i1 {real}, i64 {following}, i64 {lane}")
            pointers.append(f.at(start, f.let(f"mul i64 {clamped}, %outer")))
        return pointers

    is_whole = f.let(f"icmp sge i64 {following}, {width - 1}")
    return [start, *f.either(is_whole, "ptr", all_of_them, at_most_the_last)]


def _elsewhere(f: FunctionWriter, number: str) -> str:
    """Where the lanes of a number are that has a place of its own."""
    offset = f.let(f"load i32, ptr {f.at('%places', number, 'i32')}, align 4")
    return f.at("%area", f.let(f"zext i32 {offset} to i64"))


def masked_lengths(width: int, scalar: Format) -> list[int]:
    """Lengths of the chunks that make up the rest of a sample: half of the lanes, then 128 bits."""
    return sorted({_part(width, scalar), min(width, piece_of(scalar))}, reverse=True)


def _part(width: int, scalar: Format) -> int:
    """Numbers of vectors that are put together to vectors of all lanes."""
    return max(width // 2, min(width, piece_of(scalar)))


def _all_chunks(
    f: FunctionWriter, start: str, longest: int, width: int, scalar: Format
) -> Iterator[AbstractContextManager[SampleChunk]]:
    """Loops over the numbers of a sample from one on: in chunks of a length, then in shorter ones under masks."""
    size = f.word("%operand", OperandWord.SIZE)
    stop = f.let(f"and i64 {size}, {-longest}")
    yield chunks(f, start, stop, longest, scalar)
    *longer, shortest = masked_lengths(width, scalar)
    for length in longer:
        # as many as the shortest chunk holds are left to it
        start, left = stop, f.let(f"sub i64 {size}, {stop}")
        passes = f.let(f"and i64 {f.let(f'add i64 {left}, {length - shortest - 1}')}, {-length}")
        stop = f.let(f"add i64 {start}, {passes}")
        yield chunks(f, start, stop, length, scalar, size)
    yield chunks(f, stop, size, shortest, scalar, size)


def fetch(width: int, scalar: Format) -> str:
    """Prefetch the samples of a block, if they are contiguous and leave most of the first cache to the kernel."""
    f = FunctionWriter("define internal void @fetch(ptr %operand, ptr %base, i64 %outer, i64 %first, i64 %samples)")
    dense = f.let(f"mul i64 {f.word('%operand', OperandWord.SIZE)}, {scalar.bytes}")
    small = f.let(f"icmp sle i64 {dense}, {_FETCHED // width}")
    with f.when(f.let(f"and i1 {f.let(f'icmp eq i64 %outer, {dense}')}, {small}")):
        end = f.let(f"add i64 %first, {width}")
        end = f.let(f"select i1 {f.let(f'icmp slt i64 {end}, %samples')}, i64 {end}, i64 %samples")
        start, stop = (f.let(f"mul i64 {sample}, {dense}") for sample in ("%first", end))
        with f.loop(start, f.let(f"add i64 {stop}, {ALIGNMENT - 1}"), ALIGNMENT) as place:
            _prefetch(f, f.at("%base", place))
    return f.text()


def _prefetch(f: FunctionWriter, place: str) -> None:
    f.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")
