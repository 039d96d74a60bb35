"""Threads, processes and long lives: the same bits, and nothing left behind."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError
from tests.parity.functions import FEW, FUNCTIONS, Function, assert_same_bits, robot, states


@pytest.mark.parametrize("function", FEW, ids=str)
def test_sixteen_threads_agree(function: Function) -> None:
    model = robot()
    q, v, x = states(model, (64,))
    expected = function(model, q, v, x)
    gate = threading.Barrier(16)

    def hammer(number: int) -> None:
        gate.wait()
        rng = np.random.default_rng(number)
        for _ in range(50):
            start = int(rng.integers(0, 60))
            stop = int(rng.integers(start + 1, 65))
            part = function(model, q[start:stop], v[start:stop], x[start:stop])
            assert_same_bits(part, tuple(e[start:stop] for e in expected))
            assert_same_bits(function(model, q[start], v[start], x[start]), tuple(e[start] for e in expected))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(hammer, range(16)))


def test_first_calls_from_many_threads() -> None:
    """Nothing is compiled yet, and all threads ask at once."""
    model = pickle.loads(pickle.dumps(robot()))
    q, v, x = states(model, (3,))
    gate = threading.Barrier(8)

    def call(_: int) -> tuple[np.ndarray, ...]:
        gate.wait()
        return model.forward_dynamics(q, v, x), model.mass_matrix(q)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(8)))
    for result in results[1:]:
        assert_same_bits(result, results[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_agrees() -> None:
    """Also after the parent has used its thread pool, which does not survive the fork."""
    model = robot()
    q, v, x = states(model, (10_000,))
    expected = model.forward_dynamics(q, v, x).tobytes()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork")  # Python and JAX warn of any fork while threads live
        child = os.fork()
    if child == 0:
        status = 1
        try:
            same = model.forward_dynamics(q, v, x).tobytes() == expected
            same &= model.forward_dynamics(q[0], v[0], x[0]).tobytes() == expected[: 8 * model.nv]
            os.write(writing, b"same" if same else b"different")
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = _read_in_time(pipe, child)
    os.waitpid(child, 0)
    assert answer == b"same"
    assert model.forward_dynamics(q, v, x).tobytes() == expected


def _read_in_time(pipe: BinaryIO, child: int, seconds: float = 60.0) -> bytes:
    """What the child says; a child that hangs is ended, and has then said nothing."""
    guard = threading.Timer(seconds, lambda: os.kill(child, 9))
    guard.start()
    try:
        return pipe.read()
    finally:
        guard.cancel()


def test_another_process_that_unpickled_the_model_agrees() -> None:
    model = robot()
    arrays = states(model, (13,))
    code = (
        "import pickle, sys\n"
        "model, (q, v, x) = pickle.load(sys.stdin.buffer)\n"
        "results = model.inverse_dynamics(q, v, x), model.forward_dynamics(q, v, x), model.mass_matrix(q)\n"
        "sys.stdout.buffer.write(pickle.dumps(results))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps((model, arrays)), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    q, v, x = arrays
    expected = model.inverse_dynamics(q, v, x), model.forward_dynamics(q, v, x), model.mass_matrix(q)
    assert_same_bits(pickle.loads(done.stdout), expected)


def test_pickling_twice_gives_the_same_model() -> None:
    model = robot()
    model.forward_dynamics(*states(model, ()))
    copy = pickle.loads(pickle.dumps(model))
    assert copy == model
    assert hash(copy) == hash(model)


def test_callables_outlive_their_model() -> None:
    model = pickle.loads(pickle.dumps(robot()))
    arrays = states(model, (9,))
    expected = model.forward_dynamics(*arrays)
    function = model.forward_dynamics
    native = model.mass_matrix.engine("native")
    matrix = native(arrays[0])
    del model
    gc.collect()
    junk = [np.full(1000, np.nan) for _ in range(1000)]  # whatever was freed is written over
    assert_same_bits((function(*arrays), native(arrays[0])), (expected, matrix))
    del junk


def test_models_are_let_go() -> None:
    """Compiling for a model does not keep it alive."""
    model = pickle.loads(pickle.dumps(robot()))
    model.forward_dynamics(*states(model, ()))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def resident() -> int:
    """Memory of this process that is in use [bytes]."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_a_million_calls_do_not_grow_memory() -> None:
    arm = kt.zoo.double_pendulum()  # what a call could leave behind does not depend on the robot, but its time does
    single, batch = states(arm, ()), states(arm, (16,))
    out = np.empty((16, arm.nv))
    forward, inverse = arm.forward_dynamics, arm.inverse_dynamics

    def work(rounds: int) -> None:
        for _ in range(rounds):
            inverse(*single)
            forward(*batch, out=out)

    work(2_000)
    gc.collect()
    before = resident()
    work(250_000)
    for _ in range(500_000):
        inverse(*single)
    gc.collect()
    assert resident() - before < 4 << 20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_ten_thousand_models_do_not_grow_memory() -> None:
    base = kt.zoo.double_pendulum()
    at = np.zeros(2)

    def use(first: int, models: int) -> None:
        for i in range(first, first + models):
            model = base.with_gravity((0.0, 0.0, -1e-3 * i))
            if i % 5 == 0:
                model.inverse_dynamics(at, at, at)

    use(0, 1_500)  # caches of bounded size fill up first
    gc.collect()
    before = resident()
    use(1_500, 8_500)
    gc.collect()
    assert resident() - before < 4 << 20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_refused_calls_do_not_grow_memory() -> None:
    arm = robot("humanoid")
    q, v, x = states(arm, ())

    def work(rounds: int) -> None:
        for _ in range(rounds):
            with pytest.raises(InputError):
                arm.inverse_dynamics(q[1:], v, x)

    work(500)
    gc.collect()
    before = resident()
    work(20_000)
    gc.collect()
    assert resident() - before < 4 << 20


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_results_are_fresh_arrays(function: Function) -> None:
    """No result is a view of a buffer that the next call fills."""
    model = robot()
    q, v, x = states(model, (2,))
    first = function(model, q[0], v[0], x[0])
    kept = tuple(np.array(part) for part in first)
    function(model, q[1], v[1], x[1])
    assert_same_bits(first, kept)


INTERRUPTED = """
import faulthandler, itertools, signal, time
faulthandler.dump_traceback_later(100, exit=True)
import kinetree as kt
from kinetree.runtime import threads
class Stop(BaseException):
    pass
def stop(*_):
    raise Stop
kt.set_threads(3)
threads.NUMBERS_PER_THREAD = 1 << 8
robot = kt.zoo.double_pendulum()
q = robot.random_configuration(0, 400)
right = robot.mass_matrix(q).tobytes()
signal.signal(signal.SIGALRM, stop)
start = time.process_time()
for i in itertools.count():
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + (i % 97) * 1e-5)
        for _ in range(3):
            robot.mass_matrix(q)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Stop:
        if time.process_time() - start > 1.0:
            break
signal.setitimer(signal.ITIMER_REAL, 0.0)
assert robot.mass_matrix(q).tobytes() == right
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_large_batches_go_on_after_interrupts() -> None:
    """Whatever the main thread is doing when Ctrl-C comes, the threads take further batches."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
