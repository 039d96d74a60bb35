"""Loads machine code into memory, in tiers: unoptimised code first, optimised code as soon as it is there.

LLVM takes a quarter of the time if it does not optimise, and the results have the same bits, but take two to four times
as long. So code that somebody waits for is first compiled in this way, unless it is short. Calls reach it through a
trampoline, which is retargeted to the optimised code when other threads have compiled that: from the next call, or the
next step of a rollout, on. Whoever is about to compute for long waits for optimised code instead (`ready_for`), and so
do `compile` methods, forks and the end of the process. There is one tier if there are no other threads, or with
`KINETREE_NO_TIERS=1`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any

from kinetree.compiler.llvm.machine_code import Processor, compile_text, compile_unoptimized, host, llvm
from kinetree.concurrency import ForkSafeLock
from kinetree.runtime import threads
from kinetree.runtime.threads import SharedComputation

if TYPE_CHECKING:
    import llvmlite.binding


# Functions that compiled code may call: the C library's memory functions, those that LLVM substitutes for intrinsics on
# processors without the instruction, and those of Python's C API that `gate` needs.
_LIBC = ("malloc", "free", "memcpy", "memset", "memmove")
_LIBM = ("fma", "fmaf", "rint", "floor", "ceil", "trunc", "nearbyint", "round", "sqrt")
# Code for macOS clears memory with `bzero`. Code for Windows touches large stack frames page by page with `__chkstk`,
# and refers to `_fltused` if it uses floating-point numbers. Untested there.
_SYSTEM = {"darwin": ("bzero", "sched_yield"), "win32": ("__chkstk",)}
_LIBRARIES: dict[str, tuple[str | None, ...]] = {"darwin": (None,), "win32": ("ucrtbase", "ntdll")}
_FLTUSED = ctypes.c_int(0x9875)
_PYTHON = (
    "PyErr_NoMemory",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyObject_VectorcallMethod",
    "PyTuple_GetItem",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)


class Library:
    """Object code (`compile_text`) loaded into memory for the lifetime of this object."""

    def __init__(self, objects: Sequence[bytes], *symbols: str) -> None:
        builder = llvm().JITLibraryBuilder()
        for code in objects:
            builder.add_object_img(code)
        for name, address in _externals().items():
            builder.import_symbol(name, address)
        for name in symbols:
            builder.export_symbol(name)
        with _linking:
            tracker = builder.link(*_linker())
        self._addresses = {name: int(tracker[name]) for name in symbols}
        weakref.finalize(self, tracker.close).atexit = False

    def address(self, symbol: str) -> int:
        """The address of a function, valid as long as this object is alive."""
        return self._addresses[symbol]


_linking = ForkSafeLock()
_linked = count()


def _linker() -> tuple[llvmlite.binding.LLJIT, str]:
    """A linker for the next library, and a name for it there.

    A linker takes ten times the memory of a kernel, so 32 libraries share one. It keeps a few kilobytes of each that is
    unloaded, until all of them are: code that comes and goes does not accumulate.
    """
    number = next(_linked)
    return _generation(number // 32), f"code{number}"


@lru_cache(maxsize=1)
def _generation(_: int) -> llvmlite.binding.LLJIT:
    return llvm().create_lljit_compiler(host().machine(), use_jit_link=True)


@lru_cache(maxsize=1)
def _externals() -> dict[str, int]:
    wanted = {*_LIBC, *_LIBM, *_SYSTEM.get(sys.platform, ("sched_yield",))}
    found: dict[str, Any] = {name: getattr(ctypes.pythonapi, name) for name in _PYTHON}
    for name in _LIBRARIES.get(sys.platform, (None, "libm.so.6")):
        if missing := sorted(wanted - set(found)):
            library = ctypes.CDLL(name)
            found |= {symbol: getattr(library, symbol) for symbol in missing if hasattr(library, symbol)}
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()}
    return addresses | ({"_fltused": ctypes.addressof(_FLTUSED)} if sys.platform == "win32" else {})


#: Characters of assembly that LLVM optimises in about 30 ms. Nobody notices how long less than that takes.
_LARGE = 30_000
#: Words touched by calls that wait for optimised code: 10 to 50 ms of it, so that more than LLVM takes would be lost.
_LONG = 1 << 26
#: Functions of a library that has two tiers.
_MOST_FUNCTIONS = 3

# Arguments stay in the registers in which they came: there are at most six, of 64 bits each.
_TRAMPOLINE = """
@target{0} = dso_local global ptr null
define i64 @trampoline{0}(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) nounwind {{
  %target = load atomic ptr, ptr @target{0} acquire, align 8
  %result = tail call i64 %target(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %result
}}
"""

_waiting: ContextVar[bool] = ContextVar("kinetree_waiting_for_optimized_code", default=False)


@contextmanager
def optimized() -> Iterator[None]:
    """Wait for optimised code inside a `with` block."""
    token = _waiting.set(True)
    try:
        yield
    finally:
        _waiting.reset(token)


def waits() -> bool:
    """Whether the current thread is inside such a block."""
    return _waiting.get()


@contextmanager
def ready_for(work: int) -> Iterator[None]:
    """The same if that pays for calls that touch `work` words; they also find the code of earlier calls optimised."""
    if work < _LONG:
        yield
        return
    threads.settle()
    with optimized():
        yield


def begin_unoptimized(texts: Sequence[str], target: Processor) -> list[SharedComputation[bytes]] | None:
    """Let other threads compile modules without optimising them; None if that does not pay."""
    forbidden = waits() or os.environ.get("KINETREE_NO_TIERS", "") not in ("", "0")
    if forbidden or threads.get_threads() == 1 or sum(map(len, texts)) < _LARGE:
        return None
    longest_first = sorted(texts, key=len, reverse=True)
    jobs = threads.begin([partial(compile_unoptimized, text, target) for text in longest_first])
    begun = dict(zip(longest_first, jobs, strict=True))
    return [begun[text] for text in texts]


class Trampoline(Library):
    """A library whose functions can be replaced while they are in use. They take at most six integers or addresses."""

    def __init__(self, library: Library, *symbols: str) -> None:
        places = [f"{what}{number}" for number in range(len(symbols)) for what in ("trampoline", "target")]
        super().__init__([_trampolines()], *places)
        entries, targets = ([self.address(place) for place in places[start::2]] for start in range(2))
        self._addresses = dict(zip(symbols, entries, strict=True))
        self._targets = {s: ctypes.c_void_p.from_address(target) for s, target in zip(symbols, targets, strict=True)}
        self._libraries: list[Library] = []  # other threads may be inside any of them
        self.retarget(library)

    def retarget(self, library: Library) -> None:
        """Let calls from now on run the functions of a library."""
        self._libraries.append(library)
        for symbol, target in self._targets.items():
            target.value = library.address(symbol)


@lru_cache(maxsize=1)
def _trampolines() -> bytes:
    return compile_text("".join(_TRAMPOLINE.format(number) for number in range(_MOST_FUNCTIONS)), host())
