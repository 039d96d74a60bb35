"""Λ without eigenvectors where eigenvalues are clearly singular or clearly not, and eigenvectors where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.operational_space.clear_gap import HIGH, LEAST_CUT, LOW, invert_clear
from kinetree.engines import reference
from kinetree.operational_space.freedom import most_independent_rows
from kinetree.operational_space.singular import inverted, over_rows, row_sites, spectrum
from kinetree.recursion.mechanism import Mechanism
from tests.tolerance import assert_close, bound
from tests.unit.test_eigen import _matrices, _with

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = (1, 2, 3, 6, 7, 12, 24)
COUNT, CUT = 40, 1e-6
POLICIES = {"truncated": 0.0, "damped": 1.0}


def _inverted(A: Array, policy: str, cut: float = CUT) -> tuple[Array, Array, Array]:
    """Without weights: Λ, rank, and whether they are certain."""
    n = A.shape[-1]
    inverse, rank, clear, _ = over_rows(invert_clear, n)(A, np.zeros((n, n)), np.ones(n), cut, POLICIES[policy])
    return inverse, rank, clear


def _by_eigenvalues(A: Array, policy: str, cut: float = CUT) -> tuple[Array, Array]:
    """The same with eigenvectors: Λ and rank."""
    n = A.shape[-1]
    of = spectrum(A, np.zeros(A.shape[:-1]), np.zeros((n, n)), np.ones(n), cut)
    return inverted(of, policy), of.rank


def _clear(n: int, least: float = 1e-4) -> Array:
    """Matrices with exact and with nearly exact zeros among their eigenvalues, which otherwise are at least this."""
    rng = np.random.default_rng(n)
    values = 10.0 ** rng.uniform(np.log10(least), 0.7, size=(COUNT, n))
    small = rng.choice([0.0, 1e-16, -1e-17, 3e-15], size=(COUNT, n))
    return _with(np.where(np.arange(n) < rng.integers(0, n + 1, size=(COUNT, 1)), values, small), rng)


@pytest.mark.parametrize("n", SIZES)
def test_moore_and_penrose(n: int) -> None:
    A = _clear(n)
    X, rank, clear = _inverted(A, "truncated")
    assert (clear == 1.0).all()
    tolerance = bound(n, 1e5)
    assert_close(A @ X @ A, A, tolerance)
    assert_close(X @ A @ X, X, tolerance)
    for one in (A @ X, X @ A):
        assert_close(one, np.swapaxes(one, 1, 2), tolerance)
        assert_close(np.trace(one, axis1=1, axis2=2), rank, tolerance)


@pytest.mark.parametrize("n", SIZES)
def test_the_pseudo_inverse_of_numpy(n: int) -> None:
    for A in _clear(n):
        X, rank, _ = _inverted(A, "truncated")
        largest = max(float(np.linalg.eigvalsh(A)[-1]), 1.0)
        edge = CUT * largest / max(float(np.abs(np.linalg.eigvalsh(A)).max()), 1e-300)
        assert_close(X, np.linalg.pinv(A, rcond=min(edge, 1.0), hermitian=True), bound(n, 1e5))
        assert rank == np.sum(np.linalg.eigvalsh(A) > CUT * largest)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", SIZES)
def test_eigenvectors_lead_to_the_same(n: int, policy: str) -> None:
    A = _clear(n)
    X, rank, _ = _inverted(A, policy)
    expected, counted = _by_eigenvalues(A, policy)
    np.testing.assert_array_equal(rank, counted)
    for one, other in zip(X, expected, strict=True):
        assert_close(one, other, bound(n, 1e5))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", [2, 6, 12, 24])
def test_regular_directions_are_inverted_as_exactly(n: int, policy: str) -> None:
    """Damping is 10⁶ times as large as what it must not disturb; eigenvectors leave the same rounding errors."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        rank = int(rng.integers(1, n))
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        values = rng.uniform(0.1, 2.0, rank)
        A = Q[:, :rank] * values @ Q[:, :rank].T
        A = 0.5 * (A + A.T)
        X, _, clear = _inverted(A, policy)
        assert clear == 1.0
        size = 1.0 if policy == "truncated" else 2.0 / CUT
        assert_close(Q[:, :rank].T @ X @ Q[:, :rank], np.diag(1.0 / values), bound(n) * size)
        assert_close(A @ X @ A, A, bound(n, 1e2 * size))


@pytest.mark.parametrize("n", SIZES)
def test_matrices_of_all_kinds(n: int) -> None:
    """What is called clear is right, whatever the matrix; nothing indefinite is."""
    for name, A in _matrices(n).items():
        X, rank, clear = _inverted(A, "truncated")
        values = np.linalg.eigvalsh(A)
        size = np.maximum(values[:, -1], 1.0)
        assert not clear[values[:, 0] < -2.0 * LOW * size].any(), name
        expected, counted = _by_eigenvalues(A, "truncated")
        for i in np.flatnonzero(clear):
            assert rank[i] == counted[i], name
            condition = size[i] / min(values[i][values[i] > CUT * size[i]], default=1.0)
            scale = float(np.abs(expected[i]).max()) or 1.0
            assert_close(X[i] / scale, expected[i] / scale, bound(n, 8.0 * condition))


@pytest.mark.parametrize("largest", [0.3, 1.0, 4.0])
def test_decisions_near_the_edge(largest: float) -> None:
    """Close to ε nothing is certain; elsewhere ranks are those of eigenvalues."""
    rng, n = np.random.default_rng(0), 6
    edge = CUT * max(largest, 1.0)
    for factor, certain in (
        (0.5 * LOW / CUT, True),
        (2.0 * LOW / CUT, False),
        (1e-3, False),
        (1.0 - 1e-6, False),
        (1.0 + 1e-6, False),
        (0.99 * HIGH, False),
        (1.01 * HIGH, True),
    ):
        A = _with(np.array([[largest, 0.5 * largest, 0.1 * largest, factor * edge, 0.0, 0.0]] * 8), rng)
        for policy in POLICIES:
            X, rank, clear = _inverted(A, policy)
            np.testing.assert_array_equal(clear, np.full(8, certain), err_msg=str(factor))
            expected, counted = _by_eigenvalues(A, policy)
            if certain:
                np.testing.assert_array_equal(rank, counted)
                assert_close(X, expected, bound(n, 1.0 / (HIGH * CUT)))


@pytest.mark.parametrize("cut", [1e-3, 1e-5, LEAST_CUT])
def test_other_cuts(cut: float) -> None:
    A = _clear(6, least=0.05)
    for policy in POLICIES:
        X, rank, clear = _inverted(A, policy, cut)
        assert clear.all()
        expected, counted = _by_eigenvalues(A, policy, cut)
        np.testing.assert_array_equal(rank, counted)
        for one, other in zip(X, expected, strict=True):
            assert_close(one, other, bound(6, 4e2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_not_finite_or_has_no_square_is_never_clear(value: float) -> None:
    A = _clear(6)[:8]
    A[3, 1, 2] = A[3, 2, 1] = value
    A[5, 4, 4] = value
    _, _, clear = _inverted(A, "damped")
    assert list(clear) == [1, 1, 1, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("equal", [1, 2, 4])
def test_equal_large_eigenvalues(equal: int) -> None:
    """Those of a robot with equal limbs."""
    rng, n = np.random.default_rng(1), 12
    values = rng.uniform(0.1, 1.9, size=(200, n)) * (np.arange(n) < 8)
    values[:, :equal] = 2.0
    A = _with(values, rng)
    X, _, clear = _inverted(A, "damped")
    assert clear.mean() > 0.98
    expected, _ = _by_eigenvalues(A, "damped")
    assert_close(X[clear == 1.0], expected[clear == 1.0], bound(n, 20.0))


def test_clusters_of_large_eigenvalues() -> None:
    """If the largest one is not found among others next to it, the matrix is not called clear."""
    rng, n = np.random.default_rng(1), 12
    values = rng.uniform(0.1, 1.5, size=(400, n)) * (np.arange(n) < 8)
    values[:, :3] = 2.0 - 10.0 ** rng.uniform(-16, 0, size=(400, 3))
    A = _with(values, rng)
    X, _, clear = _inverted(A, "damped")
    assert set(clear) == {0.0, 1.0}
    expected, _ = _by_eigenvalues(A, "damped")
    assert_close(X[clear == 1.0], expected[clear == 1.0], bound(n, 20.0))


@pytest.mark.parametrize("n", SIZES)
def test_bits_do_not_depend_on_the_batch(n: int) -> None:
    A = _clear(n)
    whole = _inverted(A, "damped")
    for i in range(0, COUNT, 7):
        for one, other in zip(_inverted(A[i], "damped"), whole, strict=True):
            np.testing.assert_array_equal(one, other[i])


@pytest.mark.parametrize("n", [3, 6, 7])
def test_engines_agree(n: int) -> None:
    nothing = Mechanism((), (), (), (), np.zeros(3))
    for A in _clear(n)[:4]:
        given = [A, np.eye(n), np.ones(n), np.array(CUT), np.array(0.0)]
        found, rank, clear, _ = over_rows(invert_clear, n)(*given)
        inverse, counted, certain, _ = reference.run(invert_clear, nothing, row_sites(n), given)
        assert (rank, clear) == (counted, certain)
        assert_close(found, inverse, bound(n, 1e5))


# Tasks


def _arm() -> kt.Model:
    """Three links in a plane."""
    builder, parent = kt.Builder(), "world"
    for i in range(3):
        place = (np.eye(3), (0.5 if i else 0.0, 0.0, 0.0))
        builder.add_body(f"link{i}", parent=parent, axis=(0, 0, 1), placement=place, mass=1.0, inertia=np.eye(3) * 0.02)
        parent = f"link{i}"
    builder.add_frame("tip", body=parent, placement=(np.eye(3), (0.3, 0.0, 0.0)))
    return builder.build()


@pytest.mark.parametrize("policy", ["damped", "truncated"])
def test_samples_that_are_not_clear_use_eigenvectors(policy: str) -> None:
    """Near the stretched arm, some samples are clear and some are not; each has the bits that it has alone."""
    robot = _arm()
    tasks = robot.tasks([kt.Task("tip", (3, 4, 5))], singular=policy)
    bends = np.concatenate([[0.0], 10.0 ** np.linspace(-9, 0, 40)])
    q = np.stack([np.full_like(bends, 0.3), bends, -0.5 * bends], axis=-1)
    inertia, _, clear, _ = tasks.core.eigenvalues.clear_inertia(q)
    by_eigenvalues = tasks.core.eigenvalues.inertia(q)
    assert set(clear) == {0.0, 1.0}
    spread = tasks.core.recursions.inertia(q, tasks.reach)[1]
    whole, doubtful = tasks.inertia(q), ~(spread < tasks.core.trusted)
    taken = doubtful & (clear == 1.0) & ~(spread < 2.0**86)
    left = doubtful & ~taken
    assert taken.any()
    assert left.any()
    np.testing.assert_array_equal(whole[taken], inertia[taken])
    np.testing.assert_array_equal(whole[left], by_eigenvalues[left])
    for some in (taken, left):  # batches of one kind
        np.testing.assert_array_equal(tasks.inertia(q[some]), whole[some])
    np.testing.assert_array_equal(tasks.rank(q), [tasks.rank(one) for one in q])
    np.testing.assert_array_equal(tasks.rank(q), tasks.core.spectrum_of(tasks.inverse_inertia(q)).rank)
    for one, expected in zip(q, whole, strict=True):
        np.testing.assert_array_equal(tasks.inertia(one), expected)
        for name, value in tasks.dynamics(one)._asdict().items():
            np.testing.assert_array_equal(value, getattr(tasks.at(one), name))


def test_a_cut_too_small_for_gaps_uses_eigenvectors() -> None:
    robot = kt.zoo.chain(7)
    tasks = robot.tasks([robot.frames[-1], robot.frames[2]], cut=1e-12)
    q = robot.random_configuration(3, (4,))
    np.testing.assert_array_equal(tasks.inertia(q), tasks.core.eigenvalues.inertia(q))
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
