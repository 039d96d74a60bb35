"""Groups of nodes level by level: the rules of groups, in each part of a tree by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kinetree.engines import subtrees
from kinetree.engines.groups import LANES
from kinetree.engines.levels import groups_by_level, parts_of
from kinetree.engines.rounds import Parents, rounds_of
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.value import Array
from tests.unit.test_groups import random_topology
from tests.unit.test_subtrees import ends_of


def tree_of(seed: int) -> tuple[Topology, Array, Array]:
    """A random tree in parts, and the variants of its nodes."""
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, int(rng.integers(1, 200)), rng.uniform(0, 1), rng.uniform(0, 0.5))
    turns = subtrees.in_turns(subtrees.ranges(ends_of(topology), 8))
    variants = rng.integers(0, int(rng.integers(1, 4)), len(topology))
    return topology, variants, parts_of(np.array(topology.parents), turns)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges may have few nodes."""
    monkeypatch.setattr(subtrees, "_FEWEST", 2)


@pytest.mark.parametrize("seed", range(40))
def test_parts(seed: int) -> None:
    topology, _, parts = tree_of(seed)
    for node, parent in enumerate(topology.parents):
        assert parent == WORLD or parts[parent] in (0, parts[node])
    for children in topology.children:
        assert all(parts[before] <= parts[after] for before, after in pairwise(children))


@pytest.mark.parametrize("seed", range(40))
def test_rules(seed: int) -> None:
    topology, variants, parts = tree_of(seed)
    groups, of_group = groups_by_level(np.array(topology.parents), variants, parts)
    assert sorted({node for group in groups.tolist() for node in group}) == list(range(len(topology)))
    assert sum(len(set(group)) for group in groups.tolist()) == len(topology)
    assert np.all(np.diff(of_group) >= 0)
    assert np.all(parts[groups] == of_group[:, None])
    assert np.all(variants[groups] == variants[groups[:, :1]])
    place = {node: number for number, group in enumerate(groups.tolist()) for node in group}
    assert all(parent == WORLD or place[parent] < place[node] for node, parent in enumerate(topology.parents))
    for children in topology.children:
        assert all(place[before] <= place[after] for before, after in pairwise(children))


def test_lanes_of_a_binary_tree_are_full_and_those_of_the_parents() -> None:
    parents = np.array([WORLD, *((node - 1) // 2 for node in range(1, 1023))])  # by level: any order will do
    nothing = np.zeros(len(parents), dtype=np.int64)
    groups, _ = groups_by_level(parents, nothing, nothing)
    assert len(groups) == 1 + 1 + 1020 // LANES
    found = rounds_of(groups, parents, np.zeros(len(groups), dtype=bool))
    assert np.count_nonzero(found.arrangement == Parents.SCATTERED) <= 2


@pytest.mark.parametrize("seed", range(40))
def test_rounds(seed: int) -> None:
    """Each child adds once to every lane of its parent, the last child first, one of a parent's in each round."""
    topology, variants, parts = tree_of(seed)
    parents = np.array(topology.parents)
    groups, of_group = groups_by_level(parents, variants, parts)
    starts = np.append(True, np.diff(of_group) > 0)
    found = rounds_of(groups, parents, starts)
    every = [*groups.tolist(), [WORLD] * LANES]
    for number, group in enumerate(groups.tolist()):
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
            assert not starts[number]
            assert np.count_nonzero(found.added == number - 1) == 1
