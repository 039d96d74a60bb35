"""Loops over rows and ends of tasks, ancestors of columns, branches, accumulation nodes: what every engine visits."""

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
from kinetree.language.setup import Rows, Variants
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind

ROBOT = kt.zoo.random_tree(16, kinds=("revolute", "spherical"), seed=5)
Q = ROBOT.neutral()
POSITION = (3, 4, 5)
FRAMES = ("body8", "body3", "body5", "body13", "body2", "body8", "world")
SITES = tuple(replace(ROBOT.site(f), rows=POSITION if i == 1 else tuple(range(6))) for i, f in enumerate(FRAMES))
TOPOLOGY = ROBOT.mechanism.topology
ROWS = Rows(ROBOT.mechanism, SITES)

declare = algorithm(q=("q",), seen=("rows", "rows"), outputs=("seen",), sparse=("seen",))
columns = algorithm(q=("q",), seen=("v", "v"), outputs=("seen",), sparse=("seen",))


def on_both_engines(one: Algorithm, sites: Any = SITES) -> Any:
    """What an algorithm leaves on the reference engine, which the native one must leave too, alone and in batches."""
    (expected,) = reference.run(one, ROBOT.mechanism, sites, [Q])
    native = bind(one, ROBOT.mechanism, sites, one.name)
    assert np.array_equal(native(Q), expected)
    assert np.array_equal(native(np.stack([Q] * 9)), np.stack([expected] * 9))
    return expected


def refused_by_both(one: Algorithm, message: str, sites: Any = SITES) -> None:
    with pytest.raises(ContractError, match=message):
        trace(one, Variants.of(ROBOT.mechanism, sites))
    with pytest.raises(ContractError, match=message):
        reference.run(one, ROBOT.mechanism, sites, [Q])


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
    message = "a row with an index over passing has none over sorted_rows"
    refused_by_both(declare(units_in_an_array_of_rows), message)


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


def site(frame: str, rows: tuple[int, ...], part: str = "frame") -> Any:
    return replace(ROBOT.site(frame), rows=rows, part=part)


#: Two relative tasks, one of them with the world, and a centre of mass among single frames; in all 13 rows, 18 numbers.
ENDS = (
    site("body13", (5, 0), "near"),
    site("body8", (5, 0), "far"),
    site("body8", (0, 1, 2, 3, 4, 5)),
    site("world", (4, 3), "mass"),
    site("world", (1, 3, 5), "near"),
    site("body2", (1, 3, 5), "far"),
)
OF_ENDS = Rows(ROBOT.mechanism, ENDS)

line = algorithm(q=("q",), seen=("rows",), outputs=("seen",), sparse=("seen",))
rows_and_columns = algorithm(q=("q",), seen=("rows", "v"), outputs=("seen",), sparse=("seen",))


def test_ends_share_their_places() -> None:
    assert OF_ENDS.task_starts == (0, 0, 2, 8, 10, 10)
    assert (OF_ENDS.count, OF_ENDS.task_row_count) == (18, 13)
    assert OF_ENDS.relatives == ((0, 1), (4, 5))
    assert sorted(OF_ENDS.task_rows) == sorted([0, 1, 0, 1, *range(2, 10), 10, 11, 12, 10, 11, 12])


def test_what_moves_both_ends_supports_neither() -> None:
    near, far = (set(TOPOLOGY.support(ENDS[i].node)) for i in (0, 1))
    assert near & far
    assert set(OF_ENDS.support(0)) == near - far
    assert set(OF_ENDS.support(1)) == far - near
    assert OF_ENDS.support(2) == TOPOLOGY.support(ENDS[2].node)
    assert OF_ENDS.support(4) == ()
    assert OF_ENDS.support(5) == TOPOLOGY.support(ENDS[5].node)


def test_places_sum_up_what_their_rows_add() -> None:
    """All pairs of rows, also where both ends of a task are next to each other in a vector of rows."""

    @declare
    def sums(tree: Any, q: Any, seen: Any) -> None:
        weight = tree.array("sorted_rows")
        for frame, _ in tree.frames():
            for i, row in enumerate(frame.rows()):
                weight[row] = 1.0 + i
        for one in tree.sorted_rows():
            for other in tree.sorted_rows():
                seen[one, other] = seen[one, other] + weight[one] * weight[other]

    W = np.zeros(OF_ENDS.task_row_count)
    for i, each in enumerate(ENDS):
        W[OF_ENDS.task_starts[i] : OF_ENDS.task_starts[i] + len(each.rows)] += 1.0 + np.arange(len(each.rows))
    assert np.array_equal(on_both_engines(sums, ENDS), np.outer(W, W))


def test_rows_in_the_order_asked_for() -> None:
    @line
    def asked(tree: Any, q: Any, seen: Any) -> None:
        total, of_nodes = tree.array("rows"), tree.array("node", "rows")
        for row in tree.task_rows():
            total[row] = 0.0
            of_nodes[tree.world, row] = 1.0
        for frame, _ in tree.frames():
            for i, row in enumerate(frame.rows()):
                total[row] = total[row] + (1.0 + i)
        for k, parent in tree.scatter():
            for row in tree.task_rows():
                of_nodes[k, row] = of_nodes[parent, row] + total[row]
                seen[row] = seen[row] + of_nodes[k, row]

    W = np.zeros(OF_ENDS.task_row_count)
    for i, each in enumerate(ENDS):
        W[OF_ENDS.task_starts[i] : OF_ENDS.task_starts[i] + len(each.rows)] += 1.0 + np.arange(len(each.rows))
    nodes = len(TOPOLOGY)
    assert np.array_equal(on_both_engines(asked, ENDS), nodes + sum(TOPOLOGY.depths) * W)
    assert count(asked, ROBOT.mechanism, ENDS).additions == 2 * nodes * OF_ENDS.task_row_count + OF_ENDS.count


@pytest.mark.parametrize(("part", "sites"), [("", range(6)), ("frame", (2,)), ("mass", (3,)), ("far", (1, 5))])
def test_frames_with_a_part(part: str, sites: Any) -> None:
    def marked(tree: Any, q: Any, seen: Any) -> None:
        for frame, _ in tree.frames(part):
            for row in frame.rows():
                seen[row] = seen[row] + 1.0

    marked.__name__ = f"marked_{part}"
    expected = np.zeros(OF_ENDS.task_row_count)
    for i in sites:
        expected[OF_ENDS.task_starts[i] : OF_ENDS.task_starts[i] + len(ENDS[i].rows)] += 1.0
    made = line(marked)
    assert np.array_equal(on_both_engines(made, ENDS), expected)
    assert count(made, ROBOT.mechanism, ENDS).additions == expected.sum()


def test_ends_come_with_their_carriers() -> None:
    @line
    def depths(tree: Any, q: Any, seen: Any) -> None:
        tree.world.depth = np.zeros(1)
        for k, parent in tree.scatter():
            k.depth = parent.depth + 1.0
        for near, near_carrier, far, far_carrier in tree.relatives():
            for row in near.rows():
                seen[row] = 100.0 * near_carrier.depth[0] + far_carrier.depth[0] + near.X.r[0]
            for row in far.rows():
                seen[row] = seen[row] + far.X.r[1]

    expected = np.zeros(OF_ENDS.task_row_count)
    for near, far in OF_ENDS.relatives:
        a, b = ENDS[near], ENDS[far]
        deep = [0 if s.node == WORLD else TOPOLOGY.depths[s.node] for s in (a, b)]
        own = slice(OF_ENDS.task_starts[near], OF_ENDS.task_starts[near] + len(a.rows))
        expected[own] = (100.0 * deep[0] + deep[1] + a.placement[9]) + b.placement[10]
    np.testing.assert_allclose(on_both_engines(depths, ENDS), expected, rtol=1e-15)


def test_paths_of_ends_go_through_what_moves_both() -> None:
    @rows_and_columns
    def paths(tree: Any, q: Any, seen: Any) -> None:
        for frame, _ in tree.frames():
            for c in tree.path(frame):
                for row in frame.rows():
                    seen[row, c] = seen[row, c] + 1.0

    starts, expected = ROBOT.mechanism.v_starts, np.zeros((OF_ENDS.task_row_count, ROBOT.nv))
    for first, one in zip(OF_ENDS.task_starts, ENDS, strict=True):
        for k in TOPOLOGY.support(one.node) if one.node != WORLD else ():
            expected[first : first + len(one.rows), starts[k] : starts[k + 1]] += 1.0
    assert expected.max() == 2.0
    assert np.array_equal(on_both_engines(paths, ENDS), expected)
    assert count(paths, ROBOT.mechanism, ENDS).additions == expected.sum()


def test_support_of_ends() -> None:
    @rows_and_columns
    def marks(tree: Any, q: Any, seen: Any) -> None:
        for near, _, far, _ in tree.relatives():
            for end, mark in ((near, -1.0), (far, 1.0)):
                for c in tree.support(end):
                    for row in end.rows():
                        seen[row, c] = seen[row, c] + mark

    starts = ROBOT.mechanism.v_starts
    expected = np.zeros((OF_ENDS.task_row_count, ROBOT.nv))
    for near, far in OF_ENDS.relatives:
        for end, mark in ((near, -1.0), (far, 1.0)):
            for k in TOPOLOGY.support(ENDS[end].node):
                own = slice(OF_ENDS.task_starts[end], OF_ENDS.task_starts[end] + len(ENDS[end].rows))
                expected[own, starts[k] : starts[k + 1]] += mark
    assert np.array_equal(on_both_engines(marks, ENDS), expected)
    assert count(marks, ROBOT.mechanism, ENDS).additions == np.count_nonzero(expected)


def numbered(tree: Any, q: Any, seen: Any) -> None:
    numbers = tree.array("sorted_rows")
    for row in tree.task_rows():
        numbers[row] = 1.0


def started(tree: Any, q: Any, seen: Any) -> None:
    for row in tree.task_rows():
        for _ in tree.sorted_rows(row):
            seen[row] = 1.0


@pytest.mark.parametrize(
    ("run", "message"),
    [(numbered, "a row with an index over rows has none over sorted_rows"), (started, "can start only at a row that")],
)
def test_places_are_no_numbers_of_rows(run: Any, message: str) -> None:
    refused_by_both(line(run), message, ENDS)
