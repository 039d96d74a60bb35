"""Samples go to lanes and back: of every length, in batches of every size, in every format."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kinetree.compiler.formats import FORMATS, Format
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.compiler.llvm.writer import FunctionWriter, kernel_entry
from kinetree.runtime import threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.operands import Binding, Operand


def copy(n: int, m: int, scalar: Format) -> Compiled:
    """A function that returns x (n,), and two matrices S (2, m, m) as symmetric ones, with their upper triangles."""
    binding = Binding(
        name="copy",
        inputs=(Operand("x", (n,)), Operand("S", (2, m, m))),
        outputs=(Operand("y", (n,)), Operand("P", (2, m, m), symmetric=True)),
        parameters=np.zeros(1),
        tables=np.array([n, 2 * m * m]),
        workspace=0,
        scalar=scalar,
    )
    return Compiled(binding, lambda width: copy_kernel(width, scalar, machine_code.current()))


@cache
def copy_kernel(width: int, scalar: Format, chosen: machine_code.Processor) -> Library:
    lanes = scalar.vector(width)
    f = FunctionWriter("define void @body(ptr %ws, ptr %par, ptr %tab, ptr %in, ptr %out0, ptr %out1)")
    n = f.word("%tab", 0)
    for length, start, out in ((n, "0", "%out0"), (f.word("%tab", 1), n, "%out1")):
        with f.loop(0, length) as i:
            place = f.at("%in", f.let(f"add i64 {i}, {start}"), lanes)
            value = f.let(f"load {lanes}, ptr {place}, align {scalar.bytes}")
            f.do(f"store {lanes} {value}, ptr {f.at(out, i, lanes)}, align {scalar.bytes}")
    return Library([compile_text(f"{kernel_entry(2)}\n{f.text()}", chosen)], "kernel")


def numbers(count: int, n: int, m: int, scalar: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, S, and S with its upper triangle mirrored."""
    rng = np.random.default_rng(n)
    x, S = (rng.normal(size=(count, *shape)).astype(scalar.dtype) for shape in ((n,), (2, m, m)))
    upper = np.triu(S)
    return x, S, upper + np.triu(S, 1).swapaxes(-1, -2)


@pytest.mark.parametrize("scalar", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("width", machine_code.WIDTHS)
def test_samples_of_every_length(width: int, scalar: Format) -> None:
    with machine_code.use(machine_code.host().with_width(width)):
        lanes = machine_code.current().lanes(scalar)
        for n in range(1, 36):
            m = n % 7 + 1
            x, S, P = numbers(2 * lanes + 3, n, m, scalar)
            function = copy(n, m, scalar)
            for count in {1, 3, lanes, lanes + 1, 2 * lanes + 3}:
                y, found = function(x[:count], S[:count])
                np.testing.assert_array_equal(y, x[:count], f"{n} numbers, {count} samples")
                np.testing.assert_array_equal(found, P[:count], f"{m} x {m}, {count} samples")


@pytest.mark.parametrize("scalar", FORMATS.values(), ids=FORMATS)
def test_numbers_beside_a_result_are_left_alone(scalar: Format) -> None:
    for n in range(1, 36):
        m = n % 7 + 1
        x, S, P = numbers(37, n, m, scalar)
        memory = [np.full((37, size + 5), np.nan, scalar.dtype) for size in (n, 2 * m * m)]
        y, flat = (array[:, 2:-3] for array in memory)
        found = flat.reshape(37, 2, m, m)
        assert np.shares_memory(found, flat)
        copy(n, m, scalar)(x, S, out=(y, found))
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(found, P)
        for array in memory:
            assert np.isnan(array[:, :2]).all()
            assert np.isnan(array[:, -3:]).all()


@pytest.mark.parametrize("scalar", FORMATS.values(), ids=FORMATS)
def test_symmetric_results_of_any_strides(scalar: Format) -> None:
    x, S, P = numbers(37, 5, 6, scalar)
    for out in (
        np.asfortranarray(np.full_like(P, np.nan)),
        np.full((37, 4, 12, 18), np.nan, scalar.dtype)[:, ::2, ::2, ::3],
    ):
        copy(5, 6, scalar)(x, S, out=(np.empty_like(x), out))
        np.testing.assert_array_equal(out, P)


@pytest.mark.parametrize("n", [65, 1100])
@pytest.mark.parametrize("scalar", FORMATS.values(), ids=FORMATS)
def test_more_samples_than_fit_the_caches(scalar: Format, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "NUMBERS_PER_THREAD", 1 << 40)
    x, S, P = numbers((24 << 20) // (scalar.bytes * 2 * (n + 8)), n, 2, scalar)
    out = np.empty_like(x), np.empty_like(P)
    copy(n, 2, scalar).compute((x, S), out)
    np.testing.assert_array_equal(out[0], x)
    np.testing.assert_array_equal(out[1], P)
