"""Groups of nodes: equal variants, parents first, siblings in order, few of them; and how they reach their parents."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.lower.node_schedule import LANES, Group, Parents, grouped, rounds_of
from kinetree.language.mechanism import WORLD, Topology
from kinetree.language.setup import port_of


def groups_of(robot: kt.Model) -> list[Group]:
    mechanism, numbers = robot.mechanism, dict[tuple[str, str], int]()
    keys = [(kind.name, port_of(mechanism, parent)) for kind, parent in zip(mechanism.kinds, mechanism.parents)]
    return grouped(mechanism.topology, tuple(numbers.setdefault(key, len(numbers)) for key in keys))


def random_topology(rng: np.random.Generator, count: int, branching: float, roots: float) -> Topology:
    parents, path = list[int](), list[int]()
    for node in range(count):
        if path and rng.random() < branching:
            path = path[: int(rng.integers(0 if rng.random() < roots else 1, len(path) + 1))]
        parents.append(path[-1] if path else WORLD)
        path.append(node)
    return Topology(tuple(parents))


@pytest.mark.parametrize("seed", range(60))
def test_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, int(rng.integers(1, 60)), rng.uniform(0, 1), rng.uniform(0, 0.5))
    variants = tuple(rng.integers(0, int(rng.integers(1, 5)), len(topology)).tolist())
    groups = grouped(topology, variants)
    place = {node: number for number, group in enumerate(groups) for node in group}
    assert sorted(node for group in groups for node in set(group)) == list(range(len(topology)))
    for group in groups:
        assert len(group) == LANES
        assert len({variants[node] for node in group}) == 1
    for children in topology.children:
        for before, after in pairwise(children):
            assert place[before] <= place[after]
    for node, parent in enumerate(topology.parents):
        assert parent == WORLD or place[parent] < place[node]


@pytest.mark.parametrize(
    ("parents", "variants", "groups"),
    [
        pytest.param((), (), [], id="no nodes"),
        pytest.param((WORLD,), (3,), [(0, 0, 0, 0)], id="one node is in every lane"),
        pytest.param((WORLD, 0, 1), (0,) * 3, [(0,) * 4, (1,) * 4, (2,) * 4], id="a chain"),
        pytest.param((WORLD,) * 4, (0,) * 4, [(0, 1, 2, 3)], id="roots form a group"),
        pytest.param(
            (WORLD, 0, 1, 0, 3, 0, 5, 0, 7), (0, *(1,) * 8), [(0,) * 4, (1, 3, 5, 7), (2, 4, 6, 8)],
            id="children take the lanes of their parents",
        ),
        pytest.param(  # two chains; the second forks, and both of its children find it in their own lane
            (WORLD, 0, 1, 0, 3, 3), (0,) * 6, [(0,) * 4, (1, 3, 3, 1), (2, 4, 5, 2)],
            id="a node with several children takes the lanes left over",
        ),
        pytest.param((WORLD,) * 3, (0, 1, 0), [(0,) * 4, (1,) * 4, (2,) * 4], id="siblings are not overtaken"),
        pytest.param((WORLD,) * 3, (0, 0, 1), [(0, 1, 0, 1), (2,) * 4], id="equal siblings are together"),
    ],
)  # fmt: skip
def test_small_trees(parents: tuple[int, ...], variants: tuple[int, ...], groups: list[Group]) -> None:
    assert grouped(Topology(parents), variants) == groups


def test_high_nodes_come_first() -> None:
    assert len(grouped(Topology((WORLD,) * 5), (0,) * 5)) == 2
    # the last of six roots carries a chain, but it may not overtake the others
    deep_last = Topology((WORLD, WORLD, WORLD, WORLD, WORLD, WORLD, 5, 6, 7))
    assert len(grouped(deep_last, (0,) * 9)) == 5
    # a short chain does not delay a long one
    assert len(grouped(Topology((WORLD, 0, 1, 0, 3, 4, 5)), (0,) * 7)) == 5


def limbs(*chains: tuple[int, int]) -> Topology:
    """A base, and chains of some length, each on a node that is there already."""
    parents = [WORLD]
    for root, length in chains:
        parents += [root, *range(len(parents), len(parents) + length - 1)]
    return Topology(tuple(parents))


@pytest.mark.parametrize(
    ("topology", "groups"),
    [
        (limbs((0, 3), (0, 3), (0, 3), (0, 3)), 4),  # ANYmal, solo12
        (limbs((0, 2), (2, 2), (2, 8), (2, 8), (0, 6), (0, 6)), 11),  # Talos
        (limbs((0, 6), (0, 6), (0, 3), (15, 7), (15, 7)), 11),  # G1
        (limbs(*[(0, 3)] * 6), 6),  # 18 nodes take five groups
    ],
    ids=["quadruped", "Talos", "G1", "hexapod"],
)
def test_walking_robots(topology: Topology, groups: int) -> None:
    """As many groups as the longest branch has nodes, if there are enough lanes."""
    floating_base = (0, *(1,) * (len(topology) - 1))
    assert len(grouped(topology, floating_base)) == groups


@pytest.mark.parametrize(
    ("robot", "nodes", "groups"),
    [
        (kt.zoo.humanoid24(), 24, 13),
        (kt.zoo.chain(7), 7, 7),
        (kt.zoo.random_tree(40, kinds=("revolute",), seed=3), 40, 12),
        (kt.zoo.random_tree(200, kinds=("revolute", "prismatic"), seed=4), 200, 52),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_how_many(robot: kt.Model, nodes: int, groups: int) -> None:
    assert len(robot.mechanism.parents) == nodes
    assert len(groups_of(robot)) == groups


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
