"""Results of the short way from Python: kept for the next call once nobody refers to them, never before."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime import buffers, fastcall_results, threads
from kinetree.runtime.bound import Compiled
from tests.unit.runtime.toys import Counting, counting, native, same


def large(function: Compiled) -> tuple[Any, Any, Any]:
    """Inputs of a batch whose results come from the pool."""
    samples = 2 * buffers.SMALLEST_RESULT // (8 * min(o.size for o in function.binding.outputs))
    assert samples * function.binding.footprint < threads.NUMBERS_PER_THREAD
    rng = np.random.default_rng(0)
    return rng.normal(size=(samples, 7)), rng.normal(size=(samples, 7)), rng.normal(size=samples)


@native
def test_large_results_take_the_short_way(function: Counting) -> None:
    inputs = large(function)
    expected = function(*inputs)
    out = tuple(np.full_like(result, np.nan) for result in expected)
    assert same(function(*inputs, out=out), expected)
    assert function.count == 0
    assert same(Compiled.general(function, *inputs), expected)
    for result in expected:
        assert result.base is not None
        assert result.flags.carray


@native
@pytest.mark.parametrize(
    "hold", [lambda x: x, lambda x: x[0], memoryview, lambda x: x.reshape(-1)[1:], lambda x: x.base]
)
def test_large_results_in_use_stay_as_they_are(function: Counting, hold: Any) -> None:
    """Through the array itself, a view, a buffer, or the memory that it is a view of."""
    q, v, s = large(function)
    first = function(q, v, s)
    held = [hold(part) for part in first]
    expected = [np.array(part) for part in held]
    addresses = {part.ctypes.data for part in first}
    del first
    for i in range(5):
        assert not addresses & {part.ctypes.data for part in function(q, v + i, s)}
        assert not addresses & {part.ctypes.data for part in Compiled.general(function, q, v + i, s)}
    assert same(map(np.asarray, held), expected)
    del held
    assert addresses & {part.ctypes.data for _ in range(buffers.BUFFERS) for part in function(q, v, s)}
    assert function.count == 0


@native
def test_references_to_buffers_are_balanced(function: Counting) -> None:
    inputs = large(function)
    buffers.sizes[:] = 0
    buffers.buffers[:] = None
    before = sys.getrefcount(buffers.fresh)
    for _ in range(100):
        function(*inputs)
    kept = [buffer for buffer in buffers.buffers if buffer is not None]
    assert len(kept) == len(function.binding.outputs)
    watch = [weakref.ref(buffer) for buffer in kept]
    del kept
    buffers.sizes[:] = 0
    buffers.buffers[:] = None
    assert all(reference() is None for reference in watch)
    after = sys.getrefcount(buffers.fresh)
    assert after == before


@native
def test_no_memory_for_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that makes buffers fails, for the second result: the first one is freed."""
    calls: list[int] = []

    def refuse(size: int) -> Any:
        calls.append(size)
        if len(calls) == 2:
            raise MemoryError
        return np.empty(size // 8)

    monkeypatch.setattr(buffers, "fresh", refuse)
    function = counting(7)
    inputs = large(function)
    buffers.sizes[:] = 0
    with pytest.raises(MemoryError):
        function(*inputs)
    assert len(calls) == 2
    assert function.count == 0


@native
def test_threads_never_share_a_result(function: Counting) -> None:
    q, v, s = large(function)
    wrong: list[int] = []
    go = threading.Barrier(4)

    def work(seed: int) -> None:
        expected = [part.copy() for part in function(q, v + seed, s)]
        go.wait()
        held: list[Any] = []
        for i in range(60):
            short = function if i % 3 else function.general  # machine code and Python take from the same pool
            held = [*held[-2:], short(q, v + seed, s)]
            wrong.extend(i for got in held if not same(got, expected))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


@native
def test_single_samples_with_large_results_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = kt.zoo.chain(80)
    q = robot.random_configuration(0)
    expected = robot.mass_matrix(q).copy()
    assert expected.nbytes > buffers.SMALLEST_RESULT
    monkeypatch.setattr(type(robot.mass_matrix), "general", None)
    np.testing.assert_array_equal(robot.mass_matrix(q), expected)


@native
def test_empty_results_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = kt.zoo.humanoid24()
    for q in (robot.random_configuration(0), robot.random_configuration(0, 5)):
        robot.loop_constraints(q)  # compiles
        monkeypatch.setattr(type(robot.loop_constraints), "general", None)
        residual, K = robot.loop_constraints(q)
        assert residual.shape == (*q.shape[:-1], 0)
        assert K.shape == (*q.shape[:-1], 0, robot.nv)
        monkeypatch.undo()


@native
def test_references_are_balanced(function: Counting) -> None:
    q, v, s = np.ones(7), np.ones(7), np.array(2.0)
    kept = [function(q, v, s) for _ in range(100)]  # as many results are kept as will be
    del kept
    before = [sys.getrefcount(x) for x in (q, v, s, function, np.dtype(np.float64), "general")]
    kept = [function(q, v, s) for _ in range(100)]
    watch = weakref.ref(kept[0][0])
    del kept
    assert watch() is None
    assert [sys.getrefcount(x) for x in (q, v, s, function, np.dtype(np.float64), "general")] == before


@native
def test_results_of_other_batches_are_not_returned_again() -> None:
    robot = kt.zoo.double_pendulum()
    rng = np.random.default_rng(0)
    states = [rng.normal(size=shape) for shape in ((2,), (1, 2), (2, 2), (3, 2), (8, 2))]
    expected = [robot.mass_matrix(q).copy() for q in states]
    energies = [tuple(map(np.copy, robot.energy(q, q))) for q in states]  # of one sample: arrays without axes
    for k in rng.integers(0, len(states), 200):
        np.testing.assert_array_equal(robot.mass_matrix(states[k]), expected[k], strict=True)
        for found, wanted in zip(robot.energy(states[k], states[k]), energies[k], strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


@native
@pytest.mark.parametrize("batch", [(), (2,), (8,)])
def test_results_nobody_refers_to_are_returned_again(batch: tuple[int, ...]) -> None:
    robot = kt.zoo.double_pendulum()
    q = np.full((*batch, 2), 0.3)
    robot.mass_matrix(q)
    expected = robot.mass_matrix(q).copy()
    seen = {id(robot.mass_matrix(q)) for _ in range(100)}
    assert len(seen) == 1
    result = robot.mass_matrix(q)
    for _ in range(100):  # the usual loop: the last result is there while the next one is computed
        result = robot.mass_matrix(q)
        seen.add(id(result))
    assert len(seen) == 2
    np.testing.assert_array_equal(result, expected)


@native
@pytest.mark.parametrize("batch", [(), (2,), (8,)])
@pytest.mark.parametrize("hold", [lambda x: x, lambda x: x[0], memoryview, weakref.ref, lambda x: x.reshape(-1)[1:]])
def test_results_in_use_stay_as_they_are(hold: Any, batch: tuple[int, ...]) -> None:
    """Through the array itself, a view, a buffer or a weak reference."""
    robot = kt.zoo.double_pendulum()
    q = np.full((*batch, 2), 0.3)
    robot.mass_matrix(q)  # opens the gate: only its results are kept
    first = robot.mass_matrix(q)
    held, expected = hold(first), first.copy()
    address = first.ctypes.data
    del first
    others = [robot.mass_matrix(q + i) for i in range(fastcall_results.KEPT + 2)]
    if isinstance(held, weakref.ref):
        assert held() is None or np.array_equal(held(), expected)
    else:
        assert all(other.ctypes.data != address for other in others)
        np.testing.assert_array_equal(np.asarray(held), np.asarray(hold(expected)))


@native
@pytest.mark.parametrize("batch", [(), (8,)])
def test_tuples_nobody_refers_to_are_returned_again(batch: tuple[int, ...]) -> None:
    robot = kt.zoo.double_pendulum()
    q = v = tau = np.full((*batch, 2), 0.3)
    robot.step(q, v, tau, 0.01)
    assert len({id(robot.step(q, v, tau, 0.01)) for _ in range(100)}) == 1
    seen = set()
    for _ in range(100):  # the usual loop: the last results are the next arguments
        q, v = robot.step(q, v, tau, 0.01)
        seen |= {id(q), id(v)}
    assert len(seen) == 4


@native
@pytest.mark.parametrize(
    "hold",
    [lambda x: x, lambda x: x[0], lambda x: x[1], lambda x: x[1][:1], lambda x: memoryview(x[0]), lambda x: [*x], iter],
)
def test_tuples_in_use_stay_as_they_are(hold: Any) -> None:
    """Through the tuple itself, one of its arrays, a view or a buffer of one, or an iterator."""
    robot = kt.zoo.double_pendulum()
    q = np.full(2, 0.3)
    robot.step(q, q, q, 0.01)
    first = robot.step(q, q, q, 0.01)
    held, expected = hold(first), [np.array(part) for part in hold(tuple(map(np.copy, first)))]
    del first
    others = [robot.step(q, q + 1.0 + i, q, 0.01) for i in range(fastcall_results.KEPT + 2)]
    assert len({other[0].ctypes.data for other in others}) == len(others)
    np.testing.assert_array_equal([np.array(part) for part in held], expected)


def _reshape(array: Any) -> None:
    array.shape = (array.size,)


@native
@pytest.mark.parametrize("change", [_reshape, lambda x: x.setflags(write=False), lambda x: setattr(x, "dtype", int)])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_results_that_were_changed_are_not_returned_again(change: Any, batch: tuple[int, ...]) -> None:
    robot = kt.zoo.double_pendulum()
    q = np.full((*batch, 2), 0.3)
    expected = robot.mass_matrix(q).copy()
    for _ in range(2 * fastcall_results.KEPT):
        result = robot.mass_matrix(q)
        assert result.dtype == float
        assert result.flags.writeable
        np.testing.assert_array_equal(result, expected, strict=True)
        change(result)
    moved = [part.copy() for part in robot.step(q, q, q, 0.01)]
    for _ in range(2 * fastcall_results.KEPT):
        both = robot.step(q, q, q, 0.01)
        for part, wanted in zip(both, moved, strict=True):
            np.testing.assert_array_equal(part, wanted, strict=True)
            assert part.flags.writeable
        change(both[1])


@native
def test_kept_results_are_freed_with_their_function() -> None:
    function = counting(7)
    q, v, s = np.ones(7), np.ones(7), np.array(2.0)
    function(q, v, s)
    watch = [weakref.ref(part) for part in function(q, v, s)]
    del function
    gc.collect()
    assert all(reference() is None for reference in watch)
