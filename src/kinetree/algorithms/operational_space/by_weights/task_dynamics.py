"""Λ, J̄ and N on nodes of any kind. Cost O(n·r² + r³ + n²·r)."""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.operational_space import inversion
from kinetree.algorithms.operational_space.by_weights.inverse_inertia import (
    inverse_inertia as inverse_inertia_by_weights,
)
from kinetree.algorithms.operational_space.by_weights.jacobian import jacobian_rows, response_rows
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, invert, write_inverse
from kinetree.recursion.tree import Indexed, Tree


def task_dynamics(reference: str, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ, J̄ = M⁻¹JᵀΛ and N = 1 − J̄J in a given reference."""
    inverse = inverse_inertia_by_weights(reference, parts)
    jacobian, response = jacobian_rows(reference, parts, placed=True), response_rows(reference, parts, factored=True)

    def task_dynamics(
        tree: Tree,
        q: Indexed,
        reach: Indexed,
        inertia: Indexed,
        spread: Indexed,
        dynamically_consistent_inverse: Indexed,
        nullspace: Indexed,
    ) -> None:
        B, weight = tree.array("rows", "rows"), tree.array("rows")
        J, R, J_bar, N = tree.array("rows", "v"), tree.array("v", "rows"), tree.array("v", "rows"), tree.array("v", "v")
        if parts.relative:
            inversion.clear(tree, B)
        inverse(tree, q, B)
        inversion.weigh(tree, B, reach, weight)
        invert(task_rows(tree), B)
        add_spread(task_rows(tree), B, weight, spread)
        write_inverse(task_rows(tree), B, inertia)

        for row in tree.task_rows():
            for c in tree.columns():
                J[row, c] = 0.0
        for c in tree.columns():
            for row in tree.task_rows():
                R[c, row] = 0.0
                J_bar[c, row] = 0.0
            for o in tree.columns():
                N[c, o] = 0.0
            N[c, c] = 1.0
        jacobian(tree, q, J)
        response(tree, q, R)
        for c in tree.columns():
            for row in tree.task_rows():
                entry = R[c, row]
                for other in tree.task_rows():
                    J_bar[c, other] = J_bar[c, other] - entry * B[row, other]
            for row in tree.task_rows():
                entry = J_bar[c, row]
                dynamically_consistent_inverse[c, row] = entry
                for o in tree.columns():
                    N[c, o] = N[c, o] - entry * J[row, o]
            for o in tree.columns():
                nullspace[c, o] = N[c, o]

    return task_dynamics
