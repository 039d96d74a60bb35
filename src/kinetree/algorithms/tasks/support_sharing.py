"""Motor torques and forces of supports that together produce given joint forces. Cost O(n·c² + c³) for c rows.

Joint forces F = τ + Jᵀλ fix λ only as far as the base has no motor. *Supports*, constraints on anything but objects,
share the rest so that motor torques, relative to their limits, are least:

    λ = S⁻¹ (J W² F + B z)          S = J W² Jᵀ                                                                  (1)
        (BᵀS⁻¹B) z = F_b − BᵀS⁻¹ J W² F          B = J, columns of the base

    pass       loop                leaves
    rows       support             J
    motors     rows, columns       S and its inverse
    base       scatter, rows       z; the base is a single free body

`weak` is the sum of K_ii (K⁻¹)_ii over the matrix K of (1), and `spread` is that of S: see `kernels.solve`. Where
either is large, directions are missing, and the caller chooses another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.tasks.grasp_sharing import AXES, solved
from kinetree.algorithms.tasks.response import jacobian_rows
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, apply_inverse, invert
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.value import Array


def _support_sharing(parts: TaskKinds, based: bool) -> Callable[..., None]:
    jacobian = jacobian_rows(AXES, parts)

    def support_sharing(
        tree: Tree, q: Indexed, full: Indexed, of_columns: Indexed,
        tau: Indexed, force: Indexed, weak: Indexed, spread: Indexed,
    ) -> None:  # fmt: skip
        J, J_t, S = tree.array("rows", "v"), tree.array("v", "rows"), tree.array("rows", "rows")
        weight, own, borne, left = tree.array("rows"), tree.array("rows"), tree.array("rows"), tree.array("v")
        for row in tree.task_rows():
            for c in tree.columns():
                J[row, c] = 0.0
        jacobian(tree, q, J)

        # sums run over the outer loop: in the inner one, no term waits for the last
        for row in tree.task_rows():
            own[row] = 0.0
            for other in tree.task_rows():
                S[row, other] = 0.0
            for c in tree.columns():
                J_t[c, row] = J[row, c]
        if parts.relative:
            for c in tree.columns():
                x = of_columns[c][1] * full[c]
                for one in tree.task_rows():
                    own[one] = own[one] + J_t[c, one] * x
                    y = of_columns[c][1] * J_t[c, one]
                    for other in tree.task_rows(one):
                        S[one, other] = S[one, other] + y * J_t[c, other]
        else:
            for frame, _ in tree.frames("frame"):
                rows = list(frame.rows())
                for c in tree.support(frame):
                    x = of_columns[c][1] * full[c]
                    pushes = [of_columns[c][1] * J_t[c, row] for row in rows]
                    for row in rows:
                        own[row] = own[row] + J_t[c, row] * x
                    for other in tree.task_rows(rows[0]):
                        for row, y in zip(rows, pushes, strict=True):
                            S[row, other] = S[row, other] + y * J_t[c, other]
        for one in tree.task_rows():
            weight[one] = S[one, one]
        invert(task_rows(tree), S)
        add_spread(task_rows(tree), S, weight, spread)
        apply_inverse(task_rows(tree), S, own, borne)
        if based:
            _carry_base(tree, J, S, full, borne, weak, of_columns)

        _less(tree, J, full, borne, left)
        for row in tree.task_rows():
            force[row] = borne[row]
        for c in tree.columns():
            tau[c] = (1.0 - of_columns[c][0]) * left[c]

    return support_sharing


def _carry_base(
    tree: Tree, J: Indexed, S: Indexed, full: Indexed, borne: Indexed, weak: Indexed, of_columns: Indexed
) -> None:
    """The second half of (1); S holds −S⁻¹."""
    G, K, load = tree.array("rows", "v"), tree.array("v", "v"), tree.array("v")
    for one in tree.task_rows():
        for c in tree.columns():
            G[one, c] = 0.0
        for other in tree.task_rows():
            x = S[one, other]
            for c in tree.columns():
                G[one, c] = G[one, c] - x * J[other, c]
    _less(tree, J, full, borne, load)
    for k, _ in tree.scatter():
        columns = list(k.columns())
        chosen = np.array([of_columns[c][0] for c in columns])
        z, lacking = solved(_product(tree, columns, J, G, K), np.array([load[c] for c in columns]), chosen)
        weak[...] = weak[...] + lacking
        for row in tree.task_rows():
            borne[row] = borne[row] + sum(G[row, c] * part for c, part in zip(columns, z, strict=True))


def _less(tree: Tree, J: Indexed, full: Indexed, along: Indexed, left: Indexed) -> None:
    """F − Jᵀλ."""
    # sums run over the outer loop: in the inner one, no term waits for the last
    for c in tree.columns():
        left[c] = full[c]
    for row in tree.task_rows():
        h = along[row]
        for c in tree.columns():
            left[c] = left[c] - J[row, c] * h


def _product(tree: Tree, columns: list[Any], left: Indexed, right: Indexed, K: Indexed) -> Array:
    """Lower triangle of Σ_r l_r r_rᵀ, over some columns; K is memory for it."""
    for i, c in enumerate(columns):
        for o in columns[: i + 1]:
            K[c, o] = 0.0
    for row in tree.task_rows():
        for i, c in enumerate(columns):
            x = left[row, c]
            for o in columns[: i + 1]:
                K[c, o] = K[c, o] + x * right[row, o]
    count = range(len(columns))
    lower = [[K[columns[i], columns[j]] if j <= i else 0.0 for j in count] for i in count]
    return np.array(lower).reshape(len(columns), len(columns))


@cache
def support_sharing(parts: TaskKinds, based: bool) -> Algorithm:
    """τ and λ; `based` if supports carry a base without motors.

    q           configuration
    full        joint forces F, (nv,)
    of_columns  of each degree of freedom: 1 if it is the base's, else 0; W² if it has a motor, else 0
    """
    declare = algorithm(
        q=("q",), full=("v",), of_columns=("v", 2), tau=("v",), force=("rows",), weak=(), spread=(),
        outputs=("tau", "force", "weak", "spread"), sparse=("weak", "spread"),
    )  # fmt: skip
    return replace(declare(_support_sharing(parts, based)), name=f"support_sharing{parts.suffix}{'_based' * based}")
