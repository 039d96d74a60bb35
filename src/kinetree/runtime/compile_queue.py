"""Loads machine code from the cache on disk, or compiles it and stores it there."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Generic, TypeVar

from kinetree.compiler import cache
from kinetree.compiler.llvm.machine_code import Processor, compile_text
from kinetree.concurrency import ForkSafeLock
from kinetree.runtime import threads, tiered
from kinetree.runtime.threads import SharedComputation
from kinetree.runtime.tiered import Library, Trampoline

K = TypeVar("K", bound=Hashable)

#: Key of the metadata under which the names of the modules are stored.
_MODULES = "modules"

_log = logging.getLogger("kinetree")


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
                        self._unoptimized = tiered.begin_unoptimized(modules.missing, target)
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
        if self._unoptimized is None or self._objects is not None or tiered.waits():
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
