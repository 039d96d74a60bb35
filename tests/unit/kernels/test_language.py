"""The kernel language: what its loops visit, on every engine, and what it says to an author's mistakes."""

from __future__ import annotations

import inspect
import pickle
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import interpreter
from kinetree.compiler.programs import lowered
from kinetree.compiler.specialize import RobotKey, straight
from kinetree.compiler.trace import trace
from kinetree.kernels.branchless import less, magnitude, where
from kinetree.kernels.index_loops import BLOCKS
from kinetree.kernels.language import Kernel
from kinetree.kernels.riccati import riccati
from kinetree.language.mechanism import Mechanism
from kinetree.language.setup import Variants
from kinetree.runtime import reference
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]


@kt.kernel(A=("m", "n"), x=("n",), y=("m",), outputs=("y",))
def product(k: Any, A: Any, x: Any, y: Any) -> None:
    """A x."""
    for i in k.m:
        y[i] = k.sum(A[i, j] * x[j] for j in k.n)


@kt.kernel(A=("n", "n"), b=("n",), x=("n",), outputs=("x",))
def back_substitution(k: Any, A: Any, b: Any, x: Any) -> None:
    """U x = b with the upper triangle of A, last row first."""
    y = k.copy(b, "n")
    for i in reversed(k.n):
        for j in k.n.after(i):
            y[i] = y[i] - A[i, j] * y[j]
        y[i] = y[i] / A[i, i]
    for i in k.n:
        x[i] = y[i]


def visits(loop: Callable[[Any, Any], Any]) -> Kernel:
    """For each index i, the place that a loop reaches each index at, from 1 on; 0 if it does not."""

    def visited(k: Any, one: Any, places: Any) -> None:
        count = k.zeros("n")
        for i in k.n:
            for j in loop(k.n, i):
                count[i] = count[i] + one[...]
                places[i, j] = count[i]

    return kt.kernel(one=(), places=("n", "n"), outputs=("places",), sparse=("places",))(visited)


def expected(n: int, wanted: Callable[[int], Any]) -> Array:
    found = np.zeros((n, n))
    for i in range(n):
        for place, j in enumerate(wanted(i), 1):
            found[i, j] = place
    return found


RANGES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], Any]]] = {
    "all": (lambda n, _: n, lambda n, _: range(n)),
    "all, reversed": (lambda n, _: reversed(n), lambda n, _: reversed(range(n))),
    "since": (lambda n, i: n.since(i), lambda n, i: range(i, n)),
    "after": (lambda n, i: n.after(i), lambda n, i: range(i + 1, n)),
    "before": (lambda n, i: n.before(i), lambda _, i: range(i)),
    "through": (lambda n, i: n.through(i), lambda _, i: range(i + 1)),
    "through, reversed": (lambda n, i: reversed(n.through(i)), lambda _, i: reversed(range(i + 1))),
    "since, reversed": (lambda n, i: reversed(n.since(i)), lambda n, i: reversed(range(i, n))),
    "after, reversed": (lambda n, i: reversed(n.after(i)), lambda n, i: reversed(range(i + 1, n))),
    "before, reversed": (lambda n, i: reversed(n.before(i)), lambda _, i: reversed(range(i))),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_visit_what_they_say(name: str) -> None:
    loop, wanted = RANGES[name]
    text = visits(loop)
    for n in (1, 2, 7, 17):
        f, places = kt.compiled(text, n=n), expected(n, lambda i, n=n: wanted(n, i))
        np.testing.assert_array_equal(f(1.0), places)
        np.testing.assert_array_equal(f.engine("reference")(1.0), places)
        assert f.count().additions == np.count_nonzero(places)


@pytest.mark.parametrize("length", BLOCKS)
def test_blocks_and_what_lies_around_them(length: int) -> None:
    def parts(k: Any, one: Any, number: Any, place: Any, before: Any, since: Any, after: Any) -> None:
        count = k.scalar(0.0)
        for block in k.n.blocks(length):
            count[...] = count[...] + one[...]
            for i, index in enumerate(block):
                number[index], place[index] = count[...], float(i)
                for j in k.n.before(block):
                    before[index, j] = 1.0
                for j in k.n.since(block):
                    since[index, j] = 1.0
                for j in k.n.after(block):
                    after[index, j] = 1.0

    matrices = ("before", "since", "after")
    axes: Any = {"one": (), "number": ("n",), "place": ("n",)} | dict.fromkeys(matrices, ("n", "n"))
    text = kt.kernel(**axes, outputs=("number", "place", *matrices), sparse=matrices)(parts)
    for n in (1, length, 2 * length + 1, 3 * length - 1):
        f, whole = kt.compiled(text, n=n), n - n % length
        number, place, before, since, after = f(1.0)
        starts = np.array([i - i % length if i < whole else i for i in range(n)])
        ends = np.array([i - i % length + length if i < whole else i + 1 for i in range(n)])
        np.testing.assert_array_equal(place, np.arange(n) - starts)
        np.testing.assert_array_equal(number, np.cumsum(place == 0.0))
        np.testing.assert_array_equal(before, np.arange(n) < starts[:, None])
        np.testing.assert_array_equal(since, np.arange(n) >= starts[:, None])
        np.testing.assert_array_equal(after, np.arange(n) >= ends[:, None])
        for one, other in zip(f(1.0), f.engine("reference")(1.0), strict=True):
            np.testing.assert_array_equal(one, other)


def backwards_by_threes(n: int) -> list[int]:
    """Every third index, last first, and the first one twice."""
    return [*range(n - 1, -1, -3), 0, 0]


def test_pairs_lists_and_blocks_up_to_an_index() -> None:
    def visited(k: Any, one: Any, pairs: Any, up_to: Any, listed: Any, covered: Any, since: Any, previous: Any) -> None:
        count = k.scalar(0.0)
        for i, j in k.n.pairs():
            count[...] = count[...] + one[...]
            pairs[i, j] = count[...]
        for last in k.some:
            listed[last] = listed[last] + one[...]
            for i, j in k.n.pairs(through=last):
                up_to[last, i] = up_to[last, i] + one[...]
                up_to[last, j] = up_to[last, j] + one[...]
            for block in k.n.blocks(4, through=last):
                for i in block:
                    covered[last, i] = covered[last, i] + one[...]
        for first in k.n:
            for block in k.n.blocks(4, since=first):
                for i in block:
                    since[first, i] = one[...]
        for block in k.n.blocks(4):
            for i in block:
                previous[i, block.previous] = one[...]

    names = ("pairs", "up_to", "covered", "since", "previous")
    axes: Any = {"one": (), "listed": ("n",)} | dict.fromkeys(names, ("n", "n"))
    outputs = ("pairs", "up_to", "listed", "covered", "since", "previous")
    chosen = {"some": backwards_by_threes}
    text = kt.kernel(**axes, outputs=outputs, sparse=outputs, lists={"some": {"n": 1}}, chosen=chosen)(visited)
    for n in (1, 2, 4, 9, 11):
        f, whole = kt.compiled(text, n=n), n - n % 4
        pairs, up_to, listed, covered, since, previous = f(1.0)
        np.testing.assert_array_equal(pairs, np.diag(np.arange(1.0, n), 1))
        times = np.bincount(backwards_by_threes(n), minlength=n)
        np.testing.assert_array_equal(listed, times)
        starts = np.array([i - i % 4 if i < whole else i for i in range(n)])
        ends = np.array([i - i % 4 + 4 if i < whole else i + 1 for i in range(n)])
        at = np.arange(n)
        np.testing.assert_array_equal(covered, times[:, None] * (at < ends[:, None]))
        np.testing.assert_array_equal(since, at >= starts[:, None])
        np.testing.assert_array_equal(previous, at == np.maximum(starts - 1, 0)[:, None])
        twice = (at <= at[:, None]) * 2.0 - (at == 0) - (at == at[:, None])
        np.testing.assert_array_equal(up_to, times[:, None] * np.maximum(twice, 0.0))
        for one, other in zip(f(1.0), f.engine("reference")(1.0), strict=True):
            np.testing.assert_array_equal(one, other)
        assert f.count().additions == n - 1 + times.sum() + up_to.sum() + covered.sum()


@kt.kernel(x=("r",), sums=("n",), outputs=("sums",), lists={"members": {"r": 3, "n": 2}})
def gathered(k: Any, x: Any, sums: Any) -> None:
    """Adds three numbers, and the last one, to two others, for each entry of a list."""
    total = k.zeros("n")
    for rows, (one, other) in k.members:
        total[one] = total[one] + sum(x[row] for row in rows)
        total[other] = total[other] + x[rows[2]]
    for i in k.n:
        sums[i] = total[i]


@kt.kernel(x=("n",), y=("n",), outputs=("y",), sparse=("y",), rounds=("times", "more"))
def repeated(k: Any, x: Any, y: Any) -> None:
    """x doubled several times, and halved more times."""
    for i in k.n:
        y[i] = x[i]
    for _ in k.times:
        for i in k.n:
            y[i] = 2.0 * y[i]
        for _ in k.more:
            for i in k.n:
                y[i] = 0.5 * y[i]


@pytest.mark.parametrize(("times", "more"), [(0, 0), (1, 0), (5, 0), (3, 2)])
def test_loops_that_no_axis_has(times: int, more: int) -> None:
    f = kt.compiled(repeated, n=3, times=times, more=more)
    for engine in ("native", "reference"):
        np.testing.assert_array_equal(f.engine(engine)(np.arange(3.0)), np.arange(3.0) * 2.0 ** (times * (1 - more)))


@kt.kernel(x=("n",), root=("n",), used=("n",), outputs=("root", "used"), rounds=("rounds", "last"))
def heron(k: Any, x: Any, root: Any, used: Any) -> None:
    """Square roots, and the numbers of rounds that they take; a loop that ends within one that ends."""
    for i in k.n:
        y, count, done = k.scalar(1.0), k.scalar(0.0), k.scalar(0.0)
        for _ in k.rounds.until(done):
            better = 0.5 * (y[...] + x[i] / y[...])
            settled = less(magnitude(better - y[...]), 1e-15 * better, 1.0, done[...])
            asleep = k.scalar(done[...])
            for _ in k.last.until(asleep):
                count[...] = count[...] + where(asleep[...], 0.0, 1.0)
                asleep[...] = 1.0
            y[...] = where(done[...], y[...], better)
            done[...] = settled
        root[i], used[i] = y[...], count[...]


ROOTS = 10.0 ** np.random.default_rng(0).uniform(-6.0, 6.0, (11, 3))


def test_loops_end_when_a_flag_is_set() -> None:
    """In lanes when the last one is; on every engine with the same rounds, and on compiled ones with the same bits."""
    f = kt.compiled(heron, n=3, rounds=40, last=5)
    root, used = f(ROOTS)
    np.testing.assert_allclose(root, np.sqrt(ROOTS), rtol=1e-15)
    assert used.min() < 10.0 < 14.0 < used.max() < 40.0
    reference, rounds = f.engine("reference")(ROOTS)
    np.testing.assert_allclose(reference, root, rtol=1e-15)
    np.testing.assert_array_equal(rounds, used)
    key = RobotKey.of(f.mechanism, ())
    for i, x in enumerate(ROOTS):
        for found in (f(x), interpreter.run(heron, f.mechanism, (), [x])):
            np.testing.assert_array_equal(found[0], root[i])
            np.testing.assert_array_equal(found[1], used[i])
    # as many additions as all rounds might take
    assert f.count().additions == 3 * 40 * (1 + 1 + 5)
    few = kt.compiled(heron, n=3, rounds=2, last=1)
    np.testing.assert_array_equal(few(ROOTS)[1], 2.0)
    with pytest.MonkeyPatch.context() as patched:
        # straight-line code runs all rounds; what is done stays as it is
        patched.setattr(interpreter, "specialized", lambda *_: straight(heron, Variants((), ()), key))
        found = interpreter.run(heron, f.mechanism, (), [ROOTS[4]])
        np.testing.assert_array_equal(found[0], root[4])
        np.testing.assert_array_equal(found[1], used[4])


def test_flags_that_are_no_number_end_loops() -> None:
    """As those that are set, on all engines: NaN would never become 1."""

    @kt.kernel(x=(), count=(), outputs=("count",), rounds=("rounds",))
    def counted(k: Any, x: Any, count: Any) -> None:
        flag, total = k.scalar(x[...]), k.scalar(0.0)
        for _ in k.rounds.until(flag):
            total[...] = total[...] + 1.0
        count[...] = total[...]

    f = kt.compiled(counted, rounds=3)
    for x, rounds in ((0.0, 3.0), (np.nan, 0.0), (1.0, 0.0)):
        assert f(x) == f.engine("reference")(x) == rounds
        assert interpreter.run(counted, f.mechanism, (), [np.array(x)])[0] == rounds


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_loops_that_end_in_c(tmp_path: Path) -> None:
    f = kt.compiled(heron, n=3, rounds=40, last=5)
    _, source = f.export_c(tmp_path, ROOTS[0])
    assert source.read_text().count("break;") == 2
    program = tmp_path / "check"
    macro = f"-D{source.stem.upper()}_CHECK"
    subprocess.run(["gcc", "-std=c99", "-Werror", macro, str(source), "-o", str(program), "-lm"], check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert all(" 0 of " in line for line in run.stdout.splitlines())


def test_lists_that_are_given_when_a_kernel_is_compiled() -> None:
    f = kt.compiled(gathered, r=9, n=4, members=[(0, 2), (6, 0), (3, 2)])
    x = np.arange(1.0, 10.0)
    expected = [7 + 8 + 9, 9, 1 + 2 + 3 + 4 + 5 + 6, 3 + 6]
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(f.engine("reference")(x), expected)
    np.testing.assert_array_equal(f(np.tile(x, (5, 1))), np.tile(expected, (5, 1)))
    assert pickle.loads(pickle.dumps(f)) is f
    other = kt.compiled(gathered, r=9, n=4, members=[(0, 0)])
    assert other.bound().library(1) is f.bound().library(1)  # tables differ, code does not
    np.testing.assert_array_equal(other(x), [6.0, 3.0, 0.0, 0.0])


@kt.kernel(
    x=("r",), earlier=("r",), later=("r",), outputs=("earlier", "later"), sparse=("earlier", "later"),
    lists={"members": {"r": 2}, "single": {"r": 1}},
)  # fmt: skip
def sums_of_entries(k: Any, x: Any, earlier: Any, later: Any) -> None:
    """For each entry, the sum of those before it, and a sum of those after it that halves with each."""
    half = k.scalar(0.0)
    for one in k.members:
        for other in k.members.before(one):
            for i, j in zip(one, other, strict=True):
                earlier[i] = earlier[i] + x[j]
    for i in k.single:
        for j in k.single.before(i):
            earlier[i] = earlier[i] + x[j]
    for i, j in reversed(k.members):
        later[i] = half[...]
        half[...] = 0.5 * (half[...] + x[i] + x[j])
    for i in reversed(k.single):
        later[i] = half[...]
        half[...] = 0.5 * (half[...] + x[i])


def test_entries_before_one_and_in_reverse() -> None:
    """In the order of the list, whatever their indices are."""
    f = kt.compiled(sums_of_entries, r=9, members=[(4,), (0,), (2,)], single=[(7,), (6,), (8,)])
    x = np.arange(1.0, 10.0)
    earlier = [5, 6, 5 + 1, 6 + 2, 0, 0, 8, 0, 8 + 7]
    later = [3.5, 0, 0, 0, 0.5 * (3.5 + 3), 0, 0, 0, 0]
    half = 0.5 * (0.5 * (3.5 + 3) + 11)
    later[8], later[6], later[7] = half, 0.5 * (half + 9), 0.5 * (0.5 * (half + 9) + 7)
    for run in (f, f.engine("reference")):
        for found, expected in zip(run(x), (earlier, later), strict=True):
            np.testing.assert_array_equal(found, expected)
    for found, expected in zip(f(np.tile(x, (5, 1))), (earlier, later), strict=True):
        np.testing.assert_array_equal(found, np.tile(expected, (5, 1)))


def test_entries_before_what_is_not_one() -> None:
    def wrong(k: Any, x: Any, y: Any) -> None:
        for one in k.some:
            for _ in k.others.before(one):
                y[...] = x[0]

    text = kt.kernel(x=(2,), y=(), outputs=("y",), lists={"some": {"n": 1}, "others": {"n": 1}}, rounds=("n",))(wrong)
    with pytest.raises(kt.errors.ContractError, match="take that from a loop over the same list"):
        kt.compiled(text, n=2, some=[(0,)], others=[(1,)])(np.zeros(2))


def test_kernels_may_be_declared_again() -> None:
    """As in a notebook: with another list of the same name, and from several threads at once."""

    def declare(length: int) -> Kernel:
        def taken(k: Any, x: Any, y: Any) -> None:
            for rows in k.some:
                y[...] = y[...] + sum(x[row] for row in rows)

        lists = {"some": {"declared_again": length}}
        return kt.kernel(x=("declared_again",), y=(), outputs=("y",), sparse=("y",), lists=lists)(taken)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(declare, [2, 3] * 20))
    for kernel, expected in zip(made[:2], (5.0, 9.0), strict=True):
        assert kt.compiled(kernel, declared_again=5, some=[(2,)])(np.arange(5.0)) == expected


@pytest.mark.parametrize("members", [[(7, 0)], [(-1, 0)], [(0, 3)], [(0,)], [(0, 0, 0)]])
def test_lists_of_indices_that_do_not_exist(members: Any) -> None:
    with pytest.raises(kt.errors.InputError, match="'members' has the first index of 3 of r=9, 2 of n=4 in each entry"):
        kt.compiled(gathered, r=9, n=4, members=members)
    with pytest.raises(kt.errors.InputError, match="takes r=…, n=…, members=…; got r=9, n=4"):
        kt.compiled(gathered, r=9, n=4)
    with pytest.raises(kt.errors.InputError, match="list 'members' has tuples of indices"):
        kt.compiled(gathered, r=9, n=4, members=[3])


def test_blocks_that_differ_in_where_loops_end() -> None:
    """Bodies of whole blocks and of single indices are not the same if only their loops end elsewhere."""

    @kt.kernel(x=("n",), y=("n",), outputs=("y",))
    def counted(k: Any, x: Any, y: Any) -> None:
        total = k.zeros("n")
        for block in k.n.blocks(3):
            for j in k.n.through(block):
                total[j] = total[j] + x[j]
        for j in k.n:
            y[j] = total[j]

    np.testing.assert_array_equal(kt.compiled(counted, n=5)(np.ones(5)), [3.0, 3.0, 3.0, 2.0, 1.0])


def test_arrays_of_bodies_are_the_same_when_these_are_traced_again() -> None:
    def sums(k: Any, A: Any, x: Any) -> None:
        for block in k.m.blocks(2):
            for i in block:
                x[i] = k.sum(A[i, j] for j in k.n)
        total = k.sum(A[i, j] for i in k.m for j in k.n)
        for i in k.m:
            x[i] = total

    once, twice = (trace(declared(sums), Variants((), ()), checked=checked).arrays for checked in (False, True))
    assert once == twice
    assert len(once) == 4  # of two indices, of a single one, of all


def test_neighbours_that_both_store_run_one_after_another() -> None:
    """Lanes would store the second one of each pair after the first one of the next."""

    @kt.kernel(x=("n",), y=("n",), outputs=("y",))
    def last_wins(k: Any, x: Any, y: Any) -> None:
        for i, j in k.n.pairs():
            y[i] = x[i]
            y[j] = -x[j]

    x = np.arange(1.0, 20.0)
    np.testing.assert_array_equal(kt.compiled(last_wins, n=19)(x), [*x[:-1], -x[-1]])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 4), (16, 33)])
def test_engines_batches_and_layouts_agree(m: int, n: int) -> None:
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(2, 9, m, n)), rng.normal(size=(9, n))
    f = kt.compiled(product, m=m, n=n)
    y = f(A, x)
    assert_close(y, np.einsum("bcij,cj->bci", A, x), bound(n))
    assert_close(f.engine("reference")(A, x), y, bound(n))
    for i in range(9):
        np.testing.assert_array_equal(f(A[1, i], x[i]), y[1, i])
    np.testing.assert_array_equal(f(np.asfortranarray(A), x[:, ::-1][:, ::-1]), y)
    np.testing.assert_array_equal(f(A, x, out=np.empty((2, 9, m))), y)
    assert f.count().multiplications == f.count().additions == m * n


@pytest.mark.parametrize(("m", "n"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("batch", [(), (4,), (2, 5)])
def test_sizes_of_zero(m: int, n: int, batch: tuple[int, ...]) -> None:
    f = kt.compiled(product, m=m, n=n)
    for one in (f, f.engine("reference")):
        np.testing.assert_array_equal(one(np.ones((*batch, m, n)), np.ones((*batch, n))), np.zeros((*batch, m)))


def test_the_reference_engine_takes_complex_numbers() -> None:
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(5, 5)) + 4.0 * np.eye(5), rng.normal(size=5)
    f, step = kt.compiled(back_substitution, n=5), 1e-30
    slope = f.engine("reference")(A, b + 1j * step * np.eye(5)).imag / step
    assert_close(slope.T, np.linalg.inv(np.triu(A)), bound(5, np.linalg.cond(np.triu(A))))
    assert_close(f(A, b), np.linalg.solve(np.triu(A), b), bound(5, np.linalg.cond(np.triu(A))))


def test_single_precision() -> None:
    rng = np.random.default_rng(2)
    A, x = rng.normal(size=(5, 6, 7)), rng.normal(size=(5, 7))
    f = kt.compiled(product, "float32", m=6, n=7)
    assert f(A, x).dtype == f.dtype == np.float32
    assert_close(f(A, x), np.einsum("bij,bj->bi", A, x), bound(7, dtype=np.float32))
    np.testing.assert_array_equal(f(A[3], x[3]), f(A, x)[3])


def test_all_sizes_share_the_code() -> None:
    one, other = (kt.compiled(product, m=3, n=n).bound() for n in (4, 5))
    assert one is not other
    assert one.library(1) is other.library(1)
    assert kt.compiled(product, n=4, m=3) is kt.compiled(product, m=3, n=4)


def test_kernels_are_steps_of_sequences() -> None:
    f, g = kt.compiled(product, m=3, n=4), kt.compiled(product, m=2, n=3)
    steps = KernelSequence(
        "twice", [Operand("A", (3, 4)), Operand("B", (2, 3)), Operand("x", (4,))], [Operand("y", (2,))]
    )
    A, B, x = steps.inputs
    steps.call(g, B, steps.call(f, A, x), into=steps.outputs)
    rng = np.random.default_rng(4)
    given = rng.normal(size=(9, 3, 4)), rng.normal(size=(9, 2, 3)), rng.normal(size=(9, 4))
    np.testing.assert_array_equal(steps.finish()(*given), g(given[1], f(given[0], given[2])))


def test_functions_of_modules_can_be_pickled() -> None:
    f = kt.compiled(riccati, "float32", T=2, nx=3, nu=1)
    assert pickle.loads(pickle.dumps(f)) is f
    assert pickle.loads(pickle.dumps(f.engine("reference")))._engine == "reference"
    with pytest.raises(TypeError, match="no attribute 'visited'"):
        pickle.dumps(kt.compiled(visits(RANGES["all"][0]), n=2))


def test_names_of_sizes_do_not_collide_with_those_of_trees() -> None:
    @kt.kernel(A=("v", "rows"), x=("rows",), y=("v",), outputs=("y",))
    def named(k: Any, A: Any, x: Any, y: Any) -> None:
        for i in k.v:
            y[i] = k.sum(A[i, j] * x[j] for j in k.rows)

    np.testing.assert_array_equal(kt.compiled(named, v=2, rows=3)(np.ones((2, 3)), np.arange(3.0)), [3.0, 3.0])


# An author's mistakes


def declared(text: Any, outputs: tuple[str, ...] = ("x",), **axes: Any) -> Kernel:
    return kt.kernel(**({"A": ("m", "n"), "x": ("m",)} | axes), outputs=outputs)(text)


def mixed_up(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for j in k.n:
            x[i] = A[j, i]  # here


def other_axis(k: Any, A: Any, x: Any) -> None:
    y = k.zeros("n")
    for i in k.m:
        x[i] = y[i]  # here
    del A


def unknown_size(k: Any, A: Any, x: Any) -> None:
    for i in k.p:  # here
        x[i] = A[i, i]


def unknown_array(k: Any, A: Any, x: Any) -> None:
    y = k.array("p")  # here
    x[y] = A[y, y]


def three_sizes(k: Any, A: Any, x: Any) -> None:
    x[A] = k.array("m", "n", "n")  # here


def unset(k: Any, A: Any, x: Any) -> None:
    y = k.array("m")
    for i in k.m:
        x[i] = y[i]  # here
    del A


def output_read(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for j in k.n:
            x[i] = x[i] + A[i, j]  # here


def input_written(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for j in k.n:
            A[i, j] = 0.0  # here
        x[i] = 1.0


def number_as_index(k: Any, A: Any, x: Any) -> None:
    for j in k.n.after(0):  # here
        x[j] = A[j, j]


def size_of_another(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for j in k.n.after(i):  # here
            x[i] = A[i, j]


def odd_blocks(k: Any, A: Any, x: Any) -> None:
    for block in k.m.blocks(5):  # here
        x[block[0]] = A[block[0], block[0]]


def blocks_since_a_block(k: Any, A: Any, x: Any) -> None:
    for block in k.m.blocks(2):
        for other in k.m.blocks(2, since=block[0]):  # here
            x[other[0]] = A[other[0], other[0]]


def blocks_through_an_index(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for block in k.m.blocks(2, through=i):  # here
            x[block[0]] = A[i, i]


def left_early(k: Any, A: Any, x: Any) -> None:
    for i in k.m:
        for j in k.n:  # here
            x[i] = A[i, j]
            break


MISTAKES = {
    mixed_up: "an axis over m is indexed by an index over n",
    other_axis: "an axis over n is indexed by an index over m",
    unknown_size: "there is no size 'p'; the kernel's sizes are m, n",
    unknown_array: "there is no size 'p'; the kernel's sizes are m, n",
    three_sizes: "an array has one or two sizes, got 3",
    unset: "an array entry is read before it is set",
    output_read: "`x` is read, but entries of an output start unset; declare it sparse",
    input_written: "`A` is an input and cannot be written",
    number_as_index: "0 is no index over n; take one from a loop",
    size_of_another: "an axis over n is indexed by an index over m",
    odd_blocks: "blocks have 2, 3, 4, 6 or 8 indices, not 5",
    blocks_since_a_block: "blocks begin with that of an index of a loop over the size, not of a block or a list",
    blocks_through_an_index: "blocks end with that of an index of a list",
    left_early: "left before its end",
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text.__name__)
def test_mistakes_name_the_authors_line(text: Any, engine: str) -> None:
    lines, first = inspect.getsourcelines(text)
    here = first + next(i for i, line in enumerate(lines) if "# here" in line)
    f = kt.compiled(declared(text), m=3, n=3).engine(engine)
    with pytest.raises(kt.errors.ContractError, match=re.escape(MISTAKES[text])) as caught:
        f(np.ones((3, 3)))
    assert f"{__file__}:{here}:" in str(caught.value)


def test_branching_on_a_value_names_the_authors_line() -> None:
    def branching(k: Any, A: Any, x: Any) -> None:
        for i in k.m:
            for j in k.n:
                x[i] = A[i, j] if A[i, j] > 0.0 else 0.0

    here = inspect.getsourcelines(branching)[1] + 3
    with pytest.raises(kt.errors.ContractError, match=rf"{re.escape(__file__)}:{here}: .*branches on a value"):
        kt.compiled(declared(branching), m=2, n=2)(np.ones((2, 2)))


def test_state_outside_of_arrays_is_found() -> None:
    def counting(k: Any, A: Any, x: Any) -> None:
        count = 0.0
        for i in k.m:
            count = count + 1.0
            for j in k.n:
                x[i] = A[i, j] * count

    with pytest.raises(kt.errors.ContractError, match="carries state from one iteration to the next"):
        kt.compiled(declared(counting), m=2, n=2)(np.ones((2, 2)))


def test_state_that_decides_where_a_loop_ends_is_found() -> None:
    def remembering(k: Any, A: Any, x: Any) -> None:
        seen = []
        for i in k.m:
            for j in k.m.before(i) if seen else k.m.through(i):
                x[j] = 1.0
            seen.append(i)
        del A

    with pytest.raises(kt.errors.ContractError, match="carries state from one iteration to the next"):
        kt.compiled(declared(remembering), m=2, n=2)(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("outputs", "axes", "told"),
    [
        (("y",), {}, r"mixed_up\(k, A, x\) is declared with \(A, x\) and outputs \(y\)"),
        (("A",), {}, "outputs in the order in which they come last"),
        ((), {}, "has 0 outputs; a kernel has inputs and outputs"),
        (("A", "x"), {}, "has inputs and outputs"),
        (("x",), {"B": ("m",)}, r"declared with \(A, x, B\)"),
        (("x",), {"A": "mn"}, "axes of `A` are a tuple of names and numbers, got 'mn'"),
        (("x",), {"A": ("m", 0)}, "axes of `A` are a tuple of names and numbers, got 0"),
        (("x",), {"A": ("m", "2 n")}, "axes of `A` are a tuple of names and numbers, got '2 n'"),
    ],
)
def test_declarations_that_do_not_fit(outputs: tuple[str, ...], axes: Any, told: str) -> None:
    here = inspect.getsourcelines(mixed_up)[1]
    with pytest.raises(kt.errors.ContractError, match=told) as caught:
        declared(mixed_up, outputs, **axes)
    assert str(caught.value).startswith(f"{__file__}:{here}:")


def test_sparse_names_an_output() -> None:
    with pytest.raises(kt.errors.ContractError, match="outputs"):
        kt.kernel(A=("m", "n"), x=("m",), outputs=("x",), sparse=("A",))(mixed_up)


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"m": 3}, "takes m=…, n=…; got m=3"),
        ({"m": 3, "n": 3, "p": 3}, "takes m=…, n=…; got m=3, n=3, p=3"),
        ({"m": 3, "n": -1}, "n=-1.: a size is an integer from zero on"),
        ({"m": 3, "n": 2.0}, "n=2.0.: a size is an integer from zero on"),
        ({"m": True, "n": 2}, "m=True.: a size is an integer from zero on"),
        ({"m": [3], "n": 2}, "a size is an integer from zero on"),
    ],
)
def test_sizes_that_do_not_fit(sizes: Any, told: str) -> None:
    kt.compiled(product, m=1, n=2)  # which True and 2.0 are equal to
    with pytest.raises(kt.errors.InputError, match=told):
        kt.compiled(product, **sizes)


def test_arguments_whose_sizes_differ() -> None:
    f = kt.compiled(product, m=3, n=4)
    for one in (f, f.engine("reference")):
        with pytest.raises(kt.errors.InputError, match="product: x has shape .5,., expected"):
            one(np.ones((3, 4)), np.ones(5))


def test_only_kernels_are_compiled() -> None:
    with pytest.raises(kt.errors.InputError, match="is no kernel; declare it with @kinetree.kernel"):
        kt.compiled(print, n=3)  # type: ignore[arg-type]
    with pytest.raises(kt.errors.InputError, match="not in 'float16'"):
        kt.compiled(product, "float16", m=3, n=3)


def test_a_kernel_needs_its_sizes() -> None:
    """An engine that is given a mechanism without sizes does not make some up."""
    with pytest.raises(KeyError, match="size n"):
        reference.run(back_substitution, Mechanism((), (), (), (), np.zeros(3)), (), [np.eye(2), np.ones(2)])
    assert lowered(product, Variants((), ())).metadata
    assert trace(product, Variants((), ()), checked=True)


@kt.kernel(
    x=("n",),
    y=("p",),
    outputs=("y",),
    sparse=("y",),
    lists={"runs": {"n": 1, "p": 1, "t": 1}},
    rounds=("t",),
)
def copied_runs(k: Any, x: Any, y: Any) -> None:
    """Copies runs of x to places of their own, twice as large."""
    for (i,), (p,), (last,) in k.runs:
        for t in k.t.through(last):
            y[p + t] = 2.0 * x[i + t]


def test_an_index_of_a_list_is_shifted_by_a_loop_inside() -> None:
    runs = [(3, 0, 8), (0, 9, 0), (11, 10, 4), (2, 17, 20)]
    copied = kt.compiled(copied_runs, n=23, p=40, t=21, runs=runs)
    x = np.random.default_rng(0).standard_normal((11, 23))
    wanted = np.zeros((11, 40))
    for i, p, last in runs:
        wanted[:, p : p + last + 1] = 2.0 * x[:, i : i + last + 1]
    np.testing.assert_array_equal(copied(x), wanted)
    np.testing.assert_array_equal(copied(x[3]), wanted[3])
    np.testing.assert_array_equal(copied.engine("reference")(x), wanted)
    assert copied.count().multiplications == sum(last + 1 for *_, last in runs)


def test_only_indices_of_loops_inside_shift_others() -> None:
    @kt.kernel(x=("n",), y=("n",), outputs=("y",), lists={"some": {"n": 1, "n2": 1}}, rounds=("n2",))
    def added(k: Any, x: Any, y: Any) -> None:
        for (i,), (j,) in k.some:
            y[i + j] = x[i]

    with pytest.raises(kt.errors.ContractError, match="is added to an index of a loop inside"):
        trace(added, Variants.of(added.at({"n": 3, "n2": 3}, lists={"some": [(0, 1)]}), ()))
