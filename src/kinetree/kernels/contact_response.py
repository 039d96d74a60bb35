"""How impulses of contacts and joints respond to changes of a step: derivatives at its solution. Cost O(t³).

The step solves, with v_f the velocities without impulses and J the motion of c rows, six of each body that may touch
something and one of each joint with friction or a stop, u = χ J v′ + gaps and v′ = v_f + M⁻¹Jᵀχᵀλ in the modes

    open  λ = 0;    sticking  u = 0;    sliding  u_n = 0, λ = λ_n (n − μ d), d = u_t/|u_t|                     (1)

along d, p = n × d and n of each contact, with u_n = w_n + c(h)/dt, c(h) = h above the surface and β h below. δq moves
bodies by ξ = J δq. Velocities of points at given v′ then change by χ (∂(J v′)/∂q) δq and, as arms turn, ω × (δθ × r);
normals and heights with their points; and impulses that stay as they are in the world turn in the axes of bodies by
Φ ξ = −δθ × λ. Differentiated, (1) are rows

    S y = −(E χ (J δv_f + ∂(J v′)/∂q δq) + (E_ξ − E_λ Φ) ξ + E_μ δμ + E_h δh₀),    S = E G + E_λ            (2)

of y, the change of λ in axes that turn with the bodies:

    sticking       E: one, E_λ: none           δw_d + (c/dt) d·δn,   the same along p,   δw_n + δ(c/dt)
    sliding, d     δλ_d + μ δλ_n − λ_n (1 + μ²) d·δn + λ_n δμ
    sliding, p     (1 − κ) δλ_p + κ δw_p − (1 − κ)(1 + μ w_n/|w_t|) λ_n p·δn,    κ = μ λ_n/(μ λ_n + |w_t|)      (3)
    sliding, n     δw_n + w·δn + δ(c/dt)
    joint          stuck or stopped δv′, the latter + δq/dt while there is a gap; slipping δλ

in the solver's scales (`kinetree.kernels.contact_newton`), in which κ has no unit. Results are what changes of
velocities, places, frictions and heights do to impulses on the rows, all times −1:

    C = χᵀS⁻¹Eχ,    C_ξ = χᵀS⁻¹(E_ξ − E_λΦ),    χᵀS⁻¹E_μ,    χᵀS⁻¹E_h                                      (4)

Redundant contacts make S singular. As in the solver, a compliance ε is added to G, so small that what S determines does
not feel it; what S leaves open has the smallest y. Of any vector, S⁻¹ε E keeps the part in the null space of S alone.
If that presses on a contact that slides, (1) determines no derivative. If not, it moves nothing: friction across the
direction of sliding takes energy, and G has none to give.

Modes are certain if each is away from its neighbours by more than the residual explains. At an *edge*, where a force is
at the limit of friction and nothing moves, the sticking side is differentiated; c′ = 1 on the surface itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.branchless import above, larger, less, magnitude, smaller, where
from kinetree.kernels.contact_newton import mobility_of
from kinetree.kernels.contact_problem import IMMOBILE, RECOVERY, ROUNDING, row_values
from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.rotation import cross
from kinetree.spatial.scalar import sqrt

OPEN, STICKING, SLIDING, EDGE = range(4)
FREE, STUCK, SLIPPING, STOPPED = range(4)
#: Heights above this are differentiated as on the surface or above it [m].
ON_SURFACE = -1e-9
#: Speeds of contacts, relative to the fastest approach, that are rounding.
_NOTHING = 1e-10
#: Least margin of modes that are certain, and by what factor it exceeds the residual.
_MARGIN, _FACTOR = 1e-6, 100.0
#: What of a vector is left that S does not determine, and of any other is not.
_LEFT = 1e-3
_LEAST_PIVOT = 1e-14
#: ε, if the law is the rigid one in the end.
EPSILON = 1e-12


@kernel(
    G=("t", "t"), free=("t",), impulse=("t",), velocity=("t",), bounds=("t", 3), solved=(3,), axes=("r", 3),
    arm=("r",), height=("r",), slope=("r",), bend=("r", 3), twist=("n",), place=("v",), limits=("v", 2), numbers=(2,),
    C=("c", "c"), by_place=("c", "n"), by_friction=("c", "g"), by_height=("c", "g"), stopping=("v",), modes=("t",),
    report=(3,), outputs=("C", "by_place", "by_friction", "by_height", "stopping", "modes", "report"),
    sparse=("C", "by_place", "by_friction", "by_height", "stopping"), rounds=("once",),
    lists={
        "contacts": {"t": 3, "r": 3, "n": 6, "c": 6, "g": 1}, "joints": {"t": 1, "c": 1, "v": 1},
        "contacts_backwards": {"t": 3}, "joints_backwards": {"t": 1},
    },
)  # fmt: skip
def contact_response(
    k: Workspace, G: Indexed, free: Indexed, impulse: Indexed, velocity: Indexed, bounds: Indexed, solved: Indexed,
    axes: Indexed, arm: Indexed, height: Indexed, slope: Indexed, bend: Indexed, twist: Indexed, place: Indexed,
    limits: Indexed, numbers: Indexed, C: Indexed, by_place: Indexed, by_friction: Indexed, by_height: Indexed,
    stopping: Indexed, modes: Indexed, report: Indexed,
) -> None:  # fmt: skip
    """(4), modes, and the margin, whether the law determines the derivative, and whether modes are certain.

    `G` to `solved` are the problem and its solution as of `contact_newton`, with velocities u; `axes`, `arm` and
    `height` are of each contact. slope is ∂h/∂p and bend ∂n/∂p of its point, twist that of its body after the step, in
    world axes. place and limits are those of joints, and numbers dt and ε. stopping is 1/dt where ξ of a joint counts.
    """
    dt, epsilon = numbers[...]
    state = ResponseState(k, G, free, impulse, velocity, bounds, epsilon)
    chi = [k.array("t") for _ in range(6)]
    X, Y, Z_mu, Z_h = (k.zeros("t", x) for x in ("c", "n", "g", "g"))

    for rows, own, body, columns, (shape,) in k.contacts:
        a, b, n = (axes[row] for row in own)
        h = height[own[2]][()]
        gap, rate = above(h, 0.0, h, RECOVERY * h) / dt, less(h, ON_SURFACE, RECOVERY, 1.0) / dt
        of = state.contact(rows, (a, b, n), gap)
        r, omega = np.array(row_values(arm, own)), np.array([twist[c][()] for c in body[:3]])
        bends, steep = np.array([bend[row] for row in own]), np.array(row_values(slope, own))
        by_point = (
            (of.d @ bends) * of.turn[0],
            (of.p @ bends) * of.turn[1],
            (of.w @ bends) * (of.slides * of.s) + steep * (of.closed * of.s * rate),
        )
        for row, axis, e in zip(rows, (of.d, of.p, n), by_point, strict=True):
            for part, value in zip(chi, (*cross(r, axis), *axis), strict=True):
                part[row] = of.s * value
            held, felt = state.of_velocity[row], state.of_impulse[row] + state.soft * state.of_velocity[row]
            swing = (
                cross(r, cross(axis, omega)) * (held * of.s)
                - (cross(axis, of.push) * felt + cross(n, of.push) * state.of_normal[row]) / of.s
            )
            for c, other, value, part in zip(body, columns, (*(cross(r, e) + swing), *e), chi, strict=True):
                Y[row, c], X[row, other] = value, held * part[row]
        x, _, z = rows
        Z_mu[x, shape], Z_h[z, shape] = of.slides * of.pressed, -(of.closed * rate * of.s)

    state.joints(dt, place, limits, stopping, X)
    answers = [(X, k.c), (Y, k.n), (Z_mu, k.g), (Z_h, k.g)]
    state.solve(answers)

    # what it answers, (4)
    results = list(zip((C, by_place, by_friction, by_height), answers, strict=True))
    for rows, _, _, columns, _ in k.contacts:
        for result, (answer, others) in results:
            for j in others:
                entries = [answer[row, j] for row in rows]
                for c, part in zip(columns, chi, strict=True):
                    result[c, j] = result[c, j] + sum(part[row] * x for row, x in zip(rows, entries, strict=True))
    for (row,), (c,), _ in k.joints:
        for result, (answer, others) in results:
            for j in others:
                result[c, j] = result[c, j] + state.scale[row] * answer[row, j]
    state.conclude(solved, modes, report)


class ContactMode(NamedTuple):
    """The mode of a contact, and factors of its rows (3)."""

    s: Any  # its scale
    d: Any  # the direction of sliding, in the world
    p: Any  # n × d
    w: Any  # velocity of the point
    push: Any  # impulse
    closed: Any
    slides: Any
    pressed: Any  # λ_n in scales
    turn: tuple[Any, Any]  # factors of d·δn and p·δn


class ResponseState:
    """Modes of all rows, and the system (2): what does not depend on how contacts are found."""

    def __init__(
        self,
        k: Workspace,
        G: Indexed,
        free: Indexed,
        impulse: Indexed,
        velocity: Indexed,
        bounds: Indexed,
        epsilon: Any,
    ) -> None:
        self._k, self._G, self._free, self._impulse, self._velocity, self._bounds = (
            k,
            G,
            free,
            impulse,
            velocity,
            bounds,
        )
        self.scale, self.of_impulse, self.of_velocity, self.of_normal, self._along, self._across, self._modes = (
            k.array("t") for _ in range(7)
        )
        self._size = _scaled(k, G, free, bounds, self.scale)
        self._margin, self._probe = k.scalar(np.inf), k.zeros("t", "once")
        self._sum_of_all, self._epsilon = k.scalar(0.0), epsilon
        #: Of the law itself, if that is soft.
        self.soft = less(epsilon, 10.0 * EPSILON, 0.0, epsilon)

    def contact(self, rows: Any, axes: tuple[Any, Any, Any], gap: Any) -> ContactMode:
        """The mode of a contact, from its axes and c(h)/dt, and how far the others are."""
        G, size = self._G, self._size
        x, y, z = rows
        s, movable = self.scale[x][()], above(G[x, x] + G[y, y] + G[z, z], 3.0 * IMMOBILE, 1.0, 0.0)
        (px, py, pz), (ux, uy, uz) = row_values(self._impulse, rows), row_values(self._velocity, rows)
        mu, speed = self._bounds[z][0], sqrt(ux * ux + uy * uy)
        pressed, apart, slip = pz / s, s * uz, s * speed
        slack = larger(mu * pz - sqrt(px * px + py * py), 0.0) / s
        closed = movable * above(pressed, apart, 1.0, 0.0)
        rubs, still = above(mu, 0.0, 1.0, 0.0), above(slip, _NOTHING * size, 0.0, 1.0)
        moves = above(slip, slack, closed, 0.0)
        edge, slides = rubs * moves * still, where(rubs, moves * (1.0 - still), closed)
        sticks, is_open = closed - slides, 1.0 - closed
        for row in rows:
            self._modes[row] = sticks + 2.0 * (slides + edge)
        guard = where(rubs, where(slides, slip, where(edge, 0.0, slack)), np.inf)
        off = where(closed, smaller(pressed, guard), apart) / size
        self._margin[...] = smaller(self._margin[...], where(movable, off, np.inf))

        # factors of the rows (3)
        some = above(speed, 0.0, speed, 1.0)
        c_d, s_d = above(speed, 0.0, ux / some, 1.0), uy / some
        rubbing = mu * pressed + slip
        kappa = above(rubbing, 0.0, mu * pressed / above(rubbing, 0.0, rubbing, 1.0), 0.0)
        self._along[x], self._across[x] = c_d, s_d
        for row, of_impulse, of_velocity, of_normal in (
            (x, 1.0 - sticks, sticks, slides * mu),
            (y, is_open + slides * (1.0 - kappa), sticks + slides * kappa, 0.0),
            (z, is_open, closed, 0.0),
        ):
            self.of_impulse[row], self.of_velocity[row], self.of_normal[row] = of_impulse, of_velocity, of_normal
        a, b, n = axes
        turn = (
            sticks * s * gap - slides * (1.0 + mu * mu) * pressed,
            sticks * s * gap - slides * (1.0 - kappa) * (1.0 + mu * (uz - gap) / some) * pressed,
        )
        push, w = a * px + b * py + n * pz, a * ux + b * uy + n * (uz - gap)
        return ContactMode(s, a * c_d + b * s_d, b * c_d - a * s_d, w, push, closed, slides, pressed, turn)

    def joints(self, dt: Any, place: Indexed, limits: Indexed, stopping: Indexed, X: Indexed) -> None:
        """Modes and rows of joints; X are the rows of (2) for velocities."""
        k, size = self._k, self._size
        for (row,), (column,), (c,) in k.joints:
            s, p, v, (dry, slow, fast) = (
                self.scale[row][()],
                self._impulse[row][()],
                self._velocity[row][()],
                self._bounds[row],
            )
            over, rounding = magnitude(p) - dry, _NOTHING * size / s
            ends = above(p, 0.0, less(slow + rounding, v, 0.0, 1.0), less(v, fast - rounding, 0.0, 1.0))
            stopped, rubs = above(over, 0.0, ends, 0.0), above(dry, 0.0, 1.0, 0.0)
            slips = (1.0 - stopped) * where(rubs, above(s * magnitude(v), -over / s, 1.0, 0.0), 1.0)
            held = above(self._G[row, row], IMMOBILE, 0.0, 1.0)
            stopped, slips = where(held, 0.0, stopped), where(held, 1.0, slips)
            self._modes[row] = where(stopped, STOPPED, where(held, STUCK, where(slips, SLIPPING * rubs, STUCK)))
            inside = smaller(v - slow, fast - v) * s
            moving = where(rubs, smaller(magnitude(v) * s, inside), inside)
            off = where(stopped, over / s, where(slips, moving, -over / s)) / size
            self._margin[...] = smaller(self._margin[...], where(held, np.inf, off))
            gap = above(p, 0.0, place[c] - limits[c][0], limits[c][1] - place[c])
            stopping[c] = above(gap, ON_SURFACE, stopped, 0.0) / dt
            self.of_velocity[row], self.of_impulse[row], self.of_normal[row] = 1.0 - slips, slips, 0.0
            X[row, column] = (1.0 - slips) * s

    def solve(self, answers: list[tuple[Indexed, Size]]) -> None:
        """B ← S⁻¹ B of the system (2), for matrices and their columns."""
        k, epsilon = self._k, self._epsilon
        S, inverse = _system(k, self._G, self.scale, self._along, self._across), k.array("t")
        chance = k.scalar(0.3)
        for i in k.t:
            for j in k.t:
                S[i, j] = self.of_velocity[i] * S[i, j]
            S[i, i] = S[i, i] + (self.of_impulse[i] + epsilon * self.of_velocity[i])
            self._sum_of_all[...] = self._sum_of_all[...] + (magnitude(self._free[i]) + magnitude(self._G[i, i]))
            for j in k.once:
                self._probe[i, j] = epsilon * self.of_velocity[i] * chance[...]
            chance[...] = 1.0 - 1.8 * (chance[...] * chance[...])
        for (x, _, z), *_ in k.contacts:
            S[x, z] = S[x, z] + self.of_normal[x]
        _factor(k, S, inverse)
        _solve(k, S, inverse, [*answers, (self._probe, k.once)])

    def conclude(self, solved: Indexed, modes: Indexed, report: Indexed) -> None:
        """Modes, the margin, whether the law determines the derivative, and whether modes are certain."""
        k, loose = self._k, self._k.scalar(0.0)
        for (x, _, z), *_ in k.contacts:
            for o in k.once:
                slides = self.of_velocity[z] * (1.0 - self.of_velocity[x])
                loose[...] = larger(loose[...], slides * magnitude(self._probe[z, o]))
        for row in k.t:
            modes[row] = self._modes[row]
        unity = less(self._sum_of_all[...], np.inf, 1.0, np.nan)  # comparisons lose NaN
        known = unity * larger(self._margin[...], 0.0)
        unique = above(loose[...], _LEFT, above(self.soft, 0.0, 1.0, 0.0), 1.0)
        report[...] = np.array([known, unique, above(known, larger(_FACTOR * solved[...][1], _MARGIN), 1.0, 0.0)])


def _scaled(k: Workspace, G: Indexed, free: Indexed, bounds: Indexed, scale: Indexed) -> Any:
    """Scales of all rows, as of `contact_newton`; returns the fastest approach."""
    size = k.scalar(1e-300)
    for rows, *_ in k.contacts:
        trace = mobility_of(G, rows)
        s = above(trace, 3.0 * IMMOBILE, sqrt(3.0 / above(trace, 3.0 * IMMOBILE, trace, 1.0)), 1.0)
        x, y, n = (s * free[row][()] for row in rows)
        for row in rows:
            scale[row] = s
        near = larger(-n, ROUNDING * sqrt(x * x + y * y + n * n))
        size[...] = larger(size[...], above(trace, 3.0 * IMMOBILE, near, 0.0))
    for (row,), *_ in k.joints:
        m = G[row, row][()]
        s = 1.0 / sqrt(above(m, IMMOBILE, m, 1.0))
        v, (dry, slow, fast) = free[row][()], bounds[row]
        rubbing = above(dry, 0.0, 1.0, ROUNDING) * magnitude(v)
        scale[row] = s
        size[...] = larger(size[...], above(m, IMMOBILE, s * larger(rubbing, larger(slow - v, v - fast)), 0.0))
    return size[...]


def _system(k: Workspace, G: Indexed, scale: Indexed, along: Indexed, across: Indexed) -> Indexed:
    """G in the solver's scales, along d, p and n."""
    S = k.array("t", "t")
    for (x, y, z), *_ in k.contacts:
        for j in k.t:
            S[x, j] = scale[x] * (along[x] * G[x, j] + across[x] * G[y, j])
            S[y, j] = scale[x] * (along[x] * G[y, j] - across[x] * G[x, j])
            S[z, j] = scale[x] * G[z, j]
    for (row,), *_ in k.joints:
        for j in k.t:
            S[row, j] = scale[row] * G[row, j]
    for i in k.t:
        for (x, y, z), *_ in k.contacts:
            ahead, aside, up = S[i, x], S[i, y], S[i, z]
            S[i, x] = scale[x] * (along[x] * ahead + across[x] * aside)
            S[i, y] = scale[x] * (along[x] * aside - across[x] * ahead)
            S[i, z] = scale[x] * up
        for (row,), *_ in k.joints:
            S[i, row] = scale[row] * S[i, row]
    return S


def _factor(k: Workspace, S: Indexed, inverse: Indexed) -> None:
    """S ← L U without exchanges, which d, p and n do not need; and one over the pivots. False ones are replaced.

    The rows of a contact are pivots together, so that the rows below are read and written once for all three.
    """

    def pivot(p: Any) -> Any:
        value = S[p, p][()]
        least = less(value, 0.0, -_LEAST_PIVOT, _LEAST_PIVOT)
        return 1.0 / less(magnitude(value), _LEAST_PIVOT, least, value)

    for contact, *_ in k.contacts:
        x, y, z = contact
        for number, p in enumerate(contact):
            inverse[p] = pivot(p)
            for i in contact[number + 1 :]:
                factor = S[i, p] * inverse[p]
                S[i, p] = factor
                for j in contact[number + 1 :]:
                    S[i, j] = S[i, j] - factor * S[p, j]
                for j in k.t.after(contact):
                    S[i, j] = S[i, j] - factor * S[p, j]
        for i in k.t.after(contact):
            first = S[i, x] * inverse[x]
            second = (S[i, y] - first * S[x, y]) * inverse[y]
            third = (S[i, z] - first * S[x, z] - second * S[y, z]) * inverse[z]
            S[i, x], S[i, y], S[i, z] = first, second, third
            for j in k.t.after(contact):
                S[i, j] = S[i, j] - first * S[x, j] - second * S[y, j] - third * S[z, j]
    for (p,), *_ in k.joints:
        inverse[p] = pivot(p)
        for i in k.t.after(p):
            factor = S[i, p] * inverse[p]
            S[i, p] = factor
            for j in k.t.after(p):
                S[i, j] = S[i, j] - factor * S[p, j]


def _solve(k: Workspace, S: Indexed, inverse: Indexed, given: list[tuple[Indexed, Size]]) -> None:
    """B ← S⁻¹ B of each matrix and its columns, from the factors."""
    for contact, *_ in k.contacts:
        x, y, z = contact
        for B, columns in given:
            for j in columns:
                B[y, j] = B[y, j] - S[y, x] * B[x, j]
                B[z, j] = B[z, j] - S[z, x] * B[x, j] - S[z, y] * B[y, j]
        for i in k.t.after(contact):
            first, second, third = S[i, x], S[i, y], S[i, z]
            for B, columns in given:
                for j in columns:
                    B[i, j] = B[i, j] - first * B[x, j] - second * B[y, j] - third * B[z, j]
    for (p,), *_ in k.joints:
        for i in k.t.after(p):
            factor = S[i, p]
            for B, columns in given:
                for j in columns:
                    B[i, j] = B[i, j] - factor * B[p, j]
    for p in k.joints_backwards:
        for B, columns in given:
            for j in columns:
                B[p, j] = inverse[p] * B[p, j]
        for i in k.t.before(p):
            factor = S[i, p]
            for B, columns in given:
                for j in columns:
                    B[i, j] = B[i, j] - factor * B[p, j]
    for contact in k.contacts_backwards:
        x, y, z = contact
        for B, columns in given:
            for j in columns:
                B[z, j] = inverse[z] * B[z, j]
                B[y, j] = inverse[y] * (B[y, j] - S[y, z] * B[z, j])
                B[x, j] = inverse[x] * (B[x, j] - S[x, y] * B[y, j] - S[x, z] * B[z, j])
        for i in k.t.before(contact):
            first, second, third = S[i, x], S[i, y], S[i, z]
            for B, columns in given:
                for j in columns:
                    B[i, j] = B[i, j] - first * B[x, j] - second * B[y, j] - third * B[z, j]
