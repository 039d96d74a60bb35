"""Λ of singular tasks: a regularised inverse, right in all directions, also with eigenvalues close to the edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.eigen import diagonalize, regularized_inverse, settle, weigh
from kinetree.kernels.products import opposing_force
from kinetree.runtime.function import compiled
from kinetree.tasks.recursions import most_independent_rows
from kinetree.tasks.singular import inverted, spectrum
from tests.tolerance import assert_close, bound
from tests.unit.kernels.test_eigen import _with

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = (1, 2, 3, 6, 7, 12, 24)
COUNT, CUT = 40, 1e-6
POLICIES = ("truncated", "damped")


def _inverted(A: Array, policy: str, cut: float = CUT) -> tuple[Array, Array]:
    """Without weights: Λ and rank."""
    n = A.shape[-1]
    of = spectrum(A, np.zeros(A.shape[:-1]), np.zeros((n, n)), np.ones(n), cut)
    return inverted(of, policy), of.rank


def _singular(n: int, least: float = 1e-4) -> Array:
    """Matrices with exact and with nearly exact zeros among their eigenvalues, which otherwise are at least this."""
    rng = np.random.default_rng(n)
    values = 10.0 ** rng.uniform(np.log10(least), 0.7, size=(COUNT, n))
    small = rng.choice([0.0, 1e-16, -1e-17, 3e-15], size=(COUNT, n))
    return _with(np.where(np.arange(n) < rng.integers(0, n + 1, size=(COUNT, 1)), values, small), rng)


@pytest.mark.parametrize("n", SIZES)
def test_the_pseudo_inverse_of_numpy(n: int) -> None:
    for A in _singular(n):
        X, rank = _inverted(A, "truncated")
        largest = max(float(np.linalg.eigvalsh(A)[-1]), 1.0)
        edge = CUT * largest / max(float(np.abs(np.linalg.eigvalsh(A)).max()), 1e-300)
        assert_close(X, np.linalg.pinv(A, rcond=min(edge, 1.0), hermitian=True), bound(n, 1e5))
        assert rank == np.sum(np.linalg.eigvalsh(A) > CUT * largest)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [2, 6, 12, 24])
def test_damping_does_not_disturb_regular_directions(n: int, policy: str) -> None:
    """It is 10⁶ times as large as what it must not disturb."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        rank = int(rng.integers(1, n))
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        values = rng.uniform(0.1, 2.0, rank)
        A = Q[:, :rank] * values @ Q[:, :rank].T
        A = 0.5 * (A + A.T)
        X, _ = _inverted(A, policy)
        size = 1.0 if policy == "truncated" else 2.0 / CUT
        assert_close(Q[:, :rank].T @ X @ Q[:, :rank], np.diag(1.0 / values), bound(n) * size)
        assert_close(A @ X @ A, A, bound(n, 1e2 * size))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("largest", [0.3, 1.0, 4.0])
def test_eigenvalues_on_both_sides_of_the_edge(largest: float, policy: str) -> None:
    """Each is inverted, or replaced by its damped value, whatever the others are."""
    rng, n = np.random.default_rng(0), 6
    edge = CUT * max(largest, 1.0)
    for factor in (1e-8, 1e-3, 1.0 - 1e-6, 1.0 + 1e-6, 8.0):
        values = np.array([largest, 0.5 * largest, 0.1 * largest, factor * edge, 0.0, 0.0])
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        A = Q * values @ Q.T
        X, rank = _inverted(0.5 * (A + A.T), policy)
        assert rank == 3 + (factor > 1.0)
        singular = values <= edge
        damped = 2.0 * edge / (values**2 + edge**2) if policy == "damped" else np.zeros(n)
        expected = np.where(singular, damped, 1.0 / np.where(singular, 1.0, values))
        # rounding of A shifts the eigenvalue next to the edge by n eps of the largest one
        assert_close(X * edge, Q * (expected * edge) @ Q.T, bound(n, 8.0 / CUT))


@pytest.mark.parametrize("cut", [1e-3, 1e-5, 1e-9])
def test_other_cuts(cut: float) -> None:
    A = _singular(6, least=0.05)
    X, rank = _inverted(A, "truncated", cut)
    np.testing.assert_array_equal(rank, np.linalg.matrix_rank(A, tol=1e-3, hermitian=True))
    for one, other in zip(X, A, strict=True):
        rcond = min(1e-3 / max(float(np.abs(other).max()), 1e-300), 1.0)
        assert_close(one, np.linalg.pinv(other, rcond=rcond, hermitian=True), bound(6, 4e2))


# Tasks


def _limbs(**options: Any) -> tuple[kt.Model, kt.tasks.Tasks, Array]:
    """A walker's torso and limbs, with configurations in which the knees are bent more and more."""
    robot = kt.zoo.asimo35()
    tasks = robot.tasks(["torso", "left_hand", "left_foot", "right_foot"], **options)
    bends = np.concatenate([[0.0], 10.0 ** np.linspace(-8, 0, 33)])
    q = np.tile(robot.random_configuration(1), (len(bends), 1))
    for joint in _knees(robot):
        q[:, joint] = bends
    return robot, tasks, q


def _knees(robot: kt.Model) -> list[int]:
    names = [joint.name for joint in robot.joints]
    q = robot.neutral()
    places = []
    for side in ("left", "right"):
        # the only entry of q that moves with this joint
        moved = robot.integrate(q, np.eye(robot.nv)[5 + names.index(f"{side}_leg_4_joint")], 1.0)
        (place,) = np.flatnonzero(moved != q)
        places.append(int(place))
    return places


@pytest.mark.parametrize("policy", POLICIES)
def test_samples_next_to_the_edge_have_the_bits_that_they_have_alone(policy: str) -> None:
    _, tasks, q = _limbs(singular=policy)
    whole = tasks.inertia(q)
    for i in np.random.default_rng(0).permutation(len(q)):
        np.testing.assert_array_equal(tasks.inertia(q[i]), whole[i])
    spectrum = tasks.core.spectrum_of(tasks.inverse_inertia(q))
    np.testing.assert_array_equal(tasks.rank(q), spectrum.rank)
    np.testing.assert_array_equal(tasks.rank(q), [tasks.rank(one) for one in q])
    assert set(spectrum.rank) == {23, 24}


def test_the_policy_raise_names_samples_with_eigenvalues_close_to_the_edge() -> None:
    _, tasks, q = _limbs(singular="raise")
    with pytest.raises(kt.errors.SingularTaskError, match="rank 23"):
        tasks.inertia(q[18])
    with pytest.raises(kt.errors.SingularTaskError) as raised:
        tasks.inertia(q)
    assert set(raised.value.ranks) == {23}


def test_a_small_cut() -> None:
    robot = kt.zoo.chain(7)
    tasks = robot.tasks([robot.frames[-1], robot.frames[2]], cut=1e-12)
    q = robot.random_configuration(3, (4,))
    np.testing.assert_array_equal(tasks.rank(q), np.full(4, 7))
    assert np.isinf(tasks.condition(q)).all()


# Rows that cannot be independent


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_can_be_independent_at_best(seed: int) -> None:
    robot, rng = kt.zoo.humanoid24(), np.random.default_rng(seed)
    q = robot.random_configuration(rng)
    for count in (1, 2, 4, 6):
        tasks = robot.tasks([str(name) for name in rng.choice(robot.frames, count, replace=False)], cut=1e-12)
        assert tasks.rank(q) <= most_independent_rows(robot.mechanism, tasks.core.recursions.sites)


def test_structure_shows_which_tasks_are_always_singular() -> None:
    def at_best(robot: kt.Model, *tasks: Any) -> int:
        return most_independent_rows(robot.mechanism, robot.tasks(list(tasks)).core.recursions.sites)

    walker = kt.zoo.asimo35()  # its base floats; arms and legs have six or more joints
    limbs = ["left_hand", "right_hand", "left_foot", "right_foot"]
    assert at_best(walker, *limbs) == 24
    assert at_best(walker, "left_hand", kt.Task("right_hand", "position")) == 9
    assert not walker.tasks(limbs).core.excessive
    assert at_best(walker, "left_arm_4", "left_hand") == 9  # three joints lie between them
    assert at_best(walker, "torso", "left_hand", "left_foot", "left_thumb") == 19
    assert walker.tasks(["left_arm_4", *limbs[1:], "left_hand"]).core.excessive
    chain = kt.zoo.chain(7)
    assert at_best(chain, "tip") == 6
    assert at_best(chain, "tip", "body6") == 7
    assert at_best(chain, "tip", kt.Task("body7", (3,))) == 6  # on the same body
    assert at_best(chain, "body2", kt.Task("tip", (3,))) == 3
    assert at_best(chain, "world") == 0
    assert chain.tasks(["tip", kt.Task("body7", (3,))]).core.excessive
    # ends of relative tasks and the centre of mass are not looked into
    assert at_best(chain, kt.RelativeTask("body6", "tip")) == 7


def test_always_singular_tasks_need_no_kernel_for_regular_samples() -> None:
    builder = kt.Builder(gravity=(0, 0, -9.81))
    builder.add_body("base", joint="floating", mass=3.0, inertia=np.eye(3))
    builder.add_body("arm", parent="base", axis=(0, 1, 0), mass=1.0, inertia=np.eye(3))
    builder.add_frame("one", body="base", placement=(np.eye(3), (0.1, 0.0, 0.0)))
    builder.add_frame("two", body="base", placement=(np.eye(3), (0.0, 0.2, 0.0)))
    robot = builder.build()
    tasks = robot.tasks(["one", kt.Task("two", (3,))])  # seven rows, seven degrees of freedom, one body
    q = robot.random_configuration(0, (3,))
    assert tasks.core.excessive
    assert list(tasks.rank(q)) == [6, 6, 6]
    assert tasks.rank(q[0]) == 6
    assert np.isinf(tasks.condition(q)).all()
    assert np.isnan(tasks.condition(np.full(robot.nq, np.nan)))
    assert tasks.rank(np.full(robot.nq, np.nan)) == -1
    found = tasks.dynamics(q)
    for kernel in (tasks.inertia._kernel, tasks.dynamics._kernel):
        assert not kernel._bound
    into = tuple(np.empty_like(part) for part in found)
    for one, other, alone in zip(found, tasks.dynamics(q, out=into), tasks.dynamics(q[1]), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one[1], alone)


def test_counts_of_singular_tasks_are_complete() -> None:
    """All recursions that a sample takes: where every one is singular, eigenvalues are part of Λ."""
    robot = kt.zoo.chain(7)
    regular, always = robot.tasks(["tip"]), robot.tasks(["tip", kt.Task("body7", (3,))])
    assert always.core.excessive
    assert not regular.core.excessive

    def total(*functions: Any) -> int:
        return sum(function.count().total for function in functions)

    def eigen(tasks: Any, inverts: bool) -> int:
        steps = (weigh, diagonalize, settle, regularized_inverse)[: 4 if inverts else 3]
        return total(*(compiled(step, n=tasks.rows) for step in steps))

    assert eigen(always, inverts=True) > 9 * always.rows**3
    known = always.core.recursions
    decomposed = total(always.inverse_inertia) + eigen(always, inverts=False)
    inertia = total(always.inverse_inertia) + eigen(always, inverts=True)
    assert total(always.inertia) == inertia
    assert total(always.dynamics) == inertia + total(known.response, known.jacobian, known.projections)
    free = total(known.forward_dynamics, known.acceleration, compiled(opposing_force, r=always.rows))
    assert total(always.bias) == inertia + free
    assert total(always.rank) == decomposed
    assert total(always.condition) == total(always.inverse_inertia)  # it is infinite
    # regular samples need none for Λ, and condition numbers always do
    assert total(regular.inertia) == total(regular.core.recursions.inertia) == total(regular.rank)
    assert total(regular.condition) == total(regular.inverse_inertia) + eigen(regular, inverts=False)
    for tasks in (regular, always):
        for name in ("inertia", "dynamics", "bias", "rank", "condition"):
            getattr(tasks, name).compile()
