"""Λ, J̄ and N together, in two sweeps over the tree, without M⁻¹. Cost O(n·r + r³ + n·d·r).

    pass      loop               leaves                                                          source
    columns   scatter, frames    J, from the motions of the frames; task rows χ at the nodes that carry them
    feel      gather, rows       Λ⁻¹ += (χH) D⁻¹ (χH)ᵀ; response of each joint, D⁻¹Hᵀχ              Eqs. 58a–58d, [S24]
    invert    rows               Λ
    answer    scatter, rows      J̄ = M⁻¹JᵀΛ: joint accelerations per unit of task acceleration     Eqs. 58e–58g
    remain    columns, support   N = 1 − J̄J

Λ is applied to the joint responses, before accelerations are propagated outwards: at that point each row involves only
the joints that support it. The order in [J11], M⁻¹Jᵀ first, would multiply dense matrices.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.tasks import inversion, task_space
from kinetree.algorithms.tasks.response import jacobian_rows
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, invert, write_inverse
from kinetree.language.roles import ColumnRole, FrameRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def task_dynamics(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ, J̄ and N in a given reference."""
    jacobian = jacobian_rows(reference, parts)

    def task_dynamics(
        tree: Tree, q: Indexed, reach: Indexed, inertia: Indexed, spread: Indexed,
        dynamically_consistent_inverse: Indexed, nullspace: Indexed,
    ) -> None:  # fmt: skip
        chi, block = tree.inward("sorted_rows", like="none"), tree.array("sorted_rows", "sorted_rows")
        J, answer = tree.array("rows", "v"), tree.array("v", "sorted_rows")
        B, weight, A = tree.array("rows", "rows"), tree.array("rows"), tree.array("node", "rows")
        J_bar, N = tree.array("v", "rows"), tree.array("v", "v")
        if not tree.rigid_bodies:
            for row in tree.task_rows():
                for c in tree.columns():
                    J[row, c] = 0.0
        jacobian(tree, q, J)
        scaled = [tree.array("sorted_rows") for _ in range(task_space.place(tree, q))]
        task_space.seed(tree, reference, chi, parts)
        task_space.clear(tree, block)
        if parts.relative:
            inversion.clear(tree, B)

        for k, parent in tree.gather():
            inertias.hinge(k, parent)
            for group, later in tree.carried_groups(k):
                y = []
                for row in group.rows:
                    force = chi[k, row]
                    y.append(k.H.T @ force)  # Eq. 58c
                    for c, entry in zip(k.columns(), k.D.solve(y[-1]), strict=True):  # Eq. 58d
                        answer[c, row] = entry
                    chi[parent, row] = k.X.T @ k.G.past(force, y[-1])  # Eqs. 58a, 58b
                task_space.accumulate(group, later, k.D, y, scaled, block)

        task_space.finish(tree, reference, block, B, parts, lambda k: k.H)
        inversion.weigh(tree, B, reach, weight)
        invert(task_rows(tree), B)
        add_spread(task_rows(tree), B, weight, spread)
        write_inverse(task_rows(tree), B, inertia)

        for row in tree.task_rows():
            A[tree.world, row] = Motion.zero()
        if parts.mass:
            share = 1.0 / task_space.mass(tree)
            for center, _ in tree.frames("mass"):
                for other in tree.task_rows():
                    # a force on all bodies in proportion to their mass is an acceleration of the world, see `response`
                    lift = sum(row.unit().data * (B[row, other] * share) for row in center.rows())
                    A[tree.world, other] = A[tree.world, other] + Motion(lift)

        for c in tree.columns():
            for row in tree.task_rows():
                J_bar[c, row] = 0.0
        for frame, _ in tree.frames():
            rows = list(frame.rows())
            for c in tree.path(frame):
                entries = [answer[c, row] for row in rows]
                for other in tree.task_rows():
                    given = sum(x * B[row, other] for x, row in zip(entries, rows, strict=True))
                    J_bar[c, other] = J_bar[c, other] - given

        for k, parent in tree.scatter():
            for row in tree.task_rows():
                onward = k.X @ A[parent, row]  # Eq. 58e
                own = np.array([J_bar[c, row] for c in k.columns()]) - k.G.T @ onward  # Eq. 58f
                for c, entry in zip(k.columns(), own, strict=True):
                    J_bar[c, row] = entry
                    dynamically_consistent_inverse[c, row] = entry
                A[k, row] = onward + k.H @ own  # Eq. 58g

        # the columns of J that a frame contributes to, each of them once
        def all_columns(_: FrameRole) -> Iterator[ColumnRole]:
            return tree.columns()

        moving: list[tuple[str, Callable[[FrameRole], Iterator[ColumnRole]]]] = [("frame", tree.support)]
        if parts.relative:
            moving += [("near", tree.support), ("far", tree.support)] if tree.rigid_bodies else [("far", all_columns)]
        if parts.mass:
            moving.append(("mass", all_columns))
        for c in tree.columns():
            for o in tree.columns():
                N[c, o] = 0.0
            N[c, c] = 1.0
            for part, columns in moving:
                for frame, _ in tree.frames(part):
                    entries = [J_bar[c, row] for row in frame.rows()]
                    for o in columns(frame):
                        N[c, o] = N[c, o] - sum(x * J[row, o] for x, row in zip(entries, frame.rows(), strict=True))
            for o in tree.columns():
                nullspace[c, o] = N[c, o]

    return task_dynamics
