"""Inverse kinematics by Levenberg–Marquardt with restarts, for many targets at once.

With e the errors of all targets (`pose_error`) and J their Jacobian, a step is

    Δ = Jᵀ (J Jᵀ + λ 1)⁻¹ e         λ = c eᵀe         [S11]                                      (1)

c shrinks when a step reduces the error and grows when it does not. Joints that would exceed a limit stop there; the
others make up for them. A target that is not reached is retried from the next of a fixed sequence of configurations,
so a target's result does not depend on the others: it has the same bits alone and in a batch.

[S11] T. Sugihara, "Solvability-unconcerned inverse kinematics by the Levenberg–Marquardt method", IEEE Transactions on
      Robotics 27, 2011.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.poses import checked_poses, pose_error
from kinetree.engines import arguments
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError
from kinetree.model.model import Model
from kinetree.operational_space.products import product, times
from kinetree.operational_space.singular import solved
from kinetree.spatial.value import Array

#: Initial c of an attempt, its bounds, and its factors after steps that do and do not reduce the error.
_DAMPING, _LEAST, _MOST, _BETTER, _WORSE = 1e-2, 1e-6, 1e3, 0.3, 5.0
#: Relative error reduction that counts as progress, and the number of steps without progress that ends an attempt.
_PROGRESS, _PATIENCE = 1e-3, 10
#: How often a step is recomputed, each time with the joints that exceeded their limits clamped.
_CLAMPINGS = 3


class InverseKinematics(NamedTuple):
    """Report of the search.

    Attributes:
        error: Largest component of the errors, (…) [rad or m].
        success: Whether it is within the tolerance, (…), booleans.
        attempts: Number of starting configurations tried, (…), integers.
    """

    error: Array
    success: Array
    attempts: Array


def inverse_kinematics(
    robot: Model,
    targets: Mapping[str, Any],
    *,
    start: Any = None,
    tries: int = 20,
    iterations: int = 100,
    tolerance: float = 1e-6,
    limits: bool = True,
    seed: int = 0,
) -> tuple[Array, InverseKinematics]:
    """Configurations at which frames have given poses, and a report of the search.

    Unreachable targets are not an error: `success` is False there, and q is the best configuration found.

    Args:
        robot: The robot.
        targets: Poses (…, 4, 4) or positions (…, 3) in the world, by frame name.
        start: Starting configuration of the first attempt, (nq,); the middle of the joint limits by default.
        tries: Maximum number of attempts; those after the first start from random configurations.
        iterations: Maximum number of steps per attempt.
        tolerance: Largest component of the errors at which a target counts as reached [rad or m].
        limits: Whether joint limits are respected.
        seed: Seed of the random starting configurations.

    Returns:
        Configurations, (…, nq), and the report.

    Raises:
        UnknownNameError: No such frame.
        InputError: A target that is not a pose, or has the wrong shape.
    """
    problem = _Problem(robot, targets, limits)
    if tries < 1 or iterations < 1 or not tolerance > 0.0:
        raise InputError(f"tries={tries!r}, iterations={iterations!r} and tolerance={tolerance!r} must be positive")
    starts = robot.random_configuration(np.random.default_rng(seed), (tries,))
    starts[0] = problem.middle() if start is None else _start(robot, start)
    count = problem.count
    best = np.repeat(starts[:1], count, axis=0)
    error, attempts = np.full(count, np.inf), np.zeros(count, dtype=int)
    left = np.arange(count)
    with standard_arithmetic():
        for first in starts:
            attempts[left] += 1
            q, found = problem.search(np.repeat(first[None], len(left), axis=0), left, iterations, tolerance)
            better = ~(found >= error[left])  # NaN replaces only infinity
            best[left[better]], error[left[better]] = q[better], found[better]
            left = left[~(error[left] <= tolerance) & ~np.isnan(error[left])]
            if not len(left):
                break
    batch = problem.batch
    report = InverseKinematics(error.reshape(batch), (error <= tolerance).reshape(batch), attempts.reshape(batch))
    return best.reshape(*batch, robot.nq), report


class _Problem:
    """Targets of some frames, flattened to one batch axis."""

    def __init__(self, robot: Model, targets: Mapping[str, Any], limits: bool) -> None:
        if not isinstance(targets, Mapping) or not targets:
            raise InputError("targets maps names of frames to poses or positions, such as {'hand': pose}")
        self.robot, self.frames = robot, list(targets)
        for name in self.frames:
            robot.site(name)
        given = {name: _pose(name, value) for name, value in targets.items()}
        batches = [pose.shape[:-2] for pose, _ in given.values()]
        self.batch = arguments.common_batch("inverse_kinematics", tuple(self.frames), tuple(batches))
        self.count = int(np.prod(self.batch))
        poses = [np.broadcast_to(pose, (*self.batch, 4, 4)).reshape(-1, 4, 4) for pose, _ in given.values()]
        self._targets = np.stack(poses, axis=1)
        self._rows = [6 * i + row for i, (_, rows) in enumerate(given.values()) for row in rows]
        self._limited = [joint for joint in robot.joints if joint.nq == 1 and limits]
        self._q = np.array([joint.q_start for joint in self._limited], dtype=int)
        self._v = np.array([joint.v_start for joint in self._limited], dtype=int)
        self._low, self._high = robot.lower_limits[self._q], robot.upper_limits[self._q]

    def middle(self) -> Array:
        """Joints with limits at mid-range, all others neutral."""
        q = self.robot.neutral()
        bounded = np.isfinite(self._low) & np.isfinite(self._high)
        q[self._q[bounded]] = 0.5 * (self._low + self._high)[bounded]
        return q

    def errors(self, q: Array, which: Array) -> Array:
        """e of all rows, (n, r)."""
        now = self.robot.pose(q, self.frames)
        e = pose_error(now, self._targets[which])
        return e.reshape(len(q), -1)[:, self._rows]

    def jacobian(self, q: Array) -> Array:
        """J of all rows, (n, r, nv)."""
        J = self.robot.jacobian(q, self.frames, "local_world_aligned")
        return J.reshape(len(q), -1, J.shape[-1])[:, self._rows]

    def search(self, q: Array, which: Array, iterations: int, tolerance: float) -> tuple[Array, Array]:
        """One attempt at some targets: final configurations and their errors."""
        e = self.errors(q, which)
        cost, damping = _squares(e), np.full(len(q), _DAMPING)
        idle = np.zeros(len(q), dtype=int)
        for _ in range(iterations):
            open_ = np.flatnonzero((np.abs(e).max(axis=1) > tolerance) & (idle < _PATIENCE))
            if not len(open_):
                break
            step = self._step(q[open_], e[open_], damping[open_] * cost[open_])
            after = self.robot.integrate(q[open_], step)
            after[:, self._q] = np.clip(after[:, self._q], self._low, self._high)
            e_after = self.errors(after, which[open_])
            cost_after = _squares(e_after)
            helps = cost_after < cost[open_]
            slow = ~(cost_after < (1.0 - _PROGRESS) * cost[open_])
            idle[open_] = np.where(slow, idle[open_] + 1, 0)
            damping[open_] = np.clip(damping[open_] * np.where(helps, _BETTER, _WORSE), _LEAST, _MOST)
            moved = open_[helps]
            q[moved], e[moved], cost[moved] = after[helps], e_after[helps], cost_after[helps]
        return q, np.abs(e).max(axis=1)

    def _step(self, q: Array, e: Array, damping: Array) -> Array:
        """(1), with joints that would exceed a limit stopped there, and the others making up for it."""
        J = self.jacobian(q)
        slope = times(np.swapaxes(J, -1, -2), e)[:, self._v]
        at = q[:, self._q]
        stuck = ((at <= self._low) & (slope < 0.0)) | ((at >= self._high) & (slope > 0.0))
        free, fixed = np.ones((len(q), J.shape[-1])), np.zeros((len(q), J.shape[-1]))
        free[:, self._v] = np.where(stuck, 0.0, 1.0)
        for _ in range(_CLAMPINGS):
            own = J * free[:, None, :]
            back = np.swapaxes(own, -1, -2)
            A = product(own, back)
            A = A + (damping + 1e-15)[:, None, None] * np.eye(A.shape[-1])
            x, _ = solved(A, e - times(J, fixed), np.diagonal(A, axis1=-2, axis2=-1))
            step = fixed + times(back, x)
            would = at + step[:, self._v]
            beyond = (free[:, self._v] > 0.0) & ((would < self._low) | (would > self._high))
            fixed[:, self._v] = np.where(beyond, np.clip(would, self._low, self._high) - at, fixed[:, self._v])
            free[:, self._v] = np.where(beyond, 0.0, free[:, self._v])
        return step


def _squares(e: Array) -> Array:
    total: Array = np.add.reduce(np.ascontiguousarray(e * e), axis=-1)
    return total


def _pose(name: str, value: Any) -> tuple[Array, tuple[int, ...]]:
    """A target as a pose, and the rows that it constrains."""
    array = np.asarray(arguments.numbers("inverse_kinematics", f"the target of {name!r}", value), dtype=np.float64)
    if array.shape[-2:] == (4, 4):
        return checked_poses(f"the target of {name!r}", array), (0, 1, 2, 3, 4, 5)
    if array.shape[-1:] == (3,):
        pose = np.broadcast_to(np.eye(4), (*array.shape[:-1], 4, 4)).copy()
        pose[..., :3, 3] = array
        return pose, (3, 4, 5)
    raise InputError(f"the target of {name!r} has shape {array.shape}; pass poses (…, 4, 4) or positions (…, 3)")


def _start(robot: Model, start: Any) -> Array:
    q = np.asarray(arguments.numbers("inverse_kinematics", "start", start), dtype=np.float64)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise InputError(f"start is one configuration, ({robot.nq},), without NaN; got shape {q.shape}")
    return q
