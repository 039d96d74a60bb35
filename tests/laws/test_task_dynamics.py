"""Λ, J̄ and N out of one kernel: the same as dense matrices give, on every engine and lane width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, SingularTaskError, UnknownNameError
from tests.laws.test_task_identities import SHAPES, TASKS, Scene, scene, transposed
from tests.tolerance import assert_close, bound, condition

#: Rows of frames only, so that one kernel has it all.
FRAMES: dict[str, tuple[Any, ...]] = {
    **{name: tuple(task for task in tasks if isinstance(task, (str, kt.Task))) for name, tasks in TASKS.items()},
    "forest": (kt.Task("link7", "position"), kt.Task("link3", (1, 5)), "link14"),
    "10 km away": (kt.Task("link2", (1, 5)), kt.Task("link7", "position"), "link9"),
    "legged": ("link7", kt.Task("link12", "orientation"), kt.Task("link5", (3, 0))),
    "humanoid24": ("right_hand", "left_hand", kt.Task("left_foot", "position"), kt.Task("waist_yaw_link", (4, 2))),
    "asimo35": ("right_foot", "left_hand", kt.Task("head", (1,)), "left_foot"),
}
QUANTITIES = ("inertia", "dynamically_consistent_inverse", "nullspace")


def frames_of(name: str, shape: tuple[int, ...] = ()) -> Scene:
    return Scene(name, shape, FRAMES[name])


def dense(s: Scene) -> tuple[Any, Any, Any]:
    """Λ as another recursion and another order of pivots give it; J̄ and N from it by their definitions."""
    inertia, J = s.space.inertia, s.space.jacobian
    consistent = s.Minv @ transposed(J) @ inertia
    return inertia, consistent, np.eye(s.robot.nv) - consistent @ J


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FRAMES)
def test_same_as_dense_matrices(name: str, shape: tuple[int, ...]) -> None:
    s = frames_of(name, shape)
    results = s.robot.tasks(s.tasks).dynamics(s.q)
    assert results._fields == QUANTITIES
    for result, expected in zip(results, dense(s), strict=True):
        assert_close(result, expected, s.solving)
    assert np.all(results.inertia == np.swapaxes(results.inertia, -1, -2))
    assert_close(s.robot.tasks(s.tasks).inertia(s.q), s.space.inertia, s.solving)


@pytest.mark.parametrize("name", ["every kind", "humanoid24"])
def test_engines_and_lanes_agree(name: str) -> None:
    s = frames_of(name, (19,))
    for function in (s.robot.tasks(s.tasks).dynamics, s.robot.tasks(s.tasks).inertia):
        whole = function(s.q)
        whole = whole if isinstance(whole, tuple) else (whole,)
        for i in (0, 18):
            one, interpreted = function(s.q[i]), function.engine("reference")(s.q[i])
            for a, b, c in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, interpreted)), whole, strict=True):
                assert np.array_equal(a, c[i])  # the same bits, alone or in a batch
                assert_close(b, a, s.solving)


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_inertia_by_every_method(method: str) -> None:
    s = frames_of("every kind")
    assert_close(s.robot.tasks(s.tasks, method=method).inertia(s.q), s.space.inertia, s.solving)


@pytest.mark.parametrize("name", ["humanoid24", "legged"])
def test_relative_tasks_and_the_center_of_mass(name: str) -> None:
    s = scene(name, (3, 3))
    results = s.robot.tasks(s.tasks).dynamics(s.q)
    homes = tuple(np.empty_like(result) for result in results)
    given = s.robot.tasks(s.tasks).dynamics(s.q, out=homes)
    for home, result, expected in zip(given, results, dense(s), strict=True):
        assert_close(result, expected, s.solving)
        assert np.array_equal(home, result)


def test_results_go_where_they_are_wanted() -> None:
    s = frames_of("humanoid24", (5,))
    function = s.robot.tasks(s.tasks).dynamics
    expected = function(s.q)
    homes = tuple(np.empty((5, *result.shape[1:][::-1])).swapaxes(-1, -2) for result in expected)
    given = function(s.q, out=homes)
    for home, result, wanted in zip(homes, given, expected, strict=True):
        assert result is home
        assert np.array_equal(home, wanted)
    with pytest.raises(InputError, match=r"dynamics: out \(dynamically_consistent_inverse\)"):
        function(s.q, out=(homes[0], homes[0], homes[2]))


def singular_batch() -> tuple[kt.Model, Any, list[Any]]:
    """The third of five samples stretches a leg, the last is not a number."""
    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(0, (5,))
    q[2], q[4] = robot.neutral(), np.nan
    return robot, q, ["left_foot", "left_hand"]


@pytest.mark.parametrize("policy", ["damped", "truncated"])
def test_singular_samples_keep_to_themselves(policy: str) -> None:
    robot, q, tasks = singular_batch()
    space = robot.tasks(tasks, singular=policy).at(q)
    assert space.rank[2] < 12
    solving = bound(robot.nv, condition(robot.mass_matrix(q[:2]))) * np.max(np.linalg.cond(space.inverse_inertia[:2]))
    function = robot.tasks(tasks, singular=policy).dynamics
    results = function(q)
    for result, quantity in zip(results, QUANTITIES, strict=True):
        expected = getattr(space, quantity)
        assert np.array_equal(result[2], expected[2])
        assert np.all(np.isnan(result[4]))
        assert np.all(np.isfinite(result[:4]))
        assert_close(result[:2], expected[:2], solving)
    alone = robot.tasks(tasks, singular=policy).at(q[2])
    for result, quantity in zip(function(q[2]), QUANTITIES, strict=True):
        assert np.array_equal(result, getattr(alone, quantity))
    assert np.array_equal(robot.tasks(tasks, singular=policy).inertia(q)[2], space.inertia[2])


def test_refused_samples_are_named() -> None:
    robot, q, tasks = singular_batch()
    for function in (robot.tasks(tasks, singular="raise").dynamics, robot.tasks(tasks, singular="raise").inertia):
        with pytest.raises(SingularTaskError, match=r"samples \(2,\)") as raised:
            function(q)
        assert raised.value.samples == ((2,),)
        function(q[:2])


def test_compiled_and_counted() -> None:
    s = frames_of("humanoid24")
    for function in (s.robot.tasks(s.tasks).dynamics, s.robot.tasks(s.tasks).inertia):
        function.compile()
        assert (
            function.count().multiplications
            > s.robot.tasks(s.tasks, method="pv_osim").inverse_inertia.count().additions
        )
    with pytest.raises(UnknownNameError, match="engine"):
        s.robot.tasks(s.tasks).inertia.engine("none")
    with pytest.raises(UnknownNameError, match="policy"):
        s.robot.tasks(s.tasks, singular="ignored")
