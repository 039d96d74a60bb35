"""One Levenberg–Marquardt step of inverse kinematics, within joint limits. Cost O(n·r + n·r² + r³) for r rows.

    pass      loop              leaves
    look      scatter, frames   error e and Jacobian J of the rows at q
    step      columns, rows     Δ = Jᵀ (J Jᵀ + λ 1)⁻¹ e,  λ = c eᵀe  [S11]; joints that would exceed a limit stop there,
                                and the others make up for them
    move      scatter           q ⊕ Δ, within the limits
    look      scatter, frames   error there; the step is taken if it is smaller

The error of an orientation is 2 sin(θ/2) about the axis of the remaining rotation: unlike sin θ it grows up to half a
turn, and it needs no arctangent. The damping c shrinks with steps that help and grows with others. A sample within the
tolerance, or without progress for `PATIENCE` steps, stays as it is, so that any number of steps may follow.

[S11] T. Sugihara, "Solvability-unconcerned inverse kinematics by the Levenberg–Marquardt method", IEEE Transactions on
      Robotics 27, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.response import jacobian_rows
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.kernels.branchless import UNBOUNDED, between, less, magnitude, stand_in, where
from kinetree.kernels.damped_step import damped_step
from kinetree.kernels.language import columns, task_rows
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.roles import FrameRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.value import Array

#: Initial c of an attempt, its bounds, and its factors after steps that do and do not help.
DAMPING, LEAST, MOST, BETTER, WORSE = 1e-2, 1e-6, 1e3, 0.3, 5.0
#: Relative reduction of eᵀe that counts as progress, and the number of steps without it that ends an attempt.
PROGRESS, PATIENCE = 1e-3, 10.0
# Half a turn away, the axis is lost in rounding: 1 + cos θ is not smaller than this.
_HALF_TURN = 1e-12
_NEVER_ZERO = 1e-15


def _levenberg_marquardt(parts: TaskKinds) -> Callable[..., None]:
    jacobian = jacobian_rows("local_world_aligned", parts)

    def levenberg_marquardt(
        tree: Tree, q: Indexed, state: Indexed, target: Indexed, low: Indexed, high: Indexed, bounded: Indexed,
        tolerance: Indexed, q_end: Indexed, state_end: Indexed, cost: Indexed, largest: Indexed, after: Indexed,
    ) -> None:  # fmt: skip
        J, e, step = tree.array("rows", "v"), tree.array("rows"), tree.array("v")
        for row in tree.task_rows():
            for c in tree.columns():
                J[row, c] = 0.0
        jacobian(tree, q, J)
        _errors(tree, parts, target, e)
        for row in tree.task_rows():
            size = magnitude(e[row])
            cost[...] = cost[...] + size * size
            largest[...] = less(largest[...], size, size, largest[...])
        _step(tree, q, e, J, low, high, bounded, state[...][0] * cost[...] + _NEVER_ZERO, step)

        for k, _ in tree.scatter():
            moved = k.manifold.integrate(q[k], np.array([step[c] for c in k.columns()]))
            q_end[k] = np.array([between(*each) for each in zip(moved, low[k], high[k], strict=True)])
        task_space.place(tree, q_end)
        _errors(tree, parts, target, e)
        for row in tree.task_rows():
            after[...] = after[...] + e[row] * e[row]

        # 1 while the sample is open; 1 if the step is taken
        damping, idle = state[...]
        open_ = less(tolerance[...], largest[...], less(idle, PATIENCE, 1.0, 0.0), 0.0)
        taken = less(after[...], cost[...], open_, 0.0)
        for k, _ in tree.scatter():
            q_end[k] = np.array([where(taken, x, y) for x, y in zip(q_end[k], q[k], strict=True)])
        changed = between(damping * where(taken, BETTER, WORSE), LEAST, MOST)
        waited = less(after[...], (1.0 - PROGRESS) * cost[...], 0.0, idle + 1.0)
        state_end[...] = np.array([where(open_, changed, damping), where(open_, waited, idle)])

    return levenberg_marquardt


@cache
def levenberg_marquardt(parts: TaskKinds = PLAIN) -> Algorithm:
    """A step from q: where it leads, the state there, eᵀe at q, the largest component of e, eᵀe where the step leads.

    Inputs of the recursion:

        q           configuration
        state       the damping c, and the number of steps without progress
        target      target poses of the frames, as of `control_law`
        low, high   limits of coordinates, infinite where there are none
        bounded     whether each degree of freedom has a lower limit, and an upper one: 1 if so, else 0
        tolerance   largest component of an error that counts as none [rad or m]
    """
    results: dict[str, Any] = {"q_end": ("q",), "state_end": (2,), "cost": (), "largest": (), "after": ()}
    declare = algorithm(
        q=("q",), state=(2,), target=("frames", 4, 4), low=("q",), high=("q",), bounded=("v", 2), tolerance=(),
        **results, outputs=tuple(results), sparse=("q_end", "cost", "largest", "after"),
    )  # fmt: skip
    return replace(declare(_levenberg_marquardt(parts)), name=f"levenberg_marquardt{parts.suffix}")


def _errors(tree: Tree, parts: TaskKinds, target: Indexed, e: Indexed) -> None:
    """Write the errors of all rows; nodes have weights X and poses C."""

    def put(frame: FrameRole, error: Array) -> None:
        for row in frame.rows():
            e[row] = error[row.component]

    for frame, carrier in tree.frames("frame"):
        C, T = tree.pose(frame, carrier), target[frame]
        put(frame, np.concatenate([_turn(T[:3, :3] @ C.E), T[:3, 3] - C.r]))
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            C, T = tree.apart(near, near_carrier, far, far_carrier), target[far]
            put(far, np.concatenate([_turn(T[:3, :3] @ C.E), T[:3, 3] - C.r]))
    if parts.mass:
        place = task_space.center_of_mass(tree)
        for center, _ in tree.frames("mass"):
            put(center, np.concatenate([np.zeros(3), target[center][:3, 3] - place]))


def _turn(E: Array) -> Array:
    """2 sin(θ/2) times the axis, from the rotation between two orientations."""
    sines = np.array([0.5 * (E[2, 1] - E[1, 2]), 0.5 * (E[0, 2] - E[2, 0]), 0.5 * (E[1, 0] - E[0, 1])])
    square = 0.25 * (1.0 + E[0, 0] + E[1, 1] + E[2, 2])  # cos²(θ/2)
    turn: Array = sines / sqrt(less(square, _HALF_TURN, _HALF_TURN, square))
    return turn


def _step(
    tree: Tree, q: Indexed, e: Indexed, J: Indexed, low: Indexed, high: Indexed, bounded: Indexed, damping: Any,
    step: Indexed,
) -> None:  # fmt: skip
    """Δ, with joints that would exceed a limit stopped there, and the others making up for it."""
    down, up = tree.array("v"), tree.array("v")
    for k, _ in tree.scatter():
        # a coordinate without a limit stands in for it itself; the way there is not used
        rooms = [k.manifold.room(q[k], stand_in(limit[k], q[k])) for limit in (low, high)]
        for i, c in enumerate(k.columns()):
            down[c] = where(bounded[c][0], rooms[0][i], -UNBOUNDED)
            up[c] = where(bounded[c][1], rooms[1][i], UNBOUNDED)
    damped_step(task_rows(tree), columns(tree), e, J, down, up, damping, step)
