"""Eigenvalues and eigenvectors of symmetric matrices: errors of the size of rounding, whatever the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.eigen import diagonalize, schedule
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


@pytest.mark.parametrize("n", SIZES)
def test_bits_do_not_depend_on_the_batch(n: int) -> None:
    for A in _matrices(n).values():
        values, vectors = kt.compiled(diagonalize, n=n)(A)
        for i, one in enumerate(A[:3]):
            alone = kt.compiled(diagonalize, n=n)(one)
            assert np.array_equal(alone[0], values[i])
            assert np.array_equal(alone[1], vectors[i])


def test_the_number_of_rotations() -> None:
    """About 2n² for n rows; a Jacobi sweep takes n²/2, and seven to nine sweeps are needed."""
    assert [sum(schedule(n)) for n in SIZES] == [0, 1, 26, 94, 159, 314, 1043]
