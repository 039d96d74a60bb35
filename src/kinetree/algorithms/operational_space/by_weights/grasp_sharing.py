"""Forces of grasps on the objects that they hold, on trees with nodes of any kind. Cost O(n·c) for c rows.

As `grasp_sharing`, with the Jacobian J of the rows: it serves nodes of any dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.operational_space.by_weights.jacobian import jacobian_rows
from kinetree.algorithms.operational_space.grasp_sharing import AXES, declared, press, solved
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.value import Array


def _grasp_sharing(parts: Parts) -> Callable[..., None]:
    jacobian = jacobian_rows(AXES, parts)

    def grasp_sharing(
        tree: Tree,
        q: Indexed,
        full: Indexed,
        mean: Indexed,
        of_rows: Indexed,
        of_objects: Indexed,
        rest: Indexed,
        force: Indexed,
        weak: Indexed,
    ) -> None:
        J, K, load = tree.array("rows", "v"), tree.array("v", "v"), tree.array("v")
        given, own = tree.array("rows"), tree.array("rows")
        clear(tree, J)
        jacobian(tree, q, J)
        for row in tree.task_rows():
            given[row] = 0.0
            own[row] = 0.0
        if parts.relative:
            press(tree, mean, of_rows, given)

        less(tree, J, full, given, load)
        for k, _ in tree.scatter():
            columns = list(k.columns())
            weighted = product(tree, columns, J, J, K, of_rows)
            y, lacking = solved(weighted, np.array([load[c] for c in columns]), of_objects[k])
            weak[...] = weak[...] + lacking
            for row in tree.task_rows():
                own[row] = own[row] + sum(J[row, c] * part for c, part in zip(columns, y, strict=True))
        for row in tree.task_rows():
            given[row] = force[row] = given[row] + of_rows[row][0] * own[row]
        less(tree, J, full, given, load)
        for c in tree.columns():
            rest[c] = (1.0 - of_objects[c]) * load[c]

    return grasp_sharing


def clear(tree: Tree, J: Indexed) -> None:
    """Set a matrix of rows and columns to zero."""
    for row in tree.task_rows():
        for c in tree.columns():
            J[row, c] = 0.0


def less(tree: Tree, J: Indexed, full: Indexed, along: Indexed, left: Indexed) -> None:
    """F − Jᵀλ."""
    # sums run over the outer loop: in the inner one, no term waits for the last
    for c in tree.columns():
        left[c] = full[c]
    for row in tree.task_rows():
        h = along[row]
        for c in tree.columns():
            left[c] = left[c] - J[row, c] * h


def product(
    tree: Tree, columns: list[Any], left: Indexed, right: Indexed, K: Indexed, weights: Indexed | None = None
) -> Array:
    """Lower triangle of Σ_r w_r l_r r_rᵀ, over some columns; K is memory for it."""
    for i, c in enumerate(columns):
        for o in columns[: i + 1]:
            K[c, o] = 0.0
    for row in tree.task_rows():
        for i, c in enumerate(columns):
            x = left[row, c] if weights is None else weights[row][0] * left[row, c]
            for o in columns[: i + 1]:
                K[c, o] = K[c, o] + x * right[row, o]
    count = range(len(columns))
    lower = [[K[columns[i], columns[j]] if j <= i else 0.0 for j in count] for i in count]
    return np.array(lower).reshape(len(columns), len(columns))


@cache
def grasp_sharing_by_weights(parts: Parts) -> Algorithm:
    """As `grasp_sharing`, for nodes of any kind."""
    return declared(_grasp_sharing(parts), f"grasp_sharing{parts.suffix}_by_weights", any_node=True)
