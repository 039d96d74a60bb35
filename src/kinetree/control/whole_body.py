"""Whole-body control by a weighted quadratic programme: goals against friction cones, torque and joint limits.

Over accelerations a and forces f at the contact points,

    min  Σ w ‖J a + J̇v − b‖² + w₀ ‖a − a₀‖² + w_f ‖f‖²                                           (1)
         M_u a + h_u = J_pᵀ_u f                           joints without a motor                 (2)
         J_c a + J̇_c v = −k J_c v                         contacts stay, and come to rest        (3)
         |f_x|, |f_y| ≤ μ/√2 f_z,   f_z ≥ 0               inside the friction cone               (4)
         |M_j a + h_j − J_pᵀ_j f| ≤ effort                torques                                (5)
         a within the bounds of `limits`                  positions and velocities               (6)

b and a₀ are those of `OperationalSpace`. DAQP [AB22] solves it; nothing is kept from one call to the next, so a sample
has the same result alone and in a batch. Unlike levels, weights trade goals against each other.

[AB22] D. Arnström, A. Bemporad, D. Axehill, "A dual active-set solver for embedded quadratic programming using
       recursive LDLᵀ updates", IEEE Transactions on Automatic Control 67, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.actuation import driven_columns, joint_names
from kinetree.control.goals import Bounds, Posture, motions, nonnegative, start_of
from kinetree.control.limits import Limits, contiguous
from kinetree.control.quadratic import INFINITE, Programme, require_solver
from kinetree.control.remade import Remade
from kinetree.control.targets import Targets
from kinetree.engines import arguments
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InfeasibleError, InputError, UnknownNameError
from kinetree.model.constraints import Constraints, Weld
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Values of `fallback=`.
FALLBACKS = ("raise", "relax")


@dataclass(frozen=True)
class Foot:
    """A flat sole, or a point, that stands on something.

    Attributes:
        frame: Frame of the sole; its z axis is the normal of the ground, pointing at the robot.
        size: Length and width of the sole along the frame's x and y axes [m]; (0, 0) for a point, which may turn.
        friction: Coefficient of friction μ.
    """

    frame: str
    size: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str):
            raise InputError(f"a Foot takes the name of a frame, got {type(self.frame).__name__}")
        size = tuple(self.size) if isinstance(self.size, (tuple, list, np.ndarray)) else ()
        if len(size) != 2:
            raise InputError(f"foot {self.frame!r}: size is the sole's length and width [m], got {self.size!r}")
        checked = tuple(nonnegative(f"foot {self.frame!r}: size", each) for each in size)
        if (checked[0] > 0.0) != (checked[1] > 0.0):
            raise InputError(f"foot {self.frame!r}: size {checked} is a line; give both edges, or (0, 0) for a point")
        object.__setattr__(self, "size", checked)
        object.__setattr__(self, "friction", nonnegative(f"foot {self.frame!r}: friction", self.friction))

    @property
    def points(self) -> Array:
        """Contact points in the frame, (1, 3) or (4, 3)."""
        x, y = (0.5 * edge for edge in self.size)
        return np.array([[i * x, j * y, 0.0] for i in (-1, 1) for j in (-1, 1)][: 4 if x > 0.0 else 1])

    @property
    def weld(self) -> Weld:
        """The rows that the contact holds."""
        return Weld(self.frame, rows="all" if self.size[0] > 0.0 else "position")


class WholeBodyCommand(NamedTuple):
    """Output of a whole-body controller.

    Attributes:
        tau: Joint torques, zero where there is no motor, (…, nv) [N m or N].
        acceleration: Joint accelerations, (…, nv).
        contact_forces: Forces on each foot at its contact points, in the foot's axes, by frame, (…, points, 3) [N].
        errors: What each goal lacks of its commanded acceleration, by name, (…, r).
        slack: By how much limits and friction cones had to give way, (…); zero unless `fallback="relax"`.
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
        undriven: Names of joints without a motor. By default those of free bodies.
        rest: Rate at which contacts come to rest, k [1/s].
        force_weight: Weight w_f of the contact forces.
        fallback: "raise" raises an `InfeasibleError` if limits contradict each other; "relax" lets friction, torques
            and joint limits give way as little as possible.

    Raises:
        ImportError: DAQP is not installed.
        InputError: Goals or feet given twice, or a posture without weight.
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
        rest: float = 20.0,
        force_weight: float = 1e-5,
        fallback: str = "raise",
    ) -> None:
        require_solver("WholeBody")
        if fallback not in FALLBACKS:
            raise UnknownNameError("fallback", fallback, FALLBACKS)
        if not isinstance(posture, Posture) or not posture.weight > 0.0:
            raise InputError("a WholeBody needs a posture with a positive weight, or its motion would not be unique")
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
        self._targets = Targets(robot, held, self.goals, start)
        self._limits = Limits(robot, self.bounds, self.driven)
        self._gains = np.array(self._targets.gains)
        self._gains[: self._held, 1] = nonnegative("rest", rest)
        self._roots = np.sqrt([goal.weight for goal in self.goals for _ in goal.gains])
        self._pull = np.outer(self.driven, [posture.kp, posture.kd or 0.0])
        self._force_weight = nonnegative("force_weight", force_weight)

    def __repr__(self) -> str:
        feet = ", ".join(foot.frame for foot in self.contacts) or "nothing"
        return f"<WholeBody of {self.robot.name} on {feet}: {', '.join(goal.name for goal in self.goals)}>"

    @cached_property
    def _frame(self) -> _Frame:
        return _Frame(self)

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
        q, v = (np.asarray(arguments.numbers("control", name, x), dtype=np.float64) for name, x in (("q", q), ("v", v)))
        arguments.require_shape("control: q", q.shape, (robot.nq,))
        arguments.require_shape("control: v", v.shape, (robot.nv,))
        given = q.shape[:-1], v.shape[:-1], wanted.batch
        batch = arguments.common_batch("control", ("q", "v", "targets"), given)
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v))
        residual, fault = self._recursions.residual(q, v, wanted.target, wanted.feed, self._gains)
        self._targets.require_poses(fault, wanted, targets)
        with standard_arithmetic():
            return self._command(q, v, residual, batch)

    def _command(self, q: Array, v: Array, residual: Array, batch: tuple[int, ...]) -> WholeBodyCommand:
        robot, frame = self.robot, self._frame
        a0 = self._pull[:, 0] * robot.difference(q, self.posture.q) - self._pull[:, 1] * v
        parts = [
            self._recursions.jacobian(q),
            residual,
            robot.mass_matrix(q),
            robot.bias_forces(q, v),
            a0,
            robot.pose(q, self._feet) if self._feet else np.zeros((*batch, 0, 4, 4)),
        ]
        parts += self._limits.accelerations(q, v) if len(self._limits.columns) else (np.zeros((*batch, 0)),) * 2
        count = math.prod(batch)
        flat = [x.reshape(count, *x.shape[len(batch) :]) for x in parts]
        nv, points = robot.nv, frame.points
        tau, a, f, slack = np.empty((count, nv)), np.empty((count, nv)), np.empty((count, 3 * points)), np.zeros(count)
        for i in range(count):
            sample = [x[i] for x in flat]
            # NaN in the state or in a target reaches these
            if not math.isfinite(np.add.reduce(sample[1]) + np.add.reduce(sample[3]) + np.add.reduce(sample[4])):
                tau[i], a[i], f[i], slack[i] = np.nan, np.nan, np.nan, np.nan
                continue
            x, tau[i], slack[i], broken = frame.solve(*sample)
            if broken and (self.fallback == "raise" or x is None):
                raise InfeasibleError(broken, tuple(int(k) for k in np.unravel_index(i, batch)) if batch else ())
            a[i], f[i] = x[:nv], x[nv:]
        lacking = residual[..., self._held :] - _moved(parts[0][..., self._held :, :], a.reshape(*batch, nv))
        forces, start = {}, 0
        for foot, size in zip(self.contacts, frame.sizes, strict=True):
            forces[foot.frame] = f[:, start : start + size].reshape(*batch, -1, 3)
            start += size
        return WholeBodyCommand(
            tau.reshape(*batch, nv), a.reshape(*batch, nv), forces, self._targets.split(lacking), slack.reshape(batch)
        )


def _moved(J: Array, a: Array) -> Array:
    moved: Array = np.add.reduce(np.multiply(J, a[..., None, :], order="C"), axis=-1)
    return moved


class _Frame:
    """What of the programme does not change, and where the rest goes."""

    def __init__(self, of: WholeBody) -> None:
        robot, nv = of.robot, of.robot.nv
        self._of, self._nv, self._held = of, nv, of._held
        self._feet = [(foot.points, 6 if len(foot.points) > 1 else 3) for foot in of.contacts]
        self._arms = [_arms(points, rows) for points, rows in self._feet]
        self.sizes = [3 * len(points) for points, _ in self._feet]
        self.points = sum(len(points) for points, _ in self._feet)
        self._size = nv + 3 * self.points
        self._motors, self._free = contiguous(np.flatnonzero(of.driven)), contiguous(np.flatnonzero(~of.driven))
        driven, undriven = np.flatnonzero(of.driven), np.flatnonzero(~of.driven)
        # rows: cones, torques, joints without a motor, contacts
        self._effort = robot.effort_limits[self._motors]
        cones = np.zeros((4 * self.points, self._size))
        names, joints = [], joint_names(robot)
        k = 0
        for foot, (points, _) in zip(of.contacts, self._feet, strict=True):
            for _ in points:
                at = nv + 3 * k
                for j, (axis, sign) in enumerate(((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0))):
                    cones[4 * k + j, at + axis], cones[4 * k + j, at + 2] = sign, -foot.friction / np.sqrt(2.0)
                    names.append(f"friction of {foot.frame!r}")
                k += 1
        torques = len(driven) if of.bounds.torque else 0
        names += [f"torque of {joints[i]!r}" for i in driven[:torques]]
        names += [f"free motion of {joints[i]!r}" for i in undriven]
        for foot, (_, rows) in zip(of.contacts, self._feet, strict=True):
            names += [f"contact of {foot.frame!r}"] * rows
        self._rows = np.zeros((len(names), self._size))
        self._rows[: len(cones)] = cones
        marks = np.cumsum([len(cones), torques, len(undriven), self._held]).tolist()
        self._at = [slice(a, b) for a, b in pairwise(marks)]
        variables = [f"acceleration of {joint!r} at its limit" for joint in joints]
        for foot, (points, _) in zip(of.contacts, self._feet, strict=True):
            variables += [f"pull of {foot.frame!r}"] * (3 * len(points))
        hard = np.zeros(self._size + len(names), dtype=bool)
        hard[nv : self._size] = True
        hard[self._size + marks[1] :] = True
        equal = np.zeros(len(hard), dtype=bool)
        equal[self._size + marks[1] :] = True
        self._programme = Programme([*variables, *names], hard, equal)
        self._low, self._high = np.full(len(hard), -INFINITE), np.full(len(hard), INFINITE)
        self._low[nv + 2 : self._size : 3] = 0.0
        self._high[self._size : self._size + marks[0]] = 0.0
        diagonal = np.full(self._size, of._force_weight)
        diagonal[:nv] = of.posture.weight
        self._H = np.diag(diagonal)

    def solve(
        self, J: Array, residual: Array, M: Array, h: Array, a0: Array, poses: Array, least: Array, most: Array
    ) -> tuple[Any, Array, float, tuple[str, ...]]:
        """x = (a, f), torques, slack, and the names of rows that give way, for one sample."""
        of, nv, size, held = self._of, self._nv, self._size, self._held
        goals = J[held:] * of._roots[:, None]
        H = self._H.copy()
        H[:nv, :nv] += goals.T @ goals
        g = np.zeros(size)
        g[:nv] = -(goals.T @ (of._roots * residual[held:])) - of.posture.weight * a0
        push = self._point_rows(J[:held], poses)  # J_pᵀ, (nv, 3 points)
        rows, low, high = self._rows.copy(), self._low.copy(), self._high.copy()
        torque, free, fixed = self._at
        if torque.stop > torque.start:
            rows[torque, :nv], rows[torque, nv:] = M[self._motors], -push[self._motors]
            low[size:][torque], high[size:][torque] = -self._effort - h[self._motors], self._effort - h[self._motors]
        rows[free, :nv], rows[free, nv:] = M[self._free], -push[self._free]
        low[size:][free] = high[size:][free] = -h[self._free]
        rows[fixed, :nv] = J[:held]
        low[size:][fixed] = high[size:][fixed] = residual[:held]
        low[of._limits.columns], high[of._limits.columns] = least, most
        x, slack, broken = self._programme.solve(H, g, rows, low, high)
        tau = np.zeros(nv)
        if x is not None:
            tau[self._motors] = (M[self._motors] @ x[:nv] + h[self._motors]) - push[self._motors] @ x[nv:]
        return x, tau, slack, broken

    def _point_rows(self, J: Array, poses: Array) -> Array:
        """J_pᵀ: joint forces of unit forces at the contact points, along the axes of the soles, (nv, 3 points)."""
        wrenches = np.zeros((self._held, 3 * self.points))  # of unit forces, about the soles' origins, in world axes
        row = column = 0
        for (_, count), size, arms, pose in zip(self._feet, self.sizes, self._arms, poses, strict=True):
            wrenches[row : row + count, column : column + size] = (pose[:3, :3] @ arms).reshape(count, size)
            row, column = row + count, column + size
        found: Array = J.T @ wrenches
        return found


def _arms(points: Array, rows: int) -> Array:
    """Moments (unless it is a point) and forces of forces at points of a sole, in its axes, (1 or 2, 3, 3 points)."""
    x, y, z = points.T
    zero = np.zeros_like(x)
    turns = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])  # p × F
    turns = np.moveaxis(turns, 2, 1).reshape(3, -1)
    return np.concatenate([turns, np.tile(np.eye(3), len(points))])[-rows:].reshape(rows // 3, 3, -1)
