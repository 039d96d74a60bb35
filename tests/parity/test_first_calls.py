"""First calls from many threads at once, and from children of processes that are compiling."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime import kernels


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
