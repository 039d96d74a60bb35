"""Forces of grasps on the objects that they hold. Cost O(n + c) for c rows.

Joint forces F = τ + Jᵀλ fix λ only as far as joints have no motor. Grasps share the load of the object they hold by
weights Q around internal forces h₀:

    λ = h₀ + Q B y       (BᵀQB) y = F_o − Bᵀh₀            B = J, columns of objects                              (1)

    pass       loop                leaves
    rows       scatter, frames     rows χ at the bodies on which they act
    press      relatives, rows     h₀: at each grasp, a force towards a mean of the object's grasps
    hold       frames              Σ χᵀQχ and Σ χᵀh₀ of each body
    objects    scatter             y, and the motion of the object that it is: an object is a single free body
    share      frames              λ
    rest       gather              F − Jᵀλ, what the motors and `support_sharing` provide

`weak` is the sum of K_ii (K⁻¹)_ii over the matrices K of (1). Where it is large, directions are missing, and the caller
chooses another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.contract import components, describe, rebuild
from kinetree.language.roles import FrameRole, RowRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, Factor
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.value import Array

AXES = "local_world_aligned"
_NEVER_ZERO = 2.0**-500


def _grasp_sharing(parts: TaskKinds) -> Callable[..., None]:
    def grasp_sharing(
        tree: Tree, q: Indexed, full: Indexed, mean: Indexed, of_rows: Indexed, of_objects: Indexed,
        rest: Indexed, force: Indexed, weak: Indexed,
    ) -> None:  # fmt: skip
        tips, given, own = tree.array("sorted_rows"), tree.array("rows"), tree.array("rows")
        task_space.place(tree, q)
        tree.world.stiffness = ArticulatedInertia.zero()
        tree.world.internal = tree.world.push = Force.zero()
        tree.world.way = Motion.zero()
        for k, _ in tree.scatter():
            k.stiffness = _nothing(k.P)
            k.internal = k.push = _nothing(k.none)
        task_space.rows(tree, AXES, tips, parts)
        for row in tree.task_rows():
            given[row] = 0.0
            own[row] = 0.0
        if parts.relative:
            _press(tree, mean, of_rows, given)

        for frame, carrier in tree.frames():
            pressing, held = Force.zero(), np.zeros((6, 6))
            for row in frame.rows():
                chi = tips[row].data
                pressing = pressing + Force(chi * given[row])
                held = held + np.outer(chi * of_rows[row][0], chi)
            carrier.internal += pressing
            carrier.stiffness += ArticulatedInertia.from_matrix(held)
        for k, _ in tree.scatter():
            chosen, load = of_objects[k], full[k] - k.H.T @ k.internal
            K = np.array([k.H.T @ (k.stiffness @ (k.H @ unit)) for unit in np.eye(len(chosen))])
            y, lacking = solved(K, load, chosen)
            weak[...] = weak[...] + lacking
            k.way = k.H @ y
        for frame, carrier in tree.frames():
            for row in frame.rows():
                own[row] = own[row] + tips[row].data @ carrier.way.data
        for row in tree.task_rows():
            given[row] = force[row] = given[row] + of_rows[row][0] * own[row]  # (1)
        for frame, carrier in tree.frames():
            total = Force.zero()
            for row in frame.rows():
                total = total + Force(tips[row].data * given[row])
            carrier.push += total
        for k, parent in tree.gather():
            rest[k] = (1.0 - of_objects[k]) * (full[k] - k.H.T @ k.push)
            parent.push += k.X.T @ k.push

    return grasp_sharing


def _nothing(like: Any) -> Any:
    """Zero of the type of a value."""
    return rebuild(describe(like), np.zeros(len(components(like))))


def solved(K: Array, load: Array, chosen: Array) -> tuple[Array, Any]:
    """y with K y = load over the chosen coordinates of a node, zero elsewhere, and Σ K_ii (K⁻¹)_ii over these.

    Of K, (n, n), the lower triangle is read; `chosen` is 1 or 0, (n,).
    """
    n = range(len(chosen))
    entries = np.array([chosen[i] * chosen[j] * K[max(i, j), min(i, j)] for i in n for j in n])
    entries = entries.reshape(len(n), len(n)) + np.diag(1.0 - chosen)
    D = Factor.of(entries)
    inverse = D.inverse()
    lacking = sum(chosen[i] * (entries[i, i] * inverse[i, i]) for i in n)
    return chosen * D.solve(chosen * load), lacking


def _press(tree: Tree, mean: Indexed, of_rows: Indexed, given: Indexed) -> None:
    """Forces with which grasps press towards their mean, in the axes of their rows."""
    point, center = tree.array("rows"), tree.array("rows")
    for row in tree.task_rows():
        point[row] = 0.0
        center[row] = 0.0
    for near, near_carrier, far, far_carrier in tree.relatives():
        here, there = tree.pose(near, near_carrier).r, tree.pose(far, far_carrier).r
        for row, axis in _linear(far):
            point[row] = there[axis] + of_rows[row][2] * (here - there)[axis]
    for one in tree.task_rows():
        for other in tree.task_rows():
            center[other] = center[other] + mean[one, other] * point[one]
    for near, near_carrier, far, _ in tree.relatives():
        found: list[Any] = [0.0, 0.0, 0.0]
        for row, axis in _linear(far):
            found[axis] = center[row] - point[row]
        inwards = np.array(found)
        length = sqrt(inwards @ inwards) + _NEVER_ZERO
        seen = tree.pose(near, near_carrier).E @ (inwards / length)
        for row, axis in _linear(far):
            given[row] = of_rows[row][1] * seen[axis]


def _linear(frame: FrameRole) -> list[tuple[RowRole, int]]:
    """Rows of a frame that translate it, and their axes."""
    return [(row, row.component - 3) for row in frame.rows() if row.component is not None and row.component >= 3]


@cache
def grasp_sharing(parts: TaskKinds) -> Algorithm:
    """The joint forces left, and λ.

    q           configuration
    full        joint forces F, (nv,)
    mean        for rows of a force that presses on an object, the weights of its grasps in their mean, (c, c)
    of_rows     of each row: its weight Q; the force that presses [N], negative if the row's force acts on the hand;
                1 if the hand is the near frame
    of_objects  of each degree of freedom: 1 if it is an object's, else 0
    """
    declare = algorithm(
        q=("q",), full=("v",), mean=("rows", "rows"), of_rows=("rows", 3), of_objects=("v",),
        rest=("v",), force=("rows",), weak=(), outputs=("rest", "force", "weak"), sparse=("weak",),
    )  # fmt: skip
    return replace(declare(_grasp_sharing(parts)), name=f"grasp_sharing{parts.suffix}")
