"""Operational space with bad input, and at and near singular configurations."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, SingularTaskError, UnknownNameError
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[Any]]


@cache
def arm() -> kt.Model:
    """Two links in a plane, and a wrist: stretched, its tip cannot move along the arm."""
    solid = {"axis": (0, 0, 1), "mass": 1.0, "inertia": np.diag([0.01, 0.02, 0.02])}
    builder = serial(({"placement": (np.eye(3), (x, 0.0, 0.0)), **solid} for x in (0.0, 0.5, 0.5)), "link")
    return builder.add_frame("tip", body="link2", placement=(np.eye(3), (0.2, 0.0, 0.0))).build()


PLANE = kt.Task("tip", (2, 3, 4))
STRETCHED, BENT = np.zeros(3), np.array([0.3, 1.1, -0.4])


def bent(elbow: float) -> Array:
    """The arm with its elbow bent by an angle, the wrist straight."""
    return np.array([0.3, elbow, 0.0])


# Names and shapes


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (["elbow"], "no frame is called 'elbow'"),
        ([], "frames is empty"),
        ("tip", r"write \['tip'\]"),
        (7, "frames must be a sequence"),
        (["tip", 3], "got int"),
        ({"tip"}, "frames is a set, which has no order"),
        (["tip", "tip"], r"rows \[0, 1, 2, 3, 4, 5\] of the task of frame 'tip' are given twice"),
        ([PLANE, kt.Task("tip", (5, 4))], r"rows \[4\]"),
        ([kt.RelativeTask("tip", "link2")], "fixed to the same body"),
        ([kt.RelativeTask("tip", "tip")], "fixed to the same body"),
        ([kt.RelativeTask("tip", "nose")], "no frame is called 'nose'"),
    ],
)
def test_impossible_tasks(frames: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        arm().tasks(frames)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: kt.Task("tip", ()), "no rows"),
        (lambda: kt.Task("tip", "place"), "one of all, orientation, position"),
        (lambda: kt.Task("tip", (6,)), "numbers from 0 to 5"),
        (lambda: kt.Task("tip", (True,)), "numbers from 0 to 5"),
        (lambda: kt.Task("tip", 3), "numbers from 0 to 5"),  # type: ignore[arg-type]
        (lambda: kt.Task("tip", (1, 1)), "duplicate row"),
        (lambda: kt.Task("tip", offset=(1.0, 2.0)), "offset is a point"),  # type: ignore[arg-type]
        (lambda: kt.Task("tip", offset=(np.nan, 0.0, 0.0)), "offset must be finite"),
        (lambda: kt.Task(3), "names of frames"),  # type: ignore[arg-type]
        (lambda: kt.RelativeTask("tip", None), "names of frames"),  # type: ignore[arg-type]
        (lambda: kt.CenterOfMassTask((0,)), "no orientation"),
        (lambda: kt.CenterOfMassTask("orientation"), "no orientation"),
    ],
)
def test_tasks_that_make_no_sense(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "magic"}, "no method is called 'magic'.*auto, "),
        ({"reference": "moon"}, "no reference is called 'moon'"),
        ({"singular": "hope"}, "no policy for singular tasks is called 'hope'"),
        ({"cut": 0.0}, "between 0 and 1"),
        ({"cut": "small"}, "between 0 and 1"),
        ({"contacts": "tip"}, r"contacts must be a sequence.*\['tip'\]"),
        ({"contacts": ["knee"]}, "no frame is called 'knee'"),
        ({"contacts": frozenset({"tip"})}, "contacts is a set, which has no order"),
    ],
)
def test_impossible_choices(options: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=said):
        arm().tasks(["tip"], **options)


@pytest.mark.parametrize("name", ["inverse_inertia", "inertia", "at"])
@pytest.mark.parametrize(
    ("q", "said"),
    [
        (np.zeros(4), r"q has shape \(4,\), expected \(..., 3\)"),
        (1.0, "q has shape"),
        (np.zeros(3) * 1j, "q has dtype complex128, expected real numbers"),
        (np.zeros(3, dtype=bool), "q has dtype bool, expected real numbers"),
        ("here", "expected real numbers"),
        ([[1.0], [1.0, 2.0]], "not an array"),
    ],
)
def test_impossible_configurations(name: str, q: Any, said: str) -> None:
    with pytest.raises(InputError, match=said if name == "at" else f"^{name}: .*{said}"):
        getattr(arm().tasks([PLANE]), name)(q)


def test_impossible_velocities() -> None:
    with pytest.raises(InputError, match=r"v has shape \(4,\), expected \(..., 3\)"):
        arm().tasks(["tip"]).at(BENT, np.zeros(4))


def test_velocities_are_asked_for_when_needed() -> None:
    space = arm().tasks([PLANE]).at(BENT)
    assert space.inertia.shape == (3, 3)
    for quantity in ("bias", "jacobian_dot_v"):
        with pytest.raises(InputError, match="needs joint velocities"):
            getattr(space, quantity)


def test_lists_tuples_and_generators_are_the_same() -> None:
    frames = ["tip", "link0"]
    results = [arm().tasks(f).at(list(BENT)).inverse_inertia for f in (frames, tuple(frames), iter(frames))]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("contacts", [(), ("link0",)])
def test_empty_batches_and_batches_of_velocities(contacts: tuple[str, ...]) -> None:
    for tasks in ([PLANE], [kt.RelativeTask("link0", "tip", (2,)), kt.CenterOfMassTask((3,))]):
        rows = sum(len(task.rows) for task in tasks)
        empty = arm().tasks(tasks, contacts=contacts).at(np.zeros((0, 3)), np.zeros((0, 3)))
        assert empty.inertia.shape == (0, rows, rows)
        assert empty.nullspace.shape == (0, 3, 3)
        assert empty.bias.shape == (0, rows)
        assert empty.rank.shape == (0,)
        many = arm().tasks(tasks, contacts=contacts).at(BENT, np.ones((4, 3)))
        assert many.bias.shape == (4, rows)
        assert many.inertia.shape == (rows, rows)


def test_long_batches_are_samples_side_by_side() -> None:
    q = arm().random_configuration(0, (150,))
    whole, early = (arm().tasks([PLANE]).at(q) for _ in range(2))
    assert early.jacobian.shape == (150, 3, 3)
    np.testing.assert_array_equal(whole.nullspace, early.nullspace)
    one = arm().tasks([PLANE]).at(q[140])
    np.testing.assert_array_equal(whole.dynamically_consistent_inverse[140], one.dynamically_consistent_inverse)
    np.testing.assert_array_equal(whole.nullspace[140], one.nullspace)


def test_results_cannot_be_changed_and_keep_their_state() -> None:
    q = BENT.copy()
    space = arm().tasks([PLANE]).at(q)
    q[:] = 0.0
    np.testing.assert_array_equal(space.inertia, arm().tasks([PLANE]).at(BENT).inertia)
    with pytest.raises(ValueError, match="read-only"):
        space.inertia[0, 0] = 1.0
    assert "3 rows" in repr(space)


# Singular tasks


def test_more_rows_than_degrees_of_freedom() -> None:
    space = arm().tasks(["tip"]).at(BENT)
    assert space.rank == 3
    assert space.condition == np.inf or space.condition > 1e12
    assert np.isfinite(space.inertia).all()
    exact = arm().tasks(["tip"], singular="truncated").at(BENT)
    plane = arm().tasks([PLANE]).at(BENT)
    np.testing.assert_allclose(exact.inertia[2:5, 2:5], plane.inertia, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(exact.nullspace, np.zeros((3, 3)), rtol=0, atol=1e-9)


def test_a_task_that_nothing_moves() -> None:
    for policy in ("damped", "truncated"):
        space = arm().tasks(["world"], singular=policy).at(BENT)
        assert space.rank == 0
        np.testing.assert_array_equal(space.inverse_inertia, np.zeros((6, 6)))
        assert np.isfinite(space.inertia).all()
        np.testing.assert_array_equal(space.nullspace, np.eye(3))


def test_raising_names_samples_and_ranks() -> None:
    q = np.stack([BENT, STRETCHED, BENT, np.array([1.0, 0.0, 0.0])]).reshape(2, 2, 3)
    space = arm().tasks([PLANE], singular="raise").at(q)
    with pytest.raises(SingularTaskError, match=r"\(0, 1\) \(rank 2\), \(1, 1\) \(rank 2\)") as caught:
        _ = space.inertia
    assert caught.value.samples == ((0, 1), (1, 1))
    assert caught.value.ranks == (2, 2)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    np.testing.assert_array_equal(space.rank, [[3, 2], [3, 2]])
    with pytest.raises(SingularTaskError, match="rank 2"):
        _ = arm().tasks([PLANE], singular="raise").at(STRETCHED).inertia
    assert arm().tasks([PLANE], singular="raise").at(BENT).inertia.shape == (3, 3)


@pytest.mark.parametrize("policy", ["damped", "truncated"])
def test_one_bad_sample_spoils_no_other(policy: str) -> None:
    bad = np.array([0.0, np.nan, 0.0])
    q = np.stack([BENT, STRETCHED, bad, BENT + 0.1, np.array([0.0, np.inf, 0.0])])
    space = arm().tasks([PLANE], singular=policy).at(q, np.ones(3))
    np.testing.assert_array_equal(space.rank, [3, 2, -1, 3, -1])
    assert np.isnan(space.condition[[2, 4]]).all()
    for quantity in ("inverse_inertia", "inertia", "dynamically_consistent_inverse", "nullspace", "bias"):
        whole = getattr(space, quantity)
        assert np.isnan(whole[[2, 4]]).any(axis=tuple(range(1, whole.ndim))).all(), quantity
        for i in (0, 1, 3):
            one = arm().tasks([PLANE], singular=policy).at(q[i], np.ones(3))
            np.testing.assert_allclose(whole[i], getattr(one, quantity), rtol=1e-12, atol=1e-12)


def test_not_a_number_spoils_only_what_depends_on_it() -> None:
    """In local axes, the inertia of a task depends on the joints beyond the first one."""
    q = BENT.copy()
    q[0] = np.nan
    for quantity in ("inverse_inertia", "inertia"):
        local, world = (getattr(arm().tasks([PLANE], reference=name).at(q), quantity) for name in ("local", "world"))
        np.testing.assert_array_equal(local, getattr(arm().tasks([PLANE], reference="local").at(BENT), quantity))
        assert np.isnan(world).any()


def test_not_a_number_is_not_singular() -> None:
    q = np.stack([BENT, np.full(3, np.nan)])
    assert np.isnan(arm().tasks([PLANE], singular="raise").at(q).inertia[1]).all()


def test_damping_is_smooth_and_bounded() -> None:
    """Through a singular configuration Λ changes little from step to step; regular tasks are left alone."""
    angles = np.linspace(-0.02, 0.02, 4001)
    q = np.stack([bent(angle) for angle in angles])
    damped, exact = arm().tasks([PLANE]).at(q), arm().tasks([PLANE], cut=1e-14).at(q)
    largest = np.linalg.norm(damped.inertia, axis=(1, 2))
    assert np.isfinite(largest).all()
    assert np.abs(np.diff(np.log(largest))).max() < 0.15
    regular = damped.rank == 3
    assert regular.any()
    assert not regular.all()
    np.testing.assert_allclose(damped.inertia[regular], exact.inertia[regular], rtol=1e-7)
    truncated = arm().tasks([PLANE], singular="truncated").at(q)
    assert np.linalg.norm(truncated.inertia[~regular], axis=(1, 2)).max() < 100.0


def test_truncation_moves_only_what_can_be_moved() -> None:
    space = arm().tasks([PLANE], singular="truncated").at(STRETCHED)
    A, L = space.inverse_inertia, space.inertia
    np.testing.assert_allclose(L @ A @ L, L, rtol=0, atol=1e-9)
    np.testing.assert_allclose(A @ L @ A, A, rtol=0, atol=1e-9)
    np.testing.assert_allclose(space.nullspace @ space.nullspace, space.nullspace, rtol=0, atol=1e-9)


@pytest.mark.parametrize("given", [np.empty((3, 3)), (np.empty((3, 3)),) * 2, "here"])
def test_three_results_need_three_arrays(given: Any) -> None:
    with pytest.raises(InputError, match="dynamics: out is a tuple of three arrays"):
        arm().tasks([PLANE]).dynamics(BENT, out=given)


@pytest.mark.parametrize("name", ["inverse_inertia", "inertia"])
@pytest.mark.parametrize("q", [BENT, STRETCHED, np.stack([BENT, STRETCHED, BENT + 0.1, STRETCHED])], ids=str)
def test_a_result_may_take_the_place_of_q(name: str, q: Array) -> None:
    """Also of singular samples, which are computed a second time."""
    function = getattr(arm().tasks([PLANE]), name)
    expected = function(q)
    memory = np.zeros(expected.size)
    memory[: q.size] = q.ravel()
    home = memory.reshape(expected.shape)
    assert function(memory[: q.size].reshape(q.shape), out=home) is home
    np.testing.assert_array_equal(home, expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0)], ids=str)
def test_empty_batches_of_hot_functions(shape: tuple[int, ...]) -> None:
    q = np.zeros((*shape, 3))
    for function in (arm().tasks([PLANE]).inverse_inertia, arm().tasks([PLANE]).inertia):
        home = np.empty((*shape, 3, 3))
        assert function(q).shape == function(q, out=home).shape == (*shape, 3, 3)
    assert [result.shape for result in arm().tasks([PLANE]).dynamics(q)] == [(*shape, 3, 3)] * 3


def test_numbers_of_any_real_type() -> None:
    whole = np.array([1, 0, 2])
    for function in (arm().tasks([PLANE]).inverse_inertia, arm().tasks([PLANE]).inertia):
        expected = function(whole.astype(np.float64))
        for q in (whole, whole.astype(np.float32), whole.astype(">f8"), whole.tolist(), np.repeat(whole, 2)[::2]):
            np.testing.assert_array_equal(function(q), expected)
    assert arm().tasks([PLANE], cut=np.float32(1e-2)).at(bent(0.01)).rank == 2


def test_frames_at_the_same_place_are_dependent() -> None:
    """Two names for one thing are no error: rank says that nothing was gained."""
    builder = kt.Builder("one place")
    builder.add_body("link", joint="spherical", mass=1.0, inertia=np.eye(3))
    builder.add_frame("same", body="link")
    space = builder.build().tasks([kt.Task("link", (0, 1)), kt.Task("same", (1, 2))]).at([1.0, 0.0, 0.0, 0.0])
    assert space.rank == 3
    assert np.isfinite(space.inertia).all()


def test_a_robot_without_inverse_mass_matrix_says_so() -> None:
    builder = kt.Builder("ghost")
    builder.add_body("air", axis=(0, 0, 1), mass=0.0, inertia=np.zeros((3, 3)))
    with pytest.raises(kt.errors.SingularMechanismError, match="air"):
        _ = builder.build().tasks(["air"]).at([0.0]).inverse_inertia
