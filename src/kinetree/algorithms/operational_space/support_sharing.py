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

import numpy as np

from kinetree.algorithms.kinematics import VIEWS
from kinetree.algorithms.operational_space.by_weights.grasp_sharing import clear, less, product
from kinetree.algorithms.operational_space.by_weights.jacobian import jacobian_rows as jacobian_by_weights
from kinetree.algorithms.operational_space.grasp_sharing import AXES, solved
from kinetree.algorithms.operational_space.response import jacobian_rows
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.kernels.language import task_rows
from kinetree.kernels.solve import add_spread, apply_inverse, invert
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.tree import Indexed, Tree


def _support_sharing(parts: Parts, based: bool, by_weights: bool) -> Callable[..., None]:
    jacobian = jacobian_by_weights(AXES, parts) if by_weights else jacobian_rows(VIEWS[AXES], parts)

    def support_sharing(
        tree: Tree,
        q: Indexed,
        full: Indexed,
        of_columns: Indexed,
        tau: Indexed,
        force: Indexed,
        weak: Indexed,
        spread: Indexed,
    ) -> None:
        J, J_t, S = tree.array("rows", "v"), tree.array("v", "rows"), tree.array("rows", "rows")
        weight, own, borne, left = tree.array("rows"), tree.array("rows"), tree.array("rows"), tree.array("v")
        clear(tree, J)
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

        less(tree, J, full, borne, left)
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
    less(tree, J, full, borne, load)
    for k, _ in tree.scatter():
        columns = list(k.columns())
        chosen = np.array([of_columns[c][0] for c in columns])
        z, lacking = solved(product(tree, columns, J, G, K), np.array([load[c] for c in columns]), chosen)
        weak[...] = weak[...] + lacking
        for row in tree.task_rows():
            borne[row] = borne[row] + sum(G[row, c] * part for c, part in zip(columns, z, strict=True))


@cache
def support_sharing(parts: Parts, based: bool, *, by_weights: bool = False) -> Algorithm:
    """τ and λ.

    Args:
        parts: The kinds of constraints present.
        based: Whether supports carry a base without motors.
        by_weights: Whether it takes nodes of any kind.

    Inputs of the recursion:

        q           configuration
        full        joint forces F, (nv,)
        of_columns  of each degree of freedom: 1 if it is the base's, else 0; W² if it has a motor, else 0
    """
    declare = algorithm(
        q=("q",),
        full=("v",),
        of_columns=("v", 2),
        tau=("v",),
        force=("rows",),
        weak=(),
        spread=(),
        outputs=("tau", "force", "weak", "spread"),
        sparse=("weak", "spread"),
        any_node=by_weights,
    )
    made = declare(_support_sharing(parts, based, by_weights))
    return replace(made, name=f"support_sharing{parts.suffix}{'_based' * based}{'_by_weights' * by_weights}")
