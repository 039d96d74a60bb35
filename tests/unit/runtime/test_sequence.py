"""Sequences of compiled functions, and texts that record them: the bits of the same calls from Python."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.algorithms.dynamics.time_step import advance, semi_implicit_euler
from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.compiler.llvm import machine_code
from kinetree.kernels.products import opposing_force, total
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from kinetree.runtime.texts import executed, recorded
from tests.laws.cases import model
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]


def test_nested_loops_move_along_inputs_and_outputs() -> None:
    """Two records of three steps each."""
    robot = model("asimo35")
    nq, nv = robot.nq, robot.nv
    step = bind(semi_implicit_euler, robot.mechanism, (), "step")
    steps = KernelSequence(
        "steps",
        [Operand("q", (nq,)), Operand("v", (nv,)), Operand("tau", (6, nv))],
        [Operand("q", (2, nq)), Operand("v", (2, nv))],
    )
    q, v = (steps.variable(place) for place in steps.inputs[:2])
    with steps.loop(2) as record:
        with steps.loop(3) as number:
            tau = steps.inputs[2].at(record, nv, 3 * nv).at(number, nv)
            for after, place in zip(steps.call(step, q, v, tau, 1e-3), (q, v), strict=True):
                steps.copy(after, place)
        steps.copy(q, steps.outputs[0].at(record, nq))
        steps.copy(v, steps.outputs[1].at(record, nv))
    rolled = steps.finish()
    rng = np.random.default_rng(0)
    start, rates, taus = robot.random_configuration(rng, (7,)), rng.normal(size=(7, nv)), rng.normal(size=(7, 6, nv))
    qs, vs = rolled(start, rates, taus)
    a, b = start, rates
    for k in range(6):
        a, b = robot.step(a, b, taus[:, k], 1e-3)
        if k % 3 == 2:
            np.testing.assert_array_equal(qs[:, k // 3], a)
            np.testing.assert_array_equal(vs[:, k // 3], b)
    alone = rolled(start[4], rates[4], taus[4])
    np.testing.assert_array_equal(alone[0], qs[4])
    np.testing.assert_array_equal(alone[1], vs[4])


def test_symmetric_and_sparse_results_are_whole() -> None:
    """The mass matrix, of which the recursion computes some entries of the upper triangle."""
    robot = model("humanoid24")
    M = bind(robot.mass_matrix.algorithm, robot.mechanism, (), "mass_matrix")
    twice = KernelSequence("twice", [Operand("q", (24,))], [Operand("M", (24, 24)), Operand("again", (24, 24))])
    first = twice.call(M, twice.inputs[0])
    twice.copy(first, twice.outputs[0])
    twice.call(M, twice.inputs[0], into=[twice.outputs[1]])
    function = twice.finish()
    q = robot.random_configuration(1, (5,))
    for batch in (q, q[0]):
        for result in function(batch):
            np.testing.assert_array_equal(result, robot.mass_matrix(batch))


def test_samples_in_lanes_inside_of_a_sequence() -> None:
    """Two rounds of five samples of time steps, in lanes, and of one: arrays, an input that all share, numbers."""
    robot = model("humanoid24")
    nq, nv = robot.nq, robot.nv
    step, M = (
        bind(semi_implicit_euler, robot.mechanism, (), "step"),
        bind(robot.mass_matrix.algorithm, robot.mechanism, (), "M"),
    )
    inputs = [Operand("q", (10, nq)), Operand("v", (10, nv)), Operand("tau", (nv,))]
    every = KernelSequence("every", inputs, [Operand("q", (10, nq)), Operand("v", (10, nv)), Operand("M", (1, nv, nv))])
    with every.loop(2) as i:
        q, v, *into = (
            x.part(0, 5 * n).at(i, 5 * n)
            for x, n in zip((*every.inputs[:2], *every.outputs[:2]), (nq, nv) * 2, strict=True)
        )
        every.batch(step, 5, q, v, every.inputs[2], 1e-3, into=into)
    every.batch(M, 1, every.outputs[0].part(9 * nq, nq), into=every.outputs[2:])
    function, rng = every.finish(), np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng, (4, 10)), rng.normal(size=(4, 10, nv)), rng.normal(size=(4, nv))
    wanted = robot.step(q, v, np.repeat(tau[:, None], 10, axis=1), 1e-3)
    for some in (slice(None), 2):
        found = function(q[some], v[some], tau[some])
        np.testing.assert_array_equal(found[0], wanted[0][some])
        np.testing.assert_array_equal(found[1], wanted[1][some])
        np.testing.assert_array_equal(found[2][..., 0, :, :], robot.mass_matrix(found[0][..., 9, :]))


def test_a_sequence_is_part_of_another_and_takes_constants() -> None:
    robot = kt.zoo.double_pendulum()
    move, speed = (bind(a, robot.mechanism, (), a.name) for a in (integrate, advance))
    inner = KernelSequence("inner", [Operand("v", (2,))], [Operand("v", (2,))])
    inner.call(speed, inner.inputs[0], np.array([1.0, -2.0]), 0.5, into=inner.outputs)
    outer = KernelSequence("outer", [Operand("q", (2,)), Operand("v", (2,))], [Operand("q", (2,))])
    v = outer.call(inner.finish(), outer.inputs[1])
    outer.call(move, outer.inputs[0], v, 2.0, into=outer.outputs)
    q, v0 = np.array([0.1, 0.2]), np.array([1.0, 1.0])
    np.testing.assert_array_equal(outer.finish()(q, v0), robot.integrate(q, v0 + 0.5 * np.array([1.0, -2.0]), 2.0))


def test_refused() -> None:
    robot = kt.zoo.double_pendulum()
    move = bind(integrate, robot.mechanism, (), "integrate")
    wrong = KernelSequence("wrong", [Operand("q", (2,))], [Operand("q", (2,))])
    with pytest.raises(ValueError, match="integrate takes 3 inputs, got 1"):
        wrong.call(move, wrong.inputs[0])
    with pytest.raises(ValueError, match="2 elements are copied to 1"):
        wrong.copy(wrong.inputs[0], wrong.outputs[0].part(0, 1))
    with pytest.raises(ValueError, match="3 numbers are copied to 2 elements"):
        wrong.call(move, wrong.inputs[0], np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="integrate has 4 operands, got 2"):
        wrong.batch(move, 2, wrong.inputs[0], into=wrong.outputs)
    with pytest.raises(ValueError, match="q of 3 samples has 4 elements"):
        wrong.batch(move, 3, wrong.space(4), wrong.inputs[0], 1.0, into=[wrong.space(6)])
    with pytest.raises(ValueError, match="at least one round"), wrong.loop(0):
        pass
    with pytest.raises(ValueError, match="at most 30 outputs"):
        KernelSequence("many", [], [Operand("x", (1,))] * 31)


@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
def test_other_processors_give_the_same_bits(cpu: str) -> None:
    """Boxes on a floor: sequences inside a sequence, with loops, single and in lanes of another width."""
    if not machine_code.host().is_x86 or machine_code.named(cpu).width > machine_code.host().width:
        pytest.skip(f"code for {cpu} does not run on this processor")
    rng = np.random.default_rng(0)
    q = np.tile([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], (7, 1))
    v = 0.3 * rng.normal(size=(7, 6))

    def rolled() -> Array:
        box = kt.zoo.box((0.2, 0.2, 0.1), 1.0)
        corners = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
        world = simulation.Simulator(box, contacts=[simulation.Points("box", corners)])
        single = world.rollout(q[0], v[0], steps=20).q
        together = world.rollout(q, v, steps=20).q
        np.testing.assert_array_equal(together[0], single)
        return together

    expected = rolled()
    with machine_code.use(machine_code.named(cpu)):
        np.testing.assert_array_equal(rolled(), expected)
    np.testing.assert_array_equal(rolled(), expected)


INPUTS = [Operand("A", (2, 2)), Operand("x", (3,))]
OUTPUTS = [Operand("block", (2, 3)), Operand("long", (9,)), Operand("force", (2,)), Operand("one", (1,))]
CONSTANT = np.array([[5.0, 6.0], [6.0, 8.0]])  # its first axis is as long as the batch


def text(run: Any, A: Any, x: Any) -> list[Any]:
    """Elements taken, placed and joined, constants among them, and kernels on the results."""
    block = run.placed(run.taken(A, [[3, 1], [0, 2]]), [5, 1, 2, 3], (2, 3))
    both = run.taken(run.joined(CONSTANT, np.zeros((0, 2)), A), [1, 4])
    force = run(kt.compiled(opposing_force, r=2), CONSTANT, run.taken(x, [2, 0]))
    one = run.taken(x, 1)
    long = [run.joined(x, one), both, 7.0, force]
    return [block, long, run(kt.compiled(total, n=2), force, both), run.taken(run.joined(one), [0])]


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (0,)])
def test_one_text_recorded_and_executed(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    A, x = rng.normal(size=(*shape, 2, 2)), rng.normal(size=(*shape, 3))
    whole = recorded("text", INPUTS, OUTPUTS, text)(A, x)
    flat = A.reshape(*shape, 4)
    block = np.zeros((*shape, 2, 3))
    block[..., 1, 2], block[..., 0, 1], block[..., 0, 2], block[..., 1, 0] = np.moveaxis(flat[..., [3, 1, 0, 2]], -1, 0)
    both = np.stack(np.broadcast_arrays(CONSTANT[0, 1], flat[..., 0]), axis=-1)
    force = -np.einsum("ij,...j->...i", CONSTANT, x[..., [2, 0]])
    seven = np.full((*shape, 1), 7.0)
    long = np.concatenate([x, x[..., 1:2], both, seven, force], axis=-1)
    for engine in ("native", "reference"):
        found = executed(INPUTS, text, engine)(A, x)
        for result, same, expected in zip(found, whole, (block, long, force + both, x[..., 1:2]), strict=True):
            assert result.shape == expected.shape
            assert_close(result, expected, bound(2))
            if engine == "native":
                np.testing.assert_array_equal(result, same)


def test_inputs_broadcast() -> None:
    A, x = np.ones((2, 1, 2, 2)), np.ones(3)
    for result in executed(INPUTS, text)(A, x):
        assert result.shape[:2] == (2, 1)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_texts_run_functions_on_rows_and_share_memory(shape: tuple[int, ...]) -> None:
    robot, rng = kt.zoo.double_pendulum(), np.random.default_rng(2)
    q, (v, w) = rng.normal(size=(*shape, 2)), rng.normal(size=(2, *shape, 2))
    inputs, outputs = [Operand(name, (2,)) for name in "qvw"], [Operand("rows", (2, 2)), Operand("sum", (2,))]
    adding = kt.compiled(total, n=2)

    def text(run: Any, q: Any, v: Any, w: Any) -> list[Any]:
        rows = run.of_rows(robot.mass_matrix_solve, q, run(robot.mass_matrix, q), (2, 2))
        (first, second), (force,) = run.sharing(kt.compiled(halves), [v], [adding, adding])
        first(force)  # its second input is in the memory of the other's
        return [rows, second(w)]

    results = recorded("rows", inputs, outputs, text)(q, v, w)
    for engine in ("native", "reference"):
        found = executed(inputs, text, engine)(q, v, w)
        for result, same, expected in zip(found, results, (np.eye(2), 0.5 * v + w), strict=True):
            assert_close(result, np.broadcast_to(expected, result.shape), bound(2))
            if engine == "native":
                np.testing.assert_array_equal(result, same)


@kt.kernel(x=(2,), half=(2,), quarter=(2,), outputs=("half", "quarter"))
def halves(_k: Any, x: Any, half: Any, quarter: Any) -> None:
    """Two results."""
    half[...], quarter[...] = 0.5 * x[...], 0.25 * x[...]


def test_cases_are_chosen_by_the_largest_number_of_all_lanes() -> None:
    """Texts that tell which of them ran; results that are shorter end with zeros."""
    both = compiled(total, n=2)

    def text(run: Any, x: Any, number: Any) -> list[Any]:
        one, two = (partial(lambda i: [run(both, x, np.full(2, float(i)))], i) for i in (1, 2))
        found = run.cases(number, [0, 3, 9], [lambda: [np.zeros(0)], one, two], [3])
        return [run.joined(found[0], number)]

    inputs, outputs = [Operand("x", (2,)), Operand("number", ())], [Operand("y", (4,))]
    for function in (recorded("cases", inputs, outputs, text), executed(inputs, text, "native")):

        def call(x: Any, number: Any, function: Any = function) -> Array:
            found = function(x, number)
            return found[0] if isinstance(found, tuple) else found

        x = np.array([10.0, 20.0])
        for number, expected in ((0.0, [0, 0]), (1.0, [11, 21]), (3.0, [11, 21]), (4.0, [12, 22]), (99.0, [12, 22])):
            np.testing.assert_array_equal(call(x, number), [*expected, 0.0, number])
        batch = call(np.tile(x, (3, 1)), np.array([0.0, 1.0, 4.0]))
        np.testing.assert_array_equal(batch[:, :3], [[12, 22, 0]] * 3)
        lanes = call(np.tile(x, (3, 1)), np.array([np.nan, 0.0, 2.0]))
        np.testing.assert_array_equal(lanes[1:, :3], [[11, 21, 0]] * 2)
