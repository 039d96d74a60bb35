"""Eigenvalues and eigenvectors of symmetric matrices: errors of the size of rounding, whatever the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.eigen import (
    compose,
    diagonalize,
    jacobi_sweep,
    regularized_inverse,
    schedule,
    settle,
    weigh,
)
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = (1, 2, 3, 6, 8, 12, 24)
COUNT = 12


def _with(eigenvalues: Array, rng: np.random.Generator) -> Array:
    """Matrices with these eigenvalues, in random axes."""
    count, n = eigenvalues.shape
    Q = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    A = np.einsum("bij,bj,bkj->bik", Q, eigenvalues, Q)
    return 0.5 * (A + np.swapaxes(A, 1, 2))


def _matrices(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    shape, axes = (COUNT, n), np.arange(n)
    factors = rng.normal(size=(COUNT, n, n))
    graded = np.sqrt(10.0 ** -(axes[:, None] + axes[None, :]))
    coupled = np.eye(n, k=1) + np.eye(n, k=-1)
    sparse = factors * (rng.uniform(size=factors.shape) < 0.2)
    return {
        "random": _with(rng.normal(size=shape), rng),
        "of all sizes": _with(10.0 ** rng.uniform(-18, 0, size=shape), rng),
        "singular": _with(rng.uniform(0.1, 2.0, size=shape) * (axes < rng.integers(0, n + 1, size=(COUNT, 1))), rng),
        "in clusters": _with(np.round(rng.uniform(0, 3, size=shape)) + 1e-9 * rng.normal(size=shape), rng),
        "graded": factors @ np.swapaxes(factors, 1, 2) * graded,
        "graded upwards": (factors @ np.swapaxes(factors, 1, 2) * graded)[:, ::-1, ::-1],
        "sparse": sparse @ np.swapaxes(sparse, 1, 2),
        "of rank one": np.ones((1, n, n)),
        "zero": np.zeros((1, n, n)),
        "diagonal": np.diag(axes + 1.0)[None],
        "exchange": np.eye(n)[None, ::-1],
        "Laplacian": (2.0 * np.eye(n) - coupled)[None],
        "Wilkinson": (np.diag(np.abs(axes - (n - 1) / 2)) + coupled)[None],
        "tiny": 1e-30 * _with(rng.normal(size=shape), rng),
        "huge": 1e30 * _with(rng.normal(size=shape), rng),
    }


@pytest.mark.parametrize("n", SIZES)
def test_matrices_of_all_kinds_are_diagonalized(n: int) -> None:
    for A in _matrices(n).values():
        values, vectors = kt.compiled(diagonalize, n=n)(A)
        size = float(np.abs(A).max()) or 1.0
        expected = np.linalg.eigvalsh(A / size)
        assert_close(np.sort(values / size, axis=-1), expected, bound(n))
        assert_close(vectors @ np.swapaxes(vectors, 1, 2), np.broadcast_to(np.eye(n), A.shape), bound(n))
        composed = np.einsum("bji,bj,bjk->bik", vectors, values / size, vectors)
        assert_close(composed, A / size, bound(n))


@pytest.mark.parametrize("n", [7, 9, 11, 13])
def test_eigenvalues_that_converge_slowly_have_time_to(n: int) -> None:
    """One of 20,000 such matrices is not diagonal yet if steps leave out rows as soon as most have converged."""
    A = np.random.default_rng(3).normal(size=(20_000, n, n)) * (1.0 - np.eye(n))
    A = A + np.swapaxes(A, 1, 2)
    values, vectors = kt.compiled(diagonalize, n=n)(A)
    assert_close(vectors @ A, values[..., None] * vectors, bound(n))


@pytest.mark.parametrize("n", [3, 6, 8])
def test_engines_agree(n: int) -> None:
    """On eigenvalues that are apart, so that their order is the same, and up to the signs of vectors."""
    (A,) = _with(np.arange(1.0, n + 1.0)[None] ** 2, np.random.default_rng(0))
    found = kt.compiled(diagonalize, n=n)(A)
    for one, other in zip(found, kt.compiled(diagonalize, n=n).engine("reference")(A), strict=True):
        assert_close(np.abs(one), np.abs(other), bound(n) * n * n)


def test_the_number_of_rotations() -> None:
    """About 2n² for n rows; a Jacobi sweep takes n²/2, and seven to nine sweeps are needed."""
    assert [sum(schedule(n)) for n in SIZES] == [0, 1, 26, 94, 159, 314, 1043]


def test_what_is_singular() -> None:
    computed = np.array([[3.0, 1e-9, 0.5], [0.5, 0.25, 1e-3], [4.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    infinite = np.array([0.0, 0.0, 0.0, 2.0])
    values, edge, rank, condition = kt.compiled(settle, n=3)(computed, infinite, 1e-2)
    np.testing.assert_array_equal(values[:3], computed[:3])
    np.testing.assert_array_equal(edge[:3], [3e-2, 1e-2, 4e-2])  # relative to the largest, or to one
    np.testing.assert_array_equal(rank, [2.0, 2.0, 3.0, -1.0])
    np.testing.assert_array_equal(condition[:3], [np.inf, np.inf, 4.0])
    assert np.isnan(values[3]).all()
    assert np.isnan(edge[3])
    assert np.isnan(condition[3])


def test_weights() -> None:
    rng = np.random.default_rng(0)
    A, own, reach = rng.normal(size=(4, 4)), np.array([1.0, 3.0, 0.0, 0.0]), np.array([2.0, 2.0, 0.0, 0.0])
    mean = np.kron(np.eye(2), np.full((2, 2), 0.5))
    weighted, roots, infinite = kt.compiled(weigh, n=4)(A, own, mean, reach)
    np.testing.assert_array_equal(roots, [2.0, 2.0, 1.0, 1.0])  # one for rows that are immobile
    np.testing.assert_array_equal(weighted, A / np.outer(roots, roots))
    assert infinite == 0.0
    A[1, 2], A[3, 3] = np.inf, np.nan
    assert kt.compiled(weigh, n=4)(A, own, mean, reach)[2] == 2.0


@pytest.mark.parametrize(("softness", "soft"), [(0.0, 0.0), (1.0, 2.0 * 0.1 / (0.05**2 + 0.1**2))])
def test_inverses_are_regularised_where_they_are_singular(softness: float, soft: float) -> None:
    vectors = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    roots, values = np.array([1.0, 2.0, 4.0]), np.array([2.0, 0.05, 0.5])
    found = kt.compiled(regularized_inverse, n=3)(values, vectors, roots, 0.1, softness)
    expected = (vectors.T * [0.5, soft, 2.0]) @ vectors / np.outer(roots, roots)
    assert_close(found, expected, bound(3))
    assert_close(kt.compiled(compose, n=3)(vectors, roots, np.array([0.5, soft, 2.0])), expected, bound(3))


def test_a_jacobi_sweep_of_a_matrix_that_is_nearly_diagonal() -> None:
    rng = np.random.default_rng(2)
    X = 1e-4 * rng.normal(size=(5, 7, 7))
    A = np.diag(np.arange(1.0, 8.0)) + X + np.swapaxes(X, 1, 2)
    rotated, vectors = kt.compiled(jacobi_sweep, n=7)(A)
    assert_close(vectors @ A @ np.swapaxes(vectors, 1, 2), rotated, bound(7))
    assert_close(vectors @ np.swapaxes(vectors, 1, 2), np.broadcast_to(np.eye(7), A.shape), bound(7))
    off = rotated - np.einsum("bii->bi", rotated)[..., None] * np.eye(7)
    assert np.abs(off).max() < 1e-6  # quadratically smaller
    assert np.abs(off).max() > 0.0
