"""Newton's method for frictional contacts, dry friction and stops of joints in one system. Cost O(r³) a round.

Rows of contacts are two tangents and the normal, those of joints are single. Each contact, and each joint, has its own
scale s: λ = s λ′, u′ = s u, G′ = S G S with blocks of mean diagonal one, but for those that hardly move along their
normals (`mobility_of`). So λ′ and u′ are roots of energies, and nothing below has a unit. What is solved is the law
with a relative compliance ε,

    u = G λ + g + ε (λ − c)                                                                        (1)
    contact    open λ = 0, u_n ≥ 0;   sticking u = 0;   sliding u_n = 0, λ_t = μ λ_n t, u_t = −|u_t| t     (2)
    joint      λ = −sign(u) dry, or |λ| ≤ dry and u = 0, or u at an end of [low, high]             (3)

It has a solution even where the rigid law has none, and forces on flat faces are even, whatever came before. The centre
c starts at zero. Each *centring*, c ← λ, is a proximal step that takes away the creep ε λ: what is determined converges
by ε/σ, with σ an eigenvalue of G′; what is not keeps its least-norm share. A residual of 1e-6 is enough to move the
centre; only the last one is solved to 1e-10. Centrings end once the rigid law holds, or when one does not halve the
creep, though not before the fifth while the creep is large: two corners of a sole that close different gaps must move
apart along the ground, and would be held by forces at the limit of friction that pull against each other.

(2) and (3) say λ = P(λ − ρ u), Alart and Curnier's function [AC91]. A round takes the Newton step of the modes at
τ = λ − ρ u, with the rows of each contact along t = τ_t/|τ_t|, p ⟂ t and n,

    open         Δλ = −λ                         sticking    Δu = −u
    sliding      Δλ_t − μ Δλ_n = μ λ_n − λ_t,    (1 − κ) Δλ_p + κ ρ_t Δu_p = −λ_p,    Δu_n = −u_n    (4)

with κ = μ τ_n/|τ_t|, and moves along it by the best of eight lengths. If none lowers |λ − P(λ − ρ u)|, rounds would
cycle: stops and friction of joints that press contacts against the ground often do. So two sweeps of exact contacts
take the place of the step; and once that has happened twice, rounds solve

    u = G λ + g + ε (λ − c) + η (λ − λ₀)                                                           (5)

with λ₀ the impulses so far. Whenever (5) is violated less than half as much as (1), λ₀ follows and η falls: a proximal
method whose steps need not be solved exactly [R76]. If (5) has no step, either, rounds begin again at λ₀ with a
larger η. What is not solved after all rounds goes on for twice as many, and is then tried three times more: from two
sweeps, from twenty with a steeper ρ_n, and from fifty, with ρ of joints steeper, too. After a centring these start at
its impulses, and the last one, or every one of contacts on bodies of their own, goes back to the problem before it,
which is nearly solved. Of what is never solved, the impulses that violate the rigid law least are kept.

A sweep visits contacts one after another; each takes the impulse that obeys (2) while the others stay [JAJ98]
(`single_contact.py`).

Contacts that are each on a body of its own start from two sweeps, and need ε = 1e-10 and ρ = 1. Faces need ε = 1e-4,
and ρ_t up to 0.01/ε: near the limit of friction, steps with ρ_t = 1 only halve the error. Rows of joints have ρ_n.

The residual is the largest |λ′ − P(λ′ − u′)|, P for ρ = 1 with the cone's own projection, over the fastest approach
without impulses. The creep is the same for the rigid law, ε = 0. Neither forgives large impulses: relative to those, a
body too large for its slot would seem solved. If the creep is large and a centring does not lower it, no impulses
satisfy all contacts: they jam.

Impulses that obey the rigid law never add energy, for λᵀ(G λ + g) ≤ 0. Those of a problem that was not solved might, so
all are multiplied by the largest share up to one that keeps

    λᵀG λ ≤ −κ λᵀg         κ = 1.1                                                                 (6)

Then kinetic energy grows at most by what the correction of penetrations, which is part of g, takes.

[AC91] P. Alart, A. Curnier, "A mixed formulation for frictional contact problems prone to Newton like solution
       methods", Computer Methods in Applied Mechanics and Engineering 92, 1991.
[JAJ98] F. Jourdan, P. Alart, M. Jean, "A Gauss–Seidel like algorithm to solve frictional contact problems", Computer
        Methods in Applied Mechanics and Engineering 155, 1998.
[R76] R. T. Rockafellar, "Monotone operators and the proximal point algorithm", SIAM Journal on Control and Optimization
      14, 1976.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.branchless import above, larger, less, magnitude, smaller, where
from kinetree.kernels.contact_problem import IMMOBILE, ROUNDING, in_cone, row_values
from kinetree.kernels.language import IndexBlock, Workspace, kernel
from kinetree.kernels.single_contact import ENDLESS, NEVER_ZERO, single_contact, slowness
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import sqrt

#: Residuals at which (1) to (3) count as solved, and at which the centre may move.
TOLERANCE, NEARLY = 1e-10, 1e-6
#: Sizes of loops that are the same for all problems.
FIXED = {"attempts": 6, "once": 1, "sweeps": 50, "roots": 20, "lengths": 7}
# η: where it starts, in ε, the most that it is raised to, by what factors it rises and falls, and the share of (5)
_FIRST, _MOST, _RISE, _FALL, _SHARE = 100.0, 1.0, 3.0, 0.4, 0.5
# a centring that does not halve the creep is the last, but for the first four if that is not good enough; one that does
# not lower it by a tenth tells of a jam
_HELPS, _STAYS, _JAM, _GOOD, _PATIENT = 0.5, 0.9, 1e-2, 1e-4, 4.5
_LEAST_PIVOT = 1e-13
# rounds of the root search for one contact at first
_ROUNDS = 2.0
# sweeps in place of a step; and sweeps that attempts after the first two begin with, their ρ_n, and ρ of joints
_SWEEPS, _ATTEMPTS = 2.0, ((2.0, 30.0, 30.0), (20.0, 300.0, 30.0), (50.0, 300.0, 300.0))
# κ of (6)
_EXCESS = 1.1


class Law(NamedTuple):
    """The law of a preset, as numbers for `contact_newton`."""

    epsilon: float  # ε, relative to each contact's mobility
    steepest: float  # largest ρ_t, times ε
    rho_n: float  # ρ of normal rows, and of joints
    centrings: float  # at most
    sweeps: float  # 1 to begin with sweeps, else 0


#: For contacts that are each on a body of its own, against the world; and for all others.
POINTS = Law(1e-10, 0.0, 1.0, 3, 1)
FACES = Law(1e-4, 0.01, 30.0, 12, 0)


class _Rows(NamedTuple):
    """What (2) and (3) need: μ at normal rows, and `dry`, low and high of joints."""

    k: Workspace
    limit: Indexed
    low: Indexed
    high: Indexed


class _Equations(NamedTuple):
    """(4): factors of Δλ and Δu in each row, of Δλ_n in those along t; and t."""

    of_impulse: Indexed
    of_velocity: Indexed
    of_normal: Indexed
    along: Indexed
    across: Indexed


@kernel(
    G=("r", "r"), free=("r",), bounds=("r", 3), law=(5,), impulse=("r",), velocity=("r",), report=(3,),
    outputs=("impulse", "velocity", "report"), lists={"contacts": {"r": 3}, "joints": {"r": 1}},
    rounds=("attempts", "rounds", "once", "sweeps", "roots", "lengths"),
)  # fmt: skip
def contact_newton(
    k: Workspace, G: Indexed, free: Indexed, bounds: Indexed, law: Indexed, impulse: Indexed, velocity: Indexed,
    report: Indexed,
) -> None:  # fmt: skip
    """Impulses λ and velocities u = G λ + g.

    `bounds` has μ, 0, 0 at all rows of contacts, and dry, low, high of joints; `report` are the residual, the creep,
    and 1 if contacts jam.
    """
    epsilon, steepest, rho_n, centrings, begins = law[...]
    scale, g, limit, low, high, p, u, c, former, near, kept = (k.array("r") for _ in range(11))
    tried, moving, step, change, rho = (k.array("r") for _ in range(5))
    rows = _Rows(k, limit, low, high)
    matrix = k.array("r", "r")
    size = _scale(rows, G, free, bounds, epsilon, scale, g, matrix)
    total = k.scalar(0.0)
    for row in k.r:
        total[...] = total[...] + (magnitude(g[row]) + magnitude(matrix[row, row]))
    unity = less(total[...], np.inf, 1.0, np.nan)  # comparisons might lose NaN

    solved, held, raised, times = (k.scalar(0.0) for _ in range(4))
    searches, many, rough = k.scalar(_ROUNDS), k.scalar(_SWEEPS), k.scalar(0.0)
    pressing, stopping = k.scalar(rho_n), k.scalar(rho_n)
    number, second, swept, ends = (k.scalar(0.0) for _ in range(4))
    residual, creep, creep_before = (k.scalar(ENDLESS) for _ in range(3))
    steady, most_centrings = k.scalar(1.0 - begins), k.scalar(centrings)
    for row in k.r:
        kept[row] = p[row] = c[row] = former[row] = near[row] = 0.0
        u[row] = g[row]

    for _ in k.attempts.until(held):
        for _ in k.rounds.until(solved):
            for _ in k.once.until(steady):
                for row in k.r:
                    tried[row], moving[row] = p[row], u[row]
                swept[...], ends[...] = 0.0, 0.0
                for _ in k.sweeps.until(ends):
                    _sweep(rows, matrix, searches[...], tried, moving)
                    swept[...] = swept[...] + 1.0
                    ends[...] = less(swept[...], many[...] - 0.5, 0.0, 1.0)
                for row in k.r:
                    p[row], near[row] = (
                        where(steady[...], p[row], tried[row]),
                        where(steady[...], near[row], tried[row]),
                    )
                    u[row] = where(steady[...], u[row], moving[row])
                steady[...] = 1.0
            many[...] = _SWEEPS

            # check, and move the centre
            for row in k.r:
                moving[row] = u[row] - epsilon * (p[row] - c[row])
            now, rigid = unity * _residual(rows, size, p, u), _residual(rows, size, p, moving)
            unsolved = where(solved[...], 0.0, 1.0)
            holds = above(now, TOLERANCE, 0.0, unsolved)
            hopes = above(rigid, _GOOD, less(rigid, _JAM, less(times[...], _PATIENT, 1.0, 0.0), 0.0), 0.0)
            helps = above(
                rigid, TOLERANCE, less(rigid, _HELPS * creep[...], 1.0, larger(holds * rough[...], hopes)), 0.0
            )
            again = above(now, NEARLY, 0.0, unsolved) * above(times[...], 0.5, helps, 1.0)
            again = less(times[...], most_centrings[...] - 0.5, again, 0.0)
            settles = larger(holds, again)
            better = where(settles, 1.0, less(times[...], 0.5, less(rigid, creep[...], unsolved, 0.0), 0.0))
            for row in k.r:
                kept[row] = where(better, p[row], kept[row])
                u[row] = where(again, moving[row], u[row])
                former[row] = where(again, c[row], former[row])
                c[row] = where(again, p[row], c[row])
            creep_before[...] = above(settles * times[...] * most_centrings[...], 0.5, creep[...], creep_before[...])
            creep[...] = where(better, rigid, creep[...])
            residual[...] = where(better, now, residual[...])
            times[...] = times[...] + again
            rough[...] = where(again, 1.0 - holds, rough[...])
            solved[...] = larger(solved[...], less(now, np.inf, larger(holds - again, 0.0), 1.0))  # NaN ends
            residual[...] = less(now, np.inf, residual[...], now)

            for _ in k.once.until(solved):
                calm = k.scalar(above(raised[...], 0.0, 0.0, 1.0))
                for _ in k.once.until(calm):
                    for row in k.r:
                        moving[row] = u[row] + raised[...] * (p[row] - near[row])
                    follows = less(_residual(rows, size, p, moving), _SHARE * now, 1.0, 0.0)
                    raised[...] = where(follows, _FALL * raised[...], raised[...])
                    for row in k.r:
                        near[row] = where(follows, p[row], near[row])
                    calm[...] = 1.0
                more = raised[...]
                for row in k.r:
                    moving[row] = u[row] + more * (p[row] - near[row])
                # what points begin with fails where blocks of G are nearly singular
                cap = where(
                    second[...], FACES.steepest / (larger(epsilon, FACES.epsilon) + more), steepest / (epsilon + more)
                )
                _newton_step(rows, matrix, cap, pressing[...], stopping[...], more, p, moving, rho, step)
                for row in k.r:
                    change[row] = more * step[row]
                _add_product(k, matrix, step, change)
                length = _length(rows, rho, pressing[...], p, moving, step, change)
                taken = where(solved[...], 0.0, length)
                for row in k.r:
                    p[row] = p[row] + taken * step[row]
                    u[row] = u[row] + taken * (change[row] - more * step[row])
                stuck = where(solved[...], 0.0, above(length, 0.0, 0.0, 1.0))
                returns = k.scalar(above(more, 0.0, stuck, 0.0))
                grown = above(more, 0.0, smaller(larger(_RISE * more, _FIRST * epsilon), _MOST), NEVER_ZERO)
                raised[...] = where(stuck, grown, more)
                steady[...] = 1.0 - (stuck - returns[...])
                rests = k.scalar(1.0 - returns[...])
                for _ in k.once.until(rests):
                    for row in k.r:
                        moving[row] = g[row] - epsilon * c[row]
                    _add_product(k, matrix, near, moving)
                    for row in k.r:
                        p[row] = where(returns[...], near[row], p[row])
                        u[row] = where(returns[...], moving[row], u[row])
                    rests[...] = 1.0

        # whatever is not solved goes on for two attempts, then begins again, from the impulses of the last centring and
        # with more sweeps; in the end without that centring, where the problem was nearly solved
        held[...], number[...] = solved[...], number[...] + 1.0
        last = above(number[...] + FIXED["attempts"] * begins, FIXED["attempts"] - 1.5, 1.0, 0.0)
        back = last * above(times[...], 0.5, 1.0, 0.0)
        goes = less(number[...], 2.5, 1.0 - back, 0.0)
        for _ in k.once.until(held):
            for row in k.r:
                tried[row] = where(goes, p[row], above(times[...], 0.5, kept[row], 0.0))
                c[row] = where(held[...], c[row], where(back, former[row], c[row]))
                moving[row] = g[row] - epsilon * c[row]
            _add_product(k, matrix, tried, moving)
            for row in k.r:
                p[row] = where(held[...], p[row], tried[row])
                u[row] = where(held[...], u[row], moving[row])
        most_centrings[...] = where(back, 0.0, most_centrings[...])
        steady[...], raised[...] = larger(larger(held[...], back), goes), where(goes, raised[...], 0.0)
        searches[...], second[...] = float(FIXED["roots"]), 1.0
        for setting, later in zip((many, pressing, stopping), zip(*_ATTEMPTS, strict=True), strict=True):
            setting[...] = less(number[...], 3.5, later[0], less(number[...], 4.5, *later[1:]))

    # what is left to the cone is rounding; G λ + g once more, without that of updates; and the share of (6)
    for x, y, n in k.contacts:
        px, py, mu, pressed = kept[x][()], kept[y][()], limit[n][()], less(kept[n], 0.0, 0.0, kept[n])
        t = sqrt(px * px + py * py)
        share = less(mu * pressed, t, mu * pressed / (t + NEVER_ZERO), above(pressed, 0.0, 1.0, 0.0))
        kept[x], kept[y], kept[n] = share * px, share * py, pressed
    for row in k.r:
        u[row] = g[row]
    _add_product(k, matrix, kept, u)
    work, kept_work = k.scalar(0.0), k.scalar(0.0)
    for row in k.r:
        u[row] = u[row] - epsilon * kept[row]
        work[...] = work[...] + kept[row] * g[row]
        kept_work[...] = kept_work[...] + kept[row] * (u[row] - g[row])
    most = larger(-_EXCESS * work[...], 0.0)
    share = less(most, kept_work[...], most / less(most, kept_work[...], kept_work[...], 1.0), 1.0)
    for row in k.r:
        p[row], u[row] = share * kept[row], g[row] + share * (u[row] - g[row])
        impulse[row] = unity * (scale[row] * p[row])
        velocity[row] = above(scale[row], 0.0, u[row] / above(scale[row], 0.0, scale[row], 1.0), free[row])
    rigid = less(residual[...], np.inf, _residual(rows, size, p, u), residual[...])  # NaN stays
    stays = less(_STAYS * creep_before[...], creep[...], above(creep[...], _JAM, 1.0, 0.0), 0.0)
    report[...] = np.array([residual[...][()], rigid, stays])


def mobility_of(G: Indexed, contact: Any) -> Any:
    """Three times the mobility that scales a contact: the trace t of its block, or less if G_nn is below t/10.

    So ε stays small beside the normal, where a wheel that spins freely moves far more easily than what it carries.
    """
    x, y, n = contact
    normal, across = G[n, n][()], G[x, x][()] + G[y, y][()]
    total = normal + across
    least = larger(normal, 1e-6 * across)
    return smaller(total, larger(100.0 * normal * normal / (total + NEVER_ZERO), least))


def _scale(
    rows: _Rows, G: Indexed, free: Indexed, bounds: Indexed, epsilon: Any, scale: Indexed, g: Indexed, matrix: Indexed
) -> Any:
    """Scales, g′ and G′ + ε, and what (2) and (3) need; returns the fastest approach."""
    k, limit, low, high = rows
    size = k.scalar(0.0)
    for contact in k.contacts:
        trace = mobility_of(G, contact)
        s = above(trace, 3.0 * IMMOBILE, sqrt(3.0 / above(trace, 3.0 * IMMOBILE, trace, 1.0)), 0.0)
        x, y, n = (s * free[row][()] for row in contact)
        for row, value in zip(contact, (x, y, n), strict=True):
            scale[row], g[row], limit[row], low[row], high[row] = s, value, bounds[row][0], 0.0, 0.0
        size[...] = larger(larger(size[...], -n), ROUNDING * sqrt(x * x + y * y + n * n))
    for row in k.joints:
        m = G[row, row][()]
        moves = above(m, IMMOBILE, 1.0, 0.0)
        s = 1.0 / sqrt(where(moves, m, 1.0))
        of_row = s, s * free[row][()], bounds[row][0] / s, bounds[row][1] * s, bounds[row][2] * s
        s, v, dry, slow, fast = (where(moves, x, 0.0) for x in of_row)
        scale[row], g[row], limit[row], low[row], high[row] = s, v, dry, slow, fast
        rubbing = above(dry, 0.0, magnitude(v), ROUNDING * magnitude(v))
        size[...] = larger(larger(size[...], rubbing), larger(slow - v, v - fast))
    for i in k.r:
        for j in k.r:
            matrix[i, j] = scale[i] * G[i, j] * scale[j]
        matrix[i, i] = matrix[i, i] + epsilon
    return size[...]


def _add_product(k: Workspace, matrix: Indexed, v: Indexed, total: Indexed) -> None:
    """Add the product of a symmetric matrix and a vector, three rows at a time: `total` is read once for all."""
    for contact in k.contacts:
        (x, y, n), (vx, vy, vn) = contact, row_values(v, contact)
        for j in k.r:
            total[j] = total[j] + matrix[x, j] * vx + matrix[y, j] * vy + matrix[n, j] * vn
    for row in k.joints:
        for j in k.r:
            total[j] = total[j] + matrix[row, j] * v[row]


def _sweep(rows: _Rows, matrix: Indexed, searches: Any, p: Indexed, u: Indexed) -> None:
    """Solve each contact and each joint in turn, while the others stay."""
    k, limit, low, high = rows
    for contact in k.contacts:
        x, y, n = contact
        moving, was, mu = row_values(u, contact), row_values(p, contact), limit[n][()]
        (xx, xy, xn), (_, yy, yn), (_, _, nn) = ([matrix[i, j][()] for j in contact] for i in contact)
        b = [
            moving[0] - (xx * was[0] + xy * was[1] + xn * was[2]),
            moving[1] - (xy * was[0] + yy * was[1] + yn * was[2]),
            moving[2] - (xn * was[0] + yn * was[1] + nn * was[2]),
        ]
        now = single_contact(k, searches, (xx, xy, yy, xn, yn, nn), b, mu, slowness(moving, was))
        dx, dy, dn = (part - before for part, before in zip(now, was, strict=True))
        p[x], p[y], p[n] = now
        for other in k.r:
            u[other] = u[other] + matrix[n, other] * dn + matrix[x, other] * dx + matrix[y, other] * dy
    for row in k.joints:
        m, was, dry = matrix[row, row][()], p[row][()], limit[row][()]
        b = u[row][()] - m * was
        stops = -b / m
        now = above(stops, dry, larger((low[row] - b) / m, dry), stops)
        now = less(stops, -dry, smaller((high[row] - b) / m, -dry), now)
        p[row] = now
        for other in k.r:
            u[other] = u[other] + matrix[row, other] * (now - was)


def _newton_step(
    rows: _Rows, matrix: Indexed, cap: Any, rho_n: Any, rho_j: Any, more: Any, p: Indexed, u: Indexed, rho: Indexed,
    step: Indexed,
) -> None:  # fmt: skip
    """Δλ by (4), with `more` added to ε; and ρ_t of each contact, at most `cap`."""
    k, limit, *_ = rows
    equations = _Equations(*(k.array("r") for _ in range(5)))
    of_impulse, of_velocity, of_normal, along, across = equations
    for contact in k.contacts:
        x, y, n = contact
        (px, py, pn), (ux, uy, un), mu = row_values(p, contact), row_values(u, contact), limit[n][()]
        wanted = larger(mu * pn, sqrt(px * px + py * py)) / (sqrt(ux * ux + uy * uy) + NEVER_ZERO)
        rho_t = larger(smaller(wanted, cap), 1.0)
        tx, ty, tn = px - rho_t * ux, py - rho_t * uy, pn - rho_n * un
        size = sqrt(tx * tx + ty * ty)
        some = above(size, 0.0, size, 1.0)
        cx, cy = above(size, 0.0, tx / some, 1.0), ty / some
        pt, pp, ut, up = cx * px + cy * py, cx * py - cy * px, cx * ux + cy * uy, cx * uy - cy * ux
        kappa = mu * tn / some
        for row in contact:
            rho[row], along[row], across[row] = rho_t, cx, cy
        of = {
            x: ((1.0, 0.0, -pt), (1.0, 0.0, mu * pn - pt), (0.0, 1.0, -ut)),
            y: ((1.0, 0.0, -pp), (1.0 - kappa, kappa * rho_t, -pp), (0.0, 1.0, -up)),  # for τ_p = 0
            n: ((1.0, 0.0, -pn), (0.0, 1.0, -un), (0.0, 1.0, -un)),
        }
        for row, (is_open, slides, sticks) in of.items():
            of_impulse[row], of_velocity[row], step[row] = (
                above(tn, 0.0, less(mu * tn, size, b, c), a) for a, b, c in zip(is_open, slides, sticks, strict=True)
            )
        of_normal[x] = above(tn, 0.0, less(mu * tn, size, -mu, 0.0), 0.0)
    for row in k.joints:
        target, holds = _joint_mode(rows, row, rho_j, p[row][()] - rho_j * u[row][()])
        rho[row], of_impulse[row], of_velocity[row] = rho_j, 1.0 - holds, holds
        step[row] = target - where(holds, u[row], p[row])

    _eliminate(k, matrix, equations, more, step)


def _eliminate(k: Workspace, matrix: Indexed, equations: _Equations, more: Any, b: Indexed) -> None:
    """Solve for Δλ, with the right side in b: rows along t, p and n, columns along x, y and n.

    Row by row, so that all but pivots stay in fast memory, three at a time. They are multiplied by the inverse of their
    block, so that rows below need no factors of their own. There are no exchanges: along t, p, n pivots are good, and
    false ones are replaced.
    """
    of_impulse, of_velocity, of_normal, along, across = equations
    J = k.array("r", "r")
    for contact in k.contacts:
        x, y, n = contact
        (of_t, of_p, of_n), tx, ty = row_values(of_velocity, contact), along[x][()], across[x][()]
        xx, xy, yx, yy = of_t * tx, of_t * ty, -of_p * ty, of_p * tx
        for j in k.r:
            J[x, j] = xx * matrix[x, j] + xy * matrix[y, j]
            J[y, j] = yx * matrix[x, j] + yy * matrix[y, j]
            J[n, j] = of_n * matrix[n, j]
        for pivots in k.contacts.before(contact):
            _subtract(k, J, b, contact, pivots)
        turned = [
            [tx * vx + ty * vy, tx * vy - ty * vx, vn] for vx, vy, vn in (_entries(J, i, contact) for i in contact)
        ]
        for number, row in enumerate(contact):
            turned[number][number] += of_impulse[row][()] + of_velocity[row][()] * more
        turned[0][2] += of_normal[x][()]
        ahead, aside, normal = _inverse(turned)
        inverse = [
            [tx * v - ty * w for v, w in zip(ahead, aside, strict=True)],
            [ty * v + tx * w for v, w in zip(ahead, aside, strict=True)],
            normal,
        ]
        for j in k.r.after(contact):
            J[x, j], J[y, j], J[n, j] = _times(inverse, (J[x, j], J[y, j], J[n, j]))
        b[x], b[y], b[n] = _times(inverse, row_values(b, contact))
    for p in k.joints:
        row = IndexBlock([p])
        for j in k.r:
            J[p, j] = of_velocity[p] * matrix[p, j]
        for pivots in k.contacts:
            _subtract(k, J, b, row, pivots)
        for other in k.joints.before(p):
            _subtract(k, J, b, row, IndexBlock([other]))
        share = _over(J[p, p][()] + (of_impulse[p][()] + of_velocity[p][()] * more))
        for j in k.r.after(p):
            J[p, j] = share * J[p, j]
        b[p] = share * b[p]
    for p in reversed(k.joints):
        for i in k.r.before(p):
            b[i] = b[i] - J[i, p] * b[p]
    for contact in reversed(k.contacts):
        (x, y, n), (bx, by, bn) = contact, row_values(b, contact)
        for i in k.r.before(contact):
            b[i] = b[i] - J[i, x] * bx - J[i, y] * by - J[i, n] * bn


def _subtract(k: Workspace, J: Indexed, b: Indexed, rows: IndexBlock, pivots: IndexBlock) -> None:
    """Eliminate the columns of pivots, whose own block is the identity, from rows below."""
    factors = [_entries(J, row, pivots) for row in rows]
    for j in k.r.after(pivots):
        known = [J[pivot, j] for pivot in pivots]
        for row, each in zip(rows, factors, strict=True):
            J[row, j] = _less(J[row, j], each, known)
    for row, each in zip(rows, factors, strict=True):
        b[row] = _less(b[row][()], each, row_values(b, pivots))


def _entries(matrix: Indexed, row: Any, columns: IndexBlock) -> list[Any]:
    return [matrix[row, j][()] for j in columns]


def _less(value: Any, factors: list[Any], of: list[Any]) -> Any:
    """What is left of a value, product by product."""
    for a, b in zip(factors, of, strict=True):
        value = value - a * b
    return value


def _over(pivot: Any) -> Any:
    """One over a pivot, if it is not false."""
    least = less(pivot, 0.0, -_LEAST_PIVOT, _LEAST_PIVOT)
    return 1.0 / less(magnitude(pivot), _LEAST_PIVOT, least, pivot)


def _inverse(A: list[list[Any]]) -> list[list[Any]]:
    """The inverse of a 3 × 3 matrix, by elimination without exchanges."""
    (a, b, c), (d, e, f), (g, h, i) = A
    first = _over(a)
    down, far = d * first, g * first
    e, f, h, i = e - down * b, f - down * c, h - far * b, i - far * c
    second = _over(e)
    low = h * second
    third = _over(i - low * f)
    columns = []
    for top, middle, bottom in ((1.0, -down, low * down - far), (0.0, 1.0, -low), (0.0, 0.0, 1.0)):
        z = bottom * third
        y = (middle - f * z) * second
        columns.append([(top - b * y - c * z) * first, y, z])
    return [list(row) for row in zip(*columns, strict=True)]


def _times(A: list[list[Any]], v: Any) -> list[Any]:
    return [row[0] * v[0] + row[1] * v[1] + row[2] * v[2] for row in A]


def _length(rows: _Rows, rho: Indexed, rho_n: Any, p: Indexed, u: Indexed, step: Indexed, change: Indexed) -> Any:
    """The best of eight lengths of a step, 0 if none lowers |λ − P(λ − ρ u)|.

    A whole step that halves it is good enough.
    """
    k = rows.k
    ahead, after = k.array("r"), k.array("r")

    def merit(part: Any) -> Any:
        for row in k.r:
            ahead[row], after[row] = p[row] + part * step[row], u[row] + part * change[row]
        return _merit(rows, rho, rho_n, ahead, after)

    before, whole = _merit(rows, rho, rho_n, p, u), merit(1.0)
    enough = k.scalar(less(0.25 * before, whole, 0.0, 1.0))
    length, least, part = k.scalar(less(whole, before, 1.0, 0.0)), k.scalar(smaller(whole, before)), k.scalar(1.0)
    for _ in k.once.until(enough):
        for _ in k.lengths:
            part[...] = 0.5 * part[...]
            found = merit(part[...])
            better = where(enough[...], 0.0, less(found, least[...], 1.0, 0.0))
            length[...] = where(better, part[...], length[...])
            least[...] = where(better, found, least[...])
        enough[...] = 1.0
    return length[...]


def _merit(rows: _Rows, rho: Indexed, rho_n: Any, p: Indexed, u: Indexed) -> Any:
    """|λ − P(λ − ρ u)|²."""
    k, limit, *_ = rows
    total = k.scalar(0.0)
    for contact in k.contacts:
        (px, py, pn), (ux, uy, un), n = row_values(p, contact), row_values(u, contact), contact[2]
        mu, rho_t = limit[n][()], rho[n][()]
        x, y, pressed = px - rho_t * ux, py - rho_t * uy, larger(pn - rho_n * un, 0.0)
        t = sqrt(x * x + y * y)
        share = less(mu * pressed, t, mu * pressed / (t + NEVER_ZERO), 1.0)
        dx, dy, dn = px - share * x, py - share * y, pn - pressed
        total[...] = total[...] + (dx * dx + dy * dy + dn * dn)
    for row in k.joints:
        rho_j = rho[row][()]
        off = p[row][()] - _of_joint(rows, row, rho_j, p[row][()] - rho_j * u[row][()])
        total[...] = total[...] + off * off
    return total[...]


def _residual(rows: _Rows, size: Any, p: Indexed, u: Indexed) -> Any:
    """The largest violation of (2) and (3), over the fastest approach."""
    k, limit, *_ = rows
    worst = k.scalar(0.0)
    for contact in k.contacts:
        pushed, v, mu = row_values(p, contact), row_values(u, contact), limit[contact[2]][()]
        slip = mu * sqrt(v[0] * v[0] + v[1] * v[1])
        near = in_cone(mu, [pushed[0] - v[0], pushed[1] - v[1], pushed[2] - v[2] - slip])
        off = sum((a - b) * (a - b) for a, b in zip(pushed, near, strict=True))
        worst[...] = less(off, worst[...], worst[...], off)  # NaN stays
    for row in k.joints:
        off = p[row][()] - _of_joint(rows, row, 1.0, p[row][()] - u[row][()])
        worst[...] = less(off * off, worst[...], worst[...], off * off)
    return sqrt(worst[...][()]) / (size + NEVER_ZERO)


def _joint_mode(rows: _Rows, row: Any, rho: Any, tau: Any) -> tuple[Any, Any]:
    """What λ, or u where `holds` is 1, is by (3), where τ = λ − ρ u."""
    dry, low, high = rows.limit[row][()], rows.low[row][()], rows.high[row][()]
    up, down = above(tau, dry - rho * low, 1.0, 0.0), less(tau, -dry - rho * high, 1.0, 0.0)
    rubs = above(magnitude(tau), dry, 1.0, 0.0) - up - down
    target = where(rubs, less(tau, 0.0, -dry, dry), where(up, low, where(down, high, 0.0)))
    return target, 1.0 - rubs


def _of_joint(rows: _Rows, row: Any, rho: Any, tau: Any) -> Any:
    """λ by (3), where τ = λ − ρ u."""
    dry, low, high = rows.limit[row][()], rows.low[row][()], rows.high[row][()]
    return above(tau, dry, larger(tau + rho * low, dry), less(tau, -dry, smaller(tau + rho * high, -dry), tau))
