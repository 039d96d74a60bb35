"""Runs large batches, and compilations of long kernels, on several threads.

The number of threads is the number of cores available to the process, unless set by `KINETREE_THREADS` or
`set_threads`. It never changes the bits of a result: threads process whole samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread, local

import numpy as np

from kinetree.engines.locks import Lock
from kinetree.errors import InputError

#: Waking a thread takes about 0.1 ms. It pays from about 0.25 ms of work, which touches this many 64-bit words.
NUMBERS_PER_THREAD = 1 << 20

#: The number of threads, for compiled code that starts tasks itself; set by `get_threads`.
shared = np.ones(1, dtype=np.int64)

_lock = Lock()
_count: int | None = None
_pool: Pool | None = None
_own = local()


class Pool:
    """Threads that run tasks.

    Its queue cannot be interrupted half-way by a signal. `concurrent.futures` uses locks in Python code: a signal
    handler that raises, as that of Ctrl-C does, may leave them locked, and the next large batch would wait forever.

    Args:
        count: Number of threads.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        for number in range(count):
            Thread(target=_work, args=(self._tasks,), name=f"kinetree_{number}", daemon=True).start()

    def submit(self, task: Callable[[], object]) -> None:
        """Run a task, which must not raise, on one of the threads."""
        self._tasks.put(task)

    def shutdown(self) -> None:
        """Stop the threads once the tasks submitted so far are done."""
        for _ in range(self._count):
            self._tasks.put(None)


def _work(tasks: SimpleQueue[Callable[[], object] | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # and the arrays with it


def get_threads() -> int:
    """The number of threads that large batches are spread over."""
    global _count
    if getattr(_own, "alone", False):
        return 1
    if _count is None:
        _count = _default_count()
    shared[0] = _count
    return _count


@contextmanager
def one() -> Iterator[None]:
    """Run batches of the current thread in that thread alone, where something else runs several of them at once."""
    before = getattr(_own, "alone", False)
    _own.alone = True
    try:
        yield
    finally:
        _own.alone = before


def set_threads(count: int | None) -> None:
    """Set the number of threads that large batches, and compilations of long kernels, are spread over.

    Args:
        count: At least 1; None restores the default, `KINETREE_THREADS` or the number of available cores.
    """
    global _count, _pool
    if count is not None and not (_is_integer(count) and count >= 1):
        raise InputError(f"set_threads: the number of threads must be an integer of at least 1, got {count!r}")
    with _lock:
        _count = count
        with suppress(InputError):  # a bad setting is reported when the number is needed
            get_threads()  # for compiled code
        pool, _pool = _pool, None
        if pool is not None:
            pool.shutdown()


def run(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks concurrently, the first one in this thread, and wait for all of them."""
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    rest, submitted = list(tasks[1:]), 0
    with _lock:  # no task may be submitted to a pool that has been shut down
        pool = _get_pool()
        while rest and pool is not None:
            pool.submit(_reporting(rest.pop(), done))
            submitted += 1
    try:
        for task in (*tasks[:1], *rest):
            task()
    finally:
        errors = [done.get() for _ in range(submitted)]
    for error in errors:
        if error is not None:
            raise error


def _reporting(task: Callable[[], object], done: SimpleQueue[BaseException | None]) -> Callable[[], object]:
    """The task, with its outcome put into a queue."""

    def run_and_report() -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
            done.put(error)
        else:
            done.put(None)

    return run_and_report


def _is_integer(value: object) -> bool:
    return isinstance(value, int)


def _get_pool() -> Pool | None:
    """The threads; None if there can be none because the interpreter is exiting."""
    global _pool
    if _pool is None:
        try:
            _pool = Pool(max(1, get_threads() - 1))
        except RuntimeError:
            return None
    return _pool


def _default_count() -> int:
    setting = os.environ.get("KINETREE_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise InputError(f"KINETREE_THREADS must be an integer of at least 1, got {setting!r}")
        return int(setting)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forget_pool() -> None:
    # a forked child has the pool object but none of its threads
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
