"""Supports of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree.language.mechanism import WORLD
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
