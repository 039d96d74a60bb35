"""Plans and problems as objects: pickled, copied, shared by threads, compiled, counted, shown."""

from __future__ import annotations

import copy
import importlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import ocp
from kinetree.errors import InputError
from kinetree.runtime.sequence import KernelSequence
from tests.unit.ocp.cases import reach, walker

Array = np.ndarray[Any, np.dtype[Any]]


def half(q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    """A term that can be imported, as pickles need."""
    rows = np.zeros((*q.shape[:-1], 1, 2 * v.shape[-1]))
    rows[..., 0] = 1.0
    return q[..., :1] - 0.5, rows, np.zeros((*q.shape[:-1], 1, u.shape[-1]))


def reaching() -> ocp.Problem:
    """Every kind of term for arms, limits, and time steps that differ."""
    robot = kt.zoo.arm7()
    terms = [
        ocp.pose("hand", last=1e2), ocp.orientation("hand", np.eye(4), weight=0.1, name="turn"), ocp.state(weight=1e-2),
        ocp.position("hand", (0.4, 0.2, 0.9), weight=0.5, name="point"), ocp.velocity("hand", weight=1e-3),
        ocp.center_of_mass(np.ones(3), weight=1e-3), ocp.momentum(weight=1e-4), ocp.control(weight=1e-3),
        ocp.Term(half, 1, weight=0.1, name="half", lower=-0.2, upper=0.2),
    ]  # fmt: skip
    limits = ocp.Limits(torque=30.0, velocity=True, margin=0.1)
    return ocp.Problem(robot, np.linspace(0.01, 0.03, 20), 20, terms, limits=limits)


def stepping() -> tuple[ocp.Problem, Array]:
    """A walker that lifts a foot and puts it down, with cones."""
    robot = walker()
    q = robot.q_from_dict(
        {f"{s}_{p}_joint": a for s in ("left", "right") for p, a in (("thigh", 0.4), ("shank", -0.8))}
    )
    left = np.ones(12, bool)
    left[4:8] = False
    contacts = ocp.Contacts(
        {"left_foot": left, "right_foot": True}, rows={"right_foot": "all"}, friction=0.9, sole=(0.1, 0.05)
    )
    terms = [ocp.state(q), ocp.control(weight=1e-3), ocp.force("right_foot", weight=1e-4)]
    return ocp.Problem(robot, 0.02, 12, terms, contacts=contacts), q


def test_problems_and_plans_are_pickled_and_copied() -> None:
    walk, stand = stepping()
    robot = reaching().robot
    target = robot.pose(np.full(7, 0.5), "hand")
    for problem, q, targets in ((reaching(), robot.neutral(), {"hand": target}), (walk, stand, {})):
        plan = problem.solve(q, targets=targets, iterations=4)
        parts = [plan.q, plan.v, plan.u, plan.tau, plan.gains, *plan.forces.values(), *plan.multipliers.values()]
        later = plan.shifted(2)
        moved = [later.q, later.v, later.u, later.tau, later.gains, *later.forces.values(), *later.multipliers.values()]
        bounds = [x[0] for bound in plan.bounds for x in bound.arrays]
        moved += [x[0] for bound in later.bounds for x in bound.arrays]
        for old, new in zip([*parts, *bounds], moved, strict=True):
            np.testing.assert_array_equal(new, np.concatenate([old[2:], old[-1:], old[-1:]]))
        again = pickle.loads(pickle.dumps(problem)).solve(q, targets=targets, iterations=4)
        np.testing.assert_array_equal(again.u, plan.u)
        for other in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan), copy.copy(plan)):
            away = q + 0.01
            np.testing.assert_array_equal(other.torques(away, plan.v[3], 3), plan.torques(away, plan.v[3], 3))
            warm = [problem.solve(q, targets=targets, start=x.shifted(2), iterations=2).u for x in (plan, other)]
            np.testing.assert_array_equal(*warm)
            assert repr(other) == repr(plan)
            assert other.multipliers.keys() == plan.multipliers.keys() != set()
        mpc, v = ocp.MPC(problem, first=2), np.zeros(problem.robot.nv)
        state = mpc(q, v, targets).state
        other, there = pickle.loads(pickle.dumps((mpc, state)))
        np.testing.assert_array_equal(other(q, v, targets, state=there).tau, mpc(q, v, targets, state=state).tau)


def test_one_of_many_plans_is_as_if_it_were_alone() -> None:
    problem, rng = reaching(), np.random.default_rng(3)
    starts = 0.3 * rng.normal(size=(2, 2, 7))
    targets = {"hand": problem.robot.pose(starts[::-1], "hand")[:, :, None]}
    plans = problem.solve(starts, targets=targets)
    alone = problem.solve(starts[1, 0], targets={"hand": targets["hand"][1, 0]})
    one = plans[1, 0]
    for name in (
        "time",
        "q",
        "v",
        "u",
        "tau",
        "gains",
        "cost",
        "gap",
        "violation",
        "converged",
        "reason",
        "iterations",
    ):
        mine, other = getattr(one, name), getattr(alone, name)
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine, other)
    for name in ("forces", "costs", "violations", "multipliers"):
        mine, other = getattr(one, name), getattr(alone, name)
        assert mine.keys() == other.keys()
        assert all(np.array_equal(mine[key], other[key]) for key in other)
    np.testing.assert_array_equal(one.table[: len(alone.table)], alone.table)
    assert repr(one) == repr(alone)
    again = [
        problem.solve(starts[1, 0], targets={"hand": targets["hand"][1, 0]}, start=plan).u for plan in (one, alone)
    ]
    np.testing.assert_array_equal(*again)
    assert plans[plans.cost > 0.0].q.shape == (4, 21, 7)
    np.testing.assert_array_equal(plans[:, 0].cost, plans.cost[:, 0])
    np.testing.assert_array_equal([plan.cost[1] for plan in plans], plans.cost[:, 1])
    with pytest.raises(InputError, match="this plan is of one problem"):
        alone[0]


def test_threads_share_a_problem() -> None:
    """Which nobody has called before."""
    problem, rng = reaching(), np.random.default_rng(0)
    q, target = 0.3 * rng.normal(size=(6, 7)), problem.robot.pose(np.full(7, 0.5), "hand")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: problem.solve(x, targets={"hand": target}, iterations=6).u, q))
    np.testing.assert_array_equal(found, problem.solve(q, targets={"hand": target}, iterations=6).u)


def test_problems_are_compiled_before_they_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards nothing is recorded any more."""
    problem, made = reach(kt.zoo.arm7(), "hand", 9, limits=ocp.Limits()), []
    finish = KernelSequence.finish

    def noted(run: KernelSequence) -> Any:
        made.append(run._name)
        return finish(run)

    monkeypatch.setattr(KernelSequence, "finish", noted)
    problem.compile()
    assert len(made) > 3
    made.clear()
    for lead in ((), (5,)):
        for rollout in ("auto", "nonlinear"):
            q = np.full((*lead, 7), 0.1)
            problem.solve(q, targets={"hand": np.eye(4)}, iterations=9, rollout=rollout)
    assert made == []


def test_operations_of_sweeps() -> None:
    count = reach(kt.zoo.arm7(), "hand", 30).count()
    dense = ocp.Problem(kt.zoo.arm7(), 0.02, 30, [ocp.control()], method="rk4").count()
    assert count["backward"].multiplications < 0.65 * dense["backward"].multiplications
    assert count["forward"].total < 0.1 * count["backward"].total


def test_plans_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A film takes q, time and forces from a plan; impacts take no time."""
    pytest.importorskip("viser")
    films = importlib.import_module("kinetree.viewer.film")
    walk, q = stepping()
    plan = walk.solve(q, iterations=3)
    seen: dict[str, Any] = {}

    def noted(robot: Any, motion: Array, times: Array, at: Array, before: Array) -> Array:
        del robot, before
        seen.update(q=motion, time=times)
        return motion[: len(at)]

    def pushed(name: str, forces: Array, count: int) -> Array:
        del count
        seen[name] = forces
        raise KeyboardInterrupt

    monkeypatch.setattr(films, "_interpolated", noted)
    monkeypatch.setattr(films, "_along", pushed)
    with pytest.raises(KeyboardInterrupt):
        kt.viewer.film(tmp_path / "walk.html", walk.robot, plan)
    motion = plan.motion()
    np.testing.assert_array_equal(seen["q"], motion.q)
    np.testing.assert_array_equal(seen["time"], motion.time)
    np.testing.assert_array_equal(seen["left_foot"], motion.forces["left_foot"])
    assert len(motion.q) == len(plan.q) - 1
    assert {len(force) for force in motion.forces.values()} == {len(motion.q)}
    finer = plan.resampled(30, 0.01).motion()
    assert len(finer.q) == 31 == len(finer.forces["left_foot"])
    with pytest.raises(InputError, match="a plan brings its own time and forces"):
        kt.viewer.film(tmp_path / "walk.html", walk.robot, plan, plan.time)
    with pytest.raises(InputError, match="several problems"):
        kt.viewer.film(tmp_path / "walk.html", walk.robot, walk.solve(np.tile(q, (2, 1)), iterations=1))


def test_pictures_name_joints_and_hold_the_last_input() -> None:
    pytest.importorskip("matplotlib")
    plan = reach(kt.zoo.arm7(), "hand", 5, actuated=["joint1", "joint4"]).solve(
        np.full(7, 0.3), targets={"hand": np.eye(4)}, iterations=3
    )
    assert plan.u[0, 1] != plan.u[-1, 1]
    q, v, u = plan.plot().axes
    assert [text.get_text() for text in q.get_legend().get_texts()] == [f"joint{i}" for i in range(7)]
    assert v.get_legend() is None
    assert [text.get_text() for text in u.get_legend().get_texts()] == ["joint1", "joint4"]
    np.testing.assert_array_equal(u.lines[1].get_ydata(), [*plan.u[:, 1], plan.u[-1, 1]])
    walk, q0 = stepping()
    assert walk.solve(q0, iterations=1).plot().axes[0].get_legend() is None
