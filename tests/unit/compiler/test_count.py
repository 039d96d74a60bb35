"""Operation counts: golden values of small cases, and the choice of a method that rests on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.algorithms.methods.choice import CANDIDATES, choose, saved_by_accumulation, view_of
from kinetree.compiler.count import PASSES, count, count_passes
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import Site
from kinetree.zoo import asimo35, asimo35_tasks
from tests.trees import mixed, random_mechanism

#: What tasks have by turns.
ROWS = ((0, 1, 2, 3, 4, 5), (3, 4, 5), (1,))

#: Operations for the hand of a chain of three links, and for hands and feet of the humanoid of 35 bodies: in the common
#: frame, and in own coordinates.
GOLDEN = {
    "definition": ((1000, 97959), (550, 101892)),
    "chang_khatib": ((2601, 43334), (2319, 52140)),
    "rjk": ((1860, 36416), (1592, 47070)),
    "efpa": ((1848, 26615), (1305, 24427)),
    "sparse_factorization": ((1084, 25452), (634, 25143)),
    "pv_osim": ((1305, 21563), (816, 18343)),
    "pv_osim_r": ((1398, 21563), (1115, 18343)),
    "efpa_segments": ((1398, 21563), (1115, 18343)),
}


def common(method: str) -> Algorithm:
    """In the common frame, where the candidates are compared."""
    return in_common_frame(inverse_inertia(method, "local"))


def totals(robot: kt.Model, frames: tuple[str, ...], view: Any = common) -> dict[str, int]:
    sites = tuple(robot.site(name) for name in frames)
    return {m: count(view(m), robot.mechanism, sites).total for m in ALGORITHMS}


def own(method: str) -> Algorithm:
    return inverse_inertia(method, "local")


def tree(length: int, limbs: tuple[int, ...], tips: int) -> tuple[kt.Model, tuple[str, ...]]:
    """A stem of so many links, limbs of so many links on it, and on each limb so many tips of one link."""
    builder = kt.Builder("tree")
    body: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.0, 0.0), "inertia": np.eye(3) / 10}
    turned = (np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]), (0.1, 0.0, 0.0))

    def chain(name: str, parent: str, count: int) -> str:
        for i in range(count):
            builder.add_body(f"{name}{i}", parent=parent, placement=turned, **body)
            parent = f"{name}{i}"
        return parent

    stem = chain("stem", "world", length)
    ends = [chain(f"limb{i}_", stem, count) for i, count in enumerate(limbs)]
    frames = tuple(chain(f"{end}_tip{i}_", end, 1) for end in ends for i in range(tips))
    return builder.build(), frames


def chain(length: int, tips: int) -> tuple[kt.Model, tuple[str, ...]]:
    """A stem with tips of two links."""
    return tree(length, (1,) * tips, 1)


@pytest.mark.parametrize("method", ALGORITHMS)
def test_golden_counts(method: str) -> None:
    small, frames = chain(1, 1)
    for view, golden in zip((common, own), GOLDEN[method], strict=True):
        assert totals(small, frames, view)[method] == golden[0]
        assert totals(asimo35(), asimo35_tasks(), view)[method] == golden[1]


@pytest.mark.parametrize("method", ALGORITHMS)
def test_passes_sum_up(method: str) -> None:
    robot, frames = chain(4, 3)
    sites = tuple(robot.site(name) for name in frames)
    algorithm = inverse_inertia(method, "local")
    passes = count_passes(algorithm, robot.mechanism, sites)
    assert tuple(passes) == PASSES
    assert sum(part.total for part in passes.values()) == count(algorithm, robot.mechanism, sites).total


@pytest.mark.parametrize(("length", "tips"), [(2, 2), (2, 6), (12, 2), (12, 6), (40, 4), (40, 16)])
def test_the_choice_has_few_operations(length: int, tips: int) -> None:
    """Where `pv_osim_r` saves little, `pv_osim` is as fast; `sparse_factorization` is slower on shallow trees."""
    robot, frames = chain(length, tips)
    sites = tuple(robot.site(name) for name in frames)
    for view in (own, common):
        counts = totals(robot, frames, view)
        others = [counts[m] for m in ALGORITHMS if m != "sparse_factorization"]
        assert counts[choose(robot.mechanism, sites)] <= 1.15 * min(others)


def agreement(robot: kt.Model, sites: tuple[Site, ...]) -> tuple[float, float]:
    """What accumulation nodes save, by formulas and by counts, as shares of all operations."""
    without, with_nodes = (count(common(m), robot.mechanism, sites).total for m in CANDIDATES)
    return saved_by_accumulation(robot.mechanism, sites) / without, 1.0 - with_nodes / without


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_by_formulas_is_that_by_counts(seed: int) -> None:
    """Random trees of all joint kinds, with tasks of any rows anywhere."""
    robot, rng = random_mechanism("tree", mixed(25, seed), seed, branching=0.2).kinetree(), np.random.default_rng(seed)
    moving = [name for name in robot.frames if robot.site(name).node >= 0]
    for number in (2, 4, 8, 16, 25):
        frames = rng.choice(moving, number)
        sites = tuple(replace(robot.site(str(f)), rows=ROWS[i % len(ROWS)]) for i, f in enumerate(frames))
        formulas, counts = agreement(robot, sites)
        assert abs(formulas - counts) < 0.06
        assert formulas * counts >= 0 or abs(counts) < 0.01


@pytest.mark.parametrize(
    ("method", "length", "limbs", "rows"),
    [("pv_osim", 2, (2, 2), 6), ("pv_osim_r", 40, (2, 2), 6), ("pv_osim_r", 12, (40, 40), 4)],
)
def test_each_candidate_is_chosen_somewhere(method: str, length: int, limbs: tuple[int, ...], rows: int) -> None:
    robot, frames = tree(length, limbs, 2)
    sites = tuple(replace(robot.site(name), rows=tuple(range(rows))) for name in frames)
    assert choose(robot.mechanism, sites) == method


def test_relative_tasks_are_computed_in_the_common_frame() -> None:
    """There, their ends are near each other wherever the robot is."""
    robot, (one, other) = tree(1, (4, 4), 1)
    for tasks, view in (([one, other], "own"), ([kt.RelativeTask(one, other)], "common")):
        assert robot.tasks(tasks).core.recursions._view == view


def test_own_coordinates_take_fewer_operations_on_the_papers_humanoid() -> None:
    robot, frames = asimo35(), asimo35_tasks()
    sites = tuple(robot.site(name) for name in frames)
    assert (choose(robot.mechanism, sites), view_of(sites)) == ("pv_osim", "own")
    here, there = (totals(robot, frames, view) for view in (own, common))
    assert here["pv_osim"] == min(here.values()) < min(there.values())


def test_segments_are_ahead_with_few_rows_only() -> None:
    robot, frames = tree(12, (40, 40), 2)
    ahead = {}
    for rows in (4, 6):
        sites = tuple(replace(robot.site(name), rows=tuple(range(rows))) for name in frames)
        both = [count(common(m), robot.mechanism, sites).total for m in ("efpa_segments", "pv_osim_r")]
        ahead[rows] = both[0] < both[1]
    assert ahead == {4: True, 6: False}


def test_choosing_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for joints that were never seen before, so that it is quick."""

    def refuse(*_: Any) -> None:
        raise AssertionError("an algorithm is traced")

    robot = random_mechanism("new", mixed(60, 7), 7, armature=0.3, branching=0.2).kinetree()
    sites = tuple(robot.site(f"link{i}") for i in range(20, 60))
    monkeypatch.setattr(Algorithm, "__call__", refuse)
    assert choose(robot.mechanism, sites) in CANDIDATES
    with pytest.raises(AssertionError, match="is traced"):
        count(inverse_inertia(CANDIDATES[0], "local"), robot.mechanism, sites)
