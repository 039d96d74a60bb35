"""Locks that survive forks, and signal handlers that raise wherever Python lets them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from kinetree.concurrency import ForkSafeLock, give_way, is_holding

INTERRUPTED = """
import faulthandler, gc, os, sys, threading
faulthandler.dump_traceback_later(100, exit=True)
import kinetree as kt
from kinetree.compiler.llvm.machine_code import host
from kinetree.concurrency import gc_paused
from kinetree.runtime import threads
from kinetree.runtime.compile_queue import CompileJob

class Stop(BaseException):
    pass

def is_interrupted(call, place):
    left = place
    def profile(frame, event, _):
        # Python handles signals when a function begins, and after each call; llvmlite's own lock is not safe from them
        nonlocal left
        if event in ("call", "c_return") and "llvmlite" not in frame.f_code.co_filename:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Stop
    sys.setprofile(profile)
    try:
        call()
    except Stop:
        return True
    finally:
        sys.setprofile(None)
    return False

kt.set_threads(3)
threads.NUMBERS_PER_THREAD = 1 << 8
robot = kt.zoo.double_pendulum()
q = robot.random_configuration(0, 400)
jobs = []

def batch():
    return robot.mass_matrix(q).tobytes()

def begin():
    jobs[:] = threads.begin([lambda: 1, lambda: 2, lambda: 3])
    return threads.finish(jobs)

def finish():
    if all(job.finished for job in jobs):
        jobs[:] = threads.begin([lambda: 1, lambda: 2], later=True)
    threads.settle()
    return threads.finish(jobs)

def compile():
    job = CompileJob("f", None, host(), lambda: (["define i64 @f() { ret i64 7 }"], {}), "f")
    return bool(job.library()[0].address("f"))

def pause():
    with gc_paused():
        return gc.isenabled()

for call in (batch, begin, finish, compile, pause):
    right, place = call(), 0
    while is_interrupted(call, place):
        found = []
        thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
        thread.start()
        thread.join(10)
        if found != [right] or not gc.isenabled():
            print(f"{call.__name__}, interrupted at {place}: {found}, collector {gc.isenabled()}", flush=True)
            os._exit(1)
        place += 1
    assert place > 3
print("done")
"""


def test_other_threads_go_on_wherever_the_main_thread_is_interrupted() -> None:
    environment = {**os.environ, "KINETREE_CACHE_DIR": "off"}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "done\n", done.stdout + done.stderr


def forked(succeeded: object) -> bool:
    """Fork, and tell whether a function of the child returns something true."""
    child = os.fork()
    if not child:
        os._exit(0 if callable(succeeded) and succeeded() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@forking
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_waits_for_a_thread_that_needs_further_locks() -> None:
    outer, inner, others = ForkSafeLock(), ForkSafeLock(), [ForkSafeLock() for _ in range(100)]
    entered, state = threading.Event(), []

    def work() -> None:
        with outer:
            entered.set()
            time.sleep(0.1)
            for lock in (inner, *others):
                with lock, ForkSafeLock():
                    state.append("half")
                    time.sleep(1e-4)
                    state.pop()
            state.append("whole")

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)

    def whole() -> bool:
        with outer, inner, others[-1]:
            return state == ["whole"]

    assert forked(whole)
    thread.join()
    assert not is_holding()


@forking
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_comes_before_what_others_have_not_begun() -> None:
    done: list[int] = []

    def work() -> None:
        for number in range(40):
            give_way()
            with ForkSafeLock():
                time.sleep(0.05)
                done.append(number)

    thread = threading.Thread(target=work)
    thread.start()
    assert forked(lambda: len(done) < 20)
    thread.join()
    assert len(done) == 40


@forking
@pytest.mark.filterwarnings("ignore:.*fork")
def test_who_holds_a_lock_forks_without_waiting_for_others() -> None:
    """They may be waiting for that lock."""
    mine, other, entered = ForkSafeLock(), ForkSafeLock(), threading.Event()

    def work() -> None:
        with other:
            entered.set()
            with mine:
                pass

    with mine:
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(10)
        assert is_holding()
        assert forked(lambda: True)
    thread.join()
