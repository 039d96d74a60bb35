"""Task Jacobians J, and M⁻¹Jᵀ from one articulated-body sweep with the task rows as right-hand sides. Cost O(n·r).

    pass       loop              leaves                                                         source
    columns    scatter, path     motions of nodes per joint velocity, and J from those of the frames
    place      scatter, frames   nodes, and task rows χ at the nodes that carry them
    reach      gather, rows      D⁻¹Hᵀχ of each row at each node that supports it                 Eqs. 58a–58d
    answer     scatter, rows     joint accelerations per unit force along each row                Eqs. 58e–58g

Forward dynamics at rest with a unit force along a task row as right-hand side yields a column of M⁻¹Jᵀ. M⁻¹ is never
formed. The dynamically consistent inverse is J̄ = M⁻¹JᵀΛ.

The two ends of a relative task are separate right-hand sides in the inward pass and summed in the outward pass. A force
on all bodies in proportion to their mass is gravity: its column starts from an acceleration of the world and needs no
inward pass.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.kinematics.frame_kinematics import propagate_columns
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.roles import ColumnRole, FrameRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform


def _response(reference: str, parts: TaskKinds) -> Callable[..., None]:
    def response(tree: Tree, q: Indexed, response: Indexed) -> None:
        together, numbered = (tree.task_rows, "rows") if parts.relative else (tree.sorted_rows, "sorted_rows")
        chi, A = tree.inward("sorted_rows", like="none"), tree.array("node", numbered)
        most = task_space.place(tree, q)
        own = [tree.array("sorted_rows") for _ in range(most)] if parts.relative else []
        task_space.seed(tree, reference, chi, parts)
        for row in together():
            A[tree.world, row] = Motion.zero()
        if parts.mass:
            _lift(tree, A)

        for k, parent in tree.gather():
            inertias.hinge(k, parent)
            for row in tree.carried(k):
                force = chi[k, row]
                epsilon = k.H.T @ force  # Eq. 58c
                if parts.relative:
                    for part, x in zip(own, k.D.solve(epsilon), strict=False):
                        part[row] = x
                else:
                    response[k, row] = k.D.solve(epsilon)  # Eq. 58d
                chi[parent, row] = k.X.T @ k.G.past(force, epsilon)  # Eqs. 58a, 58b
            if parts.relative:  # both ends share their rows
                for row in tree.carried(k):
                    response[k, row] = response[k, row] + np.array([part[row] for part in own[: k.D.order]])  # Eq. 58d

        for k, parent in tree.scatter():
            for row in together():
                onward = k.X @ A[parent, row]  # Eq. 58e
                answer = response[k, row] - k.G.T @ onward  # Eq. 58f
                response[k, row] = answer
                A[k, row] = onward + k.H @ answer  # Eq. 58g

    return response


def _lift(tree: Tree, A: Indexed) -> None:
    """Accelerate the world for the rows of the centre of mass, so that each body takes its share of a unit force."""
    task_space.fall(tree)
    share = 1.0 / task_space.mass(tree)
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            A[tree.world, row] = Motion(row.unit().data * -share)


def jacobian_rows(reference: str, parts: TaskKinds) -> Callable[..., None]:
    """Write J to an array that is zero, and leave weight X and pose C at every node."""

    def task_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
        def put(frame: Any, c: Any, motion: Motion) -> None:
            for row in frame.rows():
                entry = motion.data[row.component]
                J[row, c] = entry if tree.rigid_bodies else J[row, c] + entry

        S = tree.travelling("v", like="still")
        tree.world.C = Transform.identity()
        tree.world.still = Motion.zero()
        for k, parent in tree.scatter():
            k.X = k.weight(q[k])
            k.C = k.X @ parent.C
            propagate_columns(tree, k, parent, k.X, S)

        for frame, carrier in tree.frames("frame"):
            seen = tree.seen(reference, frame, carrier)
            for c in tree.support(frame):
                put(frame, c, seen @ S[carrier, c])
        if parts.relative:
            for near, near_carrier, far, far_carrier in tree.relatives():
                seen_near, seen_far = tree.between(near, near_carrier, far, far_carrier)
                for c in columns_of(tree, near):
                    put(near, c, -(seen_near @ S[near_carrier, c]))
                for c in columns_of(tree, far):
                    put(far, c, seen_far @ S[far_carrier, c])
        if parts.mass:
            task_space.center_of_mass_jacobian(tree, J)

    return task_jacobian


def columns_of(tree: Tree, end: FrameRole) -> Iterator[ColumnRole]:
    """The degrees of freedom that move an end of a relative task.

    Joints of bodies that carry both ends move them together, and count for neither. Other nodes may carry both and move
    them apart; then both ends add to the same column.
    """
    return tree.support(end) if tree.rigid_bodies else tree.path(end)


@cache
def response(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """M⁻¹Jᵀ of all task rows, (nv, r), in a given reference."""
    declare = algorithm(q=("q",), response=("v", "rows"), outputs=("response",), sparse=("response",))
    return replace(declare(_response(reference, parts)), name=f"response_{reference}{parts.suffix}")


@cache
def task_jacobian(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """Jacobian of all task rows, (r, nv), in a given reference."""
    declare = algorithm(q=("q",), J=("rows", "v"), outputs=("J",), sparse=("J",), local=not parts.mass)
    return replace(declare(jacobian_rows(reference, parts)), name=f"task_jacobian_{reference}{parts.suffix}")
