"""Sweeps of projected Gauss–Seidel over frictional contacts. Cost O(r²) for r = 3 rows of each contact.

Contacts have two tangential rows and a normal one. With u = G λ + g the velocities after impulses λ, each contact in
turn takes

    λ_n ← max(0, λ_n − u_n/G_nn)                                                                 (1)
    λ_t ← what is left of λ_t − u_t/ρ in the disk of radius μ λ_n, ρ the larger eigenvalue of G_tt (2)

[M88] and [JAJ98]; u is kept up to date.

[M88]   J. Moreau, "Unilateral contact and dry friction in finite freedom dynamics", 1988.
[JAJ98] F. Jourdan, P. Alart, M. Jean, "A Gauss–Seidel like algorithm to solve frictional contact problems", Computer
        Methods in Applied Mechanics and Engineering 155, 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import select, sqrt

#: Sweeps of `contact_sweeps`.
SEVERAL = 5

_NEVER_ZERO = 2.0**-500

_declare = algorithm(
    G=("rows", "rows"), weight=("rows",), friction=("rows",), velocity=("rows",), impulse=("rows",),
    after=("rows",), solved=("rows",), outputs=("after", "solved"),
)  # fmt: skip


@_declare
def contact_sweep(
    tree: Tree, G: Indexed, weight: Indexed, friction: Indexed, velocity: Indexed, impulse: Indexed,
    after: Indexed, solved: Indexed,
) -> None:  # fmt: skip
    """Visit every contact once.

    Args:
        tree: Has the rows, three for each contact; nothing else of it is used.
        G: Velocity of each row per unit impulse along each row, (r, r).
        weight: Of each contact 1/ρ at the tangential rows and 1/G_nn at the normal row, (r,).
        friction: μ of each contact, at its normal row, (r,).
        velocity: u = G λ + g, (r,).
        impulse: λ, (r,).
        after: u after the sweep, (r,).
        solved: λ after the sweep, (r,).
    """
    u = tree.array("rows")
    for row in tree.task_rows():
        u[row] = velocity[row]

    visit_contacts(tree, G, weight, friction, u, impulse, solved)
    for row in tree.task_rows():
        after[row] = u[row]


@_declare
def contact_sweeps(
    tree: Tree, G: Indexed, weight: Indexed, friction: Indexed, velocity: Indexed, impulse: Indexed,
    after: Indexed, solved: Indexed,
) -> None:  # fmt: skip
    """Visit every contact `SEVERAL` times; arguments as for `contact_sweep`."""
    u, pushed = tree.array("rows"), tree.array("rows")
    for row in tree.task_rows():
        u[row] = velocity[row]
        pushed[row] = impulse[row]

    for _ in range(SEVERAL):
        visit_contacts(tree, G, weight, friction, u, pushed, pushed)
    for row in tree.task_rows():
        after[row] = u[row]
        solved[row] = pushed[row]


def visit_contacts(
    tree: Tree, G: Indexed, weight: Indexed, friction: Indexed, u: Indexed, impulse: Indexed, solved: Indexed,
    pushed: Callable[[Any, Any], None] | None = None,
) -> None:  # fmt: skip
    """The visits, which keep `u` up to date; `pushed` is told the rows of each contact and what was added to them."""
    for contact, _, _ in tree.tasks():
        x, y, n = contact.rows
        pressed = _positive(impulse[n] - weight[n] * u[n])  # (1)
        change = pressed - impulse[n]
        along = impulse[x] - weight[x] * (u[x] + G[n, x] * change)  # (2)
        across = impulse[y] - weight[x] * (u[y] + G[n, y] * change)
        length, longest = sqrt(along * along + across * across), friction[n] * pressed
        share = select(length, longest, 1.0, longest / (length + _NEVER_ZERO))
        along_change, across_change = along * share - impulse[x], across * share - impulse[y]
        solved[x], solved[y], solved[n] = along * share, across * share, pressed  # may be the same array as impulse
        for other in tree.task_rows():
            u[other] = u[other] + G[n, other] * change + G[x, other] * along_change + G[y, other] * across_change
        if pushed is not None:
            pushed((x, y, n), (along_change, across_change, change))


def _positive(x: Any) -> Any:
    return select(x, 0.0, 0.0, x)  # NaN stays NaN
