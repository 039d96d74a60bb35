"""The Riccati sweep against dense definitions: gains, cost to go, limits of long horizons, optimality, bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_are

import kinetree as kt
from kinetree.kernels.riccati import riccati
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]
#: Odd sizes, blocks of four with and without a rest, a single state or input.
SIZES = [(1, 1, 1), (3, 2, 1), (2, 5, 3), (4, 8, 4), (3, 12, 6), (2, 13, 7), (2, 36, 12)]


def problem(T: int, nx: int, nu: int, shape: tuple[int, ...] = (), seed: int = 0) -> tuple[Array, ...]:
    """A, B, Q, R, N and the cost of the last state; convex, with costs that mix states and inputs."""
    rng = np.random.default_rng(seed)
    A = np.eye(nx) + 0.3 * rng.normal(size=(*shape, T, nx, nx)) / np.sqrt(nx)
    B = rng.normal(size=(*shape, T, nx, nu))
    root = rng.normal(size=(*shape, T, nx + nu, nx + nu)) / np.sqrt(nx + nu)
    whole = root @ np.swapaxes(root, -1, -2) + 0.5 * np.eye(nx + nu)
    end = rng.normal(size=(*shape, nx, nx))
    return A, B, whole[..., :nx, :nx], whole[..., nx:, nx:], whole[..., nx:, :nx], end @ np.swapaxes(end, -1, -2)


def by_numpy(A: Array, B: Array, Q: Array, R: Array, N: Array, P: Array) -> tuple[Array, Array, float]:
    gains, pivots = [], []
    for a, b, q, r, n in zip(A[::-1], B[::-1], Q[::-1], R[::-1], N[::-1], strict=True):
        H, G = r + b.T @ P @ b, n + b.T @ P @ a
        K = np.linalg.solve(H, G)
        pivots += (np.diag(np.linalg.cholesky(H)) ** 2).tolist()
        P = q + a.T @ P @ a - G.T @ K
        gains.append(K)
    return np.array(gains[::-1]), P, min(pivots)


@pytest.mark.parametrize(("T", "nx", "nu"), SIZES)
def test_it_is_the_recursion(T: int, nx: int, nu: int) -> None:
    given = problem(T, nx, nu)
    f = kt.compiled(riccati, T=T, nx=nx, nu=nu)
    for one in (f, f.engine("reference")):
        for found, wanted in zip(one(*given), by_numpy(*given), strict=True):
            assert_close(found, wanted, bound(T * nx, 100.0))


def test_long_horizons_end_in_the_algebraic_equation() -> None:
    """P and K of constant matrices converge to the solution of SciPy's discrete algebraic Riccati equation."""
    nx, nu, T = 6, 2, 300
    A, B, Q, R, N, end = (each[0] if each.ndim == 3 else each for each in problem(1, nx, nu, seed=3))
    K, P, pivot = kt.compiled(riccati, T=T, nx=nx, nu=nu)(
        *(np.broadcast_to(each, (T, *each.shape)) for each in (A, B, Q, R, N)), end
    )
    wanted = solve_discrete_are(A, B, Q, R, s=N.T)
    assert_close(P, wanted, bound(nx, 1e4))
    assert_close(K[0], np.linalg.solve(R + B.T @ wanted @ B, N + B.T @ wanted @ A), bound(nx, 1e4))
    assert pivot > 0.0


def test_gains_minimise_the_cost_of_the_whole_horizon() -> None:
    """Inputs −K x are those of the dense quadratic program in all inputs, and ½ xᵀP x is its optimum."""
    T, nx, nu = 4, 5, 2
    A, B, Q, R, N, end = problem(T, nx, nu, seed=1)
    x0 = np.random.default_rng(2).normal(size=nx)
    K, P, _ = kt.compiled(riccati, T=T, nx=nx, nu=nu)(A, B, Q, R, N, end)
    # states as functions of the first one and of all inputs, x = F x0 + E u
    F, E = [np.eye(nx)], [np.zeros((nx, T * nu))]
    for t in range(T):
        F.append(A[t] @ F[t])
        E.append(A[t] @ E[t])
        E[-1][:, t * nu : (t + 1) * nu] += B[t]
    free, driven, cross = np.vstack(F), np.vstack(E), np.hstack([block_diag(*N), np.zeros((T * nu, nx))])
    W = block_diag(*Q, end)
    H = driven.T @ W @ driven + cross @ driven + (cross @ driven).T + block_diag(*R)
    g = (driven.T @ W + cross) @ free @ x0
    best = -np.linalg.solve(H, g)
    x, inputs = x0, []
    for t in range(T):
        inputs.append(-K[t] @ x)
        x = A[t] @ x + B[t] @ inputs[-1]
    condition = float(np.linalg.cond(H))
    assert_close(np.concatenate(inputs), best, bound(T * nx, condition))
    assert_close(x0 @ P @ x0, (free @ x0) @ W @ (free @ x0) + g @ best, bound(T * nx, condition))


def test_complex_step_of_the_cost_is_the_cost_of_a_changed_dynamics() -> None:
    """∂P/∂A of a single step, by the formula and by a complex step through the text."""
    given = problem(1, 4, 2, seed=5)
    f, step = kt.compiled(riccati, T=1, nx=4, nu=2), 1e-30
    change = np.random.default_rng(6).normal(size=(1, 4, 4))
    K, _, _ = f(*given)
    _, P, _ = f.engine("reference")(given[0] + 1j * step * change, *given[1:])
    A, B, *_, end = (each[0] if each.ndim == 3 else each for each in given)
    half = change[0].T @ end @ (A - B @ K[0])
    assert_close(P.imag / step, half + half.T, bound(4, 100.0))


def test_what_is_not_convex_is_reported_not_raised() -> None:
    T, nx, nu = 3, 4, 3
    A, B, Q, R, N, end = problem(T, nx, nu, (5,))
    R[2, 1, 0, 0] -= 1e3
    A[3, 1, 0, 0] = np.nan
    K, P, pivot = kt.compiled(riccati, T=T, nx=nx, nu=nu)(A, B, Q, R, N, end)
    assert pivot[2] < 0.0
    assert np.all(pivot[[0, 1, 4]] > 0.0)
    assert np.isnan(K[3, 0]).any()
    assert np.isnan(P[3]).any()
    assert np.isnan(pivot[3])
    assert np.all(np.isfinite(K[[0, 1, 4]]))


def test_without_inputs_costs_add_up() -> None:
    A, Q = np.full((2, 3, 3), 0.5), np.eye(3)
    nothing = np.zeros((2, 3, 0)), np.stack([Q, Q]), np.zeros((2, 0, 0)), np.zeros((2, 0, 3))
    K, P, pivot = kt.compiled(riccati, T=2, nx=3, nu=0)(A, *nothing, Q)
    assert K.shape == (2, 0, 3)
    once = Q + A[0].T @ A[0]
    assert_close(P, Q + A[0].T @ once @ A[0], bound(3))
    assert pivot == np.inf


def test_it_costs_what_it_must() -> None:
    """Symmetric matrices are computed once: half of AᵀPA, of GᵀH⁻¹G and of BᵀPB."""
    T, nx, nu = 2, 24, 8
    count = kt.compiled(riccati, T=T, nx=nx, nu=nu).count()
    full = nx**3 + 2 * nx**2 * nu + nu**2 * nx  # PA, PB, BᵀPA, two triangular solves
    halves = (nx**3 + nx**2 * nu + nx * nu**2) / 2
    assert T * (full + halves) < count.multiplications < 1.15 * T * (full + halves)
    assert count.divisions == T * nu
    assert count.square_roots == 0


def test_single_precision() -> None:
    given = problem(3, 8, 4)
    for found, wanted in zip(kt.compiled(riccati, "float32", T=3, nx=8, nu=4)(*given), by_numpy(*given), strict=True):
        assert_close(found, wanted, bound(24, 100.0, np.float32))
