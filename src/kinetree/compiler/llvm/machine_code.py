"""Object code from LLVM assembly, and the processor that it is compiled for.

LLVM may not change results: there are no fast-math flags, no contraction and no vectoriser that could reassociate.
Fused multiply-adds are explicit. So a program gives the same bits on every processor and at every lane width.

Linux, macOS and Windows report the size of the last-level cache; the functions for the latter two are tested against
simulated systems only.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.concurrency import ForkSafeLock, LLVMLock

if TYPE_CHECKING:
    import llvmlite.binding


# What macOS calls the caches of its fastest cores.
_SYSCTL = (b"hw.perflevel0.l2cachesize", b"hw.l2cachesize", b"hw.l3cachesize")

# Entries of GetLogicalProcessorInformation: cores, a kind, and for caches level, associativity, line size and size.
_ENTRY = struct.Struct("<Qi4xBBHIi4x")
_CACHE = 2


def last_level_cache() -> int | None:
    """Bytes of the largest cache; None if the system does not say."""
    read = {"darwin": _macos, "win32": _windows}.get(sys.platform, _linux)
    try:
        return max(read(), default=0) or None
    except (OSError, AttributeError):  # no such file, library or function
        return None


def _linux() -> list[int]:
    texts = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return [int(text[:-1]) << 10 for text in texts if text[:-1].isdigit() and text.endswith("K")]


def _macos() -> list[int]:
    read, sizes = ctypes.CDLL(None).sysctlbyname, []
    for name in _SYSCTL:
        value, length = ctypes.c_uint64(0), ctypes.c_size_t(8)
        if read(name, ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)) == 0:
            sizes.append(value.value)
    return sizes


def _windows() -> list[int]:
    read, length = ctypes.CDLL("kernel32").GetLogicalProcessorInformation, ctypes.c_uint32(0)
    read(None, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    if not read(buffer, ctypes.byref(length)):
        return []
    whole = buffer.raw[: length.value - length.value % _ENTRY.size]
    return [entry[5] for entry in _ENTRY.iter_unpack(whole) if entry[1] == _CACHE]


#: Doubles in a vector register.
WIDTHS = (1, 2, 4, 8)

_LAST_CACHE = 16 << 20

#: Doubles in a vector register of some x86-64 processors by name; those with four or more have AVX2.
_NAMED = {"x86-64": 2, "haswell": 4, "skylake-avx512": 8, "znver4": 8}


@dataclass(frozen=True)
class Processor:
    """A processor, as LLVM describes it."""

    triple: str  # architecture, vendor and system, e.g. "x86_64-unknown-linux-gnu"
    cpu: str  # LLVM's name of the processor
    features: str  # LLVM's list of features; empty for those implied by the name
    width: int  # doubles in a vector register
    optimizes: bool = True  # whether LLVM optimises code for it

    @property
    def is_x86(self) -> bool:
        """Whether this is an x86-64 processor."""
        return self.triple.startswith(("x86_64", "amd64"))

    @property
    def is_arm(self) -> bool:
        """Whether this is a 64-bit ARM processor."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def has_avx2(self) -> bool:
        """Whether this is an x86-64 processor with AVX2."""
        if not self.features:
            return _NAMED.get(self.cpu, 0) >= 4
        return self.is_x86 and "+avx2" in self.features.split(",")

    def machine(self, level: int = 2) -> llvmlite.binding.TargetMachine:
        """LLVM's code generator for position-independent code, which optimises at a level from 0 to 3."""
        target = llvm().Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel="small"
        )

    def lanes(self, scalar: Format) -> int:
        """Numbers in a vector register: the largest lane width of batches."""
        return self.width * FLOAT64.bytes // scalar.bytes

    def with_width(self, width: int) -> Processor:
        """The same processor with vector registers of another number of doubles, one of 1, 2, 4, 8."""
        if width not in WIDTHS:
            raise ValueError(f"lane width {width} is not one of {WIDTHS}")
        return replace(self, width=width)


@lru_cache(maxsize=1)
def host() -> Processor:
    """The processor this process runs on; with `KINETREE_NO_OPTIMIZATION=1`, code for it stays unoptimised."""
    features = llvm().get_host_cpu_features()
    triple = llvm().get_process_triple()
    width = 8 if features.get("avx512f") else 4 if features.get("avx") else 2
    optimizes = os.environ.get("KINETREE_NO_OPTIMIZATION", "") in ("", "0")
    return Processor(triple, llvm().get_host_cpu_name(), features.flatten(), width, optimizes)


def named(cpu: str) -> Processor:
    """Another x86-64 processor: "x86-64", "haswell", "skylake-avx512" or "znver4"."""
    return Processor(host().triple, cpu, "", _NAMED[cpu])


_override: ContextVar[Processor | None] = ContextVar("kinetree_target", default=None)


def current() -> Processor:
    """The processor to compile for: the host, unless changed by `use`."""
    return _override.get() or host()


@contextmanager
def use(target: Processor) -> Iterator[None]:
    """Compile for `target` inside a `with` block."""
    token = _override.set(target)
    try:
        yield
    finally:
        _override.reset(token)


@lru_cache(maxsize=1)
def cache_bytes() -> int:
    """The largest scratch memory for which lanes pay off: half of the last-level cache, which cores share.

    Measured on chains of 50 to 10,000 bodies: up to this size, eight lanes are 2 to 4 times as fast as one sample at a
    time (less for M⁻¹, which handles several columns at once anyway); beyond it, they are slower than four. If the
    system does not report the size, 16 MB are assumed.
    """
    return (last_level_cache() or _LAST_CACHE) // 2


_importing = ForkSafeLock()


@lru_cache(maxsize=1)
def llvm() -> Any:
    """llvmlite's binding to LLVM, imported on first use and initialised for this machine."""
    with _importing:
        import llvmlite.binding

        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


def compile_text(text: str, target: Processor) -> bytes:
    """Compile a module in LLVM's assembly language to the bytes of a relocatable object file."""
    return _emitted(*optimized(text, target)) if target.optimizes else compile_unoptimized(text, target)


def compile_unoptimized(text: str, target: Processor) -> bytes:
    """The same without optimisation, four times as fast. The code gives the same bits."""
    return _emitted(*_module(text, target, ("always_inliner",), level=0))


def optimized(text: str, target: Processor) -> tuple[llvmlite.binding.ModuleRef, llvmlite.binding.TargetMachine]:
    """The module after inlining, and the code generator.

    Common subexpressions, constants and loop invariants are handled before LLVM sees a kernel (`simplify`, `hoist`);
    drivers and fast calls are written without any. The passes of -O2 would triple the time to compile the latter,
    double that of kernels, and make nothing faster.
    """
    return _module(text, target, ("always_inliner", "sroa", "simplify_cfg"), level=2)


def _module(
    text: str, target: Processor, passes: Sequence[str], level: int
) -> tuple[llvmlite.binding.ModuleRef, llvmlite.binding.TargetMachine]:
    """The module after some passes, in a context of its own, and the code generator."""
    machine = target.machine(level)
    module = llvm().parse_assembly(_fenced(text) if target.is_arm else text, llvm().create_context())
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    manager = llvm().create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, llvm().create_pass_builder(machine, llvm().create_pipeline_tuning_options()))
    return module, machine


def _emitted(module: llvmlite.binding.ModuleRef, machine: llvmlite.binding.TargetMachine) -> bytes:
    """`machine.emit_object(module)`, without the lock that llvmlite holds in all of its functions.

    Most of the time of a compilation is spent here, and LLVM can do it for several modules at once if they belong to
    different contexts.
    """
    ffi = llvm().ffi
    emit = getattr(ffi.lib, "_lib", ffi.lib).LLVMPY_TargetMachineEmitToMemory
    with LLVMLock():
        with ffi.OutputString() as error:
            buffer = emit(machine, module, 1, error)
            if not buffer:
                raise RuntimeError(str(error))
        try:
            return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _fenced(text: str) -> str:
    """The assembly with negations that LLVM cannot merge with their operand.

    ARM's `fnmadd` computes −x y − z. LLVM also uses it for −(x y + z), which differs in the sign of an exact zero.
    """
    types: set[str] = set()

    def fenced(match: re.Match[str]) -> str:
        name, kind, value = match.groups()
        types.add(kind)
        return f"  {name}.fenced = call {kind} {_fence(kind)}({kind} {value})\n  {name} = fneg {kind} {name}.fenced"

    text = _NEGATION.sub(fenced, text)
    return "\n".join([text, *(f"declare {kind} {_fence(kind)}({kind})" for kind in sorted(types))])


_NEGATION = re.compile(r"^ *(%[\w.]+) = fneg (double|float|<\d+ x (?:double|float)>) (%[\w.]+)$", re.MULTILINE)


def _fence(kind: str) -> str:
    lanes = f"v{kind[1:].partition(' ')[0]}" if kind.startswith("<") else ""
    return f"@llvm.arithmetic.fence.{lanes}{'f64' if 'double' in kind else 'f32'}"
