"""Rows of the centre of mass, in J and in Λ⁻¹. Cost O(n + r).

A row of the centre of mass is a force on every body, in proportion to its mass: M e/m_all, where e is the motion of the
body when the world moves along x, y or z and all joints are locked. It acts on no single body. The sum of these forces
at each node is already known: with P⁺ = (1 − G Hᵀ) P,

    χ(k) = M(k) e + Σ Xᵀ (1 − G Hᵀ) χ(child) = P(k) e        times 1/m_all

by the equivalence of gravity and acceleration. No inward propagation is needed, and outward only three columns whatever
the tasks:

    pass      loop        leaves
    answer    scatter     acceleration A of each body per unit force along x, y, z; contribution of each joint
    total     gather      contribution of all joints; total mass
    rows      frames      A projected on each task row

The block of the centre of mass with itself is Σ yᵀ D⁻¹ y with y = Hᵀ P e, the sum that `pv_osim` forms for other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms import composite_inertia
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import pack3, stack, unpack3

_AXES = range(3)


def fall(tree: Tree) -> None:
    """Set e0, e1 and e2, the motions e of every node, which has a weight X."""
    for i in _AXES:
        setattr(tree.world, f"e{i}", Motion(np.eye(6)[3 + i]))
    for k, parent in tree.scatter():
        for i in _AXES:
            setattr(k, f"e{i}", k.X @ getattr(parent, f"e{i}"))


def mass(tree: Tree) -> Any:
    """Total mass of all nodes; needs the motions of `fall`."""
    tree.world.heavy = np.zeros(1)
    for k, _ in tree.scatter():
        k.heavy = np.array([k.e0.dot(k.M @ k.e0)])
    for k, parent in tree.gather():
        parent.heavy += k.heavy
    return tree.world.heavy[0]


def jacobian(tree: Tree, J: Indexed) -> None:
    """The rows of J: momenta of composite inertias per joint velocity, divided by the mass. Needs X at every node."""
    fall(tree)
    share = 1.0 / mass(tree)
    own = [tree.array("v") for _ in _AXES]
    composite_inertia.start(tree)
    for k, _ in tree.scatter():
        k.R = composite_inertia.own(tree, k)
    for k, parent in tree.gather():
        for c, unit in zip(k.columns(), np.eye(len(k.armature)), strict=True):
            momentum = k.R @ (k.H @ unit)
            for i in _AXES:
                own[i][c] = getattr(k, f"e{i}").dot(momentum)
        parent.R += k.X.congruence(k.R)
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            axis = int(np.argmax(row.unit().linear))
            for c in tree.columns():
                J[row, c] = own[axis][c] * share


def fill(tree: Tree, tips: Indexed, block: Indexed, motions: Callable[[Any], Any]) -> None:
    """Fill the blocks of Λ⁻¹ that belong to the centre of mass.

    Args:
        tree: The mechanism, with X, P, D and G at its nodes.
        tips: All task rows, at the nodes on which they act; zero for those of the centre of mass.
        block: Λ⁻¹.
        motions: The basis of a node's motions to which D and G belong.
    """
    side = tree.array("sorted_rows")
    fall(tree)
    for i in _AXES:
        setattr(tree.world, f"A{i}", Motion.zero())
    tree.world.total = np.zeros(7)

    for k, parent in tree.scatter():
        H, D = motions(k), k.D
        y = [H.T @ (k.P @ getattr(k, f"e{i}")) for i in _AXES]
        for i in _AXES:
            onward = k.X @ getattr(parent, f"A{i}")
            setattr(k, f"A{i}", onward + H @ (D.solve(y[i]) - k.G.T @ onward))
        steps = zip(np.array([D.forward(each) for each in y]).T, D.reciprocals, strict=True)
        given = sum((np.outer(step, step) * r for step, r in steps), np.zeros((3, 3)))
        k.total = stack(k.e0.dot(k.M @ k.e0), pack3(given))
    for k, parent in tree.gather():
        parent.total += k.total

    share = 1.0 / tree.world.total[0]
    corner = unpack3(tree.world.total[1:]) * (share * share)
    for frame, carrier in tree.frames():
        for row in tree.rows_of(frame):
            side[row] = np.array([getattr(carrier, f"A{i}").dot(tips[row]) for i in _AXES]) * share
    _write(tree, corner, side, block)


def _write(tree: Tree, corner: Array, side: Indexed, block: Indexed) -> None:
    """The rows of the centre of mass in Λ⁻¹.

    Args:
        tree: Provides the rows.
        corner: Their own block for all three directions, (3, 3).
        side: For every other row, its entries for all three directions; those of the centre of mass are set here.
        block: Λ⁻¹.
    """
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            side[row] = corner @ row.unit().linear
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            for other in tree.sorted_rows():
                block[row, other] = side[other] @ row.unit().linear
