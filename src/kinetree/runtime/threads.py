"""Runs large batches and compilations on several threads.

The number of threads is the number of cores available to the process, unless set by `KINETREE_THREADS` or
`set_threads`. It never changes the bits of a result: threads process whole samples. Computations whose results are
needed later may begin on any of them, and are done once.
"""

from __future__ import annotations

import atexit
import os
from _thread import RLock
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread, local
from typing import Any, Generic, TypeVar

import numpy as np

from kinetree.concurrency import ForkSafeLock, give_way, is_holding
from kinetree.errors import InputError

_Result = TypeVar("_Result")


class SharedComputation(Generic[_Result]):
    """A computation that is done once: by the thread that begins first, of the pool or in need of the result.

    If a signal handler raises meanwhile, as that of Ctrl-C does, the next thread in need of the result does it again.
    """

    def __init__(self, task: Callable[[], _Result]) -> None:
        self._task = task
        self._process = os.getpid()
        self._computing, self._ending = RLock(), RLock()
        self._begun = False
        self.finished = False  # whether the result, or an error, is there
        self._values: list[_Result] = []
        self._error: Exception | None = None
        self._callbacks: list[Callable[[], object]] | None = []  # None once they were called

    def run(self) -> None:
        """Do it in this thread, unless another one has begun; an error is raised by `result`."""
        if not self._begun:
            self.wait()

    def wait(self) -> Exception | None:
        """Do it in this thread, or wait until another one has done it; returns its error, if there is one."""
        with self._computing:
            if not self.finished:
                self._begun = True
                try:
                    self._compute()
                finally:
                    self._begun = self.finished
            return self._error

    def _compute(self) -> None:
        try:
            self._values.append(self._task())
        except Exception as error:  # noqa: BLE001 (raised by the threads that need the result)
            self._error = error
        with self._ending:
            callbacks, self._callbacks = self._callbacks or [], None
        for call in callbacks:
            call()
        self.finished = True
        del self._task  # with what it refers to, often the owner of this job

    def then(self, call: Callable[[], object]) -> None:
        """Call a function when it has ended, with or without an error, but before others know; at once if it has."""
        with self._ending:
            if self._callbacks is not None:
                self._callbacks.append(call)
                return
        call()

    @property
    def value(self) -> _Result | None:
        """The result, if it is there."""
        return self._values[0] if self._values else None

    def result(self) -> _Result:
        """The result, computed in this thread if no other one has begun."""
        if self._begun and not self.finished and self._process != os.getpid():
            return self._task()  # a forked process has none of the threads that began
        error = self.wait()
        if error is not None:
            raise error
        return self._values[0]


T = TypeVar("T")
Task = Callable[[], object]

#: Waking a thread takes about 0.1 ms. It pays from about 0.25 ms of work, which touches this many 64-bit words.
NUMBERS_PER_THREAD = 1 << 20
#: Words that a thread touches before Python may handle a signal: about 0.1 s of work.
UNINTERRUPTED = 1 << 28

#: The number of threads, for compiled code that starts tasks itself; set by `get_threads`.
shared = np.ones(1, dtype=np.int64)

_lock = ForkSafeLock()
_count: int | None = None
_pool: Pool | None = None
_own = local()
_put_off: list[SharedComputation[Any]] = []  # begun as not urgent, apart from some that are finished


class Pool:
    """Threads that run tasks.

    Its queue cannot be interrupted half-way by a signal. `concurrent.futures` uses locks in Python code: a signal
    handler that raises, as that of Ctrl-C does, may leave them locked, and the next large batch would wait forever.
    """

    def __init__(self, count: int) -> None:
        self._urgent: deque[Task] = deque()
        self._later: deque[Task] = deque()
        self._tickets: SimpleQueue[bool] = SimpleQueue()  # True for each task, False for each thread that must end
        work = self._tickets, self._urgent, self._later
        self._threads = [
            Thread(target=_work, args=work, name=f"kinetree_{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task, later: bool = False) -> None:
        """Run a task, which must not raise, on one of the threads; later if there are others to run."""
        (self._later if later else self._urgent).append(task)
        self._tickets.put(True)

    def take(self) -> Task | None:
        """An urgent task that no thread has begun, for the caller to run; None if there is none."""
        return _first(self._urgent)

    def shutdown(self) -> None:
        """Stop the threads once the tasks submitted so far are done."""
        for _ in self._threads:
            self._tickets.put(False)

    def abandon(self) -> None:
        """Forget urgent tasks that no thread has begun, and wait for the others."""
        while self.take() is not None:
            pass
        self.shutdown()
        for thread in self._threads:
            thread.join()


def _work(tickets: SimpleQueue[bool], urgent: deque[Task], later: deque[Task]) -> None:
    while tickets.get():
        task = _first(urgent) or _first(later)
        if task is not None:  # somebody else may have taken it
            task()
        del task  # and the arrays with it


def _first(tasks: deque[Task]) -> Task | None:
    """Take the task that has waited longest."""
    try:
        return tasks.popleft()
    except IndexError:
        return None


def get_threads() -> int:
    """The number of threads that large batches are spread over."""
    global _count
    if _count is None:
        _count = _default_count()
    shared[0] = _count
    return 1 if getattr(_own, "alone", False) else _count


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
    """Set the number of threads that large batches and compilations are spread over.

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


def begin(tasks: Sequence[Callable[[], T]], later: bool = False) -> list[SharedComputation[T]]:
    """Let other threads begin with tasks whose results are needed later; `finish` returns them.

    No process can be forked while another thread is in the middle of a task.

    Args:
        tasks: What to do.
        later: Whether only threads with nothing else to do may begin. `settle` waits for these tasks.
    """
    jobs = [SharedComputation(task) for task in tasks]
    if get_threads() > 1:
        if later:
            _put_off[:] = [job for job in _put_off if not job.finished] + jobs
        _submit([_unforked(job) for job in jobs], later)
    return jobs


def settle() -> None:
    """Complete what was begun as not urgent."""
    jobs = list(_put_off)
    for job in jobs:
        job.run()
    for job in jobs:
        job.wait()


def finish(jobs: Sequence[SharedComputation[T]]) -> list[T]:
    """The results of jobs; this thread does what no other one has begun, even of other jobs while it has to wait."""
    for job in jobs:
        job.run()
    while not all(job.finished for job in jobs) and (pool := _pool) is not None and (task := pool.take()) is not None:
        task()
    return [job.result() for job in jobs]


def run(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks concurrently, the first one in this thread, and wait for all of them."""
    jobs = [SharedComputation(task) for task in tasks]
    _submit([job.run for job in jobs[1:]])
    for job in jobs:
        job.run()
    for error in [job.wait() for job in jobs]:
        if error is not None:
            raise error


def _submit(tasks: Sequence[Task], later: bool = False) -> None:
    with _lock:  # no task may be submitted to a pool that has been shut down
        pool = _get_pool()
        if pool is not None:
            for task in tasks:
                pool.submit(task, later)


def _unforked(job: SharedComputation[T]) -> Callable[[], None]:
    """Runs a job while no process can be forked.

    Whoever is held up by a thread that waits to fork has not begun, and another can do the job.
    """

    def run() -> None:
        give_way()
        with ForkSafeLock():
            job.run()

    return run


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


def _settle_unless_locked() -> None:
    # nobody would do it in the child; other threads may need the locks that this one holds
    if not is_holding():
        settle()


def _forget_pool() -> None:
    # a forked child has the pool object but none of its threads
    global _pool
    _pool = None
    _put_off.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle_unless_locked, after_in_child=_forget_pool)


@atexit.register
def _abandon_pool() -> None:
    # a thread must not be inside LLVM while the process ends; code that was put off should be in the cache next time
    global _pool
    settle()
    pool, _pool = _pool, None
    if pool is not None:
        pool.abandon()
