"""Solvers of frictional contacts: exact contacts in sweeps, and ADMM.

Frictional contacts by the alternating direction method of multipliers, for problems on which sweeps converge slowly.

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

Sweeps of Gauss–Seidel over frictional contacts, each solved exactly. Cost O(r²) for r = 3 rows of each contact.

Contacts have two tangential rows and a normal one. With u = G λ + g the velocities after impulses λ, each contact in
turn takes the impulse that obeys Signorini's and Coulomb's laws while the others stay [JAJ98]: with b its velocity
without its own impulse and W its block of G,

    b_n ≥ 0                     λ = 0
    −W⁻¹ b in the cone          λ = −W⁻¹ b: it sticks
    else it slides              u_n = 0, u_t = −α λ_t, |λ_t| = μ λ_n                                (1)

Eliminating λ_n leaves λ_t(α) = −(A + α)⁻¹ (b_t − w b_n/W_nn) with A = W_tt − w wᵀ/W_nn, and one equation for α:
Newton's method on μ λ_n/|λ_t| − 1, which is linear in α wherever A has equal eigenvalues. A root exists whenever
b_n < 0. It is bracketed, and where Newton's step leaves the bracket, that is halved. Rounds start from α = |u_t|/|λ_t|
of the sweep before, so that a first sweep of many rounds is followed by sweeps of few. To solve normal and friction one
after the other would be cheaper, but cycles even on a single contact if friction presses it onto the ground.

W has ε times its mean diagonal added, and b the same of λ (a proximal step): contacts that cannot move in all
directions have a singular W. It does not change what sweeps converge to.

G and scale are as of `contact_problem`, friction has the μ of each contact at its normal row.

[JAJ98] F. Jourdan, P. Alart, M. Jean, "A Gauss–Seidel like algorithm to solve frictional contact problems", Computer
        Methods in Applied Mechanics and Engineering 155, 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.kernels.branchless import between, larger, less, magnitude, smaller
from kinetree.kernels.contact_problem import IMMOBILE, contacts, in_cone, row_values
from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import select, sqrt

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


#: Sweeps of `contact_sweeps`.
SEVERAL = 5
#: Rounds of Newton's method for a contact in `contact_sweep`, and in `contact_sweeps`.
MANY, FEW = 8, 2
#: ε: what is added to W, relative to its mean diagonal.
_PROXIMAL = 1e-8
# rounding of a root at the end of its bracket
_AT_THE_END = 1e-9
_NEVER_ZERO, _ENDLESS = 2.0**-500, 2.0**500

_declare = kernel(
    G=("r", "r"), scale=("r",), friction=("r",), velocity=("r",), impulse=("r",), after=("r",), solved=("r",),
    outputs=("after", "solved"), sparse=("after", "solved"),
)  # fmt: skip


@_declare
def contact_sweep(
    k: Workspace, G: Indexed, scale: Indexed, friction: Indexed, velocity: Indexed, impulse: Indexed,
    after: Indexed, solved: Indexed,
) -> None:  # fmt: skip
    """Visit every contact once, with `MANY` rounds: u and λ before and after it."""
    for row in k.r:
        after[row] = velocity[row]
    visit_contacts(k.r, G, scale, friction, after, impulse, solved, MANY)


@_declare
def contact_sweeps(
    k: Workspace, G: Indexed, scale: Indexed, friction: Indexed, velocity: Indexed, impulse: Indexed,
    after: Indexed, solved: Indexed,
) -> None:  # fmt: skip
    """Visit every contact `SEVERAL` times, with `FEW` rounds."""
    for row in k.r:
        after[row], solved[row] = velocity[row], impulse[row]
    for _ in range(SEVERAL):
        visit_contacts(k.r, G, scale, friction, after, solved, solved, FEW)


def visit_contacts(
    every: Size, G: Indexed, scale: Indexed, friction: Indexed, u: Indexed, impulse: Indexed, solved: Indexed,
    rounds: int, pushed: Callable[[Any, Any], None] | None = None,
) -> None:  # fmt: skip
    """The visits, which keep `u` up to date; `pushed` is told the rows of each contact and what was added to them."""
    for rows in contacts(every):
        x, y, n = rows
        moving, was, (mu,), (size,) = (
            row_values(array, some) for array, some in ((u, rows), (impulse, rows), (friction, [n]), (scale, [n]))
        )
        added = _PROXIMAL * size
        xx, yy, nn = (G[row, row][()] + added for row in rows)
        xy, nx, ny = G[x, y][()], G[n, x][()], G[n, y][()]
        block = (xx, xy, nx), (xy, yy, ny), (nx, ny, nn)
        b = [u_ - (p * was[0] + q * was[1] + r * was[2]) for u_, (p, q, r) in zip(moving, block, strict=True)]
        now = _coulomb((xx, xy, yy, nx, ny, nn), b, mu, _slowness(moving, was), size, rounds)
        along, across, change = (part - before for part, before in zip(now, was, strict=True))
        solved[x], solved[y], solved[n] = now  # may be the same array as impulse
        for other in every:
            u[other] = u[other] + G[n, other] * change + G[x, other] * along + G[y, other] * across
        if pushed is not None:
            pushed((x, y, n), (along, across, change))


def _slowness(u: Any, impulse: Any) -> Any:
    """α of a contact as it is; zero unless it slides."""
    speed, force = (v[0] * v[0] + v[1] * v[1] for v in (u, impulse))
    return select(-force, 0.0, sqrt(speed / select(-force, 0.0, force, 1.0)), 0.0)


def _coulomb(block: Any, b: Any, mu: Any, alpha: Any, size: Any, rounds: int) -> list[Any]:
    """The impulse of one contact: (1)."""
    xx, xy, yy, nx, ny, nn = block
    inverse = 1.0 / (nn + _NEVER_ZERO)
    kx, ky, pressed = nx * inverse, ny * inverse, -b[2] * inverse
    a, c, d = xx - nx * kx, xy - nx * ky, yy - ny * ky
    free = b[0] - kx * b[2], b[1] - ky * b[2]

    def solve(alpha: Any, v: Any) -> tuple[Any, Any]:
        """(A + α)⁻¹ v."""
        p, q = a + alpha, d + alpha
        share = 1.0 / (p * q - c * c + _NEVER_ZERO)
        return (q * v[0] - c * v[1]) * share, (p * v[1] - c * v[0]) * share

    def at(alpha: Any) -> tuple[Any, Any, Any, Any]:
        """λ, and |λ_t|²."""
        x, y = solve(alpha, free)
        return -x, -y, pressed + kx * x + ky * y, x * x + y * y

    low: Any = 0.0
    high: Any = _ENDLESS
    for _ in range(rounds):
        x, y, normal, square = at(alpha)
        dx, dy = solve(alpha, (x, y))  # −dλ_t/dα
        beyond = sqrt(square) - mu * normal
        high, low = select(beyond, 0.0, alpha, high), select(beyond, 0.0, low, alpha)
        slope = mu * ((kx * dx + ky * dy) * square + normal * (x * dx + y * dy))
        step = alpha + beyond * square / select(-slope, 0.0, slope, 1.0)
        halved = select(high, _ENDLESS, 0.5 * (low + high), 8.0 * alpha + size)
        step = select(step, low * (1.0 - _AT_THE_END), halved, select(-step, -high * (1.0 + _AT_THE_END), halved, step))
        alpha = select(-slope, 0.0, step, halved)

    stuck, slid = at(0.0), at(alpha)
    holds = select(mu * mu * stuck[2] * stuck[2], stuck[3], 0.0, select(stuck[2], 0.0, 0.0, 1.0))
    # the direction of a root that is not exact yet, with |λ_t| = μ λ_n; and u_n = 0 unless friction nearly lifts it
    length = sqrt(slid[3]) + _NEVER_ZERO
    pressing = 1.0 + mu * (kx * slid[0] + ky * slid[1]) / length
    normal = select(-pressing, -0.5, pressed / select(-pressing, -0.5, pressing, 1.0), slid[2])
    share = mu * normal / length
    slides = [select(normal, 0.0, 0.0, part) for part in (slid[0] * share, slid[1] * share, normal)]
    touches = [select(-holds, 0.0, held, moved) for held, moved in zip(stuck, slides, strict=False)]
    none = select(-b[2], 0.0, 0.0, b[2])  # NaN stays NaN
    return [select(b[2], 0.0, select(-size, -IMMOBILE, part, 0.0), none) for part in touches]
