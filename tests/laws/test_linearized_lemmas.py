"""The lemmas of [JR] in operator form, on random serial chains of revolute joints, against the library's functions.

Operators are dense matrices, written from the definitions.

Links are numbered from the tip, 1, to the base, n, and everything is referred to the inertial frame, as in the paper;
its starred quantities are transposed. H̃ is S*[H*], and where Lemmas 3.1 and 4.6 print H̃ f, H̃* f is meant.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest

import kinetree as kt
from tests.tolerance import Array, assert_close, bound, condition
from tests.trees import random_mechanism


def tilde(x: Array) -> Array:
    """The matrix of x ×."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def S(x: Array) -> Array:
    """Eq. 1.5; takes forces to their rates of change under a motion x."""
    return np.block([[tilde(x[:3]), tilde(x[3:])], [np.zeros((3, 3)), tilde(x[:3])]])


def Q(x: Array) -> Array:
    """Eq. 1.5."""
    return np.block([[tilde(x[:3]), tilde(x[3:])], [tilde(x[3:]), np.zeros((3, 3))]])


@dataclass(frozen=True)
class Chain:
    """A chain in one state; q, v and a in Kinetree's order, base first."""

    robot: kt.Model
    q: Array
    v: Array
    a: Array
    gravity: Array

    @property
    def n(self) -> int:
        return self.robot.nv

    def diagonal(self, blocks: list[Array]) -> Array:
        """diag{…}, tip first."""
        rows = [np.hstack([b if i == j else np.zeros(b.shape) for j in range(self.n)]) for i, b in enumerate(blocks)]
        return np.vstack(rows)

    # Links, tip first

    @cached_property
    def axes(self) -> list[Array]:
        """H*(k), (6,)."""
        names = [body.name for body in self.robot.bodies]
        columns = [self.robot.jacobian(self.q, name, "world")[:, i] for i, name in enumerate(names)]
        return columns[::-1]

    @cached_property
    def inertias(self) -> list[Array]:
        """M(k), (6, 6)."""
        result = []
        for body in self.robot.bodies:
            pose = self.robot.pose(self.q, [body.name])[0]
            R, c = pose[:3, :3], pose[:3, :3] @ body.com + pose[:3, 3]
            p = tilde(c)
            angular = R @ body.inertia @ R.T - body.mass * p @ p
            result.append(np.block([[angular, body.mass * p], [-body.mass * p, body.mass * np.eye(3)]]))
        return result[::-1]

    @cached_property
    def motion(self) -> tuple[list[Array], list[Array]]:
        """V(k) and α(k), tip first. Gravity is an acceleration of the base."""
        V, alpha = np.zeros(6), np.concatenate([np.zeros(3), -self.gravity])
        velocities, accelerations = [], []
        for h, rate, push in zip(self.axes[::-1], self.v, self.a):
            V = V + h * rate
            alpha = alpha + h * push + S(h).T @ V * rate  # Eqs. 2.12, 2.13
            velocities.append(V)
            accelerations.append(alpha)
        return velocities[::-1], accelerations[::-1]

    # Operators

    @cached_property
    def Phi(self) -> Array:
        return np.kron(np.tril(np.ones((self.n, self.n))), np.eye(6))

    @cached_property
    def E_phi(self) -> Array:
        return np.kron(np.diag(np.ones(self.n - 1), -1), np.eye(6))

    @cached_property
    def H(self) -> Array:
        return self.diagonal([h[:, None] for h in self.axes]).T

    @cached_property
    def M(self) -> Array:
        return self.diagonal(self.inertias)

    @cached_property
    def M_hat(self) -> Array:
        """Eq. 2.8."""
        blocks = []
        for M, V in zip(self.inertias, self.motion[0]):
            rate = S(V) @ M + M @ S(V).T  # Eq. 2.6
            blocks.append((rate - Q(M @ V)) / 2)
        return self.diagonal(blocks)

    @cached_property
    def H_rate(self) -> Array:
        """Ḣ*, (6n, n); Eq. 2.13."""
        return self.diagonal([(S(h).T @ V)[:, None] for h, V in zip(self.axes, self.motion[0])])

    @cached_property
    def H_rate_rate(self) -> Array:
        """Ḧ*, (6n, n)."""
        blocks = []
        for h, V, alpha in zip(self.axes, *self.motion):
            blocks.append((S(h).T @ alpha - S(V).T @ S(h).T @ V)[:, None])
        return self.diagonal(blocks)

    @cached_property
    def f(self) -> Array:
        """Forces through the joints, (6n,); Eq. 2.19."""
        V, alpha = map(np.concatenate, self.motion)
        return np.asarray(self.Phi @ (self.M @ alpha + self.M_hat @ V))

    @cached_property
    def H_tilde_f(self) -> Array:
        """H̃* f, (6n, n)."""
        return self.diagonal([(S(h) @ f)[:, None] for h, f in zip(self.axes, self.f.reshape(self.n, 6))])


@dataclass(frozen=True)
class Articulated:
    """Eqs. 4.3 and 4.12 as operators: P, P̂, D, G, Ĝ, ψ."""

    chain: Chain

    @cached_property
    def blocks(self) -> list[tuple[Array, Array, Array, Array, Array]]:
        """P(k), P̂(k), D(k), G(k) and Ĝ(k), tip first. Ĝ = P̂* H* D⁻¹, where P̂ H* D⁻¹ is printed."""
        chain, n = self.chain, self.chain.n
        P, P_hat, result = np.zeros((6, 6)), np.zeros((6, 6)), []
        for k in range(n):
            here = slice(6 * k, 6 * k + 6)
            P, P_hat = P + chain.M[here, here], P_hat + chain.M_hat[here, here]
            h = chain.axes[k][:, None]
            D = h.T @ P @ h
            G, G_hat = P @ h / D, P_hat.T @ h / D
            result.append((P, P_hat, D, G, G_hat))
            tau_bar = np.eye(6) - G @ h.T
            P, P_hat = tau_bar @ P, tau_bar @ P_hat
        return result

    def operator(self, which: int) -> Array:
        """One of the blocks as a block-diagonal operator."""
        return self.chain.diagonal([block[which] for block in self.blocks])

    @cached_property
    def psi(self) -> Array:
        tau_bar = np.eye(6 * self.chain.n) - self.operator(3) @ self.chain.H
        return np.asarray(np.linalg.inv(np.eye(6 * self.chain.n) - self.chain.E_phi @ tau_bar))

    @cached_property
    def K(self) -> Array:
        return np.asarray(self.chain.E_phi @ self.operator(3))

    @cached_property
    def K_hat(self) -> Array:
        return np.asarray(self.chain.E_phi @ self.operator(4))

    @cached_property
    def innovations(self) -> Array:
        """I − H ψ K."""
        return np.asarray(np.eye(self.chain.n) - self.chain.H @ self.psi @ self.K)


@pytest.fixture(params=[1, 2, 5, 9], ids=lambda n: f"n={n}", scope="module")
def chain(request: pytest.FixtureRequest) -> Chain:
    n = request.param
    mechanism = random_mechanism("chain", ["revolute"] * n, n, branching=0.0)
    robot = mechanism.kinetree()
    rng = np.random.default_rng(n)
    q = robot.random_configuration(rng)
    v, a = rng.uniform(-1.0, 1.0, (2, n))
    return Chain(robot, q, v, a, np.array(mechanism.gravity))


def tip_first(x: Array) -> Array:
    """A vector or matrix of Kinetree's in the paper's order."""
    return x[::-1] if x.ndim == 1 else x[::-1, ::-1]


def inverse(chain: Chain) -> tuple[Array, ...]:
    """B_D, A_D and the mass matrix."""
    return tuple(map(tip_first, chain.robot.linearize(chain.q, chain.v, a=chain.a)))


def forward(chain: Chain) -> tuple[Array, ...]:
    """B_C, A_C (both with the paper's sign) and the inverse of the mass matrix, about the same accelerations."""
    tau = chain.robot.inverse_dynamics(chain.q, chain.v, chain.a)
    dq, dv, Minv = map(tip_first, chain.robot.linearize(chain.q, chain.v, tau=tau))
    return -dq, -dv, Minv


def solving(chain: Chain) -> float:
    return bound(chain.n, condition(chain.robot.mass_matrix(chain.q)))


def test_functions_of_spatial_vectors() -> None:
    """Eq. 1.6."""
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    assert_close(Q(x) @ y, -S(y) @ x, bound(6))
    assert_close(S(x).T @ x, np.zeros(6), bound(6))
    assert_close(S(x).T @ y, -S(y).T @ x, bound(6))


def test_newton_euler_operators(chain: Chain) -> None:
    """Eqs. 2.7, 2.19 and 2.20."""
    V = np.concatenate(chain.motion[0])
    rates = np.concatenate([(S(V) @ M + M @ S(V).T) @ V for M, V in zip(chain.inertias, chain.motion[0])])
    assert_close(chain.M_hat @ V, rates, bound(chain.n))
    tau = tip_first(chain.robot.inverse_dynamics(chain.q, chain.v, chain.a))
    assert_close(chain.H @ chain.f, tau, bound(chain.n))


def test_lemma_3_1(chain: Chain) -> None:
    H, Phi, M, M_hat = chain.H, chain.Phi, chain.M, chain.M_hat
    B_D, A_D, mass = inverse(chain)
    assert_close(H @ Phi @ M @ Phi.T @ H.T, mass, bound(chain.n))
    assert_close(2 * H @ Phi @ (M_hat @ Phi.T @ H.T + M @ Phi.T @ chain.H_rate), A_D, bound(chain.n))
    inner = chain.H_tilde_f + 2 * M_hat @ Phi.T @ chain.H_rate + M @ Phi.T @ chain.H_rate_rate
    assert_close(H @ Phi @ inner, B_D, bound(chain.n))


def test_lemma_3_2(chain: Chain) -> None:
    """Composite inertias; the sums of Eq. 3.7 run over M(j), where M(k) is printed."""
    H, Phi, n = chain.H, chain.Phi, chain.n
    beyond = Phi - np.eye(6 * n)
    diagonals = [[D[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k in range(n)] for D in (chain.M, chain.M_hat)]
    R, R_hat = (chain.diagonal(list(np.cumsum(blocks, axis=0))) for blocks in diagonals)
    B_D, A_D, mass = inverse(chain)
    Hd, Hdd = chain.H_rate, chain.H_rate_rate
    assert_close(H @ (Phi @ R + R @ beyond.T) @ H.T, mass, bound(n))
    A = 2 * H @ Phi @ (R @ Hd + R_hat @ H.T) + 2 * H @ (R @ beyond.T @ Hd + R_hat @ beyond.T @ H.T)
    assert_close(A, A_D, bound(n))
    B = H @ Phi @ (chain.H_tilde_f + 2 * R_hat @ Hd + R @ Hdd) + H @ (2 * R_hat @ beyond.T @ Hd + R @ beyond.T @ Hdd)
    assert_close(B, B_D, bound(n))


def test_lemma_4_1(chain: Chain) -> None:
    B_D, A_D, mass = inverse(chain)
    B_C, A_C, Minv = forward(chain)
    assert_close(Minv @ mass, np.eye(chain.n), solving(chain))
    assert_close(np.linalg.solve(mass, A_D), A_C, solving(chain))
    assert_close(np.linalg.solve(mass, B_D), B_C, solving(chain))


def test_lemmas_4_2_to_4_4(chain: Chain) -> None:
    """The innovations factorisation, its inverse, and the inverse of the mass matrix."""
    art = Articulated(chain)
    D, one = art.operator(2), np.eye(chain.n)
    factor = one + chain.H @ chain.Phi @ art.K
    _, _, mass = inverse(chain)
    assert_close(factor @ D @ factor.T, mass, bound(chain.n))
    assert_close(factor @ art.innovations, one, solving(chain))
    assert_close(art.innovations.T @ np.linalg.inv(D) @ art.innovations, forward(chain)[2], solving(chain))


def test_lemma_4_5(chain: Chain) -> None:
    art = Articulated(chain)
    H, Phi = chain.H, chain.Phi
    D = np.linalg.inv(art.operator(2))
    assert_close(art.innovations @ H @ Phi, H @ art.psi, solving(chain))
    left = forward(chain)[2] @ H @ Phi @ chain.M @ Phi.T
    right = art.innovations.T @ D @ H @ art.psi @ art.operator(0) + art.K.T @ art.psi.T
    assert_close(left, right, solving(chain))


def test_lemma_4_6(chain: Chain) -> None:
    art = Articulated(chain)
    H, Phi, P, Hd, Hdd = chain.H, chain.Phi, art.operator(0), chain.H_rate, chain.H_rate_rate
    outer = art.innovations.T @ np.linalg.inv(art.operator(2)) @ H @ art.psi
    inward = art.K.T @ art.psi.T
    B_C, A_C, _ = forward(chain)
    assert_close(2 * outer @ (chain.M_hat @ Phi.T @ H.T + P @ Hd) + 2 * inward @ Hd, A_C, solving(chain))
    B = outer @ (chain.H_tilde_f + 2 * chain.M_hat @ Phi.T @ Hd + P @ Hdd) + inward @ Hdd
    assert_close(B, B_C, solving(chain))


def test_lemma_4_7(chain: Chain) -> None:
    """With Ĝ = P̂* H* D⁻¹, where P̂ H* D⁻¹ is printed."""
    art = Articulated(chain)
    H, Phi, Hd, Hdd = chain.H, chain.Phi, chain.H_rate, chain.H_rate_rate
    Y_A, Y_B = forces(chain, art)
    solve = np.linalg.inv(art.operator(2)) @ H @ art.psi
    inward = art.K.T @ art.psi.T
    B_C, A_C, _ = forward(chain)
    A = art.innovations.T @ (solve @ Y_A + 2 * art.K_hat.T @ Phi.T @ H.T) + 2 * inward @ Hd
    assert_close(A, A_C, solving(chain))
    B = art.innovations.T @ (solve @ Y_B + 2 * art.K_hat.T @ Phi.T @ Hd) + inward @ Hdd
    assert_close(B, B_C, solving(chain))


def forces(chain: Chain, art: Articulated) -> tuple[Array, Array]:
    """Y_A and Y_B, Eq. 4.14."""
    P, P_hat, Hd = art.operator(0), art.operator(1), chain.H_rate
    return 2 * (P_hat @ chain.H.T + P @ Hd), 2 * P_hat @ Hd + P @ chain.H_rate_rate + chain.H_tilde_f


def compliances(chain: Chain, art: Articulated) -> tuple[Array, Array, Array]:
    """Λ (Eq. 4.19), Λ⁺ and Ĵ (Eq. 4.22), block-diagonal."""
    inner, J = np.zeros((6, 6)), np.zeros((6, 6))
    here, before, hats = [], [], []
    for h, (_, _, D, G, G_hat) in reversed(list(zip(chain.axes, art.blocks))):
        tau_bar = np.eye(6) - G @ h[None, :]
        before.append(inner)
        inner = tau_bar.T @ inner @ tau_bar + np.outer(h, h) / D
        J = tau_bar.T @ J + (G_hat @ h[None, :]).T
        here.append(inner)
        hats.append(J)
    return tuple(chain.diagonal(blocks[::-1]) for blocks in (here, before, hats))  # type: ignore[return-value]


def test_lemma_4_8(chain: Chain) -> None:
    art = Articulated(chain)
    compliance, _, _ = compliances(chain, art)
    beyond = art.psi - np.eye(6 * chain.n)
    whole = art.psi.T @ chain.H.T @ np.linalg.inv(art.operator(2)) @ chain.H @ art.psi
    assert_close(compliance + beyond.T @ compliance + compliance @ beyond, whole, solving(chain))


def test_lemma_4_9(chain: Chain) -> None:
    art = Articulated(chain)
    H, Phi, psi, K, G, Hd = chain.H, chain.Phi, art.psi, art.K, art.operator(3), chain.H_rate
    Y_A, Y_B = forces(chain, art)
    here, before, J_hat = compliances(chain, art)
    L = np.linalg.inv(art.operator(2)) + G.T @ before @ G
    U = L @ H - G.T @ before
    E_A = 2 * Hd - here @ Y_A + 2 * J_hat @ H.T
    E_B = chain.H_rate_rate - here @ Y_B + 2 * J_hat @ Hd
    Q_star = 2 * (art.K_hat - J_hat.T @ K).T
    B_C, A_C, Minv = forward(chain)
    assert_close(L - K.T @ psi.T @ U.T - U @ psi @ K, Minv, solving(chain))
    assert_close(U @ psi @ Y_A + K.T @ psi.T @ E_A + Q_star @ Phi.T @ H.T, A_C, solving(chain))
    assert_close(U @ psi @ Y_B + K.T @ psi.T @ E_B + Q_star @ Phi.T @ Hd, B_C, solving(chain))


def test_accelerations_without_gravity(chain: Chain) -> None:
    """Eq. 4.10, which holds for a base that does not accelerate."""
    still = Chain(chain.robot, chain.q, chain.v, chain.a, np.zeros(3))
    art = Articulated(still)
    V, Hv = np.concatenate(still.motion[0]), still.H_rate @ tip_first(still.v)
    T = still.H @ still.f
    inner = T - still.H @ art.psi @ (art.K @ T + still.M_hat @ V + art.operator(0) @ Hv)
    a = art.innovations.T @ np.linalg.inv(art.operator(2)) @ inner - art.K.T @ art.psi.T @ Hv
    assert_close(a, tip_first(still.a), solving(still))


def recursion(chain: Chain, step: Callable[[int, Array], Array], X: list[Array], outwards: bool) -> Array:
    """S = diag{S(k)} of Lemma A.1: S(k) is a step from the link before, and X(k)."""
    S_k, blocks = np.zeros((6, 6)), [np.zeros((6, 6))] * chain.n
    for k in reversed(range(chain.n)) if outwards else range(chain.n):
        S_k = blocks[k] = step(k, S_k) + X[k]
    return chain.diagonal(blocks)


def test_lemma_a_1(chain: Chain) -> None:
    """How products of operators decompose. The recursion of (A.3) uses S(k + 1), where S(k) is printed."""
    art, n, one = Articulated(chain), chain.n, np.eye(6 * chain.n)
    blocks = list(np.random.default_rng(n).normal(size=(n, 6, 6)))
    X, Phi, psi = chain.diagonal(blocks), chain.Phi, art.psi
    Phi_tilde, psi_tilde = Phi - one, psi - one
    tau_bar = [np.eye(6) - G @ h[None, :] for (_, _, _, G, _), h in zip(art.blocks, chain.axes)]  # ψ(k + 1, k)

    plain = recursion(chain, lambda _, S_k: S_k, blocks, outwards=False)
    assert_close(Phi @ plain + plain @ Phi_tilde.T, Phi @ X @ Phi.T, bound(n))  # A.1
    inward = recursion(chain, lambda k, S_k: tau_bar[k - 1] @ S_k, blocks, outwards=False)
    assert_close(psi @ inward + inward @ Phi_tilde.T, psi @ X @ Phi.T, solving(chain))  # A.2
    both = recursion(chain, lambda k, S_k: tau_bar[k].T @ S_k @ tau_bar[k], blocks, outwards=True)
    assert_close(psi.T @ both + both @ psi_tilde, psi.T @ X @ psi, solving(chain))  # A.3
    plain = recursion(chain, lambda _, S_k: S_k, blocks, outwards=True)
    assert_close(plain @ Phi.T - Phi.T @ plain, Phi.T @ X @ Phi_tilde.T, bound(n))  # A.4
    outward = recursion(chain, lambda k, S_k: tau_bar[k].T @ S_k, blocks, outwards=True)
    assert_close(outward @ Phi.T - psi.T @ outward, psi.T @ X @ Phi_tilde.T, solving(chain))  # A.5


def sensitivity(chain: Chain, value: Callable[[Chain], Array]) -> tuple[Array, float]:
    """∇_θ of something that belongs to the links, by differences of fourth order, with its relative error."""
    step, columns = 2e-3, []
    for j in reversed(range(chain.n)):  # tip first
        moved = (replace(chain, q=chain.q + i * step * np.eye(chain.n)[j]) for i in (-2, -1, 1, 2))
        far_before, before, after, far_after = (value(one) for one in moved)
        columns.append((far_before - far_after + 8.0 * (after - before)) / (12.0 * step))
    return np.array(columns).T, bound(chain.n) / step + step**4 / 10.0  # rounding, and the next term of the series


def test_lemma_a_2(chain: Chain) -> None:
    """How operators change with the joint angles. (A.6) has H̃(k) x(k), a number, where H̃*(k) X(k) is printed."""
    rng, n = np.random.default_rng(chain.n), chain.n
    x, vectors = rng.normal(size=n), list(rng.normal(size=(n, 6)))
    X, moved = np.concatenate(vectors), chain.Phi.T @ chain.H.T
    assert_close(
        chain.diagonal([S(h).T * number for h, number in zip(chain.axes, x)]) @ moved,
        *sensitivity(chain, lambda c: c.H.T @ x),
    )  # A.6
    expected = sensitivity(chain, lambda c: c.H @ X)
    turned = chain.diagonal([Q(vector) for vector in vectors])
    assert_close(chain.H @ turned @ moved, *expected)  # A.7
    assert_close(chain.H @ turned @ (chain.Phi - np.eye(6 * n)).T @ chain.H.T, *expected)
    blocks = [Q(M @ vector) + M @ S(vector).T for M, vector in zip(chain.inertias, vectors)]
    assert_close(-chain.diagonal(blocks) @ moved, *sensitivity(chain, lambda c: c.M @ X))  # A.8
    momenta = chain.diagonal([Q(M @ V) for M, V in zip(chain.inertias, chain.motion[0])])
    assert_close(
        chain.M @ chain.Phi.T @ chain.H_rate - momenta @ moved,
        *sensitivity(chain, lambda c: c.M @ np.concatenate(c.motion[0])),
    )  # A.9
