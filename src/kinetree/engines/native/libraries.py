"""Loads machine code from the cache on disk, or compiles it and stores it there."""

from __future__ import annotations

import ctypes
import logging
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from kinetree.engines.llvm.machine_code import compile_text
from kinetree.engines.llvm.target import Target, host, llvm
from kinetree.engines.locks import Lock
from kinetree.engines.native import cache, threads
from kinetree.engines.native.claims import claimed

if TYPE_CHECKING:
    import llvmlite.binding

#: Key of the metadata under which the names of the modules are stored.
_MODULES = "modules"

_log = logging.getLogger("kinetree")

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


class Pending:
    """Code that is loaded, or else compiled from now on, on as many threads as there are.

    Args:
        label: Names the code in the log.
        what: Identifies the code, together with the version of this package and the target; None if it must not be
            cached on disk.
        target: The processor to compile for.
        text: Returns the LLVM assembly of its modules, and metadata serialisable as JSON.
        symbols: The functions whose addresses are needed.
    """

    def __init__(
        self,
        label: str,
        what: tuple[object, ...] | None,
        target: Target,
        text: Callable[[], tuple[Sequence[str], dict[str, Any]]],
        *symbols: str,
    ) -> None:
        self._symbols = symbols
        name = None if what is None else cache.key(*what, target)
        self._found = stored(name)
        if self._found is None:
            with ExitStack() as claim:
                claim.enter_context(claimed(name))
                self._found = stored(name)  # another process may just have compiled it
                if self._found is None:
                    began = time.perf_counter()
                    sources, metadata = text()
                    modules = Modules(sources, target, cached=name is not None)
                    if modules.missing:
                        held = claim.pop_all()

                        def finish(objects: list[bytes] | None) -> None:
                            with held:
                                if objects is not None:
                                    _log.info("compiled %s in %.2f s", label, time.perf_counter() - began)
                                    modules.store(name, metadata, objects)

                        self._metadata, self._modules = metadata, modules
                        self._compilation = Compilation(modules.missing, target, finish)
                        return
                    modules.store(name, metadata, [])
                    self._found = metadata, modules.completed([])
        _log.debug("loaded %s from the cache", label)

    def library(self) -> tuple[Library, dict[str, Any]]:
        """The code, as soon as it is compiled, and the metadata."""
        metadata, objects = self._found or (self._metadata, self._modules.completed(self._compilation.objects()))
        return Library(objects, *self._symbols), metadata


def find_or_compile(
    label: str,
    what: tuple[object, ...] | None,
    target: Target,
    text: Callable[[], tuple[Sequence[str], dict[str, Any]]],
    *symbols: str,
) -> tuple[Library, dict[str, Any]]:
    """Load a library; arguments as of `Pending`."""
    return Pending(label, what, target, text, *symbols).library()


def stored(name: str | None) -> tuple[dict[str, Any], list[bytes]] | None:
    """The metadata and object files stored in the cache, if all of them are there."""
    found = cache.load(name)
    if found is None:
        return None
    metadata, _ = found
    modules = [cache.load(module) for module in metadata.pop(_MODULES)]
    objects = [module[1] for module in modules if module is not None]
    return (metadata, objects) if len(objects) == len(modules) else None


class Modules:
    """The modules of a library: those that the cache has, and those that must be compiled.

    Args:
        texts: Their LLVM assembly.
        target: The processor to compile for.
        cached: Whether they may be in the cache on disk.

    Attributes:
        missing: The assembly of those to compile.
    """

    def __init__(self, texts: Sequence[str], target: Target, cached: bool) -> None:
        self._names = [cache.module_key(text, target) if cached else None for text in texts]
        self._found = [cache.load(name) for name in self._names]
        self.missing = [text for text, module in zip(texts, self._found, strict=True) if module is None]

    def completed(self, compiled: Sequence[bytes]) -> list[bytes]:
        """All object files in order, given those that were missing."""
        remaining = iter(compiled)
        return [next(remaining) if module is None else module[1] for module in self._found]

    def store(self, name: str | None, metadata: dict[str, Any], compiled: Sequence[bytes]) -> None:
        """Store the modules that were missing, and that they make up a library, under its name."""
        for module, found, code in zip(self._names, self._found, self.completed(compiled), strict=True):
            if found is None:
                cache.store(module, {}, code)
        cache.store(name, metadata | {_MODULES: self._names}, b"")


class Module:
    """A module that is compiled from now on: once, for all libraries that need it at the same time.

    Args:
        text: Its LLVM assembly.
        target: The processor to compile for.

    Attributes:
        code: The object file, when it is there.
        job: Its compilation.
    """

    def __init__(self, text: str, target: Target) -> None:
        self.code: bytes | None = None
        self._lock = Lock()
        self._waiting: list[Callable[[], object]] | None = []
        (self.job,) = threads.begin([lambda: self._compile(text, target)])

    def _compile(self, text: str, target: Target) -> bytes:
        try:
            self.code = compile_text(text, target)
            return self.code
        finally:
            with self._lock:
                waiting, self._waiting = self._waiting or [], None
            for call in waiting:
                call()

    def then(self, call: Callable[[], object]) -> None:
        """Call a function when the code is there, or its compilation has failed."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.append(call)
                return
        call()


#: Those that libraries wait for.
_compiling: weakref.WeakValueDictionary[tuple[str, Target], Module] = weakref.WeakValueDictionary()
_sharing = Lock()


class Compilation:
    """Modules that are compiled from now on, several at once if there are threads for it: the longest ones first.

    Args:
        texts: Their LLVM assembly.
        target: The processor to compile for.
        finish: Called with all object files by the thread that completes the last one; with None after an error.
    """

    def __init__(self, texts: Sequence[str], target: Target, finish: Callable[[list[bytes] | None], object]) -> None:
        self._finish, self._left, self._lock = finish, len(texts), Lock()
        found: dict[str, Module] = {}
        for text in sorted(texts, key=len, reverse=True):
            with _sharing:
                found[text] = _compiling.get((text, target)) or Module(text, target)
                _compiling[text, target] = found[text]
        self._modules, self._longest_first = [found[text] for text in texts], [one.job for one in found.values()]
        for module in self._modules:
            module.then(self._completed)
        if threads.get_threads() == 1:  # nobody else would, and other processes may wait for what is claimed
            for job in self._longest_first:
                job.run()

    def _completed(self) -> None:
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            codes = [module.code for module in self._modules]
            self._finish(None if None in codes else [code for code in codes if code is not None])

    def objects(self) -> list[bytes]:
        """The object files, in the order of the modules."""
        threads.finish(self._longest_first)
        return [module.job.result() for module in self._modules]


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
