"""Loads object code into memory."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from kinetree.engines.llvm.target import host, llvm
from kinetree.engines.locks import Lock

if TYPE_CHECKING:
    import llvmlite.binding

# Functions that compiled code may call: the C library's memory functions, those that LLVM substitutes for intrinsics on
# processors without the instruction, and those of Python's C API that `gate` and `driver` need.
_LIBC = ("malloc", "free", "memcpy", "memset", "memmove")
_LIBM = ("fma", "fmaf", "rint", "floor", "ceil", "trunc", "nearbyint", "round", "sqrt")
# Code for macOS clears memory with `bzero`. Code for Windows touches large stack frames page by page with `__chkstk`,
# and refers to `_fltused` if it uses floating-point numbers. Untested there.
_SYSTEM = {"darwin": ("bzero", "sched_yield"), "win32": ("__chkstk",)}
_LIBRARIES: dict[str, tuple[str | None, ...]] = {"darwin": (None,), "win32": ("ucrtbase", "ntdll")}
_FLTUSED = ctypes.c_int(0x9875)
_PYTHON = (
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_VectorcallMethod",
    "PyTuple_GetItem",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)


class Library:
    """Object code loaded into memory for the lifetime of this object.

    Args:
        objects: Object files from `compile_text`, for a processor compatible with this one.
        symbols: The functions whose addresses are needed.
    """

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


_linking = Lock()
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
    wanted = {*_LIBC, *_LIBM, *_SYSTEM.get(sys.platform, ("madvise", "sched_yield"))}
    found: dict[str, Any] = {name: getattr(ctypes.pythonapi, name) for name in _PYTHON}
    for name in _LIBRARIES.get(sys.platform, (None, "libm.so.6")):
        if missing := sorted(wanted - set(found)):
            library = ctypes.CDLL(name)
            found |= {symbol: getattr(library, symbol) for symbol in missing if hasattr(library, symbol)}
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()}
    return addresses | ({"_fltused": ctypes.addressof(_FLTUSED)} if sys.platform == "win32" else {})
