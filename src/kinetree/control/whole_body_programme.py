"""The quadratic programme of whole-body control, in variables in which its objective is ½‖x‖² + gᵀx.

Setting up a programme costs a dual active-set method most of its time: it factorises the Hessian, and multiplies all
rows by the inverse factor. Here both are known. With the rows V of all goals, weighted relative to the posture, the
Hessian of the accelerations is w₀ (1 + VᵀV), and

    L Lᵀ = 1 + V Vᵀ        R = 1 − Vᵀ ((1 + L) Lᵀ)⁻¹ V        Rᵀ (1 + VᵀV) R = 1                  (1)

so that a = R y/√w₀ needs only the Cholesky factor of a matrix as large as the goals have rows. Forces have a diagonal
Hessian: f = φ/√w_f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.actuation import joint_names
from kinetree.control.foot import Foot
from kinetree.control.limits import contiguous
from kinetree.control.quadratic import INFINITE, Programme
from kinetree.model.model import Model
from kinetree.spatial.value import Array


class Found(NamedTuple):
    """Solution for one sample.

    Attributes:
        a: Joint accelerations, (nv,); None if there is no solution.
        f: Forces at the contact points, (3 points,); None if there is no solution.
        tau: Joint torques, zero where there is no motor, (nv,).
        slack: By how much rows give way.
        broken: The names of these rows.
    """

    a: Any
    f: Any
    tau: Array
    slack: float
    broken: tuple[str, ...]


class Frame:
    """What of the programme does not change, and where the rest goes.

    Variables are φ of the contact points, then y. Rows are joint limits, friction cones, torques, joints without a
    motor, contacts.

    Args:
        robot: The robot.
        driven: Which degrees of freedom have a motor, (nv,).
        contacts: The feet.
        limited: Degrees of freedom with limits, (l,).
        roots: Square roots of the weights of the goals' rows, (r,).
        posture_weight: w₀.
        force_weight: w_f.
        torque: Whether torques are limited.
    """

    def __init__(
        self,
        robot: Model,
        driven: Array,
        contacts: Sequence[Foot],
        limited: Array,
        roots: Array,
        posture_weight: float,
        force_weight: float,
        torque: bool,
    ) -> None:
        nv, joints = robot.nv, joint_names(robot)
        self._nv, self._weights = nv, roots / math.sqrt(posture_weight)
        self._a_scale, self._f_scale = 1.0 / math.sqrt(posture_weight), 1.0 / math.sqrt(force_weight)
        self._feet = [(foot.points, 6 if len(foot.points) > 1 else 3) for foot in contacts]
        self._arms = [_arms(points, rows) for points, rows in self._feet]
        # feet of one kind go together
        self._alike = np.stack(self._arms) if len({arms.shape for arms in self._arms}) == 1 else None
        self.sizes = [3 * len(points) for points, _ in self._feet]
        self.points = sum(len(points) for points, _ in self._feet)
        self._held = sum(rows for _, rows in self._feet)
        pushes = 3 * self.points
        self._motors, self._free = contiguous(np.flatnonzero(driven)), contiguous(np.flatnonzero(~driven))
        self._effort = robot.effort_limits[self._motors]
        motors = np.flatnonzero(driven) if torque else np.zeros(0, dtype=int)
        undriven = np.flatnonzero(~driven)
        counts = len(limited), 4 * self.points, len(motors), len(undriven), self._held
        self._at = [slice(a, b) for a, b in pairwise([0, *np.cumsum(counts).tolist()])]
        cones = self._at[1]
        self._rows = np.zeros((sum(counts), pushes + nv))
        self._rows[cones, :pushes] = _cones(contacts)
        # the accelerations' part of all rows but the cones, in the original variables
        self._plain = np.zeros((len(self._rows) - 4 * self.points, nv))
        self._plain[np.arange(len(limited)), limited] = 1.0
        names = [
            f"pull of {foot.frame!r}" for foot, size in zip(contacts, self.sizes, strict=True) for _ in range(size)
        ]
        names += [f"acceleration of {joints[i]!r} at its limit" for i in limited]
        names += [f"friction of {foot.frame!r}" for foot in contacts for _ in range(4 * len(foot.points))]
        names += [f"torque of {joints[i]!r}" for i in motors]
        names += [f"free motion of {joints[i]!r}" for i in undriven]
        for foot, (_, rows) in zip(contacts, self._feet, strict=True):
            names += [f"contact of {foot.frame!r}"] * rows
        equal = np.zeros(len(names), dtype=bool)
        equal[pushes + self._at[3].start :] = True
        hard = equal.copy()
        hard[:pushes] = True
        self._programme = Programme(names, hard, equal)
        self._low, self._high = np.full(len(names), -INFINITE), np.full(len(names), INFINITE)
        self._low[2:pushes:3] = 0.0
        self._high[pushes:][cones] = 0.0
        self._one, self._g = np.eye(len(roots)), np.zeros(pushes + nv)

    def solve(
        self, J: Array, residual: Array, M: Array, h: Array, poses: Array, a0: Array, least: Array, most: Array
    ) -> Found:
        """The solution for one sample.

        Args:
            J: Jacobian of contacts and goals, (c + r, nv).
            residual: b − J̇v of contacts and goals, (c + r,).
            M: Mass matrix, (nv, nv).
            h: Bias forces, (nv,).
            poses: Of the soles, (feet, 4, 4).
            a0: Accelerations of the posture, (nv,).
            least: Lower bounds of the accelerations of joints with limits, (l,).
            most: Upper bounds, (l,).
        """
        held, pushes, motors, free = self._held, 3 * self.points, self._motors, self._free
        V = J[held:] * self._weights[:, None]
        L = np.linalg.cholesky(self._one + V @ V.T)
        U = V.T @ np.linalg.inv((self._one + L) @ L.T)  # R = 1 − U V, by (1)
        push = self._point_rows(J[:held], poses)  # J_pᵀ, (nv, 3 points)
        limits, _, torque, loose, fixed = self._at
        rows, plain, low, high = self._rows.copy(), self._plain.copy(), self._low.copy(), self._high.copy()
        below, above = low[pushes:], high[pushes:]
        below[limits], above[limits] = least, most
        start = limits.stop - torque.start  # rows of cones are not among the plain ones
        if torque.stop > torque.start:
            plain[torque.start + start : torque.stop + start] = M[motors]
            rows[torque, :pushes] = -self._f_scale * push[motors]
            below[torque], above[torque] = -self._effort - h[motors], self._effort - h[motors]
        plain[loose.start + start : loose.stop + start] = M[free]
        rows[loose, :pushes] = -self._f_scale * push[free]
        below[loose] = above[loose] = -h[free]
        plain[fixed.start + start :] = J[:held]
        below[fixed] = above[fixed] = residual[:held]
        turned = self._a_scale * (plain - (plain @ U) @ V)
        rows[limits, pushes:], rows[torque.start :, pushes:] = turned[: limits.stop], turned[limits.stop :]
        pull = -(V.T @ (self._weights * residual[held:])) - a0
        g = self._g.copy()
        g[pushes:] = (pull - V.T @ (U.T @ pull)) / self._a_scale
        x, slack, broken = self._programme.solve(g, rows, low, high)
        tau = np.zeros(self._nv)
        if x is None:
            return Found(None, None, tau, slack, broken)
        y = x[pushes:]
        a, f = self._a_scale * (y - U @ (V @ y)), self._f_scale * x[:pushes]
        tau[motors] = (M[motors] @ a + h[motors]) - push[motors] @ f
        return Found(a, f, tau, slack, broken)

    def _point_rows(self, J: Array, poses: Array) -> Array:
        """J_pᵀ: joint forces of unit forces at the contact points, along the axes of the soles, (nv, 3 points)."""
        if self._alike is not None:
            wrenches = np.matmul(poses[:, None, :3, :3], self._alike).reshape(len(poses), -1, self._alike.shape[-1])
            each = np.matmul(J.reshape(len(poses), -1, self._nv).transpose(0, 2, 1), wrenches)
            found: Array = each.transpose(1, 0, 2).reshape(self._nv, -1)
            return found
        wrenches = np.zeros((self._held, 3 * self.points))  # of unit forces, about the soles' origins, in world axes
        row = column = 0
        for (_, count), size, arms, pose in zip(self._feet, self.sizes, self._arms, poses, strict=True):
            wrenches[row : row + count, column : column + size] = (pose[:3, :3] @ arms).reshape(count, size)
            row, column = row + count, column + size
        pushes: Array = J.T @ wrenches
        return pushes


def _cones(contacts: Sequence[Foot]) -> Array:
    """Rows of (4) in `whole_body`, (4 points, 3 points)."""
    points = [foot.friction for foot in contacts for _ in foot.points]
    rows = np.zeros((4 * len(points), 3 * len(points)))
    for k, friction in enumerate(points):
        for j, (axis, sign) in enumerate(((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0))):
            rows[4 * k + j, 3 * k + axis], rows[4 * k + j, 3 * k + 2] = sign, -friction / np.sqrt(2.0)
    return rows


def _arms(points: Array, rows: int) -> Array:
    """Moments (unless it is a point) and forces of forces at points of a sole, in its axes, (1 or 2, 3, 3 points)."""
    x, y, z = points.T
    zero = np.zeros_like(x)
    turns = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])  # p × F
    turns = np.moveaxis(turns, 2, 1).reshape(3, -1)
    return np.concatenate([turns, np.tile(np.eye(3), len(points))])[-rows:].reshape(rows // 3, 3, -1)
