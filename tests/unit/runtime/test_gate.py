"""The short way in from Python: taken by plain samples only, with the same bits and no leaks."""

from __future__ import annotations

import copy
import gc
import operator
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import cache
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.errors import InputError
from kinetree.runtime import buffers, fastcall, fastcall_results, threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.fastcall import Gate
from kinetree.runtime.operands import Binding, Operand
from tests.unit.runtime.toys import Counting, counting, native, same, toy

EMPTY = "define void @kernel(ptr %ws, ptr %par, ptr %tab, ptr %in, ptr %outs) {\n  ret void\n}\n"


class Echo(Gate):
    """Gives back what `general` gets."""

    def general(self, *inputs: Any, **options: Any) -> Any:
        if options.get("fail"):
            raise KeyError("asked for")
        return inputs, options


@native
def test_this_machine_has_the_short_way() -> None:
    """Guards the other tests here: without it they would say nothing."""
    function = toy(4)
    assert not function.is_open
    function(np.ones(4), np.ones(4), 1.0)
    assert function.is_open


def test_shut_gate_passes_everything_on() -> None:
    echo = Echo()
    big = tuple(range(300))
    assert echo() == ((), {})
    assert echo(1, "two") == ((1, "two"), {})
    assert echo(1, two=2, three=3) == ((1,), {"two": 2, "three": 3})
    assert echo(*big, **{f"k{k}": k for k in big}) == (big, {f"k{k}": k for k in big})
    assert list(map(echo, [1, 2])) == [((1,), {}), ((2,), {})]
    with pytest.raises(KeyError, match="asked for"):
        echo(fail=True)


@native
@pytest.mark.parametrize("n", [1, 7, 38, 150])
def test_short_way_gives_the_bits_of_the_long_way(n: int) -> None:
    function = counting(n)
    rng = np.random.default_rng(n)
    for _ in range(5):
        q, v, s = rng.normal(size=n), rng.normal(size=n), np.array(rng.normal())
        got = function(q, v, s)
        assert function.count == 0
        assert type(got) is tuple
        for a, b in zip(got, Compiled.general(function, q, v, s), strict=True):
            assert type(a) is np.ndarray
            assert a.flags.owndata == (a.nbytes < buffers.SMALLEST_RESULT)
            assert np.array_equal(a.view("u8"), b.view("u8"))


@native
def test_one_output_is_an_array() -> None:
    binding = Binding("f", (Operand("q", (2, 3)),), (Operand("r", (3, 2)),), np.zeros(0), np.zeros(0), 0)
    function = Compiled(binding, lambda _: Library([compile_text(EMPTY, machine_code.host())], "kernel"))
    function.compile()
    assert function(np.zeros((2, 3))).shape == (3, 2)
    with pytest.raises(InputError, match=r"f: q has shape \(3, 2\), expected \(\.\.\., 2, 3\)"):
        function(np.zeros((3, 2)))


@native
@pytest.mark.parametrize("samples", [(), (5,)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scalars_are_floats_of_python_or_numpy(
    monkeypatch: pytest.MonkeyPatch, dtype: str, samples: tuple[int, ...]
) -> None:
    robot = kt.zoo.random_tree(5, seed=1).astype(dtype)
    rng = np.random.default_rng(2)
    q = robot.random_configuration(rng, samples)
    v = rng.normal(size=(*samples, robot.nv)).astype(dtype)
    long_way, short_way = robot.integrate.general, robot.integrate
    short_way(q, v, 0.1)
    assert short_way.is_open
    numbers = (0.1, np.float64(0.1), np.float32(0.1), np.array(0.1, dtype))
    expected = [long_way(q, v, s) for s in numbers]
    with monkeypatch.context() as patch:
        patch.setattr(type(short_way), "general", None)
        got = [short_way(q, v, s) for s in numbers]
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype == dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
    for odd in (1, np.float16(0.5), np.longdouble(0.5), np.int64(1)):
        np.testing.assert_array_equal(short_way(q, v, odd), long_way(q, v, float(odd)))


class Sub(np.ndarray):
    """An array that is not exactly one."""


@native
@pytest.mark.parametrize(
    "odd",
    [
        [1.0] * 7,
        np.ones(7, np.float32),
        np.ones(7, ">f8"),
        np.ones(14)[::2],
        np.ones(7)[::-1],
        np.ones((1, 1, 1, 1, 1, 7)),
        np.ones((0, 7)),
        np.ones(7).view(Sub),
        np.frombuffer(b"\0" + np.ones(7).tobytes(), np.uint8)[1:].view(np.float64),
    ],
)
def test_everything_else_goes_the_long_way(function: Counting, odd: Any) -> None:
    plain, s = np.ones(7), np.array(2.0)
    expected = function(plain, plain, s)
    assert function.count == 0
    for k, inputs in enumerate([(odd, plain, s), (plain, odd, s)], start=1):
        got = function(*inputs)
        assert function.count == k
        for a, b in zip(got, expected, strict=True):
            assert type(a) is np.ndarray
            assert np.array_equal(a, np.broadcast_to(b, a.shape))


@native
def test_unknown_keywords_and_wrong_counts_go_the_long_way(function: Counting) -> None:
    plain, s = np.ones(7), np.array(2.0)
    with pytest.raises(InputError, match="takes 3 inputs"):
        function(plain, plain)
    with pytest.raises(InputError, match="takes 3 inputs"):
        function(plain, plain, s, s)
    with pytest.raises(InputError, match=r"q has shape \(6,\)"):
        function(np.ones(6), plain, s)
    with pytest.raises(TypeError, match="wrong"):
        function(plain, plain, s, wrong=1)
    assert function.count == 3


@native
@pytest.mark.parametrize("samples", [1, 2, 3, 8, 64, 65])
def test_batches_take_the_short_way(function: Counting, samples: int) -> None:
    rng = np.random.default_rng(samples)
    q, v, s = rng.normal(size=(samples, 7)), rng.normal(size=7), rng.normal(size=samples)
    got = function(q, v, s)
    mixed = function(q, v, 0.5), function(q, np.tile(v, (samples, 1)), np.array(0.5))
    assert function.count == 0
    assert same(got, Compiled.general(function, q, v, s))
    assert same(*mixed)
    for i in range(samples):
        assert same((result[i] for result in got), function(q[i], v, float(s[i])))
    assert function.count == 0


@native
@pytest.mark.parametrize("count", [1, 2])
def test_batches_take_the_long_way_if_they_are_worth_several_threads(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 1000)
    monkeypatch.setattr(threads, "UNINTERRUPTED", 4000)
    function = counting(7)
    one_thread, one_round = (numbers // function.binding.footprint for numbers in (1999, 4000))
    threads.set_threads(count)
    for samples, short in ((one_thread, True), (one_thread + 1, count == 1), (one_round + 1, False)):
        function.count = 0
        rng = np.random.default_rng(samples)
        q, v, s = rng.normal(size=(samples, 7)), rng.normal(size=(samples, 7)), rng.normal(size=samples)
        assert same(function(q, v, s), Compiled.general(function, q, v, s))
        assert function.count == (not short)


@native
@pytest.mark.parametrize("shape", [(1, 9), (3, 3), (2, 1, 4), (1, 2, 3, 4)])
def test_several_leading_axes_take_the_short_way(function: Counting, shape: tuple[int, ...]) -> None:
    """With the bits and the strides of one axis; a scalar, or an input without these axes, is for all samples."""
    rng = np.random.default_rng(3)
    q, v, s = rng.normal(size=(*shape, 7)), rng.normal(size=(*shape, 7)), rng.normal(size=shape)
    for given in ((q, v, s), (q, v, 2.0), (q, v[(0,) * len(shape)].copy(), s)):
        flat = [x.reshape(-1, *x.shape[len(shape) :]) if np.shape(x)[: len(shape)] == shape else x for x in given]
        for _ in range(2):  # the second time, with kept results
            for a, b in zip(function(*given), function(*flat), strict=True):
                assert same(a, b.reshape(a.shape))
                assert a.shape[: len(shape)] == shape
                assert a.flags.c_contiguous
        out = tuple(np.empty_like(x) for x in function(*given))
        assert all(map(operator.is_, function(*given, out=out), out))
    assert function.count == 0
    other = q.reshape(-1, 7) if len(shape) > 1 else q
    with pytest.raises(InputError, match="batch"):
        function(q, np.ones((*shape[:-1], shape[-1] + 1, 7)), 1.0)
    function(q, other[:1].copy(), 1.0)  # one axis of length one is broadcast
    assert function.count == 2


@native
def test_out_takes_the_short_way(function: Counting) -> None:
    rng = np.random.default_rng(0)
    for shape in ((7,), (8, 7)):
        q, v, s = rng.normal(size=shape), rng.normal(size=shape), np.asarray(rng.normal(size=shape[:-1]))
        expected = function(q, v, s)
        out = tuple(np.full_like(result, np.nan) for result in expected)
        for given in (out, None):
            got = function(q, v, s, out=given)
            assert same(got, expected)
            assert given is None or all(a is b for a, b in zip(got, out, strict=True))
        assert function.count == 0
    before = sys.getrefcount(out[0])
    for _ in range(100):
        function(q, v, s, out=out)
    after = sys.getrefcount(out[0])
    assert after == before


@native
def test_out_that_does_not_fit_goes_the_long_way(function: Counting) -> None:
    q, v, s = np.ones((8, 7)), np.ones((8, 7)), np.ones(8)
    expected = function(q, v, s)
    fixed = np.empty_like(expected[0])
    fixed.flags.writeable = False
    cases: list[Any] = [
        (np.empty_like(expected[0]),),
        list(expected),
        (fixed, *expected[1:]),
        (np.empty((7, *expected[0].shape[1:])), *expected[1:]),
        (np.empty(expected[0].shape, np.float32), *expected[1:]),
        expected[0],
    ]
    for count, out in enumerate(cases, start=1):
        with pytest.raises(InputError, match="out"):
            function(q, v, s, out=out)
        assert function.count == count


@native
@pytest.mark.parametrize("samples", [None, 5])
@pytest.mark.parametrize("start", [0, 1, 3, 7])
def test_results_may_overlap_inputs(function: Counting, samples: int | None, start: int) -> None:
    shape = (7,) if samples is None else (samples, 7)
    rng = np.random.default_rng(0)
    q, v, s = rng.normal(size=shape), rng.normal(size=shape), np.array(0.5)
    expected = function(q, v, s)
    place = np.concatenate([q.reshape(-1), np.zeros(60)])
    moving, result = place[: q.size].reshape(shape), place[start : start + q.size].reshape(shape)
    out = (result, *(np.empty_like(r) for r in expected[1:]))
    assert same(function(moving, v, s, out=out), expected)


@native
@pytest.mark.parametrize("samples", [None, 5, 400])
def test_results_that_overlap_each_other_are_refused(function: Counting, samples: int | None) -> None:
    batch = () if samples is None else (samples,)
    q, s = np.ones((*batch, 7)), np.full(batch, 0.5)
    p, M, T = function(q, q, s)
    room = np.empty(p.size + M.size)
    near = room[: p.size].reshape(p.shape), room[p.size - 1 : -1].reshape(M.shape)
    for place in (M[..., 0, :], M.reshape(-1)[-p.size :].reshape(p.shape), M[..., :, 0]):
        with pytest.raises(InputError, match="out for .* share memory, so results would be lost"):
            function(q, q, s, out=(place, M, T))
    with pytest.raises(InputError, match="share memory"):
        function(q, q, s, out=(*near, T))
    apart = room[: p.size].reshape(p.shape), room[p.size :].reshape(M.shape), np.empty_like(T)
    assert same(function(q, q, s, out=apart), (p, M, T))


@native
def test_names_defaults_frames_and_methods_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to write a call is found without Python, once it was written before; results have the same bits."""
    robot = kt.zoo.humanoid24()
    q, v, tau, hand = robot.random_configuration(0), np.ones(robot.nv), np.zeros(robot.nv), "left_hand"
    out = np.empty(robot.nv)
    calls = [
        (robot.forward_dynamics, (q, v, tau), {}),
        (robot.forward_dynamics, (q, v), {"tau": tau}),
        (robot.forward_dynamics, (), {"tau": tau, "q": q, "v": v}),
        (robot.forward_dynamics, (q, v, tau, None), {"out": out}),
        (robot.integrate, (q, v), {}),
        (robot.integrate, (q,), {"dt": 1.0, "v": v}),
        (robot.integrate, (np.tile(q, (8, 1)), np.tile(v, (8, 1))), {"dt": 0.5}),
        (robot.jacobian, (q, hand), {}),
        (robot.jacobian, (q,), {"frames": hand, "reference": "world"}),
        (robot.jacobian, (q, (hand, "right_hand")), {}),
        (robot.pose, (q, hand), {}),
        (robot.pose, (q,), {}),
        (robot.step, (q, v, tau, 0.01), {}),
        (robot.step, (q, v, tau, 0.01), {"method": "midpoint"}),
    ]
    expected = [[np.copy(part) for part in np.atleast_1d(f(*a, **k))] for f, a, k in calls]
    for function in {id(f): f for f, _, _ in calls}.values():
        monkeypatch.setattr(type(function), "general", _refused, raising=True)
    for (f, a, k), wanted in zip(calls, expected, strict=True):
        assert same(np.atleast_1d(f(*a, **k)), wanted)
    monkeypatch.undo()
    with pytest.raises(InputError, match="got 'q' twice"):
        robot.forward_dynamics(q, v, tau, q=q)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="needs tau"):
        robot.forward_dynamics(q, v)
    with pytest.raises(InputError, match="takes no 'torque'"):
        robot.forward_dynamics(q, v, torque=tau)


def _refused(*_: Any, **__: Any) -> None:
    raise AssertionError("went the long way")


@native
def test_functions_of_tasks_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their frames are fixed, and arrays that run over frames are inputs like others."""
    robot = kt.zoo.humanoid24()
    q, v = robot.random_configuration(0), np.ones(robot.nv)
    tasks = robot.tasks(["left_hand", "right_hand"])
    rates, inertia = tasks.jacobian_dot_v(q, v).copy(), tasks.inverse_inertia(np.tile(q, (4, 1)))[2].copy()
    tasks.jacobian_dot_v(q, v=v), tasks.inverse_inertia(q)  # written so for the first time
    for function in (tasks.jacobian_dot_v, tasks.inverse_inertia):
        monkeypatch.setattr(type(function), "general", _refused)
    assert np.array_equal(tasks.jacobian_dot_v(q, v=v), rates)
    assert np.array_equal(tasks.inverse_inertia(q), inertia)


@native
def test_more_choices_than_are_remembered() -> None:
    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(0)
    for _ in range(2):
        for name in robot.frames:
            assert np.array_equal(robot.pose(q, name), robot.pose(q, [name])[0])


@native
def test_dictionaries_of_wrenches_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by keys, by their characters if they are other objects; everything else goes to `general`."""
    robot = kt.zoo.double_pendulum()
    q, push, turn = np.array([0.3, -0.2]), np.arange(6.0), -np.ones(6)
    one, other = robot.frames[-2:]
    expected = {
        keys: robot.inverse_dynamics(q, q, q, dict.fromkeys(keys, push)) for keys in ((one,), (other,), (one, other))
    }
    both = robot.inverse_dynamics(q, q, q, {one: push, other: turn})
    plain = robot.inverse_dynamics(q, q, q)
    calls = []
    function = type(robot.inverse_dynamics)
    monkeypatch.setattr(function, "general", lambda _, *inputs, **named: calls.append((inputs, named)))
    for keys, right in expected.items():
        np.testing.assert_array_equal(robot.inverse_dynamics(q, q, q, dict.fromkeys(keys, push)), right)
        spelled = {"".join(list(key)): push for key in keys}
        np.testing.assert_array_equal(robot.inverse_dynamics(q, q, f_ext=spelled, a=q), right)
    np.testing.assert_array_equal(robot.inverse_dynamics(q, q, q, {one: push, other: turn}), both)
    np.testing.assert_array_equal(robot.inverse_dynamics(q, q, q, f_ext=None), plain)
    batch = robot.inverse_dynamics(np.tile(q, (2, 1)), q, q, {one: push, other: turn})
    np.testing.assert_array_equal(batch, [both, both])
    assert not calls
    unfit = [
        {other: push, one: push}, {one: push, other: push, "more": push}, {}, {one: push[:5]}, {one: push.tolist()},
        {one: push.astype(np.float32)}, {one: np.ones(12)[::2]}, {one: push[None]}, {1: push}, {one: None}, [one],
        one, 2, OrderedDict({one: push}),
    ]  # fmt: skip
    for f_ext in unfit:
        robot.inverse_dynamics(q, q, q, f_ext)
    assert [inputs[-1] for inputs, _ in calls] == unfit


@native
def test_references_to_wrenches_are_balanced() -> None:
    robot = kt.zoo.double_pendulum()
    q, push = np.array([0.3, -0.2]), np.arange(6.0)
    frame = robot.frames[-1]
    f_ext = {frame: push}
    robot.inverse_dynamics(q, q, q, f_ext)
    before = [sys.getrefcount(x) for x in (q, push, frame, f_ext)]
    for _ in range(100):
        robot.inverse_dynamics(q, q, q, f_ext)
    assert [sys.getrefcount(x) for x in (q, push, frame, f_ext)] == before


@native
def test_out_may_be_a_named_tuple_of_an_earlier_call(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = kt.zoo.double_pendulum()
    q = np.array([0.3, -0.2])
    results = robot.inverse_dynamics_derivatives(q, q, q)
    right = [part.copy() for part in results]
    for part in results:
        part[...] = np.nan
    monkeypatch.setattr(type(robot.inverse_dynamics_derivatives), "general", lambda *_, **__: "general")
    given = robot.inverse_dynamics_derivatives(q, q, q, out=results)
    assert all(map(operator.is_, given, results))
    for part, expected in zip(results, right, strict=True):
        np.testing.assert_array_equal(part, expected)
    assert robot.inverse_dynamics_derivatives(q, q, q, out=list(results)) == "general"


@native
def test_names_of_frames_may_be_other_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = kt.zoo.double_pendulum()
    q, frame = np.array([0.3, -0.2]), robot.frames[-1]
    right = robot.jacobian(q, frame, "world")
    monkeypatch.setattr(type(robot.jacobian), "general", lambda *_, **__: "general")
    spelled = "".join(list(frame)), "".join(list("world"))
    np.testing.assert_array_equal(robot.jacobian(q, *spelled), right)
    assert robot.jacobian(q, frame[:-1] + "?", "world") == "general"
    assert robot.jacobian(q) == "general"


@native
def test_gate_outlives_what_opened_it() -> None:
    first, second = toy(5), Echo()
    expected = first(np.ones(5), np.ones(5), 1.0)
    second.follow(first)
    del first
    gc.collect()
    clutter = [np.full(n, np.nan) for n in range(1, 400)]
    got = second(np.ones(5), np.ones(5), np.array(1.0))
    assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
    assert second(1) == ((1,), {})
    del clutter


@native
def test_followers_open_when_their_leader_does() -> None:
    leader, one, other, gone = toy(5), Echo(), Echo(), Echo()
    for follower in (one, gone):
        follower.follow(leader)
    other.follow(one)
    del gone, follower
    gc.collect()
    sample = np.ones(5), np.ones(5), np.array(1.0)
    assert not one.is_open
    assert len(one(*sample)) == 2  # what `general` gives back
    expected = leader(*sample)
    for open_one in (one, other):
        assert open_one.is_open
        assert all(np.array_equal(a, b) for a, b in zip(open_one(*sample), expected, strict=True))


@native
def test_copy_is_shut_until_opened() -> None:
    original = Echo()
    original.label = "kept"  # type: ignore[attr-defined]
    original.follow(_opened(5))
    twin = copy.copy(original)
    assert twin.label == "kept"  # type: ignore[attr-defined]
    assert not twin.is_open
    assert twin(np.ones(5))[1] == {}
    twin.follow(original)
    assert len(twin(np.ones(5), np.ones(5), np.array(1.0))) == 3


def _opened(n: int) -> Compiled:
    function = toy(n)
    function.compile()
    return function


def test_gates_are_collected() -> None:
    echo = Echo()
    echo.me = echo  # type: ignore[attr-defined]
    watch = weakref.ref(echo)
    del echo
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("single", [True, False])
def test_memory_error(single: bool) -> None:
    binding = Binding("huge", (Operand("q", (2,)),), (Operand("r", (2,)),), np.zeros(0), np.zeros(0), 1 << 57)
    function = Compiled(binding, lambda _: Library([compile_text(EMPTY, machine_code.host())], "kernel"))
    with pytest.raises(MemoryError):
        function(np.zeros(2) if single else np.zeros((3, 2)))
    if single and fastcall.NATIVE:
        assert function.is_open
        with pytest.raises(MemoryError):
            function(np.zeros(2))


@native
def test_long_runs_let_other_threads_work() -> None:
    """A sample that counts to a large number, with another thread that counts how often it runs meanwhile."""
    text = EMPTY.replace(
        "  ret void",
        "  br label %loop\nloop:\n  %i = phi i64 [0, %0], [%j, %loop]\n  %j = add i64 %i, 1\n"
        '  call void asm sideeffect "", ""()\n'
        "  %more = icmp slt i64 %j, 400000000\n  br i1 %more, label %loop, label %end\nend:\n  ret void",
    )
    binding = Binding("slow", (Operand("q", (2,)),), (Operand("r", (2,)),), np.zeros(0), np.zeros(0), 1 << 14)
    function = Compiled(binding, lambda _: Library([compile_text(text, machine_code.host())], "kernel"))
    function.compile()
    assert function.is_open
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        time.sleep(0.01)
        before = ticks
        function(np.zeros(2))
        after = ticks
    finally:
        done.set()
        ticker.join()
    assert after - before > 5


@pytest.mark.parametrize("field", ["DATA", "NDIM", "DIMS", "DESCR", "FLAGS", "TYPE_FLAGS"])
def test_checks_notice_another_layout(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETREE_NO_GATE", raising=False)
    moved = {
        "DATA": fastcall_results.DIMS,
        "NDIM": 68,
        "DIMS": fastcall_results.DATA,
        "DESCR": 48,
        "FLAGS": 24,
        "TYPE_FLAGS": 160,
    }
    assert fastcall.supported() or not fastcall.NATIVE
    monkeypatch.setattr(fastcall_results, field, moved[field])
    assert not fastcall.supported()


def test_switched_off() -> None:
    script = (
        "import numpy as np\n"
        "from kinetree.runtime import fastcall\n"
        "from tests.unit.runtime.toys import toy\n"
        "assert not fastcall.NATIVE\n"
        "f = toy(3); f.compile()\n"
        "assert not f.is_open\n"
        "print(*(part.tobytes().hex() for part in f(np.ones(3), np.full(3, 0.3), np.array(0.7))))\n"
    )
    source = Path(cache.__file__).parents[2]
    path = os.pathsep.join([str(source), str(Path(__file__).parents[3])])
    environment = {**os.environ, "PYTHONPATH": path, "KINETREE_NO_GATE": "1"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    ours = toy(3)(np.ones(3), np.full(3, 0.3), np.array(0.7))
    assert run.stdout.split() == [part.tobytes().hex() for part in ours]
