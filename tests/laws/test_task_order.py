"""The order in which tasks are asked for changes the order of the result, and nothing else.

Rows are numbered in the order asked for where that keeps together what each subtree carries. Kernels differ then.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.language.setup import Rows
from tests.tolerance import assert_close, bound, condition
from tests.trees import random_mechanism

ROBOT = random_mechanism("tree", ["floating", *["revolute"] * 13], 0, branching=0.5).kinetree()
TOPOLOGY = ROBOT.mechanism.topology
BODIES = {ROBOT.site(body.name).node: body.name for body in ROBOT.bodies}


def outward(backwards: bool) -> list[int]:
    """Nodes, each before those that it carries, with siblings in order or backwards."""
    ordered: list[int] = []
    waiting = [k for k in range(len(TOPOLOGY)) if ROBOT.mechanism.parents[k] < 0]
    while waiting:
        k = waiting.pop(0)
        ordered.append(k)
        children = list(TOPOLOGY.children[k])
        waiting = (children[::-1] if backwards else children) + waiting
    return ordered


def tasks_in(nodes: list[int]) -> list[Any]:
    """A task on every second node, two on every sixth, with six rows or three."""
    tasks: list[Any] = []
    for k in nodes:
        if k % 2 == 0:
            tasks.append(kt.Task(BODIES[k], "all" if k % 4 else "position"))
        if k % 6 == 0:
            tasks.append(kt.Task(BODIES[k], "orientation", (0.1, 0.2, 0.3)))
    return tasks


ORDERS = {
    "as numbered": tasks_in(outward(False)),
    "siblings backwards": tasks_in(outward(True)),
    "tips first": tasks_in(outward(False)[::-1]),
    "mixed": [tasks_in(outward(False))[i] for i in np.random.default_rng(0).permutation(len(tasks_in(outward(False))))],
}


def sites(tasks: list[Any]) -> tuple[Any, ...]:
    return ROBOT.tasks(tasks).core.recursions.sites


def places(tasks: list[Any]) -> list[int]:
    """Where the rows of tasks are among those of the first order."""
    first = ORDERS["as numbered"]
    starts = np.cumsum([0, *(len(task.rows) for task in first)])
    return [starts[first.index(task)] + i for task in tasks for i in range(len(task.rows))]


def test_which_orders_are_kept() -> None:
    assert any(len(children) > 1 for children in TOPOLOGY.children)
    kept = {name: Rows(ROBOT.mechanism, sites(tasks)).in_order for name, tasks in ORDERS.items()}
    assert kept == {"as numbered": True, "siblings backwards": True, "tips first": False, "mixed": False}
    assert ORDERS["siblings backwards"] != ORDERS["as numbered"]


@cache
def by_definition() -> tuple[Any, Any, float]:
    """Configurations, Λ⁻¹ of the mixed order at the first one, and how far from it a right result may be."""
    q = ROBOT.random_configuration(1, (9,))
    expected = ROBOT.tasks(ORDERS["mixed"], method="definition").inverse_inertia.engine("reference")(q[0])
    return q, expected, bound(ROBOT.nv, condition(ROBOT.mass_matrix(q)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_inverse_inertia(method: str, order: str) -> None:
    q, expected, tolerance = by_definition()
    back = np.argsort(places(ORDERS["mixed"]))
    rows = back[places(ORDERS[order])]
    function = ROBOT.tasks(ORDERS[order], method=method).inverse_inertia
    result = function(q)
    assert_close(result[0], expected[np.ix_(rows, rows)], tolerance)
    assert np.array_equal(function(q[0]), result[0])
    assert_close(function.engine("reference")(q[8]), result[8], tolerance)


@pytest.mark.parametrize("order", ORDERS)
def test_other_quantities(order: str) -> None:
    tasks = [task for task in ORDERS[order] if task.frame in (BODIES[4], BODIES[8], BODIES[10])]
    same = [task for task in ORDERS["mixed"] if task in tasks]
    q, v = ROBOT.random_configuration(2), np.random.default_rng(2).uniform(-1, 1, ROBOT.nv)
    space, other = ROBOT.tasks(tasks).at(q, v), ROBOT.tasks(same).at(q, v)
    starts = dict(zip(same, np.cumsum([0, *(len(task.rows) for task in same)]), strict=False))
    rows = [starts[task] + i for task in tasks for i in range(len(task.rows))]
    assert space.rank == len(rows)
    tolerance = bound(ROBOT.nv, condition(ROBOT.mass_matrix(q))) * float(np.linalg.cond(space.inverse_inertia))
    assert_close(space.jacobian, other.jacobian[rows], bound(ROBOT.nv))
    assert_close(space.jacobian_dot_v, other.jacobian_dot_v[rows], bound(ROBOT.nv))
    assert_close(space.inertia, other.inertia[np.ix_(rows, rows)], tolerance)
    assert_close(space.dynamically_consistent_inverse, other.dynamically_consistent_inverse[:, rows], tolerance)
    assert_close(space.nullspace, other.nullspace, tolerance)


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_the_centre_of_mass_may_come_last(method: str) -> None:
    frames = [task for task in ORDERS["as numbered"] if task.frame in (BODIES[4], BODIES[10])]
    q = ROBOT.random_configuration(3)
    first = ROBOT.tasks([kt.CenterOfMassTask(), *frames], method="definition").inverse_inertia.engine("reference")(q)
    last = ROBOT.tasks([*frames, kt.CenterOfMassTask()], method=method).inverse_inertia(q)
    assert_close(np.roll(last, 3, (0, 1)), first, bound(ROBOT.nv, condition(ROBOT.mass_matrix(q))))
