"""Sweeps out and back, subtree by subtree: every node in its turn, the same order on the way back, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.inverse_dynamics import inverse_dynamics
from kinetree.engines import groups, subtrees
from kinetree.engines.lane_tables import LaneTables
from kinetree.engines.llvm import target
from kinetree.engines.pipeline import lowered, variants_of
from kinetree.engines.subtrees import OutAndBack, in_turns, ranges, tables
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.motion import Motion
from tests.unit.test_groups import random_topology


def ends_of(topology: Topology) -> list[int]:
    return [topology.subtree_end(node) for node in range(len(topology))]


def turns_of(recursion: Algorithm, robot: kt.Model, frames: tuple[str, ...] = ()) -> OutAndBack | None:
    sites = [robot.site(frame) for frame in frames]
    return lowered(recursion, variants_of(recursion, robot.mechanism, sites)).turns


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few nodes fit the cache."""
    monkeypatch.setattr(subtrees, "_TOGETHER", 0)
    monkeypatch.setattr(subtrees, "_FEWEST", 2)


@pytest.mark.parametrize("most", [(0,), (30, 0)])
@pytest.mark.parametrize("seed", range(40))
def test_every_node_in_its_turn(seed: int, most: tuple[int, ...], small: None) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, int(rng.integers(1, 200)), rng.uniform(0, 1), rng.uniform(0, 0.5))
    out: list[int] = []
    back: list[int] = []
    for first, end, start, stop in ranges(ends_of(topology), *most).tolist():
        out += range(first, end)
        # what comes back has been out, with all that it carries
        assert set(range(start, topology.subtree_end(stop - 1) if stop else 0)) <= set(out)
        back += reversed(range(start, stop))
    assert back == list(reversed(range(len(topology))))
    assert sorted(out) == list(range(len(topology)))
    place = {node: i for i, node in enumerate(out)}
    assert all(parent == WORLD or place[parent] < place[node] for node, parent in enumerate(topology.parents))


@pytest.mark.parametrize("seed", range(10))
def test_batches_finish_a_range_of_single_samples_before_the_next(seed: int, small: None) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng, 200, rng.uniform(0, 1), rng.uniform(0, 0.5))
    single, batch = (ranges(ends_of(topology), *most) for most in ((30,), (30, 0)))
    waiting = in_turns(single)
    for out, end, back, stop in batch.tolist():
        for first, last in ((out, end), (back, stop)):
            inside = [turn for turn in waiting if turn[0] <= first < last <= turn[1]]
            assert inside in ([], waiting[:1])
        if waiting and back == waiting[0][0] < stop:
            waiting.pop(0)
    assert waiting == []


def test_robots_of_ordinary_size_are_one_range() -> None:
    for table in tables(ends_of(kt.zoo.humanoid24().mechanism.topology), 39):
        assert table.tolist() == [[0, 24, 0, 24]]


def test_subtrees_that_fit_the_cache_are_swept_together() -> None:
    parents = [WORLD, *((node - 1) // 2 for node in range(1, 4095))]
    order, number = list[int](), dict[int, int]()
    pending = [0]
    while pending:
        node = pending.pop()
        number[node] = len(order)
        order.append(node)
        pending += [child for child in (2 * node + 2, 2 * node + 1) if child < 4095]
    topology = Topology(tuple(WORLD if node == 0 else number[parents[node]] for node in order))
    for found, size, number in zip(tables(ends_of(topology), 39), (2047, 255), (8, 64)):
        together = found[:, 1] - found[:, 0] == found[:, 3] - found[:, 2]
        assert (found[:, 1] - found[:, 0])[together].tolist() == [size] * (4096 // (size + 1))
        assert size * 39 * number < 640_000


def test_a_long_chain_is_swept_at_once() -> None:
    assert ranges([1000] * 1000, 160).tolist() == [[0, 840, 0, 0], [840, 1000, 840, 1000], [0, 0, 0, 840]]


@pytest.mark.parametrize("recursion", [forward_dynamics, inverse_dynamics])
def test_dynamics_sweep_out_and_back(recursion: Algorithm) -> None:
    assert turns_of(recursion, kt.zoo.humanoid24()) is not None


def test_a_loop_over_frames_comes_in_between() -> None:
    robot = kt.zoo.humanoid24()
    assert turns_of(forward_dynamics, robot, (robot.bodies[-1].name,)) is None


@algorithm(q=("q",), x=("v",), outputs=("x",))
def handed_back(tree: Any, q: Any, x: Any) -> None:
    """The way back adds to what the way out reads from parents."""
    tree.world.V = Motion.zero()
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.V = k.X @ parent.V + k.H @ q[k]
    for k, parent in tree.gather():
        x[k] = k.H.T @ (k.M @ k.V)
        parent.V += k.V


@algorithm(q=("q",), x=("v",), outputs=("x",))
def world_in_between(tree: Any, q: Any, x: Any) -> None:
    """Between the sweeps, the world changes what the way out reads from it."""
    tree.world.V = Motion.zero()
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.V = k.X @ parent.V + k.H @ q[k]
    tree.world.V = Motion(np.ones(6))
    for k, parent in tree.gather():
        x[k] = k.H.T @ (k.M @ (k.V + k.X @ parent.V))


@pytest.mark.parametrize("recursion", [handed_back, world_in_between])
def test_sweeps_that_depend_on_each_other_do_not_take_turns(recursion: Algorithm) -> None:
    assert turns_of(recursion, kt.zoo.chain(3)) is None


def bits_of(name: str, dtype: str) -> list[bytes]:
    """Results of a batch, and of its samples, on a new robot with its own tables."""
    robot = kt.zoo.random_tree(60, ("revolute", "prismatic"), seed=3).astype(dtype)
    function, rng = getattr(robot, name), np.random.default_rng(0)
    q = robot.random_configuration(rng, (9,))
    v, x = (rng.standard_normal((9, robot.nv)).astype(dtype) for _ in range(2))
    return [found.tobytes() for found in (function(q, v, x), *(function(*sample) for sample in zip(q, v, x)))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics"])
def test_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_NODES", 0)  # one node at a time
    whole = bits_of(name, dtype)
    monkeypatch.setattr(subtrees, "_TOGETHER", 0)
    monkeypatch.setattr(subtrees, "_FEWEST", 2)
    assert bits_of(name, dtype) == whole
    made: list[LaneTables] = []
    create = LaneTables.__init__
    monkeypatch.setattr(LaneTables, "__init__", lambda self, *given: made.append(self) or create(self, *given))
    for which, value in (("WORTH", 9.0), ("_WIDE", 0)):
        monkeypatch.setattr(groups, which, value)
    assert bits_of(name, dtype) == whole
    assert not made or made[0].in_turns
    assert bool(made) == (target.current().width >= groups.LANES)
