"""Large batches of XLA handlers: a simulated XLA runs their tasks at once, on other threads, late or never."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.runtime import threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.operands import Binding, Operand
from kinetree.runtime.xla import Handler
from tests.unit.runtime.test_gate import EMPTY

Array = np.ndarray[Any, np.dtype[Any]]
SCHEDULE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Xla:
    """What a handler sees of XLA.

    Args:
        run: What happens to a task that is scheduled; returns whether XLA accepts it.
        size: Of its table of functions [bytes].
    """

    def __init__(self, run: Callable[[Callable[[], None]], bool], size: int = 200) -> None:
        self.scheduled = self.destroyed = 0
        self._run = run
        self._functions = (SCHEDULE(self._create), SCHEDULE(self._destroy), SCHEDULE(self._schedule))
        self._api = np.zeros(25, dtype=np.int64)
        self._api[0] = size
        self._api[[6, 8, 17]] = [ctypes.cast(f, ctypes.c_void_p).value for f in self._functions]

    def _schedule(self, address: int) -> int | None:
        size, extension, context, task, data = struct.unpack("5q", ctypes.string_at(address, 40))
        assert (size, extension, context) == (40, 0, 7)
        self.scheduled += 1
        call = TASK(task)
        return None if self._run(lambda: call(data)) else 99

    def _create(self, address: int) -> int:
        size, extension, message, code = struct.unpack("3qi", ctypes.string_at(address, 28))
        assert (size, extension, code) == (32, 0, 8)
        assert ctypes.string_at(message) == b"Kinetree: no memory for the samples"
        return 77

    def _destroy(self, address: int) -> None:
        assert struct.unpack("3q", ctypes.string_at(address, 24)) == (24, 0, 99)
        self.destroyed += 1

    def call(self, handler: Handler, inputs: list[Array], outputs: list[Array]) -> int | None:
        """Call a handler as XLA does; returns the error."""
        kept: list[Any] = []

        def buffers(arrays: list[Array]) -> int:
            made = []
            for array in arrays:
                dimensions = np.array(array.shape, dtype=np.int64)
                buffer = np.array([48, 0, 0, array.ctypes.data, array.ndim, dimensions.ctypes.data], dtype=np.int64)
                kept.extend((dimensions, buffer))
                made.append(buffer.ctypes.data)
            kept.append(np.array(made, dtype=np.int64))
            return int(kept[-1].ctypes.data)

        frame = np.zeros(20, dtype=np.int64)
        frame[2], frame[3] = self._api.ctypes.data, 7
        frame[9], frame[14] = buffers(inputs), buffers(outputs)
        error: int | None = SCHEDULE(handler.address)(frame.ctypes.data)
        return error


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> tuple[Handler, list[Array], Array]:
    """A handler for which 50 samples are a large batch, arguments, and the result."""
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 1024)
    kt.set_threads(3)
    robot = kt.zoo.double_pendulum()
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1.0, 1.0, (53, 2)) for _ in range(3)]
    return Handler(robot.forward_dynamics.bound(), "float64"), inputs, robot.forward_dynamics(*inputs)


def result(xla: Xla, handler: Handler, inputs: list[Array]) -> Array:
    found = np.full((len(inputs[0]), 2), np.nan)
    assert xla.call(handler, inputs, [found]) is None
    return found


@pytest.mark.parametrize(
    ("run", "size", "scheduled", "destroyed"),
    [
        pytest.param(lambda task: task() is None, 200, 2, 0, id="at once"),
        pytest.param(lambda _: False, 200, 2, 2, id="never: there are no threads"),
        pytest.param(lambda _: pytest.fail("scheduled"), 136, 0, 0, id="an older XLA has no such function"),
    ],
)
def test_tasks_that_run_here(case: Any, run: Any, size: int, scheduled: int, destroyed: int) -> None:
    handler, inputs, expected = case
    xla = Xla(run, size)
    np.testing.assert_array_equal(result(xla, handler, inputs), expected)
    assert (xla.scheduled, xla.destroyed) == (scheduled, destroyed)


def test_tasks_on_other_threads(case: Any) -> None:
    handler, inputs, expected = case
    started: list[threading.Thread] = []

    def elsewhere(task: Callable[[], None]) -> bool:
        started.append(threading.Thread(target=task))
        started[-1].start()
        return True

    for _ in range(50):
        np.testing.assert_array_equal(result(Xla(elsewhere), handler, inputs), expected)
    for thread in started:
        thread.join()
    assert len(started) == 100


def test_tasks_that_begin_after_the_handler_has_returned(case: Any) -> None:
    """They find nothing to do, and do not touch the results."""
    handler, inputs, expected = case
    late: list[Callable[[], None]] = []
    xla = Xla(lambda task: late.append(task) is None)
    found = result(xla, handler, inputs)
    np.testing.assert_array_equal(found, expected)
    found[:] = 0.0
    for task in late:
        task()
    assert len(late) == 2
    assert not found.any()


def test_small_batches_and_one_thread_stay_here(case: Any) -> None:
    handler, inputs, expected = case
    xla = Xla(lambda _: pytest.fail("scheduled"))
    for size in (1, 2, 3):
        found = result(xla, handler, [array[:size] for array in inputs])
        np.testing.assert_array_equal(found, expected[:size])
    kt.set_threads(1)
    np.testing.assert_array_equal(result(xla, handler, inputs), expected)
    kt.set_threads(None)
    assert threads.shared[0] == kt.get_threads()


@pytest.mark.parametrize("scalar", ["float64", "float32"])
@pytest.mark.parametrize("count", [1, 3])
def test_scratch_memory_that_cannot_be_had_is_an_error_on_any_number_of_threads(count: int, scalar: str) -> None:
    kt.set_threads(count)
    binding = Binding("huge", (Operand("q", (2,)),), (Operand("r", (2,)),), np.zeros(0), np.zeros(0), 1 << 57)
    function = Compiled(binding, lambda _: Library([compile_text(EMPTY, machine_code.host())], "kernel"))
    xla, arrays = Xla(lambda task: task() is None), np.zeros((2, 3, 2), scalar)
    assert xla.call(Handler(function, scalar), [arrays[0]], [arrays[1]]) == 77
    assert xla.scheduled == count - 1
