"""Loops over rows of tasks, ancestors of columns, branches of pairs, accumulation nodes: what every engine visits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.methods import accumulation
from kinetree.algorithms.methods.accumulation import UNITS, AccumulationNodes
from kinetree.compiler.count import count
from kinetree.compiler.trace import trace
from kinetree.errors import ContractError
from kinetree.kernels.language import task_rows
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.loops import LOOPS
from kinetree.language.mechanism import WORLD
from kinetree.language.rows import Rows
from kinetree.language.setup import Variants
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind

ROBOT = kt.zoo.random_tree(16, kinds=("revolute", "spherical"), seed=5)
POSITION = (3, 4, 5)
FRAMES = ("body8", "body3", "body5", "body13", "body2", "body8", "world")
SITES = tuple(replace(ROBOT.site(f), rows=POSITION if i == 1 else tuple(range(6))) for i, f in enumerate(FRAMES))
TOPOLOGY = ROBOT.mechanism.topology
ROWS = Rows(ROBOT.mechanism, SITES)

declare = algorithm(q=("q",), seen=("rows", "rows"), outputs=("seen",), sparse=("seen",))
columns = algorithm(q=("q",), seen=("v", "v"), outputs=("seen",), sparse=("seen",))


def on_both_engines(one: Algorithm) -> Any:
    """What an algorithm leaves on the reference engine, which the native one must leave too."""
    q = ROBOT.neutral()
    (expected,) = reference.run(one, ROBOT.mechanism, SITES, [q])
    native = bind(one, ROBOT.mechanism, SITES, one.name)
    assert np.array_equal(native(q), expected)
    assert np.array_equal(native(np.stack([q] * 9)), np.stack([expected] * 9))
    return expected


def in_order_asked(numbers: Any) -> Any:
    """A matrix over rows, given over rows as numbered."""
    result = np.zeros_like(numbers)
    result[np.ix_(ROWS.task_rows, ROWS.task_rows)] = numbers
    return result


def test_columns_after_one() -> None:
    @columns
    def after(tree: Any, q: Any, seen: Any) -> None:
        for c in tree.columns():
            for other in tree.columns(c):
                seen[c, other] = 1.0

    assert np.array_equal(on_both_engines(after), np.triu(np.ones((ROBOT.nv, ROBOT.nv)), 1))


def test_a_subtree_and_elsewhere_are_all() -> None:
    @columns
    def outside(tree: Any, q: Any, seen: Any) -> None:
        for k, _ in tree.scatter():
            for c in tree.elsewhere(k):
                for own in k.columns():
                    seen[own, c] = seen[own, c] + 1.0
            for c in tree.subtree(k):
                for own in k.columns():
                    seen[own, c] = seen[own, c] + 3.0

    starts = ROBOT.mechanism.v_starts
    expected = np.ones((ROBOT.nv, ROBOT.nv))
    for k in range(len(TOPOLOGY)):
        expected[starts[k] : starts[k + 1], starts[k] : starts[TOPOLOGY.subtree_end(k)]] = 3.0
    assert np.array_equal(on_both_engines(outside), expected)
    assert count(outside, ROBOT.mechanism).additions == ROBOT.nv**2


def test_ancestors_climb_the_expanded_parent_array() -> None:
    @columns
    def climbing(tree: Any, q: Any, seen: Any) -> None:
        for k, _ in tree.gather():
            for c in k.columns():
                for i in tree.ancestors(k):
                    seen[i, c] = 1.0
                    for j in tree.ancestors(k, i):
                        seen[j, i] = seen[j, i] + 2.0

    starts = ROBOT.mechanism.v_starts
    expected = np.zeros((ROBOT.nv, ROBOT.nv))
    for k in range(len(TOPOLOGY)):
        carriers = [c for p in TOPOLOGY.support(k)[:-1] for c in range(starts[p], starts[p + 1])]
        for c in range(starts[k], starts[k + 1]):
            expected[carriers, c] += 1.0
            for i in carriers:
                expected[[j for j in carriers if j <= i], i] += 2.0
    # what was set before descendants added to it
    result = on_both_engines(climbing)
    own = [(i, j) for i in range(ROBOT.nv) for j in range(ROBOT.nv) if expected[i, j]]
    assert all(result[i, j] for i, j in own)
    assert np.count_nonzero(result) == len(own)


def test_rows_that_follow_a_node() -> None:
    @declare
    def following(tree: Any, q: Any, seen: Any) -> None:
        for k, _ in tree.scatter():
            for one in tree.carried(k):
                for other in tree.following(k):
                    seen[one, other] = seen[one, other] + 1.0

    expected = np.zeros((ROWS.count, ROWS.count))
    for k in range(len(TOPOLOGY)):
        carried = ROWS.carried(k)
        expected[carried.start : carried.stop, carried.stop :] += 1.0
    assert np.array_equal(on_both_engines(following), in_order_asked(expected))


@pytest.mark.parametrize("to", ["one", "other"])
def test_branches_lead_from_the_common_ancestor_to_a_frame(to: str) -> None:
    @declare
    def branches(tree: Any, q: Any, seen: Any) -> None:
        length = tree.array("frames", "frames")
        for _, one, other in tree.common_ancestors():
            length[one, other] = 0.0
        for _, one, other in tree.branches(to):
            length[one, other] = length[one, other] + 1.0
        for _, one, other in tree.common_ancestors():
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    seen[r, s] = length[one, other]

    expected = np.zeros((ROWS.count, ROWS.count))
    for node, one, other in ROWS.common_ancestors:
        end = SITES[one if to == "one" else other].node
        steps = len(TOPOLOGY.support(end)) - len(TOPOLOGY.support(node))
        for r in ROWS.of(one):
            for s in ROWS.of(other):
                if s >= r:
                    expected[r, s] = steps
    assert expected.any()
    assert np.array_equal(on_both_engines(branches), in_order_asked(expected))


def test_rows_pass_as_they_are_or_as_units() -> None:
    found = AccumulationNodes(ROBOT.mechanism, ROWS)
    assert found.nodes
    for k in range(len(TOPOLOGY)):
        passing = found.passing(k)
        assert bool(passing) == bool(ROWS.carried(k))
        if passing and passing.start < ROWS.count:
            assert passing == ROWS.carried(k)
        elif passing:
            assert len(passing) == UNITS
    assert found.count == ROWS.count + UNITS * len(found.nodes)
    for node, one, other in found.joins:
        assert TOPOLOGY.nearest_common_ancestor(SITES[one].node, SITES[other].node) >= node
    assert {found.above(k) for k in found.nodes} <= {WORLD, *found.nodes}


def test_accumulation_nodes_are_visited_both_ways() -> None:
    @declare
    def visited(tree: Any, q: Any, seen: Any) -> None:
        weight, order = tree.array("passing"), tree.array("node", "sorted_rows")
        tree.world.depth = np.zeros(1)
        for row in tree.sorted_rows():
            order[tree.world, row] = 0.0
            weight[row] = 0.0
        for k, above in accumulation.scatter(tree):
            k.depth = above.depth + 1.0
            for unit in accumulation.units(tree, k):
                weight[unit] = k.depth[0]
        for k, above in accumulation.gather(tree):
            for row in tree.carried(k):
                order[k, row] = 10.0 * k.depth[0] + weight[accumulation.units(tree, k)[5]] + 0.1 * above.depth[0]
        for k, one, other in accumulation.joins(tree):
            for r in tree.rows_of(one):
                for s in tree.rows_of(other, r):
                    seen[r, s] = order[k, r] + order[k, s]

    found = AccumulationNodes(ROBOT.mechanism, ROWS)
    depth = {WORLD: 0.0}
    for k in found.nodes:
        depth[k] = depth[found.above(k)] + 1.0
    expected = np.zeros((ROWS.count, ROWS.count))
    for k, one, other in found.joins:
        value = 10.0 * depth[k] + depth[k] + 0.1 * depth[found.above(k)]
        for r in ROWS.of(one):
            for s in ROWS.of(other):
                if s >= r:
                    expected[r, s] = value + value
    np.testing.assert_allclose(on_both_engines(visited), in_order_asked(expected), rtol=1e-14)


def groups_of(loop: str) -> Algorithm:
    """Marks pairs of rows within a group by 1, and with the rows that follow it by 2, at every node."""

    def groups(tree: Any, q: Any, seen: Any) -> None:
        marks = tree.array("passing", "passing")
        for one in tree.sorted_rows():
            for other in tree.sorted_rows(one):
                marks[one, other] = 0.0
        for k, _ in accumulation.gather(tree):
            units = accumulation.units(tree, k)
            for i, one in enumerate(units):
                for other in units[i:]:
                    marks[one, other] = 0.0
        for k, _ in tree.gather():
            for group, later in LOOPS[loop](tree, k):
                for i, one in enumerate(group.rows):
                    for other in group.rows[i:]:
                        marks[one, other] = marks[one, other] + 1.0
                for other in later:
                    for one in group.rows:
                        marks[one, other] = marks[one, other] + 2.0
        for one in tree.sorted_rows():
            for other in tree.sorted_rows(one):
                seen[one, other] = marks[one, other]

    groups.__name__ = loop
    return declare(groups)


@pytest.mark.parametrize("loop", ["carried_groups", "passing_groups"])
def test_groups_make_all_pairs_that_pass(loop: str) -> None:
    found = AccumulationNodes(ROBOT.mechanism, ROWS)
    expected = np.zeros((ROWS.count, ROWS.count))
    for k in range(len(TOPOLOGY)):
        passing = ROWS.carried(k) if loop == "carried_groups" else found.passing(k)
        for one in passing if passing.start < ROWS.count else ():
            for other in range(one, passing.stop):
                together = any(one in group and other in group for group in ROWS.groups)
                expected[one, other] += 1.0 if together else 2.0
    result = on_both_engines(groups_of(loop))
    assert np.array_equal(result, in_order_asked(expected))


def test_tasks_in_the_order_asked_for() -> None:
    @declare
    def blocks(tree: Any, q: Any, seen: Any) -> None:
        marks = tree.array("rows", "rows")
        for one in tree.task_rows():
            for other in tree.task_rows():
                marks[one, other] = 0.0
        rows = task_rows(tree)
        for task in rows.blocks():
            for i, one in enumerate(task):
                marks[one, one] = 7.0 + i
            for other in rows.before(task):
                for i, one in enumerate(task):
                    marks[other, one] = marks[other, one] + (1.0 + i)
            for other in rows.after(task):
                for i, one in enumerate(task):
                    marks[other, one] = marks[other, one] - (1.0 + i)
        for one in tree.task_rows():
            for other in tree.task_rows():
                seen[one, other] = marks[one, other]
            for other in tree.task_rows(one):
                seen[one, other] = seen[one, other] + 20.0

    n = ROWS.task_row_count
    expected = 20.0 * np.triu(np.ones((n, n)))
    for task in ROWS.tasks:
        for i, row in enumerate(task):
            expected[: task.start, row] += 1.0 + i
            expected[row, row] += 7.0 + i
            expected[task.stop :, row] -= 1.0 + i
    assert np.array_equal(on_both_engines(blocks), expected)
    pairs = n * n - sum(len(task) ** 2 for task in ROWS.tasks)
    assert count(blocks, ROBOT.mechanism, SITES).additions == pairs + n * (n + 1) // 2


def test_operations_of_new_loops_are_counted() -> None:
    @columns
    def sums(tree: Any, q: Any, seen: Any) -> None:
        for k, _ in tree.gather():
            for i in tree.ancestors(k):
                for j in tree.ancestors(k, i):
                    seen[j, i] = seen[j, i] + 1.0

    starts = ROBOT.mechanism.v_starts
    carriers = [sum(starts[p + 1] - starts[p] for p in TOPOLOGY.support(k)[:-1]) for k in range(len(TOPOLOGY))]
    assert count(sums, ROBOT.mechanism).additions == sum(d * (d + 1) // 2 for d in carriers)


def units_in_an_array_of_rows(tree: Any, q: Any, seen: Any) -> None:
    rows = tree.array("sorted_rows")
    for k, _ in accumulation.gather(tree):
        rows[accumulation.units(tree, k)[0]] = 0.0


def test_units_are_rows_of_nobody() -> None:
    with pytest.raises(ContractError, match="a row with an index over passing has none over sorted_rows"):
        trace(declare(units_in_an_array_of_rows), Variants.of(ROBOT.mechanism, SITES))
    with pytest.raises(ContractError, match="a row with an index over passing has none over sorted_rows"):
        reference.run(declare(units_in_an_array_of_rows), ROBOT.mechanism, SITES, [ROBOT.neutral()])


def test_loops_start_at_any_row() -> None:
    @declare
    def from_own_rows(tree: Any, q: Any, seen: Any) -> None:
        for frame, _ in tree.frames():
            for row in frame.rows():
                for other in tree.sorted_rows(row):
                    seen[row, other] = 1.0

    expected = np.triu(np.ones((ROWS.count, ROWS.count)))
    assert np.array_equal(on_both_engines(from_own_rows), in_order_asked(expected))
    assert count(from_own_rows, ROBOT.mechanism, SITES).total == 0


def test_methods_are_counted_by_name() -> None:
    robot = kt.zoo.humanoid24()
    hands = ["left_hand", "right_hand"]
    totals = {method: robot.count(method, frames=hands).total for method in kt.tasks.METHODS}
    assert totals["pv_osim_r"] <= totals["pv_osim"] < totals["efpa"] < totals["definition"]
