"""Drafts: code that runs while LLVM is still optimising it."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.engines.llvm import target
from kinetree.engines.llvm.machine_code import compile_text
from kinetree.engines.native import drafts, kernels, libraries, threads
from kinetree.engines.native.drafts import Switch
from kinetree.engines.native.linking import Library

HUMANOID = kt.zoo.humanoid24()
MIXED = kt.zoo.random_tree(8, kinds=("revolute", "prismatic", "spherical", "planar"), seed=1)


@pytest.fixture
def drafting(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whatever is compiled has a draft; optimising waits for an event."""
    go_on = threading.Event()
    monkeypatch.delenv("KINETREE_NO_DRAFTS", raising=False)
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    monkeypatch.setattr(drafts, "_LARGE", 0)
    monkeypatch.setattr(kernels, "_made", kernels.Kernels)  # none that others have compiled

    def slowly(text: str, chosen: target.Target) -> bytes:
        if "@kernel(" in text or "@part_" in text:
            go_on.wait(60)
        return compile_text(text, chosen)

    monkeypatch.setattr(libraries, "compile_text", slowly)
    threads.set_threads(2)
    yield go_on
    go_on.set()
    threads.settle()
    threads.set_threads(None)


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> list[Switch]:
    """Those that are made."""
    found: list[Switch] = []
    made = Switch.__init__

    def noting(self: Switch, *rest: Any) -> None:
        made(self, *rest)
        found.append(self)

    monkeypatch.setattr(Switch, "__init__", noting)
    return found


def addresses(switches: list[Switch]) -> list[int | None]:
    """Where they lead."""
    return [code.value for switch in switches for code in switch._codes.values()]


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
def test_drafts_give_the_same_bits(
    name: str, robot: kt.Model, shape: tuple[int, ...], drafting: threading.Event, switches: list[Switch]
) -> None:
    robot, arrays = robot.with_gravity([0.1, 0.2, -9.0]), state(robot, shape)
    draft = CASES[name](robot, *arrays)
    assert switches
    before = addresses(switches)
    drafting.set()
    threads.settle()
    assert not set(before) & set(addresses(switches))
    optimised = CASES[name](robot, *arrays)
    for one, other in zip(*([np.atleast_1d(a) for a in r] for r in (draft, optimised)), strict=True):
        assert one.tobytes() == other.tobytes()
        assert np.isfinite(one).all()


def test_compile_waits_for_optimised_code(drafting: threading.Event, switches: list[Switch]) -> None:
    robot = HUMANOID.with_gravity([0.0, 0.0, -1.0])
    robot.forward_dynamics(*state(robot, ()))
    assert len(switches) == 1
    draft = addresses(switches)
    threading.Timer(0.1, drafting.set).start()
    robot.forward_dynamics.compile()  # for batches too
    assert len(switches) == 1
    assert addresses(switches) != draft
    assert not [job for job in threads._put_off if not job.finished]


def test_calls_go_on_while_code_is_replaced() -> None:
    """Libraries that write different numbers, behind a switch that other threads call."""

    def writing(number: int) -> Library:
        header = "define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)"
        return Library([compile_text(f"{header} {{ store i64 {number}, ptr %ws ret void }}", target.host())], "kernel")

    switch = Switch(writing(0), "kernel")
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(switch.address("kernel"))
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
        switch.lead_to(writing(number))
    for caller in callers:
        caller.join()
    assert all(mine == sorted(set(mine)) for mine in seen)
    assert len(seen) == len(callers)


def begun(texts: tuple[str, ...] = ("x" * drafts._LARGE,)) -> bool:
    """Whether modules get drafts."""
    found = drafts.begin(texts, target.host())
    for job in found or ():
        job.wait()
    return found is not None


def test_which_code_has_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not begun()  # switched off for tests
    monkeypatch.setenv("KINETREE_NO_DRAFTS", "0")
    try:
        threads.set_threads(2)
        assert begun()
        assert begun(("x" * (drafts._LARGE // 2),) * 2)
        assert not begun(("x" * (drafts._LARGE - 1),))
        with drafts.avoided():
            assert not begun()
        threads.set_threads(1)
        assert not begun()
    finally:
        threads.set_threads(None)


def test_a_draft_stays_if_optimising_fails(
    drafting: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(text: str, _: target.Target) -> bytes:
        raise RuntimeError("LLVM is tired")

    robot = MIXED.with_gravity([0.0, 1.0, 0.0])
    arrays = state(robot, ())
    drafting.set()
    robot.integrate(*arrays[:2])  # drivers and gates are there
    threads.settle()
    monkeypatch.setattr(libraries, "compile_text", fail)
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
from kinetree.engines.native import drafts, libraries, threads
made = []
class Noted(drafts.Switch):
    def __init__(self, *rest):
        super().__init__(*rest)
        made.append(self)
libraries.Switch = Noted
robot = kt.zoo.humanoid24()
q = np.linspace(-1.0, 1.0, robot.nq)
first = robot.forward_dynamics.hvp(q, q, q, q, q, q, q)
"""


def run(source: str, **environment: str) -> str:
    """What a program prints, with drafts."""
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=os.environ | {"KINETREE_NO_DRAFTS": "0", "KINETREE_THREADS": "2"} | environment,
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
    print({len(switch._libraries) for switch in made}, flush=True)
    again = robot.forward_dynamics.hvp(q, q, q, q, q, q, q)
    os._exit(0 if [x.tobytes() for x in first] == [x.tobytes() for x in again] else 1)
assert os.wait()[1] == 0
"""
    assert run(SOURCE + print_child, KINETREE_CACHE_DIR="off") == "{2}\n"  # each draft has been replaced


def test_code_is_optimised_and_cached_before_a_process_ends(tmp_path: Any) -> None:
    path = tmp_path / "cache"
    whether = "\nprint(bool(made))"
    assert [run(SOURCE + whether, KINETREE_CACHE_DIR=str(path)) for _ in range(2)] == ["True\n", "False\n"]
    assert len(list(path.glob("*.object"))) > 3
