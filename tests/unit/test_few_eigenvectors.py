"""Λ with a few eigenvectors where some eigenvalues are close to the edge, and what is tried first in single calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.operational_space.clear_gap import HIGH, LOW, invert_clear, invert_close
from kinetree.algorithms.operational_space.few_eigenvectors import MOST
from kinetree.engines import reference
from kinetree.operational_space.singular import over_rows, row_sites
from kinetree.recursion.mechanism import Mechanism
from tests.tolerance import assert_close, bound
from tests.unit.test_clear_gap import CUT, POLICIES, _by_eigenvalues
from tests.unit.test_eigen import _matrices, _with

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = (8, 12, 13, 24)


def _inverted(A: Array, policy: str, algorithm: Any = invert_close) -> tuple[Array, Array, Array, Array]:
    """Without weights: Λ, rank, whether they are certain, and the number of eigenvalues in the gap."""
    n = A.shape[-1]
    found: tuple[Array, Array, Array, Array] = over_rows(algorithm, n)(
        A, np.zeros((n, n)), np.ones(n), CUT, POLICIES[policy]
    )
    return found


def _with_few(n: int, few: Array, zeros: int, rng: np.random.Generator) -> Array:
    """Matrices with these eigenvalues, some that are zero up to rounding, and others above 10⁻³."""
    count, m = few.shape
    values = 10.0 ** rng.uniform(-3.0, 0.3, size=(count, n))
    values[:, :m] = few
    values[:, m : m + zeros] = rng.choice([0.0, 1e-16, -1e-17], size=(count, zeros))
    return _with(values, rng)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("zeros", [0, 1, 3])
@pytest.mark.parametrize("n", SIZES)
def test_all_eigenvectors_lead_to_the_same(n: int, zeros: int, policy: str) -> None:
    rng, count = np.random.default_rng(n + zeros), 100
    for m in range(MOST + 1):
        A = _with_few(n, 10.0 ** rng.uniform(-10, -5.1, size=(count, m)), zeros, rng)
        X, rank, clear, between = _inverted(A, policy)
        assert clear.mean() > 0.95
        sure = clear == 1.0
        assert (between[sure] == m).all()
        expected, counted = _by_eigenvalues(A, policy)
        np.testing.assert_array_equal(rank[sure], counted[sure])
        for one, other in zip(X[sure], expected[sure], strict=True):
            scale = float(np.abs(other).max())
            assert_close(one / scale, other / scale, bound(n, 8.0 / CUT))


@pytest.mark.parametrize("n", SIZES)
def test_directions_that_are_not_close_are_inverted_as_exactly(n: int) -> None:
    """What is dropped leaves no more behind than rounding: 1/λ of what is dropped is up to 10¹⁰."""
    rng = np.random.default_rng(n)
    A = _with_few(n, 10.0 ** rng.uniform(-10, -6.5, size=(200, 2)), 2, rng)
    X, rank, clear, _ = _inverted(A, "truncated")
    assert (rank[clear == 1.0] == n - 4).all()
    expected, _ = _by_eigenvalues(A, "truncated")
    assert_close(X[clear == 1.0], expected[clear == 1.0], bound(n, 8e3))


@pytest.mark.parametrize("apart", [0.0, 1e-16, 1e-12, 1e-8, 1e-4])
def test_equal_and_nearly_equal_eigenvalues(apart: float) -> None:
    """Those of a robot with equal limbs."""
    rng, n = np.random.default_rng(0), 24
    few = 3e-7 * (1.0 + apart * rng.normal(size=(100, 3)))
    A = _with_few(n, few, 1, rng)
    X, rank, clear, _ = _inverted(A, "damped")
    assert clear.mean() > 0.95
    sure = clear == 1.0
    assert (rank[sure] == n - 4).all()
    expected, _ = _by_eigenvalues(A, "damped")
    assert_close(X[sure] * CUT, expected[sure] * CUT, bound(n, 8.0 / CUT))


@pytest.mark.parametrize("n", SIZES)
def test_more_than_a_few_are_never_certain(n: int) -> None:
    rng = np.random.default_rng(n)
    A = _with_few(n, 10.0 ** rng.uniform(-9, -5.5, size=(50, MOST + 1)), 0, rng)
    _, _, clear, between = _inverted(A, "damped")
    assert not clear.any()
    assert (between == MOST + 1).all()


@pytest.mark.parametrize("n", SIZES)
def test_matrices_of_all_kinds(n: int) -> None:
    """What is called certain is right, whatever the matrix; nothing indefinite is."""
    for name, A in _matrices(n).items():
        X, rank, clear, _ = _inverted(A, "damped")
        values = np.linalg.eigvalsh(A)
        size = np.maximum(values[:, -1], 1.0)
        assert not clear[values[:, 0] < -2.0 * LOW * size].any(), name
        expected, counted = _by_eigenvalues(A, "damped")
        for i in np.flatnonzero(clear):
            assert rank[i] == counted[i], name
            scale = float(np.abs(expected[i]).max())
            assert_close(X[i] / scale, expected[i] / scale, bound(n, 8.0 / CUT))


def test_eigenvalues_on_both_sides_of_the_edge() -> None:
    rng, n = np.random.default_rng(0), 12
    few = CUT * np.array([[1.0 - 1e-6, 1.0 + 1e-6, 0.9 * HIGH]] * 40)
    A = _with(np.concatenate([few, rng.uniform(0.1, 0.9, size=(40, n - 3))], axis=1), rng)  # the edge is the cut
    for policy in POLICIES:
        X, rank, clear, between = _inverted(A, policy)
        sure = clear == 1.0
        assert sure.mean() > 0.8
        assert (between == 3).all()
        assert (rank[sure] == n - 1).all()
        expected, _ = _by_eigenvalues(A, policy)
        # directions of eigenvalues that are 2·10⁻¹² apart are certain to eps over that
        tolerance = bound(n, 2e12 if policy == "truncated" else 8.0 / CUT)
        assert_close(X[sure] * CUT, expected[sure] * CUT, tolerance)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", SIZES)
def test_clear_samples_have_the_same_bits(n: int, policy: str) -> None:
    rng = np.random.default_rng(n)
    A = _with_few(n, np.empty((60, 0)), 3, rng)
    X, rank, clear, _ = _inverted(A, policy)
    expected, counted, certain, _ = _inverted(A, policy, invert_clear)
    sure = (clear == 1.0) & (certain == 1.0)
    assert sure.mean() > 0.95
    np.testing.assert_array_equal(X[sure], expected[sure])
    np.testing.assert_array_equal(rank[sure], counted[sure])


@pytest.mark.parametrize("n", SIZES)
def test_bits_do_not_depend_on_the_batch(n: int) -> None:
    rng = np.random.default_rng(n)
    A = _with_few(n, 10.0 ** rng.uniform(-10, -5.1, size=(21, 2)), 1, rng)
    whole = _inverted(A, "damped")
    for i in range(0, 21, 5):
        for one, other in zip(_inverted(A[i], "damped"), whole, strict=True):
            np.testing.assert_array_equal(one, other[i])


def test_engines_agree() -> None:
    nothing, n, rng = Mechanism((), (), (), (), np.zeros(3)), 8, np.random.default_rng(0)
    for A in _with_few(n, 10.0 ** rng.uniform(-8, -5.1, size=(3, 2)), 1, rng):
        given = [A, np.eye(n), np.ones(n), np.array(CUT), np.array(1.0)]
        found, *measures = over_rows(invert_close, n)(*given)
        inverse, *expected = reference.run(invert_close, nothing, row_sites(n), given)
        assert measures == expected
        assert_close(found * CUT, inverse * CUT, bound(n, 8.0 / CUT))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_or_has_no_square_is_never_certain(value: float) -> None:
    A = _with_few(8, np.full((4, 1), 1e-7), 1, np.random.default_rng(0))
    A[2, 1, 2] = A[2, 2, 1] = value
    assert list(_inverted(A, "damped")[2]) == [1, 1, 0, 1]


# Tasks


def _limbs(**options: Any) -> tuple[kt.Model, kt.operational_space.Tasks, Array]:
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
def test_results_do_not_depend_on_earlier_calls(policy: str) -> None:
    _, tasks, q = _limbs(singular=policy)
    whole = tasks.inertia(q)
    rng = np.random.default_rng(0)
    orders = [
        np.arange(len(q)),
        np.arange(len(q))[::-1],
        rng.permutation(len(q)),
        np.repeat(rng.permutation(len(q)), 4),
    ]
    for order in orders:
        for i in order:
            np.testing.assert_array_equal(tasks.inertia(q[i]), whole[i])
    spectrum = tasks.core.spectrum_of(tasks.inverse_inertia(q))
    np.testing.assert_array_equal(tasks.rank(q), spectrum.rank)
    np.testing.assert_array_equal(tasks.rank(q), [tasks.rank(one) for one in q])
    assert set(spectrum.rank) == {23, 24}
    for one, expected in zip(whole, tasks.core.eigenvalues.inertia(q), strict=True):
        scale = float(np.abs(expected).max())
        assert_close(one / scale, expected / scale, bound(24, 8.0 / CUT))


def test_singular_samples_in_a_row_are_expected() -> None:
    """Then the kernel for regular samples is not needed."""
    _, tasks, q = _limbs()
    regular, core = tasks.inertia._kernel, tasks.core
    calls = []

    class Counted:
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            calls.append(arguments)
            return regular(*arguments, **named)

    tasks.inertia(q[0])
    tasks.inertia._kernel = Counted()
    core.recent.singular = 0
    for _ in range(5):
        tasks.inertia(q[0])
    assert len(calls) == 2
    assert not core.recent.close
    for _ in range(3):
        tasks.inertia(q[18])  # an eigenvalue is close to the edge
        assert core.recent.close
    assert len(calls) == 2
    for _ in range(3):
        tasks.inertia(q[-1])
    assert len(calls) == 5
    assert core.recent.singular == 0
    tasks.inertia(q[0])
    tasks.inertia(q[-1])
    assert core.recent.singular == 0


def test_the_policy_raise_names_samples_with_eigenvalues_close_to_the_edge() -> None:
    _, tasks, q = _limbs(singular="raise")
    with pytest.raises(kt.errors.SingularTaskError, match="rank 23"):
        tasks.inertia(q[18])
    with pytest.raises(kt.errors.SingularTaskError) as raised:
        tasks.inertia(q)
    assert set(raised.value.ranks) == {23}
