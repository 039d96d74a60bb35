"""How groups of nodes reach their parents: each child adds once to every lane of its parent, the last child first."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree.compiler.lower.node_schedule import LANES, Parents, grouped, rounds_of
from kinetree.language.mechanism import WORLD
from tests.unit.compiler.test_groups import random_topology


@pytest.mark.parametrize("seed", range(40))
def test_rounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, int(rng.integers(1, 200)), rng.uniform(0, 1), rng.uniform(0, 0.5))
    variants = tuple(rng.integers(0, int(rng.integers(1, 4)), len(topology)).tolist())
    groups = [list(group) for group in grouped(topology, variants)]
    found = rounds_of(np.array(groups), np.array(topology.parents))
    every = [*groups, [WORLD] * LANES]
    for number, group in enumerate(groups):
        above = [topology.parents[node] for node in group]
        assert [every[g][lane] for g, lane in zip(found.groups[number], found.lanes[number])] == above
        added: dict[tuple[int, int], list[int]] = {}
        for turn in range(found.first[number], found.last[number]):
            target = every[found.added[turn]]
            for lane, (source, takes) in enumerate(zip(found.sources[turn], found.taking[turn])):
                if takes:
                    assert topology.parents[group[source]] == target[lane]
                    added.setdefault((found.added[turn], lane), []).append(group[source])
        assert all(children == sorted(set(children))[::-1] for children in added.values())
        expected = set(zip(group, above))
        assert {(child, every[g][lane]) for (g, lane), each in added.items() for child in each} == expected
        for (g, lane), children in added.items():
            assert set(children) == {n for n, p in expected if p == every[g][lane]}
        arrangement = found.arrangement[number]
        in_lane = every[found.groups[number, 0]] == above
        assert (arrangement == Parents.SCATTERED) == (not in_lane)
        once = found.last[number] - found.first[number] == 1
        assert (arrangement == Parents.SHARED) == (in_lane and not once)
        if arrangement == Parents.PASSED:
            assert found.groups[number, 0] == number - 1
            assert np.count_nonzero(found.added == number - 1) == 1
