"""IEEE default arithmetic around kernels, as LLVM assembly.

Even if the thread flushes subnormal numbers to zero, rounds upwards or traps, kernels run under IEEE default arithmetic
and leave settings and flags unchanged.

    standard  switches to IEEE default arithmetic; returns the previous settings and exception flags
    restore   restores them
"""

from __future__ import annotations

from kinetree.engines.llvm.target import Processor
from kinetree.engines.llvm.writer import FunctionWriter

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
