"""How impulses of discovered contacts respond to changes of a step, as `kinetree.kernels.contact_response` does.

Which bodies touch depends on the sample, and so does how a contact moves with them: both ends move its point, normal
and gap by what `kinetree.kernels.contact_rates` has found. With arms r = x − c from the origins c of both bodies, the
velocity of one relative to the other changes by

    δw = χ ∂(J v′)/∂q δq + ω_a × (δx − δc_a) − ω_b × (δx − δc_b)                                             (1)

Impulses f that stay as they are in the world act at points that move over the bodies, in the axes of which

    Y_a = ((δx − δc_a) × f − δθ_a × (r_a × f), −δθ_a × f)                                                     (2)

is how the wrench on body a changes, and that on b with −f. The matrix of (2) is `drift`. It is a change of wrenches at
given impulses: with δv_f + M⁻¹Jᵀ Y ξ in the place of δv_f, changes of λ are those in the axes of the world, and have no
term of Φ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less, magnitude
from kinetree.kernels.contact_discovery import CONTACT
from kinetree.kernels.contact_problem import RECOVERY, normal_basis
from kinetree.kernels.contact_rates import CHANGING
from kinetree.kernels.contact_response import ON_SURFACE, ResponseState
from kinetree.kernels.discovered_rows import FASTEST
from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import MatrixView, add_product
from kinetree.language.tree import Indexed
from kinetree.spatial.rotation import cross

_UNITS = np.eye(3)


@kernel(
    G=("t", "t"), free=("t",), impulse=("t",), velocity=("t",), bounds=("t", 3), solved=(3,), contact=("s", CONTACT),
    rates=("s", 6, CHANGING), origin=("m", 3), number=("m",), twist=("m", 6), place=("v",), limits=("v", 2),
    numbers=(2,), C=("c", "c"), by_place=("c", "n"), drift=("n", "n"), stopping=("v",), modes=("t",), report=(3,),
    outputs=("C", "by_place", "drift", "stopping", "modes", "report"), rounds=("once",),
    sparse=("C", "by_place", "drift", "stopping"),
    lists={
        "contacts": {"t": 3, "s": 1}, "bodies": {"m": 1, "n": 6, "c": 6}, "joints": {"t": 1, "c": 1, "v": 1},
        "contacts_backwards": {"t": 3}, "joints_backwards": {"t": 1},
    },
)  # fmt: skip
def discovered_response(
    k: Workspace, G: Indexed, free: Indexed, impulse: Indexed, velocity: Indexed, bounds: Indexed, solved: Indexed,
    contact: Indexed, rates: Indexed, origin: Indexed, number: Indexed, twist: Indexed, place: Indexed, limits: Indexed,
    numbers: Indexed, C: Indexed, by_place: Indexed, drift: Indexed, stopping: Indexed, modes: Indexed, report: Indexed,
) -> None:  # fmt: skip
    """C, C_ξ, the matrix of (2), `stopping`, modes and the report.

    `contact` and `rates` are those of `contact_discovery` and `contact_rates`; `origin`, `number` and `twist` the
    places, numbers and velocities of bodies after the step, in world axes; all others are as of `contact_response`.
    """
    dt, epsilon = numbers[...]
    state = ResponseState(k, G, free, impulse, velocity, bounds, epsilon)
    chi, X, Y = k.zeros("t", "c"), k.zeros("t", "c"), k.zeros("t", "n")

    for rows, (i,) in k.contacts:
        given = contact[i]
        point, h, axes = given[:3], given[6], [np.array(axis) for axis in normal_basis(*given[3:6])]
        parted = RECOVERY * h / dt
        gap = less(-h, 0.0, h / dt, larger(parted, -FASTEST))
        rate = less(h, ON_SURFACE, less(parted, -FASTEST, 0.0, RECOVERY), 1.0) / dt
        of = state.contact(rows, (axes[0], axes[1], axes[2]), gap)
        n, f = axes[2], of.push

        spin = [k.scalar(0.0) for _ in range(3)]  # ω_a − ω_b
        for (m,), _, _ in k.bodies:
            sign = _is(number[m], given[8]) - _is(number[m], given[9])
            for entry, x in zip(spin, twist[m][:3], strict=True):
                entry[...] = entry[...] + sign * x
        turning = np.array([entry[...][()] for entry in spin])

        for (m,), own, columns in k.bodies:
            first, second = _is(number[m], given[8]), _is(number[m], given[9])
            sign, apart = first - second, k.scalar(1.0 - (first + second))
            for _ in k.once.until(apart):
                c, omega = origin[m], twist[m][:3]
                r = point - c
                for row, axis in zip(rows, (of.d, of.p, n), strict=True):
                    for column, value in zip(columns, (*cross(r, axis), *axis), strict=True):
                        chi[row, column] = sign * of.s * value
                        X[row, column] = state.of_velocity[row] * (sign * of.s * value)
                moves = []
                for j, column in enumerate(own):
                    (dx, dn, dh), dc = _moved(rates[i], given, c, r, j, first, second), _shifted(j)
                    moves.append(dx)
                    dw = cross(turning, dx) - cross(omega, dc) * sign  # (1)
                    parts = (
                        (of.d @ dn) * of.turn[0],
                        (of.p @ dn) * of.turn[1],
                        (of.w @ dn) * (of.slides * of.s) + dh * (of.closed * of.s * rate),
                    )
                    for row, axis, part in zip(rows, (of.d, of.p, n), parts, strict=True):
                        Y[row, column] = state.of_velocity[row] * (of.s * (axis @ dw)) + part
                    # (2) of this body's own motion
                    turn = _turned(j)
                    moment = -cross(dc, f) - cross(turn, cross(r, f))
                    for row, value in zip(own, (*moment, *-cross(turn, f)), strict=True):
                        drift[row, column] = drift[row, column] + sign * value
                for (o,), other, _ in k.bodies:
                    pushed = _is(number[o], given[8]) - _is(number[o], given[9])
                    off = k.scalar(less(magnitude(pushed), 0.5, 1.0, 0.0))
                    for _ in k.once.until(off):
                        for column, dx in zip(own, moves, strict=True):
                            for row, value in zip(other[:3], cross(dx, f), strict=True):
                                drift[row, column] = drift[row, column] + pushed * value
                        off[...] = 1.0
                apart[...] = 1.0

    state.joints(dt, place, limits, stopping, X)
    for (row,), (column,), _ in k.joints:
        chi[row, column] = state.scale[row]
    answers = [(X, k.c), (Y, k.n)]
    state.solve(answers)
    back = MatrixView(lambda i, j: chi[j, i])
    for result, (answer, columns) in zip((C, by_place), answers, strict=True):
        add_product(result, (k.c, k.t, columns), back, answer)
    state.conclude(solved, modes, report)


def _is(number: Any, wanted: Any) -> Any:
    """1 if two numbers are the same."""
    return less(magnitude(number - wanted), 0.5, 1.0, 0.0)


def _turned(j: int) -> Any:
    """δθ of one of the six motions of a body."""
    return _UNITS[j] if j < 3 else np.zeros(3)


def _shifted(j: int) -> Any:
    """δc."""
    return np.zeros(3) if j < 3 else _UNITS[j - 3]


def _moved(rates: Any, given: Any, c: Any, r: Any, j: int, first: Any, second: Any) -> tuple[Any, Any, Any]:
    """δx, δn and δh of a contact for one of the six motions of its first or second body, whose origin is c."""
    if j < 3:  # about an axis through c, which is ω = e_j and v₀ = c × e_j about the world's origin
        own = rates[j]
        for entry, rate in zip(cross(c, _UNITS[j]), rates[3:], strict=True):
            own = own + entry * rate
        along = cross(_UNITS[j], r), cross(_UNITS[j], given[3:6])
    else:
        own, along = rates[j], (_UNITS[j - 3], np.zeros(3))
    sign = first - second
    return sign * own[:3] + second * along[0], sign * own[3:6] + second * along[1], sign * own[6]


@kernel(
    contact=("s", CONTACT), force=("r",), origin=("m", 3), number=("m",), wrench=("m", 6), outputs=("wrench",),
    sparse=("wrench",), lists={"contacts": {"r": 3, "s": 1}},
)  # fmt: skip
def discovered_wrenches(
    k: Workspace, contact: Indexed, force: Indexed, origin: Indexed, number: Indexed, wrench: Indexed
) -> None:
    """Impulses of contacts on bodies about their origins, from those in world axes."""
    for rows, (i,) in k.contacts:
        given, f = contact[i], np.array([force[row][()] for row in rows])
        for m in k.m:
            sign = _is(number[m], given[8]) - _is(number[m], given[9])
            moment = cross(given[:3] - origin[m], f)
            wrench[m] = wrench[m] + np.array([sign * x for x in (*moment, *f)])
