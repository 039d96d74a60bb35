"""Λ, J̄ and N together, in two sweeps over the tree, without M⁻¹. Cost O(n·r + r³ + n·d·r).

    pass      loop               leaves                                                          source
    place     scatter, frames    bodies and task rows χ in the frame of the tree
    feel      gather, rows       J = χS; Λ⁻¹ += (χS) D⁻¹ (χS)ᵀ; response of each joint, D⁻¹Sᵀχ     Eqs. 58a–58d, [S24]
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

from collections.abc import Callable

import numpy as np

from kinetree.algorithms.center_of_mass import column_momenta
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import inversion, task_space
from kinetree.algorithms.operational_space.pv_osim import through_joint
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, invert, write_inverse
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def task_dynamics(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ, J̄ and N in a given reference."""

    def task_dynamics(
        tree: Tree,
        q: Indexed,
        reach: Indexed,
        inertia: Indexed,
        spread: Indexed,
        dynamically_consistent_inverse: Indexed,
        nullspace: Indexed,
    ) -> None:
        chi, block, scaled = (
            tree.array("sorted_rows"),
            tree.array("sorted_rows", "sorted_rows"),
            [tree.array("sorted_rows") for _ in range(6)],
        )
        S, J, answer = tree.array("v"), tree.array("rows", "v"), tree.array("v", "sorted_rows")
        B, weight, A = tree.array("rows", "rows"), tree.array("rows"), tree.array("node", "rows")
        J_bar, N, momentum = tree.array("v", "rows"), tree.array("v", "v"), tree.array("v")
        task_space.place(tree, q, view, chi, parts)
        task_space.clear(tree, block)
        if parts.relative:
            inversion.clear(tree, B)
        for k, _ in tree.scatter():
            for c in k.columns():
                S[c] = c.of(k.S)
        for frame, _ in tree.frames():
            rows = list(frame.rows())
            forces = [chi[row] for row in rows]
            for c in tree.support(frame):
                for row, force in zip(rows, forces, strict=True):
                    J[row, c] = force.data @ S[c].data

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            for row in tree.carried(k):
                for c, entry in zip(k.columns(), k.D.solve(k.S.T @ chi[row]), strict=True):  # Eqs. 58c, 58d
                    answer[c, row] = entry
            through_joint(k, tree.carried_groups, chi, scaled, block)  # Eq. 58a

        task_space.finish(tree, view, block, B, parts)
        inversion.weigh(tree, B, reach, weight)
        invert(task_rows(tree), B)
        add_spread(task_rows(tree), B, weight, spread)
        write_inverse(task_rows(tree), B, inertia)

        for row in tree.task_rows():
            A[tree.world, row] = Motion.zero()
        if parts.mass:
            share = 1.0 / column_momenta(tree, momentum)
            for center, _ in tree.frames("mass"):
                for row in center.rows():
                    for c in tree.columns():
                        J[row, c] = momentum[c].data[row.component] * share
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
                own = np.array([J_bar[c, row] for c in k.columns()]) - k.G.T @ A[parent, row]  # Eq. 58f
                for c, entry in zip(k.columns(), own, strict=True):
                    J_bar[c, row] = entry
                    dynamically_consistent_inverse[c, row] = entry
                A[k, row] = A[parent, row] + k.S @ own  # Eq. 58g

        for c in tree.columns():
            for o in tree.columns():
                N[c, o] = 0.0
            N[c, c] = 1.0
            for frame, _ in tree.frames():
                entries = [J_bar[c, row] for row in frame.rows()]
                for o in tree.support(frame):
                    N[c, o] = N[c, o] - sum(x * J[row, o] for x, row in zip(entries, frame.rows(), strict=True))
            if parts.mass:
                for center, _ in tree.frames("mass"):
                    entries = [J_bar[c, row] for row in center.rows()]
                    for o in tree.columns():
                        N[c, o] = N[c, o] - sum(x * J[row, o] for x, row in zip(entries, center.rows(), strict=True))
            for o in tree.columns():
                nullspace[c, o] = N[c, o]

    return task_dynamics
