"""The inner loop between NumPy's arrays and a kernel, as LLVM assembly; the same for all algorithms.

NumPy calls `drive(args, dims, steps, plan)` with the arrays' addresses, the number of samples and all strides. `drive`
copies W samples at a time into lane-interleaved scratch memory, calls the kernel and copies the results back. All
inputs of a block are read before its first result is written, so results may overwrite inputs. If fewer than W samples
are left, the last one fills the unused lanes, which compute the same bits and are stored to the same place.

It runs in IEEE default arithmetic (`runtime/driver.py`). `runtime/copying.py` has the functions that copy samples; the
plan is described in `operands.py`.

IEEE default arithmetic around kernels, as LLVM assembly.

Even if the thread flushes subnormal numbers to zero, rounds upwards or traps, kernels run under IEEE default arithmetic
and leave settings and flags unchanged.

    standard  switches to IEEE default arithmetic; returns the previous settings and exception flags
    restore   restores them

NumPy generalised ufuncs around compiled code.

NumPy's C function that creates ufuncs is reached with ctypes, through the table that NumPy exports to C extensions. A
ufunc keeps everything it points to (code, plan, tables) alive in its own `__dict__`.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.llvm.machine_code import Processor
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime import copying
from kinetree.runtime import copying as interleaving
from kinetree.runtime.buffers import pool_text
from kinetree.runtime.copying import ALIGNMENT, CoreStrides, declarations, masked_lengths
from kinetree.runtime.operands import HEADER_WORDS, OPERAND_WORDS, Binding, Flag, OperandWord, PlanWord, plan
from kinetree.runtime.tiered import Library

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
    """LLVM IR of `drive` for kernels of a lane width.

    Args:
        width: Samples per call of the kernel, W = 1, 2, 4, 8 or 16.
        target: The processor; its vector width is used for copies that do not involve lanes.
        scalar: The format of all numbers.
    """
    parts = _copies_of_samples(width, scalar) if width > 1 else _copies_of_one(max(2, target.lanes(scalar)), scalar)
    parts += [_drive(width, scalar), arithmetic_text(target), pool_text("linux" in target.triple)]
    parts += [
        "declare ptr @malloc(i64)",
        "declare void @free(ptr)",
        "declare i32 @PyGILState_Ensure()",
        "declare void @PyGILState_Release(i32)",
        "declare ptr @PyErr_NoMemory()",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    ]
    return "\n".join(parts)


def _copies_of_one(block: int, scalar: Format) -> list[str]:
    """Functions that copy single samples."""
    functions = [copying.take(block, scalar), copying.put(scalar), copying.mirror(block, scalar)]
    return [*functions, *declarations(block, scalar), "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]


def _copies_of_samples(width: int, scalar: Format) -> list[str]:
    """Functions that copy samples to lanes and back."""
    made = (
        interleaving.interleave,
        interleaving.take_strided,
        interleaving.deinterleave,
        interleaving.put_strided,
        interleaving.fetch,
    )
    parts = [make(width, scalar) for make in made]
    for length in masked_lengths(width, scalar):
        parts += declarations(length, scalar)
    return [*parts, "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"]


def _drive(width: int, scalar: Format) -> str:
    f = FunctionWriter("define void @drive(ptr %args, ptr %dims, ptr %steps, ptr %plan)")
    inputs, outputs = f.word("%plan", PlanWord.INPUTS), f.word("%plan", PlanWord.OUTPUTS)
    outs = f.let(f"alloca ptr, i64 {outputs}, align 8")
    samples = f.word("%dims")
    with f.returning_when(f.let(f"icmp slt i64 {samples}, 1")):
        pass

    size = f.let(f"add i64 {f.word('%plan', PlanWord.SCRATCH_BYTES)}, {ALIGNMENT}")
    slots = f.address("%plan", PlanWord.POOL)
    place = f.let("alloca ptr, align 8")
    large = f.let(f"icmp ugt i64 {size}, {_ON_STACK}")
    with f.when(f.let(f"xor i1 {large}, true")):
        f.do(f"store ptr {f.let(f'alloca i8, i64 {size}, align {ALIGNMENT}')}, ptr {place}, align 8")
    with f.when(large):
        f.do(f"store ptr {f.let(f'call ptr @grab(ptr {slots}, i64 {size})')}, ptr {place}, align 8")
    memory = f.address(place)
    with f.returning_when(f.let(f"icmp eq ptr {memory}, null")):
        state = f.let("call i32 @PyGILState_Ensure()")
        f.let("call ptr @PyErr_NoMemory()")
        f.do(f"call void @PyGILState_Release(i32 {state})")
    found = f.let("call i64 @standard()")
    # distance to the next multiple of the alignment
    number = f.let(f"ptrtoint ptr {memory} to i64")
    scratch = f.at(memory, f.let(f"and i64 {f.let(f'sub i64 0, {number}')}, {ALIGNMENT - 1}"))
    workspace = f.at(scratch, f.word("%plan", PlanWord.WORKSPACE))

    kernel = f.address("%plan", PlanWord.KERNEL)
    parameters, tables = f.address("%plan", PlanWord.PARAMETERS), f.address("%plan", PlanWord.TABLES)
    operands = f.at("%plan", HEADER_WORDS, "i64")
    last = f.let(f"sub i64 {samples}, 1")

    def operand(k: str) -> str:
        return f.at(operands, f.let(f"mul i64 {k}, {OPERAND_WORDS}"), "i64")

    def has(descriptor: str, flag: Flag) -> str:
        return f.let(f"icmp ne i64 {f.let(f'and i64 {f.word(descriptor, OperandWord.FLAGS)}, {flag.value}')}, 0")

    def zero(descriptor: str, area: str) -> None:
        size = f.let(f"mul i64 {f.word(descriptor, OperandWord.SIZE)}, {scalar.bytes * width}")
        f.do(f"call void @llvm.memset.p0.i64(ptr align {scalar.bytes} {area}, i8 0, i64 {size}, i1 0)")

    if width > 1:
        # areas of lanes come first, so this is what all samples take, in units of a block's lanes
        operand_bytes = f.let(f"mul i64 {samples}, {f.word('%plan', PlanWord.WORKSPACE)}")
        distant = f.let(f"icmp ugt i64 {operand_bytes}, {_CACHED * width}")
        every = f.let(f"add i64 {inputs}, {outputs}")
        dense = f.let(f"alloca i1, i64 {every}, align 1")
        with f.loop(0, every) as k:
            f.do(f"store i1 {CoreStrides(f, operand(k), '%steps', scalar).contiguous()}, ptr {f.at(dense, k)}, align 1")
        with f.loop(0, outputs) as o:
            sink = operand(f.let(f"add i64 {o}, {inputs}"))
            with f.when(has(sink, Flag.ZEROED_ONCE)):
                zero(sink, f.at(scratch, f.word(sink, OperandWord.AREA)))

    def copy(function: str, k: str, area: str, first: str) -> None:
        """Call a function that copies the samples of an operand."""
        descriptor, base, outer = operand(k), f.address("%args", k), f.word("%steps", k)
        if width == 1:
            sample = f.at(base, f.let(f"mul i64 {first}, {outer}"))
            f.do(f"call void @{function}(ptr {area}, ptr {descriptor}, ptr {sample}, ptr %steps)")
            return
        offset = f.word(descriptor, OperandWord.PLACES)
        in_order = f.let(f"icmp eq i64 {offset}, 0")
        places = f.let(f"select i1 {in_order}, ptr null, ptr {f.at('%plan', offset)}")
        block = f"ptr {base}, i64 {outer}, i64 {first}, i64 {last}, ptr {places}, ptr %steps, i1 {distant}"
        contiguous = f.let(f"load i1, ptr {f.at(dense, k)}, align 1")
        for suffix, condition in ("", contiguous), ("_strided", f.let(f"xor i1 {contiguous}, true")):
            with f.when(condition):
                f.do(f"call void @{function}{suffix}(ptr {area}, ptr {descriptor}, {block})")

    def mirror(k: str, area: str) -> None:
        """Fill the lower triangles of a symmetric result."""
        sink = operand(k)
        with f.when(has(sink, Flag.SYMMETRIC)):
            n = f.word(sink, OperandWord.DIM + 2)
            square = f.let(f"mul i64 {n}, {n}")
            with f.loop(0, f.word(sink, OperandWord.DIM)) as matrix:
                start = f.at(area, f.let(f"mul i64 {matrix}, {square}"), scalar.llvm)
                f.do(f"call void @mirror(ptr {start}, i64 {n})")

    with f.loop(0, samples, width) as first:
        with f.loop(0, inputs) as k:
            copy("take", k, f.at(scratch, f.word(operand(k), OperandWord.AREA)), first)

        with f.loop(0, outputs) as o:
            k = f.let(f"add i64 {o}, {inputs}")
            sink = operand(k)
            area = f.at(scratch, f.word(sink, OperandWord.AREA))
            if width == 1:
                # a contiguous result is computed in place
                user = f.at(f.address("%args", k), f.let(f"mul i64 {first}, {f.word('%steps', k)}"))
                area = f.let(f"select i1 {CoreStrides(f, sink, '%steps', scalar).contiguous()}, ptr {user}, ptr {area}")
            f.do(f"store ptr {area}, ptr {f.at(outs, o, 'ptr')}, align 8")
            with f.when(has(sink, Flag.ZEROED)):
                zero(sink, area)

        if width > 1:
            # while the kernel runs: its results' lines, and the inputs of the next block
            with f.when(distant):
                following = f.let(f"add i64 {first}, {width}")
                for start, stop, block in (("0", inputs, following), (inputs, every, first)):
                    with f.loop(start, stop) as k:
                        sample = f"ptr {f.address('%args', k)}, i64 {f.word('%steps', k)}, i64 {block}, i64 {samples}"
                        f.do(f"call void @fetch(ptr {operand(k)}, {sample})")

        pointers = ", ".join(f"ptr {p}" for p in (workspace, parameters, tables, scratch, outs))
        f.do(f"call void {kernel}({pointers})")

        with f.loop(0, outputs) as o:
            k = f.let(f"add i64 {o}, {inputs}")
            area = f.address(outs, o)
            if width > 1:
                copy("put", k, area, first)
            else:
                mirror(k, area)
                staged = f.at(scratch, f.word(operand(k), OperandWord.AREA))
                with f.when(f.let(f"icmp eq ptr {area}, {staged}")):
                    copy("put", k, area, first)

    f.do(f"call void @restore(i64 {found})")
    with f.when(large):
        f.do(f"call void @drop(ptr {slots}, ptr {memory}, i64 {size})")
    return f.text()


_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31  # position in NumPy's ufunc table, part of its binary interface
_NUMPY_ABI = 2  # positions in the tables are fixed for this version
_NO_IDENTITY = -1


def make_gufunc(binding: Binding, driver: Library, kernel: Library, width: int) -> np.ufunc:
    """A ufunc that runs a kernel.

    Args:
        binding: The kernel's operands, none of which has an axis of length 0.
        driver: Library with `drive` for this width.
        kernel: Library with `kernel` for this width.
        width: Lane width W.
    """
    sides = (binding.inputs, binding.outputs)
    signature = "->".join(",".join("(" + ",".join(map(str, o.shape)) + ")" for o in side) for side in sides)
    words = plan(binding, kernel.address("kernel"), width)
    types = bytes([binding.scalar.number] * len(binding.operands))
    ufunc = _make(driver.address("drive"), words.ctypes.data, types, len(sides[0]), binding.name, signature)
    vars(ufunc)["kinetree_owned"] = (binding, driver, kernel, words)
    return ufunc


def _make(function: int, data: int, kinds: bytes, inputs: int, name: str, signature: str) -> np.ufunc:
    """Call NumPy's constructor. The ufunc owns the buffers created here; the caller attaches everything else."""
    functions = (ctypes.c_void_p * 1)(function)
    datas = (ctypes.c_void_p * 1)(data)
    types, outputs = ctypes.create_string_buffer(kinds), len(kinds) - inputs
    label, text, shape = (ctypes.create_string_buffer(s.encode()) for s in (name, "", signature))
    ufunc = cast(
        np.ufunc,
        _constructor()(functions, datas, types, 1, inputs, outputs, _NO_IDENTITY, label, text, 0, shape),
    )
    vars(ufunc)["kinetree_buffers"] = (functions, datas, types, label, text, shape)
    return ufunc


@lru_cache(maxsize=1)
def _constructor() -> Any:
    if _multiarray_umath._get_ndarray_c_version() >> 24 != _NUMPY_ABI:
        raise ImportError(f"Kinetree needs NumPy 2's binary interface; that of NumPy {np.__version__} is different")
    table = _c_table(_multiarray_umath._UFUNC_API)
    arrays, text, number = ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, arrays, arrays, text, number, number, number, number, text, text, number, text
    )
    return prototype(table[_FROM_FUNC_AND_DATA_AND_SIGNATURE])


def array_functions() -> Any:
    """The addresses of NumPy's functions of arrays."""
    return _c_table(_multiarray_umath._ARRAY_API)


def _c_table(capsule: object) -> Any:
    """The array of addresses that a C extension exports in a capsule."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))
