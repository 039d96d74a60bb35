"""The problem of discovered contacts, and of dry friction and stops of joints, for `contact_newton`. Cost O(r n²).

Which bodies touch depends on the sample, so rows are those of joints. A degree of freedom c with the screw S_c moves a
body if the body's node, counted from 1 on, is in the subtree of c's own: first ≤ node < end. So at a point x

    J_c = ((first ≤ a < end) − (first ≤ b < end)) (S_c linear + S_c angular × x)                    (1)

along two tangents and the normal are the rows of a contact between bodies a and b, and

    G = J M⁻¹Jᵀ         g = J v, normal rows + (h > 0 ? h/dt : max(β h/dt, −w))                      (2)

where bodies that overlap are parted by a fraction β in each step, but no faster than w.

Rows of joints are those of the identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less
from kinetree.kernels.contact_discovery import CONTACT
from kinetree.kernels.contact_problem import RECOVERY, normal_basis, what_moves
from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import add_product, mirror
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import magnitude

#: w: bodies that overlap are not parted faster [m/s].
FASTEST = 0.2


_CONTACTS: dict[str, Any] = {"contact": ("s", CONTACT)}
_GIVEN: dict[str, Any] = {
    "Minv": ("n", "n"), "own": ("n",), "v": ("n",), "dt": (), "slowest": ("n",), "fastest": ("n",), "dry": ("n",),
    "G": ("r", "r"), "free": ("r",), "bounds": ("r", 3), "axes": ("r", 3), "response": ("n", "r"),
    "outputs": ("G", "free", "bounds", "axes", "response"), "sparse": ("G", "free", "axes", "response"),
    "lists": {"contacts": {"r": 3, "s": 1}, "joints": {"r": 1, "n": 1}},
}  # fmt: skip


@kernel(**_CONTACTS, screws=("n", 6), subtree=("n", 2), **_GIVEN)
def discovered_rows(
    k: Workspace, contact: Indexed, screws: Indexed, subtree: Indexed, Minv: Indexed, own: Indexed, v: Indexed,
    dt: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, G: Indexed, free: Indexed, bounds: Indexed,
    axes: Indexed, response: Indexed,
) -> None:  # fmt: skip
    """G, g and bounds of `contact_newton`, the axes of contacts, and M⁻¹Jᵀ.

    `contact` are contacts of `contact_discovery`; `own`, `slowest`, `fastest` and `dry` as of `joined_problem`.
    """
    J = k.array("r", "n")
    for rows, (s,) in k.contacts:
        given = contact[s]
        directions = _contact(rows, given, dt, free, bounds, axes)
        for c in k.n:
            (first, end), S = subtree[c], screws[c]
            moves = _within(given[8], first, end) - _within(given[9], first, end)
            u = [moves * x for x in _at(S, given[:3])]
            for row, axis in zip(rows, directions, strict=True):
                J[row, c] = axis[0] * u[0] + axis[1] * u[1] + axis[2] * u[2]
    _problem(k, J, Minv, own, v, slowest, fastest, dry, G, free, bounds, response)


@kernel(**_CONTACTS, jacobian=("m", 6, "n"), number=("m",), **_GIVEN, rounds=("once",))
def discovered_rows_of_bodies(
    k: Workspace, contact: Indexed, jacobian: Indexed, number: Indexed, Minv: Indexed, own: Indexed, v: Indexed,
    dt: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, G: Indexed, free: Indexed, bounds: Indexed,
    axes: Indexed, response: Indexed,
) -> None:  # fmt: skip
    """The same where bodies do not follow their joints as rigid ones do: with the Jacobians of all of them.

    `jacobian` are those of m bodies in the reference "world", and `number` their numbers, in place of nodes.
    """
    J = k.array("r", "n")
    for rows, (s,) in k.contacts:
        given = contact[s]
        directions = _contact(rows, given, dt, free, bounds, axes)
        for row in rows:
            for c in k.n:
                J[row, c] = 0.0
        for body in k.m:
            one = number[body]
            moves = _within(given[8], one, one + 1.0) - _within(given[9], one, one + 1.0)
            still = k.scalar(less(magnitude(moves), 0.5, 1.0, 0.0))
            for _ in k.once.until(still):
                for c in k.n:
                    u = [moves * x for x in _at(jacobian[body, c], given[:3])]
                    for row, axis in zip(rows, directions, strict=True):
                        J[row, c] = J[row, c] + (axis[0] * u[0] + axis[1] * u[1] + axis[2] * u[2])
                still[...] = 1.0
    _problem(k, J, Minv, own, v, slowest, fastest, dry, G, free, bounds, response)


def _contact(rows: Any, given: Any, dt: Indexed, free: Indexed, bounds: Indexed, axes: Indexed) -> Any:
    """What does not depend on bodies; returns two tangents and the normal."""
    directions, h = normal_basis(*given[3:6]), given[6]
    allowed = less(-h, 0.0, h / dt[...], larger(RECOVERY * h / dt[...], -FASTEST))
    for row, axis, extra in zip(rows, directions, (0.0, 0.0, allowed), strict=True):
        axes[row], bounds[row], free[row] = np.array(axis), np.array([given[7], 0.0, 0.0]), extra
    return directions


def _at(S: Any, x: Any) -> list[Any]:
    """The velocity of a point that moves with a screw."""
    return [S[3 + i] + S[j] * x[k] - S[k] * x[j] for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]


def _problem(
    k: Workspace, J: Indexed, Minv: Indexed, own: Indexed, v: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed,
    G: Indexed, free: Indexed, bounds: Indexed, response: Indexed,
) -> None:  # fmt: skip
    """Rows of joints, and (2)."""
    for (row,), (joint,) in k.joints:
        for c in k.n:
            J[row, c] = 0.0
        J[row, joint] = 1.0
        bounds[row], free[row] = np.array([x[joint][()] for x in (dry, slowest, fastest)]), 0.0
    transposed = k.array("n", "r")
    for c in k.n:
        for row in k.r:
            transposed[c, row] = J[row, c]
            free[row] = free[row] + J[row, c] * v[c]
    add_product(response, (k.n, k.n, k.r), Minv, transposed)
    add_product(G, (k.r, k.n, k.r), J, response, symmetric=True)
    mirror(k.r, G)
    for row in k.r:
        G[row, row] = what_moves(G[row, row][()], k.sum(J[row, c] * J[row, c] * own[c] for c in k.n))


def _within(node: Any, first: Any, end: Any) -> Any:
    """1 where first ≤ node < end, else 0."""
    return less(node, first - 0.5, 0.0, less(node, end - 0.5, 1.0, 0.0))


@kernel(report=(3,), count=(), most=(), after=("n",), told=(3,), outputs=("told",))
def complete(k: Workspace, report: Indexed, count: Indexed, most: Indexed, after: Indexed, told: Indexed) -> None:
    """The report of contacts: no residual is small enough if some were left out, or if velocities are no numbers."""
    speeds = k.sum(magnitude(after[c][()]) for c in k.n)
    left_out = less(most[...] + 0.5, count[...], np.inf, 0.0) + less(speeds, np.inf, 0.0, np.nan)
    told[...] = report[...] + np.array([left_out, left_out, 0.0])
