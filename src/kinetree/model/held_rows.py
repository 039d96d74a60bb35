"""What can be constrained: frames welded to the world or to each other, task rows, distances, couplings and loops.

Each kind of constraint is a set of rows of a robot: J with φ̇ = J v, the drift J̇v, and the error φ, written with `run`
(`kinetree.runtime.texts`). `kinetree.model.constraints` solves for the forces along all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from kinetree.algorithms.kinematics.dependent_joints import joint_derivatives
from kinetree.algorithms.tasks.row_derivatives import turns_as_a_whole
from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.constraint_rows import (
    change_of,
    constants_of,
    distance_changes,
    distance_error,
    distance_forces,
    distance_row,
    formula_changes,
    formula_forces,
    formula_row,
    formula_value,
    hinge_error,
)
from kinetree.language.mechanism import Site
from kinetree.model.loops.coupling import (
    Coupling,
    Follower,
    FunctionCoupling,
    LinearCoupling,
    LinearFollower,
    PolynomialCoupling,
)
from kinetree.model.loops.loop import Loop
from kinetree.runtime.forward_derivatives import along_inputs
from kinetree.runtime.function import Function, compiled
from kinetree.runtime.matrix_products import product, times
from kinetree.spatial.rotation import alignment
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import CenterOfMassTask, LoopTask, RelativeTask, Task, chosen_rows
from kinetree.tasks.tasks import Tasks

_AXES = "local_world_aligned"


class RowChanges(NamedTuple):
    """How rows ψ = J a + J̇v + kp φ + kd J v and the forces λ along them change: see `held_derivatives`."""

    psi_q: Any  # ∂ψ/∂q, (count, nv)
    psi_v: Any  # ∂ψ/∂v, (count, nv)
    stiffness: Any  # K = ∂(Jᵀλ)/∂q, besides that of the wrenches, (nv, nv); None where it is JᵀT
    wrench: Any  # λ as wrenches on the frames `sites`, in their axes, (m, 6); None without frames
    turned: Any = None  # T, the change of λ in axes that turn with its frames, (count, nv)
    tau: Any = None  # λ as joint forces, (nv,), unless as wrenches


class State(NamedTuple):
    """What rows depend on, or changes of it."""

    q: Any
    v: Any
    a: Any
    force: Any  # λ of these rows


class RowSet(Protocol):
    """Some rows of a robot."""

    count: int
    sites: tuple[Site, ...]  # the frames on which its forces act, where they act on frames

    @property
    def scale(self) -> tuple[Array, Array]:
        """For each row, the number of its group and its reach, as `kinetree.tasks.singular` has them."""

    def motion(self, run: Any, q: Any, v: Any) -> Sequence[Any]:
        """J, (count, nv), and J̇v, (count,), or those of one row, (nv,) and a number; at rest v is None."""

    def error(self, run: Any, q: Any) -> Any:
        """φ, (count,) [rad or m], or a number."""

    def changes(self, run: Any, q: Any, v: Any, a: Any, force: Any, gains: Any) -> RowChanges:
        """Derivatives for accelerations a, forces λ, (count,), and gains kp and kd, (count, 2)."""

    def rates(self, run: Any, state: State, gains: Any, along: State) -> RowChanges:
        """How these derivatives change along changes of q, a tangent, v, a and λ; without `tau`."""


class _OfTasks:
    """Rows whose motion is that of tasks, in world axes."""

    # what their error is: see `kinetree.algorithms.tasks.row_derivatives`
    _error = "pose"

    def __init__(self, tasks: Tasks) -> None:
        self._recursions, self.count = tasks.core.recursions, tasks.rows
        self.sites = self._recursions.sites

    @property
    def _targets(self) -> Array:
        return np.tile(np.eye(4), (len(self.sites), 1, 1))

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`."""
        return self._recursions.groups, self._recursions.reach

    def motion(self, run: Any, q: Any, v: Any) -> Sequence[Any]:
        """See `RowSet`."""
        drift = np.zeros(self.count) if v is None else run(self._recursions.jacobian_dot_v, q, v)
        return run(self._recursions.jacobian, q), drift

    def changes(self, run: Any, q: Any, v: Any, a: Any, force: Any, gains: Any) -> RowChanges:
        """See `RowSet`."""
        return self._changed(*run(self._recursions.row_derivatives(self._error), q, v, a, force, self._targets, gains))

    def rates(self, run: Any, state: State, gains: Any, along: State) -> RowChanges:
        """See `RowSet`."""
        of, still = self._recursions, np.zeros((self.count, 2))
        function = of.along(of.row_derivatives(self._error))
        return self._changed(*run(function, *state, *along, still, self._targets, gains))

    def _changed(self, psi_q: Any, psi_v: Any, changed: Any, wrench: Any) -> RowChanges:
        if turns_as_a_whole(self.sites):
            return RowChanges(psi_q, psi_v, None, wrench, changed)
        return RowChanges(psi_q, psi_v, changed, wrench)


class TaskRows(_OfTasks):
    """The rows of tasks that hold poses.

    Args:
        tasks: The tasks, in world axes.
        targets: The poses, as targets of the law, (m, 4, 4).
    """

    def __init__(self, tasks: Tasks, targets: Array) -> None:
        super().__init__(tasks)
        self._held = targets

    @property
    def _targets(self) -> Array:
        return self._held

    def error(self, run: Any, q: Any) -> Any:
        """See `RowSet`."""
        of = self._recursions
        still, rest = np.zeros(of.robot.mechanism.nv), np.zeros((self.count, 2))
        loose = np.tile([-1.0, 0.0], (self.count, 1))  # gains for which the residual at rest is φ
        return run(of.residual, q, still, self._targets, rest, loose)[0]


@dataclass(frozen=True)
class _Equation:
    """The error of a coupling as a formula of the coordinates of its joints, each of which counts once.

    Attributes:
        formula: The sum that is zero, or what the first joint follows.
        explicit: Whether the error is the first coordinate minus the formula.
        order: For each joint of the coupling, its number among the coordinates.
    """

    formula: Follower
    explicit: bool
    order: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.formula.name}{'_explicit' * self.explicit}_{'_'.join(map(str, self.order))}"

    @property
    def constants(self) -> int:
        return self.formula.constants

    def value(self, c: Array, x: Array) -> Any:
        first, given = self._split(x)
        return first - self.formula.value(c, given) if self.explicit else self.formula.value(c, given)

    def slopes(self, c: Array, x: Array) -> Array:
        found: list[Any] = list(self.formula.slopes(c, self._split(x)[1]))
        each = [1.0, *(-slope for slope in found)] if self.explicit else found
        return np.array([sum(one for one, i in zip(each, self.order, strict=True) if i == j) for j in range(len(x))])

    def curvature(self, c: Array, x: Array, rate: Array) -> Any:
        found = self.formula.curvature(c, self._split(x)[1], self._split(rate)[1])
        return -found if self.explicit else found

    def _split(self, x: Array) -> tuple[Any, Array]:
        each = x[list(self.order)]
        return (each[0], each[1:]) if self.explicit else (0.0, each)


class CouplingRow:
    """The row of a coupling: Σ cᵢ qᵢ − offset, or the joint minus the function that it follows.

    Args:
        robot: The model.
        coupling: Joints have one coordinate each.
    """

    count = 1
    sites: tuple[Site, ...] = ()

    def __init__(self, robot: Any, coupling: Coupling) -> None:
        self._robot = robot
        joints = {joint.name: joint for joint in robot.joints}
        for name in coupling.joints:
            if name not in joints:
                raise UnknownNameError(f"moving joint (needed for the coupling {coupling})", name, tuple(joints))
            if joints[name].type.nq != 1:
                raise InputError(
                    f"{coupling}: joint {name!r} is {joints[name].kind}; couple joints with one coordinate"
                )
        starts = np.cumsum([0, *(joint.type.nv for joint in robot.joints)]).tolist()
        places, self._rates = dict(zip(joints, starts, strict=False)), starts[-1]
        self._names = tuple(dict.fromkeys(coupling.joints))
        self._at = [places[name] for name in self._names]
        order = tuple(map(self._names.index, coupling.joints))
        if isinstance(coupling, LinearCoupling):
            self._equation = _Equation(LinearFollower(len(order)), False, order)
            self._constants: Sequence[float] = (-coupling.offset, *coupling.coefficients.tolist())
        else:
            self._equation, self._constants = _Equation(coupling.follower, True, order), coupling.constants.tolist()

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`; the joints' mobilities add up."""
        # one by one, by functions that the rows need anyway
        robot, row = self._robot, compiled(formula_row(self._equation, len(self._names)))
        found = []
        for q in robot._generic_configurations():
            positions = robot.q_to_dict(q)
            x = np.array([positions[name] for name in self._names])
            slopes, _ = row(x, np.zeros(len(x)), np.zeros(len(x)), self._numbers)
            for slope, at in zip(slopes.tolist(), self._at, strict=True):
                G = robot.joint_forces(q, np.eye(self._rates)[at])
                found.append(slope * slope * float((G * robot.mass_matrix_solve(q, G)).sum()))
        return np.zeros(1, dtype=int), np.array([sum(found) / 3.0])

    def motion(self, run: Any, q: Any, v: Any) -> Sequence[Any]:
        """See `RowSet`."""
        robot = self._robot
        v = np.zeros(robot.nv) if v is None else v
        rates = run(robot.joint_rates, q, v), run(robot.joint_accelerations, q, v, np.zeros(robot.nv))
        moving = (run.taken(every, self._at) for every in rates)
        row = compiled(formula_row(self._equation, len(self._names)))
        slopes, drift = run(row, self._coordinates(run, q, self._names), *moving, self._numbers)
        # J = Gᵀ slopes, as joint forces act
        return run(robot.joint_forces, q, run.placed(slopes, self._at, (self._rates,))), drift

    def error(self, run: Any, q: Any) -> Any:
        """See `RowSet`."""
        value = compiled(formula_value(self._equation, len(self._names)))
        return run(value, self._coordinates(run, q, self._names), self._numbers)

    def changes(self, run: Any, q: Any, v: Any, a: Any, force: Any, gains: Any) -> RowChanges:
        """See `RowSet`."""
        robot, equation, at = self._robot, self._equation, np.asarray(self._at)
        x, m, n = self._coordinates(run, q, self._names), len(self._names), robot.nv
        pulls = run(compiled(formula_forces(equation, m)), x, self._numbers, force)
        derivatives: Function[..., Any] = Function("constraints", robot.mechanism, joint_derivatives)
        forces = run.placed(pulls, at, (self._rates,))
        *matrices, forces_q = run(derivatives, q, v, a, forces)
        moving = run(robot.joint_rates, q, v), run(robot.joint_accelerations, q, v, a)
        own = (run.taken(every, at) for every in moving)
        rows = (run.taken(every, n * at[:, None] + np.arange(n)) for every in matrices)
        row = compiled(formula_changes(equation, m), n=n)
        psi_q, psi_v, stiffness = run(row, x, *own, self._numbers, force, gains, *rows, forces_q)
        return RowChanges(psi_q, psi_v, stiffness, None, tau=run(robot.joint_forces, q, forces))

    def rates(self, run: Any, state: State, gains: Any, along: State) -> RowChanges:
        """See `RowSet`."""
        robot, equation, at = self._robot, self._equation, np.asarray(self._at)
        (q, v, a, force), (dq, dv, da, dforce) = state, along
        m, n, constants = len(self._names), robot.nv, self._numbers
        x, dx = self._coordinates(run, q, self._names), run.taken(run(robot.joint_rates, q, dq), at)
        pull = formula_forces(equation, m)
        pulls, dpulls = (
            run(compiled(pull), x, constants, force),
            run(compiled(change_of(pull)), x, constants, force, dx, dforce),
        )
        forces, dforces = (run.placed(one, at, (self._rates,)) for one in (pulls, dpulls))
        derivatives: Function[..., Any] = Function("constraints", robot.mechanism, joint_derivatives)
        changes: Function[..., Any] = Function("constraints", robot.mechanism, along_inputs(joint_derivatives))
        found = run(derivatives, q, v, a, forces), run(changes, q, v, a, forces, dq, dv, da, dforces)
        moving = run(robot.joint_rates, q, v), run(robot.joint_accelerations, q, v, a)
        faster = run(robot.joint_rates.jvp, q, v, dq, dv), run(robot.joint_accelerations.jvp, q, v, a, dq, dv, da)

        def own(motion: Sequence[Any], matrices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            rows = [run.taken(every, n * at[:, None] + np.arange(n)) for every in matrices[:-1]]
            return [run.taken(every, at) for every in motion], [*rows, matrices[-1]]

        (rate, rows), (drate, drows) = own(moving, found[0]), own(faster, found[1])
        kernel = compiled(change_of(formula_changes(equation, m)), n=n)
        given = x, *rate, constants, force, gains, *rows, dx, *drate, dforce, *drows
        psi_q, psi_v, stiffness = run(kernel, *given)
        return RowChanges(psi_q, psi_v, stiffness, None)

    @property
    def _numbers(self) -> Array:
        return _padded(self._equation, self._constants)

    def _coordinates(self, run: Any, q: Any, names: Sequence[str]) -> Any:
        """The coordinates of joints, from those of their leaders if they have none of their own."""
        return run.joined(*(self._coordinate(run, q, name) for name in names))

    def _coordinate(self, run: Any, q: Any, name: str) -> Any:
        how = self._robot._coordinates.follows.get(name)
        if how is None:
            return run.taken(q, [self._robot.joint(name).q_slice.start])
        value = compiled(formula_value(how.formula, len(how.leaders)))
        return run(value, self._coordinates(run, q, how.leaders), _padded(how.formula, how.constants))


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
        self._length = length
        tasks = [Task(frame, "position", tuple(point.tolist())) for frame, point in zip(frames, points, strict=True)]
        self._ends = _OfTasks(robot.tasks(tasks, reference=_AXES))
        self.sites = self._ends.sites

    @property
    def scale(self) -> tuple[Array, Array]:
        """See `RowSet`; mobilities of the points add up."""
        return np.zeros(1, dtype=int), self._ends.scale[1][[0, 3]].sum(keepdims=True)

    def motion(self, run: Any, q: Any, v: Any) -> Sequence[Any]:
        """See `RowSet`."""
        of, motion = self._ends._recursions, self._ends.motion(run, q, v)
        nv = of.robot.mechanism.nv
        given = np.zeros(nv) if v is None else v, *motion, run(of.poses, q)
        row, drift, _ = run(compiled(distance_row, n=nv), *given)
        return row, drift

    def changes(self, run: Any, q: Any, v: Any, a: Any, force: Any, gains: Any) -> RowChanges:
        """See `RowSet`."""
        of, free = self._ends._recursions, np.zeros((6, 2))
        poses = run(of.poses, q)
        ends = self._ends.changes(run, q, v, a, run(compiled(distance_forces), poses, force), free)
        given = v, a, *self._ends.motion(run, q, v), poses, force, gains, run(of.velocity_derivative, q, v)
        row = compiled(distance_changes, n=of.robot.mechanism.nv)
        psi_q, psi_v, stiffness = run(row, *given, ends.psi_q, ends.psi_v, ends.turned)
        return RowChanges(psi_q, psi_v, stiffness, ends.wrench)

    def rates(self, run: Any, state: State, gains: Any, along: State) -> RowChanges:
        """See `RowSet`."""
        of, free = self._ends._recursions, np.zeros((6, 2))
        (q, v, a, force), (dq, dv, da, dforce) = state, along
        poses, dposes = run(of.poses, q), run(of.along(of.poses), q, dq)
        pulls = run(compiled(distance_forces), poses, force)
        dpulls = run(compiled(change_of(distance_forces)), poses, force, dposes, dforce)
        ends = self._ends.changes(run, q, v, a, pulls, free)
        dends = self._ends.rates(run, State(q, v, a, pulls), free, State(dq, dv, da, dpulls))
        J, drift, turned = *self._ends.motion(run, q, v), run(of.velocity_derivative, q, v)
        dJ, ddrift = run(of.along(of.jacobian), q, dq), run(of.along(of.jacobian_dot_v), q, v, dq, dv)
        dturned = run(of.along(of.velocity_derivative), q, v, dq, dv)
        given = v, a, J, drift, poses, force, gains, turned, ends.psi_q, ends.psi_v, ends.turned
        changed = dv, da, dJ, ddrift, dposes, dforce, dturned, dends.psi_q, dends.psi_v, dends.turned
        row = compiled(change_of(distance_changes), n=of.robot.mechanism.nv)
        psi_q, psi_v, stiffness = run(row, *given, *changed)
        return RowChanges(psi_q, psi_v, stiffness, dends.wrench)

    def error(self, run: Any, q: Any) -> Any:
        """See `RowSet`."""
        return run(compiled(distance_error), run(self._ends._recursions.poses, q), self._length)


class HingeRows(_OfTasks):
    """The rows of a hinge: the frames' origins and z axes coincide.

    Args:
        robot: The model.
        loop: The hinge.
    """

    _error = "hinge"

    def __init__(self, robot: Any, loop: Loop) -> None:
        turn = pose(alignment(loop.axis), np.zeros(3))
        ends = loop.first @ turn, loop.second @ turn
        super().__init__(robot.tasks([loop_task(loop, (0, 1, 3, 4, 5), *ends)], reference=_AXES))

    def error(self, run: Any, q: Any) -> Any:
        """See `RowSet`."""
        return run(compiled(hinge_error), run(self._recursions.poses, q))


def loop_task(loop: Loop, rows: Sequence[int], first: Array, second: Array) -> LoopTask:
    """The motion of a loop's second frame relative to its first, given their poses on its bodies."""
    poses = (tuple(T[:3].ravel().tolist()) for T in (first, second))
    return LoopTask(*loop.bodies, tuple(rows), loop.name, *poses)


def row_set(robot: Any, one: Any) -> RowSet | None:
    """The rows of a loop or coupling, unless they are those of a task."""
    if isinstance(one, Loop):
        return _OF_LOOPS[one.kind](robot, one) if one.kind in _OF_LOOPS else None
    return CouplingRow(robot, one)


def _distance(robot: Any, loop: Loop) -> DistanceRow:
    return DistanceRow(robot, loop.bodies, (loop.first[:3, 3], loop.second[:3, 3]), loop.length, str(loop))


_OF_LOOPS: dict[str, Any] = {"distance": _distance, "hinge": HingeRows}


def _padded(formula: Any, constants: Sequence[float]) -> Array:
    """The constants of a formula; a zero if it has none."""
    found = np.zeros(constants_of(formula))
    found[: len(constants)] = constants
    return found


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


@dataclass(frozen=True)
class Distance:
    """The distance between the origins of two frames: a rod without mass, a taut rope.

    Attributes:
        frame: Name of the first frame.
        other: Name of the second one.
        length: Their distance [m]; None for that at the configuration `at` of the constraints.
    """

    frame: str
    other: str
    length: float | None = None

    def __post_init__(self) -> None:
        for name in (self.frame, self.other):
            if not isinstance(name, str):
                raise InputError(f"a Distance takes names of frames, got {type(name).__name__}")
        if self.length is not None and not (isinstance(self.length, (int, float)) and 0.0 < self.length < np.inf):
            raise InputError(f"{self}: length is positive [m]; got {self.length!r}")

    def __str__(self) -> str:
        return f"distance between frames {self.frame!r} and {self.other!r}"


#: Constraints that are no rows of tasks, and say themselves what they hold.
_Own = Loop | LinearCoupling | PolynomialCoupling | FunctionCoupling
_OWN = (Loop, LinearCoupling, PolynomialCoupling, FunctionCoupling)
ReadConstraint = Weld | Task | RelativeTask | Distance | _Own
#: Anything accepted as a constraint. A frame name means a weld to the world.
AnyConstraint = str | ReadConstraint


def read_constraints(given: Any) -> tuple[ReadConstraint, ...]:
    """Normalise the user's constraints."""
    if isinstance(given, (str, Weld, Task, RelativeTask, Distance, *_OWN)) or not isinstance(given, Iterable):
        raise InputError("constraints is a sequence of Weld, names of frames and tasks; for one of them write [it]")
    if isinstance(given, (set, frozenset)):
        raise InputError("constraints is a set, which has no order, but rows have one; pass a list")
    found = tuple(Weld(one) if isinstance(one, str) else one for one in given)
    if not found:
        raise InputError("constraints is empty; use forward_dynamics")
    for one in found:
        if isinstance(one, CenterOfMassTask) or not isinstance(one, (Weld, Task, RelativeTask, Distance, *_OWN)):
            raise InputError(
                "constraints holds Weld, Distance, Task, RelativeTask, couplings, loops and names of frames; got "
                f"{type(one).__name__}"
            )
    return found


def names_of(constraints: Sequence[ReadConstraint]) -> tuple[str, ...]:
    """The welded frame or the loop's name, if that distinguishes the constraints; otherwise a full description."""
    short = [_short(one) for one in constraints]
    return tuple(name if short.count(name) == 1 else str(one) for name, one in zip(short, constraints, strict=True))


def _short(one: ReadConstraint) -> str:
    if isinstance(one, RelativeTask):
        return one.frame_b
    if isinstance(one, Loop):
        return one.name
    return one.frame if isinstance(one, (Weld, Task)) else str(one)


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


def held_poses(robot: Any, tasks: Sequence[Task | RelativeTask], q: Array | None) -> Array:
    """The poses that are held, as targets of the law, (m, 4, 4); identities if they are unknown."""
    found = []
    for task in tasks:
        frame, other, offset = _ends(task)
        T = np.eye(4)
        if q is not None and not isinstance(task, LoopTask):
            T = product(robot.pose(q, frame), offset)
            if other != "world":
                T = product(_inverse(robot.pose(q, other)), T)
        if isinstance(task, RelativeTask):
            found.append(np.eye(4))
        found.append(T)
    return np.array(found)


def task_of(one: Any) -> Task | RelativeTask:
    """The rows of a constraint between frames."""
    if isinstance(one, Weld):
        return one.task
    if isinstance(one, Loop):
        rows = (3, 4, 5) if one.kind == "connect" else (0, 1, 2, 3, 4, 5)
        return loop_task(one, rows, one.first, one.second)
    return cast(Task | RelativeTask, one)


def row_set_of(robot: Any, one: Any, at: Array | None) -> RowSet | None:
    """The rows of a constraint, unless they are those of a task."""
    if isinstance(one, Distance):
        length, zero = one.length, np.zeros(3)
        if length is None and at is None:
            raise InputError(f"{one}: give its length, or the configuration whose distance is held, at=q")
        if length is None:
            apart = robot.pose(at, one.other)[:3, 3] - robot.pose(at, one.frame)[:3, 3]
            length = math.sqrt(sum(x * x for x in apart.tolist()))
        return DistanceRow(robot, (one.frame, one.other), (zero, zero), length, str(one))
    return row_set(robot, one) if isinstance(one, _OWN) else None
