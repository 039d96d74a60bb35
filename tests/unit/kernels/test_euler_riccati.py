"""The sweep with Euler's structure against the dense one: gains, cost to go, forward pass, blocks, counts, bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import kinetree as kt
from kinetree.kernels.euler_riccati import euler_forward, euler_riccati
from kinetree.kernels.riccati import riccati
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]
#: Steps, velocities, inputs, and where blocks of three and six velocities begin.
CASES = [
    (1, 1, 1, (), ()), (3, 2, 1, (), ()), (2, 6, 6, (), ()), (2, 7, 5, (), ()), (3, 9, 4, (2,), ()),
    (2, 18, 12, (), (0,)), (2, 14, 6, (9,), (1,)), (2, 9, 3, (0, 5), ()),
]  # fmt: skip


class Sweep(NamedTuple):
    """Inputs of the kernel, and the same problem with dense A, B, H and l."""

    sizes: dict[str, Any]
    given: list[Array]
    A: Array
    B: Array
    gap: Array
    H: Array
    slope: Array
    end: Array
    end_slope: Array


def sweep(T: int, nv: int, nu: int, threes: tuple[int, ...] = (), sixes: tuple[int, ...] = (), seed: int = 0) -> Sweep:
    rng = np.random.default_rng(seed)
    starts = [*((start, 3) for start in threes), *((start, 6) for start in sixes)]
    nb, n = sum(size for _, size in starts), 2 * nv + nu
    a_q, a_v, a_u = rng.normal(size=(T, nv, nv)), rng.normal(size=(T, nv, nv)), rng.normal(size=(T, nv, nu))
    dt, pace = rng.uniform(0.05, 0.2, (2, T))
    dt[1::3] = 0.0
    X, J, turn, drift = np.tile(np.eye(nv), (T, 1, 1)), np.tile(np.eye(nv), (T, 1, 1)), *np.zeros((2, T, nb, nb))
    lists: dict[int, list[tuple[int, int]]] = {3: [], 6: []}
    place = 0
    for start, size in starts:
        own, there = slice(start, start + size), slice(place, place + size)
        for whole, packed in ((X, turn), (J, drift)):
            whole[:, own, own] = packed[:, there, there] = rng.normal(size=(T, size, size))
        lists[size].append((start, place))
        place += size
    A, B = np.zeros((T, 2 * nv, 2 * nv)), np.zeros((T, 2 * nv, nu))
    for t in range(T):
        G = np.vstack([dt[t] * J[t], np.eye(nv)])
        A[t] = G @ np.hstack([pace[t] * a_q[t], np.eye(nv) + pace[t] * a_v[t]])
        A[t, :nv, :nv] += X[t]
        B[t] = G @ (pace[t] * a_u[t])
    root, end = rng.normal(size=(T, n, n)), rng.normal(size=(2 * nv, 2 * nv))
    H, end = root @ np.swapaxes(root, 1, 2) / n + np.eye(n), end @ end.T
    gap, slope, end_slope = 0.1 * rng.normal(size=(T, 2 * nv)), rng.normal(size=(T, n)), rng.normal(size=2 * nv)
    q, v, u = slice(0, nv), slice(nv, 2 * nv), slice(2 * nv, n)
    given = [
        a_q, a_v, a_u, dt, pace, turn, drift, gap[:, q], gap[:, v], H[:, q, q], H[:, q, v], H[:, v, v], H[:, u, q],
        H[:, u, v], H[:, u, u], slope[:, q], slope[:, v], slope[:, u], np.array(0.3), end[q, q], end[q, v],
        end[v, v], end_slope[q], end_slope[v], np.array(np.inf), np.zeros(()),
    ]  # fmt: skip
    sizes = {"T": T, "nv": nv, "nu": nu, "nb": nb, "threes": lists[3], "sixes": lists[6]}
    return Sweep(sizes, [np.array(x, order="C") for x in given], A, B, gap, H, slope, end, end_slope)


def by_numpy(s: Sweep, damping: float = 0.3) -> tuple[Array, Array, Array, Array, float, Array, Array]:
    """K, k, P, p, the decrease, and P and p of the nodes that steps reach, with dense matrices."""
    n, P, p, fall = s.A.shape[-1], s.end, s.end_slope, 0.0
    gains, constants, later = [], [], []
    for A, B, d, H, l in zip(*(x[::-1] for x in (s.A, s.B, s.gap, s.H, s.slope)), strict=True):
        g = p + P @ d
        later.append((P, p))
        Quu = H[n:, n:] + B.T @ P @ B + damping * np.eye(B.shape[1])
        Qux, qu = H[n:, :n] + B.T @ P @ A, l[n:] + B.T @ g
        K, k = np.linalg.solve(Quu, Qux), np.linalg.solve(Quu, qu)
        P, p, fall = H[:n, :n] + A.T @ P @ A - Qux.T @ K, l[:n] + A.T @ g - Qux.T @ k, fall + qu @ k
        gains.append(K)
        constants.append(k)
    of, by = (np.array(x[::-1]) for x in zip(*later, strict=True))
    return np.array(gains[::-1]), np.array(constants[::-1]), P, p, fall, of, by


def halves(P: Array, p: Array, nv: int) -> list[Array]:
    return [P[..., :nv, :nv], P[..., :nv, nv:], P[..., nv:, nv:], p[..., :nv], p[..., nv:]]


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_dense_recursion(case: tuple[Any, ...]) -> None:
    s = sweep(*case)
    nv, f = s.sizes["nv"], kt.compiled(euler_riccati, **s.sizes)
    K, k, P, p, fall, *later = by_numpy(s)
    wanted = K[..., :nv], K[..., nv:], k, *halves(*later, nv), *halves(P, p, nv)
    for one in (f, f.engine("reference")):
        *found, pivot, decrease = one(*s.given)
        for x, y in zip(found, wanted, strict=True):
            assert_close(x, y, bound(6 * nv, 100.0))
        assert_close(decrease, fall, bound(6 * nv, 100.0))
        assert pivot > 0.3


@pytest.mark.parametrize("case", CASES)
def test_the_forward_pass_follows_the_gains(case: tuple[Any, ...]) -> None:
    s = sweep(*case)
    nv = s.sizes["nv"]
    K, k, _, _, _, P, p = by_numpy(s)
    f = kt.compiled(euler_forward, **s.sizes)
    kept = [np.ascontiguousarray(x) for x in (K[..., :nv], K[..., nv:], k, *halves(P, p, nv))]
    for one in (f, f.engine("reference")):
        *found, slope, curve = one(*s.given[:9], *kept, *s.given[15:18], *s.given[22:24], s.given[18])
        x, total, bent = np.zeros(2 * nv), 0.0, 0.0
        for t in range(len(k)):
            u = -K[t] @ x - k[t]
            z = np.concatenate([x, u])
            total, bent = total + s.slope[t] @ z, bent + z @ s.H[t] @ z
            x = s.A[t] @ x + s.B[t] @ u + s.gap[t]
            w = P[t] @ x + p[t]
            for mine, wanted in zip(found, (x[:nv], x[nv:], u, w[:nv], w[nv:]), strict=True):
                assert_close(mine[t], wanted, bound(6 * nv, 1e3))
        assert_close(slope, total + s.end_slope @ x, bound(6 * nv, 1e3))
        assert_close(curve, bent + x @ s.end @ x, bound(6 * nv, 1e4))


def test_long_horizons_end_in_the_algebraic_equation() -> None:
    T, nv, nu = 500, 2, 1
    s = sweep(1, nv, nu, seed=3)
    repeated = [np.repeat(x, T, axis=0) for x in s.given[:18]]
    zero = [np.zeros_like(x) for x in repeated[15:18]]
    no_gap = [np.zeros_like(x) for x in repeated[7:9]]
    *found, pivot, decrease = kt.compiled(euler_riccati, **{**s.sizes, "T": T})(
        *repeated[:7],
        *no_gap,
        *repeated[9:15],
        *zero,
        np.zeros(()),
        *s.given[19:22],
        np.zeros(nv),
        np.zeros(nv),
        np.inf,
        0.0,
    )
    n, (A, B, H) = 2 * nv, (x[0] for x in (s.A, s.B, s.H))
    wanted = solve_discrete_are(A, B, H[:n, :n], H[n:, n:], s=H[n:, :n].T)
    K = np.linalg.solve(H[n:, n:] + B.T @ wanted @ B, H[n:, :n] + B.T @ wanted @ A)
    assert_close(np.concatenate([found[0][0], found[1][0]], axis=1), K, bound(n, 1e4))
    assert_close(np.block([[found[8], found[9]], [found[9].T, found[10]]]), wanted, bound(n, 1e4))
    assert pivot > 0.0
    assert decrease == 0.0


def test_it_costs_half_of_the_dense_recursion() -> None:
    """9 nv³ operations, half of them multiplications, and less than 0.48 of the dense sweep with all else."""
    T, nv, nu = 2, 36, 1
    sizes = {"T": T, "nv": nv, "nu": nu, "nb": 0, "threes": (), "sixes": ()}
    count, dense = kt.compiled(euler_riccati, **sizes).count(), kt.compiled(riccati, T=T, nx=2 * nv, nu=nu).count()
    assert 4.5 * T * nv**3 < count.multiplications < 5.6 * T * nv**3
    assert count.multiplications < 0.48 * dense.multiplications
    assert count.divisions == T * nu


def test_bits_and_what_is_not_convex_stay_in_their_sample() -> None:
    s = sweep(3, 7, 4, (2,))
    f = kt.compiled(euler_riccati, **s.sizes)
    alone = f(*s.given)
    batch = [np.repeat(x[None], 11, axis=0) for x in s.given]
    batch[14][2, 1, 0, 0] -= 1e4  # Huu
    batch[0][5, 1, 0, 0] = np.nan  # a_q
    found = f(*batch)
    assert found[-2][2] < 0.0
    assert np.isnan(found[-2][5])
    others = [i for i in range(11) if i not in (2, 5)]
    for one, many in zip(alone, found, strict=True):
        for i in others:
            np.testing.assert_array_equal(many[i], one)
