"""Constrained rows that are not components of a frame's motion: couplings of joints, distances, hinges.

Each gives J with φ̇ = J v, its drift J̇v, and the error φ, of all samples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.coupling import Coupling, FunctionCoupling, LinearCoupling
from kinetree.model.loop import Loop
from kinetree.model.placement import alignment, pose
from kinetree.operational_space.products import product, times
from kinetree.operational_space.tasks import LoopTask, Task
from kinetree.spatial.value import Array

_AXES = "local_world_aligned"


class Rows(NamedTuple):
    """Rows at a state.

    Attributes:
        J: (…, c, nv).
        drift: J̇v, (…, c).
        error: φ, (…, c) [rad or m].
    """

    J: Array
    drift: Array
    error: Array


class RowSet(Protocol):
    """Some rows of a robot."""

    count: int

    @property
    def scale(self) -> tuple[Array, Array]:
        """For each row, the number of its group and its reach, as `kinetree.operational_space.singular` has them."""

    def __call__(self, q: Array, v: Array) -> Rows:
        """The rows at states, (…, nq) and (…, nv) with the same leading axes."""


class CouplingRow:
    """The row of a coupling: Σ cᵢ qᵢ − offset, or the joint minus the function that it follows.

    Args:
        robot: The model.
        coupling: Joints have one coordinate each.
    """

    count = 1

    def __init__(self, robot: Any, coupling: Coupling) -> None:
        self._robot, self._coupling = robot, coupling
        joints = {joint.name: joint for joint in robot.joints}
        for name in coupling.joints:
            if name not in joints:
                raise UnknownNameError(f"moving joint (needed for the coupling {coupling})", name, tuple(joints))
            if joints[name].type.nq != 1:
                raise InputError(
                    f"{coupling}: joint {name!r} is {joints[name].kind}; couple joints with one coordinate"
                )
        own = robot.joints
        starts = dict(zip((joint.name for joint in own), np.cumsum([0, *(joint.type.nv for joint in own)]).tolist()))
        self._indices = [starts[name] for name in coupling.joints]

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`; the joints' mobilities add up."""
        q = self._robot._generic_configurations()
        at_rest = np.zeros((len(q), self._robot.nv))
        G, _, _ = self._moved(q, at_rest)
        slopes = self._slopes(q)
        inverse = self._robot.mass_matrix_inverse(q)
        found = [
            np.square(c) * (row * times(inverse, np.broadcast_to(row, at_rest.shape))).sum(axis=-1)
            for c, row in zip(slopes, G, strict=True)
        ]
        return np.zeros(1, dtype=int), np.atleast_1d(sum(each.mean() for each in found))

    def _slopes(self, q: Array) -> list[Any]:
        """∂φ/∂qᵢ of the joints."""
        if isinstance(self._coupling, LinearCoupling):
            return list(self._coupling.coefficients.tolist())
        positions = self._robot.q_to_dict(q)
        x = [np.asarray(positions[name]) for name in self._coupling.joints[1:]]
        _, slopes, _ = self._followed(x, [np.zeros(one.shape) for one in x])
        return [1.0, *slopes]

    def __call__(self, q: Array, v: Array) -> Rows:
        """See `RowSet`."""
        positions = self._robot.q_to_dict(q)
        x = [np.asarray(positions[name]) for name in self._coupling.joints]
        G, rates, follow = self._moved(q, v)
        if isinstance(self._coupling, LinearCoupling):
            slopes = self._coupling.coefficients.tolist()
            error = sum((c * one for c, one in zip(slopes, x, strict=True)), -self._coupling.offset)
            curvature: Any = 0.0
        else:
            value, others, curvature = self._followed(x[1:], rates[1:])
            error, slopes = x[0] - value, [1.0, *(-one for one in others)]
        J, drift = sum(np.asarray(c)[..., None] * row for c, row in zip(slopes, G, strict=True)), -np.asarray(curvature)
        for c, one in zip(slopes, follow, strict=True):
            drift = drift + c * one
        batch = q.shape[:-1]
        return Rows(
            np.broadcast_to(J, (*batch, v.shape[-1]))[..., None, :],
            np.broadcast_to(drift, batch)[..., None],
            np.broadcast_to(error, batch)[..., None],
        )

    def _moved(self, q: Array, v: Array) -> tuple[list[Array], list[Array], list[Any]]:
        """For each joint: its rate per v, its rate, and its acceleration if v is constant."""
        if not self._robot.clusters:
            units = np.eye(v.shape[-1])
            return [units[i] for i in self._indices], [v[..., i] for i in self._indices], [0.0] * len(self._indices)
        G, rates = self._robot.coupling(q), self._robot.joint_rates(q, v)
        follow = self._robot.joint_accelerations(q, v, np.zeros(v.shape[-1]))
        at = self._indices
        return [G[..., i, :] for i in at], [rates[..., i] for i in at], [follow[..., i] for i in at]

    def _followed(self, x: list[Array], rates: list[Array]) -> tuple[Any, list[Any], Any]:
        """The function of the leaders, its slopes, and its second derivative along the motion."""
        coupling = self._coupling
        if isinstance(coupling, LinearCoupling):
            raise TypeError("a linear coupling is written out")
        formula, c = coupling.follower, coupling.constants
        if not isinstance(coupling, FunctionCoupling):
            at, along = np.stack(x), np.stack(rates)
            return formula.value(c, at), list(formula.slopes(c, at)), formula.curvature(c, at, along)
        # users write arithmetic on scalars
        n = len(x)
        samples = np.stack([*x, *rates], axis=-1)
        flat = [
            (formula.value(c, one[:n]), *formula.slopes(c, one[:n]), formula.curvature(c, one[:n], one[n:]))
            for one in samples.reshape(-1, 2 * n)
        ]
        found = np.array(flat, dtype=float).reshape(*samples.shape[:-1], n + 2)
        return found[..., 0], [found[..., 1 + i] for i in range(n)], found[..., -1]


class DistanceRow:
    """The row |p_b − p_a| − length of two points.

    Args:
        robot: The model.
        frames: The frames or bodies that carry the points.
        points: The points there, (3,) each.
        length: Their distance [m].
        name: For messages.
    """

    count = 1

    def __init__(
        self, robot: Any, frames: tuple[str, str], points: tuple[Array, Array], length: float, name: str
    ) -> None:
        if not 0.0 < length < np.inf:
            raise InputError(
                f"{name}: a distance is held along the line between its points, so it is positive; got {length:g}"
            )
        self._robot, self._frames, self._points, self._length = robot, frames, points, length
        tasks = [
            Task(frame, "position", tuple(point.tolist())) for frame, point in zip(frames, points, strict=True)
        ]  # fmt: skip
        self._tasks = robot.tasks(tasks, reference=_AXES)

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`; mobilities of the points add up."""
        return np.zeros(1, dtype=int), self._tasks.core.recursions.reach[[0, 3]].sum(keepdims=True)

    def __call__(self, q: Array, v: Array) -> Rows:
        """See `RowSet`."""
        J, drift = self._tasks.jacobian(q), self._tasks.jacobian_dot_v(q, v)
        a, b = (
            placed(self._robot.pose(q, frame), point) for frame, point in zip(self._frames, self._points, strict=True)
        )
        apart = b - a
        distance = np.sqrt((apart * apart).sum(axis=-1))
        along = apart / distance[..., None]
        relative = J[..., 3:, :] - J[..., :3, :]
        velocity = times(relative, np.broadcast_to(v, (*relative.shape[:-2], v.shape[-1])))
        closing = (along * velocity).sum(axis=-1)
        across = ((velocity * velocity).sum(axis=-1) - closing * closing) / distance
        bent = (along * (drift[..., 3:] - drift[..., :3])).sum(axis=-1) + across
        return Rows(product(along[..., None, :], relative), bent[..., None], (distance - self._length)[..., None])


class HingeRows:
    """The rows of a hinge: the frames' origins and z axes coincide.

    Args:
        robot: The model.
        loop: The hinge.
    """

    count = 5

    def __init__(self, robot: Any, loop: Loop) -> None:
        self._robot, self._bodies = robot, loop.bodies
        turn = pose(alignment(loop.axis), np.zeros(3))
        self._poses = loop.first @ turn, loop.second @ turn
        self._tasks = robot.tasks([loop_task(loop, (0, 1, 3, 4, 5), *self._poses)], reference=_AXES)

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`."""
        recursions = self._tasks.core.recursions
        return recursions.groups, recursions.reach

    def __call__(self, q: Array, v: Array) -> Rows:
        """See `RowSet`."""
        A, B = (
            product(self._robot.pose(q, body), own) for body, own in zip(self._bodies, self._poses, strict=True)
        )  # fmt: skip
        into = np.swapaxes(A[..., :3, :3], -1, -2)
        axis, way = times(into, B[..., :3, 2]), times(into, B[..., :3, 3] - A[..., :3, 3])
        # z × axis; a hinge does not tell the two ends of its axis apart
        tilt = np.stack([-axis[..., 1], axis[..., 0]], axis=-1) * np.where(axis[..., 2:] < 0.0, -1.0, 1.0)
        return Rows(self._tasks.jacobian(q), self._tasks.jacobian_dot_v(q, v), np.concatenate([tilt, way], axis=-1))


def loop_task(loop: Loop, rows: Sequence[int], first: Array, second: Array) -> LoopTask:
    """The motion of a loop's second frame relative to its first, given their poses on its bodies."""
    poses = (tuple(T[:3].ravel().tolist()) for T in (first, second))
    return LoopTask(*loop.bodies, tuple(rows), loop.name, *poses)


def placed(T: Array, point: Array) -> Array:
    """A point of a frame, in the world, (…, 3)."""
    moved: Array = times(T[..., :3, :3], point) + T[..., :3, 3]
    return moved


def row_set(robot: Any, one: Any) -> RowSet | None:
    """The rows of a loop or coupling, unless they are those of a task."""
    if isinstance(one, Loop):
        return _OF_LOOPS[one.kind](robot, one) if one.kind in _OF_LOOPS else None
    return CouplingRow(robot, one)


def _distance(robot: Any, loop: Loop) -> DistanceRow:
    return DistanceRow(robot, loop.bodies, (loop.first[:3, 3], loop.second[:3, 3]), loop.length, str(loop))


_OF_LOOPS: dict[str, Any] = {"distance": _distance, "hinge": HingeRows}
