"""Rigid contacts with Coulomb friction between points of a robot and its environment.

With v_f the velocities that the robot would have without contacts, impulses λ along the rows of all contacts give

    u = G λ + g         G = R Λ⁻¹ Rᵀ         g = R J v_f, normal rows + (h > 0 ? h : β h)/dt       (1)

J and Λ⁻¹ are those of the points, three rows each in world axes, with constraints eliminated; R turns them to two
tangents and the normal of each contact. h is the gap: a point may close its gap within the step but not more, and a
fraction β of any penetration is corrected in each step. Impulses obey Signorini's and Coulomb's laws:

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (2)

solved by a fixed number of sweeps of projected Gauss–Seidel (`kinetree.algorithms.contact_sweep`), so that the bits of
a sample do not depend on others. `residual` measures the violation of (2), relative to the largest impulse. With poor
mass ratios, such as a light body under a heavy one, sweeps converge slowly and the residual is large; rounds of ADMM
(`kinetree.algorithms.contact_admm`) cost more and do not mind.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np

from kinetree.algorithms.contact_points import after_impulses, contact_points, point_wrenches
from kinetree.algorithms.contact_problem import contact_residual
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.errors import InputError
from kinetree.model.model import Model
from kinetree.operational_space.products import times
from kinetree.operational_space.tasks import Task
from kinetree.recursion.algorithm import Algorithm, with_constants
from kinetree.simulation.joint_rows import JointRows, joined
from kinetree.simulation.results import Impulses
from kinetree.simulation.shapes import Plane, Shape, contact_sites, measured
from kinetree.simulation.solvers import admm_solver, joint_solver, sweeps_solver
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
        try:
            positions = np.array(self.positions, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"points of {self.frame!r}: positions are not numbers") from None
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
        sweeps: Number of projected Gauss–Seidel sweeps.
        dt: Time step [s].
        joints: Dry friction and stops of joints, if there are any.
        solver: "pgs" or "admm".
        varied: Whether the robot is a population, whose constants are those of the sequence.

    Attributes:
        size: Number of impulses: three for each pair of a shape and a point, then those of joints.
        fields: The results of a single step, besides velocities.
        lengths: Their lengths.
        residual: Takes errors, impulses and another residual; returns the largest residual.
        is_compiled: Whether `record` can be used: nothing is held fixed, and all shapes are known to compiled steps.
    """

    fields: ClassVar[tuple[str, ...]] = ("forces", "errors", "heights", "impulses")

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
        self._free = robot.tasks(tasks, reference=_WORLD_AXES).core.recursions
        self._held = robot.tasks(tasks, reference=_WORLD_AXES, contacts=constraints) if constraints else None
        self._count = len(tasks)
        self.rows = 3 * self._count * len(self._ground)
        self._joints, self._varied = joints, varied
        self.size = self.rows + (joints.size if joints else 0)
        self.lengths = {**dict.fromkeys(self.fields, self.rows), "impulses": self.size}
        frictions = np.repeat([shape.friction for shape in self._ground], 3 * self._count)
        if solver == "admm":
            self._solve = admm_solver(self.rows // 3, sweeps, frictions.tobytes())
        elif joints is None:
            self._solve = sweeps_solver(self.rows // 3, sweeps, frictions.tobytes())
        else:
            self._solve = joint_solver(robot, self._free.sites * len(self._ground), sweeps, frictions, joints)
        self.residual = bind(contact_residual, *contact_sites(self.rows // 3), "residual")
        self.is_compiled = self._held is None and all(shape.algorithm for shape in self._ground)

    def record(self, sequence: Sequence, q: Place, v: Place, start: Any) -> Impulses:
        """Record the contacts of a step.

        Args:
            sequence: Where.
            q: Configuration.
            v: Joint velocities without contacts.
            start: Impulses that the sweeps start from.
        """
        call = sequence.call
        points, axes, velocity = call(self._recursion(contact_points), q, v)
        mobility = call(self._recursion(self._free.inverse_inertia.algorithm, dynamic=True), q)
        normals, heights = sequence.space(self.rows), sequence.space(self.rows)
        per_shape = [(3 * self._count * i, 3 * self._count) for i in range(len(self._ground))]
        for shape, part in zip(self._ground, per_shape, strict=True):
            into = [normals.part(*part), heights.part(*part)]
            call(measured(cast(Algorithm, shape.algorithm), self._count), points, shape.numbers, into=into)
        many = len(self._ground)
        velocity, mobility = (
            _tiled(sequence, velocity, 1, many),
            _tiled(sequence, mobility, 3 * self._count, many, many),
        )
        problem = [mobility, velocity, normals, heights, self._dt]
        if self._joints is not None:
            return self._record_joints(sequence, q, v, start, problem)
        forces, errors, impulses = call(self._solve, *problem, start)
        wrench: Any = np.zeros(6 * self._count)
        for part in per_shape:  # a point may touch several shapes: its forces add up
            wrench = call(self._recursion(point_wrenches), axes, forces.part(*part), wrench)
        after = call(self._recursion(after_impulses, dynamic=True), q, v, wrench)
        return Impulses(after, forces, errors, heights, impulses)

    def _record_joints(self, sequence: Sequence, q: Place, v: Place, start: Any, problem: list[Any]) -> Impulses:
        joints = cast(JointRows, self._joints)
        Minv, bounds = joints.mobility(sequence.call, q), joints.bounds(sequence.call, q)
        response = sequence.call(self._recursion(self._free.response.algorithm, dynamic=True), q)
        response = _tiled(sequence, response, self._robot.nv, len(self._ground))
        parts = start.part(0, self.rows), start.part(self.rows, joints.size)
        solved = sequence.call(self._solve, *problem, *parts, Minv, response, v, *bounds)
        after, forces, errors, own, others = solved
        return Impulses(after, forces, errors, problem[3], joined(sequence, [own, others]))

    def apply(self, q: Array, v: Array, start: Array) -> Impulses:
        """The same on arrays, with constraints eliminated and for any shapes."""
        points, axes, velocity = self._recursion(contact_points)(q, v)
        mobility, response = self._dynamics(q)
        found = [shape.gap(points) for shape in self._ground]
        normals = np.concatenate([n for _, n in found], axis=-2)
        heights = np.zeros(normals.shape)
        heights[..., 2] = np.concatenate([h for h, _ in found], axis=-1)
        normals, heights, velocity = (x.reshape(*q.shape[:-1], -1) for x in (normals, heights, velocity))
        many = len(self._ground)
        problem = [np.tile(mobility, (many, many)), np.tile(velocity, many), normals, heights, self._dt]
        if self._joints is not None:
            joints, call = self._joints, lambda function, *inputs: function(*inputs)
            response = np.tile(self._free.response(q), many)
            parts = start[..., : self.rows], start[..., self.rows :]
            extra = joints.mobility(call, q), response, v, *joints.bounds(call, q)
            after, forces, errors, own, others = self._solve(*problem, *parts, *extra)
            return Impulses(after, forces, errors, heights, np.concatenate([own, others], axis=-1))
        forces, errors, impulses = self._solve(*problem, start)
        total = self.on_points(forces)
        if response is None:
            wrench = self._recursion(point_wrenches)(axes, total, np.zeros((self._count, 6)))
            after = self._recursion(after_impulses)(q, v, wrench)
        else:
            after = v + times(response, total.reshape(*total.shape[:-2], -1))
        return Impulses(after, forces, errors, heights, impulses)

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

    def _dynamics(self, q: Array) -> tuple[Array, Array | None]:
        """Λ⁻¹ of the points, and with constraints M⁻¹Jᵀ."""
        if self._held is None:
            return self._free.inverse_inertia(q), None
        state: Any = self._held.at(q)
        return state.inverse_inertia, state._response


def _tiled(sequence: Sequence, matrix: Place, rows: int, across: int, down: int = 1) -> Place:
    """A matrix repeated, the given numbers of times `down` and `across`."""
    if across == down == 1:
        return matrix
    length = matrix.size // rows
    result = sequence.space(matrix.size * across * down)
    for i in range(rows * down):
        row = matrix.part(i % rows * length, length)
        for j in range(across):
            sequence.copy(row, result.part((i * across + j) * length, length))
    return result


@lru_cache(maxsize=64)
def _bound(algorithm: Algorithm, robot: Model, sites: tuple[Any, ...]) -> Compiled:
    return bind(algorithm, robot.mechanism, sites, "contacts")
