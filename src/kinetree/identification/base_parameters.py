"""Base parameters: the combinations of parameters that the data determine, by a rank-revealing factorisation [G91].

Not all parameters of a robot influence its joint forces, and many do so only in combination: the mass of a link only
together with the first moment of its parent. A QR decomposition with column pivoting of the triangular factor R finds a
largest set of independent columns, and writes the others as combinations of them:

    R P = Q [R₁ R₂]    β = θ₁ + R₁⁻¹ R₂ θ₂

[G91] M. Gautier, "Numerical calculation of the base inertial parameters of robots", Journal of Robotic Systems 8, 1991.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.spatial.value import Array

# coefficients below this fraction are rounding errors of the factorisation
_NEGLIGIBLE = 1e-7


@dataclass(frozen=True)
class BaseParameters:
    """Combinations of parameters that joint forces depend on; b of them, from p parameters.

    Attributes:
        names: Each combination, such as "upper.mx + 0.4 lower.m", (b,).
        matrix: Maps all parameters to the combinations, (b, p).
        values: The identified combinations, (b,).
        deviations: Their standard deviations, from the residual, (b,).
        unidentifiable: Names of parameters that appear in no combination.
    """

    names: tuple[str, ...]
    matrix: Array
    values: Array
    deviations: Array
    unidentifiable: tuple[str, ...]


@dataclass(frozen=True)
class SplitFactor:
    """A triangular factor, split into independent and dependent columns."""

    matrix: Array  # maps all parameters to base parameters, (b, p)
    triangle: Array  # R₁ for the base parameters, (b, b)
    right: Array  # the right-hand side in its basis, (b,)
    rest: float  # squared norm of the part of the right-hand side that no parameters explain

    @property
    def values(self) -> Array:
        """The least-squares solution, (b,)."""
        return np.linalg.solve(self.triangle, self.right)


def factored(R: Array, z: Array, tolerance: float) -> SplitFactor:
    """Split R, (k, p), and the right-hand side z, (k,).

    Columns, scaled to unit length, are dependent if less than `tolerance` of them is independent of the others.
    """
    p = R.shape[1]
    lengths = np.linalg.norm(R, axis=0)
    largest = float(lengths.max(initial=0.0))
    norms = np.where(lengths > tolerance * largest, lengths, np.inf)  # columns that nothing excites become zero
    order, rank = _pivoted(R / norms, tolerance)
    Q, T = np.linalg.qr((R / norms)[:, order])
    first, others = order[:rank], order[rank:]
    K = np.linalg.solve(T[:rank, :rank], T[:rank, rank:])
    matrix = np.zeros((rank, p))
    matrix[np.arange(rank), first] = 1.0
    own = np.where(np.isfinite(norms), norms, 0.0)
    K = np.where(np.abs(K) > _NEGLIGIBLE, K, 0.0)
    matrix[:, others] = K * own[others] / norms[first][:, None]
    right = Q[:, :rank].T @ z
    rest = z - Q[:, :rank] @ right
    return SplitFactor(matrix, T[:rank, :rank] * norms[first], right, float(rest @ rest))


def _pivoted(R: Array, tolerance: float) -> tuple[list[int], int]:
    """The order of pivots, and the rank, by modified Gram–Schmidt with reorthogonalisation."""
    left, basis = R.copy(), np.zeros((R.shape[0], 0))
    order: list[int] = []
    remaining = list(range(R.shape[1]))
    while remaining and len(order) < R.shape[0]:
        sizes = np.linalg.norm(left[:, remaining], axis=0)
        if sizes.max() <= tolerance:
            break
        # of columns that are about as independent, the first: names then do not depend on rounding
        best = remaining[int(np.argmax(sizes > 0.5 * sizes.max()))]
        column = left[:, best] - basis @ (basis.T @ left[:, best])
        size = float(np.linalg.norm(column))
        basis = np.column_stack([basis, column / size])
        order.append(best)
        remaining.remove(best)
        left[:, remaining] -= np.outer(basis[:, -1], basis[:, -1] @ left[:, remaining])
    return [*order, *remaining], len(order)


def named(names: tuple[str, ...], row: Array) -> str:
    """A row of a matrix as a sum of named parameters."""
    text = ""
    leading = int(np.flatnonzero(row == 1.0)[0])
    for i in (leading, *(j for j in np.flatnonzero(row).tolist() if j != leading)):
        size = f"{abs(row[i]):.4g}"
        term = names[i] if size == "1" else f"{size} {names[i]}"
        text += (" − " if row[i] < 0.0 else " + ") + term
    return text.removeprefix(" + ")
