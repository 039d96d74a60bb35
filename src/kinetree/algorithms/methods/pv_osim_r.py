"""Λ⁻¹ by the Popov–Vereshchagin sweep with accumulation nodes (PV-OSIMr): no joint is passed twice. Cost O(n + m²).

    step   loop                                 leaves
    1      —                                    the accumulation nodes (`accumulation.py`)
    2      gather, rows that pass a joint       P and Ω of each source, up to the accumulation node where it ends
    3      accumulation nodes, base to tips     Ω₀ of each: accelerations per unit force on it
    4      accumulation nodes, tips to base     extended propagators of all rows to all accumulation nodes below them
    5      accumulation nodes, pairs of tasks   Λ⁻¹ at the first accumulation node that both reach

A source is a set of rows that pass through a joint together: one or several tasks, or the six unit forces of an
accumulation node, which replace all rows that end there. A source passes through a joint as in `pv_osim.py`,

    P ← (P − (P S) D⁻¹ Uᵀ) X        Ω ← Ω + (P S) D⁻¹ (P S)ᵀ

starting from P = the rows of the task, or 1 at an accumulation node, and Ω = 0. With a the next accumulation node
below,

    Ω₀ = Ω + P Ω₀(a) Pᵀ             Λ⁻¹(k₁, k₂) = Ω(k₁, k₂) + K(k₁) Ω₀ K(k₂)ᵀ

where K are the extended propagators of the two tasks to the node where they join, products of the P in between. Here
`chi` is P, `block` is Ω and then Λ⁻¹, `reach` is K and `response` is Ω₀ Kᵀ. The choice of nodes departs from the
paper, see `accumulation.py`.

[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024, Algorithm 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetree.algorithms.methods import accumulation, mobility
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.pv_osim import through_joint
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.roles import NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import Compliance
from kinetree.spatial.motion import Force
from kinetree.spatial.value import Array


def pv_osim_r(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def pv_osim_r(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("passing"), tree.array("passing", "passing")
        reach, response = tree.array("node", "sorted_rows"), tree.array("node", "sorted_rows")
        sweep(tree, q, reference, chi, block, parts)  # step 2

        # Step 3
        tree.world.V = Compliance.zero()
        for k, above in accumulation.scatter(tree):
            k.V = mobility.through(above.V, propagator(tree, k, chi), own(tree, k, block))  # Ω₀ = Ω + P Ω₀ Pᵀ

        extend(tree, chi, reach)  # step 4

        # Step 5
        for k, _ in accumulation.scatter(tree):
            for row in tree.carried(k):
                response[k, row] = k.V @ reach[k, row]

        join(tree, reach, response, block)
        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return pv_osim_r


def sweep(tree: Tree, q: Indexed, reference: str, chi: Indexed, block: Indexed, parts: TaskKinds) -> None:
    """Propagate every source to the accumulation node where it ends: χ becomes its P, the block its Ω."""
    scaled = [tree.array("passing") for _ in range(task_space.place(tree, q))]
    task_space.clear(tree, block)
    task_space.rows(tree, reference, chi, parts)
    for k, _ in accumulation.gather(tree):
        for i, one in enumerate(accumulation.units(tree, k)):
            chi[one] = Force.unit(i)
            for other in accumulation.units(tree, k)[i:]:
                block[one, other] = 0.0

    for k, parent in tree.gather():
        task_space.hinge(k, parent)
        groups = accumulation.passing_groups(tree, k)
        through_joint(k, parent, k.subspace, groups, task_space.PerRow(chi), scaled, block)


def propagator(tree: Tree, k: NodeRole, chi: Indexed) -> Array:
    """P: maps forces on an accumulation node to forces on the next one, row by row, (6, 6)."""
    return np.array([chi[one].data for one in accumulation.units(tree, k)])


def own(tree: Tree, k: NodeRole, block: Indexed) -> Array:
    """Ω: accelerations per unit force due to the joints between an accumulation node and the next one, (6, 6)."""
    units = accumulation.units(tree, k)
    return np.array([[block[units[min(i, j)], units[max(i, j)]] for j in range(6)] for i in range(6)])


def extend(tree: Tree, chi: Indexed, reach: Indexed) -> None:
    """Propagate all rows to all accumulation nodes below them: extended propagators."""
    for k, _ in accumulation.gather(tree):
        for row in tree.carried(k):
            reach[k, row] = chi[row]  # for rows that have not passed another one yet
    for k, above in accumulation.gather(tree):
        P = propagator(tree, k, chi)
        for row in tree.carried(k):
            reach[above, row] = Force(reach[k, row].data @ P)


def join(tree: Tree, reach: Indexed, response: Indexed, block: Indexed) -> None:
    """Add the contribution of the joints below the accumulation node where two tasks join."""
    for k, one, other in accumulation.joins(tree):
        for r in tree.rows_of(one):
            for s in tree.rows_of(other, r):
                block[r, s] = block[r, s] + reach[k, r].data @ response[k, s].data
