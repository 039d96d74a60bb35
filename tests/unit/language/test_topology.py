"""Topologies: relations of nodes, supports, and the order in which nodes must be numbered."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree.language.mechanism import WORLD, Topology
from tests.unit.compiler.test_node_schedule import random_topology


@pytest.mark.parametrize("seed", range(20))
def test_nodes_that_support_others_are_theirs_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, int(rng.integers(1, 60)), rng.uniform(0, 1), rng.uniform(0, 0.5))
    nodes = rng.integers(WORLD, len(topology), int(rng.integers(0, 6))).tolist()
    assert topology.supporting(nodes) == sorted({k for node in nodes for k in topology.support(node)})


def test_supports_of_all_nodes_of_a_long_chain_are_found_at_once() -> None:
    topology = random_topology(np.random.default_rng(0), 100_000, 0.0, 0.0)
    assert topology.supporting(range(100_000)) == list(range(100_000))


def test_relations_of_a_forest() -> None:
    tree = Topology((-1, 0, 1, 0, 3, -1, 5))
    assert tree.children == ((1, 3), (2,), (), (4,), (), (6,), (), (0, 5))
    assert [tuple(tree.subtree(node)) for node in (0, 1, 3, 5)] == [(0, 1, 2, 3, 4), (1, 2), (3, 4), (5, 6)]
    assert tree.subtree(-1) == range(7)
    assert tree.support(4) == (0, 3, 4)
    assert tree.depths == (1, 2, 3, 2, 3, 1, 2)
    assert tree.nearest_common_ancestor(2, 4) == 0
    assert tree.nearest_common_ancestor(3, 4) == 3
    assert tree.nearest_common_ancestor(2, 6) == -1
    assert tree.segments == ((0,), (1, 2), (3, 4), (5, 6))


@pytest.mark.parametrize("parents", [(-1, 0, 0, 1), (-1, -1, 0), (-1, 0, -1, 0), (-1, 0, 1, 0, 1)])
def test_trees_must_be_numbered_depth_first(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="depth first"):
        Topology(parents)


@pytest.mark.parametrize("parents", [(0,), (1, -1), (-2,), (-1, 5)])
def test_parents_come_first(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="numbered after their parents"):
        Topology(parents)
