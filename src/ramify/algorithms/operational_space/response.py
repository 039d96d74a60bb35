"""Task Jacobians J, and M⁻¹Jᵀ from one articulated-body sweep with the task rows as right-hand sides. Cost O(n·r).

    pass       loop              leaves                                                         source
    place      scatter, frames   bodies and task rows χ in the frame of the tree
    reach      gather, rows      D⁻¹Sᵀχ of each row at each node that supports it                 Eqs. 58a–58d
    answer     scatter, rows     joint accelerations per unit force along each row                Eqs. 58e–58g

Forward dynamics at rest, with a unit force along a task row for each right-hand side, gives a column of M⁻¹Jᵀ. M⁻¹ is
never formed. The dynamically consistent inverse is J̄ = M⁻¹JᵀΛ.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ramify.algorithms.kinematics import VIEWS, View, seen_columns
from ramify.algorithms.operational_space import task_space
from ramify.recursion.algorithm import Algorithm, algorithm
from ramify.recursion.tree import Indexed, Tree
from ramify.spatial.motion import Motion


def _response(view: View) -> Callable[..., None]:
    def response(tree: Tree, q: Indexed, response: Indexed) -> None:
        chi, A = tree.array("row"), tree.array("node", "row")
        task_space.place(tree, q, view, chi)
        for row in tree.rows():
            A[tree.world, row] = Motion.zero()

        for k, parent in tree.gather():
            task_space.hinge(k, parent)
            for row in tree.carried(k):
                epsilon = k.S.along(chi[row])  # Eq. 58c
                response[k, row] = k.D.solve(epsilon)  # Eq. 58d
                chi[row] = chi[row] - k.G @ epsilon  # Eq. 58a

        for k, parent in tree.scatter():
            for row in tree.rows():
                own = response[k, row] - k.G.along(A[parent, row])  # Eq. 58f
                response[k, row] = own
                A[k, row] = A[parent, row] + k.S @ own  # Eq. 58g

    return response


def _task_jacobian(view: View) -> Callable[..., None]:
    def task_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
        def put(frame: Any, c: Any, motion: Motion) -> None:
            for row in frame.rows():
                J[row, c] = motion.data[row.component]

        seen_columns(tree, q, view, put)

    return task_jacobian


def _for_each_reference(make: Callable[[View], Callable[..., None]], **dimensions: Any) -> dict[str, Algorithm]:
    made = {}
    for reference, view in VIEWS.items():
        run = make(view)
        run.__name__ = f"{run.__name__}_{reference}"
        made[reference] = algorithm(**dimensions)(run)
    return made


#: M⁻¹Jᵀ of the rows of all tasks, (nv, r), by reference.
RESPONSES = _for_each_reference(
    _response, q=("q",), response=("v", "rows"), outputs=("response",), sparse=("response",)
)
#: Jacobian of the rows of all tasks, (r, nv), by reference.
TASK_JACOBIANS = _for_each_reference(_task_jacobian, q=("q",), J=("rows", "v"), outputs=("J",), sparse=("J",))
