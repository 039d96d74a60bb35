"""Tiered compilation: code that runs while LLVM is still optimising it, and is replaced."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code as target
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.runtime import compile_queue, kernels, threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library, Trampoline
from kinetree.runtime.operands import Binding, Operand
from kinetree.runtime.sequence import KernelSequence

HUMANOID = kt.zoo.humanoid24()
MIXED = kt.zoo.random_tree(8, kinds=("revolute", "prismatic", "spherical", "planar"), seed=1)


@pytest.fixture
def tiers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whatever is compiled has two tiers; optimising waits for an event."""
    go_on = threading.Event()
    monkeypatch.delenv("KINETREE_NO_TIERS", raising=False)
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    monkeypatch.setattr(compile_queue, "_LARGE", 0)
    monkeypatch.setattr(kernels, "_made", kernels.Kernels)  # none that others have compiled

    def slowly(text: str, chosen: target.Processor) -> bytes:
        if "@kernel(" in text or "@part_" in text:
            go_on.wait(60)
        return compile_text(text, chosen)

    monkeypatch.setattr(compile_queue, "compile_text", slowly)
    threads.set_threads(2)
    yield go_on
    go_on.set()
    threads.settle()


@pytest.fixture
def trampolines(monkeypatch: pytest.MonkeyPatch) -> list[Trampoline]:
    """Those that are made."""
    found: list[Trampoline] = []
    made = Trampoline.__init__

    def noting(self: Trampoline, *rest: Any) -> None:
        made(self, *rest)
        found.append(self)

    monkeypatch.setattr(Trampoline, "__init__", noting)
    return found


def addresses(trampolines: list[Trampoline]) -> list[int | None]:
    """Where they lead."""
    return [target.value for trampoline in trampolines for target in trampoline._targets.values()]


def state(robot: kt.Model, shape: tuple[int, ...]) -> list[Any]:
    vectors = np.random.default_rng(1).uniform(-1.0, 1.0, (2, *shape, robot.nv)).astype(robot.dtype)
    return [robot.random_configuration(1, shape).astype(robot.dtype), *vectors]


CASES: dict[str, Callable[[kt.Model, Any, Any, Any], Any]] = {
    "forward_dynamics": lambda robot, *arrays: robot.forward_dynamics(*arrays),
    "hvp": lambda robot, q, v, tau: robot.forward_dynamics.hvp(q, v, tau, v, tau, q[..., -1:] * v, tau),
    "discretize": lambda robot, *arrays: robot.discretize(*arrays, 0.01),
    "difference": lambda robot, q, v, _: robot.difference(q, robot.integrate(q, v)),
    "inverse_inertia": lambda robot, q, *_: robot.tasks(robot.frames[-2:]).inverse_inertia(q),
}


@pytest.mark.parametrize("shape", [(), (19,)])
@pytest.mark.parametrize(
    ("name", "robot"),
    [
        pytest.param(name, robot, id=f"{name}-{kind}")
        for kind, robot, names in (
            ("humanoid", HUMANOID, ("hvp", "discretize", "inverse_inertia")),
            ("mixed", MIXED, ("forward_dynamics", "difference", "inverse_inertia")),
            ("float32", HUMANOID.astype("float32"), ("forward_dynamics",)),
        )
        for name in names
    ],
)
def test_both_tiers_give_the_same_bits(
    name: str, robot: kt.Model, shape: tuple[int, ...], tiers: threading.Event, trampolines: list[Trampoline]
) -> None:
    robot, arrays = robot.with_gravity([0.1, 0.2, -9.0]), state(robot, shape)
    first = CASES[name](robot, *arrays)
    assert trampolines
    before = addresses(trampolines)
    tiers.set()
    threads.settle()
    assert not set(before) & set(addresses(trampolines))
    optimised = CASES[name](robot, *arrays)
    for one, other in zip(*([np.atleast_1d(a) for a in r] for r in (first, optimised)), strict=True):
        assert one.tobytes() == other.tobytes()
        assert np.isfinite(one).all()


def test_compile_waits_for_optimised_code(tiers: threading.Event, trampolines: list[Trampoline]) -> None:
    robot = HUMANOID.with_gravity([0.0, 0.0, -1.0])
    robot.forward_dynamics(*state(robot, ()))
    assert len(trampolines) == 1
    unoptimised = addresses(trampolines)
    threading.Timer(0.1, tiers.set).start()
    robot.forward_dynamics.compile()  # for batches too
    assert len(trampolines) == 1
    assert addresses(trampolines) != unoptimised
    assert not [job for job in threads._put_off if not job.finished]


def test_calls_go_on_while_code_is_replaced() -> None:
    """Libraries that write different numbers, behind a trampoline that other threads call."""

    def writing(number: int) -> Library:
        header = "define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)"
        return Library([compile_text(f"{header} {{ store i64 {number}, ptr %ws ret void }}", target.host())], "kernel")

    trampoline = Trampoline(writing(0), "kernel")
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(trampoline.address("kernel"))
    seen: list[list[int]] = []

    def call() -> None:
        number, mine = ctypes.c_int64(-1), [0]
        while mine[-1] < 5:
            kernel(ctypes.addressof(number), *[None] * 4)
            if number.value != mine[-1]:
                mine.append(number.value)
        seen.append(mine)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for number in range(1, 6):
        trampoline.retarget(writing(number))
    for caller in callers:
        caller.join()
    assert all(mine == sorted(set(mine)) for mine in seen)
    assert len(seen) == len(callers)


def begun(texts: tuple[str, ...] = ("x" * compile_queue._LARGE,), chosen: target.Processor | None = None) -> bool:
    """Whether modules have two tiers."""
    found = compile_queue.begin_unoptimized(texts, chosen or target.host())
    for job in found or ():
        job.wait()
    return found is not None


def test_which_code_has_two_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not begun()  # switched off for tests
    monkeypatch.setenv("KINETREE_NO_TIERS", "0")
    threads.set_threads(2)
    assert begun()
    assert begun(("x" * (compile_queue._LARGE // 2),) * 2)
    assert not begun(("x" * (compile_queue._LARGE - 1),))
    with compile_queue.optimized():
        assert not begun()
    assert not begun(chosen=replace(target.host(), optimizes=False))
    threads.set_threads(1)
    assert not begun()


def test_code_may_stay_unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    host = target.host.__wrapped__
    text = """define double @same(double %x) {
        %home = alloca double
        store double %x, ptr %home
        %y = load double, ptr %home
        ret double %y
    }"""
    unoptimised = target.compile_unoptimized(text, target.host())
    for value in ("1", "yes"):
        monkeypatch.setenv("KINETREE_NO_OPTIMIZATION", value)
        assert host() == replace(target.host(), optimizes=False)
        assert compile_text(text, host()) == unoptimised
    for value in ("0", ""):
        monkeypatch.setenv("KINETREE_NO_OPTIMIZATION", value)
        assert host() == target.host()
        assert compile_text(text, host()) != unoptimised


def test_unoptimised_code_stays_if_optimising_fails(
    tiers: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(text: str, _: target.Processor) -> bytes:
        raise RuntimeError("LLVM is tired")

    robot = MIXED.with_gravity([0.0, 1.0, 0.0])
    arrays = state(robot, ())
    tiers.set()
    robot.integrate(*arrays[:2])  # drivers and gates are there
    threads.settle()
    monkeypatch.setattr(compile_queue, "compile_text", fail)
    with caplog.at_level(logging.WARNING, logger="kinetree"):
        first = robot.forward_dynamics(*arrays)
        threads.settle()
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("forward_dynamics, ")
    assert message.endswith(" runs without optimisation: LLVM failed")
    assert first.tobytes() == robot.forward_dynamics(*arrays).tobytes()
    assert np.isfinite(first).all()


SOURCE = """
import os
import numpy as np
import kinetree as kt
from kinetree.runtime import compile_queue, threads
made = []
class Noted(compile_queue.Trampoline):
    def __init__(self, *rest):
        super().__init__(*rest)
        made.append(self)
compile_queue.Trampoline = Noted
robot = kt.zoo.humanoid24()
q = np.linspace(-1.0, 1.0, robot.nq)
first = robot.forward_dynamics.hvp(q, q, q, q, q, q, q)
"""


def run(source: str, **environment: str) -> str:
    """What a program prints, with tiers."""
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=os.environ | {"KINETREE_NO_TIERS": "0", "KINETREE_THREADS": "2"} | environment,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_have_optimised_code() -> None:
    print_child = """
if os.fork() == 0:
    assert not threads._put_off
    print({len(trampoline._libraries) for trampoline in made}, flush=True)
    again = robot.forward_dynamics.hvp(q, q, q, q, q, q, q)
    os._exit(0 if [x.tobytes() for x in first] == [x.tobytes() for x in again] else 1)
assert os.wait()[1] == 0
"""
    assert run(SOURCE + print_child, KINETREE_CACHE_DIR="off") == "{2}\n"  # each has been replaced


def test_code_is_optimised_and_cached_before_a_process_ends(tmp_path: Any) -> None:
    path = tmp_path / "cache"
    whether = "\nprint(bool(made))"
    assert [run(SOURCE + whether, KINETREE_CACHE_DIR=str(path)) for _ in range(2)] == ["True\n", "False\n"]
    assert len(list(path.glob("*.object"))) > 3


def answering(number: float) -> Library:
    """A kernel whose result is a number."""
    header = "define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)"
    body = f"%out = load ptr, ptr %outs store double {number}, ptr %out ret void"
    return Library([compile_text(f"{header} {{ {body} }}", target.host())], "kernel")


def test_a_loop_takes_optimised_code_within_one_call() -> None:
    """Of a sequence that makes millions of calls, the last ones run code that did not exist when it began."""
    trampoline = Trampoline(answering(0.0), "kernel")
    number, rounds = Operand("number", (1,)), 10_000_000
    binding = Binding("answer", (number,), (number,), np.zeros(0), np.zeros(0, dtype=np.int64), 8)
    sequence = KernelSequence("answers", [number], [number])
    with sequence.loop(rounds):
        sequence.copy(sequence.call(Compiled(binding, lambda _: trampoline), sequence.inputs[0]), sequence.outputs[0])
    answers = sequence.finish()
    assert answers.binding.work >= rounds * binding.work
    assert answers(np.zeros(1)) == 0.0
    later = threading.Timer(0.02, trampoline.retarget, [answering(1.0)])
    later.start()
    assert answers(np.zeros(1)) == 1.0
    later.join()


@pytest.mark.parametrize(("shape", "steps"), [((), 400_000), ((40,), 50_000)])
def test_rollouts_take_optimised_code_as_soon_as_it_is_there(
    shape: tuple[int, ...],
    steps: int,
    tiers: threading.Event,
    trampolines: list[Trampoline],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One begins without it and finds it on the way, another one waits for it: the same bits."""
    robot = HUMANOID.with_gravity([0.0, 0.2, -9.0])
    q, v, _ = state(robot, shape)
    monkeypatch.setattr(compile_queue, "_LONG", 1 << 60)
    simulator = kt.simulation.Simulator(robot, dt=1e-5)
    simulator.rollout(q, v, steps=10)
    assert {len(one._libraries) for one in trampolines} == {1}
    threading.Timer(0.05, tiers.set).start()
    first = simulator.rollout(q, v, steps=steps, every=1000)
    assert {len(one._libraries) for one in trampolines} == {2}

    made = len(trampolines)
    monkeypatch.setattr(compile_queue, "_LONG", 0)
    waiting = kt.simulation.Simulator(robot.with_gravity([0.0, 0.2, -9.0]), dt=1e-5)
    second = waiting.rollout(q, v, steps=steps, every=1000)
    assert len(trampolines) == made
    assert first.q.tobytes() == second.q.tobytes()
    assert first.v.tobytes() == second.v.tobytes()
    assert np.isfinite(first.q).all()


def test_long_calls_wait_for_the_code_of_short_ones(
    tiers: threading.Event, trampolines: list[Trampoline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_queue, "_LONG", 1 << 20)
    robot = HUMANOID.with_gravity([0.0, 0.0, -2.0])
    arrays = state(robot, (16,))
    short = robot.forward_dynamics(*arrays)
    assert [len(one._libraries) for one in trampolines] == [1]
    threading.Timer(0.1, tiers.set).start()
    long = robot.forward_dynamics(*(np.tile(a, (400, 1)) for a in arrays))
    assert [len(one._libraries) for one in trampolines] == [2]
    assert long.tobytes() == np.tile(short, (400, 1)).tobytes()


def test_a_rollout_waits_as_a_whole(
    tiers: threading.Event, trampolines: list[Trampoline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It consists of calls that would not."""
    robot = HUMANOID.with_gravity([0.0, 0.0, -3.0])
    q, v, _ = state(robot, ())
    simulator = kt.simulation.Simulator(robot, dt=1e-5)
    monkeypatch.setattr(compile_queue, "_LONG", 1 << 22)
    tiers.set()
    simulator.rollout(q, v, steps=10_000)
    assert max(one.binding.work for one in simulator._steps._made.values()) < compile_queue._LONG
    assert not trampolines


def test_who_waits_gets_optimised_code_of_a_job_that_has_two_tiers(tiers: threading.Event) -> None:
    text = "define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs) { ret void }"
    jobs = [compile_queue.CompileJob("nothing", None, target.host(), lambda: ([text], {}), "kernel") for _ in range(2)]
    assert isinstance(jobs[0].library()[0], Trampoline)
    threading.Timer(0.1, tiers.set).start()
    with compile_queue.optimized():
        assert not isinstance(jobs[1].library()[0], Trampoline)
