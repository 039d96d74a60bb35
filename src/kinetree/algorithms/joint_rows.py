"""Dry friction and stops of joints: impulses along single degrees of freedom, in boxes. Cost O(n²) for a sweep.

With w the joint velocities after all impulses, each degree of freedom in turn takes

    friction    f ← what is left of −w₀/M⁻¹_cc in [−dt τ_f, dt τ_f], w₀ the velocity without f        (1)
    stop        s ← what keeps the velocity without s in [(lower − q)/dt, (upper − q)/dt]              (2)

so that a joint sticks until friction is overcome, and may reach its stop in the step but not pass it. A joint that
starts beyond its stop may not go further, and is not pushed back: that would give it energy. Sweeps over all degrees
of freedom converge to impulses that obey all of these laws; without contacts they lower a convex energy and add none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.contact_problem import ROUNDING, larger, relative
from kinetree.algorithms.contact_sweep import MANY, visit_contacts
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import magnitude, select, sqrt


@algorithm(
    q=("q",), origin=("q",), lower=("v",), upper=("v",), dt=(), slowest=("v",), fastest=("v",),
    outputs=("slowest", "fastest"), any_node=True,
)  # fmt: skip
def joint_bounds(
    tree: Tree, q: Indexed, origin: Indexed, lower: Indexed, upper: Indexed, dt: Indexed,
    slowest: Indexed, fastest: Indexed,
) -> None:  # fmt: skip
    """Velocities between which joints stay within their stops.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        origin: The configuration from which limits are counted, (nq,).
        lower: Lower limits, −∞ where there is none, (nv,).
        upper: Upper limits, ∞ where there is none, (nv,).
        dt: Length of the step, seconds.
        slowest: (nv,).
        fastest: (nv,).
    """
    for k, _ in tree.scatter():
        place = k.manifold.difference(origin[k], q[k])
        slowest[k] = [-_allowed(gap) / dt[...] for gap in place - lower[k]]
        fastest[k] = [_allowed(gap) / dt[...] for gap in upper[k] - place]


@algorithm(
    Minv=("v", "v"), velocity=("v",), friction=("v",), stop=("v",), started=("v",), outputs=("started",), any_node=True
)  # fmt: skip
def joint_start(
    tree: Tree, Minv: Indexed, velocity: Indexed, friction: Indexed, stop: Indexed, started: Indexed
) -> None:
    """Joint velocities with the impulses that sweeps start from. Arguments as of `joint_sweep`."""
    w = tree.array("v")
    for c in tree.columns():
        w[c] = velocity[c]
    for c in tree.columns():
        for other in tree.columns():
            w[other] = w[other] + Minv[c, other] * (friction[c] + stop[c])
    for c in tree.columns():
        started[c] = w[c]


@algorithm(
    response=("v", "rows"), velocity=("v",), u=("rows",), impulse=("rows",), friction=("v",), stop=("v",),
    started=("v",), u_started=("rows",), outputs=("started", "u_started"), any_node=True,
)  # fmt: skip
def joint_contact_start(
    tree: Tree, response: Indexed, velocity: Indexed, u: Indexed, impulse: Indexed, friction: Indexed, stop: Indexed,
    started: Indexed, u_started: Indexed,
) -> None:  # fmt: skip
    """Likewise the effect of impulses at contacts on joints, and of those of joints on contacts."""
    w, moving = tree.array("v"), tree.array("rows")
    for c in tree.columns():
        w[c] = velocity[c]
    for row in tree.task_rows():
        moving[row] = u[row]
    for c in tree.columns():
        for row in tree.task_rows():
            moving[row] = moving[row] + response[c, row] * (friction[c] + stop[c])
    for row in tree.task_rows():
        for c in tree.columns():
            w[c] = w[c] + response[c, row] * impulse[row]
    for c in tree.columns():
        started[c] = w[c]
    for row in tree.task_rows():
        u_started[row] = moving[row]


@algorithm(
    Minv=("v", "v"), slowest=("v",), fastest=("v",), dry=("v",), velocity=("v",), friction=("v",), stop=("v",),
    after=("v",), friction_after=("v",), stop_after=("v",), outputs=("after", "friction_after", "stop_after"),
    any_node=True,
)  # fmt: skip
def joint_sweep(
    tree: Tree, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, velocity: Indexed, friction: Indexed,
    stop: Indexed, after: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """Visit every degree of freedom once.

    Args:
        tree: The mechanism.
        Minv: M⁻¹, (nv, nv).
        slowest: As of `joint_bounds`, (nv,).
        fastest: As of `joint_bounds`, (nv,).
        dry: Largest friction impulse dt τ_f, (nv,).
        velocity: w, (nv,).
        friction: f, (nv,).
        stop: s, (nv,).
        after: w after the sweep, (nv,).
        friction_after: f after the sweep, (nv,).
        stop_after: s after the sweep, (nv,).
    """
    w = tree.array("v")
    for c in tree.columns():
        w[c] = velocity[c]
    for c in tree.columns():
        change = _visit(c, Minv, slowest, fastest, dry, w, friction, stop, friction_after, stop_after)
        for other in tree.columns():
            w[other] = w[other] + Minv[c, other] * change
    for c in tree.columns():
        after[c] = w[c]


@algorithm(
    Minv=("v", "v"), slowest=("v",), fastest=("v",), dry=("v",), free=("v",), velocity=("v",), friction=("v",),
    stop=("v",), parts=(4,), residual=(), outputs=("parts", "residual"), any_node=True,
)  # fmt: skip
def joint_residual(
    tree: Tree, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, free: Indexed, velocity: Indexed,
    friction: Indexed, stop: Indexed, parts: Indexed, residual: Indexed,
) -> None:  # fmt: skip
    """How far impulses are from (1) and (2), as `contact_problem` measures contacts. Arguments as of `joint_sweep`.

    Args:
        tree: The mechanism.
        Minv: M⁻¹, (nv, nv).
        slowest: As of `joint_bounds`, (nv,).
        fastest: As of `joint_bounds`, (nv,).
        dry: Largest friction impulse dt τ_f, (nv,).
        free: Joint velocities without impulses, (nv,).
        velocity: w, (nv,).
        friction: f, (nv,).
        stop: s, (nv,).
        parts: pᵀv and pᵀM⁻¹p for p = f + s and v the velocities without it; largest violation; fastest approach.
        residual: The ratio of the last two.
    """
    work, kept, worst, size = totals = [tree.array("v") for _ in range(4)]
    for c in tree.columns():
        for total in totals:
            total[c] = 0.0
    for c in tree.columns():
        m, v, w, f, s, most = (x[()] for x in (Minv[c, c], free[c], velocity[c], friction[c], stop[c], dry[c]))
        root = sqrt(m)
        beyond = w - m * s
        stopped = _within(beyond, slowest[c][()], fastest[c][()]) - beyond
        off = larger(root * magnitude(_within(f - w / m, -most, most) - f), magnitude(stopped - m * s) / root)
        rubbing = select(-most, 0.0, magnitude(v), ROUNDING * magnitude(v))
        fast = larger(rubbing, larger(slowest[c][()] - v, v - fastest[c][()]))
        large = larger(fast / root, ROUNDING * root * magnitude(f + s))
        for other in tree.columns():
            work[other], kept[other] = work[other] + (f + s) * v, kept[other] + (f + s) * (w - v)
            worst[other], size[other] = larger(worst[other][()], off), larger(size[other][()], large)
    for c in tree.columns():
        parts[...] = np.array([total[c][()] for total in totals])
        residual[...] = relative(worst[c][()], size[c][()], work[c][()])


@algorithm(
    share=(), free=("v",), velocity=("v",), friction=("v",), stop=("v",), after=("v",), friction_after=("v",),
    stop_after=("v",), outputs=("after", "friction_after", "stop_after"), any_node=True,
)  # fmt: skip
def joint_share(
    tree: Tree, share: Indexed, free: Indexed, velocity: Indexed, friction: Indexed, stop: Indexed,
    after: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """The share of impulses that adds no energy, as of `contact_forces`. Arguments as of `joint_residual`."""
    for c in tree.columns():
        part = share[...][()]
        friction_after[c], stop_after[c] = part * friction[c], part * stop[c]
        after[c] = select(part, 1.0, free[c][()] + part * (velocity[c][()] - free[c][()]), velocity[c][()])


@algorithm(
    G=("rows", "rows"), scale=("rows",), mu=("rows",), Minv=("v", "v"), response=("v", "rows"), slowest=("v",),
    fastest=("v",), dry=("v",), u=("rows",), velocity=("v",), impulse=("rows",), friction=("v",), stop=("v",),
    u_after=("rows",), after=("v",), solved=("rows",), friction_after=("v",), stop_after=("v",),
    outputs=("u_after", "after", "solved", "friction_after", "stop_after"), any_node=True,
)  # fmt: skip
def joint_contact_sweep(
    tree: Tree, G: Indexed, scale: Indexed, mu: Indexed, Minv: Indexed, response: Indexed, slowest: Indexed,
    fastest: Indexed, dry: Indexed, u: Indexed, velocity: Indexed, impulse: Indexed, friction: Indexed, stop: Indexed,
    u_after: Indexed, after: Indexed, solved: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """Visit every contact and every degree of freedom once. Arguments as of `contact_sweep` and `joint_sweep`.

    Args:
        tree: The mechanism, with the rows of the contacts.
        G: As of `contact_sweep`, (r, r).
        scale: As of `contact_sweep`, (r,).
        mu: Friction of each contact, at its normal row, (r,).
        Minv: M⁻¹, (nv, nv).
        response: Joint velocities per unit impulse along each row, (nv, r).
        slowest: As of `joint_bounds`, (nv,).
        fastest: As of `joint_bounds`, (nv,).
        dry: Largest friction impulse of joints, (nv,).
        u: Velocities of the rows, (r,).
        velocity: Joint velocities, (nv,).
        impulse: λ, (r,).
        friction: f, (nv,).
        stop: s, (nv,).
        u_after: u after the sweep, (r,).
        after: Joint velocities after the sweep, (nv,).
        solved: λ after the sweep, (r,).
        friction_after: f after the sweep, (nv,).
        stop_after: s after the sweep, (nv,).
    """
    moving, w = tree.array("rows"), tree.array("v")
    for row in tree.task_rows():
        moving[row] = u[row]
    for c in tree.columns():
        w[c] = velocity[c]

    def pushed(rows: Any, changes: Any) -> None:
        x, y, n = rows
        along, across, normal = changes
        for c in tree.columns():
            w[c] = w[c] + response[c, n] * normal + response[c, x] * along + response[c, y] * across

    visit_contacts(tree, G, scale, mu, moving, impulse, solved, MANY, pushed)
    for c in tree.columns():
        change = _visit(c, Minv, slowest, fastest, dry, w, friction, stop, friction_after, stop_after)
        for other in tree.columns():
            w[other] = w[other] + Minv[c, other] * change
        for row in tree.task_rows():
            moving[row] = moving[row] + response[c, row] * change

    for row in tree.task_rows():
        u_after[row] = moving[row]
    for c in tree.columns():
        after[c] = w[c]


@algorithm(
    response=("v", "rows"), axes=("rows", 3), turned=("v", "rows"), outputs=("turned",), any_node=True
)  # fmt: skip
def response_to_contacts(tree: Tree, response: Indexed, axes: Indexed, turned: Indexed) -> None:
    """Joint velocities per unit impulse, along the axes of contacts instead of the world's.

    Args:
        tree: The mechanism, with three rows for each contact.
        response: Along world axes, (nv, r).
        axes: As of `contact_problem`, (r, 3).
        turned: Along contact axes, (nv, r).
    """
    for contact, _, _ in tree.tasks():
        rows = contact.rows
        basis = [axes[row] for row in rows]
        for c in tree.columns():
            x, y, z = (response[c, row] for row in rows)
            for row, axis in zip(rows, basis, strict=True):
                turned[c, row] = axis[0] * x + axis[1] * y + axis[2] * z


def _visit(
    c: Any, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, w: Indexed, friction: Indexed,
    stop: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> Any:  # fmt: skip
    """Both impulses of a degree of freedom; returns by how much their sum changes."""
    m = Minv[c, c][()]
    f, s, most = friction[c][()], stop[c][()], dry[c][()]
    free = w[c] - m * (f + s)  # without either, as far as it depends on them
    rubbed = _within(-(free + m * s) / m, -most, most)  # (1)
    beyond = free + m * rubbed
    stopped = (_within(beyond, slowest[c][()], fastest[c][()]) - beyond) / m  # (2)
    friction_after[c], stop_after[c] = rubbed, stopped
    return (rubbed - f) + (stopped - s)


def _allowed(gap: Any) -> Any:
    return select(-gap, 0.0, gap, 0.0 * gap)


def _within(x: Any, low: Any, high: Any) -> Any:
    """x moved into an interval; NaN stays NaN."""
    return select(x, low, low, select(-x, -high, high, x))
