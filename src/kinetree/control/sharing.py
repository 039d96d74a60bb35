"""Distribution of load over the constraints: grasped objects, the free base, and the remaining redundancy.

Accelerations determine the joint forces ID(q, v, a) = τ + J_cᵀλ, but not how motors and constraints share them. Joints
without a motor, u, determine part of λ: J_c,uᵀ λ = ID_u.

*Grasps*, constraints on an object without motors, share its load by weights Q around desired internal forces h₀:

    λ = h₀ + Q B (BᵀQB)⁻¹ (ID_u − Bᵀh₀)         B = J_g,u                                       (1)

Moments are weighted 1/(0.1 m)² against forces. *Supports* are all other constraints. Among the λ that carry the base,
theirs minimises the motor torques relative to their limits:

    λ = λ_p + P y        λ_p = B (BᵀB)⁻¹ τ_u      P = 1 − B (BᵀB)⁻¹Bᵀ      B = J_s,u             (2)
    min ‖W (τ_a − J_s,aᵀ λ)‖ over y               W = 1/effort                                   (3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnderactuatedError, UnknownNameError
from kinetree.model.constraints import Constraints, Weld
from kinetree.model.model import Model
from kinetree.operational_space.products import product, times
from kinetree.operational_space.singular import composed, solved, spectrum
from kinetree.operational_space.tasks import RelativeTask
from kinetree.spatial.value import Array

#: Lever arm that relates moments to forces [m].
_ARM = 0.1
#: Fraction of the largest eigenvalue below which a direction has no redundancy.
_IDLE = 1e-9


class Sharing:
    """Load distribution over a robot's constraints.

    Args:
        robot: The scene: robot and objects.
        constraints: All constraints, or None.
        driven: Which degrees of freedom have a motor, (nv,).
        squeeze: Force with which all grasps of an object press towards their centroid [N], by frame name.
    """

    def __init__(
        self, robot: Model, constraints: Constraints | None, driven: Array, squeeze: Mapping[str, float]
    ) -> None:
        self._robot, self._constraints, self._driven = robot, constraints, driven
        self._objects = _objects(robot, driven)
        carried = np.array([_root(robot, j) in self._objects for j in _columns(robot)], dtype=bool)
        self._object_columns = np.flatnonzero(carried)
        self._base_columns = np.flatnonzero(~driven & ~carried)
        self._motors = np.flatnonzero(driven)
        self._grasps: list[int] = []
        self._supports: list[int] = []
        if constraints is not None:
            for one, part in zip(constraints.constraints, constraints.slices, strict=True):
                touched = any(_tree(robot, name) in self._objects for name in _frames(one))
                (self._grasps if touched else self._supports).extend(range(part.start, part.stop))
            components = [row for task in constraints.tasks.tasks for row in task.rows]
            moments = np.array([components[i] < 3 for i in self._grasps], dtype=bool)
            self._Q = np.where(moments, 1.0 / _ARM**2, 1.0)
        effort = robot.effort_limits[self._motors]
        self._W = np.where(np.isfinite(effort) & (effort > 0.0), 1.0 / np.where(effort > 0.0, effort, 1.0), 1.0)
        self._squeezed = _squeezed(robot, constraints, self._objects, squeeze)

    @property
    def trivial(self) -> bool:
        """Whether every joint has a motor and nothing is constrained."""
        return self._constraints is None and bool(self._driven.all())

    def require_carried(self, q: Array) -> None:
        """Check that constraints carry all joints without a motor at a configuration.

        Raises:
            UnderactuatedError: Some joints are not carried; the error names them.
        """
        undriven = np.flatnonzero(~self._driven)
        if not len(undriven):
            return
        J = np.zeros((0, self._robot.nv)) if self._constraints is None else self._constraints.jacobian(q)
        B = J[:, undriven]
        if len(B) == 0 or np.linalg.matrix_rank(B, tol=1e-8 * max(1.0, float(np.abs(B).max()))) < len(undriven):
            columns = _columns(self._robot)
            loose = [
                name
                for name in dict.fromkeys(columns[i] for i in undriven)
                if not _carries(B, [k for k, i in enumerate(undriven) if columns[i] == name])
            ]
            raise UnderactuatedError(tuple(loose or dict.fromkeys(columns[i] for i in undriven)))

    def __call__(self, q: Array, full: Array) -> tuple[Array, Array]:
        """Motor torques with zeros where there is no motor, (…, nv), and λ of all constraints, (…, c).

        Args:
            q: Configuration, (…, nq).
            full: ID(q, v, a), (…, nv).
        """
        constraints = self._constraints
        if constraints is None:
            return full, np.zeros((*full.shape[:-1], 0))
        J, tau = constraints.jacobian(q), full
        forces = np.zeros((*np.broadcast_shapes(full.shape[:-1], J.shape[:-2]), constraints.rows))
        if self._grasps:
            J_g = J[..., self._grasps, :]
            held = self._grasp_forces(q, J_g[..., self._object_columns], full[..., self._object_columns])
            forces[..., self._grasps] = held
            tau = tau - times(np.swapaxes(J_g, -1, -2), held)
        if self._supports:
            J_s = J[..., self._supports, :]
            borne = self._support_forces(J_s, tau)
            forces[..., self._supports] = borne
            tau = tau - times(np.swapaxes(J_s, -1, -2), borne)
        return np.where(self._driven, tau, 0.0 * tau), forces

    def _grasp_forces(self, q: Array, B: Array, need: Array) -> Array:
        """(1)."""
        internal = self._internal_forces(q)
        QB, transposed = self._Q[:, None] * B, np.swapaxes(B, -1, -2)
        load = need - times(transposed, internal)
        return internal + times(QB, _least(product(transposed, QB), load))

    def _support_forces(self, J: Array, tau: Array) -> Array:
        """(2) and (3)."""
        B, J_a, rows = J[..., self._base_columns], J[..., self._motors], J.shape[-2]
        weighted = J_a * (self._W * self._W)
        borne: Array = np.zeros((*tau.shape[:-1], rows))
        P, rest = np.eye(rows), np.zeros((rows, rows))
        if len(self._base_columns):
            transposed = np.swapaxes(B, -1, -2)
            G = product(transposed, B)
            borne = times(B, _least(G, tau[..., self._base_columns]))
            across = product(B, _inverse(G))
            P = np.eye(rows) - product(across, transposed)
            # there is no redundancy along B: a unit there keeps the system regular
            rest = np.eye(rows) - P
        left = tau[..., self._motors] - times(np.swapaxes(J_a, -1, -2), borne)
        N = product(weighted, np.swapaxes(J_a, -1, -2))
        N = product(P, product(N, np.swapaxes(P, -1, -2)))
        scale = np.maximum(np.diagonal(N, axis1=-2, axis2=-1).max(axis=-1), 1e-300)[..., None, None]
        N = 0.5 * (N + np.swapaxes(N, -1, -2)) / scale + rest
        chosen = _pseudo_solution(N, times(P, times(weighted, left)) / scale[..., 0])
        result: Array = borne + times(P, chosen)
        return result

    def _internal_forces(self, q: Array) -> Array:
        """h₀: at each grasp of a squeezed object, a force towards the centroid of its grasps, (…, g)."""
        result = np.zeros((*q.shape[:-1], len(self._grasps)))
        for frames, parts, signs, axes, strength in self._squeezed:
            poses = self._robot.pose(q, [*frames, *axes])
            points = poses[..., : len(frames), :3, 3]
            center = points[..., 0, :]
            for i in range(1, len(frames)):
                center = center + points[..., i, :]
            for i, part in enumerate(parts):
                way = center / len(frames) - points[..., i, :]
                length = np.sqrt(way[..., 0] ** 2 + way[..., 1] ** 2 + way[..., 2] ** 2)[..., None]
                push = strength * signs[i] * way / np.where(length > 0.0, length, 1.0)
                seen = times(np.swapaxes(poses[..., len(frames) + i, :3, :3], -1, -2), push)
                result[..., [self._grasps.index(row) for row in part]] = seen
        return result


def _squeezed(
    robot: Model, constraints: Constraints | None, objects: set[str], squeeze: Mapping[str, float]
) -> list[tuple[list[str], list[list[int]], list[float], list[str], float]]:
    """For each squeezed object: grasping frames, rows of their forces, signs, frames of their axes, and force."""
    found = []
    for name, strength in squeeze.items():
        tree = _tree(robot, name)
        if constraints is None or tree not in objects:
            raise InputError(f"squeeze: {name!r} is no frame of an object without motors that constraints hold")
        frames, parts, signs, axes = [], [], [], []
        for one, part in zip(constraints.constraints, constraints.slices, strict=True):
            first, second = _frames(one)
            if "world" in (first, second) or (_tree(robot, first) == tree) == (_tree(robot, second) == tree):
                continue
            rows = [part.start + i for i, row in enumerate(one.rows) if row in (3, 4, 5)]
            if len(rows) != 3:
                raise InputError(f"squeeze: the {one} does not hold all three directions, so it cannot press")
            # the force acts on `first`, in the axes of `second`; the object is to be pressed inwards
            signs.append(1.0 if _tree(robot, first) == tree else -1.0)
            frames.append(second if signs[-1] > 0.0 else first)
            parts.append(rows)
            axes.append(second)
        if len(frames) < 2:
            raise InputError(f"squeeze: {name!r} is held by fewer than two grasps, so nothing can press on it")
        if not isinstance(strength, (int, float, np.floating)) or not np.isfinite(strength):
            raise InputError(f"squeeze: {name!r} takes a force [N], got {strength!r}")
        found.append((frames, parts, signs, axes, float(strength)))
    return found


def _columns(robot: Model) -> list[str]:
    """Joint name of each degree of freedom."""
    return [joint.name for joint in robot.joints for _ in range(joint.nv)]


def _root(robot: Model, joint: str) -> str:
    """The joint at the root of a joint's tree."""
    return _tree(robot, robot.joint(joint).child)


def _tree(robot: Model, frame: str) -> str:
    """The joint at the root of the tree that carries a frame; "world" if it is fixed."""
    bodies = {body.name: body for body in robot.bodies}
    moving = {joint.name for joint in robot.joints}
    extra = {each.name: each.body for each in robot.extra_frames}
    body, root = extra.get(frame, frame), "world"
    while body != "world" and body in bodies:
        if bodies[body].joint in moving:
            root = bodies[body].joint
        body = bodies[body].parent
    return root


def _objects(robot: Model, driven: Array) -> set[str]:
    """Roots of trees without any motor."""
    motors: dict[str, bool] = {}
    for i, name in enumerate(_columns(robot)):
        root = _root(robot, name)
        motors[root] = motors.get(root, False) or bool(driven[i])
    return {root for root, any_ in motors.items() if not any_}


def _frames(constraint: Any) -> tuple[str, str]:
    """The frame on which the force acts, and the one on which its reaction acts."""
    if isinstance(constraint, RelativeTask):
        return constraint.frame_b, constraint.frame_a
    return constraint.frame, constraint.other if isinstance(constraint, Weld) else "world"


def _carries(B: Array, columns: Sequence[int]) -> bool:
    own = B[:, list(columns)]
    return len(own) > 0 and bool(np.linalg.matrix_rank(own, tol=1e-8) == len(columns))


def _least(A: Array, b: Array) -> Array:
    """A⁻¹ b for a small positive definite matrix; by eigenvalues where it is nearly singular."""
    own = np.diagonal(A, axis1=-2, axis2=-1)
    x, least = solved(A, np.broadcast_to(b, A.shape[:-1]), np.where(own > 0.0, own, 1.0))
    doubtful = ~(np.asarray(least) > _IDLE)
    if doubtful.any():
        x = np.where(doubtful[..., None], _pseudo_solution(A, b), x)
    return x


def _pseudo_solution(A: Array, b: Array) -> Array:
    return times(_inverse(A), b)


def _inverse(A: Array) -> Array:
    """Pseudo-inverse of a symmetric matrix, (…, n, n)."""
    n = A.shape[-1]
    of = spectrum(A, np.diagonal(A, axis1=-2, axis2=-1), np.eye(n), np.zeros(n))
    edge = _IDLE * of.values.max(axis=-1, keepdims=True, initial=1.0)
    return composed(of, np.where(of.values > edge, 1.0 / np.where(of.values > edge, of.values, 1.0), 0.0 * of.values))


def driven_columns(robot: Model, undriven: Any) -> Array:
    """Which degrees of freedom have a motor, (nv,): all except those of free bodies, or of the joints named."""
    names = {joint.name for joint in robot.joints}
    if undriven is None:
        without = {joint.name for joint in robot.joints if joint.kind == "floating"}
    else:
        if isinstance(undriven, str):
            raise InputError(f"undriven={undriven!r} is one name; pass a list of joints")
        without = set(undriven)
        for name in without - names:
            raise UnknownNameError("joint", name, tuple(sorted(names)))
    return np.array([name not in without for name in _columns(robot)], dtype=bool)
