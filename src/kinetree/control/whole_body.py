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
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.actuation import driven_columns
from kinetree.control.foot import Foot
from kinetree.control.goals import Bounds, Posture, chosen_error, motions, nonnegative, start_of
from kinetree.control.limits import Limits
from kinetree.control.quadratic import require_solver
from kinetree.control.remade import Remade
from kinetree.control.targets import Targets, Wanted
from kinetree.control.whole_body_programme import Frame
from kinetree.engines import arguments
from kinetree.engines.formats import require_double
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InfeasibleError, InputError, UnknownNameError
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Values of `fallback=`.
FALLBACKS = ("raise", "relax")


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
        error: As of `OperationalSpace`.

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
        rest: float = 20.0,
        force_weight: float = 1e-5,
        fallback: str = "raise",
        error: str = "sine",
    ) -> None:
        require_double(robot.mechanism, "WholeBody")
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
        self._residual = self._recursions.residual_by(chosen_error(error, self.goals))
        self._targets = Targets(robot, held, self.goals, start)
        self._limits = Limits(robot, self.bounds, self.driven)
        self._gains = np.array(self._targets.gains)
        self._gains[: self._held, 1] = nonnegative("rest", rest)
        self._roots = np.sqrt([goal.weight for goal in self.goals for _ in goal.gains])
        self._pull = np.outer(self.driven, [posture.kp, posture.kd or 0.0])
        self._force_weight = nonnegative("force_weight", force_weight)
        if not self._force_weight > 0.0:
            raise InputError("force_weight must be positive, or contact forces would not be unique")

    def __repr__(self) -> str:
        feet = ", ".join(foot.frame for foot in self.contacts) or "nothing"
        return f"<WholeBody of {self.robot.name} on {feet}: {', '.join(goal.name for goal in self.goals)}>"

    @cached_property
    def _frame(self) -> Frame:
        return Frame(
            self.robot, self.driven, self.contacts, self._limits.columns, self._roots, self.posture.weight,
            self._force_weight, self.bounds.torque,
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
        residual, fault = self._residual(q, v, wanted.target, wanted.feed, self._gains)
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
        with standard_arithmetic():
            parts.append(self._pull[:, 0] * away - self._pull[:, 1] * v)
            parts += bounds
            return self._solved(parts, batch)

    def _solved(self, parts: list[Array], batch: tuple[int, ...]) -> WholeBodyCommand:
        """The programme of each sample, with the inputs of `Frame.solve`."""
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


def _moved(J: Array, a: Array) -> Array:
    moved: Array = np.add.reduce(np.multiply(J, a[..., None, :], order="C"), axis=-1)
    return moved
