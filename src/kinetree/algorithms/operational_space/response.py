"""Task Jacobians J, and M⁻¹Jᵀ from one articulated-body sweep with the task rows as right-hand sides. Cost O(n·r).

    pass       loop              leaves                                                         source
    place      scatter, frames   bodies and task rows χ in the frame of the tree
    reach      gather, rows      D⁻¹Sᵀχ of each row at each node that supports it                 Eqs. 58a–58d
    answer     scatter, rows     joint accelerations per unit force along each row                Eqs. 58e–58g

Forward dynamics at rest with a unit force along a task row as right-hand side yields a column of M⁻¹Jᵀ. M⁻¹ is never
formed. The dynamically consistent inverse is J̄ = M⁻¹JᵀΛ.

The two ends of a relative task are separate right-hand sides in the inward pass and summed in the outward pass. A force
on all bodies in proportion to their mass is gravity: its column starts from an acceleration of the world and needs no
inward pass.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.center_of_mass import column_momenta
from kinetree.algorithms.kinematics import VIEWS, View, seen_columns
from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.by_weights.jacobian import jacobian_rows as jacobian_by_weights
from kinetree.algorithms.operational_space.by_weights.jacobian import response_rows
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def _response(view: View, parts: Parts) -> Callable[..., None]:
    def response(tree: Tree, q: Indexed, response: Indexed) -> None:
        together, numbered = (tree.task_rows, "rows") if parts.relative else (tree.sorted_rows, "sorted_rows")
        chi, A = tree.array("sorted_rows"), tree.array("node", numbered)
        own = (
            [tree.array("sorted_rows") for _ in range(6)] if parts.relative else []
        )  # one per degree of freedom of a joint
        task_space.place(tree, q, view, chi, parts)
        for row in together():
            A[tree.world, row] = Motion.zero()
        if parts.mass:
            _lift(tree, A)

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            for row in tree.carried(k):
                epsilon = k.S.T @ chi[row]  # Eq. 58c
                if parts.relative:
                    for part, x in zip(own, k.D.solve(epsilon), strict=False):
                        part[row] = x
                else:
                    response[k, row] = k.D.solve(epsilon)  # Eq. 58d
                chi[row] = chi[row] - k.G @ epsilon  # Eq. 58a
            if parts.relative:
                for row in tree.carried(k):
                    response[k, row] = response[k, row] + np.array([part[row] for part in own[: k.D.order]])  # Eq. 58d

        for k, parent in tree.scatter():
            for row in together():
                answer = response[k, row] - k.G.T @ A[parent, row]  # Eq. 58f
                response[k, row] = answer
                A[k, row] = A[parent, row] + k.S @ answer  # Eq. 58g

    return response


def _lift(tree: Tree, A: Indexed) -> None:
    """Accelerate the world for the rows of the centre of mass, so that each body takes its share of a unit force."""
    tree.world.mass = np.zeros(1)
    for k, _ in tree.scatter():
        k.mass = np.array([k.M.mass])
    for k, parent in tree.gather():
        parent.mass += k.mass
    share = 1.0 / tree.world.mass[0]
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            A[tree.world, row] = Motion(row.unit().data * -share)


def jacobian_rows(view: View, parts: Parts) -> Callable[..., None]:
    """Write J to an array that is zero."""

    def task_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
        def put(frame: Any, c: Any, motion: Motion) -> None:
            for row in frame.rows():
                J[row, c] = motion.data[row.component]

        S = seen_columns(tree, q, view, put)
        if parts.relative:
            for near, near_carrier, far, far_carrier in tree.relatives():
                seen_near, seen_far = task_space.between(near, near_carrier, far, far_carrier)
                # columns that move both ends together are in neither support
                for c in tree.support(near):
                    put(near, c, -(seen_near @ S[c]))
                for c in tree.support(far):
                    put(far, c, seen_far @ S[c])
        if parts.mass:
            F = tree.array("v")
            share = 1.0 / column_momenta(tree, F)
            for center, _ in tree.frames("mass"):
                for c in tree.columns():
                    put(center, c, Motion(F[c].data * share))

    return task_jacobian


def _declared(
    make: Callable[[Any, Parts], Callable[..., None]], reference: str, parts: Parts, by_weights: bool, **dimensions: Any
) -> Algorithm:
    run = make(reference if by_weights else VIEWS[reference], parts)
    run.__name__ = f"{run.__name__}_{'by_weights_' * by_weights}{reference}{parts.suffix}"
    return algorithm(**dimensions, any_node=by_weights)(run)


@cache
def response(reference: str, parts: Parts = PLAIN, *, by_weights: bool = False) -> Algorithm:
    """M⁻¹Jᵀ of all task rows, (nv, r), in a given reference."""
    make = response_rows if by_weights else _response
    dimensions = {"q": ("q",), "response": ("v", "rows")}
    return _declared(make, reference, parts, by_weights, **dimensions, outputs=("response",), sparse=("response",))


@cache
def task_jacobian(reference: str, parts: Parts = PLAIN, *, by_weights: bool = False) -> Algorithm:
    """Jacobian of all task rows, (r, nv), in a given reference."""
    make = jacobian_by_weights if by_weights else jacobian_rows
    dimensions: dict[str, Any] = {"q": ("q",), "J": ("rows", "v"), "local": not (by_weights or parts.mass)}
    return _declared(make, reference, parts, by_weights, **dimensions, outputs=("J",), sparse=("J",))
