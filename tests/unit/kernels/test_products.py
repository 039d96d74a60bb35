"""Products of matrices, levels of priority and bounds of joints, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.branchless import UNBOUNDED
from kinetree.kernels.limits import acceleration_bounds, bounds_check
from kinetree.kernels.priorities import add_level, blended_reciprocals, eliminate, least_share, truncated_reciprocals
from kinetree.kernels.products import (
    ZERO,
    add_product,
    add_products,
    inverse_inertia_rate,
    opposing_force,
    projections,
    total,
    transposed,
    with_row_forces,
    without_motion,
)
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]


@kt.kernel(A=("m", "p"), B=("p", "n"), C=("m", "n"), out=("m", "n"), both=("m", "n"), outputs=("out", "both"))
def product(k: Any, A: Any, B: Any, C: Any, out: Any, both: Any) -> None:
    """C + A B, and A B + A B."""
    one, two = k.array("m", "n"), k.zeros("m", "n")
    over = k.m, k.p, k.n
    add_product(one, over, A, B, C)
    add_products([two, two], over, A, [B, B])
    for i in k.m:
        for j in k.n:
            out[i, j], both[i, j] = one[i, j], two[i, j]


@kt.kernel(A=("p", "n"), out=("n", "n"), outputs=("out",), symmetric=("out",))
def square(k: Any, A: Any, out: Any) -> None:
    """Aᵀ A, upper triangle."""
    B = k.array("n", "n")
    add_product(B, (k.n, k.p, k.n), transposed(A), A, ZERO, symmetric=True)
    for i in k.n:
        for j in k.n.since(i):
            out[i, j] = B[i, j]


@pytest.mark.parametrize(("m", "p", "n"), [(1, 1, 1), (4, 4, 4), (5, 9, 17), (8, 3, 2)])
def test_products_in_tiles_and_what_is_left_of_them(m: int, p: int, n: int) -> None:
    rng = np.random.default_rng(m + p + n)
    A, B, C = rng.normal(size=(5, m, p)), rng.normal(size=(5, p, n)), rng.normal(size=(5, m, n))
    out, both = kt.compiled(product, m=m, p=p, n=n)(A, B, C)
    assert_close(out, C + A @ B, bound(p))
    assert_close(both, 2.0 * A @ B, bound(p))
    squares = kt.compiled(square, p=p, n=n)
    assert_close(squares(B), np.swapaxes(B, -1, -2) @ B, bound(p))
    assert squares.count().multiplications <= p * n * (n + 4) / 2 + 4 * p * n  # about half


def test_products_with_given_inertias() -> None:
    rng = np.random.default_rng(1)
    n, r = 9, 5
    L, J, R, C = (rng.normal(size=(3, *shape)) for shape in ((r, r), (r, n), (n, r), (n, n)))
    L = L + np.swapaxes(L, -1, -2)
    f, base, x = rng.normal(size=(3, r)), rng.normal(size=(3, n)), rng.normal(size=(3, r))
    assert_close(kt.compiled(opposing_force, r=r)(L, x), -np.einsum("bij,bj->bi", L, x), bound(r))
    assert_close(kt.compiled(with_row_forces, n=n, r=r)(base, J, f), base + np.einsum("bij,bi->bj", J, f), bound(r))
    assert_close(kt.compiled(without_motion, n=n, r=r)(f, J, base), f - np.einsum("bij,bj->bi", J, base), bound(n))
    np.testing.assert_array_equal(kt.compiled(total, n=n)(base, base[::-1]), base + base[::-1])
    inverse, nullspace = kt.compiled(projections, n=n, r=r)(R, J, L)
    assert_close(inverse, R @ L, bound(r))
    assert_close(nullspace, np.eye(n) - R @ L @ J, bound(n, 100.0))
    half = (J - np.swapaxes(R, -1, -2) @ C) @ R
    assert_close(
        kt.compiled(inverse_inertia_rate, n=n, r=r)(J, R, C), half + np.swapaxes(half, -1, -2), bound(n, 100.0)
    )


def test_steps_of_levels() -> None:
    rng = np.random.default_rng(2)
    n, own = 7, slice(1, 4)
    X, r, f = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)
    A, G, later = X @ X.T, np.zeros((n, n)), (np.arange(n) >= own.stop) * 1.0
    G[own, own] = np.linalg.inv(A[own, own])
    A_left, r_left = kt.compiled(eliminate, n=n)(A, r, G, later)
    C = later[:, None] * (A @ G)
    assert_close(r_left, r - C @ r, bound(n, 100.0))
    assert_close(A_left, A - C @ A * later, bound(n, 100.0))
    assert_close(kt.compiled(add_level, n=n)(A, r, G, f), f + G @ (r - A @ f), bound(n, 100.0))


def test_reciprocals_of_eigenvalues() -> None:
    values, cut = np.array([2.0, 0.5, 0.1, 0.01, 0.0005, -1.0, np.nan]), 0.1
    n = len(values)
    np.testing.assert_array_equal(
        kt.compiled(truncated_reciprocals, n=n)(values, cut), [0.5, 2.0, 0.0, 0.0, 0.0, -0.0, np.nan]
    )
    blended = kt.compiled(blended_reciprocals, n=n)(values, cut)
    s = (0.01 - 0.001) / (0.1 - 0.001)
    expected = [0.5, 2.0, 10.0, s * s * (3.0 - 2.0 * s) / 0.01, 0.0, 0.0]
    assert_close(blended[:-1], np.array(expected), bound(n))
    assert np.isnan(blended[-1])
    share = kt.compiled(least_share, n=2)
    assert share([3.0, 1.0], [[1.0, 0.0], [2.0, 0.0]]) == 2.0
    assert share([3.0, 1.0], [[1.0, 0.0], [0.0, np.inf]]) == 3.0
    assert np.isnan(share([3.0, np.nan], [[1.0, 0.0], [2.0, 0.0]]))


def test_bounds_of_joints_are_formula_1() -> None:
    rng = np.random.default_rng(3)
    q, v, k, kappa = rng.normal(size=(50, 4)), 2.0 * rng.normal(size=(50, 4)), 3.0, 5.0
    low, high = np.array([-1.0, -np.inf, -0.5, -np.inf]), np.array([1.0, 0.5, np.inf, np.inf])
    fastest = np.array([1.0, 2.0, np.inf, np.inf])
    rates = np.stack(
        [np.isfinite(low), np.isfinite(high), np.full(4, k * k), np.full(4, 2.0 * k), fastest, np.full(4, kappa)], 1
    )
    bounds, opposite = kt.compiled(acceleration_bounds, l=4)(q, v, np.stack([low, high], 1), rates)
    least = np.maximum(k * k * (low - q) - 2.0 * k * v, kappa * (-fastest - v))
    most = np.minimum(k * k * (high - q) - 2.0 * k * v, kappa * (fastest - v))
    least, most = np.minimum(least, most), np.maximum(least, most)
    assert_close(bounds, np.clip(np.stack([least, most], -1), -UNBOUNDED, UNBOUNDED), bound(6), scale=50.0)
    np.testing.assert_array_equal(opposite, -bounds)


def test_which_joints_are_held_next() -> None:
    bounds = np.tile([-1.0, 1.0], (6, 1))
    a = [0.0, 2.0, -2.0, 1.0 + 1e-7, 1.0, -1.0]
    along = [0.0, 0.0, 0.0, 0.0, -1.0, 1.0]  # of held joints: pulls, pulls
    active = [0.0, 0.0, 0.0, 0.0, 1.0, -1.0]
    following, excess = kt.compiled(bounds_check, l=6)(a, bounds, along, active)
    np.testing.assert_array_equal(following, [0.0, 1.0, -1.0, 0.0, 0.0, 0.0])
    assert excess == 4.0
    following, excess = kt.compiled(bounds_check, l=6)(a, bounds, np.negative(along), active)
    np.testing.assert_array_equal(following, [0.0, 1.0, -1.0, 0.0, 1.0, -1.0])
    assert excess == 2.0
