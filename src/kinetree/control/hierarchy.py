"""Strict priorities: a block LDLᵀ factorisation of the one Λ⁻¹ of all rows, level by level.

With A = Λ⁻¹ of all rows in order of priority, and r the residual acceleration of the rows,

    for level k:   G_k replaces A_kk⁻¹                                                          (1)
                   for rows after:  C = A_·k G_k,   r_· −= C r_k,   A_·· −= C A_k·              (2)
    backwards:     f_k = G_k (r_k − A_k· f_·)                                                    (3)

which is the null-space recursion of [SK05] without matrices of the robot's size. What remains of A after (2) is the
inverse inertia of the lower levels with all higher levels at rest. If every level is feasible, the result solves
A f = r.

The eigenvalues λ of A_kk, with rows weighted as in `kinetree.operational_space.singular` by their values *before* (2),
show which directions are left to a level. G has its eigenvectors, and the eigenvalues

    "truncated"    1/λ for λ > ε, else 0
    "blend"        ω/λ with ω = s²(3 − 2s), s = clip((λ − ε₀)/(ε − ε₀), 0, 1), ε₀ = ε/100

Both hand the directions that a level gives up to the levels below, the second one continuously. Damping would not: it
would still push along a direction that a higher level blocks.

[SK05] L. Sentis, O. Khatib, "Synthesis of whole-body behaviors through hierarchical control of behavioral primitives",
       International Journal of Humanoid Robotics 2, 2005.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinetree.operational_space.products import product, times
from kinetree.operational_space.singular import composed, spectrum
from kinetree.spatial.value import Array

#: Values of a controller's `singular=`.
POLICIES = ("blend", "truncated")


class Level(NamedTuple):
    """Rows of one priority.

    Attributes:
        rows: Indices of its rows.
        cut: ε, the eigenvalue below which directions are treated as singular.
        policy: One of `POLICIES`.
        mean: Maps a number per row to the mean over rows of the same kind, (k, k).
        reach: Added to the weights, (k,).
    """

    rows: slice
    cut: float
    policy: str
    mean: Array
    reach: Array


class Solution(NamedTuple):
    """Result of all levels.

    Attributes:
        force: f along all rows, (…, r).
        values: Eigenvalues of each level, (…, k).
    """

    force: Array
    values: tuple[Array, ...]


def solve(A: Array, r: Array, levels: Sequence[Level]) -> Solution:
    """Forces along the rows.

    Args:
        A: Λ⁻¹ of all rows, (…, r, r).
        r: Residual acceleration of the rows, (…, r).
        levels: Levels that partition the rows, highest priority first.
    """
    own = np.diagonal(A, axis1=-2, axis2=-1).copy()
    A, r = A.copy(), r.copy()
    inverses, values = [], []
    for level in levels:
        at, after = level.rows, slice(level.rows.stop, None)
        of = spectrum(A[..., at, at], own[..., at], level.mean, level.reach)
        values.append(of.values)
        G = composed(of, reciprocals(of.values, level.cut, level.policy))  # (1)
        inverses.append(G)
        if A.shape[-1] > at.stop:
            C = product(A[..., after, at], G)  # (2)
            r[..., after] -= times(C, r[..., at])
            A[..., after, after] -= product(C, A[..., at, after])
    f = np.zeros_like(r)
    for level, G in zip(reversed(levels), reversed(inverses), strict=True):  # (3)
        at, after = level.rows, slice(level.rows.stop, None)
        left = r[..., at]
        if A.shape[-1] > at.stop:
            left = left - times(A[..., at, after], f[..., after])
        f[..., at] = times(G, left)
    return Solution(f, tuple(values))


def reciprocals(values: Array, cut: float, policy: str) -> Array:
    """Regularised 1/λ, of the shape of λ; NaN stays NaN."""
    if policy == "truncated":
        share = np.where(values > cut, 1.0, 0.0)
    else:
        s = np.clip((values - cut / 100.0) / (cut - cut / 100.0), 0.0, 1.0)
        share = s * s * (3.0 - 2.0 * s)
    result: Array = np.where(np.isnan(values), np.nan, share / np.where(share > 0.0, values, 1.0))
    return result
