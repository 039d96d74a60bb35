"""Computations that a thread of the pool may begin before their results are needed."""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """A computation that is done once: by whichever thread begins first, one of the pool or one that needs the result.

    Args:
        task: The computation.
    """

    def __init__(self, task: Callable[[], T]) -> None:
        self._task = task
        self._process = os.getpid()
        self._begun, self._unfinished = allocate_lock(), allocate_lock()
        self._unfinished.acquire()
        self._values: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it in this thread, unless another one has begun; an error is raised by `result`."""
        if self._begun.acquire(blocking=False):
            try:
                self._values.append(self._task())
            except BaseException as error:  # noqa: BLE001 (raised by the threads that need the result)
                self._error = error
            finally:
                self._unfinished.release()
                del self._task  # with what it refers to, often the owner of this job

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return not self._unfinished.locked()

    def wait(self) -> BaseException | None:
        """Wait until it is done; returns its error, if there is one."""
        with self._unfinished:
            return self._error

    def result(self) -> T:
        """The result, computed in this thread if no other one has begun."""
        self.run()
        if not self.finished and self._process != os.getpid():
            return self._task()  # a forked process has none of the threads that began
        error = self.wait()
        if error is not None:
            raise error
        return self._values[0]
