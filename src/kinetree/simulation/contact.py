"""Rigid contacts with Coulomb friction between points of a robot and its environment.

With v_f the velocities that the robot would have without contacts, impulses λ along the rows of all contacts give

    u = G λ + g         G = R Λ⁻¹ Rᵀ         g = R J v_f, normal rows + (h > 0 ? h : β h)/dt       (1)

J and Λ⁻¹ are those of the bodies that may touch something, six rows each in world axes, with constraints eliminated; R
takes them to two tangents and the normal of each contact. h is the gap: a point may close its gap within the step but
not more, and a fraction β of any penetration is corrected in each step. Impulses obey Signorini's and Coulomb's laws:

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (2)

solved by a fixed number of Gauss–Seidel sweeps over contacts (`kinetree.kernels.contact_sweep`), so that the bits of
a sample do not depend on others. The residual measures the violation of (2), relative to the fastest approach
(`kinetree.kernels.contact_problem`). With poor mass ratios, such as a light body under a heavy one, sweeps converge
slowly and the residual is large; rounds of ADMM (`kinetree.kernels.contact_admm`) cost more and do not mind.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np

from kinetree.algorithms.contact_points import after_impulses, contact_bodies
from kinetree.engines import arguments
from kinetree.engines.kernel_function import compiled
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.errors import InputError
from kinetree.kernels.contact_problem import body_wrenches, contact_points, contact_wrenches
from kinetree.kernels.language import Kernel
from kinetree.model.model import Model
from kinetree.operational_space.products import times
from kinetree.operational_space.tasks import Task
from kinetree.recursion.algorithm import Algorithm, with_constants
from kinetree.simulation.factored import Factored
from kinetree.simulation.joint_rows import JointRows, joined
from kinetree.simulation.results import Impulses
from kinetree.simulation.shapes import Plane, Shape
from kinetree.simulation.solvers import admm_solver, joint_solver, of_bodies, sweeps_solver
from kinetree.spatial.value import Array

_WORLD_AXES = "local_world_aligned"


@dataclass(frozen=True, eq=False)
class Points:
    """Contact points of a body.

    Attributes:
        frame: Name of a frame.
        positions: Positions in the frame, (k, 3) or (3,) [m].
    """

    frame: str
    positions: Any

    def __post_init__(self) -> None:
        positions = np.array(arguments.numbers(f"points of {self.frame!r}", "positions", self.positions), np.float64)
        positions = positions[None] if positions.ndim == 1 else positions
        if positions.ndim != 2 or positions.shape[1] != 3 or not len(positions) or not np.isfinite(positions).all():
            raise InputError(f"points of {self.frame!r}: positions are (k, 3), finite; got shape {positions.shape}")
        positions.setflags(write=False)
        object.__setattr__(self, "positions", positions)


class Contacts:
    """Contacts between points of a robot and its environment, together with dry friction and stops of joints.

    Args:
        robot: The robot.
        points: Points that may touch.
        ground: Shapes that they may touch.
        constraints: Tasks that are held fixed, and eliminated.
        sweeps: Number of sweeps, or rounds, of the solver.
        dt: Time step [s].
        joints: Dry friction and stops of joints, if there are any.
        solver: "pgs" or "admm".
        varied: Whether the robot is a population, whose constants are those of the sequence.

    Attributes:
        size: Number of impulses: three for each pair of a shape and a point, then those of joints.
        fields: The results of a single step, besides velocities.
        shapes: Their shapes.
        is_compiled: Whether `record` can be used: nothing is held fixed, and all shapes are known to compiled steps.
    """

    fields: ClassVar[tuple[str, ...]] = ("forces", "residual", "heights", "impulses")

    def __init__(
        self,
        robot: Model,
        points: Several[Points],
        ground: Several[Shape],
        constraints: Several[Any],
        sweeps: int,
        dt: float,
        joints: JointRows | None,
        solver: str = "pgs",
        varied: bool = False,
    ) -> None:
        for one in points:
            if not isinstance(one, Points):
                raise InputError(f"contacts holds simulation.Points, got {type(one).__name__}")
        for shape in ground:
            if not isinstance(shape, Shape):
                raise InputError(f"ground holds shapes such as simulation.Plane, got {type(shape).__name__}")
        self._robot, self._ground, self._dt = robot, tuple(ground) or (Plane(),), dt
        tasks = [Task(one.frame, "position", tuple(p.tolist())) for one in points for p in one.positions]
        frames = list(dict.fromkeys(one.frame for one in points))
        bodies = [Task(frame) for frame in frames]
        self._free = robot.tasks(bodies, reference=_WORLD_AXES).core.recursions
        self._held = robot.tasks(bodies, reference=_WORLD_AXES, contacts=constraints) if constraints else None
        self._points = robot.tasks(tasks, reference=_WORLD_AXES).core.recursions
        self._body_of = tuple(frames.index(one.frame) for one in points for _ in one.positions)
        self._positions = np.concatenate([one.positions for one in points])
        self._count = len(tasks)
        self.rows = 3 * self._count * len(self._ground)
        self._joints, self._varied = joints, varied
        self.size = self.rows + (joints.size if joints else 0)
        self.shapes = {"forces": (self.rows,), "residual": (), "heights": (self.rows,), "impulses": (self.size,)}
        frictions = tuple(arguments.number("friction", shape.friction, 0.0) for shape in self._ground for _ in tasks)
        touching = self._body_of * len(self._ground)
        if solver == "admm":
            self._solve = admm_solver(touching, sweeps, frictions)
        elif joints is None:
            self._solve = sweeps_solver(touching, sweeps, frictions)
        else:
            self._solve = joint_solver(robot.nv, touching, sweeps, frictions, joints)
        self._place = compiled(contact_points, c=self._count)
        self._gather = of_bodies(contact_wrenches, touching)
        self._turn = compiled(body_wrenches, c=len(bodies))
        self.is_compiled = self._held is None and all(shape.kernel for shape in self._ground)

    def factored(self, sequence: Sequence) -> Factored | None:
        """The factors of the mass matrix in a step; None for trees with nodes that are no rigid bodies."""
        if self._free.robot.mechanism.first_general is not None:
            return None
        return Factored(sequence, lambda algorithm, dynamic: self._recursion(algorithm, dynamic=dynamic))

    def record(self, sequence: Sequence, q: Place, v: Place, start: Any, factored: Factored | None) -> Impulses:
        """Record the contacts of a step.

        Args:
            sequence: Where.
            q: Configuration.
            v: Joint velocities without contacts.
            start: Impulses that the sweeps start from.
            factored: From `factored`.
        """
        call, many = sequence.call, len(self._ground)
        if factored is None:
            place, twist = call(self._recursion(contact_bodies), q, v)
            mobility = call(self._recursion(self._free.inverse_inertia.algorithm, dynamic=True), q)
        else:
            (_, place, mobility), twist = factored.at(q), factored.twists(q, v)
        of_points = [_chosen(sequence, one, self._body_of) for one in (place, twist)]
        points, arm, velocity = call(self._place, *of_points, self._positions)
        normals, heights = sequence.space(self.rows), sequence.space(self.rows)
        per_shape = [(3 * self._count * i, 3 * self._count) for i in range(many)]
        for shape, part in zip(self._ground, per_shape, strict=True):
            into = [normals.part(*part), heights.part(*part)]
            call(compiled(cast(Kernel, shape.kernel), c=self._count), points, shape.numbers, into=into)
        arms, velocities = (_tiled(sequence, one, 1, many) for one in (arm, velocity))
        problem = [mobility, arms, velocities, normals, heights, self._dt]
        if self._joints is not None:
            return self._record_joints(sequence, q, v, start, problem)
        forces, residual, impulses = call(self._solve, *problem, start)
        wrench = call(self._gather, arms, forces)
        if factored is None:
            turned = call(self._turn, place, wrench)
            after = call(self._recursion(after_impulses, dynamic=True), q, v, turned)
        else:
            after = factored.after_impulses(q, v, wrench)
        return Impulses(after, forces, residual, heights, impulses)

    def _record_joints(self, sequence: Sequence, q: Place, v: Place, start: Any, problem: list[Any]) -> Impulses:
        joints = cast(JointRows, self._joints)
        Minv, bounds = joints.mobility(sequence.call, q), joints.bounds(sequence.call, q)
        response = sequence.call(self._of_points(self._points.response.algorithm), q)
        response = _tiled(sequence, response, self._robot.nv, len(self._ground))
        parts = start.part(0, self.rows), start.part(self.rows, joints.size)
        solved = sequence.call(self._solve, *problem, *parts, Minv, response, v, *bounds)
        after, forces, residual, own, others = solved
        return Impulses(after, forces, residual, problem[4], joined(sequence, [own, others]))

    def apply(self, q: Array, v: Array, start: Array) -> Impulses:
        """The same on arrays, with constraints eliminated and for any shapes."""
        place, twist = self._recursion(contact_bodies)(q, v)
        mobility, response = self._dynamics(q)
        body_of, many = list(self._body_of), len(self._ground)
        points, arm, velocity = self._place(place[..., body_of, :], twist[..., body_of, :], self._positions)
        found = [shape.gap(points) for shape in self._ground]
        normals = np.concatenate([n for _, n in found], axis=-2)
        heights = np.zeros(normals.shape)
        heights[..., 2] = np.concatenate([h for h, _ in found], axis=-1)
        rows = [x.reshape(*q.shape[:-1], -1) for x in (arm, velocity, normals, heights)]
        problem: list[Any] = [mobility, *(np.tile(x, many) for x in rows[:2]), *rows[2:], self._dt]
        if self._joints is not None:
            joints, call = self._joints, lambda function, *inputs: function(*inputs)
            parts = start[..., : self.rows], start[..., self.rows :]
            extra = joints.mobility(call, q), np.tile(self._points.response(q), many), v, *joints.bounds(call, q)
            after, forces, residual, own, others = self._solve(*problem, *parts, *extra)
            return Impulses(after, forces, residual, rows[3], np.concatenate([own, others], axis=-1))
        forces, residual, impulses = self._solve(*problem, start)
        wrench = self._gather(problem[1], forces)
        if response is None:
            turned = self._turn(place, wrench.reshape(*wrench.shape[:-1], -1, 6))
            after = self._recursion(after_impulses)(q, v, turned)
        else:
            after = v + times(response, wrench)
        return Impulses(after, forces, residual, rows[3], impulses)

    def on_points(self, rows: Array) -> Array:
        """The sum over all shapes of values of the rows, (…, k, 3)."""
        split = rows.reshape(*rows.shape[:-1], len(self._ground), self._count, 3)
        total = split[..., 0, :, :]
        for i in range(1, len(self._ground)):
            total = total + split[..., i, :, :]
        return total

    def _recursion(self, algorithm: Algorithm, dynamic: bool = False) -> Compiled:
        algorithm = with_constants(algorithm) if dynamic and self._varied else algorithm
        return _bound(algorithm, self._robot, self._free.sites)

    def _of_points(self, algorithm: Algorithm) -> Compiled:
        return _bound(with_constants(algorithm) if self._varied else algorithm, self._robot, self._points.sites)

    def _dynamics(self, q: Array) -> tuple[Array, Array | None]:
        """Λ⁻¹ of the bodies, and with constraints M⁻¹Jᵀ."""
        if self._held is None:
            return self._free.inverse_inertia(q), None
        state: Any = self._held.at(q)
        return state.inverse_inertia, state._response


def _tiled(sequence: Sequence, matrix: Place, rows: int, times: int) -> Place:
    """A matrix repeated from left to right."""
    if times == 1:
        return matrix
    length = matrix.size // rows
    result = sequence.space(matrix.size * times)
    for i in range(rows):
        for j in range(times):
            sequence.copy(matrix.part(i * length, length), result.part((i * times + j) * length, length))
    return result


def _chosen(sequence: Sequence, of_bodies: Place, chosen: tuple[int, ...]) -> Place:
    """The parts of an array that belong to some bodies, side by side."""
    length = of_bodies.size // (max(chosen) + 1)
    if chosen == tuple(range(len(chosen))):
        return of_bodies
    result = sequence.space(length * len(chosen))
    for i, body in enumerate(chosen):
        sequence.copy(of_bodies.part(body * length, length), result.part(i * length, length))
    return result


@lru_cache(maxsize=64)
def _bound(algorithm: Algorithm, robot: Model, sites: tuple[Any, ...]) -> Compiled:
    return bind(algorithm, robot.mechanism, sites, "contacts")
