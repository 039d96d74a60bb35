"""Whole-body control by a weighted quadratic program: goals against friction cones, torque and joint limits.

Over accelerations a and forces f at the contact points,

    min  Σ w ‖J a + J̇v − b‖² + w₀ ‖a − a₀‖² + w_f ‖f‖²                                           (1)
         M_u a + h_u = J_pᵀ_u f                           joints without a motor                 (2)
         J_c a + J̇_c v = −k J_c v                         contacts stay, and come to rest        (3)
         |f_x|, |f_y| ≤ μ/√2 f_z,   f_z ≥ 0               inside the friction cone               (4)
         |M_j a + h_j − J_pᵀ_j f| ≤ effort                torques                                (5)
         a within the bounds of `limits`                  positions and velocities               (6)
         J_d a within the bounds of `avoid`               distances of shapes                    (7)

b and a₀ are those of `OperationalSpace`. DAQP [AB22] solves it; nothing is kept from one call to the next, so a sample
has the same result alone and in a batch. Unlike levels, weights trade goals against each other.

Setting up a program costs a dual active-set method most of its time: it factorises the Hessian, and multiplies all
rows by the inverse factor. Here both are known. With the rows V of all goals, weighted relative to the posture, the
Hessian of the accelerations is w₀ (1 + VᵀV), and

    L Lᵀ = 1 + V Vᵀ        R = 1 − Vᵀ ((1 + L) Lᵀ)⁻¹ V        Rᵀ (1 + VᵀV) R = 1                  (8)

so that a = R y/√w₀ needs only the Cholesky factor of a matrix as large as the goals have rows. Forces have a diagonal
Hessian: f = φ/√w_f.

[AB22] D. Arnström, A. Bemporad, D. Axehill, "A dual active-set solver for embedded quadratic programming using
       recursive LDLᵀ updates", IEEE Transactions on Automatic Control 67, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.formats import require_double
from kinetree.control.avoid import AccelerationRows, Avoid
from kinetree.control.command import Remade
from kinetree.control.goals import Bounds, Foot, Posture, chosen_error, motions, nonnegative, start_of
from kinetree.control.pipeline import EnforcedLimits, contiguous
from kinetree.control.quadratic import INFINITE, QuadraticProgram, require_solver
from kinetree.control.sharing import driven_columns, joint_names
from kinetree.control.targets import Targets, Wanted
from kinetree.errors import InfeasibleError, InputError, UnknownNameError
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import standard_arithmetic
from kinetree.spatial.value import Array


class WholeBodySolution(NamedTuple):
    """Solution for one sample: a and f are None if there is none; rows that give way by `slack` are `broken`."""

    a: Any
    f: Any
    tau: Array
    slack: float
    broken: tuple[str, ...]


class WholeBodyProgram:
    """What of the program does not change, and where the rest goes.

    Variables are φ of the contact points, then y. Rows are joint limits, distances, friction cones, torques, joints
    without a motor, contacts.

    Args:
        robot: The robot.
        driven: Which degrees of freedom have a motor, (nv,).
        contacts: The feet.
        limited: Degrees of freedom with limits, (l,).
        roots: Square roots of the weights of the goals' rows, (r,).
        posture_weight: w₀.
        force_weight: w_f.
        torque: Whether torques are limited.
        avoid: Distances that are kept, if any.
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
        avoid: AccelerationRows | None,
    ) -> None:
        self._avoid, apart = avoid, 0 if avoid is None else avoid.count
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
        counts = len(limited), apart, 4 * self.points, len(motors), len(undriven), self._held
        self._at = [slice(a, b) for a, b in pairwise([0, *np.cumsum(counts).tolist()])]
        cones = self._at[2]
        self._rows = np.zeros((sum(counts), pushes + nv))
        self._rows[cones, :pushes] = _cones(contacts)
        # the accelerations' part of all rows but the cones, in the original variables
        self._plain = np.zeros((len(self._rows) - 4 * self.points, nv))
        self._plain[np.arange(len(limited)), limited] = 1.0
        names = [
            f"pull of {foot.frame!r}" for foot, size in zip(contacts, self.sizes, strict=True) for _ in range(size)
        ]
        names += [f"acceleration of {joints[i]!r} at its limit" for i in limited]
        names += [f"distance {i}" for i in range(apart)]
        names += [f"friction of {foot.frame!r}" for foot in contacts for _ in range(4 * len(foot.points))]
        names += [f"torque of {joints[i]!r}" for i in motors]
        names += [f"free motion of {joints[i]!r}" for i in undriven]
        for foot, (_, rows) in zip(contacts, self._feet, strict=True):
            names += [f"contact of {foot.frame!r}"] * rows
        equal = np.zeros(len(names), dtype=bool)
        equal[pushes + self._at[4].start :] = True
        hard = equal.copy()
        hard[:pushes] = True
        self._program = QuadraticProgram(names, hard, equal)
        self._low, self._high = np.full(len(names), -INFINITE), np.full(len(names), INFINITE)
        self._low[2:pushes:3] = 0.0
        self._high[pushes:][cones] = 0.0
        self._one, self._g = np.eye(len(roots)), np.zeros(pushes + nv)

    def solve(
        self, J: Array, residual: Array, M: Array, h: Array, poses: Array, a0: Array, least: Array, most: Array,
        *apart: Array,
    ) -> WholeBodySolution:  # fmt: skip
        """The solution for one sample.

        J and the residual b − J̇v are those of contacts, then goals; h are bias forces; poses those of the soles, (feet,
        4, 4); least and most bound the accelerations of joints with limits, (l,); `apart` are the results of `avoid`.
        """
        held, pushes, motors, free = self._held, 3 * self.points, self._motors, self._free
        V = J[held:] * self._weights[:, None]
        L = np.linalg.cholesky(self._one + V @ V.T)
        U = V.T @ np.linalg.inv((self._one + L) @ L.T)  # R = 1 − U V, by (8)
        push = self._point_rows(J[:held], poses)  # J_pᵀ, (nv, 3 points)
        limits, near, _, torque, loose, fixed = self._at
        rows, plain, low, high = self._rows.copy(), self._plain.copy(), self._low.copy(), self._high.copy()
        below, above = low[pushes:], high[pushes:]
        below[limits], above[limits] = least, most
        if apart:
            plain[near], below[near], _ = apart
        start = near.stop - torque.start  # rows of cones are not among the plain ones
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
        rows[: near.stop, pushes:], rows[torque.start :, pushes:] = turned[: near.stop], turned[near.stop :]
        pull = -(V.T @ (self._weights * residual[held:])) - a0
        g = self._g.copy()
        g[pushes:] = (pull - V.T @ (U.T @ pull)) / self._a_scale
        x, slack, broken = self._program.solve(g, rows, low, high)
        if broken and self._avoid is not None:
            called = {f"distance {i}": self._avoid.name(number) for i, number in enumerate(apart[2].tolist())}
            broken = tuple(called.get(name, name) for name in broken)
        tau = np.zeros(self._nv)
        if x is None:
            return WholeBodySolution(None, None, tau, slack, broken)
        y = x[pushes:]
        a, f = self._a_scale * (y - U @ (V @ y)), self._f_scale * x[:pushes]
        tau[motors] = (M[motors] @ a + h[motors]) - push[motors] @ f
        return WholeBodySolution(a, f, tau, slack, broken)

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


#: Values of `fallback=`.
FALLBACKS = ("raise", "relax")


class WholeBodyCommand(NamedTuple):
    """Output of a whole-body controller.

    Attributes:
        tau: Joint torques, zero where there is no motor, (…, nv) [N m or N].
        acceleration: Joint accelerations, (…, nv).
        contact_forces: Forces on each foot at its contact points, in the foot's axes, by frame, (…, points, 3) [N].
        errors: What each goal lacks of its commanded acceleration, by name, (…, r).
        slack: By how much limits, distances and friction cones had to give way, (…); zero unless `fallback="relax"`.
    """

    tau: Array
    acceleration: Array
    contact_forces: dict[str, Array]
    errors: dict[str, Array]
    slack: Array


class WholeBody(Remade):
    """A whole-body controller. Frozen; call it with states and targets, single or in batches. Needs `kinetree[qp]`.

    Args:
        robot: The robot.
        goals: `Goal`s with weights, names of frames or tasks.
        posture: Posture, with its weight; it makes the solution unique.
        contacts: Feet on the ground, or names of frames, which are points.
        bounds: Limits of the robot to enforce.
        at: Configuration at which goals without targets stay. By default that of the posture.
        undriven: Names of joints without a motor. By default those of free and flexible bodies.
        contact_damping: Rate k at which contacts come to rest [1/s].
        force_weight: Weight w_f of the contact forces.
        fallback: "raise" raises an `InfeasibleError` if limits contradict each other; "relax" lets friction, torques,
            distances and joint limits give way as little as possible.
        error: As of `OperationalSpace`.
        avoid: Pairs of shapes that stay apart: `Avoid`, or pairs of `robot.collision_pairs`.

    Raises:
        ImportError: DAQP is not installed.
        InputError: Goals or feet given twice, a posture without weight, or a bound that no joint has.
        UnknownNameError: No such frame, joint or fallback.
    """

    def __init__(
        self,
        robot: Model,
        goals: Any,
        *,
        posture: Posture,
        contacts: Iterable[Foot | str] = (),
        bounds: Bounds | None = None,
        at: Any = None,
        undriven: Iterable[str] | None = None,
        contact_damping: float = 20.0,
        force_weight: float = 1e-5,
        fallback: str = "raise",
        error: str = "sine",
        avoid: Avoid | CollisionPairs | None = None,
    ) -> None:
        require_double(robot.mechanism, "WholeBody")
        require_solver("WholeBody")
        if fallback not in FALLBACKS:
            raise UnknownNameError("fallback", fallback, FALLBACKS)
        if not isinstance(posture, Posture) or not posture.weight > 0.0:
            raise InputError(
                "a WholeBody needs posture=control.Posture(q) with a positive weight, or its motion would not be unique"
            )
        self.goals = motions("WholeBody", goals)
        self.robot, self.posture, self.fallback = robot, posture, fallback
        self.bounds = Bounds() if bounds is None else bounds
        if isinstance(contacts, (str, Foot)):
            raise InputError("contacts is a sequence of feet; for one of them write [it]")
        self.contacts = tuple(Foot(one) if isinstance(one, str) else one for one in contacts)
        self._feet = tuple(foot.frame for foot in self.contacts)
        if len(set(self._feet)) < len(self._feet):
            raise InputError(f"a foot is given twice among {', '.join(self._feet)}")
        self.driven = driven_columns(robot, undriven)
        start = start_of(robot, posture, at, "WholeBody")
        welds = [foot.weld for foot in self.contacts]
        held = Constraints(robot, welds, at=start) if welds else None
        self._held = held.rows if held else 0
        tasks = [*(weld.task for weld in welds), *(goal.task for goal in self.goals)]
        self._recursions = robot.tasks(tasks, reference="local_world_aligned").core.recursions
        self._residual = self._recursions.residual_by(chosen_error(error, self.goals))
        self._targets = Targets(robot, self.goals, start)
        self._soles = held.targets if held else np.zeros((0, 4, 4))
        self._limits = EnforcedLimits(robot, self.bounds, self.driven)
        still = [0.0, nonnegative("contact_damping", contact_damping)]
        self._gains = np.concatenate([np.tile(still, (self._held, 1)), self._targets.gains])
        self._roots = np.sqrt([goal.weight for goal in self.goals for _ in goal.gains])
        self._pull = np.outer(self.driven, [posture.kp, posture.kd or 0.0])
        self._force_weight = nonnegative("force_weight", force_weight)
        if not self._force_weight > 0.0:
            raise InputError("force_weight must be positive, or contact forces would not be unique")
        self._avoid = AccelerationRows.of(robot, avoid)

    def __repr__(self) -> str:
        feet = ", ".join(foot.frame for foot in self.contacts) or "nothing"
        return f"<WholeBody of {self.robot.name} on {feet}: {', '.join(goal.name for goal in self.goals)}>"

    @cached_property
    def _frame(self) -> WholeBodyProgram:
        return WholeBodyProgram(
            self.robot, self.driven, self.contacts, self._limits.columns, self._roots, self.posture.weight,
            self._force_weight, self.bounds.torque, self._avoid,
        )  # fmt: skip

    def compile(self) -> None:
        """Compile everything that later calls need."""
        self(self.posture.q, np.zeros(self.robot.nv))

    def __call__(self, q: Any, v: Any, targets: Mapping[str, Any] | None = None) -> WholeBodyCommand:
        """Torques for a state.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            targets: As of `OperationalSpace`.

        Raises:
            InfeasibleError: Limits contradict each other; the error names them.
            InputError: A target of the wrong shape.
            UnknownNameError: A target without a goal.
        """
        robot = self.robot
        wanted = self._targets.read(targets, None, 0.0)
        if not wanted.batch and _is_sample(q, robot.nq) and _is_sample(v, robot.nv):
            return self._command(q, v, wanted, targets, ())
        q = arguments.doubles("control", "q", q, (robot.nq,))
        v = arguments.doubles("control", "v", v, (robot.nv,))
        batch = arguments.common_batch("control", ("q", "v"), (q.shape[:-1], v.shape[:-1]))
        self._targets.require_batch(targets, wanted.batch, batch)
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
        return self._command(q, v, wanted, targets, batch)

    def _command(
        self, q: Array, v: Array, wanted: Wanted, targets: Mapping[str, Any] | None, batch: tuple[int, ...]
    ) -> WholeBodyCommand:
        robot = self.robot
        target, feed = _after(self._soles, wanted.target), _after(np.zeros((self._held, 2)), wanted.feed)
        residual, fault = self._residual(q, v, target, feed, self._gains)
        self._targets.require_poses(fault, wanted, targets)
        away = robot.difference(q, self.posture.q)
        parts = [
            self._recursions.jacobian(q),
            residual,
            robot.mass_matrix(q),
            robot.bias_forces(q, v),
            robot.pose(q, self._feet) if self._feet else np.zeros((*batch, 0, 4, 4)),
        ]
        bounds = [np.zeros((*batch, 0))] * 2
        if len(self._limits.columns):
            bounds = list(self._limits.accelerations(q, v))
        if self._avoid is not None:
            bounds += self._avoid(q, v)
        with standard_arithmetic():
            parts.append(self._pull[:, 0] * away - self._pull[:, 1] * v)
            parts += bounds
            return self._solved(parts, batch)

    def _solved(self, parts: list[Array], batch: tuple[int, ...]) -> WholeBodyCommand:
        """The program of each sample, with the inputs of `WholeBodyProgram.solve`."""
        frame, nv, points, residual = self._frame, self.robot.nv, self._frame.points, parts[1]
        count = math.prod(batch)
        flat = [x.reshape(count, *x.shape[len(batch) :]) for x in parts] if batch else [x[None] for x in parts]
        tau, a, f, slack = np.empty((count, nv)), np.empty((count, nv)), np.empty((count, 3 * points)), np.zeros(count)
        for i in range(count):
            sample = [x[i] for x in flat]
            # NaN in the state or in a target reaches these
            if not math.isfinite(sum(float(np.vdot(x, x)) for x in (sample[1], sample[3], sample[5]))):
                tau[i], a[i], f[i], slack[i] = np.nan, np.nan, np.nan, np.nan
                continue
            found = frame.solve(*sample)
            if found.broken and (self.fallback == "raise" or found.a is None):
                raise InfeasibleError(found.broken, tuple(int(k) for k in np.unravel_index(i, batch)) if batch else ())
            a[i], f[i], tau[i], slack[i] = found.a, found.f, found.tau, found.slack
        lacking = residual[..., self._held :] - _moved(parts[0][..., self._held :, :], a.reshape(*batch, nv))
        forces, start = {}, 0
        for foot, size in zip(self.contacts, frame.sizes, strict=True):
            forces[foot.frame] = f[:, start : start + size].reshape(*batch, -1, 3)
            start += size
        return WholeBodyCommand(
            tau.reshape(*batch, nv), a.reshape(*batch, nv), forces, self._targets.split(lacking), slack.reshape(batch)
        )


def _is_sample(x: Any, length: int) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (length,)


def _after(held: Array, given: Array) -> Array:
    """Numbers of contacts, then those of goals, along the first axis of a sample."""
    batch = given.shape[: given.ndim - held.ndim]
    return np.concatenate([np.broadcast_to(held, (*batch, *held.shape)), given], axis=-held.ndim)


def _moved(J: Array, a: Array) -> Array:
    moved: Array = np.add.reduce(np.multiply(J, a[..., None, :], order="C"), axis=-1)
    return moved
