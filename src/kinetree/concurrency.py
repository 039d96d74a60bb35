"""Locks that are safe across `fork`, and a pause of Python's garbage collector during compilation.

A forked child has only a copy of the thread that forked. Whatever the parent's other threads were doing is never
finished there: a lock that one of them held stays locked, a module that one was importing stays half imported, and LLVM
stays in the middle of a compilation. So a fork waits until no other thread holds one of these locks or is inside LLVM.

A program consists of tens of thousands of small objects. As their number grows, the collector traverses all of them
again and again, and takes as long as tracing and simplifying together.
"""

from __future__ import annotations

import gc
import logging  # noqa: F401 - registers its own hooks before ours, see below
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_pausing = 0
_was_enabled = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector inside a `with` block. It resumes when the last thread leaves its block."""
    global _pausing, _was_enabled
    with _lock:
        if not _pausing:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pausing += 1
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if not _pausing and _was_enabled:
                gc.enable()


# Number of locks that each thread holds. A thread waiting to fork has priority: it waits for compilations in progress,
# but not for new ones.
_depths: dict[int, int] = {}
_changed = threading.Condition()
_waiting = False
# Number of threads that are inside LLVM without holding llvmlite's lock.
_inside = 0
# held during a fork
_forking = threading.RLock()
_held = ExitStack()


class ForkSafeLock:
    """A reentrant lock; no other thread can fork while it is held."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        thread = threading.get_ident()
        with _changed:
            _changed.wait_for(lambda: not _waiting or thread in _depths)
            _depths[thread] = _depths.get(thread, 0) + 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        thread = threading.get_ident()
        with _changed:
            _depths[thread] -= 1
            if not _depths[thread]:
                del _depths[thread]
                _changed.notify_all()


def is_holding() -> bool:
    """Whether this thread holds a lock, so that others may wait for it."""
    return threading.get_ident() in _depths


@contextmanager
def inside_llvm() -> Iterator[None]:
    """No thread can fork inside this block, which may need no lock."""
    global _inside
    with _changed:
        _inside += 1
    try:
        yield
    finally:
        with _changed:
            _inside -= 1
            _changed.notify_all()


def _before_fork() -> None:
    global _waiting
    _held.enter_context(_forking)
    _held.enter_context(_changed)
    # a thread that forks while holding a lock cannot wait for others: they may be waiting for it
    if not is_holding():
        _waiting = True
        _changed.wait_for(lambda: not _depths)
        _waiting = False
        _changed.notify_all()
    _changed.wait_for(lambda: not _inside)
    lock = _llvm_lock()
    if lock is not None:
        _held.enter_context(lock)


def _after_fork() -> None:
    _held.close()


def _llvm_lock() -> Any:
    """The lock that llvmlite holds inside LLVM; None before LLVM is used."""
    return getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


# Hooks run before a fork in reverse order of registration. Logging's holds the lock of all loggers, which a compilation
# needs to end: it must run after ours has waited for that.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
