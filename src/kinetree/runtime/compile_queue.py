"""Finds machine code in the cache on disk, or compiles it and stores it there, and loads it into memory, in tiers.

LLVM takes a quarter of the time if it does not optimise, and the results have the same bits, but take two to four times
as long. So code that somebody waits for is first compiled in this way, unless it is short. Calls reach it through a
trampoline, which is retargeted to the optimised code when other threads have compiled that: from the next call, or the
next step of a rollout, on. Whoever is about to compute for long waits for optimised code instead (`ready_for`), and so
do `compile` methods, forks and the end of the process. There is one tier if there are no other threads, or with
`KINETREE_NO_TIERS=1`; with `KINETREE_NO_OPTIMIZATION=1` it is the first.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kinetree.compiler import cache
from kinetree.compiler.llvm.machine_code import Processor, compile_text, compile_unoptimized, host, llvm
from kinetree.concurrency import ForkSafeLock
from kinetree.runtime import threads
from kinetree.runtime.threads import SharedComputation

if TYPE_CHECKING:
    import llvmlite.binding

K = TypeVar("K", bound=Hashable)

#: Key of the metadata under which the names of the modules are stored.
_MODULES = "modules"

_log = logging.getLogger("kinetree")


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
_numbers = count()


def _linker() -> tuple[llvmlite.binding.LLJIT, str]:
    """A linker for the next library, and a name for it there.

    A linker takes ten times the memory of a kernel, so 32 libraries share one. It keeps a few kilobytes of each that is
    unloaded, until all of them are: code that comes and goes does not accumulate.
    """
    number = next(_numbers)
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
_MOST_FUNCTIONS = 4

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
    one_tier = os.environ.get("KINETREE_NO_TIERS", "") not in ("", "0") or not target.optimizes
    forbidden = _waiting.get() or one_tier
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


class CompileJob:
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
        target: Processor,
        text: Callable[[], tuple[Sequence[str], dict[str, Any]]],
        *symbols: str,
    ) -> None:
        self._symbols = symbols
        self._objects: list[bytes] | None = None  # those that were missing
        self._trampoline: Callable[[], Trampoline | None] = lambda: None
        self._lock = ForkSafeLock()
        name = None if what is None else cache.key(*what, target)
        self._found = stored(name)
        if self._found is None:
            with ExitStack() as lock:
                lock.enter_context(cache.cache_lock(name))
                self._found = stored(name)  # another process may just have compiled it
                if self._found is None:
                    began = time.perf_counter()
                    sources, metadata = text()
                    modules = Modules(sources, target, cached=name is not None)
                    if modules.missing:
                        held = lock.pop_all()

                        def finish(objects: list[bytes] | None) -> None:
                            with held:
                                if objects is not None:
                                    _log.info("compiled %s in %.2f s", label, time.perf_counter() - began)
                                    modules.store(name, metadata, objects)
                            if objects is not None:
                                with self._lock:
                                    self._objects = objects
                                self._retarget()
                            elif self._unoptimized is not None:
                                _log.warning("%s runs without optimisation: LLVM failed", label)

                        self._metadata, self._modules = metadata, modules
                        self._unoptimized = begin_unoptimized(modules.missing, target)
                        self._compilation = Compilation(modules.missing, target, finish, self._unoptimized is not None)
                        return
                    modules.store(name, metadata, [])
                    self._found = metadata, modules.completed([])
        _log.debug("loaded %s from the cache", label)

    def library(self) -> tuple[Library, dict[str, Any]]:
        """The code, as soon as it is compiled, and the metadata."""
        if self._found is not None:
            metadata, objects = self._found
            return Library(objects, *self._symbols), metadata
        if self._unoptimized is None or self._objects is not None or _waiting.get():
            return self._linked(self._compilation.objects()), self._metadata
        trampoline = Trampoline(self._linked(threads.finish(self._unoptimized)), *self._symbols)
        with self._lock:
            self._trampoline = weakref.ref(trampoline)
        self._retarget()
        return trampoline, self._metadata

    def _retarget(self) -> None:
        """Use the optimised code from now on, if it is there and anybody uses the other."""
        with self._lock:
            trampoline, objects = self._trampoline(), self._objects
        if trampoline is not None and objects is not None:
            trampoline.retarget(self._linked(objects))

    def _linked(self, compiled: Sequence[bytes]) -> Library:
        """The library, given the modules that were missing."""
        return Library(self._modules.completed(compiled), *self._symbols)


class Libraries(Generic[K]):
    """Libraries by key, each loaded or compiled once."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._pending: dict[K, CompileJob] = {}
        self._found: dict[K, tuple[Library, dict[str, Any]]] = {}

    def begin(self, key: K, make: Callable[[K], CompileJob]) -> None:
        """Let other threads begin with the library of a key; `make` begins with it."""
        with self._lock:
            if key not in self._found and key not in self._pending:
                self._pending[key] = make(key)

    def get(self, key: K, make: Callable[[K], CompileJob]) -> tuple[Library, dict[str, Any]]:
        """A library and its metadata; arguments as of `begin`."""
        with self._lock:
            if key not in self._found:
                self.begin(key, make)
                self._found[key] = self._pending.pop(key).library()
            return self._found[key]


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
    """The modules of a library: those that the cache has, and the assembly of those that are `missing`."""

    def __init__(self, texts: Sequence[str], target: Processor, cached: bool) -> None:
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


#: The compilations of modules that libraries wait for: each is done once for all that need it at the same time.
_compiling: weakref.WeakValueDictionary[tuple[str, Processor], SharedComputation[bytes]] = weakref.WeakValueDictionary()
_sharing = ForkSafeLock()


class Compilation:
    """Modules that are compiled from now on, several at once if there are threads for it: the longest ones first.

    Args:
        texts: Their LLVM assembly.
        target: The processor to compile for.
        finish: Called with all object files by the thread that completes the last one; with None after an error.
        later: Whether other things are more urgent.
    """

    def __init__(
        self,
        texts: Sequence[str],
        target: Processor,
        finish: Callable[[list[bytes] | None], object],
        later: bool = False,
    ) -> None:
        self._finish, self._left, self._lock = finish, len(texts), ForkSafeLock()
        jobs: dict[str, SharedComputation[bytes]] = {}
        for text in sorted(texts, key=len, reverse=True):
            with _sharing:
                job = _compiling.get((text, target))
                if job is None or job.finished:  # the thread that did it may not have dropped it yet
                    (job,) = threads.begin([partial(compile_text, text, target)], later)
                jobs[text] = _compiling[text, target] = job
        self._jobs, self._longest_first = [jobs[text] for text in texts], list(jobs.values())
        for job in self._jobs:
            job.then(self._completed)
        if threads.get_threads() == 1:  # nobody else would, and other processes may wait for what is locked
            for job in self._longest_first:
                job.run()

    def _completed(self) -> None:
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            codes = [code for job in self._jobs if (code := job.value) is not None]
            self._finish(codes if len(codes) == len(self._jobs) else None)
            del self._finish  # with what it refers to, often the owner of this compilation

    def objects(self) -> list[bytes]:
        """The object files, in the order of the modules."""
        threads.finish(self._longest_first)
        return [job.result() for job in self._jobs]
