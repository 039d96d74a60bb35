"""Dry friction and stops of joints: impulses along single degrees of freedom, in boxes. Cost O(n²) for a sweep.

With w the joint velocities after all impulses, each degree of freedom in turn takes

    friction    f ← what is left of −w₀/M⁻¹_cc in [−dt τ_f, dt τ_f], w₀ the velocity without f        (1)
    stop        s ← what keeps the velocity without s in [(lower − q)/dt, (upper − q)/dt]              (2)

so that a joint sticks until friction is overcome, and may reach its stop in the step but not pass it. A joint that
starts beyond its stop may not go further, and is not pushed back: that would give it energy. Sweeps over all degrees
of freedom converge to impulses that obey all of these laws; without contacts they lower a convex energy and add none.

    w, u          velocities of n degrees of freedom after all impulses, and of the r rows of contacts
    f, s          friction and stop: impulses of joints; dry is the largest friction dt τ_f
    λ             impulse: impulses of contacts
    response      w per unit impulse along each row, (n, r)
    slowest, …    from `kinetree.algorithms.kinematics.manifold`; G, scale, mu as of `contact_sweeps`

Springs and dampers in the joints add to joint forces, at a cost of O(n):

    push = τ − D v − K (q ⊖ q₀ + v dt)                                                              (3)

With dt the length of a time step, the force of the springs is that at its end, as far as v tells: the part of implicit
damping and springs that depends on the state (`kinetree.simulation.plant`). With dt = 0 it is the force now.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import less
from kinetree.kernels.contact_problem import ROUNDING, contacts, larger, relative, row_values, times
from kinetree.kernels.contact_solvers import MANY, visit_contacts
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.scalar import magnitude, select, sqrt


@algorithm(
    q=("q",), v=("v",), tau=("v",), damping=("v",), stiffness=("v",), rest=("q",), dt=(), push=("v",),
    outputs=("push",),
)  # fmt: skip
def joint_springs(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, damping: Indexed, stiffness: Indexed, rest: Indexed, dt: Indexed,
    push: Indexed,
) -> None:  # fmt: skip
    """Joint forces with springs, whose forces vanish at the configuration `rest`, and dampers: (3)."""
    for k, _ in tree.scatter():
        stretch = k.manifold.difference(rest[k], q[k]) + v[k] * dt[...]
        push[k] = tau[k] - damping[k] * v[k] - stiffness[k] * stretch


@kernel(v=("n",), after=("n",), dt=(), a=("n",), outputs=("a",))
def mean_acceleration(k: Workspace, v: Indexed, after: Indexed, dt: Indexed, a: Indexed) -> None:
    """(v′ − v)/dt of a step; all NaN if an entry of v′ or of v′ dt is not finite."""
    total = k.scalar(0.0)
    for block in k.n.blocks(6):
        total[...] = total[...] + sum(magnitude(x) for x in row_values(after, block))
    unity = less(total[...] * (1.0 + dt[...]), np.inf, 1.0, np.nan)
    for c in k.n:
        a[c] = (after[c] - v[c]) / dt[...] * unity


@kernel(
    Minv=("n", "n"), slowest=("n",), fastest=("n",), dry=("n",), free=("n",), friction_start=("n",), stop_start=("n",),
    velocity=("n",), friction=("n",), stop=("n",), outputs=("velocity", "friction", "stop"),
    sparse=("velocity", "friction", "stop"), rounds=("sweeps",),
)  # fmt: skip
def joint_sweeps(
    k: Workspace, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, free: Indexed,
    friction_start: Indexed, stop_start: Indexed, velocity: Indexed, friction: Indexed, stop: Indexed,
) -> None:  # fmt: skip
    """Velocities and impulses after sweeps over all degrees of freedom; `free` are velocities without impulses."""
    for c in k.n:
        friction[c], stop[c] = friction_start[c], stop_start[c]
    _moving(k, Minv, free, friction, stop, velocity)
    for _ in k.sweeps:
        for c in k.n:
            change = _visit(c, Minv, slowest, fastest, dry, velocity, friction, stop)
            for other in k.n:
                velocity[other] = velocity[other] + Minv[c, other] * change


def _moving(k: Workspace, Minv: Indexed, free: Indexed, friction: Indexed, stop: Indexed, w: Indexed) -> None:
    """w = v + M⁻¹ (f + s)."""
    for c in k.n:
        w[c] = free[c]
    for c in k.n:
        for other in k.n:
            w[other] = w[other] + Minv[c, other] * (friction[c] + stop[c])


@kernel(
    Minv=("n", "n"), slowest=("n",), fastest=("n",), dry=("n",), free=("n",), velocity=("n",), friction=("n",),
    stop=("n",), parts=(4,), residual=(), outputs=("parts", "residual"),
)  # fmt: skip
def joint_residual(
    k: Workspace, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, free: Indexed, velocity: Indexed,
    friction: Indexed, stop: Indexed, parts: Indexed, residual: Indexed,
) -> None:  # fmt: skip
    """How far impulses are from (1) and (2), as `contact_problem` measures contacts.

    `free` are velocities without impulses. `parts` are pᵀv and pᵀM⁻¹p for p = f + s and v the velocities without it,
    the largest violation, and the fastest approach; `residual` is the ratio of the last two.
    """
    work, kept, worst, size = totals = [k.scalar(0.0) for _ in range(4)]
    for c in k.n:
        m, v, w, f, s, most = (x[()] for x in (Minv[c, c], free[c], velocity[c], friction[c], stop[c], dry[c]))
        root = sqrt(m)
        beyond = w - m * s
        stopped = _within(beyond, slowest[c][()], fastest[c][()]) - beyond
        off = larger(root * magnitude(_within(f - w / m, -most, most) - f), magnitude(stopped - m * s) / root)
        rubbing = select(-most, 0.0, magnitude(v), ROUNDING * magnitude(v))
        fast = larger(rubbing, larger(slowest[c][()] - v, v - fastest[c][()]))
        large = larger(fast / root, ROUNDING * root * magnitude(f + s))
        work[...], kept[...] = work[...] + (f + s) * v, kept[...] + (f + s) * (w - v)
        worst[...], size[...] = larger(worst[...][()], off), larger(size[...][()], large)
    parts[...] = np.array([total[...][()] for total in totals])
    residual[...] = relative(worst[...][()], size[...][()])


@kernel(
    share=(), free=("n",), velocity=("n",), friction=("n",), stop=("n",), after=("n",), friction_after=("n",),
    stop_after=("n",), outputs=("after", "friction_after", "stop_after"),
)  # fmt: skip
def joint_share(
    k: Workspace, share: Indexed, free: Indexed, velocity: Indexed, friction: Indexed, stop: Indexed,
    after: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """The share of impulses that adds no energy, as of `contact_forces`. Arguments as of `joint_residual`."""
    for c in k.n:
        part = share[...][()]
        friction_after[c], stop_after[c] = part * friction[c], part * stop[c]
        after[c] = select(part, 1.0, free[c][()] + part * (velocity[c][()] - free[c][()]), velocity[c][()])


@kernel(
    G=("r", "r"), scale=("r",), mu=("r",), u_free=("r",), axes=("r", 3), Minv=("n", "n"), response=("n", "r"),
    slowest=("n",), fastest=("n",), dry=("n",), free=("n",), start=("r",), friction_start=("n",), stop_start=("n",),
    impulse=("r",), friction=("n",), stop=("n",), u=("r",), velocity=("n",),
    outputs=("impulse", "friction", "stop", "u", "velocity"),
    sparse=("impulse", "friction", "stop", "u", "velocity"), rounds=("sweeps",),
)  # fmt: skip
def joint_contact_sweeps(
    k: Workspace, G: Indexed, scale: Indexed, mu: Indexed, u_free: Indexed, axes: Indexed, Minv: Indexed,
    response: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, free: Indexed, start: Indexed,
    friction_start: Indexed, stop_start: Indexed, impulse: Indexed, friction: Indexed, stop: Indexed, u: Indexed,
    velocity: Indexed,
) -> None:  # fmt: skip
    """The same with contacts, whose `response` is along world axes, and is turned to theirs."""
    turned = k.array("n", "r")
    for rows in contacts(k.r):
        basis = [axes[row] for row in rows]
        for c in k.n:
            x, y, z = (response[c, row] for row in rows)
            for row, axis in zip(rows, basis, strict=True):
                turned[c, row] = axis[0] * x + axis[1] * y + axis[2] * z

    def moving() -> None:
        """w and u with all impulses."""
        _moving(k, Minv, free, friction, stop, velocity)
        times(k.r, G, impulse, u_free, u)
        for c in k.n:
            for row in k.r:
                u[row] = u[row] + turned[c, row] * (friction[c] + stop[c])
        for row in k.r:
            for c in k.n:
                velocity[c] = velocity[c] + turned[c, row] * impulse[row]

    def pushed(rows: Any, changes: Any) -> None:
        x, y, n = rows
        along, across, normal = changes
        for c in k.n:
            velocity[c] = velocity[c] + turned[c, n] * normal + turned[c, x] * along + turned[c, y] * across

    for c in k.n:
        friction[c], stop[c] = friction_start[c], stop_start[c]
    for row in k.r:
        impulse[row] = start[row]
    moving()
    for _ in k.sweeps:
        visit_contacts(k.r, G, scale, mu, u, impulse, MANY, pushed)
        for c in k.n:
            change = _visit(c, Minv, slowest, fastest, dry, velocity, friction, stop)
            for other in k.n:
                velocity[other] = velocity[other] + Minv[c, other] * change
            for row in k.r:
                u[row] = u[row] + turned[c, row] * change
    moving()


def _visit(
    c: Any, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, w: Indexed, friction: Indexed,
    stop: Indexed,
) -> Any:  # fmt: skip
    """Change both impulses of a degree of freedom; returns by how much their sum changes."""
    m = Minv[c, c][()]
    f, s, most = friction[c][()], stop[c][()], dry[c][()]
    free = w[c] - m * (f + s)  # without either, as far as it depends on them
    rubbed = _within(-(free + m * s) / m, -most, most)  # (1)
    beyond = free + m * rubbed
    stopped = (_within(beyond, slowest[c][()], fastest[c][()]) - beyond) / m  # (2)
    friction[c], stop[c] = rubbed, stopped
    return (rubbed - f) + (stopped - s)


def _within(x: Any, low: Any, high: Any) -> Any:
    """x moved into an interval; NaN stays NaN."""
    return select(x, low, low, select(-x, -high, high, x))
