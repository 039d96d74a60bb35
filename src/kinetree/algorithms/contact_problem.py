"""The problem of frictional contacts in contact axes, before and after the sweeps. Cost O(r²) for r = 3 rows of each.

Rows of a contact are two tangents and its normal. Contacts belong to bodies, so their mobility is that of the bodies,

    G = χ Λ⁻¹ χᵀ         χ of a row along n at r from its body: (r × n, n)

whatever the number of contacts. `contact_problem` computes it; `contact_forces` turns the impulses back to world axes,
and measures how well they obey

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (1)

[D17] T. Duff et al., "Building an orthonormal basis, revisited", Journal of Computer Graphics Techniques 6, 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import magnitude, select, sqrt
from kinetree.spatial.vector3 import cross

#: β: fraction of a penetration that is corrected in each step.
RECOVERY = 0.2
#: Residuals are relative to the largest impulse, or to this one if all are smaller [N s].
SMALLEST = 1e-12
# Avoids division by zero for immobile rows; far below any inverse mass.
_IMMOBILE = 1e-30


@algorithm(
    mobility=("v", "v"), arm=("rows",), velocity=("rows",), normal=("rows",), height=("rows",), dt=(), start=("rows",),
    G=("rows", "rows"), weight=("rows",), u=("rows",), axes=("rows", 3), outputs=("G", "weight", "u", "axes"),
)  # fmt: skip
def contact_problem(
    tree: Tree, mobility: Indexed, arm: Indexed, velocity: Indexed, normal: Indexed, height: Indexed, dt: Indexed,
    start: Indexed, G: Indexed, weight: Indexed, u: Indexed, axes: Indexed,
) -> None:  # fmt: skip
    """The rows of all contacts along tangents and normal.

    Args:
        tree: Free bodies that carry the contacts, of three rows each; nothing else of it is used.
        mobility: Velocities of the bodies per unit impulse on each, in world axes, angular components first, (6b, 6b).
        arm: From the body of each contact to its point, in world axes, (r,).
        velocity: Velocities of the points without contacts, (r,).
        normal: Outward normals of the surfaces, (r,).
        height: Signed distances of the points from the surfaces, at the normal rows, (r,).
        dt: Length of the step, seconds. A point may close its gap in that time but not more.
        start: Impulses to start from, in contact axes, (r,).
        G: Mobility in contact axes, (r, r).
        weight: Of each contact 1/ρ(G_tt) at the tangential rows, ρ the larger eigenvalue, and 1/G_nn at the normal
            row, (r,).
        u: Velocities in contact axes; normal ones with the gap over dt. With the effect of `start`, (r,).
        axes: Tangents and normal of each contact, (r, 3).
    """
    chi = [tree.array("rows") for _ in range(6)]
    half_way, speed = tree.array("v", "rows"), tree.array("rows")
    for contact, _, _ in tree.tasks():
        rows = contact.rows
        basis = _basis(*row_values(normal, rows))
        moving, away = row_values(velocity, rows), np.array(row_values(arm, rows))
        h = height[rows[2]][()]
        allowed = select(-h, 0.0, h, RECOVERY * h) / dt[...]
        for row, axis, extra in zip(rows, basis, (0.0, 0.0, allowed), strict=True):
            axes[row] = np.array(axis)
            speed[row] = _dot(axis, moving) + extra
            for part, x in zip(chi, (*cross(away, np.array(axis)), *axis), strict=True):
                part[row] = x

    for k, _ in tree.scatter():
        own = list(k.columns())
        for c in tree.columns():
            moved = [mobility[c, other] for other in own]
            for row in tree.carried(k):
                half_way[c, row] = sum(x * part[row] for x, part in zip(moved, chi, strict=True))

    for k, _ in tree.scatter():
        own = list(k.columns())
        for contact, _ in tree.carried_groups(k):
            pushes = [np.array([part[row][()] for part in chi]) for row in contact.rows]
            for other in tree.task_rows():
                column, pushed = np.array([half_way[c, other] for c in own]), speed[other]
                for row, push in zip(contact.rows, pushes, strict=True):
                    entry = push @ column
                    G[row, other] = entry
                    pushed = pushed + entry * start[row]
                speed[other] = pushed
            (xx, xy, _), (_, yy, _), (_, _, nn) = (
                [push @ np.array([half_way[c, row] for c in own]) for push in pushes] for row in contact.rows
            )
            apart = 0.5 * (xx - yy)
            largest = 0.5 * (xx + yy) + sqrt(apart * apart + xy * xy)
            for row, stiff in zip(contact.rows, (largest, largest, nn), strict=True):
                weight[row] = 1.0 / (stiff + _IMMOBILE)

    for row in tree.task_rows():
        u[row] = speed[row]


@algorithm(
    axes=("rows", 3), impulse=("rows",), u=("rows",), friction=("rows",), weight=("rows",), force=("rows",),
    error=("rows",), outputs=("force", "error"), sparse=("error",),
)  # fmt: skip
def contact_forces(
    tree: Tree, axes: Indexed, impulse: Indexed, u: Indexed, friction: Indexed, weight: Indexed, force: Indexed,
    error: Indexed,
) -> None:  # fmt: skip
    """Turn impulses back to world axes, and measure the violation of (1).

    Args:
        tree: Has the rows.
        axes: As of `contact_problem`, (r, 3).
        impulse: λ, (r,).
        u: Velocities with them, (r,).
        friction: μ of each contact, at its normal row, (r,).
        weight: As of `contact_problem`, (r,).
        force: λ in world axes, (r,).
        error: At the normal row, largest entry of λ − P_K(λ − s (u + Γ)), s the smaller weight, (r,).
    """
    for contact, _, _ in tree.tasks():
        rows = contact.rows
        n = rows[2]
        part, moving = row_values(impulse, rows), row_values(u, rows)
        for row, total in zip(rows, sum(axes[row] * impulse[row] for row in rows), strict=True):
            force[row] = total
        (mu,), (tangential, _, normal) = row_values(friction, [n]), row_values(weight, rows)
        s = select(normal, tangential, normal, tangential)
        slip = sqrt(moving[0] * moving[0] + moving[1] * moving[1])
        moved = [part[i] - s * moving[i] for i in range(3)]
        moved[2] = moved[2] - s * mu * slip
        cone = in_cone(mu, moved)
        off = [magnitude(p - c) for p, c in zip(part, cone, strict=True)]
        largest = select(off[0], off[1], off[1], off[0])
        error[n] = select(largest, off[2], off[2], largest)


@algorithm(error=("rows",), impulse=("rows",), before=(), residual=(), outputs=("residual",))
def contact_residual(tree: Tree, error: Indexed, impulse: Indexed, before: Indexed, residual: Indexed) -> None:
    """The largest violation of (1), relative to the largest impulse.

    Args:
        tree: Has the rows.
        error: As of `contact_forces`, (r,).
        impulse: λ, (r,).
        before: A residual that counts if it is larger.
        residual: The larger of both.
    """
    worst, largest = tree.array("rows"), tree.array("rows")
    for row in tree.task_rows():
        worst[row], largest[row] = error[row], SMALLEST  # NaN stays NaN
    for row in tree.task_rows():
        for other in tree.task_rows():
            for most, value in ((worst, error[row][()]), (largest, magnitude(impulse[row][()]))):
                most[other] = select(most[other][()], value, value, most[other][()])
    for row in tree.task_rows():
        now = worst[row] / largest[row]
        residual[...] = select(now, before[...][()], before[...][()], now)


def _basis(x: Any, y: Any, z: Any) -> tuple[tuple[Any, Any, Any], ...]:
    """Two tangents and the normal. [D17]: the only branch is the sign of z."""
    sign = select(z, 0.0, -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return (1.0 + sign * x * x * a, sign * b, -sign * x), (b, sign + y * y * a, -y), (x, y, z)


def in_cone(mu: Any, v: list[Any]) -> list[Any]:
    """P_K: the nearest point of the friction cone."""
    t = sqrt(v[0] * v[0] + v[1] * v[1])
    k = (mu * t + v[2]) / (1.0 + mu * mu)
    share = mu * k / select(-t, 0.0, t, 1.0)
    edge = [share * v[0], share * v[1], k]
    outside = [select(mu * t, -v[2], 0.0 * k, e) for e in edge]
    return [select(mu * v[2], t, o, x) for o, x in zip(outside, v, strict=True)]


def row_values(array: Indexed, rows: Any) -> list[Any]:
    """The values of some rows, as scalars."""
    return [array[row][()] for row in rows]


def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
