"""Tasks that cannot be moved, or hardly: their rank, their Λ, and bits that depend on no neighbour."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularTaskError
from kinetree.runtime.matrix_products import dots, product
from kinetree.tasks import POLICIES, Tasks
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[Any]]

QUANTITIES = (
    "inverse_inertia",
    "inertia",
    "jacobian",
    "dynamically_consistent_inverse",
    "nullspace",
    "jacobian_dot_v",
    "bias",
    "rank",
    "condition",
)
CONTACT_QUANTITIES = ("contact_inertia", "contact_nullspace", "contact_rank")


def neighbours(count: int) -> tuple[kt.Model, list[Any], Array]:
    """A link's origin as its parent sees it: no joint moves it."""
    robot = kt.zoo.chain(count, seed=0)
    return robot, [kt.RelativeTask("body1", "body2", "position")], robot.random_configuration(3)


def pendulum() -> tuple[kt.Model, list[Any], Array]:
    """Along a stretched double pendulum its tip cannot move; what is left of J is rounding."""
    return kt.zoo.double_pendulum(), [kt.Task("tip", (5,))], np.array([0.3, 0.0])


def wheel(**placement: Any) -> kt.Model:
    """One body turning about an axis through its centre of mass, away from the world's origin."""
    builder = kt.Builder()
    builder.add_body(
        "wheel", axis=(0.48, 0.6, 0.64), placement=(np.eye(3), (0.1, 0.2, 0.3)), mass=2.0, inertia=0.02 * np.eye(3)
    )
    builder.add_frame("hub", body="wheel")
    return builder.build()


def slides() -> kt.Model:
    """Three slides in series."""
    slide = {"joint": "prismatic", "mass": 1.0, "inertia": 0.01 * np.eye(3)}
    return serial(({"axis": axis, **slide} for axis in np.eye(3)), "slide").build()


IMMOBILE = {
    "neighbours on a chain of 2": lambda: neighbours(2),
    "neighbours on a chain of 3": lambda: neighbours(3),
    "along a stretched pendulum": pendulum,
    "a hub": lambda: (wheel(), [kt.Task("hub", "position")], np.array([0.7])),
    "one row of a hub": lambda: (wheel(), [kt.Task("hub", (4,))], np.array([0.7])),
    "the centre of mass of a wheel": lambda: (wheel(), [kt.CenterOfMassTask()], np.array([0.7])),
    "the orientation of slides": lambda: (slides(), [kt.Task("slide2", "orientation")], np.array([0.1, 0.2, 0.3])),
    "the orientation of a slide on another": lambda: (
        slides(),
        [kt.RelativeTask("slide0", "slide2", (2,))],
        np.array([0.1, 0.2, 0.3]),
    ),
}


@pytest.mark.parametrize("name", IMMOBILE)
def test_what_cannot_be_moved_has_rank_zero(name: str) -> None:
    robot, tasks, q = IMMOBILE[name]()
    damped = robot.tasks(tasks)
    assert damped.rank(q) == 0
    assert damped.condition(q) == np.inf
    # as heavy as a direction can be, and not a number that rounding made up
    typical = 1.0 / damped.reach.min()
    assert np.abs(damped.inertia(q)).max() <= 2.1e6 * typical
    np.testing.assert_allclose(damped.dynamics(q).nullspace, np.eye(robot.nv), rtol=0, atol=1e-6)
    truncated = robot.tasks(tasks, singular="truncated")
    np.testing.assert_array_equal(truncated.inertia(q), np.zeros((damped.rows, damped.rows)))
    strict = robot.tasks(tasks, singular="raise")
    for ask in (strict.inertia, strict.dynamics, lambda q: strict.at(q).inertia, lambda q: strict.at(q).nullspace):
        with pytest.raises(SingularTaskError, match="rank 0"):
            ask(q)


def planar(mass: float, size: float) -> kt.Model:
    """Three links in a plane."""
    solid = {"mass": mass, "com": (0.2 * size, 0.0, 0.0), "inertia": 0.01 * mass * size**2 * np.eye(3)}
    builder = serial(({"placement": (np.eye(3), (x * size, 0.0, 0.0)), **solid} for x in (0.0, 0.5, 0.5)), "link")
    return builder.add_frame("tip", body="link2", placement=(np.eye(3), (0.3 * size, 0.0, 0.0))).build()


@pytest.mark.parametrize("mass", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_rank_does_not_depend_on_units(mass: float, size: float) -> None:
    """Stretched, nearly stretched, and bent; condition numbers neither."""
    robot = planar(mass, size)
    q = np.array([[0.3, 0.0, 0.0], [0.3, 1e-5, 0.0], [0.3, 0.9, 0.4]])
    assert list(robot.tasks(["tip"]).rank(q)) == [2, 2, 3]
    assert list(robot.tasks([kt.Task("tip", (3, 4))]).rank(q)) == [1, 1, 2]
    assert list(robot.tasks([kt.Task("tip", (3,))]).rank(q)) == [0, 0, 1]
    assert list(robot.tasks([kt.Task("tip", (5,))]).rank(q)) == [0, 0, 0]
    assert list(robot.tasks([kt.RelativeTask("link1", "link2", "position")]).rank(q)) == [0, 0, 0]
    assert list(robot.tasks([kt.RelativeTask("link0", "tip", (2, 3, 4))]).rank(q)) == [2, 2, 2]
    slightly = np.array([[0.3, 0.9, 0.4], [0.3, 2e-3, 0.0]])
    found, expected = (
        each.tasks([kt.Task("tip", (2, 3, 4))]).condition(slightly) for each in (robot, planar(1.0, 1.0))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_fast_spindle_does_not_make_its_arm_look_still() -> None:
    """A rotor of next to no inertia turns far more easily than the arm moves it; both are motions."""
    at = {"placement": (np.eye(3), (0.4, 0.0, 0.0))}
    link = {"mass": 5.0, "inertia": np.eye(3), **at}
    builder = serial(({"axis": axis, **link} for axis in [(0, 0, 1), (0, 1, 0), (0, 1, 0)]), "link")
    builder.add_body("spindle", parent="link2", axis=(1, 0, 0), mass=1e-3, inertia=1e-10 * np.eye(3), **at)
    robot = builder.build()
    q = np.array([0.2, 0.5, 0.9, 0.0])
    assert robot.tasks([kt.Task("spindle", "position")]).rank(q) == 3
    assert robot.tasks([kt.Task("spindle", (0, 3, 4, 5))]).rank(q) == 4


def test_contacts_that_hold_nothing() -> None:
    """Rows that cannot move hold nothing, however little rounding lets them move."""
    robot, still, q = neighbours(3)
    held = robot.tasks(["body3"], contacts=still).at(q)
    assert held.contact_rank == 0
    np.testing.assert_allclose(held.contact_nullspace, np.eye(robot.nv), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(held.contact_inertia, np.zeros((3, 3)))
    free = robot.tasks(["body3"]).at(q)
    np.testing.assert_allclose(held.jacobian, free.jacobian, rtol=0, atol=1e-12)
    assert held.rank == free.rank


# Bits


@cache
def hands(policy: str, contacts: bool) -> Tasks:
    robot = kt.zoo.humanoid24()
    held = ["left_foot", kt.Task("right_foot", (2, 3, 4))] if contacts else []
    return robot.tasks(["left_hand", "right_hand"], singular=policy, contacts=held)


def near_neutral(count: int) -> tuple[Array, Array]:
    robot, rng = kt.zoo.humanoid24(), np.random.default_rng(7)
    return robot.neutral() + 0.001 * rng.random((count, robot.nq)), rng.uniform(-1, 1, (count, robot.nv))


@pytest.mark.parametrize("contacts", [False, True])
@pytest.mark.parametrize("policy", ["damped", "truncated"])
def test_bits_of_doubtful_samples_depend_on_nobody(policy: str, contacts: bool) -> None:
    """Alone, in any batch, between samples that are not finite: the same to the last bit."""
    tasks, (q, v) = hands(policy, contacts), near_neutral(23)
    names = (*QUANTITIES, *CONTACT_QUANTITIES) if contacts else QUANTITIES
    state = tasks.at(q, v)
    whole = {name: getattr(state, name) for name in names}
    assert (whole["rank"] < tasks.rows).any()
    for i in range(0, 23, 4):
        alone = tasks.at(q[i], v[i])
        for name in names:
            np.testing.assert_array_equal(getattr(alone, name), whole[name][i], err_msg=name)
    spoiled = q.copy()
    spoiled[1::2] = np.nan, *[np.inf] * (q.shape[1] - 1)
    pairs, beside = tasks.at(q[::-1][:2], v[::-1][:2]), tasks.at(spoiled[None], v[None])
    for name in names:
        np.testing.assert_array_equal(getattr(pairs, name), whole[name][::-1][:2], err_msg=name)
        np.testing.assert_array_equal(getattr(beside, name)[0, ::2], whole[name][::2], err_msg=name)
    np.testing.assert_array_equal(tasks.inertia(q[:3]), whole["inertia"][:3])


def digest() -> str:
    """Of all quantities of doubtful samples, with and without contacts."""
    found = hashlib.sha256()
    for contacts in (False, True):
        q, v = near_neutral(5)
        state = hands("damped", contacts).at(q, v)
        for name in (*QUANTITIES, *(CONTACT_QUANTITIES if contacts else ())):
            found.update(np.ascontiguousarray(getattr(state, name)).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("kernel", ["Prescott", "Haswell"])
def test_bits_do_not_depend_on_the_processor_that_blas_sees(kernel: str) -> None:
    run = [sys.executable, "-c", "from tests.unit.tasks.test_singular import digest; print(digest())"]
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    told = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == digest()


def test_products_have_the_same_bits_in_any_batch_and_layout() -> None:
    rng = np.random.default_rng(0)
    for n, k, m in ((1, 1, 1), (3, 40, 1), (1, 7, 5), (12, 30, 12), (6, 0, 2), (2, 129, 3)):
        A, B = rng.standard_normal((5, n, k)), rng.standard_normal((5, k, m))
        whole = product(A, B)
        np.testing.assert_allclose(whole, A @ B, rtol=1e-12, atol=1e-12)
        for i in range(5):
            for one, other in (
                (A[i], B[i]),
                (np.asfortranarray(A[i]), np.asfortranarray(B[i])),
                (A[i], B[i][..., ::1]),
            ):
                np.testing.assert_array_equal(product(one, other), whole[i])
        np.testing.assert_array_equal(product(A[0], B), np.stack([product(A[0], each) for each in B]))
        np.testing.assert_array_equal(dots(A, A), np.stack([dots(each, each) for each in A]))
    big = rng.standard_normal((300, 20, 20))
    np.testing.assert_array_equal(product(big, big)[299], product(big[299], big[299]))


# Numbers that are not, or are too large


@pytest.mark.parametrize("contacts", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200, -1e308])
def test_no_floating_point_error_leaks(value: float, policy: str, contacts: bool) -> None:
    robot = kt.zoo.humanoid24()
    held = ["left_foot", kt.Task("right_foot", (2, 3, 4))] if contacts else []
    tasks = robot.tasks([kt.Task("left_hand", "position")], singular=policy, contacts=held)
    rng = np.random.default_rng(1)
    q, v = robot.random_configuration(rng, 3), rng.uniform(-1, 1, (3, robot.nv))
    clean = tasks.at(q, v)
    with np.errstate(all="raise"):
        for where, columns in (("q", slice(None)), ("v", slice(None)), ("v", 0), ("v", 5), ("v", 9)):
            spoiled = {"q": q.copy(), "v": v.copy()}
            spoiled[where][1, columns] = value
            state = tasks.at(spoiled["q"], spoiled["v"])
            for name in (*QUANTITIES, *CONTACT_QUANTITIES) if contacts else QUANTITIES:
                result = getattr(state, name)
                np.testing.assert_array_equal(result[::2], getattr(clean, name)[::2], err_msg=name)
            if not contacts:
                tasks.inverse_inertia_derivative(spoiled["q"], spoiled["v"])
        tasks.at(np.full(robot.nq, value), np.full(robot.nv, value)).bias  # noqa: B018


def test_rank_of_slides_where_q_is_not_a_number() -> None:
    """Λ⁻¹ of joints that slide does not depend on q, but rank says that there is none."""
    robot = slides()
    q = np.array([[0.0, 0.1, 0.2], [np.nan, 0.0, 0.0], [0.0, np.inf, 0.0]])
    for contacts in ([], [kt.Task("slide0", (3,))]):
        tasks = robot.tasks([kt.Task("slide2", "position")], contacts=contacts)
        assert list(tasks.rank(q)) == [3 - len(contacts), -1, -1]
        assert np.isnan(tasks.condition(q)[1:]).all()
        assert tasks.rank(q[1]) == -1
        if contacts:
            assert list(tasks.at(q).contact_rank) == [1, -1, -1]


# No freedom at all


@pytest.mark.parametrize("shape", [(), (4,), (0,), (2, 3)], ids=str)
@pytest.mark.parametrize("contacts", [(), ("rock",), (kt.Task("rock", (3, 0)), "world")], ids=str)
def test_a_robot_that_cannot_move_has_every_quantity(contacts: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    builder = kt.Builder("stone")
    builder.add_body("rock", joint="fixed", mass=1.0)
    tasks = builder.build().tasks([kt.Task("rock", "position")], contacts=contacts)
    state = tasks.at(np.zeros((*shape, 0)), np.zeros((*shape, 0)))
    sizes = {"inverse_inertia": (3, 3), "inertia": (3, 3), "jacobian": (3, 0), "nullspace": (0, 0), "bias": (3,)}
    sizes |= {"dynamically_consistent_inverse": (0, 3), "jacobian_dot_v": (3,), "rank": (), "condition": ()}
    if contacts:
        sizes |= {"contact_inertia": (tasks.held,) * 2, "contact_nullspace": (0, 0), "contact_rank": ()}
    for name, size in sizes.items():
        assert np.shape(getattr(state, name)) == (*shape, *size), name
    assert (np.asarray(state.rank) == 0).all()
    np.testing.assert_array_equal(state.inverse_inertia, np.zeros((*shape, 3, 3)))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("policy", POLICIES)
def test_more_rows_than_degrees_of_freedom(policy: str, engine: str) -> None:
    """Every sample is singular, so Λ comes from eigenvalues, without the kernel for regular ones; bits are the same."""
    robot = kt.zoo.chain(7)
    tasks = robot.tasks([robot.frames[-1], robot.frames[2]], singular=policy).engine(engine)
    q = robot.random_configuration(3, (2, 3))
    if policy == "raise":
        with pytest.raises(SingularTaskError) as raised:
            tasks.inertia(q)
        assert raised.value.samples == tuple(np.ndindex(2, 3))
        with pytest.raises(SingularTaskError):
            tasks.inertia(q[0, 0])
    else:
        found = tasks.inertia(q)
        expected = tasks.inertia._into(q, (np.empty((2, 3, 12, 12)),))[0]
        np.testing.assert_array_equal(found, expected)
        alone, into = tasks.inertia(q[1, 2]), np.full((2, 3, 12, 12), np.nan)
        np.testing.assert_array_equal(alone, found[1, 2])
        assert tasks.inertia(q, out=into) is into
        np.testing.assert_array_equal(into, found)
        A = tasks.inverse_inertia(q)
        np.testing.assert_allclose(A @ found @ A, A, rtol=0, atol=1e-6 * float(np.abs(A).max()))
    with pytest.raises(kt.errors.InputError, match=r"inertia: q has shape \(3,\)"):
        tasks.inertia(q[0, 0, :3])


def test_kernels_for_regular_samples_are_not_compiled_in_vain() -> None:
    robot = kt.zoo.chain(7)
    tasks = robot.tasks([robot.frames[-1], robot.frames[2]])
    tasks.inertia(robot.neutral())
    assert not tasks.inertia._kernel._bound
    assert tasks.inertia.count().multiplications > 0
