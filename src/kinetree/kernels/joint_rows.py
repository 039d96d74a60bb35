"""Dry friction and stops of joints as rows of the contact problem; forces of springs and dampers in joints.

With w the joint velocities after all impulses, a degree of freedom takes an impulse λ = f + s of friction and stop,

    friction    |f| ≤ dt τ_f, and f = −sign(w) dt τ_f if it moves
    stop        w in [(lower − q)/dt, (upper − q)/dt], and s only at an end of this range

so that a joint sticks until friction is overcome, and may reach its stop in the step but not pass it. A joint that
starts beyond its stop may not go further, and is not pushed back: that would give it energy.

Springs and dampers in the joints add to joint forces, at a cost of O(n):

    push = τ − D v − K (q ⊖ q₀ + v dt)                                                              (1)

With dt the length of a time step, the force of the springs is that at its end, as far as v tells: the part of implicit
damping and springs that depends on the state (`kinetree.simulation.plant`). With dt = 0 it is the force now.
"""

from __future__ import annotations

import numpy as np

from kinetree.kernels.branchless import less
from kinetree.kernels.contact_problem import row_values, what_moves
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.scalar import magnitude


@algorithm(
    q=("q",), v=("v",), tau=("v",), damping=("v",), stiffness=("v",), rest=("q",), dt=(), push=("v",),
    outputs=("push",),
)  # fmt: skip
def joint_springs(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, damping: Indexed, stiffness: Indexed, rest: Indexed, dt: Indexed,
    push: Indexed,
) -> None:  # fmt: skip
    """Joint forces with springs, whose forces vanish at the configuration `rest`, and dampers: (1)."""
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
    G=("r", "r"), free=("r",), axes=("r", 3), friction=("r",), response=("n", "r"), Minv=("n", "n"), own=("n",),
    v=("n",), slowest=("n",), fastest=("n",), dry=("n",), matrix=("t", "t"), g=("t",), bounds=("t", 3),
    outputs=("matrix", "g", "bounds"), lists={"contacts": {"t": 3, "r": 3}, "joints": {"t": 1, "n": 1}},
)  # fmt: skip
def joined_problem(
    k: Workspace, G: Indexed, free: Indexed, axes: Indexed, friction: Indexed, response: Indexed, Minv: Indexed,
    own: Indexed, v: Indexed, slowest: Indexed, fastest: Indexed, dry: Indexed, matrix: Indexed, g: Indexed,
    bounds: Indexed,
) -> None:  # fmt: skip
    """The rows of contacts, and those of some degrees of freedom, as one problem for `contact_newton`.

    `response` are joint velocities per unit impulse at each contact along the world's axes; `own` is the diagonal of
    M⁻¹ without constraints, which Minv may have eliminated; `slowest` and `fastest` are
    from `kinetree.algorithms.kinematics.manifold`, and `dry` is the largest friction dt τ_f.
    """
    for rows, before in k.contacts:
        for row, other in zip(rows, before, strict=True):
            g[row], bounds[row] = free[other], np.array([friction[other][()], 0.0, 0.0])
        for columns, others in k.contacts:
            for i, a in zip(rows, before, strict=True):
                for j, b in zip(columns, others, strict=True):
                    matrix[i, j] = G[a, b]
    for (row,), (c,) in k.joints:
        g[row], bounds[row] = v[c], np.array([x[c][()] for x in (dry, slowest, fastest)])
        for columns, others in k.contacts:
            x, y, z = (response[c, other] for other in others)
            for j, b in zip(columns, others, strict=True):
                matrix[row, j] = axes[b][0] * x + axes[b][1] * y + axes[b][2] * z
                matrix[j, row] = axes[b][0] * x + axes[b][1] * y + axes[b][2] * z
        for (column,), (d,) in k.joints:
            matrix[row, column] = Minv[c, d]
        matrix[row, row] = what_moves(Minv[c, c][()], own[c][()])
