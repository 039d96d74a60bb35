"""A step of differential inverse kinematics without limits. Cost O(n·r² + r³) for r rows.

    min  Σ w ‖J Δ − α e‖² + w₀² ‖Δ − Δ₀‖² + λ ‖Δ‖²        Δ₀ = q_ref ⊖ q                       (1)

    pass      loop              leaves
    rows      frames, support   α e and J
    damping   rows              λ = λ₀ + μ Σ w (α e)²: small steps far from the targets (Levenberg-Marquardt)
    solve     rows              (J Jᵀ + d W⁻¹) y = α e − J Δ_p,   d = w₀² + λ,   Δ_p = (w₀²/d) Δ₀
    step      rows, columns     Δ = Δ_p + Jᵀ y
    limits    scatter           bounds of Δ: |Δ| ≤ v_max dt and γ (q_lo ⊖ q) ≤ Δ ≤ γ (q_hi ⊖ q); how many Δ exceeds

which is the normal equations of (1) with rows, not joints, as unknowns. With the error "log6", J is its rate: rows of a
frame are multiplied by the inverse of the left Jacobian of SE(3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.tasks.response import jacobian_rows
from kinetree.algorithms.tasks.task_motion import add_faults, motion, rows_of_motion
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.kernels.branchless import between, less, stand_in, where
from kinetree.kernels.language import task_rows
from kinetree.kernels.poses import ERRORS, screw, screw_rate
from kinetree.kernels.solve import apply_inverse, invert
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.roles import FrameRole
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.value import Array

# Rows of a pose.
_POSE = 6


def _differential_step(parts: TaskKinds, name: str) -> Callable[..., None]:
    jacobian = jacobian_rows("local_world_aligned", parts)
    error_of = _screw_and_rate if name == "log6" else ERRORS[name]

    def differential_step(
        tree: Tree, q: Indexed, posture: Indexed, target: Indexed, rates: Indexed, shares: Indexed, limits: Indexed,
        fastest: Indexed, bounded: Indexed, step: Indexed, error: Indexed, J: Indexed, pull: Indexed, damping: Indexed,
        low: Indexed, high: Indexed, beyond: Indexed, fault: Indexed,
    ) -> None:  # fmt: skip
        A, rest, y = tree.array("rows", "rows"), tree.array("rows"), tree.array("rows")
        jacobian(tree, q, J)
        motion(tree, Zeros(), Zeros())
        least, rising, pulling, approach, dt = shares[...]

        def put(frame: FrameRole, off: Any, *_: Any) -> None:
            for row in frame.rows():
                error[row] = rates[row][0] * off[row.component]
            if len(off) > _POSE:
                rows, rate = list(frame.rows()), off[_POSE:].reshape(_POSE, _POSE)
                for c in tree.columns():
                    column = rate @ np.array([J[row, c] for row in rows])
                    for row, entry in zip(rows, column, strict=True):
                        J[row, c] = entry

        rows_of_motion(tree, parts, target, put, error_of)
        add_faults(tree, target, fault)

        for row in tree.task_rows():
            rest[row] = error[row]
            damping[...] = damping[...] + rising * (rates[row][1] * (error[row] * error[row]))
        d = least + damping[...]
        share = pulling / d

        for k, _ in tree.scatter():
            pull[k] = k.manifold.difference(q[k], posture[k])
        for one in tree.task_rows():
            for other in tree.task_rows(one):
                A[one, other] = 0.0
            A[one, one] = d * rates[one][2]
        for c in tree.columns():
            step[c] = share * pull[c]
            for one in tree.task_rows():
                entry = J[one, c]
                rest[one] = rest[one] - entry * step[c]
                for other in tree.task_rows(one):
                    A[one, other] = A[one, other] + entry * J[other, c]
        invert(task_rows(tree), A)
        apply_inverse(task_rows(tree), A, rest, y)
        for row in tree.task_rows():
            entry = y[row]
            for c in tree.columns():
                step[c] = step[c] + J[row, c] * entry

        for k, _ in tree.scatter():
            ends = limits[k]
            rooms = [k.manifold.difference(q[k], stand_in(ends[:, i], q[k])) for i in range(2)]
            for i, c in enumerate(k.columns()):
                most = fastest[c] * dt
                # beyond a limit, at most as fast as the joint may move
                down = between(where(bounded[c][0], approach * rooms[0][i], -most), -most, most)
                up = between(where(bounded[c][1], approach * rooms[1][i], most), -most, most)
                low[c], high[c] = down, up
        for c in tree.columns():
            under = less(step[c], low[c], 1.0, 0.0)
            beyond[...] = beyond[...] + less(-step[c], -high[c], 1.0, under)

    return differential_step


def _screw_and_rate(E: Array, way: Array) -> Array:
    """The error "log6", and its rate, row by row."""
    error = screw(E, way)
    return np.concatenate([error, screw_rate(E, error).reshape(-1)])


@cache
def differential_step(parts: TaskKinds, error: str = "rotation_vector") -> Algorithm:
    """Δ, α e, J, Δ₀, λ − λ₀, bounds of Δ, how many it exceeds, `fault` as of `control_step`; rows in world axes.

    The error between poses is one of `ERRORS`; frames have all six rows with "log6". Inputs of the recursion:

        q           configuration
        posture     q_ref, a configuration
        target      target poses of the frames, as of `control_law`
        rates       α, w and 1/w of each row
        shares      w₀² + λ₀, μ, w₀², γ and dt
        limits      lower and upper limits of each coordinate, infinite where there are none, (nq, 2)
        fastest     v_max of each degree of freedom
        bounded     for each degree of freedom, 1 if its position has a lower limit, else 0; the same for the upper one
    """
    results: dict[str, Any] = {
        "step": ("v",), "error": ("rows",), "J": ("rows", "v"), "pull": ("v",), "damping": (), "low": ("v",),
        "high": ("v",), "beyond": (), "fault": (),
    }  # fmt: skip
    declare = algorithm(
        q=("q",), posture=("q",), target=("frames", 4, 4), rates=("rows", 3), shares=(5,), limits=("q", 2),
        fastest=("v",), bounded=("v", 2), **results, outputs=tuple(results), sparse=tuple(results),
    )  # fmt: skip
    return replace(declare(_differential_step(parts, error)), name=f"differential_step_{error}{parts.suffix}")
