"""Derivatives of the time steps of `algorithms/dynamics/time_step.py`, along tangents at both ends.

Of the semi-implicit Euler method, v′ = v + a dt, q′ = q ⊕ v′ dt, in O(n²):

    pass        loop                leaves
    dynamics    as of the source    ∂a/∂q, ∂a/∂v and M⁻¹, in the lower half of A and B
    step        scatter, columns    rows of v′, scaled; rows of q′: those of v′ times the right Jacobian of ⊕

Source of the first pass: `forward_dynamics_derivatives.py`. The other methods are stages of the chain rule and an end.
First stages look ahead along v itself, so that derivatives of their configurations are block-diagonal, in O(n²).
Products of full matrices, in O(n³), take them from stage to stage: one for the midpoint method, five for rk4. All
stages linearise with the same recursion. Of x = (q, v), a step has the derivatives δx′ = A δx + B δτ.

Inputs are at the start of the step, or those of the stage before (ξ̇, a); `…_there` is at the stage, `ahead` steps from
the start. d_… are derivatives with respect to q, v and τ at the start, and by_there those of the accelerations at the
stage with respect to q and v there, and to τ, in that order along their middle axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.dynamics.time_step import FieldArgument
from kinetree.kernels.language import columns
from kinetree.kernels.products import MatrixView, add_products
from kinetree.language.algorithm import Entries, algorithm
from kinetree.language.roles import ColumnRole, NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.value import Array


@algorithm(
    q=("q",), v=("v",), tau=("v",), dt=(), wrench=("frames", 6), A=(2, "v", 2, "v"), B=(2, "v", "v"),
    outputs=("A", "B"), sparse=("A", "B"), stacked=("A", "B"),
)  # fmt: skip
def step_derivatives(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, dt: Indexed, wrench: Indexed, A: Entries, B: Entries
) -> None:
    """δx′ = A δx + B δτ, for x = (q, v)."""
    lower = A.block(1, 0), A.block(1, 1), B.block(1)
    upper = A.block(0, 0), A.block(0, 1), B.block(0)
    forward_dynamics_derivatives(tree, q, v, tau, wrench, *lower)
    for k, _ in tree.scatter():
        step = (v[k] + k.acceleration * dt[...]) * dt[...]
        end = k.manifold.right_jacobian(step) * dt[...]
        for c in tree.columns():
            for below, above in zip(lower, upper, strict=True):
                row = below[k, c] * dt[...]
                below[k, c] = row
                above[k, c] = end @ row
        lower[1][k, k] = lower[1][k, k] + np.eye(len(step))
        upper[0][k, k] = upper[0][k, k] + k.manifold.transport(step)
        upper[1][k, k] = upper[1][k, k] + end


@algorithm(
    q=("q",), v=("v",), tau=("v",), xi_rate=("v",), a=("v",), dt=(), ahead=(), wrench=("frames", 6),
    a_there=("v",), by_there=("v", 3, "v"), outputs=("a_there", "by_there"), sparse=("by_there",),
)  # fmt: skip
def linearization_ahead(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, xi_rate: Indexed, a: Indexed, dt: Indexed, ahead: Indexed,
    wrench: Indexed, a_there: Indexed, by_there: Entries,
) -> None:  # fmt: skip
    """Accelerations at q ⊕ ξ̇ s and v + a s, s seconds ahead, linearised there. Cost O(n²)."""
    seconds = dt[...] * ahead[...]
    for k, _ in tree.scatter():
        k.q_there, k.v_there = k.manifold.integrate(q[k], xi_rate[k] * seconds), v[k] + a[k] * seconds

    forward_dynamics_derivatives(
        tree, FieldArgument("q_there"), FieldArgument("v_there"), tau, wrench, *_blocks(by_there)
    )

    for k, _ in tree.scatter():
        a_there[k] = k.acceleration


def _moved(k: NodeRole, c: ColumnRole, by_there: Entries, start: Array, end: Array, into: Sequence[Entries]) -> None:
    """Set derivatives of accelerations at q ⊕ v s with respect to q and v at the start and to τ, from those there.

    `start` and `end` are derivatives of the node's configuration there, with respect to q and v at the start.
    """
    by_q, by_v, by_tau = (block[c, k] for block in _blocks(by_there))
    into[0][c, k], into[1][c, k], into[2][c, k] = by_q @ start, by_q @ end + by_v, by_tau


@algorithm(
    v=("v",), a=("v",), dt=(), ahead=(), by_there=("v", 3, "v"), d_a=("v", 3, "v"),
    xi_rate_there=("v",), d_xi_rate_there=("v", 3, "v"), d_a_there=("v", 3, "v"),
    outputs=("xi_rate_there", "d_xi_rate_there", "d_a_there"), sparse=("d_xi_rate_there", "d_a_there"),
)  # fmt: skip
def second_stage_derivatives(
    tree: Tree, v: Indexed, a: Indexed, dt: Indexed, ahead: Indexed, by_there: Entries, d_a: Entries,
    xi_rate_there: Indexed, d_xi_rate_there: Entries, d_a_there: Entries,
) -> None:  # fmt: skip
    """`stage_derivatives` after a stage with ξ̇ = v. Cost O(n³)."""
    seconds = dt[...] * ahead[...]
    for k, _ in tree.scatter():
        step, there = v[k] * seconds, v[k] + a[k] * seconds
        by_xi, by_v = _rate(k, step, there)
        xi_rate_there[k] = by_v @ there
        start, end = k.manifold.transport(step), k.manifold.right_jacobian(step) * seconds
        for c in tree.columns():
            d_xi_rate_there[k, c] = by_v @ (d_a[k, c] * seconds)
            _moved(k, c, by_there, start, end, _blocks(d_a_there))
        d_xi_rate_there.block(1)[k, k] = d_xi_rate_there.block(1)[k, k] + by_v + by_xi * seconds
    _add_products(tree, _blocks(d_a_there), by_there.block(1), seconds, _blocks(d_a))


def _add_products(tree: Tree, results: Sequence[Indexed], left: Indexed, factor: Any, right: Sequence[Indexed]) -> None:
    """Add products with one matrix, `result += factor · left @ right`, (nv, nv) each."""
    n = columns(tree)
    add_products(results, (n, n, n), MatrixView(lambda i, j: left[i, j] * factor), right)


def _rate(k: NodeRole, xi: Array, v: Array) -> tuple[Array, Array]:
    """Derivatives of ξ̇ = v + ½ ξ×v + ¹⁄₁₂ ξ×(ξ×v) with respect to ξ and v."""
    X, V = k.manifold.bracket(xi), k.manifold.bracket(v)
    by_v = np.eye(len(xi)) + X * 0.5 + (X @ X) * (1.0 / 12.0)
    return V * -0.5 - (k.manifold.bracket(X @ v) + X @ V) * (1.0 / 12.0), by_v


@algorithm(
    v=("v",), xi_rate=("v",), a=("v",), dt=(), ahead=(),
    by_there=("v", 3, "v"), d_xi_rate=("v", 3, "v"), d_a=("v", 3, "v"),
    xi_rate_there=("v",), d_xi_rate_there=("v", 3, "v"), d_a_there=("v", 3, "v"), d_q=("v", 3, "v"), d_v=("v", 3, "v"),
    outputs=("xi_rate_there", "d_xi_rate_there", "d_a_there", "d_q", "d_v"),
    sparse=("d_xi_rate_there", "d_a_there", "d_q", "d_v"),
)  # fmt: skip
def stage_derivatives(
    tree: Tree, v: Indexed, xi_rate: Indexed, a: Indexed, dt: Indexed, ahead: Indexed,
    by_there: Entries, d_xi_rate: Indexed, d_a: Indexed,
    xi_rate_there: Indexed, d_xi_rate_there: Entries, d_a_there: Entries, d_q: Entries, d_v: Entries,
) -> None:  # fmt: skip
    """ξ̇ at a stage of a Runge–Kutta method in the tangent at q, and derivatives of ξ̇, v̇, q and v there. Cost O(n³)."""
    seconds = dt[...] * ahead[...]
    by_q_there, by_v_there, by_tau = _blocks(by_there)
    for k, _ in tree.scatter():
        xi, there = xi_rate[k] * seconds, v[k] + a[k] * seconds
        by_xi, by_v = _rate(k, xi, there)
        xi_rate_there[k] = by_v @ there
        end = k.manifold.right_jacobian(xi)
        for c in tree.columns():
            d_xi, d_there = d_xi_rate[k, c] * seconds, d_a[k, c] * seconds
            d_q[k, c], d_v[k, c] = end @ d_xi, d_there
            d_xi_rate_there[k, c] = by_xi @ d_xi + by_v @ d_there
            d_a_there.block(2)[k, c] = by_tau[k, c]
        d_q.block(0)[k, k] = d_q.block(0)[k, k] + k.manifold.transport(xi)
        d_v.block(1)[k, k] = d_v.block(1)[k, k] + np.eye(len(xi))
        d_xi_rate_there.block(1)[k, k] = d_xi_rate_there.block(1)[k, k] + by_v
    for left, right in ((by_q_there, d_q), (by_v_there, d_v)):
        _add_products(tree, _blocks(d_a_there), left, 1.0, _blocks(right))


@algorithm(
    v=("v",), a=("v",), dt=(), by_first=("v", 3, "v"), by_there=("v", 3, "v"),
    A=(2, "v", 2, "v"), B=(2, "v", "v"), outputs=("A", "B"), sparse=("A", "B"), stacked=("A", "B"),
)  # fmt: skip
def midpoint_derivatives(
    tree: Tree, v: Indexed, a: Indexed, dt: Indexed, by_first: Entries, by_there: Entries, A: Entries, B: Entries
) -> None:  # fmt: skip
    """The end of a step of the midpoint method: v′ = v + a dt, q′ = q ⊕ v ½dt ⊕ v′ ½dt. Cost O(n³).

    by_first are derivatives of the accelerations that predict the velocities in the middle, by_there those of a.
    """
    half = dt[...] * 0.5
    lower = A.block(1, 0), A.block(1, 1), B.block(1)
    upper = A.block(0, 0), A.block(0, 1), B.block(0)  # at first for derivatives of the prediction
    for k, _ in tree.scatter():
        step = v[k] * half
        start, end = k.manifold.transport(step), k.manifold.right_jacobian(step) * half
        for c in tree.columns():
            _moved(k, c, by_first, start, end, upper)
            _moved(k, c, by_there, start, end, lower)
    _add_products(tree, lower, by_there.block(1), half, upper)

    for k, _ in tree.scatter():
        first, second = v[k] * half, (v[k] + a[k] * dt[...]) * half
        start, end = k.manifold.transport(second), k.manifold.right_jacobian(second) * half
        for c in tree.columns():
            d_v = np.stack([block[k, c] for block in lower], axis=-1) * dt[...]
            _put(A, B, k, c, end @ d_v, d_v)
        A.block(1, 1)[k, k] = A.block(1, 1)[k, k] + np.eye(len(first))
        A.block(0, 0)[k, k] = A.block(0, 0)[k, k] + start @ k.manifold.transport(first)
        A.block(0, 1)[k, k] = A.block(0, 1)[k, k] + start @ (k.manifold.right_jacobian(first) * half) + end


@algorithm(
    dt=(), r1=("v",), r2=("v",), r3=("v",), r4=("v",),
    dr1=("v", 3, "v"), dr2=("v", 3, "v"), dr3=("v", 3, "v"), dr4=("v", 3, "v"),
    da1=("v", 3, "v"), da2=("v", 3, "v"), da3=("v", 3, "v"), da4=("v", 3, "v"),
    A=(2, "v", 2, "v"), B=(2, "v", "v"), outputs=("A", "B"), sparse=("A", "B"), stacked=("A", "B"),
)  # fmt: skip
def rk4_derivatives(
    tree: Tree, dt: Indexed, r1: Indexed, r2: Indexed, r3: Indexed, r4: Indexed,
    dr1: Indexed, dr2: Indexed, dr3: Indexed, dr4: Indexed, da1: Indexed, da2: Indexed, da3: Indexed, da4: Indexed,
    A: Entries, B: Entries,
) -> None:  # fmt: skip
    """The end of a step of the classic Runge–Kutta method, from ξ̇ (r), and derivatives of ξ̇ and v̇, of its stages."""
    sixth = dt[...] * (1.0 / 6.0)
    for k, _ in tree.scatter():
        xi = (r1[k] + (r2[k] + r3[k]) * 2.0 + r4[k]) * sixth
        end = k.manifold.right_jacobian(xi)
        for c in tree.columns():
            d_xi = (dr1[k, c] + (dr2[k, c] + dr3[k, c]) * 2.0 + dr4[k, c]) * sixth
            d_v = (da1[k, c] + (da2[k, c] + da3[k, c]) * 2.0 + da4[k, c]) * sixth
            _put(A, B, k, c, end @ d_xi, d_v)
        A.block(1, 1)[k, k] = A.block(1, 1)[k, k] + np.eye(len(xi))
        A.block(0, 0)[k, k] = A.block(0, 0)[k, k] + k.manifold.transport(xi)


def _blocks(matrices: Entries) -> list[Entries]:
    """The derivatives with respect to q, v and τ."""
    return [matrices.block(n) for n in range(3)]


def _put(A: Entries, B: Entries, k: NodeRole, c: ColumnRole, above: Array, below: Array) -> None:
    """Derivatives of q′ and v′ with respect to q, v and τ, (nv of the node, 3) each, into their blocks."""
    for half, rows in enumerate((above, below)):
        A.block(half, 0)[k, c], A.block(half, 1)[k, c], B.block(half)[k, c] = rows.T
