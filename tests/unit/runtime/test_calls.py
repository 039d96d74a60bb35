"""What the native runtime does with odd arguments, with many threads, after a fork and over time."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.errors import InputError
from kinetree.runtime import threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.operands import Binding, Operand
from tests.unit.runtime.toys import toy, toy_text


@pytest.fixture(scope="module")
def seven() -> Compiled:
    return toy(7)


Q, V = np.linspace(0.1, 0.7, 7), np.linspace(-1.0, 1.1, 7)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((Q, V), r"toy takes 3 inputs \(q, v, s\), got 2"),
        ((), r"toy takes 3 inputs \(q, v, s\), got 0"),
        ((Q, V, 1.0, 1.0), r"toy takes 3 inputs \(q, v, s\), got 4"),
        ((Q[:3], V, 1.0), r"toy: q has shape \(3,\), expected \(\.\.\., 7\)"),
        ((Q, 1.0, 1.0), r"toy: v has shape \(\), expected \(\.\.\., 7\)"),
        ((Q, np.zeros((7, 1)), 1.0), r"toy: v has shape \(7, 1\), expected \(\.\.\., 7\)"),
        ((Q * 1j, V, 1.0), r"toy: q has dtype complex128, expected real numbers"),
        ((Q, V.astype(object), 1.0), r"toy: v has dtype object, expected real numbers"),
        ((Q, V > 0, 1.0), r"toy: v has dtype bool, expected real numbers"),
        ((Q, V, "one"), r"toy: s has dtype <U3, expected real numbers"),
        ((Q, V, None), r"toy: s has dtype object, expected real numbers"),
        ((Q, V, np.datetime64("2020-01-01")), r"toy: s has dtype datetime64\[D\], expected real numbers"),
        (([1.0, [2.0]], V, 1.0), r"toy: q is not an array of numbers"),
        ((np.zeros((2, 7)), np.zeros((3, 7)), 1.0), r"toy: batch shapes do not broadcast: q \(2,\), v \(3,\), s \(\)"),
    ],
)
def test_bad_input(seven: Compiled, inputs: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        seven(*inputs)


def outs(lead: tuple[int, ...] = ()) -> list[np.ndarray]:
    return [np.empty((*lead, 7)), np.empty((*lead, 7, 7)), np.empty((*lead, 2, 7, 1))]


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty(7), r"toy: out has 1 arrays, expected 3"),
        ((*outs()[:2], [0.0]), r"toy: out \(T\) must be a float64 array, got list"),
        ((*outs()[:2], None), r"toy: out \(T\) must be a float64 array, got NoneType"),
        ((np.empty(7, "f4"), *outs()[1:]), r"toy: out \(r\) must be a float64 array, got dtype float32"),
        ((np.empty(7, ">f8"), *outs()[1:]), r"toy: out \(r\) must be a float64 array, got dtype >f8"),
        ((np.empty(8), *outs()[1:]), r"toy: out \(r\) has shape \(8,\), expected \(7,\)"),
        (tuple(outs((1,))), r"toy: out \(r\) has shape \(1, 7\), expected \(7,\)"),
        ((frozen(np.empty(7)), *outs()[1:]), r"toy: out \(r\) is read-only"),
    ],
)
def test_bad_out(seven: Compiled, out: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        seven(Q, V, 1.0, out=out)


def test_single_output_out_is_named_plainly() -> None:
    binding = Binding("f", (Operand("q", (2,)),), (Operand("r", (2,)),), np.zeros(0), np.zeros(0), 0)
    function = Compiled(binding, lambda _: pytest.fail("checked before anything is compiled"))
    with pytest.raises(InputError, match=r"^f: out has shape \(3,\), expected \(2,\)"):
        function(np.zeros(2), out=np.zeros(3))


def test_what_counts_as_an_array(seven: Compiled) -> None:
    expected = seven(Q, V, 2.0)
    integers = np.arange(1, 8)
    for q, v, s in [
        (Q.tolist(), tuple(V.tolist()), 2),
        (Q.astype(np.longdouble), V, np.int8(2)),
        (memoryview(Q), V, np.float32(2)),
    ]:
        got = seven(q, v, s)
        assert all(type(g) is np.ndarray and np.array_equal(g, e) for g, e in zip(got, expected, strict=True))
    for dtype in ("i1", "u2", "i8", "f2", "f4"):
        small = seven(integers.astype(dtype), integers, 1)
        assert all(np.array_equal(a, b) for a, b in zip(small, seven(integers * 1.0, integers * 1.0, 1.0), strict=True))


def test_sixteen_threads_hammering_a_new_function() -> None:
    function = toy(9)
    rng = np.random.default_rng(1)
    batch = [rng.normal(size=(37, 9)), rng.normal(size=(37, 9)), rng.normal(size=37)]
    expected = toy(9)(*batch)
    start = threading.Barrier(16)

    def hammer(k: int) -> bool:
        start.wait()
        for repeat in range(40):
            i = (k + repeat) % 37
            single = function(*(array[i] for array in batch))
            whole = function(*batch)
            if not all(np.array_equal(a, e[i]) for a, e in zip(single, expected, strict=True)):
                return False
            if not all(np.array_equal(a, e) for a, e in zip(whole, expected, strict=True)):
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(hammer, range(16)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_child_after_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    function = toy(7)
    inputs = [np.ones((400, 7)), np.full((400, 7), 2.0), np.ones(400)]
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 10)
    threads.set_threads(2)
    expected = function(*inputs)
    assert threads._pool is not None  # warm: its threads do not exist in the child
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        same = all(np.array_equal(a, b) for a, b in zip(function(*inputs), expected, strict=True))
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_function_outlives_its_binding() -> None:
    function = toy(5)
    binding = weakref.ref(function.binding)
    q, v = np.ones(5), np.full(5, 2.0)
    expected = function(q, v, 1.0)
    run, results = function._runner(1), [np.empty_like(x) for x in expected]
    del function
    gc.collect()
    clutter = [np.full(n, np.nan) for n in range(1, 400)]  # would land in freed tables
    run([q, v, np.ones(()), *results], 1)
    assert all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))
    assert binding() is not None
    del run, clutter
    gc.collect()
    assert binding() is None  # and nothing else holds it


def test_constants_are_the_bindings_own() -> None:
    parameters, tables = np.array([2.0]), np.array([1, 2])
    binding = Binding("f", (Operand("q", (2,)),), (Operand("r", (2,)),), parameters, tables, 0)
    parameters[0], tables[0] = 5.0, 5
    assert binding.parameters[0] == 2.0
    assert binding.tables[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        binding.parameters[0] = 3.0


def resident_kilobytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_calls_do_not_grow_memory(seven: Compiled) -> None:
    s = np.array(1.0)
    batch = np.ones((20, 7))

    def calls(count: int) -> None:
        for _ in range(count):
            seven(Q, V, s)
        for _ in range(count // 20):
            seven(batch, V, 1.0)
            with pytest.raises(InputError):
                seven(Q[:2], V, s)

    calls(5_000)
    before = resident_kilobytes()
    calls(200_000)
    assert resident_kilobytes() - before < 1_000  # a leak of 5 bytes a call would show


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_functions_are_unloaded() -> None:
    """Of code that is compiled once: LLVM's optimiser itself keeps some memory at each run."""
    binding = toy(3).binding
    code = {width: [compile_text(toy_text(width), machine_code.host())] for width in machine_code.WIDTHS}

    def make(count: int) -> None:
        for _ in range(count):
            function = Compiled(binding, lambda width: Library(code[width], "kernel"))
            function.compile()
            function(Q[:3], V[:3], 1.0)
        gc.collect()

    make(50)
    before = resident_kilobytes()
    make(200)
    assert resident_kilobytes() - before < 200 * 4  # each holds several pages of code while loaded


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_bad_number_of_threads(count: object) -> None:
    with pytest.raises(InputError, match="at least 1"):
        threads.set_threads(count)  # type: ignore[arg-type]


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.set_threads(3)
    assert threads.get_threads() == 3
    monkeypatch.setenv("KINETREE_THREADS", "5")
    threads.set_threads(None)
    assert threads.get_threads() == 5
    monkeypatch.setenv("KINETREE_THREADS", "many")
    threads.set_threads(None)
    with pytest.raises(InputError, match="KINETREE_THREADS"):
        threads.get_threads()
    monkeypatch.delenv("KINETREE_THREADS")
    if hasattr(os, "sched_getaffinity"):
        assert threads.get_threads() == len(os.sched_getaffinity(0))


def test_errors_in_threads_are_not_lost() -> None:
    done = []

    def fail() -> None:
        raise ZeroDivisionError

    threads.set_threads(2)
    for tasks in ([fail, lambda: done.append(1)], [lambda: done.append(2), fail]):
        with pytest.raises(ZeroDivisionError):
            threads.run(tasks)
    assert sorted(done) == [1, 2]


@pytest.mark.parametrize(("shape", "symmetric"), [((2, 2, 2, 2), False), ((2, 3), True), ((2,), True)])
def test_bad_operand(shape: tuple[int, ...], symmetric: bool) -> None:
    with pytest.raises(ValueError, match="^x: "):
        Operand("x", shape, symmetric=symmetric)


def test_kernel_without_outputs() -> None:
    with pytest.raises(ValueError, match="^f: a kernel has"):
        Binding("f", (Operand("q", (2,)),), (), np.zeros(0), np.zeros(0), 0)
