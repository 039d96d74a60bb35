"""Memory that is kept: used again when nobody refers to it, never before, and not without bound."""

from __future__ import annotations

import gc
import itertools
import resource
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime import buffers, fastcall
from kinetree.runtime.bound import Compiled

SHAPE = (200, 200)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Start without buffers of earlier tests."""
    buffers.sizes[:] = 0
    buffers.buffers[:] = None


counted = pytest.mark.skipif(not buffers._COUNTABLE, reason="references are not counted here")


@counted
def test_memory_is_used_again_when_nobody_refers_to_it() -> None:
    first = buffers.empty(SHAPE)
    place = first.ctypes.data
    del first
    again = buffers.empty(SHAPE)
    assert again.ctypes.data == place
    smaller = buffers.empty((190, 200))
    assert not np.shares_memory(again, smaller)


@counted
@pytest.mark.parametrize(
    "refer", [lambda a: a, lambda a: a[3:4], lambda a: a.T[0], memoryview, lambda a: [a.reshape(-1)]]
)
def test_memory_is_not_used_while_anything_refers_to_it(refer: object) -> None:
    first = buffers.empty(SHAPE)
    first[...] = 1.0
    kept = refer(first)  # type: ignore[operator]
    place = first.ctypes.data
    del first
    gc.collect()
    for _ in range(10):
        buffers.empty(SHAPE)[...] = np.nan
        assert buffers.empty(SHAPE).ctypes.data != place
    assert np.all(np.asarray(kept) == 1.0)


@counted
@pytest.mark.parametrize("size", [buffers.SMALLEST_RESULT, 3 << 20])
def test_kept_memory_is_bounded(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "most_kept", lambda: 10 << 20)
    held = [buffers.empty((size // 8 + 1000 * i,)) for i in range(2 * buffers.BUFFERS)]
    kept = [buffer for buffer in buffers.buffers if buffer is not None]
    assert kept[-1] is not None
    assert sum(buffer.nbytes for buffer in kept) <= buffers.most_kept()
    assert [buffer.nbytes if buffer is not None else 0 for buffer in buffers.buffers] == list(buffers.sizes)
    assert any(held[-1].base is buffer for buffer in kept)  # the last one always
    for one, other in itertools.pairwise(held):
        assert not np.shares_memory(one, other)


@counted
def test_memory_beyond_the_bound_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "most_kept", lambda: 1 << 20)
    watch = weakref.ref(buffers.empty((1 << 18,)).base)
    assert watch() is None
    assert not np.any(buffers.sizes)


def test_small_results_have_memory_of_their_own() -> None:
    assert buffers.empty((10,)).base is None


@counted
def test_memory_is_shared_by_threads() -> None:
    place = buffers.empty(SHAPE).ctypes.data
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(buffers.empty(SHAPE).ctypes.data))
    worker.start()
    worker.join()
    assert found == [place]


def _reshape(buffer: Any) -> None:
    buffer.shape = (buffer.size // 2, 2)


def _bytes(buffer: Any) -> None:
    buffer.dtype = np.uint8


def _stride(buffer: Any) -> None:
    buffer.shape = (buffer.size // 4, 4)
    buffer.strides = buffer.strides[::-1]


@counted
@pytest.mark.parametrize("change", [_reshape, _bytes, _stride, lambda b: b.setflags(write=False)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_buffers_that_users_changed(change: Any) -> None:
    """A buffer is the base of its arrays, where users can reach it."""
    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(0, 64)
    expected = robot.mass_matrix(q).copy()
    for make in (lambda: robot.mass_matrix(q), lambda: buffers.empty(expected.shape)):
        for _ in range(4):
            result = make()
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            assert result.flags.carray
            result[...] = 0.0
            change(result.base)
            del result
    np.testing.assert_array_equal(robot.mass_matrix(q), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="units of ru_maxrss")
def test_many_calls_do_not_grow() -> None:
    robot, chain = kt.zoo.humanoid24(), kt.zoo.chain(300)
    q, v = robot.random_configuration(0, 256), np.ones((256, robot.nv))
    single, long = q[0].copy(), chain.random_configuration(0)

    def run(times: int) -> int:
        for _ in range(times):
            robot.inverse_dynamics_derivatives(q, v, v)
            robot.inverse_dynamics(single, v[0], v[0])
            chain.mass_matrix_inverse(long)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(30)
    assert run(300) - before < 8_000  # kB


def test_scratch_of_any_size_gives_the_same_bits() -> None:
    """Forward dynamics of fifteen chains of 1,000 bodies takes more than 4 MiB, that of one of them less."""

    def chains(count: int) -> kt.Model:
        builder = kt.Builder("chains")
        for i in range(1000 * count):
            parent = f"body{i - 1}" if i % 1000 else "world"
            builder.add_body(f"body{i}", parent=parent, mass=1.0, com=(0.1, 0.0, 0.0), inertia=np.eye(3))
        return builder.build()

    v = np.linspace(-1.0, 1.0, 1000)
    alone = chains(1).forward_dynamics(v, v, v)
    together = chains(15).forward_dynamics(*[np.tile(v, 15)] * 3)
    assert np.array_equal(together, np.tile(alone, 15))


@pytest.mark.parametrize("name", ["mass_matrix", "inverse_dynamics_derivatives"])
@pytest.mark.skipif(not fastcall.NATIVE, reason="gates are switched off or not possible here")
def test_batches_whose_results_are_kept_take_the_short_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, rng = kt.zoo.humanoid24(), np.random.default_rng(0)
    q, v, a = robot.random_configuration(rng, (200,)), *rng.normal(size=(2, 200, robot.nv))
    inputs = (q,) if name == "mass_matrix" else (q, v, a)
    function = getattr(robot, name)
    alone = [function(*sample) for sample in zip(*inputs, strict=True)]
    function(*inputs)  # compiles

    def refuse(*_: Any) -> None:
        raise AssertionError("arguments are handled in Python")

    monkeypatch.setattr(Compiled, "general", refuse)
    monkeypatch.setattr(type(function), "general", refuse)
    found = function(*inputs)
    assert type(found) is type(alone[0])
    np.testing.assert_array_equal(np.asarray(found), np.moveaxis(np.array(alone), 0, -3))


def test_a_number_is_not_a_batch() -> None:
    robot = kt.zoo.double_pendulum()
    q, v, tau = np.zeros((3, 40_000, 2))
    dt = np.array(1e-3)  # no axes
    together = robot.step(q, v, tau, dt)
    np.testing.assert_array_equal(together[0][0], robot.step(q[0], v[0], tau[0], dt)[0])
