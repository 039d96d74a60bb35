"""Loops are data: one that is stated outside of the library runs on every engine, and engines know none by name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import interpreter
from kinetree.compiler.count import count
from kinetree.errors import ContractError
from kinetree.language.algorithm import Algorithm, Argument, algorithm
from kinetree.language.loops import COLUMN, LOOPS, NODE, Chain, NodeEntity, Range, Runs, Table
from kinetree.language.mechanism import WORLD
from kinetree.language.setup import DIMENSIONS, Setup
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind

ROBOT = kt.zoo.random_tree(14, kinds=("revolute", "spherical"), seed=3)
MECHANISM, TOPOLOGY = ROBOT.mechanism, ROBOT.mechanism.topology
NV, STARTS = ROBOT.nv, ROBOT.mechanism.v_starts
declare = algorithm(q=("q",), seen=("v", "v"), outputs=("seen",), sparse=("seen",))


def own(k: int) -> range:
    """The columns of a node."""
    return range(STARTS[k], STARTS[k + 1])


def tips(setup: Setup) -> list[tuple[int, int]]:
    """Nodes that carry no others, each with the first node on the way to it."""
    support = setup.topology.support
    return [(k, support(k)[0]) for k in setup.nodes if not setup.topology.children[k]]


def younger(setup: Setup, k: int) -> range:
    """The columns of all that hangs on the parent of k and is numbered after k and its subtree."""
    end = setup.topology.subtree_end
    starts = setup.mechanism.v_starts
    return range(starts[end(k)], starts[end(setup.mechanism.parents[k])])


YOUNGER: Range[Any] = Range(
    COLUMN, NODE, lambda setup, k: younger(setup, k).start, lambda setup, k: younger(setup, k).stop, name="younger"
)
EVERY_OTHER: Runs[Any] = Runs(
    COLUMN,
    NODE,
    lambda setup, k: [range(c, c + 1) for c in range(setup.mechanism.v_starts[k], setup.mechanism.nv, 2)],
    name="every_other",
)
DOWN: Chain[Any] = Chain(
    COLUMN, NODE, lambda setup, k: setup.mechanism.v_starts[k], lambda setup: range(-1, setup.mechanism.nv - 1), "down"
)
TIPS: Table[Any] = Table(NodeEntity("tip", "set", by="kind"), NodeEntity("root"), rows=tips, name="tips")


def marking(loop: Any) -> Algorithm:
    """Adds one where a loop over a node visits a column."""

    def run(tree: Any, q: Any, seen: Any) -> None:
        for k, _ in tree.gather():
            for c in loop(tree, k):
                for mine in k.columns():
                    seen[mine, c] = seen[mine, c] + 1.0

    run.__name__ = f"mark_{loop.name}"
    return declare(run)


def on_every_engine(one: Algorithm, additions: int) -> Any:
    """What an algorithm leaves on the reference engine; the native one must leave the same."""
    q = ROBOT.neutral()
    (expected,) = reference.run(one, MECHANISM, (), [q])
    native = bind(one, MECHANISM, (), one.name)
    assert np.array_equal(native(q), expected)
    assert np.array_equal(native(np.stack([q] * 9)), np.stack([expected] * 9))
    assert count(one, MECHANISM).additions == additions
    return expected


@pytest.mark.parametrize(
    ("loop", "visited"),
    [
        (YOUNGER, lambda k: younger(Setup(MECHANISM), k)),
        (EVERY_OTHER, lambda k: range(STARTS[k], NV, 2)),
        (DOWN, lambda k: range(STARTS[k] + 1)),
    ],
    ids=["range", "runs", "chain"],
)
def test_a_loop_over_indices_from_outside(loop: Any, visited: Any) -> None:
    expected = np.zeros((NV, NV))
    for k in range(len(TOPOLOGY)):
        expected[np.ix_(own(k), visited(k))] += 1.0
    assert expected.any()
    assert np.array_equal(on_every_engine(marking(loop), int(expected.sum())), expected)


def test_a_table_from_outside() -> None:
    @declare
    def tips_and_roots(tree: Any, q: Any, seen: Any) -> None:
        tree.world.order = np.zeros(1)
        for k, parent in tree.scatter():
            k.order = parent.order + 1.0
        for tip, root in TIPS(tree):
            for c in tip.columns():
                for other in tree.descendants(root):
                    seen[c, other] = tip.order[0] + root.order[0]

    expected = np.zeros((NV, NV))
    for k, root in tips(Setup(MECHANISM)):
        carried = range(STARTS[root + 1], STARTS[TOPOLOGY.subtree_end(root)])
        expected[np.ix_(own(k), carried)] = TOPOLOGY.depths[k] + TOPOLOGY.depths[root]
    carried = sum(parent != WORLD for parent in TOPOLOGY.parents)  # the first nodes add to a known number
    sums = int(carried + np.count_nonzero(expected))
    assert np.array_equal(on_every_engine(tips_and_roots, sums), expected)


def test_what_a_role_may_do_is_part_of_the_loop() -> None:
    @declare
    def writes_roots(tree: Any, q: Any, seen: Any) -> None:
        tree.world.order = np.zeros(1)
        for k, parent in tree.scatter():
            k.order = parent.order
        for _, root in TIPS(tree):
            root.order = np.zeros(1)

    for engine in (
        lambda: reference.run(writes_roots, MECHANISM, (), [ROBOT.neutral()]),
        lambda: count(writes_roots, MECHANISM),
    ):
        with pytest.raises(ContractError, match="`root.order` is written; this loop may only read fields of root"):
            engine()


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="a loop with the name younger already exists"):
        Range(COLUMN, name="younger")


def test_loops_that_start_at_their_beginning_only_say_so() -> None:
    @declare
    def runs(tree: Any, q: Any, seen: Any) -> None:
        for c in tree.columns():
            for _ in tree.scatter(c):
                seen[c, c] = 1.0

    with pytest.raises(ContractError, match="the loop scatter cannot start at an index"):
        reference.run(runs, MECHANISM, (), [ROBOT.neutral()])


def test_columns_above_skip_nodes_without_any() -> None:
    assert MECHANISM.column_above(0) == (-1 if MECHANISM.parents[0] == WORLD else NV)
    for k in range(len(TOPOLOGY)):
        carriers = [c for p in TOPOLOGY.support(k)[:-1] for c in own(p)]
        assert MECHANISM.column_above(k) == (carriers[-1] if carriers else -1)


ENGINES = sorted(p for name in ("compiler", "runtime") for p in (Path(kt.__file__).parent / name).rglob("*.py"))


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.name)
def test_engines_know_no_loop_by_name(path: Path) -> None:
    names = set(LOOPS) - set(DIMENSIONS)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    spoken = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tree"
    }
    assert not names.intersection(spoken | called)


@pytest.mark.parametrize(("inputs", "outputs"), [(12, 6), (40, 30)])
def test_no_limit_on_inputs_outputs_and_arrays(inputs: int, outputs: int) -> None:
    """Nor on what fast calls take: the second case is too much for them."""
    arrays = 50

    def many(tree: Any, *arguments: Any) -> None:
        given, results = arguments[:inputs], arguments[inputs:]
        memory = [tree.array("v") for _ in range(arrays)]
        for c in tree.columns():
            for i, array in enumerate(memory):
                array[c] = given[i % inputs][c] * (i + 1.0)
        for k, _ in tree.scatter():
            for c in k.columns():
                for n, result in enumerate(results):
                    result[c] = sum(array[c] * (n + 1.0) for array in memory[n:])

    taken = tuple(Argument(f"x{i}", ("v",)) for i in range(inputs))
    filled = tuple(Argument(f"y{i}", ("v",)) for i in range(outputs))
    one = Algorithm("many", many, taken, filled)
    x = list(np.random.default_rng(0).uniform(-1.0, 1.0, (inputs, NV)))
    expected = reference.run(one, MECHANISM, (), x)
    bound = bind(one, MECHANISM, (), "many")
    batches = [np.stack([array] * 9) for array in x]
    engines = [interpreter.run(one, MECHANISM, (), x), bound(*x), bound(*x), [r[4] for r in bound(*batches)]]
    for results in engines:
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-13, atol=1e-14 * np.abs(right).max())
    assert count(one, MECHANISM).multiplications > arrays
