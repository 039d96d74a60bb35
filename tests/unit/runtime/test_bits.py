"""A sample has the same bits however it is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.runtime import threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.operands import Binding, Operand
from tests.unit.runtime.toys import toy, toy_kernel, values

SIZES = (1, 2, 3, 7, 8, 9, 17, 38)


def samples(count: int, n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, n)), rng.normal(size=(count, n)), rng.normal(size=count)]


def one_by_one(function: Compiled, q: np.ndarray, v: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    singles = [function(*sample) for sample in zip(q, v, s, strict=True)]
    return [np.array([single[k] for single in singles]) for k in range(3)]


def same_bits(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    return all(
        a.shape == b.shape and np.array_equal(np.ascontiguousarray(a).view("u8"), np.ascontiguousarray(b).view("u8"))
        for a, b in zip(left, right, strict=True)
    )


@pytest.fixture(scope="module")
def seven() -> Compiled:
    return toy(7)


@pytest.mark.parametrize("n", SIZES)
def test_values(n: int) -> None:
    q, v, s = samples(20, n)
    r, M, T = toy(n)(q, v, s)
    expected = values(n, q, v, s)
    np.testing.assert_allclose(r, expected[0], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(M, expected[1], rtol=1e-12, atol=1e-13)
    assert same_bits([T], [expected[2]])  # also shows that LLVM fuses nothing on its own
    assert same_bits([M], [np.where(expected[1] != 0, r[:, :, None] * r[:, None, :], 0.0)])


@pytest.mark.parametrize("width", machine_code.WIDTHS)
@pytest.mark.parametrize("n", SIZES)
def test_every_lane_width_and_batch_size(n: int, width: int) -> None:
    q, v, s = samples(40, n)
    expected = one_by_one(toy(n), q, v, s)
    with machine_code.use(machine_code.host().with_width(width)):
        function = toy(n)
        for count in range(1, 41):
            got = function(q[:count], v[:count], s[:count])
            assert same_bits(got, [e[:count] for e in expected]), count


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers in memory in several ways."""
    strided = np.full([2 * dim for dim in array.shape], np.nan)[(slice(None, None, 2),) * array.ndim]
    strided[...] = array
    shifted = np.empty(array.nbytes + 3, dtype="u1")[3:].view(np.float64).reshape(array.shape)
    shifted[...] = array
    return {
        "strided": strided,
        "fortran": np.asfortranarray(array),
        "reversed": np.flip(np.ascontiguousarray(np.flip(array))),
        "unaligned": shifted,
        "reversed core": array[..., ::-1].copy()[..., ::-1],
    }


@pytest.mark.parametrize("count", [1, 9, 16])
@pytest.mark.parametrize("layout", ["strided", "fortran", "reversed", "unaligned", "reversed core"])
def test_output_layouts(seven: Compiled, layout: str, count: int) -> None:
    inputs = samples(count, 7)
    expected = seven(*inputs)
    out = tuple(layouts(np.full_like(e, np.nan))[layout] for e in expected)
    returned = seven(*inputs, out=out)
    assert all(a is b for a, b in zip(returned, out, strict=True))
    assert same_bits(out, expected)
    for k in range(count):
        out = tuple(layouts(np.full_like(e[k], np.nan))[layout] for e in expected)
        seven(*(array[k] for array in inputs), out=out)
        assert same_bits(out, [e[k] for e in expected])


def test_output_of_two_batch_axes_without_flat_view(seven: Compiled) -> None:
    q, v, s = (array.reshape(3, 4, *array.shape[1:]) for array in samples(12, 7))
    expected = seven(q, v, s)
    out = tuple(np.full(e.swapaxes(0, 1).shape, np.nan).swapaxes(0, 1) for e in expected)
    seven(q, v, s, out=out)
    assert same_bits(out, expected)


@pytest.mark.parametrize("shift", [1, 3, 7, 8, 21])
@pytest.mark.parametrize("count", [1, 5, 16, 33])
def test_partial_overlap(seven: Compiled, count: int, shift: int) -> None:
    q, v, s = samples(count, 7)
    expected = seven(q, v, s)
    others = tuple(np.empty_like(e) for e in expected[1:])
    for forward in (True, False):
        memory = np.empty(count * 7 + shift)
        input_part = memory[: count * 7] if forward else memory[shift:]
        output_part = memory[shift:] if forward else memory[: count * 7]
        input_part[:] = q.ravel()
        out = output_part.reshape(count, 7)
        seven(input_part.reshape(count, 7), v, s, out=(out, *others))
        assert same_bits([out], expected[:1])


def test_outputs_that_overlap_broadcast_inputs(seven: Compiled) -> None:
    q, v, s = samples(9, 7)
    expected = seven(q[4], v, s)
    memory = q.copy()
    out = (memory, *(np.empty_like(e) for e in expected[1:]))
    assert same_bits(seven(memory[4], v, s, out=out), expected)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads(seven: Compiled, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = samples(501, 7)
    expected = one_by_one(seven, *inputs)
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 100)
    tasks = []
    run = threads.run
    monkeypatch.setattr(threads, "run", lambda given: (tasks.append(len(given)), run(given))[1])
    threads.set_threads(count)
    assert same_bits(seven.compute(inputs, None), expected)
    out = (inputs[0].copy(), *(np.empty_like(e) for e in expected[1:]))
    assert same_bits(seven.compute((out[0], *inputs[1:]), out), expected)
    assert tasks == ([count] * 2 if count > 1 else [])


def test_one_threads_results_are_anothers_inputs(seven: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    q, v, s = samples(64, 7)
    expected = seven(q, v, s)
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 100)
    monkeypatch.setattr(threads, "run", lambda tasks: [task() for task in tasks])  # the worst order, every time
    threads.set_threads(2)
    memory = np.empty((96, 7))
    memory[:64] = q
    out = (memory[32:], *(np.empty_like(e) for e in expected[1:]))
    assert same_bits(seven.compute((memory[:64], v, s), out), expected)


def test_floating_point_flags_are_left_alone(seven: Compiled) -> None:
    q, v, s = samples(19, 7)
    v[3], v[8], q[9] = 0.0, np.nan, 1e308
    v[9] = 1e308
    with np.errstate(all="raise"):
        batch = seven(q, v, s)
        for k in (3, 8, 9):
            seven(q[k], v[k], s[k])
    assert np.isinf(batch[2][3, 0]).all()
    assert np.isnan(batch[2][8]).all()
    assert np.isinf(batch[2][9, 1]).all()


def test_wide_scratch_drops_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def kernel(width: int) -> Library:
        asked.append(width)
        return toy_kernel(width)

    inputs = samples(16, 17)
    expected = toy(17)(*inputs)
    with machine_code.use(machine_code.host().with_width(8)):
        binding = toy(17).binding
        for lanes in (8, 7, 3, 0):
            monkeypatch.setattr(machine_code, "cache_bytes", lambda lanes=lanes: binding.footprint * 8 * lanes)
            assert same_bits(Compiled(binding, kernel)(*inputs), expected)
    assert asked == [8, 4, 1, 1]


@pytest.mark.parametrize("width", machine_code.WIDTHS)
def test_no_size(width: int) -> None:
    with machine_code.use(machine_code.host().with_width(width)):
        function = toy(0)
        for lead in [(), (1,), (3,), (2, 5), (0,), (2, 0)]:
            r, M, T = function(np.zeros((*lead, 0)), np.zeros(0), 1.0)
            assert (r.shape, M.shape, T.shape) == ((*lead, 0), (*lead, 0, 0), (*lead, 2, 0, 1))


def test_some_operands_of_no_size() -> None:
    """A robot without joints still has poses: outputs that depend on parameters only."""

    def kernel(width: int) -> Library:
        scalar = "double" if width == 1 else f"<{width} x double>"
        splat = "7.0" if width == 1 else "<" + ", ".join(["double 7.0"] * width) + ">"
        head = "define void @kernel(ptr %ws, ptr %par, ptr %tab, ptr %in, ptr %outs)"
        out = "  %out = load ptr, ptr %outs, align 8\n"
        text = f"{head} {{\n{out}  store {scalar} {splat}, ptr %out, align 8\n  ret void\n}}\n"
        return Library([compile_text(text, machine_code.current())], "kernel")

    binding = Binding("pose", (Operand("q", (0,)),), (Operand("p", (1,)),), np.zeros(0), np.zeros(0), 0)
    function = Compiled(binding, kernel)
    for lead in [(), (1,), (3,), (2, 5), (0,)]:
        np.testing.assert_array_equal(function(np.zeros((*lead, 0))), np.full((*lead, 1), 7.0))
    out = np.zeros((4, 2))[:, :1]
    assert function(np.zeros((4, 0)), out=out) is out
    np.testing.assert_array_equal(out, 7.0)
