"""Locks that survive forks and Ctrl-C, and a pause of Python's garbage collector during compilation.

A forked child has only a copy of the thread that forked. Whatever the parent's other threads were doing is never
finished there: a lock that one of them held stays locked, a module that one was importing stays half imported, and LLVM
stays in the middle of a compilation. So a fork waits until no other thread holds one of these locks or is inside LLVM.

A signal handler that raises, as that of Ctrl-C does, may end any Python function of the main thread at its first
instruction and after each call. So no Python code runs when these locks are taken or released: `with` would leave them
locked, and all other threads would wait for ever.

A program consists of tens of thousands of small objects. As their number grows, the collector traverses all of them
again and again, and takes as long as tracing and simplifying together.
"""

from __future__ import annotations

import gc
import logging  # noqa: F401 - registers its own hooks before ours, see below
import os
import sys
import weakref
from _thread import RLock
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


class ForkSafeLock(RLock):  # type: ignore[misc] # final for type checkers, not for Python
    """A reentrant lock; no other thread can fork while it is held."""

    def __init__(self) -> None:
        with _registering:
            _locks.add(weakref.ref(self, _locks.discard))


class LLVMLock(ForkSafeLock):  # type: ignore[misc]
    """Held inside LLVM, where a thread waits for no lock: those that hold others can wait for it to fork."""


_locks: set[weakref.ref[ForkSafeLock]] = set()
_registering = RLock()
# A thread waiting to fork has priority: it waits for compilations in progress, but not for new ones.
_waiting = False
_forking = RLock()  # held from then on until the end of the fork
_held = ExitStack()


def give_way() -> None:
    """Let a thread that waits to fork go first, unless it waits for this one."""
    if _waiting and not is_holding():
        with _forking:
            pass


def is_holding() -> bool:
    """Whether this thread holds a lock, so that others may wait for it."""
    return any(lock._is_owned() for lock in _existing(ForkSafeLock))


def _existing(kind: type[ForkSafeLock]) -> list[Any]:
    return [lock for reference in _locks.copy() if isinstance(lock := reference(), kind)]


def _before_fork() -> None:
    """Take all locks, and wait for one only while holding none: its owner may need the others."""
    global _waiting
    _held.enter_context(_forking)
    # a thread that forks while holding a lock cannot wait for others: they may be waiting for it
    kind = LLVMLock if is_holding() else ForkSafeLock
    busy: Any = _registering
    _waiting = True
    try:
        while busy is not None:
            with busy:
                pass
            with ExitStack() as taken:
                taken.enter_context(_registering)  # from now on no lock is made
                for lock in _existing(kind):
                    if not lock.acquire(blocking=False):
                        busy = lock
                        break
                    taken.callback(lock.release)
                else:
                    busy = None
                    _held.enter_context(taken.pop_all())
    finally:
        _waiting = False
    if (lock := _llvm_lock()) is not None:
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


_pausing = 0
_was_enabled = False
_lock = ForkSafeLock()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector inside a `with` block. It resumes when the last thread leaves its block."""
    global _pausing, _was_enabled
    paused = False
    try:
        with _lock:
            if not _pausing:
                _was_enabled = gc.isenabled()
            _pausing += 1
            paused = True  # no call, and so no signal, comes in between
            gc.disable()
        yield
    finally:
        if paused:
            with _lock:
                _pausing -= 1
                if not _pausing and _was_enabled:
                    gc.enable()
