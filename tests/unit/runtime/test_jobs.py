"""Jobs that threads begin before their results are needed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code
from kinetree.runtime import compile_queue, kernels, sequence, threads
from kinetree.runtime.threads import SharedComputation


@pytest.fixture
def two_threads() -> None:
    threads.set_threads(2)


def wait_without_helping(*jobs: SharedComputation[Any]) -> None:
    for job in jobs:
        ended = threading.Event()
        job.then(ended.set)
        assert ended.wait(10)


def test_a_job_is_done_once(two_threads: None) -> None:
    done: list[int] = []

    def note(number: int) -> int:
        done.append(number)
        return number

    jobs = threads.begin([partial(note, number) for number in range(20)])
    assert threads.finish(jobs) == threads.finish(jobs) == list(range(20))
    assert sorted(done) == list(range(20))


def test_another_thread_begins(two_threads: None) -> None:
    began = threading.Event()
    threads.begin([began.set])
    assert began.wait(10)


def test_who_waits_does_what_nobody_has_begun(two_threads: None) -> None:
    began, go_on = threading.Event(), threading.Event()
    blocked = threads.begin([lambda: began.set() or go_on.wait(10)])
    assert began.wait(10)
    other = threads.begin([lambda: go_on.set() or threading.get_ident()])
    assert threads.finish(blocked) == [True]
    assert threads.finish(other) == [threading.get_ident()]


def test_one_thread_does_everything_itself() -> None:
    threads.set_threads(1)
    jobs = threads.begin([threading.get_ident])
    assert not jobs[0].finished
    assert threads.finish(jobs) == [threading.get_ident()]


def test_what_is_not_urgent_comes_last(two_threads: None) -> None:
    began, go_on, done = threading.Event(), threading.Event(), []
    threads.begin([lambda: began.set() or go_on.wait(10)])
    assert began.wait(10)
    later = threads.begin([partial(done.append, "later")], later=True)
    urgent = threads.begin([partial(done.append, number) for number in range(3)])
    go_on.set()
    wait_without_helping(*later, *urgent)
    assert done == [0, 1, 2, "later"]


def test_who_waits_does_nothing_that_is_not_urgent(two_threads: None) -> None:
    began, go_on = threading.Event(), threading.Event()
    blocked = threads.begin([lambda: began.set() or go_on.wait(10)])
    assert began.wait(10)
    (job,) = threads.begin([threading.get_ident], later=True)
    threading.Timer(0.1, go_on.set).start()
    threads.finish(blocked)
    wait_without_helping(job)
    assert job.result() != threading.get_ident()


def test_who_settles_does_what_nobody_has_begun(two_threads: None) -> None:
    began, go_on = threading.Event(), threading.Event()
    threads.begin([lambda: began.set() or go_on.wait(10)])
    assert began.wait(10)
    (job,) = threads.begin([threading.get_ident], later=True)
    threads.settle()
    go_on.set()
    assert job.result() == threading.get_ident()


def test_errors_reach_whoever_needs_the_result(two_threads: None) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    jobs = threads.begin([fail, lambda: None])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            threads.finish(jobs)


def test_libraries_that_failed_are_compiled_again(two_threads: None) -> None:
    text = "define void @f() { ret void }"

    def pending(text: str) -> compile_queue.CompileJob:
        return compile_queue.CompileJob("library", None, machine_code.host(), lambda: ([text], {"number": 1}), "f")

    shared: compile_queue.Libraries[str] = compile_queue.Libraries()
    for begin in (False, True):
        if begin:
            shared.begin("key", lambda _: pending("nonsense"))
        with pytest.raises(RuntimeError, match="expected top-level entity"):
            shared.get("key", lambda _: pending("nonsense"))
        assert not shared._found
    found = shared.get("key", lambda _: pending(text))
    assert found == shared.get("key", lambda _: pending("nonsense"))
    assert found[1] == {"number": 1}


def test_failed_compilations_are_reported_once_and_not_stored() -> None:
    finished: list[Any] = []
    bad = compile_queue.Compilation(["define void @f() { ret void }", "nonsense"], machine_code.host(), finished.append)
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        bad.objects()
    assert finished == [None]


def test_compilations_are_shared_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not afterwards, however long somebody keeps them: an error would return for ever."""
    began, go_on = threading.Event(), threading.Event()
    tried: list[str] = []

    def compile_text(text: str, _: machine_code.Processor) -> bytes:
        tried.append(text)
        began.set()
        assert go_on.wait(10)
        if len(tried) == 1:
            raise MemoryError
        return text.encode()

    monkeypatch.setattr(compile_queue, "compile_text", compile_text)
    threads.set_threads(2)
    made = [compile_queue.Compilation(["text"], machine_code.host(), lambda _: None)]
    assert began.wait(10)
    made.append(compile_queue.Compilation(["text"], machine_code.host(), lambda _: None))
    go_on.set()
    for compilation in made:
        with pytest.raises(MemoryError):
            compilation.objects()
    assert len(tried) == 1
    assert compile_queue.Compilation(["text"], machine_code.host(), lambda _: None).objects() == [b"text"]
    assert len(tried) == 2


def test_one_thread_compiles_at_once() -> None:
    """Nobody else would, and other processes may wait for what this one has locked, while it waits for their code."""
    finished: list[Any] = []
    threads.set_threads(1)
    made = compile_queue.Compilation(["define void @f() { ret void }"], machine_code.host(), finished.append)
    (objects,) = finished
    assert objects == made.objects()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks() -> None:
    go_on = threading.Event()
    job = SharedComputation(lambda: go_on.wait(10) or 1)
    thread = threading.Thread(target=job.run)
    thread.start()
    child = os.fork()
    if child == 0:
        go_on.set()
        os._exit(0 if job.result() is True else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_process_can_end_while_threads_compile() -> None:
    source = """
import kinetree as kt
from kinetree.compiler.llvm import machine_code as target
from kinetree.runtime import kernels, threads
from kinetree.runtime.compile_queue import Compilation
robot = kt.zoo.humanoid24()
function = robot.forward_dynamics_derivatives
made = kernels.kernels(function.algorithm, kernels.variants_of(function.algorithm, robot.mechanism, ()))
threads.set_threads(3)
Compilation(made.modules(1, target.host())[0] * 3, target.host(), lambda _: None)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.parametrize("shape", [(), (9,)])
def test_only_kernels_that_are_used_are_compiled(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    kernels._made.cache_clear()  # others may have compiled them
    monkeypatch.setattr(sequence, "_interpreters", compile_queue.Libraries())
    compiled: list[int] = []
    compilation = compile_queue.Compilation
    monkeypatch.setattr(
        compile_queue,
        "Compilation",
        lambda texts, *rest: compiled.append("@kernel(" in texts[0]) or compilation(texts, *rest),
    )
    robot = kt.zoo.random_tree(3, kinds=("helical", "planar"), seed=3)
    q = robot.random_configuration(0, shape)
    v = np.zeros((*shape, robot.nv))
    robot.step(q, v, v, 0.1, method="rk4")
    stages = 3
    assert sum(compiled) == stages + 1  # and the sequence
