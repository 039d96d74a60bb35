"""Distribution of load over the constraints: grasped objects, the free base, and the remaining redundancy.

Accelerations determine the joint forces ID(q, v, a) = τ + J_cᵀλ, but not how motors and constraints share them. Joints
without a motor, u, determine part of λ: J_c,uᵀ λ = ID_u.

*Grasps*, constraints on an object without motors, share its load by weights Q around desired internal forces h₀:

    λ = h₀ + Q B (BᵀQB)⁻¹ (ID_u − Bᵀh₀)         B = J_g,u                                       (1)

Moments are weighted 1/(0.1 m)² against forces. *Supports* are all other constraints. Among the λ that carry the base,
theirs minimises the motor torques relative to their limits:

    λ = λ_p + P y        λ_p = B (BᵀB)⁻¹ τ_u      P = 1 − B (BᵀB)⁻¹Bᵀ      B = J_s,u             (2)
    min ‖W (τ_a − J_s,aᵀ λ)‖ over y               W = 1/effort                                   (3)

If objects and the base are single free bodies, and no grasp holds two objects together, two kernels do all of this:
`grasp_sharing`, then `support_sharing`, both in `kinetree.algorithms.methods`. Samples in which supports or
grasps lack a direction, and other mechanisms, take the pseudo-inverses below.

*Several hands on one object*, as one augmented object [KC86]: W maps the object's twist ν to those of the hands,
ω_i = ω and v_i = v + ω × r_i. With Λ_e and bias_e of all hands together, contacts included,

    Λ_⊕ = Λ_L + WᵀΛ_e W          bias_⊕ = b_L + Wᵀ(Λ_e Ẇν + bias_e)          Λ_⊕ ν̇ + bias_⊕ = Wᵀf_e

On a branching robot, the coupling between hands is in the off-diagonal blocks of Λ_e. `OperationalSpace` obtains the
same motion by eliminating the grasps; this is the textbook form.

[KC86] O. Khatib, "Augmented object and reduced effective inertia in robot systems", American Control Conference, 1988.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, ModelWarning, UnderactuatedError, UnknownNameError
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import standard_arithmetic
from kinetree.runtime.matrix_products import product, times
from kinetree.spatial.value import Array
from kinetree.tasks.recursions import Recursions, TaskFunction
from kinetree.tasks.singular import composed, solved, spectrum
from kinetree.tasks.task_types import RelativeTask, chosen_rows


class Press(NamedTuple):
    """How grasps press on an object: each with the same force, towards a point at which these forces balance.

    That point is the geometric median of the grasps: where the sum of distances is least, unit vectors to them cancel.
    Forces through one point have no moment either. So they are internal forces, the tensions of a virtual linkage
    [WK93] that are the same for all hands. The object is rigid: as a mean of the grasps with constant weights, the
    point moves with it.

    [WK93] D. Williams, O. Khatib, "The virtual linkage: a model for internal forces in multi-grasp manipulation",
           ICRA 1993.

    Attributes:
        frames: Frames that grasp.
        rows: Rows of their forces.
        signs: 1 if a force acts on the object, −1 if on the hand.
        axes: Frames of the axes of these rows.
        weights: Weights of the grasps in the mean.
        force: [N].
    """

    frames: list[str]
    rows: list[list[int]]
    signs: list[float]
    axes: list[str]
    weights: Array
    force: float


def presses(
    robot: Model, constraints: Constraints | None, objects: set[str], squeeze: Mapping[str, float], at: Array
) -> list[Press]:
    """For each squeezed object, how its grasps press on it; they are where a configuration has them."""
    found = []
    for name, strength in squeeze.items():
        tree = tree_of(robot, name)
        if constraints is None or tree not in objects:
            raise InputError(f"squeeze: {name!r} is no frame of an object without motors that constraints hold")
        frames, parts, signs, axes = [], [], [], []
        for one, task, part in zip(constraints.constraints, constraints.tasks.tasks, constraints.slices, strict=True):
            first, second = ends(task)
            if "world" in (first, second) or (tree_of(robot, first) == tree) == (tree_of(robot, second) == tree):
                continue
            rows = [part.start + i for i, row in enumerate(task.rows) if row in (3, 4, 5)]
            if len(rows) != 3:
                raise InputError(f"squeeze: the {one} does not hold all three directions, so it cannot press")
            # the force acts on `first`, in the axes of `second`; the object is to be pressed inwards
            signs.append(1.0 if tree_of(robot, first) == tree else -1.0)
            frames.append(second if signs[-1] > 0.0 else first)
            parts.append(rows)
            axes.append(second)
        if len(frames) < 2:
            raise InputError(f"squeeze: {name!r} is held by fewer than two grasps, so nothing can press on it")
        force = arguments.number(f"squeeze: {name!r}", strength, what="a force [N]")
        weights = median_weights(robot.pose(at, frames)[:, :3, 3])
        if weights is None:
            weights = np.full(len(frames), 1.0 / len(frames))
            if len(frames) > 2:
                warnings.warn(
                    f"squeeze: grasps of {name!r} cannot all press with {force:g} N without moving it, since one of "
                    "them is between the others; they press with other forces",
                    ModelWarning,
                    stacklevel=4,
                )
        found.append(Press(frames, parts, signs, axes, weights, force))
    return found


#: Rounds of Weiszfeld's iteration, and the sum of unit vectors at which it has arrived.
_ROUNDS, _BALANCED = 5000, 1e-13


def median_weights(points: Array) -> Array | None:
    """Weights with which the geometric median is the mean of points, (n, 3); None if it is one of them, or not unique.

    By Weiszfeld's iteration: the mean weighted by reciprocals of the distances.
    """
    weights = np.full(len(points), 1.0 / len(points))
    for _ in range(_ROUNDS):
        ways = points - weights @ points
        lengths = np.sqrt((ways * ways).sum(axis=1))
        if not lengths.min() > 1e-6 * lengths.max():
            return None
        if np.abs((ways / lengths[:, None]).sum(axis=0)).max() < _BALANCED:
            return weights
        weights = 1.0 / lengths
        weights = weights / weights.sum()
    return None


def joint_names(robot: Model) -> list[str]:
    """Joint name of each degree of freedom."""
    return [joint.name for joint in robot.joints for _ in range(joint.nv)]


def root_of(robot: Model, joint: str) -> str:
    """The joint at the root of a joint's tree."""
    return tree_of(robot, robot.joint(joint).child)


def tree_of(robot: Model, frame: str) -> str:
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


def objects(robot: Model, driven: Array) -> set[str]:
    """Roots of trees without any motor."""
    motors: dict[str, bool] = {}
    for i, name in enumerate(joint_names(robot)):
        root = root_of(robot, name)
        motors[root] = motors.get(root, False) or bool(driven[i])
    return {root for root, any_ in motors.items() if not any_}


def ends(task: Any) -> tuple[str, str]:
    """The frame on which the force acts, and the one on which its reaction acts."""
    if isinstance(task, RelativeTask):
        return task.frame_b, task.frame_a
    return task.frame, "world"


def driven_columns(robot: Model, undriven: Any) -> Array:
    """Which degrees of freedom have a motor, (nv,): all except those of free and flexible bodies, or of those named."""
    names = {joint.name for joint in robot.joints}
    if undriven is None:
        without = {joint.name for joint in robot.joints if not joint.has_motor}
    else:
        if isinstance(undriven, str):
            raise InputError(f"undriven={undriven!r} is one name; pass a list of joints")
        without = set(undriven)
        for name in without - names:
            raise UnknownNameError("joint", name, tuple(sorted(names)))
    return np.array([name not in without for name in joint_names(robot)], dtype=bool)


#: Lever arm that relates moments to forces [m].
_ARM = 0.1
#: Fraction of the largest eigenvalue below which a direction has no redundancy.
_IDLE = 1e-9
#: What the kernel's measures of missing directions may be.
_SPREAD, _WEAK = 1e14, 1e9


class LoadShare(NamedTuple):
    """Rows of some constraints, (p,), and the kernel that shares the load among them.

    It takes q, joint forces and the constants, and returns the joint forces left, λ, and measures of what lacks.
    """

    rows: Array
    kernel: TaskFunction
    constants: tuple[Array, ...]


class Sharing:
    """Load distribution over a robot's constraints.

    Args:
        robot: The scene: robot and objects.
        constraints: All constraints, or None.
        driven: Which degrees of freedom have a motor, (nv,).
        squeeze: Force with which all grasps of an object press on it [N], by frame name; see `Press`.
        at: Configuration at which they hold it.
    """

    def __init__(
        self, robot: Model, constraints: Constraints | None, driven: Array, squeeze: Mapping[str, float], at: Array
    ) -> None:
        self._robot, self._constraints, self._driven = robot, constraints, driven
        self._objects = objects(robot, driven)
        carried = np.array([root_of(robot, j) in self._objects for j in joint_names(robot)], dtype=bool)
        self._object_columns = np.flatnonzero(carried)
        self._base_columns = np.flatnonzero(~driven & ~carried)
        self._motors = np.flatnonzero(driven)
        self._grasps: list[int] = []
        self._supports: list[int] = []
        self._tied = False  # whether a constraint holds two objects together
        if constraints is not None:
            tasks = constraints.tasks.tasks
            for task, part in zip(tasks, constraints.slices, strict=True):
                touched = [name for name in ends(task) if tree_of(robot, name) in self._objects]
                self._tied |= len(touched) > 1
                (self._grasps if touched else self._supports).extend(range(part.start, part.stop))
            components = [row for task in tasks for row in chosen_rows(task, task.rows)]
            moments = np.array([components[i] < 3 for i in self._grasps], dtype=bool)
            self._Q = np.where(moments, 1.0 / _ARM**2, 1.0)
        effort = robot.effort_limits[self._motors]
        self._W = np.where(np.isfinite(effort) & (effort > 0.0), 1.0 / np.where(effort > 0.0, effort, 1.0), 1.0)
        self._squeezed = presses(robot, constraints, self._objects, squeeze, at)
        self._simple = self._single_bodies()
        self._most = (*[_WEAK] * bool(self._grasps), *[_WEAK, _SPREAD] * bool(self._supports)) if self._simple else ()
        #: Number of measures of `share`.
        self.measures = len(self._most)

    def _single_bodies(self) -> bool:
        """Whether every object, and the base, is one body behind one joint, and no object is tied to another."""
        undriven = [joint for joint in self._robot.joints if joint.nv and not self._driven[joint.v_start]]
        roots = [root_of(self._robot, joint.name) for joint in undriven]
        base = [root for root in roots if root not in self._objects]
        one_node = all(joint.kind != "universal" for joint in undriven)
        return one_node and len(base) <= 1 and len(set(roots)) == len(roots) and not self._tied

    @cached_property
    def parts(self) -> tuple[LoadShare, ...]:
        """Grasps and supports, in the order in which they take their share."""
        if self._constraints is None:
            return ()
        found = []
        if self._grasps:
            found.append(
                LoadShare(np.array(self._grasps), self._of(self._grasps).grasp_sharing, self._grasp_constants())
            )
        if self._supports:
            columns = np.zeros((self._robot.nv, 2))
            columns[self._base_columns, 0] = 1.0
            columns[self._motors, 1] = self._W * self._W
            kernel = self._of(self._supports).support_sharing(len(self._base_columns) > 0)
            found.append(LoadShare(np.array(self._supports), kernel, (columns,)))
        return tuple(found)

    def _of(self, rows: list[int]) -> Recursions:
        """The recursions of some constraints."""
        base: Recursions = self._held.tasks.core.recursions
        sites, start = [], 0
        for site in base.sites:
            if start in rows:
                sites.append(site)
            start += 0 if site.part == "near" else len(site.rows)
        return Recursions(base.robot, tuple(sites), base.requested, base.reference, base.engine)

    def _grasp_constants(self) -> tuple[Array, Array, Array]:
        count, numbers = len(self._grasps), {row: i for i, row in enumerate(self._grasps)}
        mean, rows, objects = np.zeros((count, count)), np.zeros((count, 3)), np.zeros(self._robot.nv)
        rows[:, 0] = self._Q
        for press in self._squeezed:
            pressing = [[numbers[row] for row in part] for part in press.rows]
            for part, sign, weight in zip(pressing, press.signs, press.weights, strict=True):
                rows[part, 1], rows[part, 2] = press.force * sign, 0.5 + 0.5 * sign
                for other in pressing:
                    mean[part, other] = weight
        objects[self._object_columns] = 1.0
        return mean, rows, objects

    @property
    def _held(self) -> Constraints:
        if self._constraints is None:
            raise AssertionError("without constraints there is no load to share")
        return self._constraints

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
            columns = joint_names(self._robot)
            loose = [
                name
                for name in dict.fromkeys(columns[i] for i in undriven)
                if not _carries(B, [k for k, i in enumerate(undriven) if columns[i] == name])
            ]
            raise UnderactuatedError(tuple(loose or dict.fromkeys(columns[i] for i in undriven)))

    @property
    def in_kernel(self) -> bool:
        """Whether kernels share the load, or there is none to share."""
        return self._constraints is None or self._simple

    def share(self, run: Any, q: Any, full: Any) -> tuple[Any, Any, list[Any]]:
        """Motor torques, (nv,), λ of all constraints, (c,), and measures of what lacks, for ID(q, v, a): by kernels."""
        forces, lacking = [], []
        for part in self.parts:
            full, force, *measures = run(part.kernel, q, full, *part.constants)
            forces.append(force)
            lacking += measures
        order = np.argsort(np.concatenate([part.rows for part in self.parts]))
        return full, run.taken(run.joined(*forces), order), lacking

    def settled(self, q: Array, full: Array, tau: Array, force: Array, lacking: Sequence[Any]) -> tuple[Array, Array]:
        """Results of `share`; by pseudo-inverses where a direction lacks in which constraints should bear a load."""
        sure: Any = bool(lacking)
        for measure, most in zip(lacking, self._most, strict=False):
            sure = sure & (measure < most)
        if isinstance(sure, bool):
            if sure:
                return tau, force
            with standard_arithmetic():
                return self.dense(q, full)
        if not sure.all():
            rest = ~sure
            with standard_arithmetic():
                tau[rest], force[rest] = self.dense(q[rest], full[rest])
        return tau, force

    def dense(self, q: Array, full: Array) -> tuple[Array, Array]:
        """The same by pseudo-inverses: motor torques, zero where there is no motor, (…, nv), and λ, (…, c)."""
        J, tau = self._held.jacobian(q), full
        forces = np.zeros((*np.broadcast_shapes(full.shape[:-1], J.shape[:-2]), self._held.rows))
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
        """h₀: at each grasp of a squeezed object, a force as of `Press`, (…, g)."""
        result = np.zeros((*q.shape[:-1], len(self._grasps)))
        for frames, parts, signs, axes, weights, strength in self._squeezed:
            poses = self._robot.pose(q, [*frames, *axes])
            points = poses[..., : len(frames), :3, 3]
            center = weights[0] * points[..., 0, :]
            for i in range(1, len(frames)):
                center = center + weights[i] * points[..., i, :]
            for i, part in enumerate(parts):
                way = center - points[..., i, :]
                length = np.sqrt(way[..., 0] ** 2 + way[..., 1] ** 2 + way[..., 2] ** 2)[..., None]
                push = strength * signs[i] * way / np.where(length > 0.0, length, 1.0)
                seen = times(np.swapaxes(poses[..., len(frames) + i, :3, :3], -1, -2), push)
                result[..., [self._grasps.index(row) for row in part]] = seen
        return result


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


def _carries(B: Array, columns: Sequence[int]) -> bool:
    own = B[:, list(columns)]
    return len(own) > 0 and bool(np.linalg.matrix_rank(own, tol=1e-8) == len(columns))


class AugmentedObject(NamedTuple):
    """An object and the hands that hold it, as one body. Twists and wrenches are at its frame, in world axes.

    Attributes:
        inertia: Λ_⊕, (…, 6, 6).
        bias: bias_⊕, (…, 6).
        grasp_map: W, (…, 6 h, 6).
    """

    inertia: Array
    bias: Array
    grasp_map: Array


def augmented_object(
    robot: Model,
    q: Any,
    v: Any,
    hands: Sequence[str],
    *,
    pose: Any,
    mass: float,
    inertia: Any,
    contacts: Iterable[Any] = (),
    singular: str = "damped",
) -> AugmentedObject:
    """Inertia and bias of an object held rigidly by several hands.

    Args:
        robot: The robot, without the object.
        q: Configuration, (…, nq).
        v: Joint velocities, consistent with the hands moving with the object, (…, nv).
        hands: Frames that hold the object.
        pose: Pose of the object, with its origin at its centre of mass, (…, 4, 4).
        mass: Mass of the object [kg].
        inertia: Inertia about its centre of mass, in its axes, (3, 3) [kg m²].
        contacts: Further contacts of the robot, as for `robot.tasks`.
        singular: How the inertia of hands that cannot move in all directions is defined, as for `robot.tasks`.

    Raises:
        SingularTaskError: If hands cannot move in all directions and `singular` is "raise".

    Warns:
        ModelWarning: If hands cannot move in all directions: the object then contains inertia that only damping bounds.
    """
    if isinstance(hands, str) or len(hands) < 1:
        raise InputError(f"hands is a sequence of names of frames, got {hands!r}")
    tasks = robot.tasks(list(hands), reference="local_world_aligned", contacts=contacts, singular=singular)
    state = tasks.at(q, v)
    rank = np.asarray(state.rank)
    if singular != "raise" and np.any((rank >= 0) & (rank < tasks.rows)):
        least, where = int(rank[rank >= 0].min()), "" if rank.ndim == 0 else " in some samples"
        warnings.warn(
            f"augmented_object: {', '.join(hands)} can move in {least} of {tasks.rows} directions only{where}; along "
            "the others, the inertia is one of damping. Leave hands out, or choose singular='truncated' or 'raise'",
            ModelWarning,
            stacklevel=2,
        )
    T = np.asarray(pose, dtype=float)
    places = robot.pose(q, list(hands))
    with standard_arithmetic():
        # the hands are fixed to the object, so each has its angular velocity
        omega = robot.velocity(q, v, hands[0], "local_world_aligned")[..., :3]
        R, p = T[..., :3, :3], T[..., :3, 3]
        turned = product(product(R, np.asarray(inertia, dtype=float)), np.swapaxes(R, -1, -2))
        batch = np.broadcast_shapes(omega.shape[:-1], p.shape[:-1])
        W, W_rate_twist = np.zeros((*batch, 6 * len(hands), 6)), np.zeros((*batch, 6 * len(hands)))
        for i in range(len(hands)):
            r = places[..., i, :3, 3] - p
            W[..., 6 * i : 6 * i + 6, :] = np.eye(6)
            W[..., 6 * i + 3 : 6 * i + 6, :3] = -_hat(r)
            W_rate_twist[..., 6 * i + 3 : 6 * i + 6] = _cross(omega, _cross(omega, r))
        own, own_bias = np.zeros((*batch, 6, 6)), np.zeros((*batch, 6))
        own[..., :3, :3], own[..., 3:, 3:] = turned, mass * np.eye(3)
        own_bias[..., :3] = _cross(omega, times(turned, omega))
        own_bias[..., 3:] = -mass * robot.gravity
        back = np.swapaxes(W, -1, -2)
        felt = own + product(back, product(state.inertia, W))
        bias = own_bias + times(back, times(state.inertia, W_rate_twist) + state.bias)
    return AugmentedObject(felt, bias, W)


def _hat(r: Array) -> Array:
    result = np.zeros((*r.shape[:-1], 3, 3))
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -r[..., 2], r[..., 1], -r[..., 0]
    return result - np.swapaxes(result, -1, -2)


def _cross(a: Array, b: Array) -> Array:
    return times(_hat(a), b)
