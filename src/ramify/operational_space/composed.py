"""Tasks made of several parts: of two frames, or of the centre of mass.

All frames that occur are taken with six rows in world axes at their own origin. A small matrix C(q) makes the rows that
were asked for out of these, so that J = C J₀, Λ⁻¹ = C Λ₀⁻¹ Cᵀ and M⁻¹Jᵀ = (M⁻¹J₀ᵀ) Cᵀ. C holds rotations and distances
between frames, never their distance from the world's origin (unless the reference is "world").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ramify.algorithms.center_of_mass import center_of_mass_jacobian
from ramify.algorithms.kinematics import JACOBIANS_DOT_V, VELOCITIES
from ramify.algorithms.mass_matrix_solve import mass_matrix_solve
from ramify.algorithms.operational_space.placement import center_of_mass_dot_v, placements
from ramify.engines.function import Function
from ramify.errors import InputError
from ramify.operational_space.frames import FrameTasks, Guard, row_groups
from ramify.operational_space.function import TaskFunction
from ramify.operational_space.tasks import AnyTask, CenterOfMassTask, RelativeTask, Task, site_of
from ramify.recursion.mechanism import Mechanism, Site
from ramify.spatial.value import Array

_ALIGNED = "local_world_aligned"


class Placement(NamedTuple):
    """Where m frames are.

    Attributes:
        rotation: To world axes, (…, m, 3, 3).
        position: In their trees, in world axes, (…, m, 3) [m].
        origin: Of their trees, (…, m, 3) [m].
    """

    rotation: Array
    position: Array
    origin: Array

    def distance(self, a: int, b: int) -> Array:
        """From frame a to frame b, in world axes."""
        inside: Array = self.position[..., b, :] - self.position[..., a, :]
        between: Array = self.origin[..., b, :] - self.origin[..., a, :]
        return inside + between


class ComposedTasks:
    """Rows of any tasks.

    Args:
        mechanism: The robot.
        tasks: What is asked for.
        find: Finds a frame by name.
        method: Name of the algorithm for Λ⁻¹ of frames, or "auto".
        reference: From where motions of single frames are seen.
        guard: Raises for mechanisms without an inverse mass matrix.
        mass_guard: Raises for mechanisms without mass.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        tasks: Sequence[AnyTask],
        find: Callable[[str], Site],
        method: str,
        reference: str,
        guard: Guard | None,
        mass_guard: Guard | None,
    ) -> None:
        self._mechanism, self._tasks, self._reference, self._guard = mechanism, tuple(tasks), reference, guard
        self.groups = row_groups([_rows(task) for task in tasks])
        self._numbers: dict[Task, int] = {}
        for task in tasks:
            for frame in _frames(task):
                self._numbers.setdefault(frame, len(self._numbers))
        self._sites = tuple(site_of(frame, find) for frame in self._numbers)
        for task in tasks:
            if isinstance(task, RelativeTask):
                a, b = (self._sites[self._numbers[frame]] for frame in _frames(task))
                if a.node == b.node:
                    raise InputError(f"{task}: they are fixed to the same body, so neither moves relative to the other")
        self._base = FrameTasks(mechanism, self._sites, method, _ALIGNED, guard) if self._sites else None
        self._with_mass = any(isinstance(task, CenterOfMassTask) for task in tasks)
        self._mass_guard = mass_guard

    # Parts

    @cached_property
    def _place(self) -> TaskFunction:
        return TaskFunction("placements", self._mechanism, placements, self._sites)

    @cached_property
    def _velocities(self) -> TaskFunction:
        return TaskFunction("velocities", self._mechanism, VELOCITIES[_ALIGNED], self._sites)

    @cached_property
    def _accelerations(self) -> TaskFunction:
        return TaskFunction("jacobian_dot_v", self._mechanism, JACOBIANS_DOT_V[_ALIGNED], self._sites)

    @cached_property
    def _mass_jacobian(self) -> Function:
        return Function("center_of_mass_jacobian", self._mechanism, center_of_mass_jacobian, guard=self._mass_guard)

    @cached_property
    def _mass_drift(self) -> Function:
        return Function("center_of_mass_dot_v", self._mechanism, center_of_mass_dot_v, guard=self._mass_guard)

    @cached_property
    def _solve(self) -> Function:
        return Function("mass_matrix_solve", self._mechanism, mass_matrix_solve, guard=self._guard)

    def _mass_response(self, q: Array, J: Array) -> Array:
        """M⁻¹Jᵀ of the centre of mass, (…, nv, 3)."""
        return np.swapaxes(self._solve(q[..., None, :], J), -1, -2)

    # All rows of all parts

    def _base_jacobian(self, q: Array) -> Array:
        parts = [] if self._base is None else [self._base.jacobian(q)]
        if self._with_mass:
            parts.append(self._mass_jacobian(q))
        return np.concatenate(parts, axis=-2)

    def _base_response(self, q: Array) -> Array:
        parts = [] if self._base is None else [self._base.response(q)]
        if self._with_mass:
            parts.append(self._mass_response(q, self._mass_jacobian(q)))
        return np.concatenate(parts, axis=-1)

    def _base_inverse_inertia(self, q: Array) -> Array:
        if not self._with_mass:
            assert self._base is not None  # noqa: S101
            return self._base.inverse_inertia(q)  # type: ignore[no-any-return]
        J = self._mass_jacobian(q)
        response = self._mass_response(q, J)
        corner = J @ response
        if self._base is None:
            return corner  # type: ignore[no-any-return]
        side = self._base.jacobian(q) @ response
        top = np.concatenate([self._base.inverse_inertia(q), side], axis=-1)
        bottom = np.concatenate([np.swapaxes(side, -1, -2), corner], axis=-1)
        return np.concatenate([top, bottom], axis=-2)

    # The rows asked for

    def _combination(self, q: Array) -> Array:
        """C(q), (…, r, 6 m + 3)."""
        place = Placement(*self._place(q)) if self._sites else None
        width = 6 * len(self._sites) + 3 * self._with_mass
        C = np.zeros((*q.shape[:-1], len(self.groups), width))
        first = 0
        for task in self._tasks:
            rows = _rows(task)
            part = C[..., first : first + len(rows), :]
            first += len(rows)
            if place is None or isinstance(task, CenterOfMassTask):
                part[..., 6 * len(self._sites) :] = np.eye(6)[np.array(rows), 3:]
                continue
            numbers = [self._numbers[frame] for frame in _frames(task)]
            for number, block in zip(numbers, self._blocks(task, numbers, place), strict=True):
                part[..., 6 * number : 6 * number + 6] = block[..., rows, :]
        return C

    def _blocks(self, task: AnyTask, numbers: list[int], place: Placement) -> list[Array]:
        """What to multiply the motion of each of a task's frames with, (…, 6, 6)."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        none = np.zeros(3)
        if isinstance(task, RelativeTask):
            return [-_motion_transform(R, place.distance(*numbers)), _motion_transform(R, none)]
        if self._reference == "local":
            return [_motion_transform(R, none)]
        upright = np.broadcast_to(np.eye(3), R.shape)
        if self._reference == _ALIGNED:
            return [_motion_transform(upright, none)]
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return [_motion_transform(upright, -position)]

    def inverse_inertia(self, q: Array, out: Array | None = None) -> Array:
        """Λ⁻¹ = C Λ₀⁻¹ Cᵀ, (…, r, r)."""
        q = np.asarray(q)
        C = self._combination(q)
        half = C @ self._base_inverse_inertia(q) @ np.swapaxes(C, -1, -2)
        result = 0.5 * (half + np.swapaxes(half, -1, -2))
        if out is None:
            return result  # type: ignore[no-any-return]
        out[...] = result
        return out

    def jacobian(self, q: Array) -> Array:
        """J = C J₀, (…, r, nv)."""
        return self._combination(q) @ self._base_jacobian(q)

    def response(self, q: Array) -> Array:
        """M⁻¹Jᵀ = (M⁻¹J₀ᵀ) Cᵀ, (…, nv, r)."""
        return self._base_response(q) @ np.swapaxes(self._combination(q), -1, -2)

    def drift(self, q: Array, v: Array) -> Array:
        """J̇v: the rates of the rows when joint accelerations are zero, (…, r)."""
        drifts = []
        if self._sites:
            place = Placement(*self._place(q))
            V, A = self._velocities(q, v), self._accelerations(q, v)
        for task in self._tasks:
            if isinstance(task, CenterOfMassTask):
                drifts.append(self._mass_drift(q, v)[..., [row - 3 for row in _rows(task)]])
                continue
            numbers = [self._numbers[frame] for frame in _frames(task)]
            w, u, dw, du = V[..., numbers, :3], V[..., numbers, 3:], A[..., numbers, :3], A[..., numbers, 3:]
            drift = self._drift(task, numbers, place, w, u, dw, du)
            drifts.append(drift[..., _rows(task)])
        return np.concatenate(drifts, axis=-1)

    def _drift(
        self, task: AnyTask, numbers: list[int], place: Placement, w: Array, u: Array, dw: Array, du: Array
    ) -> Array:
        """J̇v of one task, all six rows. In world axes: w, u velocities and dw, du accelerations of its frames."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        w0, u0, dw0, du0 = w[..., 0, :], u[..., 0, :], dw[..., 0, :], du[..., 0, :]
        if isinstance(task, RelativeTask):
            d, turn, rate = place.distance(*numbers), w[..., 1, :] - w0, u[..., 1, :] - u0
            slide = rate - np.cross(w0, d)
            angular = dw[..., 1, :] - dw0 - np.cross(w0, turn)
            linear = du[..., 1, :] - du0 - np.cross(dw0, d) - np.cross(w0, rate) - np.cross(w0, slide)
            return _joined(_turned(R, angular), _turned(R, linear))
        if self._reference == "local":
            return _joined(_turned(R, dw0), _turned(R, du0 - np.cross(w0, u0)))
        if self._reference == _ALIGNED:
            return _joined(dw0, du0)
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return _joined(dw0, du0 + np.cross(u0, w0) + np.cross(position, dw0))


def _frames(task: AnyTask) -> list[Task]:
    """The frames that a task is made of, each with all its rows."""
    if isinstance(task, Task):
        return [Task(task.frame, "all", task.offset)]
    return [Task(task.frame_a), Task(task.frame_b)] if isinstance(task, RelativeTask) else []


def _rows(task: AnyTask) -> tuple[int, ...]:
    rows = task.rows
    assert not isinstance(rows, str)  # noqa: S101
    return rows


def _motion_transform(E: Array, r: Array) -> Array:
    """6×6 matrix that takes motions to axes E and a point at r: [[E, 0], [−E r×, E]]."""
    X = np.zeros((*E.shape[:-2], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = E
    x, y, z = np.moveaxis(np.broadcast_to(r, (*E.shape[:-2], 3)), -1, 0)
    zero = np.zeros_like(x)
    skew = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*E.shape[:-2], 3, 3)
    X[..., 3:, :3] = -E @ skew
    return X


def _turned(E: Array, vector: Array) -> Array:
    return (E @ vector[..., None])[..., 0]


def _joined(angular: Array, linear: Array) -> Array:
    return np.concatenate([angular, linear], axis=-1)
