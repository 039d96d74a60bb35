"""Solvers of frictional contacts, from G, g and μ to impulses λ with u = G λ + g: sweeps, and ADMM. Cost O(r²) a round.

**Sweeps** of Gauss–Seidel visit contacts one after another. Each takes the impulse that obeys Signorini's and Coulomb's
laws while the others stay [JAJ98]: with b its velocity without its own impulse and W its block of G,

    b_n ≥ 0                     λ = 0
    −W⁻¹ b in the cone          λ = −W⁻¹ b: it sticks
    else it slides              u_n = 0, u_t = −α λ_t, |λ_t| = μ λ_n                                (1)

Eliminating λ_n leaves λ_t(α) = −(A + α)⁻¹ (b_t − w b_n/W_nn) with A = W_tt − w wᵀ/W_nn, and one equation for α:
Newton's method on μ λ_n/|λ_t| − 1, which is linear in α wherever A has equal eigenvalues. A root exists whenever
b_n < 0. It is bracketed, and where Newton's step leaves the bracket, that is halved. Rounds start from α = |u_t|/|λ_t|
of the sweep before, so a first sweep of many rounds is followed by sweeps of few. To solve normal and friction one
after the other would be cheaper, but cycles even on a single contact if friction presses it onto the ground. W has ε
times its mean diagonal added, and b the same of λ (a proximal step): contacts that cannot move in all directions have a
singular W. It does not change what sweeps converge to.

**ADMM**, the alternating direction method of multipliers, is for problems on which sweeps converge slowly. With
G = Vᵀ diag(d) V, a round solves the unconstrained problem, projects on the friction cones and updates the duals y:

    x = (G + ρ)⁻¹ (ρ λ + y − g − Γ),    λ ← P_K(x − y/ρ),    y ← y − ρ (x − λ)                    (2)

Γ = (0, 0, μ‖y_t‖) of each contact turns the cone's optimality conditions into Coulomb's law [AB08]: y tends to u + Γ.
Unlike u, y is in the dual cone in every round, and so does not grow on contacts that are far from closing. ρ starts at
the geometric mean of the largest and the smallest nonzero eigenvalue of G, and follows the residuals x − λ and Δλ after
every few rounds, which costs little once V is known.

    G, free, scale     as of `contact_problem`; r = 3 rows of each contact, two tangents and the normal
    friction           μ of each contact, at its normal row
    start, impulse     λ before and after

[JAJ98] F. Jourdan, P. Alart, M. Jean, "A Gauss–Seidel like algorithm to solve frictional contact problems", Computer
        Methods in Applied Mechanics and Engineering 155, 1998.
[AB08] V. Acary, B. Brogliato, "Numerical Methods for Nonsmooth Dynamical Systems", Springer 2008, §3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.kernels.branchless import between, larger, less, magnitude, smaller
from kinetree.kernels.contact_problem import IMMOBILE, contacts, in_cone, row_values, times
from kinetree.kernels.contact_problem import larger as larger_or_nan
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


#: Rounds after which ρ is adapted.
ADAPTED = 5


@kernel(
    eigenvalues=("r",), vectors=("r", "r"), G=("r", "r"), friction=("r",), free=("r",), start=("r",), impulse=("r",),
    outputs=("impulse",), sparse=("impulse",), rounds=("periods", "rounds"),
)  # fmt: skip
def admm(
    k: Workspace, eigenvalues: Indexed, vectors: Indexed, G: Indexed, friction: Indexed, free: Indexed, start: Indexed,
    impulse: Indexed,
) -> None:  # fmt: skip
    """λ after rounds of ADMM, in periods of `ADAPTED` rounds with the same ρ."""
    first, rho, dual = k.scalar(), k.scalar(), k.zeros("r")
    wanted, along, x, gain, off, step = (k.array("r") for _ in range(6))
    largest, (furthest, fastest) = k.scalar(-np.inf), (k.scalar() for _ in range(2))
    for row in k.r:
        largest[...] = larger(largest[...], eigenvalues[row])
    smallest, least = k.scalar(largest[...]), _RANK * largest[...]
    for row in k.r:
        d = eigenvalues[row]
        smallest[...] = less(least, d, smaller(d, smallest[...]), smallest[...])
    scale = k.scalar(0.0)
    for row in k.r:
        impulse[row] = start[row]
        scale[...] = larger(scale[...], magnitude(G[row, row]))
    first[...] = sqrt(largest[...] * smallest[...]) + _IMMOBILE
    rho[...] = first[...]

    for _ in k.periods:
        for row in k.r:
            gain[row] = 1.0 / (eigenvalues[row] + rho[...])
        for _ in k.rounds:  # (2)
            for rows in contacts(k.r):
                moving = row_values(dual, rows)
                slip = friction[rows[2]] * sqrt(moving[0] * moving[0] + moving[1] * moving[1])
                for row, extra in zip(rows, (0.0, 0.0, slip), strict=True):
                    wanted[row] = rho[...] * impulse[row] + dual[row] - free[row] - extra
            for row in k.r:
                along[row] = x[row] = 0.0
            for other in k.r:
                for row in k.r:
                    along[row] = along[row] + vectors[row, other] * wanted[other]
            for row in k.r:
                for other in k.r:
                    x[other] = x[other] + vectors[row, other] * (gain[row] * along[row])
            for rows in contacts(k.r):
                moved = [x[row] - dual[row] / rho[...] for row in rows]
                for row, value in zip(rows, in_cone(row_values(friction, rows)[2], moved), strict=True):
                    off[row], step[row] = x[row] - value, value - impulse[row]
                    dual[row] = dual[row] - rho[...] * (x[row] - value)
                    impulse[row] = value
        # change ρ if one residual is much larger than the other; within bounds, for they may be mere rounding
        furthest[...] = fastest[...] = 0.0
        for row in k.r:
            for most, value in ((furthest, off[row]), (fastest, step[row])):
                most[...] = larger(most[...], magnitude(value))
        primal, residual = scale[...] * furthest[...], rho[...] * fastest[...]
        factor = less(_MUCH * residual, primal, _FACTOR, less(_MUCH * primal, residual, 1.0 / _FACTOR, 1.0))
        rho[...] = between(rho[...] * factor, first[...] / _FAR, first[...] * _FAR)


#: Rounds of Newton's method for a contact in the first sweep, and in all others.
MANY, FEW = 8, 2
#: ε: what is added to W, relative to its mean diagonal.
_PROXIMAL = 1e-8
# rounding of a root at the end of its bracket
_AT_THE_END = 1e-9
_NEVER_ZERO, _ENDLESS = 2.0**-500, 2.0**500


@kernel(
    G=("r", "r"), scale=("r",), friction=("r",), free=("r",), start=("r",), impulse=("r",), u=("r",),
    outputs=("impulse", "u"), sparse=("impulse", "u"), rounds=("more",),
)  # fmt: skip
def contact_sweeps(
    k: Workspace, G: Indexed, scale: Indexed, friction: Indexed, free: Indexed, start: Indexed, impulse: Indexed,
    u: Indexed,
) -> None:  # fmt: skip
    """λ and u = G λ + g after one sweep and `more`; none if nothing approaches."""
    nearest = k.scalar(0.0)
    for rows in contacts(k.r):
        nearest[...] = larger_or_nan(nearest[...][()], -free[rows[2]][()])
    for row in k.r:
        impulse[row] = select(-nearest[...][()], 0.0, start[row][()], 0.0)
    times(k.r, G, impulse, free, u)
    visit_contacts(k.r, G, scale, friction, u, impulse, MANY)
    for _ in k.more:
        visit_contacts(k.r, G, scale, friction, u, impulse, FEW)
    times(k.r, G, impulse, free, u)


def visit_contacts(
    every: Size, G: Indexed, scale: Indexed, friction: Indexed, u: Indexed, impulse: Indexed, rounds: int,
    pushed: Callable[[Any, Any], None] | None = None,
) -> None:  # fmt: skip
    """One sweep, which changes λ and u; `pushed` takes the rows of each contact and what was added to them."""
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
        impulse[x], impulse[y], impulse[n] = now
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
