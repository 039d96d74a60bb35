"""An oracle for tasks made of several parts, of two frames or of the centre of mass: put together with NumPy.

All frames that occur are taken with six rows in world axes at their own origin. A small matrix C(q) makes the rows that
were asked for out of these, so that J = C J₀, Λ⁻¹ = C Λ₀⁻¹ Cᵀ and M⁻¹Jᵀ = (M⁻¹J₀ᵀ) Cᵀ. C holds rotations and distances
between frames, never their distance from the world's origin (unless the reference is "world").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.runtime.function import Function
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import stack
from kinetree.tasks.recursions import TaskFunction
from kinetree.tasks.task_types import AnyTask

Array = np.ndarray[Any, np.dtype[Any]]

_ALIGNED = "local_world_aligned"


@in_common_frame
@algorithm(
    q=("q",),
    rotation=("frames", 3, 3),
    position=("frames", 3),
    origin=("frames", 3),
    outputs=("rotation", "position", "origin"),
)
def placements(tree: Any, q: Any, rotation: Any, position: Any, origin: Any) -> None:
    """Poses of frames in the frame of their tree, in world axes, and the place of its origin in the world."""
    for k, _ in tree.scatter():
        k.weight(q[k])

    for frame, carrier in tree.frames():
        rotation[frame] = frame.X.E.T
        position[frame] = frame.X.r
        origin[frame] = tree.pose(frame, carrier).r - frame.X.r


@in_common_frame
@algorithm(q=("q",), v=("v",), acceleration=(3,), outputs=("acceleration",))
def center_of_mass_dot_v(tree: Any, q: Any, v: Any, acceleration: Any) -> None:
    """Acceleration of the centre of mass when all joint accelerations are zero, without gravity."""
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()
    tree.world.whole = np.zeros(4)

    for k, parent in tree.scatter():
        k.weight(q[k])
        own = k.H @ v[k]
        k.V = parent.V + own
        k.alpha = parent.alpha + k.V.cross(own)
        force = k.M @ k.alpha + k.V.cross(k.M @ k.V)
        k.whole = stack(k.M.mass, force.linear)

    for k, parent in tree.gather():
        parent.whole += k.whole

    acceleration[...] = tree.world.whole[1:] / tree.world.whole[0]


class Placement(NamedTuple):
    """Where m frames are: rotations to world axes, positions in their trees, origins of their trees."""

    rotation: Array
    position: Array
    origin: Array

    def distance(self, a: int, b: int) -> Array:
        """From frame a to frame b, in world axes."""
        inside: Array = self.position[..., b, :] - self.position[..., a, :]
        between: Array = self.origin[..., b, :] - self.origin[..., a, :]
        return inside + between


class Composition:
    """Rows of any tasks of a robot."""

    def __init__(self, robot: kt.Model, tasks: Sequence[str | AnyTask], reference: str = "local") -> None:
        self.robot, self.reference = robot, reference
        self.tasks = [kt.Task(task) if isinstance(task, str) else task for task in tasks]
        self.numbers: dict[kt.Task, int] = {}
        for task in self.tasks:
            for frame in _frames(task):
                self.numbers.setdefault(frame, len(self.numbers))
        self.with_mass = any(isinstance(task, kt.CenterOfMassTask) for task in self.tasks)

    def _place(self, q: Array) -> Placement:
        from kinetree.tasks.task_types import sites_of

        sites = tuple(site for frame in self.numbers for site in sites_of(frame, self.robot.site))
        return Placement(*TaskFunction("placements", self.robot.mechanism, placements, sites)(q))

    def _base(self, q: Array, v: Array | None = None) -> kt.tasks.TaskState:
        return self.robot.tasks(list(self.numbers), reference=_ALIGNED).at(q, v)

    def jacobian(self, q: Array) -> Array:
        """J = C J₀, (…, r, nv)."""
        parts = [self._base(q).jacobian] if self.numbers else []
        if self.with_mass:
            parts.append(self.robot.center_of_mass_jacobian(q))
        return self._combination(q) @ np.concatenate(parts, axis=-2)

    def response(self, q: Array) -> Array:
        """M⁻¹Jᵀ, (…, nv, r)."""
        return self.robot.mass_matrix_inverse(q) @ np.swapaxes(self.jacobian(q), -1, -2)

    def inverse_inertia(self, q: Array) -> Array:
        """Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r)."""
        return self.jacobian(q) @ self.response(q)

    def _combination(self, q: Array) -> Array:
        """C(q), (…, r, 6 m + 3)."""
        place = self._place(q) if self.numbers else None
        width = 6 * len(self.numbers)
        C = np.zeros((*q.shape[:-1], sum(len(task.rows) for task in self.tasks), width + 3 * self.with_mass))
        first = 0
        for task in self.tasks:
            rows = np.array(task.rows, dtype=int)
            part = C[..., first : first + len(rows), :]
            first += len(rows)
            if place is None or isinstance(task, kt.CenterOfMassTask):
                part[..., width:] = np.eye(6)[rows, 3:]
                continue
            numbers = [self.numbers[frame] for frame in _frames(task)]
            for number, block in zip(numbers, self._blocks(task, numbers, place), strict=True):
                part[..., 6 * number : 6 * number + 6] += block[..., rows, :]
        return C

    def _blocks(self, task: AnyTask, numbers: list[int], place: Placement) -> list[Array]:
        """What to multiply the motion of each of a task's frames with, (…, 6, 6)."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        none = np.zeros(3)
        if isinstance(task, kt.RelativeTask):
            return [-_motion_transform(R, place.distance(*numbers)), _motion_transform(R, none)]
        if self.reference == "local":
            return [_motion_transform(R, none)]
        upright = np.broadcast_to(np.eye(3), R.shape)
        if self.reference == _ALIGNED:
            return [_motion_transform(upright, none)]
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return [_motion_transform(upright, -position)]

    def drift(self, q: Array, v: Array) -> Array:
        """J̇v: the rates of the rows when joint accelerations are zero, (…, r)."""
        drifts = []
        if self.numbers:
            place, base = self._place(q), self._base(q, v)
            V = (base.jacobian @ v[..., None])[..., 0].reshape(*v.shape[:-1], -1, 6)
            A = base.jacobian_dot_v.reshape(*v.shape[:-1], -1, 6)
        for task in self.tasks:
            rows = np.array(task.rows, dtype=int)
            if isinstance(task, kt.CenterOfMassTask):
                mass = Function("center_of_mass_dot_v", self.robot.mechanism, center_of_mass_dot_v)
                drifts.append(mass(q, v)[..., rows - 3])
                continue
            numbers = [self.numbers[frame] for frame in _frames(task)]
            w, u, dw, du = V[..., numbers, :3], V[..., numbers, 3:], A[..., numbers, :3], A[..., numbers, 3:]
            drifts.append(self._drift(task, numbers, place, w, u, dw, du)[..., rows])
        return np.concatenate(drifts, axis=-1)

    def _drift(
        self, task: AnyTask, numbers: list[int], place: Placement, w: Array, u: Array, dw: Array, du: Array
    ) -> Array:
        """J̇v of one task, all six rows. In world axes: w, u velocities and dw, du accelerations of its frames."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        w0, u0, dw0, du0 = w[..., 0, :], u[..., 0, :], dw[..., 0, :], du[..., 0, :]
        if isinstance(task, kt.RelativeTask):
            d, turn, rate = place.distance(*numbers), w[..., 1, :] - w0, u[..., 1, :] - u0
            slide = rate - np.cross(w0, d)
            angular = dw[..., 1, :] - dw0 - np.cross(w0, turn)
            linear = du[..., 1, :] - du0 - np.cross(dw0, d) - np.cross(w0, rate) - np.cross(w0, slide)
            return _joined(_turned(R, angular), _turned(R, linear))
        if self.reference == "local":
            return _joined(_turned(R, dw0), _turned(R, du0 - np.cross(w0, u0)))
        if self.reference == _ALIGNED:
            return _joined(dw0, du0)
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return _joined(dw0, du0 + np.cross(u0, w0) + np.cross(position, dw0))


def _frames(task: AnyTask) -> list[kt.Task]:
    """The frames that a task is made of, each with all its rows."""
    if isinstance(task, kt.Task):
        return [kt.Task(task.frame, "all", task.offset)]
    return [kt.Task(task.frame_a), kt.Task(task.frame_b)] if isinstance(task, kt.RelativeTask) else []


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
    turned: Array = (E @ vector[..., None])[..., 0]
    return turned


def _joined(angular: Array, linear: Array) -> Array:
    return np.concatenate([angular, linear], axis=-1)
