"""Copies of samples between user arrays and scratch memory, as LLVM assembly.

    take         single samples -> numbers
    mirror       upper triangle -> lower triangle, of the symmetric results of single samples
    interleave   W samples -> lanes, by transposes in registers
    deinterleave lanes -> W samples
    fetch        tells the processor which lines of a user array will be needed soon

Samples are contiguous, at any distance from each other. User memory is assumed to be aligned to single numbers only.

A transpose makes L vectors of W lanes from W samples of L numbers, or the reverse. L is W, or less for what remains of
longer samples, but at least the numbers in 128 bits. Short samples share vectors, so that fewer of them are shuffled.
As many vectors as there are numbers in 128 bits are interleaved within 128-bit pieces, then pieces are exchanged; each
step is one instruction on x86.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime.operands import OperandWord


def transpose(f: FunctionWriter, rows: list[str], scalar: Format = FLOAT64) -> list[str]:
    """Transpose a square of numbers held as W row vectors of W numbers, W = 2, 4, 8 or 16."""
    return lanes_of(f, rows, len(rows), scalar)


def lanes_of(f: FunctionWriter, samples: list[str], length: int, scalar: Format) -> list[str]:
    """Vectors of lanes, one for each number of a sample, from W vectors of `length` numbers."""
    width = len(samples)
    piece = min(length, piece_of(scalar))
    in_group = piece * (width // length)
    groups = []
    for start in range(0, width, in_group):
        group = samples[start : start + in_group]
        vectors = [_joined(f, group[k::piece], length, scalar) for k in range(piece)]
        groups.append(_transpose_pieces(f, vectors, width, scalar))

    def gathered(rows: list[str]) -> list[str]:
        # row i of the result holds piece i of every sample
        if len(rows) == 1:
            return rows
        half = [p + d for p in range(0, width, 2 * piece) for d in range(piece)]
        other = [pick + piece for pick in half]
        firsts, seconds = [], []
        for a, b in zip(rows[::2], rows[1::2], strict=True):
            firsts.append(_shuffle(f, scalar, width, a, b, half + [width + pick for pick in half]))
            seconds.append(_shuffle(f, scalar, width, a, b, other + [width + pick for pick in other]))
        return _interleave(gathered(firsts), gathered(seconds))

    return _interleave(*(gathered([group[j] for group in groups]) for j in range(piece)))


def samples_of(f: FunctionWriter, lanes: list[str], width: int, scalar: Format) -> list[str]:
    """W vectors, each with the numbers of one sample, from less than W vectors of lanes."""
    piece = piece_of(scalar)
    groups = []
    for start in range(0, len(lanes), piece):
        vectors = _transpose_pieces(f, lanes[start : start + piece], width, scalar)
        groups.append([_pieces(f, vector, width, scalar) for vector in vectors])
    # piece p of vector j of each group belongs to sample p * piece + j
    return [
        _joined(f, [group[j][p] for group in groups], piece, scalar)
        for p in range(width // piece)
        for j in range(piece)
    ]


def piece_of(scalar: Format) -> int:
    """How many numbers are in 128 bits."""
    return 16 // scalar.bytes


def _transpose_pieces(f: FunctionWriter, rows: list[str], width: int, scalar: Format) -> list[str]:
    """Transpose the squares that the 128-bit pieces of as many vectors as a piece has numbers form."""
    piece = len(rows)
    rounds = piece
    while rounds > 1:
        # each round interleaves the rows of the first half with those of the second, within pieces
        mixed = []
        for a, b in zip(rows[: piece // 2], rows[piece // 2 :], strict=True):
            for start in (0, piece // 2):
                columns = [p + start + d for p in range(0, width, piece) for d in range(piece // 2)]
                mixed.append(_shuffle(f, scalar, width, a, b, [pick for c in columns for pick in (c, width + c)]))
        rows, rounds = mixed, rounds // 2
    return rows


def _shuffle(f: FunctionWriter, scalar: Format, width: int, a: str, b: str, picks: list[int]) -> str:
    vector, mask = scalar.vector(width), ", ".join(f"i32 {pick}" for pick in picks)
    return f.let(f"shufflevector {vector} {a}, {vector} {b}, <{len(picks)} x i32> <{mask}>")


def _joined(f: FunctionWriter, parts: list[str], length: int, scalar: Format) -> str:
    """One vector of several."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts, length = [_shuffle(f, scalar, length, a, b, list(range(2 * length))) for a, b in pairs], 2 * length
    return parts[0]


def _pieces(f: FunctionWriter, vector: str, width: int, scalar: Format) -> list[str]:
    """The 128-bit pieces of a vector."""
    piece = piece_of(scalar)
    starts = range(0, width, piece)
    return [_shuffle(f, scalar, width, vector, "poison", list(range(start, start + piece))) for start in starts]


def _interleave(*lists: list[str]) -> list[str]:
    return [name for names in zip(*lists, strict=True) for name in names]


@dataclass
class SampleChunk:
    """Consecutive numbers of a sample in a user's array, which is aligned to single numbers only."""

    f: FunctionWriter
    scalar: Format
    length: int  # how many numbers there are at most
    start: str  # the first one
    mask: str | None = None  # those that are to be moved, unless all of them are

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
    """Loop over chunks of samples; if they may go beyond the size of a sample, they are moved under masks."""
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


# Bytes of vectors from which on processors have masks.
_MASKED = 32


def take(block: int, scalar: Format) -> str:
    """A sample from a user array, by vectors under masks: the C library takes longer for the few of a small robot."""
    f = FunctionWriter("define internal void @take(ptr %area, ptr %sample, i64 %size)")
    if scalar.bytes * block < _MASKED:
        length, align = f.let(f"mul i64 %size, {scalar.bytes}"), f"ptr align {scalar.bytes}"
        f.do(f"call void @llvm.memcpy.p0.p0.i64({align} %area, {align} %sample, i64 {length}, i1 0)")
    else:
        with chunks(f, "0", "%size", block, scalar, "%size") as chunk:
            chunk.store(chunk.load("%sample"), "%area")
    return f.text()


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


ALIGNMENT = 64
"""Bytes of a cache line."""

# Bytes of an operand's samples that are fetched ahead: a fraction of the smallest first-level caches.
_FETCHED = 1 << 13
# Bytes of a sample's result from which on its lines are fetched while others are written, and how far ahead: processors
# do not recognise by themselves that so many rows are written at once.
_LONG = 1 << 12
_AHEAD = 512

SIGNATURE = "(ptr %area, ptr %operand, ptr %base, i64 %outer, i64 %first, i64 %last, ptr %places, i1 %distant)"
"""Arguments of both functions that copy W samples: where the lanes are, what the operand is, the user's array and the
distance of its samples, the first sample of the block and the last one of all, where lanes are that are not in the
order of numbers (or null), and whether all operands outgrow the caches."""


def interleave(width: int, scalar: Format) -> str:
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


def deinterleave(width: int, scalar: Format) -> str:
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
