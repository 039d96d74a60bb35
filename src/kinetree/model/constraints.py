"""Constrained dynamics: frames welded to the world or to each other, and task rows that are held fixed.

Rows J v = 0 of contacts, grasps and loop closures are enforced by forces λ along them:

    M a + C + g = τ + Jᵀλ        J a + J̇v = b                                                    (1)
    a = a_f + M⁻¹Jᵀλ             Λ⁻¹ λ = b − J̇v − J a_f         Λ⁻¹ = J M⁻¹Jᵀ                     (2)

where a_f is the unconstrained acceleration. Rows may be redundant: Λ is then the pseudo-inverse of Λ⁻¹ with its rows
weighted as in `kinetree.operational_space.singular`, the acceleration is unique, and λ is the smallest of all forces
that cause it.

Drift is removed by projection along J̄ = M⁻¹JᵀΛ, the smallest motion in the metric of M:

    q ← q ⊕ (−J̄ φ)               v ← v − J̄ J v                                                  (3)

φ is the error: rotation vector and displacement of the held pose, in the axes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.engines import arguments
from kinetree.errors import InputError
from kinetree.operational_space.law import Law
from kinetree.operational_space.products import product, times
from kinetree.operational_space.tasks import CenterOfMassTask, RelativeTask, Task, chosen_rows
from kinetree.spatial.value import Array

#: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are redundant.
REDUNDANT = 1e-10


@dataclass(frozen=True)
class Weld:
    """A frame fixed relative to another one: a grasp, a foot on the ground, a closed loop.

    Attributes:
        frame: Name of the frame. The constraint's force acts on it, in the axes of `other`.
        other: Name of the frame that it is fixed to, on which the reaction force acts.
        rows: "all", "position", "orientation", or indices of components in the axes of `other`: 0–2 rotate about x, y
            and z, 3–5 translate along them.
    """

    frame: str
    other: str = "world"
    rows: str | tuple[int, ...] = "all"

    def __post_init__(self) -> None:
        for name in (self.frame, self.other):
            if not isinstance(name, str):
                raise InputError(f"a Weld takes names of frames, got {type(name).__name__}")
        if self.frame == self.other:
            raise InputError(f"{self}: a frame cannot be welded to itself")
        object.__setattr__(self, "rows", chosen_rows(self, self.rows))

    def __str__(self) -> str:
        return f"weld of frame {self.frame!r} to {self.other!r}"

    @property
    def task(self) -> Task | RelativeTask:
        """The rows that it constrains."""
        if self.other == "world":
            return Task(self.frame, self.rows)
        return RelativeTask(self.other, self.frame, self.rows)


#: Anything accepted as a constraint. A frame name means a weld to the world.
AnyConstraint = str | Weld | Task | RelativeTask


class ConstrainedDynamics(NamedTuple):
    """Result of constrained forward dynamics.

    Attributes:
        acceleration: a, (…, nv).
        forces: λ, (…, c): along the rows, on the constrained frame; moments come before forces.
    """

    acceleration: Array
    forces: Array


class Constraints:
    """Constraints of a robot, with c rows in total. Created by `robot.constraints(…)`.

    Every function takes leading batch axes. Constraints are immutable and thread-safe.

    Attributes:
        robot: The model.
        constraints: The given constraints, with frame names converted to `Weld`.
        names: Name of each in results: the welded frame, or a description of the task.
        slices: The rows of each constraint.
        rows: Number of rows, c.
        tasks: The rows as `robot.tasks`.
    """

    def __init__(self, robot: Any, constraints: Iterable[AnyConstraint], at: Any = None) -> None:
        self.robot = robot
        self.constraints = read_constraints(constraints)
        held = [one.task if isinstance(one, Weld) else one for one in self.constraints]
        self.tasks = robot.tasks(held, reference="local_world_aligned", singular="truncated", cut=REDUNDANT)
        self.names = _names(self.constraints)
        stops = np.cumsum([len(task.rows) for task in held]).tolist()
        self.slices = tuple(slice(stop - len(task.rows), stop) for stop, task in zip(stops, held, strict=True))
        self.rows = int(stops[-1])
        self.law = Law(self.tasks.core.recursions, np.full(self.rows, REDUNDANT * self.rows), self._solve)
        self._ends = [_ends(one) for one in held]
        self._at = None if at is None else self._held(_configuration(robot, at))
        self._target = np.tile(np.eye(4), (self.law.sites(), 1, 1)) if self._at is None else self._at
        self._rest = np.zeros((self.rows, 2))
        self._stiff = np.tile([1.0, 0.0], (self.rows, 1))  # gains for which b is −φ

    def __repr__(self) -> str:
        return f"<{len(self.constraints)} constraints of {self.robot.name}: {self.rows} rows>"

    def jacobian(self, q: Any) -> Array:
        """J, (…, c, nv)."""
        result: Array = self.tasks.jacobian(q)
        return result

    def forward_dynamics(
        self, q: Any, v: Any, tau: Any, *, wanted: Any = None, stabilization: Any = None, f_ext: Any = None
    ) -> ConstrainedDynamics:
        """Accelerations and constraint forces, by (2).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv). They should satisfy the constraints; violations are not corrected.
            tau: Joint forces, (…, nv) [N m or N].
            wanted: b, the acceleration of the rows, (…, c); zero by default.
            stabilization: Baumgarte's gains kp and kd, (2,) or (c, 2): b −= kp φ + kd J v. None by default.
            f_ext: As for `robot.forward_dynamics`.
        """
        _refuse_lazy("forward_dynamics", q=q, v=v, tau=tau, wanted=wanted, f_ext=f_ext)
        free = self.robot.forward_dynamics(q, v, tau, f_ext=f_ext)
        feed = self._rest
        if wanted is not None:
            feed = np.zeros((*np.shape(wanted), 2))
            feed[..., 1] = wanted
        gains = self._rest if stabilization is None else np.broadcast_to(stabilization, (self.rows, 2))
        if stabilization is not None:
            self._require_at()
        motion = self.law(q, v, free, self._target, feed, gains)
        return ConstrainedDynamics(self.robot.forward_dynamics(q, v, motion.tau), motion.force)

    def error(self, q: Any) -> Array:
        """φ: deviation of the held poses from those at `at`, (…, c) [rad, m], in the axes of the rows.

        For orientations, it is the rotation axis times the sine of the angle.

        Raises:
            InputError: The constraints were created without `at`, so the poses to hold are unknown.
        """
        self._require_at()
        _refuse_lazy("error", q=q)
        zero = np.zeros(self.robot.nv)
        return -self.law(q, zero, zero, self._target, self._rest, self._stiff).residual

    def project(self, q: Any, v: Any, rounds: int = 1) -> tuple[Array, Array]:
        """Project a configuration and velocity onto the constraints, by (3).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            rounds: Newton steps for q; each squares the error, once it is small.
        """
        self._require_at()
        _refuse_lazy("project", q=q, v=v)
        robot, zero = self.robot, np.zeros(self.robot.nv)
        for _ in range(rounds):
            tau = self.law(q, zero, zero, self._target, self._rest, self._stiff).tau
            q = robot.integrate(q, robot.forward_dynamics(q, zero, tau))
        return q, self.project_velocity(q, v)

    def project_velocity(self, q: Any, v: Any) -> Array:
        """The velocity projected onto the constraints, v − J̄ J v, (…, nv)."""
        _refuse_lazy("project_velocity", q=q, v=v)
        zero = np.zeros(self.robot.nv)
        tau = self.law(q, zero, v, self._target, self._rest, self._rest).tau
        result: Array = self.robot.forward_dynamics(q, zero, tau)
        return result

    def _solve(self, A: Array, residual: Array) -> tuple[Array, Array]:
        core = self.tasks.core
        of = core.spectrum(A, np.diagonal(A, axis1=-2, axis2=-1))
        return times(core.inertia(of, None), residual), of.values.min(axis=-1) / REDUNDANT

    def _require_at(self) -> None:
        if self._at is None:
            raise InputError("these constraints know no pose to hold: make them with robot.constraints(…, at=q)")

    @property
    def targets(self) -> Array:
        """The held poses as targets of the law, (m, 4, 4): see `Law`. Identities if there is no `at`."""
        return self._target

    def split(self, rows: Array) -> dict[str, Array]:
        """Split values of all rows, (…, c), by constraint name."""
        return {name: rows[..., part] for name, part in zip(self.names, self.slices, strict=True)}

    def _held(self, q: Array) -> Array:
        """The poses that are held, as targets of the law, (m, 4, 4)."""
        found = []
        for frame, other, offset in self._ends:
            T = product(self.robot.pose(q, frame), offset)
            if other != "world":
                T = product(_inverse(self.robot.pose(q, other)), T)
                found.append(np.eye(4))
            found.append(T)
        return np.array(found)


def constrained_dynamics(
    robot: Any, q: Any, v: Any, tau: Any, constraints: Iterable[AnyConstraint], f_ext: Any
) -> ConstrainedDynamics:
    """See `Model.constrained_dynamics`."""
    read = read_constraints(constraints)
    given = {"q": q, "v": v, "tau": tau, "f_ext": f_ext}
    if any(map(arguments.is_lazy, given.values())):
        from kinetree.engines import dask

        ranks = {"q": 1, "v": 1, "tau": 1}
        lazy: ConstrainedDynamics = dask.call(_Constrained(robot, read), given, ranks, None)
        return lazy
    return _kept(robot, read).forward_dynamics(q, v, tau, f_ext=f_ext)


@dataclass(frozen=True)
class _Constrained:
    """`Model.constrained_dynamics` for given constraints, as a function that can be pickled."""

    robot: Any
    constraints: tuple[Weld | Task | RelativeTask, ...]
    name: ClassVar[str] = "constrained_dynamics"

    def __call__(self, **given: Any) -> ConstrainedDynamics:
        return constrained_dynamics(self.robot, constraints=self.constraints, **given)


@lru_cache(maxsize=32)
def _kept(robot: Any, constraints: tuple[Weld | Task | RelativeTask, ...]) -> Constraints:
    return Constraints(robot, constraints)


def read_constraints(given: Any) -> tuple[Weld | Task | RelativeTask, ...]:
    """Normalise the user's constraints."""
    if isinstance(given, (str, Weld, Task, RelativeTask)) or not isinstance(given, Iterable):
        raise InputError("constraints is a sequence of Weld, names of frames and tasks; for one of them write [it]")
    if isinstance(given, (set, frozenset)):
        raise InputError("constraints is a set, which has no order, but rows have one; pass a list")
    found = tuple(Weld(one) if isinstance(one, str) else one for one in given)
    if not found:
        raise InputError("constraints is empty; use forward_dynamics")
    for one in found:
        if isinstance(one, CenterOfMassTask) or not isinstance(one, (Weld, Task, RelativeTask)):
            raise InputError(
                f"constraints holds Weld, Task, RelativeTask and names of frames; got {type(one).__name__}"
            )
    return found


def _names(constraints: Sequence[Weld | Task | RelativeTask]) -> tuple[str, ...]:
    """The welded frame, if that distinguishes the constraints; otherwise a full description."""
    short = [one.frame_b if isinstance(one, RelativeTask) else one.frame for one in constraints]
    return tuple(name if short.count(name) == 1 else str(one) for name, one in zip(short, constraints, strict=True))


def _ends(task: Task | RelativeTask) -> tuple[str, str, Array]:
    """The constrained frame, the one that it is fixed to, and the constrained point in the first."""
    offset = np.eye(4)
    if isinstance(task, RelativeTask):
        return task.frame_b, task.frame_a, offset
    offset[:3, 3] = task.offset
    return task.frame, "world", offset


def _inverse(pose: Array) -> Array:
    result = np.zeros_like(pose)
    R = np.swapaxes(pose[..., :3, :3], -1, -2)
    result[..., :3, :3] = R
    result[..., :3, 3] = -times(R, pose[..., :3, 3])
    result[..., 3, 3] = 1.0
    return result


def _refuse_lazy(function: str, **given: Any) -> None:
    for name, value in given.items():
        for each in value.values() if isinstance(value, Mapping) else (value,):
            arguments.refuse_lazy(f"constraints: {function}: {name}", each)


def _configuration(robot: Any, q: Any) -> Array:
    array = arguments.numbers("constraints", "at", q)
    if array.shape != (robot.nq,):
        raise InputError(f"constraints: at is one configuration, ({robot.nq},); got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError("constraints: at has NaN or infinite entries, so there is no pose to hold")
    return np.asarray(array, dtype=np.float64)
