"""Motor torques and constraint forces that together produce given joint forces. Cost O(n·c + n·c² + c³) for c rows.

Joint forces F = τ + Jᵀλ fix λ only as far as joints have no motor. *Grasps* share the load of the object they hold by
weights Q around internal forces h₀; *supports* share the rest so that motor torques, relative to their limits, are
least:

    λ_g = h₀ + Q B y       (BᵀQB) y = F_o − Bᵀh₀            B = J_g, columns of objects                  (1)
    λ_s = S⁻¹ (J_s W² τ_1 + B z)                            S = J_s W² J_sᵀ,  τ_1 = F − J_gᵀλ_g           (2)
          (BᵀS⁻¹B) z = τ_b − BᵀS⁻¹ J_s W² τ_1               B = J_s, columns of the base

    pass       loop                leaves
    rows       support             J
    press      relatives, rows     h₀: at each grasp, a force towards the centroid of the object's grasps
    objects    scatter, rows       y, one node at a time: an object is a single free body
    motors     rows, columns       S and its inverse
    base       scatter, rows       z; the base is a single free body, too

`weak` is the sum of K_ii (K⁻¹)_ii over the matrices K of (1) and (2), and `spread` is that of S: see `inversion`. Where
either is large, directions are missing, and the caller chooses another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics import VIEWS
from kinetree.algorithms.operational_space import inversion
from kinetree.algorithms.operational_space.by_weights.jacobian import jacobian_rows as jacobian_by_weights
from kinetree.algorithms.operational_space.response import jacobian_rows
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole, RowRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.symmetric import Factor

_NEVER_ZERO = 2.0**-500


def _load_sharing(parts: Parts, based: bool, between: bool, by_weights: bool) -> Callable[..., None]:
    reference = "local_world_aligned"
    jacobian = jacobian_by_weights(reference, parts) if by_weights else jacobian_rows(VIEWS[reference], parts)

    def load_sharing(
        tree: Tree,
        q: Indexed,
        full: Indexed,
        mean: Indexed,
        of_rows: Indexed,
        of_columns: Indexed,
        tau: Indexed,
        force: Indexed,
        spread: Indexed,
        weak: Indexed,
    ) -> None:
        J, J_t, S = tree.array("rows", "v"), tree.array("v", "rows"), tree.array("rows", "rows")
        given, weight, own, borne = (tree.array("rows") for _ in range(4))
        K, load, rest = tree.array("v", "v"), tree.array("v"), tree.array("v")
        for row in tree.task_rows():
            given[row] = 0.0
            for c in tree.columns():
                J[row, c] = 0.0
        jacobian(tree, q, J)
        if parts.relative:
            _press(tree, mean, of_rows, given)

        # sums run over the outer loop: in the inner one, no term waits for the last
        for c in tree.columns():
            load[c] = of_columns[c][0] * full[c]
            rest[c] = full[c]
        for row in tree.task_rows():
            h = given[row]
            own[row] = 0.0
            for c in tree.columns():
                load[c] = load[c] - of_columns[c][0] * (J[row, c] * h)
                J_t[c, row] = J[row, c]
        _by_node(tree, J, J, K, load, weak, rows=(of_rows, 0), columns=(of_columns, 0))
        for c in tree.columns():
            y = load[c]
            for row in tree.task_rows():
                own[row] = own[row] + J_t[c, row] * y
        for row in tree.task_rows():
            held = given[row] + of_rows[row][0] * own[row]  # (1)
            given[row] = held
            own[row] = 0.0
            for c in tree.columns():
                rest[c] = rest[c] - J[row, c] * held
            # rows of grasps are not in the system of supports
            for other in tree.task_rows():
                S[row, other] = 0.0
            S[row, row] = 1.0 - of_rows[row][1]

        for c in tree.columns():
            for row in tree.task_rows():
                J_t[c, row] = of_rows[row][1] * J_t[c, row]
        if between:
            for c in tree.columns():
                x = of_columns[c][2] * rest[c]
                for one in tree.task_rows():
                    own[one] = own[one] + J_t[c, one] * x
                    y = of_columns[c][2] * J_t[c, one]
                    for other in tree.task_rows(one):
                        S[one, other] = S[one, other] + y * J_t[c, other]
        else:
            for frame, _ in tree.frames("frame"):
                rows = list(frame.rows())
                for c in tree.support(frame):
                    x = of_columns[c][2] * rest[c]
                    pushes = [of_columns[c][2] * J_t[c, row] for row in rows]
                    for row in rows:
                        own[row] = own[row] + J_t[c, row] * x
                    for other in tree.task_rows(rows[0]):
                        for row, y in zip(rows, pushes, strict=True):
                            S[row, other] = S[row, other] + y * J_t[c, other]
        for one in tree.task_rows():
            weight[one] = S[one, one]
        inversion.sweep(tree, S)
        inversion.distrust(tree, S, weight, spread)
        inversion.solve(tree, S, own, borne)
        if based:
            _carry_base(tree, J, S, K, load, rest, borne, weak, of_rows, of_columns)

        for row in tree.task_rows():
            held = of_rows[row][1] * borne[row]
            force[row] = given[row] + held
            for c in tree.columns():
                rest[c] = rest[c] - J[row, c] * held
        for c in tree.columns():
            tau[c] = (1.0 - of_columns[c][0] - of_columns[c][1]) * rest[c]

    return load_sharing


def _press(tree: Tree, mean: Indexed, of_rows: Indexed, given: Indexed) -> None:
    """Forces with which grasps press towards their centroid, in the axes of their rows."""
    point, center = tree.array("rows"), tree.array("rows")
    for row in tree.task_rows():
        point[row] = 0.0
        center[row] = 0.0
    for near, near_carrier, far, far_carrier in tree.relatives():
        here, there = near.X @ near_carrier.C, far.X @ far_carrier.C
        at, way = there.r + far_carrier.origin, (here.r + near_carrier.origin) - (there.r + far_carrier.origin)
        for row, axis in _linear(far):
            point[row] = at[axis] + of_rows[row][3] * way[axis]
    for one in tree.task_rows():
        for other in tree.task_rows():
            center[one] = center[one] + mean[one, other] * point[other]
    for near, near_carrier, far, _ in tree.relatives():
        found: list[Any] = [0.0, 0.0, 0.0]
        for row, axis in _linear(far):
            found[axis] = center[row] - point[row]
        inwards = np.array(found)
        length = sqrt(inwards @ inwards) + _NEVER_ZERO
        seen = (near.X @ near_carrier.C).E @ (inwards / length)
        for row, axis in _linear(far):
            given[row] = of_rows[row][2] * seen[axis]


def _linear(frame: FrameRole) -> list[tuple[RowRole, int]]:
    """Rows of a frame that translate it, and their axes."""
    return [(row, row.component - 3) for row in frame.rows() if row.component is not None and row.component >= 3]


def _by_node(
    tree: Tree,
    left: Indexed,
    right: Indexed,
    K: Indexed,
    load: Indexed,
    weak: Indexed,
    rows: tuple[Indexed, int],
    columns: tuple[Indexed, int],
) -> None:
    """Solve (Σ_r w_r l_r r_rᵀ) y = load over the chosen columns of each node; y replaces the load."""
    for k, _ in tree.scatter():
        own = list(k.columns())
        for i, c in enumerate(own):
            for o in own[: i + 1]:
                K[c, o] = 0.0
        for row in tree.task_rows():
            w = rows[0][row][rows[1]]
            for i, c in enumerate(own):
                x = w * left[row, c]
                for o in own[: i + 1]:
                    K[c, o] = K[c, o] + x * right[row, o]
        chosen = [columns[0][c][columns[1]] for c in own]
        entries: list[list[Any]] = [[0.0] * len(own) for _ in own]
        for i, c in enumerate(own):
            for j, o in enumerate(own[: i + 1]):
                entries[i][j] = entries[j][i] = (chosen[i] * chosen[j]) * K[c, o]
            entries[i][i] = entries[i][i] + (1.0 - chosen[i])
        D = Factor.of(np.array(entries).reshape(len(own), len(own)))
        inverse = D.inverse()
        weak[...] = weak[...] + sum(chosen[i] * (entries[i][i] * inverse[i, i]) for i in range(len(own)))
        y = D.solve(np.array([load[c] for c in own]))
        for i, c in enumerate(own):
            load[c] = chosen[i] * y[i]


def _carry_base(
    tree: Tree,
    J: Indexed,
    S: Indexed,
    K: Indexed,
    load: Indexed,
    rest: Indexed,
    borne: Indexed,
    weak: Indexed,
    of_rows: Indexed,
    of_columns: Indexed,
) -> None:
    """The second half of (2); S holds −S⁻¹."""
    G = tree.array("rows", "v")
    for one in tree.task_rows():
        for c in tree.columns():
            G[one, c] = 0.0
        for other in tree.task_rows():
            x = of_rows[other][1] * S[one, other]
            for c in tree.columns():
                G[one, c] = G[one, c] - x * J[other, c]
    for c in tree.columns():
        load[c] = of_columns[c][1] * rest[c]
    for row in tree.task_rows():
        x = of_rows[row][1] * borne[row]
        for c in tree.columns():
            load[c] = load[c] - of_columns[c][1] * (J[row, c] * x)
    _by_node(tree, J, G, K, load, weak, rows=(of_rows, 1), columns=(of_columns, 1))
    for c in tree.columns():
        z = load[c]
        for row in tree.task_rows():
            borne[row] = borne[row] + G[row, c] * z


@cache
def load_sharing(parts: Parts, based: bool, between: bool, *, by_weights: bool = False) -> Algorithm:
    """τ and λ.

    Args:
        parts: The kinds of constraints present.
        based: Whether supports carry a base without motors.
        between: Whether a support holds two frames of the robot together; otherwise all support it on the world.
        by_weights: Whether it takes nodes of any kind.

    Inputs of the recursion:

        q           configuration
        full        joint forces F, (nv,)
        mean        for rows of a force that presses on an object, the mean over its grasps, (c, c)
        of_rows     of each row: its weight Q if it is a grasp's, else 0; 1 if it is a support's, else 0; the force
                    that presses [N], negative if the row's force acts on the hand; 1 if the hand is the near frame
        of_columns  of each degree of freedom: 1 if it is an object's, 1 if it is the base's, W² if it has a motor
    """
    declare = algorithm(
        q=("q",),
        full=("v",),
        mean=("rows", "rows"),
        of_rows=("rows", 4),
        of_columns=("v", 3),
        tau=("v",),
        force=("rows",),
        spread=(),
        weak=(),
        outputs=("tau", "force", "spread", "weak"),
        sparse=("spread", "weak"),
        any_node=by_weights,
    )
    made = declare(_load_sharing(parts, based, between, by_weights))
    kind = f"{'_based' * based}{'_between' * between}{'_by_weights' * by_weights}"
    return replace(made, name=f"load_sharing{parts.suffix}{kind}")
