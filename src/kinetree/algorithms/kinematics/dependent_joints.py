"""Joints that depend on each other: velocities and forces of all joints, and constraints that close loops.

For independent velocities v the velocities of all joints are q̇ = G v, their accelerations q̈ = G v̇ + Ġ v. Forces on
all joints act as τ = Gᵀ τ_joints. Nodes whose joints are independent have G = 1. Cost O(n).

A Newton step closes loops, in O(r² n + r³) for a node with r rows of constraints φ and n joint rates:

    Δ = −W Kᵀ (K W Kᵀ + λ 1)⁻¹ φ,    λ = c φᵀφ + ε tr(K W Kᵀ)

W is 1 for the rates that may change, and 0 for the others. Of all corrections this is the shortest, and redundant rows
of K are harmless. The first part of λ bounds the step near singularities. It decreases faster than the residual φ, so
the convergence remains quadratic [S11]. The second part is rounding: it keeps the matrix invertible.

Each node takes its step by itself. Open loops always move, even if that opens them further: Newton's method has to
overshoot at times. Closed ones move only if that brings them closer to zero. So results are as exact as rounding
allows, they stay as they are from then on, and any number of steps may follow.

[S11] T. Sugihara, "Solvability-unconcerned inverse kinematics by the Levenberg–Marquardt method", IEEE Transactions on
      Robotics 27, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import largest, less, where
from kinetree.language.algorithm import algorithm
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import coupling_variation
from kinetree.spatial.inertia import Factor
from kinetree.spatial.value import Array


@algorithm(q=("q",), G=("joints", "v"), outputs=("G",), sparse=("G",))
def coupling(tree: Tree, q: Indexed, G: Indexed) -> None:
    """G: velocities of all joints per independent velocity."""
    for k, _ in tree.scatter():
        G[k, k] = k.coupling(q[k])


#: Ġ at a velocity, (joints, nv).
coupling_rate = directional_derivative(coupling, "coupling_rate", "v", {}, ("rate",))


@algorithm(q=("q",), v=("v",), rates=("joints",), outputs=("rates",))
def joint_rates(tree: Tree, q: Indexed, v: Indexed, rates: Indexed) -> None:
    """G v: velocities of all joints."""
    for k, _ in tree.scatter():
        rates[k] = k.coupling(q[k]) @ v[k]


@algorithm(q=("q",), v=("v",), a=("v",), rates=("joints",), outputs=("rates",))
def joint_accelerations(tree: Tree, q: Indexed, v: Indexed, a: Indexed, rates: Indexed) -> None:
    """G a + Ġ v: accelerations of all joints."""
    for k, _ in tree.scatter():
        rates[k] = k.coupling(q[k]) @ a[k] + k.coupling_drift(q[k], v[k])


@algorithm(q=("q",), forces=("joints",), tau=("v",), outputs=("tau",))
def joint_forces(tree: Tree, q: Indexed, forces: Indexed, tau: Indexed) -> None:
    """Gᵀ τ_joints: forces along the independent velocities that act like given forces on all joints."""
    for k, _ in tree.scatter():
        tau[k] = k.coupling(q[k]).T @ forces[k]


@algorithm(
    q=("q",), v=("v",), a=("v",), forces=("joints",), G=("joints", "v"), rates_q=("joints", "v"),
    accelerations_q=("joints", "v"), accelerations_v=("joints", "v"), forces_q=("v", "v"),
    outputs=("G", "rates_q", "accelerations_q", "accelerations_v", "forces_q"),
    sparse=("G", "rates_q", "accelerations_q", "accelerations_v", "forces_q"),
)  # fmt: skip
def joint_derivatives(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, forces: Indexed, G: Indexed, rates_q: Indexed,
    accelerations_q: Indexed, accelerations_v: Indexed, forces_q: Indexed,
) -> None:  # fmt: skip
    """G; derivatives of G v and of G a + Ġ v with respect to q (along the tangent) and v; ∂(Gᵀ τ_joints)/∂q."""
    for k, _ in tree.scatter():
        of = coupling_variation(k, q[k], v[k], a[k], forces[k])
        G[k, k], rates_q[k, k], forces_q[k, k] = k.coupling(q[k]), of.rates_q, of.forces_q
        accelerations_q[k, k], accelerations_v[k, k] = of.accelerations_q, of.accelerations_v


@algorithm(q=("q",), residual=("loops",), K=("loops", "joints"), outputs=("residual", "K"), sparse=("K",))
def loop_constraints(tree: Tree, q: Indexed, residual: Indexed, K: Indexed) -> None:
    """φ, zero where loops are closed, and K, its rate per velocity of each joint."""
    for k, _ in tree.scatter():
        residual[k], K[k, k] = k.loops(q[k])


#: Residuals of closed loops [m or rad].
CLOSED = 1e-10
#: The factors c and ε of λ.
DAMPING, ROUNDING = 1e-3, 1e-12
#: The longest step of a joint [rad or m].
LONGEST = 0.5
_NEVER_ZERO = 1e-300


@algorithm(
    q=("q",), free=("joints",), q_end=("q",), residual=("loops",), moving=(),
    outputs=("q_end", "residual", "moving"), sparse=("moving",),
)  # fmt: skip
def close_loops(tree: Tree, q: Indexed, free: Indexed, q_end: Indexed, residual: Indexed, moving: Indexed) -> None:
    """A step from q with W = `free`, φ where it leads, and the number of nodes that moved."""
    for k, _ in tree.scatter():
        before, K = k.loops(q[k])
        if not len(before):
            q_end[k] = q[k]
            continue
        moved = k.moved(q[k], _step(before, K, free[k]))
        after, _ = k.loops(moved)
        off = largest(before)
        taken = less(-off, -CLOSED, 1.0, less(largest(after), off, 1.0, 0.0))
        q_end[k] = _chosen(taken, moved, q[k])
        residual[k] = _chosen(taken, after, before)
        moving[...] = moving[...] + taken


def _step(residual: Array, K: Array, free: Array) -> Array:
    """Δ, shortened if it is too long."""
    weighted = K * free
    A = weighted @ K.T
    damping = DAMPING * (residual @ residual) + ROUNDING * np.trace(A) + _NEVER_ZERO
    step = -(Factor.of(A + damping * np.eye(len(A))).solve(residual) @ weighted)
    size = largest(step)
    shortened: Array = step * (LONGEST / less(size, LONGEST, LONGEST, size))
    return shortened


def _chosen(flag: Any, one: Array, other: Array) -> Array:
    return np.array([where(flag, x, y) for x, y in zip(one, other, strict=True)])
