"""The inner loop between arrays and a kernel, as LLVM assembly; the same for all algorithms.

`drive(args, dims, steps, plan)` takes the arrays' addresses, the number of samples, and the distance from sample to
sample of each array. It copies W samples at a time into lane-interleaved scratch memory (`runtime/copying.py`), calls
the kernel and copies the results back; those of single samples are computed where they belong. All inputs of a block
are read before its first result is written, so results may overwrite inputs of the same block. If fewer than W samples
are left, the last one fills the unused lanes, which compute the same bits and are stored to the same place. The plan is
described in `operands.py`. `drive` returns 0, or 1 if there is no memory; `drive_in` has its scratch memory from the
caller.

Even if the thread flushes subnormal numbers to zero, rounds upwards or traps, kernels run under IEEE default arithmetic
and leave settings and flags unchanged:

    standard  switches to IEEE default arithmetic; returns the previous settings and exception flags
    restore   restores them
"""

from __future__ import annotations

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.llvm.machine_code import Processor
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime.copying import (
    ALIGNMENT,
    declarations,
    deinterleave,
    fetch,
    interleave,
    masked_lengths,
    mirror,
    take,
)
from kinetree.runtime.operands import HEADER_WORDS, OPERAND_WORDS, OperandWord, PlanWord, Zeroed

# On x86, settings and flags share one register; the default is all exceptions masked, rounding to nearest, no flushing.
# The low six bits are flags. On ARM, settings are in FPCR, with default zero, and flags in FPSR.
_MXCSR_DEFAULT = 0x1F80
_MXCSR_FLAGS = 0x3F


def arithmetic_text(target: Processor) -> str:
    """The functions for a processor, with the intrinsics that they call."""
    parts = [_standard(target), _restore(target)]
    if target.is_x86:
        parts += ["declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"]
    elif target.is_arm:
        for register in ("fpcr", "fpsr"):
            parts += [f"declare i64 @llvm.aarch64.get.{register}()", f"declare void @llvm.aarch64.set.{register}(i64)"]
    return "\n".join(parts)


def _standard(target: Processor) -> str:
    f = FunctionWriter("define i64 @standard()")
    if target.is_x86:
        register = f.let("alloca i32, align 4")
        f.do(f"call void @llvm.x86.sse.stmxcsr(ptr {register})")
        found = f.let(f"load i32, ptr {register}, align 4")
        settings = f.let(f"and i32 {found}, {~_MXCSR_FLAGS}")
        with f.when(f.let(f"icmp ne i32 {settings}, {_MXCSR_DEFAULT}")):  # reading is cheap, writing is not
            f.do(f"store i32 {_MXCSR_DEFAULT}, ptr {register}, align 4")
            f.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {register})")
        return f.text(f"i64 {f.let(f'zext i32 {found} to i64')}")
    if target.is_arm:
        settings, flags = f.let("call i64 @llvm.aarch64.get.fpcr()"), f.let("call i64 @llvm.aarch64.get.fpsr()")
        with f.when(f.let(f"icmp ne i64 {settings}, 0")):
            f.do("call void @llvm.aarch64.set.fpcr(i64 0)")
        both = f.let(f"or i64 {f.let(f'shl i64 {settings}, 32')}, {flags}")
        return f.text(f"i64 {both}")
    return f.text("i64 0")


def _restore(target: Processor) -> str:
    f = FunctionWriter("define void @restore(i64 %found)")
    if target.is_x86:
        register = f.let("alloca i32, align 4")
        f.do(f"store i32 {f.let('trunc i64 %found to i32')}, ptr {register}, align 4")
        f.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {register})")
    elif target.is_arm:
        settings = f.let("lshr i64 %found, 32")
        with f.when(f.let(f"icmp ne i64 {settings}, 0")):
            f.do(f"call void @llvm.aarch64.set.fpcr(i64 {settings})")
        f.do(f"call void @llvm.aarch64.set.fpsr(i64 {f.let(f'and i64 %found, {0xFFFFFFFF}')})")
    return f.text()


# Bytes of scratch that fit on the stack of any thread; allocating them would take as long as a small robot's kernel.
_ON_STACK = 1 << 15

# Bytes of operands that stay in a cache; the processor fetches those ahead by itself as soon as it needs them.
_CACHED = 1 << 24


def driver_text(width: int, target: Processor, scalar: Format = FLOAT64) -> str:
    """LLVM assembly of `drive` for kernels of W lanes; the vector width of the target is used for single samples."""
    if width > 1:
        parts = [make(width, scalar) for make in (interleave, deinterleave, fetch)]
        parts += ["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"]
        masked = masked_lengths(width, scalar)
    else:
        masked = [max(2, target.lanes(scalar))]
        parts = [take(masked[0], scalar), mirror(masked[0], scalar)]
        parts += ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    parts += [declaration for length in masked for declaration in declarations(length, scalar)]
    parts += [_drive(), _drive_in(width, scalar), arithmetic_text(target)]
    parts += ["declare ptr @malloc(i64)", "declare void @free(ptr)"]
    return "\n".join([*parts, "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"])


def _drive() -> str:
    f = FunctionWriter("define i64 @drive(ptr %args, ptr %dims, ptr %steps, ptr %plan)")
    with f.returning_when(f.let(f"icmp slt i64 {f.word('%dims')}, 1"), "i64 0"):
        pass
    size = f.let(f"add i64 {f.word('%plan', PlanWord.SCRATCH_BYTES)}, {ALIGNMENT}")
    place = f.let("alloca ptr, align 8")
    large = f.let(f"icmp ugt i64 {size}, {_ON_STACK}")
    with f.when(f.let(f"xor i1 {large}, true")):
        f.do(f"store ptr {f.let(f'alloca i8, i64 {size}, align {ALIGNMENT}')}, ptr {place}, align 8")
    with f.when(large):
        f.do(f"store ptr {f.let(f'call ptr @malloc(i64 {size})')}, ptr {place}, align 8")
    memory = f.address(place)
    with f.returning_when(f.let(f"icmp eq ptr {memory}, null"), "i64 1"):
        pass
    f.do(f"call void @drive_in(ptr %args, ptr %dims, ptr %steps, ptr %plan, ptr {memory})")
    with f.when(large):
        f.do(f"call void @free(ptr {memory})")
    return f.text("i64 0")


def _drive_in(width: int, scalar: Format) -> str:
    f = FunctionWriter("define void @drive_in(ptr %args, ptr %dims, ptr %steps, ptr %plan, ptr %memory)")
    inputs, outputs = f.word("%plan", PlanWord.INPUTS), f.word("%plan", PlanWord.OUTPUTS)
    every = f.let(f"add i64 {inputs}, {outputs}")
    outs = f.let(f"alloca ptr, i64 {outputs}, align 8")
    samples = f.word("%dims")
    found = f.let("call i64 @standard()")
    # distance to the next multiple of the alignment
    number = f.let("ptrtoint ptr %memory to i64")
    scratch = f.at("%memory", f.let(f"and i64 {f.let(f'sub i64 0, {number}')}, {ALIGNMENT - 1}"))
    workspace = f.at(scratch, f.word("%plan", PlanWord.WORKSPACE))

    kernel = f.address("%plan", PlanWord.KERNEL)
    parameters, tables = f.address("%plan", PlanWord.PARAMETERS), f.address("%plan", PlanWord.TABLES)
    operands = f.at("%plan", HEADER_WORDS, "i64")
    last = f.let(f"sub i64 {samples}, 1")

    def operand(k: str) -> str:
        return f.at(operands, f.let(f"mul i64 {k}, {OPERAND_WORDS}"), "i64")

    def area_of(descriptor: str) -> str:
        return f.at(scratch, f.word(descriptor, OperandWord.AREA))

    def zero(descriptor: str, area: str, when: Zeroed) -> None:
        with f.when(f.let(f"icmp eq i64 {f.word(descriptor, OperandWord.ZEROED)}, {when.value}")):
            size = f.let(f"mul i64 {f.word(descriptor, OperandWord.SIZE)}, {scalar.bytes * width}")
            f.do(f"call void @llvm.memset.p0.i64(ptr align {scalar.bytes} {area}, i8 0, i64 {size}, i1 0)")

    if width > 1:
        # areas of lanes come first, so this is what all samples take, in units of a block's lanes
        operand_bytes = f.let(f"mul i64 {samples}, {f.word('%plan', PlanWord.WORKSPACE)}")
        distant = f.let(f"icmp ugt i64 {operand_bytes}, {_CACHED * width}")
        with f.loop(inputs, every) as k:
            zero(operand(k), area_of(operand(k)), Zeroed.ONCE)

    def sample(k: str, first: str) -> str:
        return f.at(f.address("%args", k), f.let(f"mul i64 {first}, {f.word('%steps', k)}"))

    def copy(function: str, k: str, first: str) -> None:
        """Call a function that copies the samples of an operand to or from its area."""
        descriptor = operand(k)
        area, offset = area_of(descriptor), f.word(descriptor, OperandWord.PLACES)
        in_order = f.let(f"icmp eq i64 {offset}, 0")
        places = f.let(f"select i1 {in_order}, ptr null, ptr {f.at('%plan', offset)}")
        array = f"ptr {f.address('%args', k)}, i64 {f.word('%steps', k)}, i64 {first}, i64 {last}"
        f.do(f"call void @{function}(ptr {area}, ptr {descriptor}, {array}, ptr {places}, i1 {distant})")

    def fill_lower_triangles(descriptor: str, matrices: str) -> None:
        n = f.word(descriptor, OperandWord.ROWS)
        with f.when(f.let(f"icmp ne i64 {n}, 0")):
            square = f.let(f"mul i64 {n}, {n}")
            with f.loop(0, f.let(f"udiv i64 {f.word(descriptor, OperandWord.SIZE)}, {square}")) as matrix:
                start = f.at(matrices, f.let(f"mul i64 {matrix}, {square}"), scalar.llvm)
                f.do(f"call void @mirror(ptr {start}, i64 {n})")

    with f.loop(0, samples, width) as first:
        with f.loop(0, inputs) as k:
            if width == 1:
                length = f.word(operand(k), OperandWord.SIZE)
                f.do(f"call void @take(ptr {area_of(operand(k))}, ptr {sample(k, first)}, i64 {length})")
            else:
                copy("take", k, first)

        with f.loop(0, outputs) as o:
            k = f.let(f"add i64 {o}, {inputs}")
            area = sample(k, first) if width == 1 else area_of(operand(k))
            f.do(f"store ptr {area}, ptr {f.at(outs, o, 'ptr')}, align 8")
            zero(operand(k), area, Zeroed.ALWAYS)

        if width > 1:
            # while the kernel runs: its results' lines, and the inputs of the next block
            with f.when(distant):
                following = f.let(f"add i64 {first}, {width}")
                for start, stop, block in (("0", inputs, following), (inputs, every, first)):
                    with f.loop(start, stop) as k:
                        array = f"ptr {f.address('%args', k)}, i64 {f.word('%steps', k)}, i64 {block}, i64 {samples}"
                        f.do(f"call void @fetch(ptr {operand(k)}, {array})")

        pointers = ", ".join(f"ptr {p}" for p in (workspace, parameters, tables, scratch, outs))
        f.do(f"call void {kernel}({pointers})")

        with f.loop(0, outputs) as o:
            k = f.let(f"add i64 {o}, {inputs}")
            if width == 1:
                fill_lower_triangles(operand(k), f.address(outs, o))
            else:
                copy("put", k, first)

    f.do(f"call void @restore(i64 {found})")
    return f.text()
