"""The relations of [J11] between blocks of operators, and between operators and the recursions that evaluate them.

Relations between whole operators are in `test_operators.py`; `docs/operators.md` says where each one is tested.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.runtime import reference
from tests.laws.operator_cases import CASES, Array, Dense, dense, stacked
from tests.tolerance import assert_close

#: Relative to the largest numbers involved.
TOLERANCE = 1e-10


@pytest.fixture(params=CASES)
def d(request: Any) -> Dense:
    return dense(request.param)


def vector(size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=size)


def test_an_spo_operator_multiplies_weights_along_paths(d: Dense) -> None:
    """The closed sums of (6) and (9): A(i, j) = A(i, p(j)) A(p(j), j) below i, one at i, zero elsewhere."""
    for spo, weights in ((d.A, d.E_A), (d.psi, d.E_psi)):
        expected = np.eye(len(spo))
        for i, j in product(d.nodes, d.nodes):
            if i != j and d.supports(i, j):
                p = d.parents[j]
                expected[d.own(i), d.own(j)] = d.block(spo, i, p) @ d.block(weights, p, j)
        assert_close(spo, expected, TOLERANCE)
        assert not spo[expected == 0.0].any()


def test_lemmas_1_and_2_and_corollary_3_1(d: Dense) -> None:
    """(4), (5) and (7), (8); then the same recursions of Ã = A − 1."""
    x = vector(len(d.A))
    gathered, scattered = d.operators.A @ x, d.operators.A.T @ x
    strict = d.operators.A - d.operators.I
    below, above = strict @ x, strict.T @ x
    for k in d.nodes:
        own, p = d.own(k), d.parents[k]
        inward = [(d.block(d.E_A, k, i), d.own(i)) for i in d.children(k)]
        assert_close(gathered[own], sum((W @ gathered[i] for W, i in inward), x[own]), TOLERANCE)
        assert_close(below[own], sum((W @ (below[i] + x[i]) for W, i in inward), 0.0 * x[own]), TOLERANCE)
        outward = np.zeros((len(x[own]), 0)) if p < 0 else d.block(d.E_A, p, k).T
        there = slice(0, 0) if p < 0 else d.own(p)
        assert_close(scattered[own], outward @ scattered[there] + x[own], TOLERANCE)
        assert_close(above[own], outward @ (above[there] + x[there]), TOLERANCE)


def test_lemma_3_blocks(d: Dense) -> None:
    """(12) to (16), for B = A, where Y is the composite inertia, and for B = ψ, where it is the articulated one."""
    for Y, B, E_B in ((d.R, d.A, d.E_A), (d.P, d.psi, d.E_psi)):
        carried = d.E_A @ Y @ E_B.T
        assert_close(carried, d.diagonal(carried), TOLERANCE)  # (16)
        assert_close(Y - carried, d.M, TOLERANCE, float(np.abs(Y).max()))  # (12)
        Z = d.A @ d.M @ B.T
        scale = float(np.abs(Z).max())
        for k in d.nodes:
            parts = [d.block(d.E_A, k, j) @ d.block(Y, j, j) @ d.block(E_B, k, j).T for j in d.children(k)]
            assert_close(sum(parts, d.block(d.M, k, k)), d.block(Y, k, k), TOLERANCE, scale)  # (13), (14)
        expected = np.array(Y)
        for i, j in product(d.nodes, d.nodes):
            if i != j and d.supports(i, j):
                (k,) = (c for c in d.children(i) if d.supports(c, j))
                expected[d.own(i), d.own(j)] = d.block(d.E_A, i, k) @ d.block(Z, k, j)
            elif i != j and d.supports(j, i):
                (k,) = (c for c in d.children(j) if d.supports(c, i))
                expected[d.own(i), d.own(j)] = d.block(Z, i, k) @ d.block(E_B, j, k).T
        assert_close(Z, expected, TOLERANCE)  # (15)


def backward(d: Dense, A: Array, B: Array, E_A: Array, E_B: Array) -> tuple[Array, Array]:
    """Z = A* X B and the solution Y of its backward Lyapunov equation, by (24)."""
    Y = np.zeros_like(d.X)
    for k in d.nodes:
        own, p = d.own(k), d.parents[k]
        Y[own, own] = d.block(d.X, k, k)
        if p >= 0:
            Y[own, own] += d.block(E_A, p, k).T @ d.block(Y, p, p) @ d.block(E_B, p, k)
    return A.T @ d.X @ B, Y


def test_lemma_5_blocks(d: Dense) -> None:
    """(21) to (26), for A = B = ψ, where Z = Ω, and for A ≠ B."""
    for A, B, E_A, E_B in ((d.psi, d.psi, d.E_psi, d.E_psi), (d.A, d.psi, d.E_A, d.E_psi)):
        Z, Y = backward(d, A, B, E_A, E_B)
        scale = float(np.abs(Z).max())
        assert_close(Y - d.diagonal(E_A.T @ Y @ E_B), d.X, TOLERANCE, scale)  # (22), (23), (26)
        apart, expected = np.zeros_like(Z), np.array(Y)
        for i, j in product(d.nodes, d.nodes):
            at, common = (d.own(i), d.own(j)), d.mechanism.topology.nearest_common_ancestor(i, j)
            if common not in (i, j, -1):
                apart[at] = d.block(A, common, i).T @ d.block(Y, common, common) @ d.block(B, common, j)
            elif i != j and common == j:
                expected[at] = d.block(E_A, d.parents[i], i).T @ d.block(Z, d.parents[i], j)
            elif i != j and common == i:
                expected[at] = d.block(Z, i, d.parents[j]) @ d.block(E_B, d.parents[j], j)
        assert_close(Z, expected + apart, TOLERANCE)  # (25), Algorithm 4.3
        one = np.eye(len(Z))
        assert_close(Y + (A - one).T @ Y + Y @ (B - one) + apart, Z, TOLERANCE, scale)  # (21)
    assert_close(d.Omega, d.psi.T @ d.X @ d.psi, TOLERANCE)


@pytest.mark.parametrize(("name", "holds"), [("abstract chain", True), ("abstract tree", False)])
def test_lemma_6_holds_on_chains_only(name: str, holds: bool) -> None:
    """(27) and (28): without the blocks of unrelated nodes, and without diagOf. (29) runs from the base to the tip."""
    d = dense(name)
    Z, Y = backward(d, d.psi, d.psi, d.E_psi, d.E_psi)
    strict = d.psi - np.eye(len(d.psi))
    errors = (Z - (Y + strict.T @ Y + Y @ strict), d.X - (Y - d.E_psi.T @ Y @ d.E_psi))
    for error in errors:
        worst = np.abs(error).max() / np.abs(Z).max()
        assert (worst < 1e-9) if holds else (worst > 1e-4)


def test_articulation(d: Dense) -> None:
    """(32), (33) and (35): P⁺ = τ̄ P = τ̄ P τ̄*, by which ψ(p, k) = A(p, k) τ̄(k) loses as much rank as k has freedom."""
    tau_bar = np.eye(len(d.P)) - d.G @ d.H
    after = tau_bar @ d.P
    assert_close(after, tau_bar @ d.P @ tau_bar.T, TOLERANCE)
    scale = float(np.abs(d.P).max())
    assert_close(d.P - d.E_A @ after @ d.E_A.T, d.M, TOLERANCE, scale)
    for k in d.nodes:
        n = d.mechanism.kinds[k].nv
        block = d.block(tau_bar, k, k)
        assert np.linalg.matrix_rank(block, tol=1e-8 * max(1.0, float(np.abs(block).max()))) == len(block) - n
        if d.parents[k] >= 0:
            weight = d.block(d.E_A, d.parents[k], k)
            assert_close(d.block(d.E_psi, d.parents[k], k), weight @ block, TOLERANCE)


def test_corollary_6_1_determinant(d: Dense) -> None:
    """(52) and (53). Nodes are numbered base first, so that the factor is upper triangular, with a unit diagonal."""
    innovations = d.innovations
    assert_close(np.tril(innovations), np.eye(len(innovations)), 1e-14)
    log_det = np.linalg.slogdet(d.mass)[1]
    starts = d.mechanism.v_starts
    parts = (d.D[a:b, a:b] for a, b in pairwise(starts))
    assert_close(log_det, sum(np.linalg.slogdet(part)[1] for part in parts if part.size), 1e-9)


def test_inverse_and_forward_dynamics(d: Dense) -> None:
    """(1) to (3) and Algorithm 3.1; Lemma 12, (54) to (58), and Algorithm 6.1. E_φ in (58a, e) is E_A."""
    nv, q = d.mechanism.nv, d.operators._q
    v, vdot, T = (vector(nv, seed) for seed in (1, 2, 3))

    def run(algorithm: Any, *arguments: Any) -> Any:
        results = reference.run(algorithm, d.mechanism, (), list(arguments), algorithm.name)
        return results if len(results) > 1 else results[0]

    V, alpha, f, a, b, resistance = run(stacked, q, v, vdot)
    armature = (d.operators.armature @ np.eye(nv)).diagonal()
    A, H, M, P, G, E = d.A, d.H, d.M, d.P, d.G, d.E_A
    size = float(np.abs(f).max())
    assert_close(A.T @ H.T @ v, V, TOLERANCE)
    assert_close(A.T @ (H.T @ vdot + a), alpha, TOLERANCE)
    assert_close(A @ (M @ alpha + b), f, TOLERANCE)
    needed = run(inverse_dynamics, q, v, vdot, np.zeros((0, 6)))
    assert_close(H @ f + armature * vdot + resistance, needed, TOLERANCE, size)
    C = H @ A @ (M @ A.T @ a + b)
    assert_close(d.mass @ vdot + C + resistance, needed, TOLERANCE, size)

    inverse, psi, one = np.linalg.inv(d.D), d.psi, np.eye(nv)
    factor = one - H @ psi @ d.K
    expected = run(forward_dynamics, q, v, T + resistance, np.zeros((0, 6)))
    scale = float(np.abs(inverse).max()) * max(1.0, float(np.abs(C).max()))
    assert_close(factor.T @ inverse @ factor @ (T - C), expected, TOLERANCE, scale)  # (55)
    left = factor @ C
    assert_close(left, H @ psi @ (M @ A.T @ a + b), TOLERANCE, size)  # (56)
    assert_close(left, (H @ psi @ P + d.D @ d.K.T @ A.T) @ a + H @ psi @ b, TOLERANCE, size)
    right = factor.T @ inverse @ H @ psi @ (P @ a + b) + d.K.T @ psi.T @ a
    assert_close(factor.T @ inverse @ left, right, TOLERANCE, scale)  # (57)
    found = factor.T @ inverse @ (T - H @ psi @ (d.K @ T + P @ a + b)) - d.K.T @ psi.T @ a
    assert_close(found, expected, TOLERANCE, scale)  # (54)

    z = psi @ (d.K @ T + P @ a + b)
    epsilon = T - H @ z  # (58c)
    nu, z_plus = inverse @ epsilon, z + G @ epsilon  # (58d), (58b)
    assert_close(z, E @ z_plus + P @ a + b, TOLERANCE, size)  # (58a)
    accelerations = A.T @ (H.T @ expected + a)
    alpha_plus = E.T @ accelerations  # (58e)
    assert_close(nu - G.T @ alpha_plus, expected, TOLERANCE, scale)  # (58f)
    assert_close(alpha_plus + H.T @ expected + a, accelerations, TOLERANCE)  # (58g)


def test_segments(d: Dense) -> None:
    """(61) to (63): operators partitioned into the serial chains of the tree."""
    segments = d.mechanism.topology.segments
    rows = [np.concatenate([np.arange(s.start, s.stop) for s in map(d.own, segment)]) for segment in segments]
    above = [next((i for i, s in enumerate(segments) if d.parents[each[0]] in s), -1) for each in segments]

    def part(matrix: Array, j: int, k: int) -> Array:
        found: Array = matrix[np.ix_(rows[j], rows[k])]
        return found

    for j, k in product(range(len(segments)), range(len(segments))):
        between = part(d.E_A, j, k)
        if j == k:
            resolvent = np.linalg.inv(np.eye(len(between)) - between)
            assert_close(part(d.A, j, j), resolvent, TOLERANCE)
        elif above[k] == j:  # (62): from the base of segment k to the tip of segment j
            only = np.zeros_like(between)
            n, m = (d.mechanism.kinds[node].dimension for node in (segments[j][-1], segments[k][0]))
            only[-n:, :m] = d.block(d.E_A, segments[j][-1], segments[k][0])
            assert_close(between, only, TOLERANCE)
        else:
            assert not between.any()
        if j != k and d.supports(segments[j][-1], segments[k][0]):
            i = k
            while above[i] != j:
                i = above[i]
            assert_close(part(d.A, j, k), part(d.A, j, j) @ part(d.E_A, j, i) @ part(d.A, i, k), TOLERANCE)  # (63)
        elif j != k:
            assert not part(d.A, j, k).any()
