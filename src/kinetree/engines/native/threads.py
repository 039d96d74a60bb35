"""Runs large batches on several threads.

The number of threads is the number of cores available to the process, unless set by `KINETREE_THREADS` or
`set_threads`. It never changes the bits of a result: threads process whole samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kinetree.engines.locks import Lock
from kinetree.errors import InputError

#: Waking a thread takes about 0.1 ms. It pays from about 0.25 ms of work, which touches this many numbers.
NUMBERS_PER_THREAD = 1 << 20

_lock = Lock()
_count: int | None = None
_pool: ThreadPoolExecutor | None = None


def get_threads() -> int:
    """The number of threads that large batches are spread over."""
    global _count
    if _count is None:
        _count = _default_count()
    return _count


def set_threads(count: int | None) -> None:
    """Set the number of threads that large batches are spread over.

    Args:
        count: At least 1; None restores the default, `KINETREE_THREADS` or the number of available cores.
    """
    global _count, _pool
    if count is not None and not (_is_integer(count) and count >= 1):
        raise InputError(f"set_threads: the number of threads must be an integer of at least 1, got {count!r}")
    with _lock:
        _count = count
        pool, _pool = _pool, None
    if pool is not None:
        pool.shutdown(wait=False)


def run(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks concurrently, the first one in this thread, and wait for all of them."""
    futures: list[Future[object]] = []
    rest = list(tasks[1:])
    try:
        pool = _get_pool()
        while rest:
            futures.append(pool.submit(rest[0]))
            del rest[0]
    except RuntimeError:
        # the pool has been shut down, or the interpreter is exiting: do the work here
        pass
    try:
        for task in (*tasks[:1], *rest):
            task()
    finally:
        for future in futures:
            future.result()


def _is_integer(value: object) -> bool:
    return isinstance(value, int)


def _get_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, get_threads() - 1), thread_name_prefix="kinetree")
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
