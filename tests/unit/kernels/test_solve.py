"""Symmetric systems, with a bound on the smallest eigenvalue, and damped least-squares steps within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.damped_step import damped_step
from kinetree.kernels.solve import solve_symmetric
from tests.tolerance import assert_close, bound


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 12, 20])
def test_solutions_and_their_bound(n: int) -> None:
    rng = np.random.default_rng(n)
    X, weight = rng.normal(size=(9, n, n)), rng.uniform(0.5, 2.0, (9, n))
    A, b = X @ np.swapaxes(X, -1, -2) + np.eye(n), rng.normal(size=(9, n))
    f = kt.compiled(solve_symmetric, n=n)
    x, spread = f(A, b, weight)
    assert_close(x, np.linalg.solve(A, b[..., None])[..., 0], bound(n, float(np.linalg.cond(A).max())))
    root = np.sqrt(weight)
    least = np.linalg.eigvalsh(A / (root[:, :, None] * root[:, None, :]))[:, 0]
    assert np.all(1.0 / np.sqrt(spread) <= least)
    assert np.all(1.0 / np.sqrt(spread) >= least / np.sqrt(2.0 * n + 1.0))  # not far below
    for i in range(9):
        alone, of_one = f(A[i], b[i], weight[i])
        np.testing.assert_array_equal(alone, x[i])
        np.testing.assert_array_equal(of_one, spread[i])
    for one, other in zip(f.engine("reference")(A, b, weight), (x, spread), strict=True):
        assert_close(one, other, bound(n, float(np.linalg.cond(A).max()) ** 2))


def test_only_the_upper_triangle_counts() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 8))
    A = X @ X.T + np.eye(8)
    f = kt.compiled(solve_symmetric, n=8)
    whole = f(A, np.ones(8), np.ones(8))
    for one, other in zip(f(np.triu(A) + np.tril(X, -1), np.ones(8), np.ones(8)), whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_singular_matrix_shows() -> None:
    A = np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0]), np.full((3, 3), np.nan)])
    _, spread = kt.compiled(solve_symmetric, n=3)(A, np.ones(3), np.ones(3))
    assert spread[0] == 6.0
    assert not np.isfinite(spread[1])
    assert np.isnan(spread[2])


Array = np.ndarray[Any, np.dtype[Any]]


@kt.kernel(
    e=("r",), J=("r", "n"), down=("n",), up=("n",), damping=(), step=("n",), outputs=("step",), sparse=("step",)
)  # fmt: skip
def stepping(k: Any, e: Any, J: Any, down: Any, up: Any, damping: Any, step: Any) -> None:
    """The step."""
    damped_step(k.r, k.n, e, J, down, up, damping[...], step)


def least_squares(J: Array, e: Array, free: Array, held: Array) -> Array:
    """The step of free columns, with the others held."""
    J_free = J * free
    return held + J_free.T @ np.linalg.solve(J_free @ J_free.T + 0.1 * np.eye(len(e)), e - J @ held)


def setup() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 8)), rng.normal(size=3)


def test_without_bounds_it_is_least_squares() -> None:
    J, e = setup()
    step = kt.compiled(stepping, r=3, n=8)(e, J, np.full(8, -9.0), np.full(8, 9.0), 0.1)
    assert_close(step, least_squares(J, e, np.ones(8), np.zeros(8)), bound(8))


def test_columns_at_a_bound_that_they_would_pass_do_not_move() -> None:
    J, e = setup()
    slope = J.T @ e
    for side in (1.0, -1.0):
        stuck = slope * side > 0.3
        assert stuck.any()
        down, up = np.where(stuck & (side < 0), 0.0, -9.0), np.where(stuck & (side > 0), 0.0, 9.0)
        step = kt.compiled(stepping, r=3, n=8)(e, J, down, up, 0.1)
        assert_close(step, least_squares(J, e, ~stuck * 1.0, np.zeros(8)), bound(8))
        # a bound on the other side does not matter
        step = kt.compiled(stepping, r=3, n=8)(e, J, -up, -down, 0.1)
        free = least_squares(J, e, np.ones(8), np.zeros(8))
        assert_close(step[stuck], free[stuck], bound(8))


def test_columns_that_would_pass_a_bound_stop_there_and_others_make_up_for_it() -> None:
    J, e = setup()
    free = least_squares(J, e, np.ones(8), np.zeros(8))
    most = int(np.argmax(np.abs(free)))
    end = 0.5 * free[most]
    down, up = np.full(8, -9.0), np.full(8, 9.0)
    (down if end < 0 else up)[most] = end
    step = kt.compiled(stepping, r=3, n=8)(e, J, down, up, 0.1)
    held = np.where(np.arange(8) == most, end, 0.0)
    assert step[most] == end
    assert_close(step, least_squares(J, e, (np.arange(8) != most) * 1.0, held), bound(8))
