"""Loops over the ends of relative tasks, over parts of tasks and over rows in the order asked for, on every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.count import count
from kinetree.compiler.trace import trace
from kinetree.errors import ContractError
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.mechanism import WORLD
from kinetree.language.rows import Rows
from kinetree.language.setup import Variants
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind

ROBOT = kt.zoo.random_tree(16, kinds=("revolute", "spherical"), seed=5)
Q = ROBOT.neutral()
TOPOLOGY = ROBOT.mechanism.topology


def site(frame: str, rows: tuple[int, ...], part: str = "frame") -> Any:
    return replace(ROBOT.site(frame), rows=rows, part=part)


#: Two relative tasks, one of them with the world, and a centre of mass among single frames; in all 13 rows, 18 numbers.
SITES = (
    site("body13", (5, 0), "near"),
    site("body8", (5, 0), "far"),
    site("body8", (0, 1, 2, 3, 4, 5)),
    site("world", (4, 3), "mass"),
    site("world", (1, 3, 5), "near"),
    site("body2", (1, 3, 5), "far"),
)
ROWS = Rows(ROBOT.mechanism, SITES)

square = algorithm(q=("q",), seen=("rows", "rows"), outputs=("seen",), sparse=("seen",))
line = algorithm(q=("q",), seen=("rows",), outputs=("seen",), sparse=("seen",))
columns = algorithm(q=("q",), seen=("rows", "v"), outputs=("seen",), sparse=("seen",))


def on_both_engines(one: Algorithm) -> Any:
    """What an algorithm leaves on the reference engine, which the native one must leave too, alone and in batches."""
    (expected,) = reference.run(one, ROBOT.mechanism, SITES, [Q])
    native = bind(one, ROBOT.mechanism, SITES, one.name)
    assert np.array_equal(native(Q), expected)
    assert np.array_equal(native(np.stack([Q] * 9)), np.stack([expected] * 9))
    return expected


def test_ends_share_their_places() -> None:
    assert ROWS.task_starts == (0, 0, 2, 8, 10, 10)
    assert (ROWS.count, ROWS.task_row_count) == (18, 13)
    assert ROWS.relatives == ((0, 1), (4, 5))
    assert sorted(ROWS.task_rows) == sorted([0, 1, 0, 1, *range(2, 10), 10, 11, 12, 10, 11, 12])


def test_what_moves_both_ends_supports_neither() -> None:
    near, far = (set(TOPOLOGY.support(SITES[i].node)) for i in (0, 1))
    assert near & far
    assert set(ROWS.support(0)) == near - far
    assert set(ROWS.support(1)) == far - near
    assert ROWS.support(2) == TOPOLOGY.support(SITES[2].node)
    assert ROWS.support(4) == ()
    assert ROWS.support(5) == TOPOLOGY.support(SITES[5].node)


def test_places_sum_up_what_their_rows_add() -> None:
    """All pairs of rows, also where both ends of a task are next to each other in a vector of rows."""

    @square
    def sums(tree: Any, q: Any, seen: Any) -> None:
        weight = tree.array("sorted_rows")
        for frame, _ in tree.frames():
            for i, row in enumerate(frame.rows()):
                weight[row] = 1.0 + i
        for one in tree.sorted_rows():
            for other in tree.sorted_rows():
                seen[one, other] = seen[one, other] + weight[one] * weight[other]

    W = np.zeros(ROWS.task_row_count)
    for i, each in enumerate(SITES):
        W[ROWS.task_starts[i] : ROWS.task_starts[i] + len(each.rows)] += 1.0 + np.arange(len(each.rows))
    assert np.array_equal(on_both_engines(sums), np.outer(W, W))


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

    W = np.zeros(ROWS.task_row_count)
    for i, each in enumerate(SITES):
        W[ROWS.task_starts[i] : ROWS.task_starts[i] + len(each.rows)] += 1.0 + np.arange(len(each.rows))
    nodes = len(TOPOLOGY)
    assert np.array_equal(on_both_engines(asked), nodes + sum(TOPOLOGY.depths) * W)
    assert count(asked, ROBOT.mechanism, SITES).additions == 2 * nodes * ROWS.task_row_count + ROWS.count


@pytest.mark.parametrize(("part", "sites"), [("", range(6)), ("frame", (2,)), ("mass", (3,)), ("far", (1, 5))])
def test_frames_with_a_part(part: str, sites: Any) -> None:
    def marked(tree: Any, q: Any, seen: Any) -> None:
        for frame, _ in tree.frames(part):
            for row in frame.rows():
                seen[row] = seen[row] + 1.0

    marked.__name__ = f"marked_{part}"
    expected = np.zeros(ROWS.task_row_count)
    for i in sites:
        expected[ROWS.task_starts[i] : ROWS.task_starts[i] + len(SITES[i].rows)] += 1.0
    made = line(marked)
    assert np.array_equal(on_both_engines(made), expected)
    assert count(made, ROBOT.mechanism, SITES).additions == expected.sum()


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

    expected = np.zeros(ROWS.task_row_count)
    for near, far in ROWS.relatives:
        a, b = SITES[near], SITES[far]
        deep = [0 if s.node == WORLD else TOPOLOGY.depths[s.node] for s in (a, b)]
        own = slice(ROWS.task_starts[near], ROWS.task_starts[near] + len(a.rows))
        expected[own] = (100.0 * deep[0] + deep[1] + a.placement[9]) + b.placement[10]
    np.testing.assert_allclose(on_both_engines(depths), expected, rtol=1e-15)


def test_paths_of_ends_go_through_what_moves_both() -> None:
    @columns
    def paths(tree: Any, q: Any, seen: Any) -> None:
        for frame, _ in tree.frames():
            for c in tree.path(frame):
                for row in frame.rows():
                    seen[row, c] = seen[row, c] + 1.0

    starts, expected = ROBOT.mechanism.v_starts, np.zeros((ROWS.task_row_count, ROBOT.nv))
    for first, one in zip(ROWS.task_starts, SITES, strict=True):
        for k in TOPOLOGY.support(one.node) if one.node != WORLD else ():
            expected[first : first + len(one.rows), starts[k] : starts[k + 1]] += 1.0
    assert expected.max() == 2.0
    assert np.array_equal(on_both_engines(paths), expected)
    assert count(paths, ROBOT.mechanism, SITES).additions == expected.sum()


def test_support_of_ends() -> None:
    @columns
    def marks(tree: Any, q: Any, seen: Any) -> None:
        for near, _, far, _ in tree.relatives():
            for end, mark in ((near, -1.0), (far, 1.0)):
                for c in tree.support(end):
                    for row in end.rows():
                        seen[row, c] = seen[row, c] + mark

    starts = ROBOT.mechanism.v_starts
    expected = np.zeros((ROWS.task_row_count, ROBOT.nv))
    for near, far in ROWS.relatives:
        for end, mark in ((near, -1.0), (far, 1.0)):
            for k in TOPOLOGY.support(SITES[end].node):
                own = slice(ROWS.task_starts[end], ROWS.task_starts[end] + len(SITES[end].rows))
                expected[own, starts[k] : starts[k + 1]] += mark
    assert np.array_equal(on_both_engines(marks), expected)
    assert count(marks, ROBOT.mechanism, SITES).additions == np.count_nonzero(expected)


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
    with pytest.raises(ContractError, match=message):
        trace(line(run), Variants.of(ROBOT.mechanism, SITES))
    with pytest.raises(ContractError, match=message):
        reference.run(line(run), ROBOT.mechanism, SITES, [Q])
