"""Levenberg–Marquardt steps from poses and Jacobians, for robots with closed loops.

The compiled step (`kinetree.algorithms.levenberg_marquardt`) clips coordinates at their limits. On a loop, some of them
follow from others; here the same step is made from poses and Jacobians, and only independent joints are clipped.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms.levenberg_marquardt import BETTER, CLAMPINGS, LEAST, MOST, PATIENCE, PROGRESS, WORSE
from kinetree.control.poses import pose_error
from kinetree.model.model import Model
from kinetree.operational_space.products import product, times
from kinetree.operational_space.singular import solved
from kinetree.operational_space.tasks import Task, chosen_rows
from kinetree.spatial.value import Array

_NEVER_ZERO = 1e-15


class DenseSteps:
    """Several steps; called like the compiled ones.

    Args:
        robot: The robot.
        tasks: Frames and rows.
        count: Number of steps.
    """

    def __init__(self, robot: Model, tasks: tuple[Task, ...], count: int) -> None:
        self._robot, self._count = robot, count
        self._frames = [task.frame for task in tasks]
        self._rows = [6 * i + row for i, task in enumerate(tasks) for row in chosen_rows(task, task.rows)]
        single = [joint for joint in robot.joints if joint.nq == joint.nv == 1]
        self._q = np.array([joint.q_start for joint in single], dtype=int)
        self._v = np.array([joint.v_start for joint in single], dtype=int)

    def __call__(
        self, q: Array, state: Array, target: Array, low: Array, high: Array, bounded: Array, tolerance: float
    ) -> tuple[Array, Array, Array]:
        """Final q, state, and largest errors, (n,); arguments as of the recursion, with one batch axis."""
        del bounded  # infinite limits bound nothing
        low, high = low[self._q], high[self._q]
        q, (damping, idle) = q.copy(), state.T.copy()
        e = self._errors(q, target)
        cost = _squares(e)
        for _ in range(self._count):
            open_ = np.flatnonzero((np.abs(e).max(axis=1) > tolerance) & (idle < PATIENCE))
            if not len(open_):
                break
            step = self._step(q[open_], e[open_], damping[open_] * cost[open_], low, high)
            after = self._robot.integrate(q[open_], step)
            after[:, self._q] = np.clip(after[:, self._q], low, high)
            e_after = self._errors(after, target[open_])
            cost_after = _squares(e_after)
            helps = cost_after < cost[open_]
            slow = ~(cost_after < (1.0 - PROGRESS) * cost[open_])
            idle[open_] = np.where(slow, idle[open_] + 1.0, 0.0)
            damping[open_] = np.clip(damping[open_] * np.where(helps, BETTER, WORSE), LEAST, MOST)
            moved = open_[helps]
            q[moved], e[moved], cost[moved] = after[helps], e_after[helps], cost_after[helps]
        return q, np.stack([damping, idle], axis=1), np.abs(e).max(axis=1)

    def _errors(self, q: Array, target: Array) -> Array:
        e = pose_error(self._robot.pose(q, self._frames), target)
        return e.reshape(len(q), -1)[:, self._rows]

    def _step(self, q: Array, e: Array, damping: Array, low: Array, high: Array) -> Array:
        J = self._robot.jacobian(q, self._frames, "local_world_aligned")
        J = J.reshape(len(q), -1, J.shape[-1])[:, self._rows]
        slope = times(np.swapaxes(J, -1, -2), e)[:, self._v]
        at = q[:, self._q]
        stuck = ((at <= low) & (slope < 0.0)) | ((at >= high) & (slope > 0.0))
        free, fixed = np.ones((len(q), J.shape[-1])), np.zeros((len(q), J.shape[-1]))
        free[:, self._v] = np.where(stuck, 0.0, 1.0)
        for _ in range(CLAMPINGS):
            own = J * free[:, None, :]
            back = np.swapaxes(own, -1, -2)
            A = product(own, back)
            A = A + (damping + _NEVER_ZERO)[:, None, None] * np.eye(A.shape[-1])
            x, _ = solved(A, e - times(J, fixed), np.diagonal(A, axis1=-2, axis2=-1))
            step = fixed + times(back, x)
            would = at + step[:, self._v]
            beyond = (free[:, self._v] > 0.0) & ((would < low) | (would > high))
            fixed[:, self._v] = np.where(beyond, np.clip(would, low, high) - at, fixed[:, self._v])
            free[:, self._v] = np.where(beyond, 0.0, free[:, self._v])
        return step


def _squares(e: Array) -> Array:
    total: Array = np.add.reduce(np.ascontiguousarray(e * e), axis=-1)
    return total
