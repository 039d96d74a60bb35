"""Spatial operators of a serial chain of revolute joints as dense matrices, written from the definitions of [JR].

Links are numbered from the tip, 1, to the base, n, and everything is referred to the inertial frame, as in the paper;
its starred quantities are transposed. H̃ is S*[H*], and where Lemmas 3.1 and 4.6 print H̃ f, H̃* f is meant.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import kinetree as kt

Array = np.ndarray[Any, np.dtype[Any]]


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
