"""Threads, processes and long lives: the same bits, and nothing left behind.

First calls from many threads at once, and from children of processes that are compiling; functions that travel to other
processes and copy as what they are, attributes of a frozen model; processes that find all their code in the cache.
"""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

import kinetree as kt
import tests
from kinetree.errors import InputError
from kinetree.runtime import kernels
from kinetree.runtime.function import Function as ModelFunction
from tests.parity.functions import FEW, FUNCTIONS, Function, assert_same_bits, robot, states
from tests.tolerance import refused


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


@pytest.mark.parametrize("name", ["mass_matrix", "mass_matrix_inverse"])
def test_a_new_robot_called_by_four_threads_at_once(name: str) -> None:
    """One sample of 400 bodies runs without the interpreter's lock, on what another thread may be binding again."""
    expected = getattr(kt.zoo.chain(400, seed=0), name)
    q = np.random.default_rng(0).uniform(-1.0, 1.0, 400)
    right = expected(q)
    for _ in range(5):
        function, results = getattr(kt.zoo.chain(400, seed=0), name), {}
        together = threading.Barrier(4)

        def call(number: int, function=function, results=results, together=together) -> None:
            together.wait()
            results[number] = [function(q) for _ in range(3)]

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        for result in (one for several in results.values() for one in several):
            np.testing.assert_array_equal(result, right)


def test_a_function_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, counted = kt.zoo.chain(5), []
    bind = kernels.bind

    def slow(*args, **kwargs):
        counted.append(args)
        sleeping.wait(0.2)
        return bind(*args, **kwargs)

    sleeping = threading.Event()
    monkeypatch.setattr("kinetree.runtime.function.bind", slow)
    together = threading.Barrier(8)

    def call() -> None:
        together.wait()
        robot.gravity_forces(np.zeros(5))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 1


_FORKING = """
import os, sys, threading, time, warnings
import kinetree as kt

warnings.simplefilter("ignore")
robot, other = kt.zoo.humanoid24(), kt.zoo.double_pendulum()
thread = threading.Thread(target=robot.compile, args=(["mass_matrix_inverse", "forward_dynamics", "energy"],))
thread.start()
children = []
while thread.is_alive() and len(children) < 6:
    child = os.fork()
    if child == 0:
        robot.mass_matrix_inverse(robot.neutral())  # what the other thread is compiling
        other.gravity_forces(other.neutral())
        os._exit(0)
    children.append(child)
    time.sleep(0.05)
thread.join()
deadline = time.monotonic() + 60
while children:
    child, status = os.waitpid(children[0], os.WNOHANG)
    if child:
        assert status == 0, status
        del children[0]
    elif time.monotonic() > deadline:
        for child in children:
            os.kill(child, 9)
        sys.exit("a child hangs")
    else:
        time.sleep(0.02)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_while_another_thread_compiles() -> None:
    environment = {**os.environ, "KINETREE_CACHE_DIR": "off"}
    done = subprocess.run(
        [sys.executable, "-c", _FORKING], env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_functions_pickle_by_model_and_name(function: Function) -> None:
    model = robot()
    original = attrgetter(function.name)(model)
    for engine in ("native", "reference"):
        found = pickle.loads(pickle.dumps(original.engine(engine)))
        assert repr(found) == repr(original.engine(engine))
        assert found is not original
    found = pickle.loads(pickle.dumps(original))
    arrays = states(model, ())
    result = found(*function.arrays(*arrays), *function.rest(model), **dict(function.options))
    assert_same_bits(result if isinstance(result, tuple) else (result,), function(model, *arrays))


@pytest.mark.parametrize("path", ["gravity_forces", "jacobian", "forward_dynamics.jvp"])
def test_pickles_are_hardly_larger_than_the_models(path: str) -> None:
    model = robot()
    function = attrgetter(path)(model)
    function.compile()
    assert len(pickle.dumps(function)) < len(pickle.dumps(model)) + 300


def test_functions_of_one_model_still_share_it() -> None:
    model = kt.zoo.double_pendulum()
    mass, forces, again = pickle.loads(pickle.dumps((model.mass_matrix, model.forward_dynamics.jvp, model)))
    assert again.mass_matrix is mass
    assert again.forward_dynamics.jvp is forces


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_maps_them(method: str) -> None:
    model = kt.zoo.humanoid24()
    q = model.random_configuration(0, 6)
    with multiprocessing.get_context(method).Pool(2) as pool:
        mapped = pool.map(model.gravity_forces, list(q))
    np.testing.assert_array_equal(mapped, model.gravity_forces(q))


def test_copies_are_the_functions_themselves() -> None:
    model = kt.zoo.double_pendulum()
    for function in (model.mass_matrix, model.jacobian, model.inverse_dynamics.vjp, model.pose.engine("reference")):
        assert copy.copy(function) is function
        assert copy.deepcopy(function) is function


def test_a_function_without_a_model_says_so() -> None:
    model = kt.zoo.double_pendulum()
    alone = ModelFunction("mass_matrix", model.mechanism, model.mass_matrix.algorithm)
    refused("mass_matrix belongs to no model and cannot be pickled", pickle.dumps, alone, error=TypeError)


RUN = """
import sys
import numpy as np
import kinetree as kt
from kinetree.compiler import programs
from tests.parity.functions import FUNCTIONS, states

if sys.argv[1] == "warm":
    def trace(*_, **__):
        raise AssertionError("traced")
    programs.trace = trace

robot = (
    kt.Builder("small")
    .add_body("base", joint="spherical", mass=2.0, com=(0.1, 0.0, 0.2), inertia=np.eye(3))
    .add_body("arm", parent="base", axis=(0, 1, 0), mass=1.0, com=(0.0, 0.1, 0.3), inertia=np.eye(3))
    .build()
)
q, v, x = states(robot, ())
calls = {str(f): lambda f=f: f(robot, q, v, x) for f in FUNCTIONS}
for method in ("midpoint", "semi_implicit_euler", "rk4"):
    calls["discretize " + method] = lambda method=method: robot.discretize(q, v, x, 0.1, method=method)
hand = robot.tasks(["arm"])
for name in ("inverse_inertia", "inertia", "jacobian", "dynamics", "rank"):
    calls["tasks " + name] = lambda name=name: getattr(hand, name)(q)
calls["tasks bias"] = lambda: hand.bias(q, v)
feet = [kt.simulation.Points("arm", np.eye(3))]
calls["rollout"] = lambda: kt.simulation.Simulator(robot, friction=0.1).rollout(q, v, x, steps=3)
calls["contacts"] = lambda: kt.simulation.Simulator(robot, contacts=feet).rollout(q, v, x, steps=3)
for name, call in calls.items():
    try:
        found = call()
    except Exception as error:
        raise AssertionError(name) from error
    found = found if isinstance(found, tuple) else (found,)
    print(name, *(np.asarray(part).tobytes().hex() for part in found))
"""


def test_warm_processes_do_not_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path))
    root = Path(tests.__file__).parents[1]
    found = []
    for how in ("cold", "warm"):
        done = subprocess.run(
            [sys.executable, "-c", RUN, how], cwd=root, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.splitlines())
    assert len(found[0]) > 50
    assert found[0] == found[1]
