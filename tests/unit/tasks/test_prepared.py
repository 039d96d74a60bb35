"""What `robot.tasks(…)` makes: frozen, picklable, cheap to make, with functions that take `out=` by one rule."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import threading
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from kinetree.tasks import TaskDynamics, Tasks

OF_Q = ("inverse_inertia", "inertia", "jacobian", "rank", "condition")
OF_V = ("bias", "jacobian_dot_v")


@cache
def robot() -> kt.Model:
    """A short chain with a hand."""
    return kt.zoo.chain(4, seed=1)


@cache
def tasks(contacts: bool) -> Tasks:
    return robot().tasks(
        [kt.Task("body4", "position", (0.1, 0.2, 0.3))], contacts=[kt.Task("body2", (3,))] if contacts else ()
    )


def state(shape: tuple[int, ...] = ()) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    return robot().random_configuration(rng, shape), rng.uniform(-1, 1, (*shape, robot().nv))


both = pytest.mark.parametrize("contacts", [False, True])


@both
def test_functions_are_the_quantities_of_a_state(contacts: bool) -> None:
    prepared, (q, v) = tasks(contacts), state((3,))
    found = prepared.at(q, v)
    for name in OF_Q:
        np.testing.assert_array_equal(getattr(prepared, name)(q), getattr(found, name))
        np.testing.assert_array_equal(getattr(prepared, name)(q[1]), getattr(found, name)[1])
    for name in OF_V:
        np.testing.assert_array_equal(getattr(prepared, name)(q, v), getattr(found, name))
    dynamics = prepared.dynamics(q)
    assert isinstance(dynamics, TaskDynamics)
    np.testing.assert_array_equal(dynamics.nullspace, found.nullspace)
    np.testing.assert_array_equal(dynamics.dynamically_consistent_inverse, found.dynamically_consistent_inverse)


@both
def test_functions_have_engines_counts_and_compile(contacts: bool) -> None:
    prepared, (q, v) = tasks(contacts), state()
    for name in (*OF_Q, *OF_V, "dynamics"):
        function, inputs = getattr(prepared, name), (q, v) if name in OF_V else (q,)
        function.compile()
        assert function.count().total > 0
        exact = function.engine("reference")(*inputs)
        for result, right in (
            zip(function(*inputs), exact, strict=True) if name == "dynamics" else [(function(*inputs), exact)]
        ):
            np.testing.assert_allclose(result, right, rtol=1e-9, atol=1e-11)
        with pytest.raises(UnknownNameError, match="engine"):
            function.engine("none")
    assert prepared.engine("native") is prepared
    with pytest.raises(UnknownNameError, match="engine"):
        prepared.engine("none")


@both
@pytest.mark.parametrize("name", [*OF_Q, *OF_V, "dynamics"])
def test_out_has_one_rule(name: str, contacts: bool) -> None:
    """Exactly the shape and the type of the result, and writable; else an error that says so."""
    function, (q, v) = getattr(tasks(contacts), name), state((2,))
    inputs = (q, v) if name in OF_V else (q,)
    results = function(*inputs) if name == "dynamics" else (function(*inputs),)
    homes = tuple(np.zeros_like(result) for result in results)
    given = function(*inputs, out=homes if name == "dynamics" else homes[0])
    for home, result, back in zip(homes, results, given if name == "dynamics" else (given,), strict=True):
        assert back is home
        np.testing.assert_array_equal(home, result)
    last, rest = results[-1], homes[:-1]
    kind = "float32" if last.dtype == np.float64 else "float64"
    locked = np.zeros_like(last)
    locked.setflags(write=False)
    for wrong, said in (
        (np.zeros(last.shape[1:]), "shape"),
        (np.zeros((2, *last.shape)), "shape"),
        (np.zeros(last.shape, dtype=kind), f"must be a {last.dtype} array, got dtype {kind}"),
        (last.tolist(), f"must be a {last.dtype} array, got list"),
        (locked, "read-only"),
    ):
        if said == "shape" and last.dtype != np.float64:
            wrong = wrong.astype(last.dtype)
        with pytest.raises(InputError, match=f"^{name}.*{said}"):
            function(*inputs, out=(*rest, wrong) if name == "dynamics" else wrong)


@both
def test_wrong_numbers_of_inputs(contacts: bool) -> None:
    q, v = state()
    prepared = tasks(contacts)
    for name in ("rank", "condition", "bias"):
        with pytest.raises(
            InputError, match=f"^{name} takes q.*, each once; got {1 if name == 'bias' else 2} by position"
        ):
            getattr(prepared, name)(*((q,) if name == "bias" else (q, v)))
    if contacts:
        with pytest.raises(InputError, match="^dynamics takes q, each once; got 2 by position"):
            prepared.dynamics(q, v)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="^bias takes q and v, each once; got 1 by position, q"):
        prepared.bias(q, q=q)
    with pytest.raises(InputError, match=r"^bias: v has shape \(5,\), expected \(..., 4\)"):
        prepared.bias(q, np.zeros(5))
    np.testing.assert_array_equal(prepared.bias(q, v=v), prepared.bias(v=v, q=q))


@both
def test_help_is_about_the_quantity(contacts: bool) -> None:
    for name in (*OF_Q, *OF_V, "dynamics", "inverse_inertia_derivative"):
        function = getattr(tasks(contacts), name)
        assert function.__doc__.startswith(f"`{name}(q")
        first = list(inspect.signature(function).parameters)
        assert first[0] == "q"
        assert first[-1] == "out"


@both
def test_tasks_functions_and_states_pickle_and_copy(contacts: bool) -> None:
    prepared, (q, v) = tasks(contacts), state((3,))
    again: Tasks = pickle.loads(pickle.dumps(prepared))
    assert (again.tasks, again.contacts, again.cut, again.singular, again.reference) == (
        prepared.tasks,
        prepared.contacts,
        prepared.cut,
        prepared.singular,
        prepared.reference,
    )
    assert again._robot.model == robot()
    assert copy.deepcopy(prepared) is prepared
    for name in (*OF_Q, *OF_V, "dynamics"):
        function, inputs = getattr(prepared, name), (q, v) if name in OF_V else (q,)
        for one in (function, function.engine("reference")):
            sent = pickle.dumps(one)
            assert len(sent) < 20_000
            found = pickle.loads(sent)
            assert repr(found) == repr(one)
            for result, right in zip(found(*inputs), one(*inputs), strict=True):
                np.testing.assert_array_equal(result, right)
            copied = copy.deepcopy(one)
            np.testing.assert_array_equal(copied(*inputs)[0], one(*inputs)[0])
    here = prepared.at(q, v)
    _ = here.inertia
    there = pickle.loads(pickle.dumps(here))
    np.testing.assert_array_equal(there.bias, here.bias)
    np.testing.assert_array_equal(copy.deepcopy(here).rank, here.rank)


def test_tasks_and_states_are_frozen() -> None:
    q, _ = state()
    with pytest.raises(AttributeError, match="frozen"):
        tasks(False).cut = 0.5
    with pytest.raises(AttributeError, match="frozen"):
        tasks(False).at(q).rank = 2
    assert "3 rows" in repr(tasks(False))
    assert "1 of contacts" in repr(tasks(True))
    assert "1 of contacts" in repr(tasks(True).at(q))
    assert repr(tasks(False).inertia).startswith("<inertia of <tasks 'body4'")


def test_making_tasks_and_reading_their_functions_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was compiled")

    monkeypatch.setattr("kinetree.runtime.function.bind", never)
    q, v = state()
    for contacts in ((), ["body2"]):
        prepared = robot().tasks(["body4", kt.CenterOfMassTask()], contacts=contacts)
        for name in (*OF_Q, *OF_V, "dynamics", "inverse_inertia_derivative", "method"):
            assert getattr(prepared, name) is not None
        pickle.loads(pickle.dumps(prepared))
        repr(prepared.at(q, v))
    with pytest.raises(AssertionError):
        prepared.inertia(q)


def test_tasks_made_over_and_over_leave_nothing_behind() -> None:
    """As in a loop whose point moves: what is kept of a task goes with it."""
    q, v = state()

    def use(i: int) -> None:
        made = robot().tasks([kt.Task("body4", "position", (1e-3 * i, 0.0, 0.0))])
        found = made.at(q, v)
        _ = found.inverse_inertia, found.inertia, found.nullspace, found.bias, found.rank

    for i in range(300):  # caches of bounded size fill up first
        use(i)
    gc.collect()
    tracemalloc.start()
    for i in range(70):  # and those of 64 entries, while allocations are traced
        use(i)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(300, 370):
        use(i)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200 * 70, f"{grown / 70:.0f} bytes a call"


def test_threads_share_tasks() -> None:
    prepared, (q, v) = robot().tasks(["body4"], contacts=["body1"]), state((5,))
    results: list[Any] = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        results.append(prepared.at(q, v).nullspace)

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_tasks_by_name_are_kept() -> None:
    """So that preparing them inside a loop costs nothing; options and contacts tell them apart, and few are kept."""
    robot = kt.zoo.humanoid24()
    hands = robot.tasks(["left_hand", "right_hand"])
    assert robot.tasks(("left_hand", "right_hand")) is hands
    assert robot.tasks(["right_hand", "left_hand"]) is not hands
    assert robot.tasks(["left_hand", "right_hand"], reference="world").reference == "world"
    assert robot.tasks(["left_hand", "right_hand"], contacts=["left_foot"]).held == 6
    assert robot.tasks([kt.Task("left_hand")]) is not robot.tasks([kt.Task("left_hand")])
    for cut in np.linspace(1e-6, 1e-3, 200):
        robot.tasks(["left_hand"], cut=cut)
    assert len(robot._kept_tasks) <= 64
    with pytest.raises(UnknownNameError, match="'nope'"):
        robot.tasks(["nope"])
