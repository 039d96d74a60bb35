"""The kernel of a sequence, as LLVM assembly; the same for all sequences.

It has the interface of every kernel, `void kernel(ws, params, tables, in, outs)`, and interprets the words of `tables`,
which `sequence.py` writes: calls of other kernels, copies, and loops around them.

    word 0        number of outputs
    word 1        position of the instruction to start with
    from word 2   instructions: `Code`, the position of the next one, then what the instruction needs

A *place* in lane-interleaved memory takes `PLACE_WORDS` words: the space (0 scratch memory, 1 inputs, 2 + i output i),
the offset of its first element, and for each level of loops how far it moves with the loop's index.
"""

from __future__ import annotations

from enum import IntEnum

from kinetree.engines.formats import FLOAT64, Format
from kinetree.engines.llvm.writer import FunctionWriter

#: Greatest number of loops inside each other.
LEVELS = 3
PLACE_WORDS = 2 + LEVELS
#: Most outputs of a sequence, and of a kernel that it calls.
MOST_OUTPUTS = 30


class Code(IntEnum):
    """Instructions, with the words that follow the first two."""

    STOP = 0
    # array of the kernel's addresses by log₂ of the lane width, parameters, tables, offset of its scratch memory,
    # offset of its inputs, number of outputs, their places
    CALL = 1
    COPY = 2  # number of elements, to, from
    FILL = 3  # number of elements, address of numbers, to
    ZERO = 4  # number of elements, to
    MIRROR = 5  # number of rows, square
    LOOP = 6  # level
    END = 7  # level, number of rounds, position of the loop's first instruction
    JUMP = 8  # nothing: the next instruction is elsewhere


def sequence_text(width: int, scalar: Format = FLOAT64) -> str:
    """LLVM IR of the kernel for a lane width and format."""
    declared = [
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    return "\n".join([_place(width, scalar), _kernel(width, scalar), *declared])


def _place(width: int, scalar: Format) -> str:
    f = FunctionWriter("define internal ptr @place(ptr %bases, ptr %indices, ptr %words)")
    base, element = f.address("%bases", f.word("%words", 0)), f.word("%words", 1)
    for level in range(LEVELS):
        step = f.let(f"mul i64 {f.word('%words', 2 + level)}, {f.word('%indices', level)}")
        element = f.let(f"add i64 {element}, {step}")
    return f.text(f"ptr {f.at(base, f.let(f'mul i64 {element}, {scalar.bytes * width}'))}")


def _kernel(width: int, scalar: Format) -> str:
    lanes, one, align = f"<{width} x {scalar.llvm}>", scalar.llvm, f"align {scalar.bytes}"
    f = FunctionWriter("define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)")
    bases = f.let(f"alloca ptr, i64 {2 + MOST_OUTPUTS}, align 8")
    outs = f.let(f"alloca ptr, i64 {MOST_OUTPUTS}, align 8")
    indices = f.let(f"alloca i64, i64 {LEVELS}, align 8")
    following = f.let("alloca i64, align 8")

    def put(kind: str, value: str | int, pointer: str, index: str | int = 0) -> None:
        f.do(f"store {kind} {value}, ptr {f.at(pointer, index, kind)}, align 8")

    def place(words: str, at: str | int) -> str:
        return f.let(f"call ptr @place(ptr {bases}, ptr {indices}, ptr {f.at(words, at, 'i64')})")

    def in_bytes(elements: str) -> str:
        return f.let(f"mul i64 {elements}, {scalar.bytes * width}")

    def copy(to: str, source: str, size: str) -> None:
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {align} {to}, ptr {align} {source}, i64 {size}, i1 0)")

    put("ptr", "%ws", bases)
    put("ptr", "%in", bases, 1)
    with f.loop(0, f.word("%tables")) as o:
        put("ptr", f.address("%outs", o), bases, f.let(f"add i64 {o}, 2"))
    for level in range(LEVELS):
        put("i64", 0, indices, level)

    with f.following(f.word("%tables", 1), following) as position:
        words = f.at("%tables", position, "i64")
        put("i64", f.word(words, 1), following)
        with f.switch(f.word(words), {code.value: code.value for code in Code}, exhaustive=False) as codes:
            for code in codes:
                if code == Code.STOP:
                    put("i64", -1, following)
                elif code == Code.CALL:
                    kernel = f.address(f.address(words, 2), width.bit_length() - 1)
                    parameters, tables = f.address(words, 3), f.address(words, 4)
                    scratch, inputs = (f.at("%ws", in_bytes(f.word(words, i))) for i in (5, 6))
                    with f.loop(0, f.word(words, 7)) as o:
                        at = f.let(f"add i64 {f.let(f'mul i64 {o}, {PLACE_WORDS}')}, 8")
                        put("ptr", place(words, at), outs, o)
                    pointers = ", ".join(f"ptr {p}" for p in (scratch, parameters, tables, inputs, outs))
                    f.do(f"call void {kernel}({pointers})")
                elif code == Code.COPY:
                    size, to, source = in_bytes(f.word(words, 2)), place(words, 3), place(words, 3 + PLACE_WORDS)
                    copy(to, source, size)
                elif code == Code.FILL:
                    numbers, to = f.address(words, 3), place(words, 4)
                    if width == 1:
                        copy(to, numbers, in_bytes(f.word(words, 2)))
                        continue
                    with f.loop(0, f.word(words, 2)) as element:
                        number = f.let(f"load {one}, ptr {f.at(numbers, element, one)}, {align}")
                        vector = f.let(f"insertelement {lanes} poison, {one} {number}, i64 0")
                        mask = f"<{width} x i32> zeroinitializer"
                        vector = f.let(f"shufflevector {lanes} {vector}, {lanes} poison, {mask}")
                        f.do(f"store {lanes} {vector}, ptr {f.at(to, element, lanes)}, {align}")
                elif code == Code.ZERO:
                    size, to = in_bytes(f.word(words, 2)), place(words, 3)
                    f.do(f"call void @llvm.memset.p0.i64(ptr {align} {to}, i8 0, i64 {size}, i1 0)")
                elif code == Code.MIRROR:
                    _mirror(f, lanes, align, f.word(words, 2), place(words, 3))
                elif code == Code.LOOP:
                    put("i64", 0, indices, f.word(words, 2))
                elif code == Code.END:
                    index = f.word(words, 2)
                    rounds = f.let(f"add i64 {f.word(indices, index)}, 1")
                    more = f.let(f"icmp slt i64 {rounds}, {f.word(words, 3)}")
                    put("i64", f.let(f"select i1 {more}, i64 {rounds}, i64 0"), indices, index)
                    target = f.let(f"select i1 {more}, i64 {f.word(words, 4)}, i64 {f.word(words, 1)}")
                    put("i64", target, following)
    return f.text()


def _mirror(f: FunctionWriter, lanes: str, align: str, n: str, square: str) -> None:
    """Copy the upper triangle to the lower one."""
    with f.loop(0, n) as i, f.loop(f.let(f"add i64 {i}, 1"), n) as j:
        upper = f.at(square, f.let(f"add i64 {f.let(f'mul i64 {i}, {n}')}, {j}"), lanes)
        lower = f.at(square, f.let(f"add i64 {f.let(f'mul i64 {j}, {n}')}, {i}"), lanes)
        f.do(f"store {lanes} {f.let(f'load {lanes}, ptr {upper}, {align}')}, ptr {lower}, {align}")
