"""Long kernels consist of several modules, which are compiled at the same time."""

from __future__ import annotations

import gc
import os
import re
import threading
import time

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code, printer, writer
from kinetree.compiler.llvm import machine_code as target
from kinetree.compiler.programs import variants_of
from kinetree.concurrency import LLVMLock
from kinetree.runtime import compile_queue, kernels
from kinetree.runtime.threads import set_threads

ROBOT = kt.zoo.random_tree(5, kinds=("revolute", "prismatic"), seed=3)


def modules(function: kt.Function, width: int) -> list[str]:
    made = kernels.Kernels(function.algorithm, variants_of(function.algorithm, ROBOT.mechanism, ()))
    return made.modules(width, target.host())[0]


@pytest.mark.parametrize("width", [1, 4])
def test_long_loops_are_modules(width: int) -> None:
    long, short = modules(ROBOT.forward_dynamics_derivatives, width), modules(ROBOT.gravity_forces, width)
    assert len(long) > 2
    assert len(short) == 1
    assert [number for number, text in enumerate(long) if "define void @kernel(" in text] == [0]
    names = [re.search(r"define void (@part_\w+)\(", text).group(1) for text in long[1:]]
    assert all(f"call void {name}(" in long[0] for name in names)


@pytest.mark.parametrize("width", [1, 4])
def test_long_blocks_are_divided_and_joined_by_optimisation(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's time grows faster than a block's length where it does not optimise."""
    divided = modules(ROBOT.forward_dynamics_derivatives, width)
    monkeypatch.setattr(writer, "_LONG_BLOCK", 10**6)
    whole = modules(ROBOT.forward_dynamics_derivatives, width)
    assert max(map(longest_block, whole)) > 1000
    assert max(map(longest_block, divided)) < 500
    for texts in zip(divided, whole, strict=True):
        found, expected = (re.sub(r"part_\w+", "part", assembly(text)) for text in texts)
        assert found == expected


def longest_block(text: str) -> int:
    return max(block.count("\n") for block in re.split(r"^[\w.]+:$", text, flags=re.MULTILINE))


def assembly(text: str) -> str:
    """What LLVM makes of a module when it optimises."""
    module, machine = target.optimized(text, target.host())
    return machine.emit_assembly(module)


@pytest.mark.parametrize("width", [1, 8])
def test_kernels_share_modules(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that two kernels have in common is the same module, although their tables and outputs differ."""
    for name in ("_LONG", "_LONG_LOOP"):
        monkeypatch.setattr(printer, name, 1)
    tasks = ROBOT.tasks([ROBOT.frames[-1]], method="pv_osim")
    found = []
    for one in (tasks.core.recursions.inertia, tasks.core.recursions.inverse_inertia):
        variants = variants_of(one.algorithm, one.mechanism, tasks.core.recursions.sites)
        found.append(set(kernels.Kernels(one.algorithm, variants).modules(width, target.host())[0]))
    assert found[0] & found[1]


def test_modules_are_compiled_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    go_on = threading.Event()

    def compile_text(text: str, chosen: target.Processor) -> bytes:
        go_on.wait(10)
        compiled.append(text)
        return text.encode()

    monkeypatch.setattr(compile_queue, "compile_text", compile_text)
    finished: list[list[bytes] | None] = []
    set_threads(2)
    made = [compile_queue.Compilation(texts, target.host(), finished.append) for texts in ("ab", "bca", "b")]
    go_on.set()
    assert [b"".join(one.objects()) for one in made] == [b"ab", b"bca", b"b"]
    assert sorted(compiled) == ["a", "b", "c"]
    assert sorted(b"".join(codes or []) for codes in finished) == [b"ab", b"b", b"bca"]
    made.clear()
    own = {(text, target.host()) for text in "abc"}  # other tests may have begun kernels that they never called
    for _ in range(1000):  # other threads may still look at what they need not do
        if own.isdisjoint(compile_queue._compiling):
            break
        gc.collect()
        time.sleep(0.01)
    assert own.isdisjoint(compile_queue._compiling)


def test_threads_do_not_change_code() -> None:
    texts = modules(ROBOT.forward_dynamics_derivatives, 1)
    found = []
    for count in (1, 3):
        set_threads(count)
        found.append(compile_queue.Compilation(texts, target.host(), lambda _: None).objects())
    assert found[0] == found[1] == [machine_code.compile_text(text, target.host()) for text in texts]


def test_code_is_what_llvmlite_emits() -> None:
    text = modules(ROBOT.gravity_forces, 1)[0]
    module, machine = machine_code.optimized(text, target.host())
    assert machine_code.compile_text(text, target.host()) == machine.emit_object(module)


def test_modules_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernel in one module and in several, which get values of the outermost block as arguments."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    q, v, tau = ROBOT.random_configuration(0, (9,)), *np.random.default_rng(0).uniform(-1.0, 1.0, (2, 9, ROBOT.nv))
    frame = ROBOT.frames[-1]

    def results() -> list[np.ndarray]:
        monkeypatch.setattr(kernels, "_made", kernels.Kernels)  # no kernel that was compiled before
        robot = kt.zoo.random_tree(5, kinds=("revolute", "prismatic"), seed=3)
        inertia = robot.tasks([frame]).inertia
        return [
            *robot.forward_dynamics(q[0], v[0], tau[0]),
            *robot.linearize(q, v, tau=tau),
            *robot.linearize(q[0], v[0], tau=tau[0]),
            inertia(q),
            inertia(q[0]),
        ]

    counted: list[int] = []
    compilation = compile_queue.Compilation
    monkeypatch.setattr(
        compile_queue, "Compilation", lambda texts, *rest: counted.append(len(texts)) or compilation(texts, *rest)
    )
    for name in ("_LONG", "_LONG_LOOP"):
        monkeypatch.setattr(printer, name, 1)
    several = results()
    assert max(counted) > 4
    monkeypatch.setattr(printer, "_LONG", 1 << 30)
    counted.clear()
    whole = results()
    assert set(counted) == {1}
    for one, other in zip(several, whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_waits_for_llvm() -> None:
    entered, left = threading.Event(), threading.Event()

    def work() -> None:
        with LLVMLock():
            entered.set()
            time.sleep(0.2)
            left.set()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    child = os.fork()
    if not child:
        os._exit(0 if left.is_set() else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
