"""Frictional contacts by the alternating direction method of multipliers, for problems on which sweeps converge slowly.

With G = Vᵀ diag(d) V, a round solves the unconstrained problem, projects on the friction cones and updates the duals y:

    x = (G + ρ)⁻¹ (ρ λ + y − g − Γ),    λ ← P_K(x − y/ρ),    y ← y − ρ (x − λ)                    (1)

Γ = (0, 0, μ‖y_t‖) of each contact turns the cone's optimality conditions into Coulomb's law [AB08]: y tends to u + Γ.
Unlike u, y is in the dual cone in every round, and so does not grow on contacts that are far from closing. ρ starts at
the geometric mean of the largest and the smallest nonzero eigenvalue of G, and follows the residuals of (1) after every
few rounds, which costs nothing once V is known. Cost O(r²) for a round of r rows, after O(r³) for V.

    d, V          eigenvalues and eigenvectors of G; gain is 1/(d + ρ)
    λ, y, g       impulse, dual, free
    ρ             rho, the same for all rows; first is ρ at the start
    off, step     x − λ, and by how much λ changed: the residuals of (1)
    μ             friction of each contact, at its normal row

[AB08] V. Acary, B. Brogliato, "Numerical Methods for Nonsmooth Dynamical Systems", Springer 2008, §3.9.
"""

from __future__ import annotations

import numpy as np

from kinetree.kernels.branchless import between, larger, less, magnitude, smaller
from kinetree.kernels.contact_problem import contacts, in_cone, row_values
from kinetree.kernels.language import Workspace, kernel
from kinetree.recursion.tree import Indexed
from kinetree.spatial.scalar import sqrt

#: Eigenvalues below this fraction of the largest are rounding.
_RANK = 1e-10
# avoids division by zero without contacts that move
_IMMOBILE = 1e-30
# how far residuals may be apart, and what ρ is then multiplied or divided by
_MUCH, _FACTOR = 10.0, 5.0
# how far ρ may get from where it started
_FAR = 1e4


@kernel(eigenvalues=("r",), rho=("r",), gain=("r",), outputs=("rho", "gain"))
def admm_weights(k: Workspace, eigenvalues: Indexed, rho: Indexed, gain: Indexed) -> None:
    """ρ, and 1/(d + ρ) of each eigenvalue."""
    largest = k.scalar(-np.inf)
    for row in k.r:
        largest[...] = larger(largest[...], eigenvalues[row])
    smallest, least = k.scalar(largest[...]), _RANK * largest[...]
    for row in k.r:
        d = eigenvalues[row]
        smallest[...] = less(least, d, smaller(d, smallest[...]), smallest[...])
    mean = sqrt(largest[...] * smallest[...]) + _IMMOBILE
    for row in k.r:
        rho[row] = mean
        gain[row] = 1.0 / (eigenvalues[row] + mean)


@kernel(
    vectors=("r", "r"), gain=("r",), rho=("r",), friction=("r",), free=("r",), impulse=("r",), dual=("r",),
    solved=("r",), dual_after=("r",), off=("r",), step=("r",), outputs=("solved", "dual_after", "off", "step"),
)  # fmt: skip
def admm_round(
    k: Workspace, vectors: Indexed, gain: Indexed, rho: Indexed, friction: Indexed, free: Indexed,
    impulse: Indexed, dual: Indexed, solved: Indexed, dual_after: Indexed, off: Indexed, step: Indexed,
) -> None:  # fmt: skip
    """One round of (1)."""
    wanted, along, x = k.array("r"), k.zeros("r"), k.zeros("r")
    for rows in contacts(k.r):
        moving = row_values(dual, rows)
        slip = friction[rows[2]] * sqrt(moving[0] * moving[0] + moving[1] * moving[1])
        for row, extra in zip(rows, (0.0, 0.0, slip), strict=True):
            wanted[row] = rho[row] * impulse[row] + dual[row] - free[row] - extra
    for other in k.r:
        for row in k.r:
            along[row] = along[row] + vectors[row, other] * wanted[other]
    for row in k.r:
        for other in k.r:
            x[other] = x[other] + vectors[row, other] * (gain[row] * along[row])
    for rows in contacts(k.r):
        moved = [x[row] - dual[row] / rho[row] for row in rows]
        for row, value in zip(rows, in_cone(row_values(friction, rows)[2], moved), strict=True):
            solved[row] = value
            dual_after[row] = dual[row] - rho[row] * (x[row] - value)
            off[row] = x[row] - value
            step[row] = value - impulse[row]


@kernel(
    eigenvalues=("r",), G=("r", "r"), first=("r",), rho=("r",), off=("r",), step=("r",), rho_after=("r",), gain=("r",),
    outputs=("rho_after", "gain"),
)  # fmt: skip
def admm_adapt(
    k: Workspace, eigenvalues: Indexed, G: Indexed, first: Indexed, rho: Indexed, off: Indexed, step: Indexed,
    rho_after: Indexed, gain: Indexed,
) -> None:  # fmt: skip
    """Change ρ if one residual of (1) is much larger than the other."""
    furthest, fastest, scale = (k.scalar(0.0) for _ in range(3))
    for row in k.r:
        for most, value in ((furthest, off[row]), (fastest, step[row]), (scale, G[row, row])):
            most[...] = larger(most[...], magnitude(value))
    for row in k.r:
        primal, dual = scale[...] * furthest[...], rho[row] * fastest[...]
        factor = less(_MUCH * dual, primal, _FACTOR, less(_MUCH * primal, dual, 1.0 / _FACTOR, 1.0))
        # within bounds, for residuals may be mere rounding
        changed = between(rho[row] * factor, first[row] / _FAR, first[row] * _FAR)
        rho_after[row] = changed
        gain[row] = 1.0 / (eigenvalues[row] + changed)
