"""The processor that code is compiled for: its name, features and vector width."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kinetree.engines.formats import FLOAT64, Format
from kinetree.engines.llvm.processor_cache import last_level_cache
from kinetree.engines.locks import Lock

if TYPE_CHECKING:
    import llvmlite.binding

#: Doubles in a vector register.
WIDTHS = (1, 2, 4, 8)

_LAST_CACHE = 16 << 20

#: Doubles in a vector register of some x86-64 processors by name; those with four or more have AVX2.
_NAMED = {"x86-64": 2, "haswell": 4, "skylake-avx512": 8, "znver4": 8}


@dataclass(frozen=True)
class Processor:
    """A processor, as LLVM describes it.

    Attributes:
        triple: Architecture, vendor and system, e.g. "x86_64-unknown-linux-gnu".
        cpu: LLVM's name of the processor.
        features: LLVM's list of features; empty for those implied by the processor's name.
        width: Doubles in a vector register.
    """

    triple: str
    cpu: str
    features: str
    width: int

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
        """LLVM's code generator for this processor, for position-independent code.

        Args:
            level: How much it optimises, from 0 to 3.
        """
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
    """The processor this process runs on."""
    features = llvm().get_host_cpu_features()
    triple = llvm().get_process_triple()
    width = 8 if features.get("avx512f") else 4 if features.get("avx") else 2
    return Processor(triple, llvm().get_host_cpu_name(), features.flatten(), width)


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


_importing = Lock()


@lru_cache(maxsize=1)
def llvm() -> Any:
    """llvmlite's binding to LLVM, imported on first use and initialised for this machine."""
    with _importing:
        import llvmlite.binding

        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding
