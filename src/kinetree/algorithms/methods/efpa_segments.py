"""Λ⁻¹ by extended force propagators that span serial segments. Cost O(n + m²).

    pass       loop                                leaves                                             source
    segments   gather, rows that pass a joint      L and K of each serial segment: P and Ω             [J11] §7
    reach      accumulation nodes, tips to base    extended propagators χ of all rows to all of them   [W12] Eq. 11
    response   accumulation nodes, base to tips    Λ⁻¹(i, k) of each accumulation node i               [W12] Eq. 13
    pairs      pairs of tasks                      Λ⁻¹ at the first node that both reach               [W12] Eq. 14

The improvement that [W12] §V leaves open: a chain of joints that supports several tasks is traversed once, with six
unit forces, and Eqs. 11 and 13 step from one accumulation node (`accumulation.py`) to the next. It differs from
`pv_osim_r` in that accelerations are propagated outwards per row, not per node, which is cheaper while a node carries
few rows. The gain on the paper's own example is in `docs/operational_space_methods.md`.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.methods import accumulation
from kinetree.algorithms.methods.pv_osim_r import extend, join, own, propagator, sweep
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def efpa_segments(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def efpa_segments(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("passing"), tree.array("passing", "passing")
        reach, response = tree.array("node", "sorted_rows"), tree.array("node", "sorted_rows")
        sweep(tree, q, reference, chi, block, parts)

        extend(tree, chi, reach)  # Eq. 11 over segments
        for row in tree.sorted_rows():
            response[tree.world, row] = Motion.zero()
        for k, above in accumulation.scatter(tree):
            P, K = propagator(tree, k, chi), own(tree, k, block)
            for row in tree.carried(k):
                moved = P @ response[above, row].data + K @ reach[k, row].data
                response[k, row] = Motion(moved)  # Eq. 13 over a segment

        join(tree, reach, response, block)  # Eq. 14
        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return efpa_segments
