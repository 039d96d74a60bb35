"""Frictional contacts by the alternating direction method of multipliers, for problems on which sweeps converge slowly.

With G = Vᵀ diag(d) V, a round solves the unconstrained problem, projects on the friction cones and updates the duals y:

    x = (G + ρ)⁻¹ (ρ λ + y − g − Γ),    λ ← P_K(x − y/ρ),    y ← y − ρ (x − λ)                    (1)

Γ = (0, 0, μ‖y_t‖) of each contact turns the cone's optimality conditions into Coulomb's law [AB08]: y tends to u + Γ.
Unlike u, y is in the dual cone in every round, and so does not grow on contacts that are far from closing. ρ starts at
the geometric mean of the largest and the smallest nonzero eigenvalue of G, and follows the residuals of (1) after every
few rounds, which costs nothing once V is known. Cost O(r²) for a round of r rows, after O(r³) for V.

[AB08] V. Acary, B. Brogliato, "Numerical Methods for Nonsmooth Dynamical Systems", Springer 2008, §3.9.
"""

from __future__ import annotations

from kinetree.kernels.contact_problem import contacts, in_cone, row_values
from kinetree.kernels.language import Workspace, kernel
from kinetree.recursion.tree import Indexed
from kinetree.spatial.scalar import magnitude, select, sqrt

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
    """ρ, and 1/(d + ρ) of each eigenvalue.

    Args:
        k: Size r.
        eigenvalues: d, (r,).
        rho: The same for all rows, (r,).
        gain: (r,).
    """
    largest, smallest = k.array("r"), k.array("r")
    for row in k.r:
        largest[row] = eigenvalues[row]
    for row in k.r:
        for other in k.r:
            d, most = eigenvalues[row][()], largest[other][()]
            largest[other] = select(most, d, d, most)
    for row in k.r:
        smallest[row] = largest[row]
    for row in k.r:
        for other in k.r:
            d, least = eigenvalues[row][()], smallest[other][()]
            smaller = select(d, least, d, least)
            smallest[other] = select(_RANK * largest[other], d, smaller, least)
    for row in k.r:
        mean = sqrt(largest[row] * smallest[row]) + _IMMOBILE
        rho[row] = mean
        gain[row] = 1.0 / (eigenvalues[row] + mean)


@kernel(
    vectors=("r", "r"), gain=("r",), rho=("r",), friction=("r",), free=("r",),
    impulse=("r",), dual=("r",), solved=("r",), dual_after=("r",), off=("r",), step=("r",),
    outputs=("solved", "dual_after", "off", "step"),
)  # fmt: skip
def admm_round(
    k: Workspace, vectors: Indexed, gain: Indexed, rho: Indexed, friction: Indexed, free: Indexed,
    impulse: Indexed, dual: Indexed, solved: Indexed, dual_after: Indexed, off: Indexed, step: Indexed,
) -> None:  # fmt: skip
    """One round of (1).

    Args:
        k: Size r, three rows for each contact.
        vectors: V, (r, r).
        gain: 1/(d + ρ), (r,).
        rho: ρ, (r,).
        friction: μ of each contact, at its normal row, (r,).
        free: g, (r,).
        impulse: λ, (r,).
        dual: y, (r,).
        solved: λ after the round, (r,).
        dual_after: y after the round, (r,).
        off: x − λ, (r,).
        step: By how much λ changed, (r,).
    """
    wanted, along, x = (k.array("r") for _ in range(3))
    for rows in contacts(k.r):
        moving = row_values(dual, rows)
        slip = friction[rows[2]] * sqrt(moving[0] * moving[0] + moving[1] * moving[1])
        for row, extra in zip(rows, (0.0, 0.0, slip), strict=True):
            wanted[row] = rho[row] * impulse[row] + dual[row] - free[row] - extra
    for row in k.r:
        along[row] = 0.0
        x[row] = 0.0
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
    eigenvalues=("r",), G=("r", "r"), first=("r",), rho=("r",), off=("r",), step=("r",),
    rho_after=("r",), gain=("r",), outputs=("rho_after", "gain"),
)  # fmt: skip
def admm_adapt(
    k: Workspace, eigenvalues: Indexed, G: Indexed, first: Indexed, rho: Indexed, off: Indexed, step: Indexed,
    rho_after: Indexed, gain: Indexed,
) -> None:  # fmt: skip
    """Change ρ if one residual of (1) is much larger than the other.

    Args:
        k: Size r.
        eigenvalues: d, (r,).
        G: As of `contact_sweep`, (r, r).
        first: ρ at the start, (r,).
        rho: ρ, (r,).
        off: As of `admm_round`, (r,).
        step: As of `admm_round`, (r,).
        rho_after: ρ from now on, (r,).
        gain: 1/(d + ρ), (r,).
    """
    furthest, fastest, scale = (k.array("r") for _ in range(3))
    for row in k.r:
        furthest[row] = fastest[row] = scale[row] = 0.0
    for row in k.r:
        for other in k.r:
            for most, value in ((furthest, off[row]), (fastest, step[row]), (scale, G[row, row])):
                largest, size = most[other][()], magnitude(value[()])
                most[other] = select(largest, size, size, largest)
    for row in k.r:
        primal, dual = scale[row] * furthest[row], rho[row] * fastest[row]
        factor = select(_MUCH * dual, primal, _FACTOR, select(_MUCH * primal, dual, 1.0 / _FACTOR, 1.0))
        changed, least, most = rho[row] * factor, first[row] / _FAR, first[row] * _FAR
        changed = select(
            changed, least, least, select(-changed, -most, most, changed)
        )  # residuals may be mere rounding
        rho_after[row] = changed
        gain[row] = 1.0 / (eigenvalues[row] + changed)
