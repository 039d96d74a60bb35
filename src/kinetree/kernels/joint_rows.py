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
    slowest, …    from `kinetree.algorithms.kinematics.manifold`; G, scale, mu as of `contact_sweep`

Joint forces together with those of springs and dampers in the joints. Cost O(n).

    push = τ − D v − K (q ⊖ q₀ + v dt)

With dt the length of a time step, the force of the springs is that at its end, as far as v tells: the part of implicit
damping and springs that depends on the state (`kinetree.simulation.simulator`). With dt = 0 it is the force now.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.contact_problem import ROUNDING, contacts, larger, relative
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
    """Joint forces with springs and dampers.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        tau: Joint forces, (nv,).
        damping: D of each degree of freedom, (nv,).
        stiffness: K, (nv,).
        rest: Configuration q₀ without spring forces, (nq,).
        dt: How far the springs look ahead, seconds.
        push: (nv,).
    """
    for k, _ in tree.scatter():
        stretch = k.manifold.difference(rest[k], q[k]) + v[k] * dt[...]
        push[k] = tau[k] - damping[k] * v[k] - stiffness[k] * stretch


@kernel(
    Minv=("n", "n"), velocity=("n",), friction=("n",), stop=("n",), started=("n",), outputs=("started",),
    sparse=("started",),
)  # fmt: skip
def joint_start(
    k: Workspace, Minv: Indexed, velocity: Indexed, friction: Indexed, stop: Indexed, started: Indexed
) -> None:
    """Velocities with the impulses that sweeps start from."""
    for c in k.n:
        started[c] = velocity[c]
    for c in k.n:
        for other in k.n:
            started[other] = started[other] + Minv[c, other] * (friction[c] + stop[c])


@kernel(
    response=("n", "r"), velocity=("n",), u=("r",), impulse=("r",), friction=("n",), stop=("n",),
    started=("n",), u_started=("r",), outputs=("started", "u_started"), sparse=("started", "u_started"),
)  # fmt: skip
def joint_contact_start(
    k: Workspace, response: Indexed, velocity: Indexed, u: Indexed, impulse: Indexed, friction: Indexed, stop: Indexed,
    started: Indexed, u_started: Indexed,
) -> None:  # fmt: skip
    """Likewise the effect of impulses at contacts on joints, and of those of joints on contacts."""
    for c in k.n:
        started[c] = velocity[c]
    for row in k.r:
        u_started[row] = u[row]
    for c in k.n:
        for row in k.r:
            u_started[row] = u_started[row] + response[c, row] * (friction[c] + stop[c])
    for row in k.r:
        for c in k.n:
            started[c] = started[c] + response[c, row] * impulse[row]


@kernel(
    Minv=("n", "n"), slowest=("n",), fastest=("n",), dry=("n",), velocity=("n",), friction=("n",), stop=("n",),
    after=("n",), friction_after=("n",), stop_after=("n",), outputs=("after", "friction_after", "stop_after"),
    sparse=("after",),
)  # fmt: skip
def joint_sweep(
    k: Workspace, Minv: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, velocity: Indexed,
    friction: Indexed, stop: Indexed, after: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """Visit every degree of freedom once."""
    for c in k.n:
        after[c] = velocity[c]
    for c in k.n:
        change = _visit(c, Minv, slowest, fastest, dry, after, friction, stop, friction_after, stop_after)
        for other in k.n:
            after[other] = after[other] + Minv[c, other] * change


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
    G=("r", "r"), scale=("r",), mu=("r",), Minv=("n", "n"), response=("n", "r"), slowest=("n",),
    fastest=("n",), dry=("n",), u=("r",), velocity=("n",), impulse=("r",), friction=("n",), stop=("n",),
    u_after=("r",), after=("n",), solved=("r",), friction_after=("n",), stop_after=("n",),
    outputs=("u_after", "after", "solved", "friction_after", "stop_after"), sparse=("u_after", "after"),
)  # fmt: skip
def joint_contact_sweep(
    k: Workspace, G: Indexed, scale: Indexed, mu: Indexed, Minv: Indexed, response: Indexed, slowest: Indexed,
    fastest: Indexed, dry: Indexed, u: Indexed, velocity: Indexed, impulse: Indexed, friction: Indexed, stop: Indexed,
    u_after: Indexed, after: Indexed, solved: Indexed, friction_after: Indexed, stop_after: Indexed,
) -> None:  # fmt: skip
    """Visit every contact and every degree of freedom once."""
    for row in k.r:
        u_after[row] = u[row]
    for c in k.n:
        after[c] = velocity[c]

    def pushed(rows: Any, changes: Any) -> None:
        x, y, n = rows
        along, across, normal = changes
        for c in k.n:
            after[c] = after[c] + response[c, n] * normal + response[c, x] * along + response[c, y] * across

    visit_contacts(k.r, G, scale, mu, u_after, impulse, solved, MANY, pushed)
    for c in k.n:
        change = _visit(c, Minv, slowest, fastest, dry, after, friction, stop, friction_after, stop_after)
        for other in k.n:
            after[other] = after[other] + Minv[c, other] * change
        for row in k.r:
            u_after[row] = u_after[row] + response[c, row] * change


@kernel(
    response=("n", "r"), axes=("r", 3), turned=("n", "r"), outputs=("turned",)
)  # fmt: skip
def response_to_contacts(k: Workspace, response: Indexed, axes: Indexed, turned: Indexed) -> None:
    """Joint velocities per unit impulse, along the axes of contacts instead of the world's."""
    for rows in contacts(k.r):
        basis = [axes[row] for row in rows]
        for c in k.n:
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


def _within(x: Any, low: Any, high: Any) -> Any:
    """x moved into an interval; NaN stays NaN."""
    return select(x, low, low, select(-x, -high, high, x))
