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

from kinetree.algorithms.contact_problem import in_cone, row_values
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import magnitude, select, sqrt

#: Eigenvalues below this fraction of the largest are rounding.
_RANK = 1e-10
# avoids division by zero without contacts that move
_IMMOBILE = 1e-30
# how far residuals may be apart, and what ρ is then multiplied or divided by
_MUCH, _FACTOR = 10.0, 5.0
# how far ρ may get from where it started
_FAR = 1e4


@algorithm(eigenvalues=("rows",), rho=("rows",), gain=("rows",), outputs=("rho", "gain"))
def admm_weights(tree: Tree, eigenvalues: Indexed, rho: Indexed, gain: Indexed) -> None:
    """ρ, and 1/(d + ρ) of each eigenvalue.

    Args:
        tree: Has the rows.
        eigenvalues: d, (r,).
        rho: The same for all rows, (r,).
        gain: (r,).
    """
    largest, smallest = tree.array("rows"), tree.array("rows")
    for row in tree.task_rows():
        largest[row] = eigenvalues[row]
    for row in tree.task_rows():
        for other in tree.task_rows():
            d, most = eigenvalues[row][()], largest[other][()]
            largest[other] = select(most, d, d, most)
    for row in tree.task_rows():
        smallest[row] = largest[row]
    for row in tree.task_rows():
        for other in tree.task_rows():
            d, least = eigenvalues[row][()], smallest[other][()]
            smaller = select(d, least, d, least)
            smallest[other] = select(_RANK * largest[other], d, smaller, least)
    for row in tree.task_rows():
        mean = sqrt(largest[row] * smallest[row]) + _IMMOBILE
        rho[row] = mean
        gain[row] = 1.0 / (eigenvalues[row] + mean)


@algorithm(
    vectors=("rows", "rows"), gain=("rows",), rho=("rows",), friction=("rows",), free=("rows",),
    impulse=("rows",), dual=("rows",), solved=("rows",), dual_after=("rows",), off=("rows",), step=("rows",),
    outputs=("solved", "dual_after", "off", "step"),
)  # fmt: skip
def admm_round(
    tree: Tree, vectors: Indexed, gain: Indexed, rho: Indexed, friction: Indexed, free: Indexed,
    impulse: Indexed, dual: Indexed, solved: Indexed, dual_after: Indexed, off: Indexed, step: Indexed,
) -> None:  # fmt: skip
    """One round of (1).

    Args:
        tree: Has the rows, three for each contact.
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
    wanted, along, x = (tree.array("rows") for _ in range(3))
    for contact, _, _ in tree.tasks():
        rows = contact.rows
        moving = row_values(dual, rows)
        slip = friction[rows[2]] * sqrt(moving[0] * moving[0] + moving[1] * moving[1])
        for row, extra in zip(rows, (0.0, 0.0, slip), strict=True):
            wanted[row] = rho[row] * impulse[row] + dual[row] - free[row] - extra
    for row in tree.task_rows():
        along[row] = 0.0 * free[row]
        x[row] = 0.0 * free[row]
    for other in tree.task_rows():
        for row in tree.task_rows():
            along[row] = along[row] + vectors[row, other] * wanted[other]
    for row in tree.task_rows():
        for other in tree.task_rows():
            x[other] = x[other] + vectors[row, other] * (gain[row] * along[row])
    for contact, _, _ in tree.tasks():
        rows = contact.rows
        moved = [x[row] - dual[row] / rho[row] for row in rows]
        for row, value in zip(rows, in_cone(row_values(friction, rows)[2], moved), strict=True):
            solved[row] = value
            dual_after[row] = dual[row] - rho[row] * (x[row] - value)
            off[row] = x[row] - value
            step[row] = value - impulse[row]


@algorithm(
    eigenvalues=("rows",), G=("rows", "rows"), first=("rows",), rho=("rows",), off=("rows",), step=("rows",),
    rho_after=("rows",), gain=("rows",), outputs=("rho_after", "gain"),
)  # fmt: skip
def admm_adapt(
    tree: Tree, eigenvalues: Indexed, G: Indexed, first: Indexed, rho: Indexed, off: Indexed, step: Indexed,
    rho_after: Indexed, gain: Indexed,
) -> None:  # fmt: skip
    """Change ρ if one residual of (1) is much larger than the other.

    Args:
        tree: Has the rows.
        eigenvalues: d, (r,).
        G: As of `contact_sweep`, (r, r).
        first: ρ at the start, (r,).
        rho: ρ, (r,).
        off: As of `admm_round`, (r,).
        step: As of `admm_round`, (r,).
        rho_after: ρ from now on, (r,).
        gain: 1/(d + ρ), (r,).
    """
    furthest, fastest, scale = (tree.array("rows") for _ in range(3))
    for row in tree.task_rows():
        furthest[row], fastest[row], scale[row] = 0.0 * rho[row], 0.0 * rho[row], 0.0 * rho[row]
    for row in tree.task_rows():
        for other in tree.task_rows():
            for most, value in ((furthest, off[row]), (fastest, step[row]), (scale, G[row, row])):
                largest, size = most[other][()], magnitude(value[()])
                most[other] = select(largest, size, size, largest)
    for row in tree.task_rows():
        primal, dual = scale[row] * furthest[row], rho[row] * fastest[row]
        factor = select(_MUCH * dual, primal, _FACTOR, select(_MUCH * primal, dual, 1.0 / _FACTOR, 1.0))
        changed, least, most = rho[row] * factor, first[row] / _FAR, first[row] * _FAR
        changed = select(
            changed, least, least, select(-changed, -most, most, changed)
        )  # residuals may be mere rounding
        rho_after[row] = changed
        gain[row] = 1.0 / (eigenvalues[row] + changed)
