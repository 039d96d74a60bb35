"""Blocks of Λ⁻¹ that belong to the centre of mass. Cost O(n + r).

A row of the centre of mass is a force on every body, in proportion to its mass: m e/m_all with a unit vector e. It acts
on no single body. The sum of these forces at each node is already known: with P⁺ = (1 − G Sᵀ) P,

    χ(k) = M(k) e + Σ (1 − G Sᵀ) χ(child) = P(k) e        times 1/m_all, e as a motion common to all bodies

by the equivalence of gravity and acceleration. No inward propagation is needed, and outward only three columns whatever
the tasks:

    pass      loop        leaves
    answer    scatter     acceleration A of each body per unit force along x, y, z; contribution of each joint
    total     gather      contribution of all joints; total mass
    rows      frames      A projected on each task row

The block of the centre of mass with itself is Σ yᵀ D⁻¹ y with y = Sᵀ P e, the sum that `pv_osim` forms for other
rows.
"""

from __future__ import annotations

import numpy as np

from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import pack3, stack, unpack3

_ALONG = tuple(Motion(np.eye(6)[i]) for i in (3, 4, 5))


def fill(tree: Tree, tips: Indexed, block: Indexed) -> None:
    """Fill the blocks of Λ⁻¹ that belong to the centre of mass.

    Args:
        tree: The mechanism, with S, P, D and G at its nodes.
        tips: All task rows, at the bodies on which they act; zero for those of the centre of mass.
        block: Λ⁻¹.
    """
    side = tree.array("sorted_rows")
    tree.world.A = np.zeros((6, 3))
    tree.world.total = np.zeros(7)

    for k, parent in tree.scatter():
        y = np.array([k.S.T @ (k.P @ e) for e in _ALONG]).T
        own = k.D.solve(y) - k.G.matrix().T @ parent.A
        k.A = parent.A + np.array([(k.S @ own[:, i]).data for i in range(3)]).T
        parts = zip(k.D.forward(y), k.D.reciprocals, strict=True)
        given = sum(np.outer(part, part) * r for part, r in parts)
        k.total = stack(k.M.mass, pack3(given))

    for k, parent in tree.gather():
        parent.total += k.total

    share = 1.0 / tree.world.total[0]
    corner = unpack3(tree.world.total[1:]) * (share * share)
    for frame, carrier in tree.frames():
        for row in tree.rows_of(frame):
            side[row] = tips[row].data @ carrier.A * share
    write(tree, corner, side, block)


def write(tree: Tree, corner: Array, side: Indexed, block: Indexed) -> None:
    """The rows of the centre of mass in Λ⁻¹.

    Args:
        tree: Provides the rows.
        corner: Their own block for all three directions, (3, 3).
        side: For every other row, its entries for all three directions; those of the centre of mass are set here.
        block: Λ⁻¹.
    """
    for mass, _ in tree.frames("mass"):
        for row in mass.rows():
            side[row] = corner @ row.unit().linear
    for mass, _ in tree.frames("mass"):
        for row in mass.rows():
            for other in tree.sorted_rows():
                block[row, other] = side[other] @ row.unit().linear
