"""Symmetric systems: solutions, the bound on the smallest eigenvalue, bits, matrices that are singular."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
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
