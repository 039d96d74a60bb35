"""Copies samples between user arrays and lane-interleaved scratch memory, as LLVM assembly.

    take      user array -> lanes, by strides, or by W x W register transposes if samples are contiguous
    put       lanes -> user array, likewise
    fetch     tells the processor which lines of a user array will be needed soon
    mirror    upper triangle -> lower triangle

User memory is assumed to be aligned to single numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kinetree.engines.formats import Format
from kinetree.engines.llvm.writer import FunctionWriter, joined, piece_of, pieces_of, transpose, transpose_pieces
from kinetree.engines.native.operands import OperandWord

ALIGNMENT = 64
"""Bytes of a cache line."""

# Bytes of an operand's samples that are fetched ahead: a fraction of the smallest first-level caches.
_FETCHED = 1 << 13
# Bytes of vectors from which on processors have masks.
_MASKED = 32


class Core:
    """Dimensions and strides of one sample of an operand, padded on the left to three axes."""

    def __init__(self, f: FunctionWriter, operand: str, steps: str, scalar: Format) -> None:
        self.f, self.scalar = f, scalar
        self.size = f.word(operand, OperandWord.SIZE)
        self.dims = [f.word(operand, OperandWord.DIM + axis) for axis in range(3)]
        first, rank = f.word(operand, OperandWord.FIRST_STEP), f.word(operand, OperandWord.RANK)
        self.strides = []
        for axis in range(3):
            # padded axes have length 1; their stride is irrelevant but must be read from somewhere
            offset = f.let(f"sub i64 {rank}, {3 - axis}")
            real = f.let(f"icmp sge i64 {offset}, 0")
            index = f.let(f"select i1 {real}, i64 {f.let(f'add i64 {first}, {offset}')}, i64 0")
            self.strides.append(f.word(steps, index))

    def contiguous(self) -> str:
        """Whether a sample is contiguous in C order, an i1."""
        f = self.f
        inner, answer = str(self.scalar.bytes), "true"
        for dim, stride in zip(reversed(self.dims), reversed(self.strides), strict=True):
            single = f.let(f"icmp eq i64 {dim}, 1")
            dense = f.let(f"icmp eq i64 {stride}, {inner}")
            answer = f.let(f"and i1 {answer}, {f.let(f'or i1 {single}, {dense}')}")
            inner = f.let(f"mul i64 {inner}, {dim}")
        return answer

    @contextmanager
    def each(self) -> Iterator[tuple[str, str]]:
        """Loop over the elements; yields an element's number in C order and its offset in bytes."""
        f, number, offset = self.f, "0", "0"
        with ExitStack() as loops:
            for dim, stride in zip(self.dims, self.strides, strict=True):
                index = loops.enter_context(f.loop(0, dim))
                number = f.let(f"add i64 {f.let(f'mul i64 {number}, {dim}')}, {index}")
                offset = f.let(f"add i64 {offset}, {f.let(f'mul i64 {index}, {stride}')}")
            yield number, offset


_SIGNATURE = "(ptr %area, ptr %operand, ptr %base, i64 %outer, i64 %first, i64 %last, ptr %steps)"


def _lane_pointers(f: FunctionWriter, width: int) -> list[str]:
    """Pointers to the samples of a block; unused lanes repeat the last sample."""
    pointers = []
    for lane in range(width):
        sample = f.let(f"add i64 %first, {lane}")
        real = f.let(f"icmp slt i64 {sample}, %last")
        clamped = f.let(f"select i1 {real}, i64 {sample}, i64 %last")
        pointers.append(f.at("%base", f.let(f"mul i64 {clamped}, %outer")))
    return pointers


def _mask(f: FunctionWriter, width: int, count: str, scalar: Format) -> str:
    """A mask of the first `count` elements of a vector."""
    integer = scalar.integer
    vector = f"<{width} x {integer}>"
    if integer != "i64":
        count = f.let(f"trunc i64 {count} to {integer}")
    splat = f.let(f"insertelement {vector} poison, {integer} {count}, i64 0")
    splat = f.let(f"shufflevector {vector} {splat}, {vector} poison, <{width} x i32> zeroinitializer")
    numbers = ", ".join(f"{integer} {k}" for k in range(width))
    return f.let(f"icmp slt {vector} <{numbers}>, {splat}")


def _copy(f: FunctionWriter, source: str, size: str, block: int, scalar: Format) -> None:
    """Copy numbers to `%area`: by vectors under masks, as the C library takes longer for the few of a small robot."""
    if scalar.bytes * block < _MASKED:
        bytes_, align = f.let(f"mul i64 {size}, {scalar.bytes}"), f"ptr align {scalar.bytes}"
        f.do(f"call void @llvm.memcpy.p0.p0.i64({align} %area, {align} {source}, i64 {bytes_}, i1 0)")
        return
    lanes, number, mask = scalar.vector(block), scalar.llvm, f"<{block} x i1>"
    with f.loop(0, size, block) as element:
        left = _mask(f, block, f.let(f"sub i64 {size}, {element}"), scalar)
        load = f"call {lanes} @llvm.masked.load.{scalar.suffix(block)}.p0"
        options = f"i32 {scalar.bytes}, {mask} {left}, {lanes} zeroinitializer"
        value = f.let(f"{load}(ptr {f.at(source, element, number)}, {options})")
        store = f"call void @llvm.masked.store.{scalar.suffix(block)}.p0"
        f.do(f"{store}({lanes} {value}, ptr {f.at('%area', element, number)}, i32 {scalar.bytes}, {mask} {left})")


def take(width: int, block: int, scalar: Format) -> str:
    """User array to lanes, by strides, or by transposes in registers if samples are contiguous."""
    number_type, size_of = scalar.llvm, scalar.bytes
    f = FunctionWriter(f"define internal void @take{_SIGNATURE}")
    core = Core(f, "%operand", "%steps", scalar)
    pointers = _lane_pointers(f, width)
    if width == 1:
        with f.returning_when(core.contiguous()):
            _copy(f, pointers[0], core.size, block, scalar)
        with core.each() as (number, offset):
            value = f.let(f"load {number_type}, ptr {f.at(pointers[0], offset)}, align {size_of}")
            f.do(f"store {number_type} {value}, ptr {f.at('%area', number, number_type)}, align {size_of}")
        return f.text()

    lanes, align = scalar.vector(width), scalar.bytes * width
    with f.returning_when(core.contiguous()):
        whole = f.let(f"and i64 {core.size}, {-width}")
        with f.loop(0, whole, width) as element:
            rows = [f.let(f"load {lanes}, ptr {f.at(p, element, number_type)}, align {size_of}") for p in pointers]
            for k, column in enumerate(transpose(f, rows, scalar)):
                slot = f.at("%area", f.let(f"add i64 {element}, {k}"), lanes)
                f.do(f"store {lanes} {column}, ptr {slot}, align {align}")
        rest = f.let(f"sub i64 {core.size}, {whole}")

        def take_rest(length: int) -> list[str]:
            # rows beyond the operand are garbage, in memory that the next operand overwrites or in the padding
            short, mask = scalar.vector(length), _mask(f, length, rest, scalar)
            load = f"call {short} @llvm.masked.load.{scalar.suffix(length)}.p0"
            options = f"i32 {size_of}, <{length} x i1> {mask}, {short} zeroinitializer"
            return [f.let(f"{load}(ptr {f.at(p, whole, number_type)}, {options})") for p in pointers]

        def store_columns(columns: list[str]) -> None:
            for k, column in enumerate(columns):
                slot = f.at("%area", f.let(f"add i64 {whole}, {k}"), lanes)
                f.do(f"store {lanes} {column}, ptr {slot}, align {align}")

        piece = piece_of(scalar)
        with f.returning_when(f.let(f"icmp ugt i64 {rest}, {piece if piece < width else 0}")):
            store_columns(transpose(f, take_rest(width), scalar)[:-1])
        if piece < width:
            with f.when(f.let(f"icmp ne i64 {rest}, 0")):
                rows = take_rest(piece)
                together = [joined(f, rows[k::piece], scalar) for k in range(piece)]
                store_columns(transpose_pieces(f, together, width, scalar))
    with core.each() as (number, offset):
        vector = "poison"
        for lane, pointer in enumerate(pointers):
            value = f.let(f"load {number_type}, ptr {f.at(pointer, offset)}, align {size_of}")
            vector = f.let(f"insertelement {lanes} {vector}, {number_type} {value}, i64 {lane}")
        f.do(f"store {lanes} {vector}, ptr {f.at('%area', number, lanes)}, align {align}")
    return f.text()


def put(width: int, scalar: Format) -> str:
    """Lanes to user array, likewise."""
    number_type, size_of = scalar.llvm, scalar.bytes
    f = FunctionWriter(f"define internal void @put{_SIGNATURE}")
    core = Core(f, "%operand", "%steps", scalar)
    pointers = _lane_pointers(f, width)
    if width == 1:
        with core.each() as (number, offset):
            value = f.let(f"load {number_type}, ptr {f.at('%area', number, number_type)}, align {size_of}")
            f.do(f"store {number_type} {value}, ptr {f.at(pointers[0], offset)}, align {size_of}")
        return f.text()

    lanes, align = scalar.vector(width), scalar.bytes * width
    with f.returning_when(core.contiguous()):
        whole = f.let(f"and i64 {core.size}, {-width}")

        def columns(element: str, count: int) -> list[str]:
            slots = [f.at("%area", f.let(f"add i64 {element}, {k}"), lanes) for k in range(count)]
            return [f.let(f"load {lanes}, ptr {slot}, align {align}") for slot in slots]

        def rows(element: str) -> list[str]:
            return transpose(f, columns(element, width), scalar)

        with f.loop(0, whole, width) as element:
            for pointer, row in zip(pointers, rows(element), strict=True):
                f.do(f"store {lanes} {row}, ptr {f.at(pointer, element, number_type)}, align {size_of}")
        rest = f.let(f"sub i64 {core.size}, {whole}")

        def put_rest(length: int, found: list[str]) -> None:
            short, mask = scalar.vector(length), _mask(f, length, rest, scalar)
            store = f"call void @llvm.masked.store.{scalar.suffix(length)}.p0"
            for pointer, row in zip(pointers, found, strict=True):
                target = f.at(pointer, whole, number_type)
                f.do(f"{store}({short} {row}, ptr {target}, i32 {size_of}, <{length} x i1> {mask})")

        piece = piece_of(scalar)
        with f.returning_when(f.let(f"icmp ugt i64 {rest}, {piece if piece < width else 0}")):
            put_rest(width, rows(whole))
        if piece < width:
            with f.when(f.let(f"icmp ne i64 {rest}, 0")):
                together = transpose_pieces(f, columns(whole, piece), width, scalar)
                apart = [pieces_of(f, vector, width, scalar) for vector in together]
                put_rest(piece, [row for rows_of_piece in zip(*apart, strict=True) for row in rows_of_piece])
    with core.each() as (number, offset):
        vector = f.let(f"load {lanes}, ptr {f.at('%area', number, lanes)}, align {align}")
        for lane, pointer in enumerate(pointers):
            value = f.let(f"extractelement {lanes} {vector}, i64 {lane}")
            f.do(f"store {number_type} {value}, ptr {f.at(pointer, offset)}, align {size_of}")
    return f.text()


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
            f.do(f"call void @llvm.prefetch.p0(ptr {f.at('%base', place)}, i32 0, i32 3, i32 1)")
    return f.text()


def mirror_lanes(width: int, scalar: Format) -> str:
    """Mirror a square of n x n lane vectors."""
    lanes, align = scalar.vector(width), scalar.bytes * width
    f = FunctionWriter("define internal void @mirror(ptr %area, i64 %n)")
    with f.loop(0, "%n") as i:
        start = f.let(f"add i64 {i}, 1")
        row = f.let(f"mul i64 {i}, %n")
        with f.loop(start, "%n") as j:
            upper = f.at("%area", f.let(f"add i64 {row}, {j}"), lanes)
            lower = f.at("%area", f.let(f"add i64 {f.let(f'mul i64 {j}, %n')}, {i}"), lanes)
            f.do(f"store {lanes} {f.let(f'load {lanes}, ptr {upper}, align {align}')}, ptr {lower}, align {align}")
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
