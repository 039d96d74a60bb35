"""Task Jacobians by weights, and M⁻¹Jᵀ with the task rows as right-hand sides. Cost O(n·r).

    pass       loop              leaves                                                  source
    reach      gather, rows      J = Hᵀχ with χ(p) = Xᵀχ; or D⁻¹Hᵀχ with χ(p) = Xᵀ(χ − G Hᵀχ)   Eqs. 58a–58d
    answer     scatter, rows     joint accelerations per unit force along each row              Eqs. 58e–58g

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.operational_space.by_weights import frames
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion


def jacobian_rows(reference: str, parts: Parts, *, placed: bool = False) -> Callable[..., None]:
    """Write J to an array that is zero; nodes may be placed already."""

    def task_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
        chi = tree.array("node", "sorted_rows", like="none")
        if not placed:
            frames.place(tree, q)
        frames.seed(tree, reference, parts, chi)
        for k, parent in tree.gather():
            for row in tree.carried(k):
                for c, entry in zip(k.columns(), k.H.T @ chi[k, row], strict=True):
                    J[row, c] = J[row, c] + entry  # both ends of a relative task share their rows
                chi[parent, row] = k.X.T @ chi[k, row]
        if parts.mass:
            _mass_rows(tree, J)

    return task_jacobian


def _mass_rows(tree: Tree, J: Indexed) -> None:
    """The rows of the centre of mass: momenta of all nodes per joint velocity, divided by the mass."""
    frames.fall(tree)
    share = 1.0 / frames.mass(tree)
    for i in range(3):
        setattr(tree.world, f"F{i}", Force.zero())
    for k, _ in tree.scatter():
        for i in range(3):
            setattr(k, f"F{i}", k.M @ getattr(k, f"e{i}"))
    own = [tree.array("v") for _ in range(3)]
    for k, parent in tree.gather():
        for i in range(3):
            F = getattr(k, f"F{i}")
            for c, entry in zip(k.columns(), k.H.T @ F, strict=True):
                own[i][c] = entry
            _add(parent, f"F{i}", k.X.T @ F)
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            axis = int(np.argmax(row.unit().linear))
            for c in tree.columns():
                J[row, c] = own[axis][c] * share


def _add(role: Any, name: str, amount: Any) -> None:
    value = getattr(role, name)
    value += amount
    setattr(role, name, value)


def response_rows(reference: str, parts: Parts, *, factored: bool = False) -> Callable[..., None]:
    """Write M⁻¹Jᵀ to an array that is zero; nodes may be placed already, with P, D and G."""

    def response(tree: Tree, q: Indexed, response: Indexed) -> None:
        together, numbered = (tree.task_rows, "rows") if parts.relative else (tree.sorted_rows, "sorted_rows")
        chi, A = tree.array("node", "sorted_rows", like="none"), tree.array("node", numbered)
        if not factored:
            frames.place(tree, q)
            articulated_inertia.start(tree)
            for k, _ in tree.scatter():
                k.P = k.M.articulated()
        frames.seed(tree, reference, parts, chi)
        for row in together():
            A[tree.world, row] = Motion.zero()
        if parts.mass:
            frames.fall(tree)
            share = 1.0 / frames.mass(tree)
            for center, _ in tree.frames("mass"):
                for row in center.rows():
                    # a force on all nodes in proportion to their mass is an acceleration of the world
                    A[tree.world, row] = Motion(row.unit().data * -share)

        for k, parent in tree.gather():
            if not factored:
                articulated_inertia.hinge(k, parent)
            for row in tree.carried(k):
                epsilon = k.H.T @ chi[k, row]  # Eq. 58c
                for c, entry in zip(k.columns(), k.D.solve(epsilon), strict=True):  # Eq. 58d
                    response[c, row] = response[c, row] + entry
                chi[parent, row] = k.X.T @ (chi[k, row] - k.G @ epsilon)  # Eqs. 58a, 58b

        for k, parent in tree.scatter():
            for row in together():
                onward = k.X @ A[parent, row]  # Eq. 58e
                answer = np.array([response[c, row] for c in k.columns()]) - k.G.T @ onward  # Eq. 58f
                for c, entry in zip(k.columns(), answer, strict=True):
                    response[c, row] = entry
                A[k, row] = onward + k.H @ answer  # Eq. 58g

    return response
