"""Rigid contacts with Coulomb friction between points of a robot and its environment; dry friction and stops of joints.

With v_f the velocities that the robot would have without contacts, impulses λ along the rows of all contacts give

    u = G λ + g         G = R Λ⁻¹ Rᵀ         g = R J v_f, normal rows + (h > 0 ? h : β h)/dt       (1)

J and Λ⁻¹ are those of the bodies that may touch something, six rows each in world axes, with constraints eliminated; R
takes them to two tangents and the normal of each contact. h is the gap: a point may close its gap within the step but
not more, and a fraction β of any penetration is corrected in each step. Impulses obey Signorini's and Coulomb's laws:

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (2)

solved by Newton's method together with dry friction and stops of joints (`kinetree.kernels.contact_newton`), from
nothing in each step: forces depend on the state alone. The residual measures the violation of (2), relative to the
fastest approach.

A step is a text (`kinetree.runtime.texts`) in four parts: where the bodies are and how they move, the problem (1), a
solver from G, g, μ to λ and u, and the velocities after λ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from kinetree.algorithms.dynamics.mass_factors import (
    PLACE,
    factored_accelerations,
    factored_impulses,
    factored_solution,
    factored_twists,
    mass_factors,
)
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_inverse, mass_matrix_solve
from kinetree.algorithms.kinematics.frame_kinematics import VELOCITIES, poses
from kinetree.algorithms.kinematics.manifold import joint_bounds
from kinetree.errors import InputError, ModelWarning
from kinetree.kernels.constrained_solution import moving_columns, row_response
from kinetree.kernels.contact_newton import FACES, FIXED, POINTS, contact_newton
from kinetree.kernels.contact_problem import (
    contact_forces,
    contact_points,
    contact_problem,
    contact_wrenches,
    velocities_after,
)
from kinetree.kernels.joint_rows import joined_problem
from kinetree.kernels.language import Kernel
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.texts import Varied
from kinetree.simulation.shapes import Plane, Shape
from kinetree.simulation.step_results import ContactProblem, Impulses
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import Task

#: The reference of velocities in world axes, at the frames themselves.
WORLD_AXES = "local_world_aligned"


class Solver(NamedTuple):
    """What users may change of the solver; None for what suits the contacts."""

    rounds: int | None = None
    compliance: float | None = None
    centrings: int | None = None

    def bound(self, points: bool, contacts: int, joints: int = 0) -> tuple[KernelFunction, Array]:
        """Newton's method for rows of contacts and then of joints, and its law.

        Args:
            points: Whether each contact is on a body of its own, and nothing else can hold that.
            contacts: Number of contacts.
            joints: Number of rows of joints.
        """
        law, rounds = (POINTS, 12) if points else (FACES, 30)
        epsilon = law.epsilon if self.compliance is None else self.compliance
        centrings = law.centrings if self.centrings is None else self.centrings
        function = compiled(
            contact_newton, r=3 * contacts + joints, rounds=1 + (rounds if self.rounds is None else self.rounds),
            contacts=[(3 * i,) for i in range(contacts)], joints=[(3 * contacts + i,) for i in range(joints)], **FIXED,
        )  # fmt: skip
        return function, np.array(law._replace(epsilon=epsilon, centrings=centrings))


#: Rotation, row by row, position, and once more the position, among the entries of a pose
OF_POSE = np.array([0, 1, 2, 4, 5, 6, 8, 9, 10, 3, 7, 11, 3, 7, 11])


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


@runtime_checkable
class Sole(Protocol):
    """What has contact points, as a `control.Foot`."""

    @property
    def frame(self) -> str: ...

    @property
    def points(self) -> Array: ...


def points_of(given: Any) -> Points:
    """Contact points: as they are, those of a `control.Foot`, or the origin of a frame that is named."""
    if isinstance(given, Points):
        return given
    if isinstance(given, str):
        return Points(given, (0.0, 0.0, 0.0))
    if isinstance(given, Sole):
        return Points(given.frame, given.points)
    raise InputError(f"contacts are simulation.Points, control.Foot or names of frames; got {type(given).__name__}")


@dataclass(frozen=True)
class PythonFunction:
    """A function of arrays that texts execute, but cannot record."""

    function: Callable[..., Any]

    def bound(self) -> Callable[..., Any]:
        """The function."""
        return self.function


class FactoredBodies:
    """The m bodies of a tree of rigid bodies in a step: from factors of the mass matrix, once for each configuration.

    `recursion` compiles a recursion for the robot and its bodies; a dynamic one for a population.
    """

    def __init__(self, run: Any, recursion: Callable[[Algorithm, bool], Compiled], count: int, solves: bool) -> None:
        self._run, self._recursion, self._count, self._q = run, recursion, count, None
        self._more = (factored_solution,) if solves else ()

    def at(self, q: Any) -> tuple[Any, Any, Any]:
        """Places, (m, 15), and Λ⁻¹, (6 m, 6 m), of the bodies; and its diagonal without constraints."""
        if q is not self._q:
            users = [self._recursion(factored_accelerations, True)]
            users += [self._recursion(one, False) for one in (factored_twists, factored_impulses, *self._more)]
            self._users, self._found = self._run.sharing(self._recursion(mass_factors, True), [q], users)
            self._q = q
        place, mobility = self._found
        return place, mobility, diagonal(self._run, mobility, 6 * self._count)

    def accelerations(self, q: Any, v: Any, tau: Any) -> Any:
        """Forward dynamics."""
        self.at(q)
        return self._users[0](v, tau)

    def twists(self, q: Any, v: Any) -> Any:
        """Velocities of the bodies in world axes, (m, 6)."""
        return self._users[1](v, self.at(q)[0])

    def after(self, q: Any, v: Any, wrench: Any) -> Any:
        """Joint velocities after impulses on the bodies in world axes, (6 m,)."""
        each = self._run.taken(wrench, np.arange(6 * self._count).reshape(-1, 6))
        return self._users[2](v, self.at(q)[0], each)

    def solved(self, q: Any, tau: Any, wrench: Any) -> Any:
        """M⁻¹ (τ + Jᵀw), if it was made for this."""
        return self._users[3](tau, self.at(q)[0], wrench)


class DenseBodies:
    """The same of any robot, also with constraints eliminated: by the response M⁻¹Jᵀ to forces on the bodies.

    `dynamics` yields Λ⁻¹, M⁻¹Jᵀ and the diagonal of Λ⁻¹ without constraints, given what runs functions, and q.
    """

    accelerations = None

    def __init__(
        self, run: Any, recursion: Callable[[Algorithm, bool], Compiled],
        dynamics: Callable[[Any, Any], tuple[Any, Any, Any]], count: int, nv: int,
    ) -> None:  # fmt: skip
        self._run, self._recursion, self._dynamics, self.count, self._nv = run, recursion, dynamics, count, nv

    def at(self, q: Any) -> tuple[Any, Any, Any]:
        """Places, (m, 15), and Λ⁻¹, (6 m, 6 m), of the bodies; and its diagonal without constraints."""
        T = self._run(self._recursion(poses, False), q)
        place = self._run.taken(T, 16 * np.arange(self.count)[:, None] + OF_POSE)
        mobility, self._response, own = self._dynamics(self._run, q)
        return place, mobility, own

    def twists(self, q: Any, v: Any) -> Any:
        """Velocities of the bodies in world axes, (m, 6)."""
        return self._run(self._recursion(VELOCITIES[WORLD_AXES], False), q, v)

    def after(self, _: Any, v: Any, wrench: Any) -> Any:
        """Joint velocities after impulses on the bodies, (6 m,), at the configuration of the last `at`."""
        return self._run(compiled(velocities_after, m=self._nv, n=6 * self.count), self._response, v, wrench)

    def solved(self, q: Any, tau: Any, wrench: Any) -> Any:
        """M⁻¹ (τ + Jᵀw) of a robot without constraints, at the configuration of the last `at`."""
        return self.after(q, self._run(self._recursion(mass_matrix_solve, True), q, tau), wrench)


def of_bodies(kernel: Kernel, bodies: tuple[int, ...]) -> KernelFunction:
    """A kernel of contacts that belong to bodies, given by their numbers."""
    contacts = [(3 * i, 6 * body) for i, body in enumerate(bodies)]
    return compiled(kernel, r=3 * len(bodies), n=6 * (max(bodies) + 1), contacts=contacts)


class Contacts:
    """Contacts between points of a robot and its environment, together with dry friction and stops of joints.

    Arguments as of `Simulator`; a `varied` robot is a population.

    Attributes:
        shapes: Shapes of the results of a single step, besides velocities.
        is_compiled: Whether its text can be recorded: all shapes have kernels.
        ground: What points may touch.
        frames: Frames that have points.
        body_of: For each point, the number of its frame.
        positions: Of points, in their frames, (k, 3).
        joints: Dry friction and stops, if there are any.
        law: The law that is solved, as numbers.
    """

    def __init__(
        self,
        robot: Model,
        points: Several[Points],
        ground: Several[Shape],
        held: Constraints | None,
        dt: float,
        joints: JointRows | None,
        solver: Solver,
        varied: bool = False,
    ) -> None:
        for shape in ground:
            if not isinstance(shape, Shape):
                raise InputError(f"ground holds shapes such as simulation.Plane, got {type(shape).__name__}")
        self._robot, self.ground, self._dt = robot, tuple(ground) or (Plane(),), dt
        self._tasks = [Task(one.frame, "position", tuple(p.tolist())) for one in points for p in one.positions]
        self.frames = frames = list(dict.fromkeys(one.frame for one in points))
        self._bodies = robot.tasks([Task(frame) for frame in frames], reference=WORLD_AXES)
        self._held = held
        body_of = [frames.index(one.frame) for one in points for _ in one.positions]
        self.body_of, self.positions = np.array(body_of), np.concatenate([one.positions for one in points])
        self._count, self.joints, self._varied = len(body_of), joints, varied
        self.rows = 3 * self._count * len(self.ground)
        self.shapes = {"forces": (self.rows,), "heights": (self.rows,), "report": (3,)}
        self.shapes |= {} if joints is None else joints.shapes
        frictions = [arguments.number("friction", shape.friction, 0.0) for shape in self.ground]
        self._mu = np.repeat(frictions, 3 * self._count)
        touching = tuple(body_of) * len(self.ground)
        self._problem, self._gather = (of_bodies(one, touching) for one in (contact_problem, contact_wrenches))
        alone = len(set(touching)) == len(touching) and joints is None and self._held is None
        self._solve, self.law = solver.bound(alone, len(touching), 0 if joints is None else len(joints.columns))
        self.is_compiled = all(shape.kernel for shape in self.ground)

    def bodies(self, run: Any, solves: bool = False) -> FactoredBodies | DenseBodies:
        """The bodies that may touch something, in a step; `solves` if `solved` is needed."""
        recursions = self._bodies.core.recursions

        def recursion(algorithm: Algorithm, dynamic: bool) -> Compiled:
            return self._bound(algorithm, recursions.sites, dynamic)

        def dynamics(run: Any, q: Any) -> tuple[Any, Any, Any]:
            if self._held is not None:
                return self._held_response(run, recursions, 6 * len(recursions.sites), q)
            inverse, response = (
                recursion(one.algorithm, True) for one in (recursions.inverse_inertia, recursions.response)
            )
            mobility = run(inverse, q)
            return mobility, run(response, q), diagonal(run, mobility, 6 * len(recursions.sites))

        if self._held is None and self._robot.mechanism.first_general is None:
            return FactoredBodies(run, recursion, len(recursions.sites), solves)
        return DenseBodies(run, recursion, dynamics, len(recursions.sites), self._robot.nv)

    def _held_response(self, run: Any, recursions: Any, rows: int, q: Any) -> tuple[Any, Any, Any]:
        """Λ⁻¹ and M⁻¹Jᵀ of tasks with some rows, with constraints eliminated; and the diagonal of Λ⁻¹ without them."""
        nv = self._robot.nv
        kernel = compiled(row_response, c=rows, n=nv, **moving_columns(range(nv), nv))
        J, Minv = run(recursions.jacobian, q), inverse_of(run, self._robot, self._varied, q)
        _, _, own = run(kernel, J, Minv)
        response, mobility, _ = run(kernel, J, cast(Constraints, self._held).mobility(run, q, Minv))
        return mobility, run.taken(response, np.arange(rows * nv).reshape(rows, nv).T), own

    def impulses(self, run: Any, q: Any, v: Any, bodies: Any) -> Impulses:
        """The effect of contacts in a step on velocities v: the text."""
        count, many, rows = self._count, len(self.ground), self.rows
        (place, mobility, own), twist = bodies.at(q), bodies.twists(q, v)
        of_points = [
            run.taken(x, width * self.body_of[:, None] + np.arange(width)) for x, width in ((place, PLACE), (twist, 6))
        ]
        points, *motion = run(compiled(contact_points, c=count), *of_points, self.positions)
        gaps = [run(self._measured(shape), points, shape.numbers) for shape in self.ground]
        arms, velocities, normals, heights = (
            run.joined(*(run.taken(x, np.arange(3 * count)) for x in each))
            for each in (*([x] * many for x in motion), *zip(*gaps, strict=True))
        )
        G, free, axes = run(self._problem, mobility, own, arms, velocities, normals, heights, self._dt)
        mu, bounds = self._friction(run)
        if self.joints is not None:
            given = self.joints.given(run, q, v)
            G, free, bounds = self.joints.joined(run, G, free, axes, mu, self._response(run, q), *given)
        found, moving, report = run(self._solve, G, free, bounds, self.law)
        forces = run(compiled(contact_forces, r=rows), axes, run.taken(found, np.arange(rows)))
        wrench = run(self._gather, arms, forces)
        problem = ContactProblem(G, free, bounds, found, moving, axes, arms, points, place, wrench)
        after = bodies.after(q, v, wrench)
        touched = Impulses(after, forces=forces, heights=heights, report=report, problem=problem)
        if self.joints is None:
            return touched
        after, pushed = self.joints.after(run, touched.velocity, found, rows, given[0])
        return touched._replace(velocity=after, joint_impulses=pushed)

    def _friction(self, run: Any) -> tuple[Any, Any]:
        """Friction of all rows, (r,), and bounds of a problem without joints, (r, 3)."""
        given, rows = run.named("ground friction"), self.rows
        if given is None:
            return self._mu, np.stack([self._mu, np.zeros(rows), np.zeros(rows)], axis=-1)
        of, none = np.repeat(np.arange(len(self.ground)), 3 * self._count), np.full(rows, len(self.ground))
        bounds = run.taken(run.joined(given, np.zeros(1)), np.stack([of, none, none], axis=-1))
        return run.taken(given, of), bounds

    def _measured(self, shape: Shape) -> Any:
        """The function that measures normals and heights of the points."""
        return PythonFunction(partial(_gaps, shape)) if shape.kernel is None else compiled(shape.kernel, c=self._count)

    def _response(self, run: Any, q: Any) -> Any:
        """Joint velocities per unit impulse at each point, once for each shape, (nv, r)."""
        nv, each = self._robot.nv, 3 * self._count
        recursions = self._of_points
        if self._held is None:
            found = run(self._bound(recursions.response.algorithm, recursions.sites, True), q)
        else:
            _, found, _ = self._held_response(run, recursions, each, q)
        return run.taken(found, each * np.arange(nv)[:, None] + np.tile(np.arange(each), len(self.ground)))

    @cached_property
    def _of_points(self) -> Any:
        return self._robot.tasks(self._tasks, reference=WORLD_AXES).core.recursions

    def on_points(self, rows: Array) -> Array:
        """The sum over all shapes of values of the rows, (…, k, 3)."""
        split = rows.reshape(*rows.shape[:-1], len(self.ground), self._count, 3)
        total = split[..., 0, :, :]
        for i in range(1, len(self.ground)):
            total = total + split[..., i, :, :]
        return total

    def _bound(self, algorithm: Algorithm, sites: tuple[Any, ...], dynamic: bool) -> Compiled:
        return bound_to(with_constants(algorithm) if dynamic and self._varied else algorithm, self._robot, sites)


@lru_cache(maxsize=64)
def bound_to(algorithm: Algorithm, robot: Model, sites: tuple[Any, ...]) -> Compiled:
    """A recursion of a robot."""
    return bind(algorithm, robot.mechanism, sites, "step")


def inverse_of(run: Any, robot: Model, varied: bool, q: Any) -> Any:
    """M⁻¹, (nv, nv); of a `varied` robot, each sample's own."""
    return run(bound_to(with_constants(mass_matrix_inverse) if varied else mass_matrix_inverse, robot, ()), q)


def diagonal(run: Any, matrix: Any, size: int) -> Any:
    """The diagonal of a matrix."""
    return run.taken(matrix, np.arange(size) * (size + 1))


def _gaps(shape: Shape, points: Array, _: Any) -> tuple[Array, Array]:
    """Normals, and heights at the normal row, (…, c, 3), by a shape's own Python code."""
    gaps, normals = shape.gap(points)
    heights = np.zeros(normals.shape)
    heights[..., 2] = gaps
    return normals, heights


class JointRows:
    """Impulses of dry friction, (nv,) [N m or N], and of stops at the limits of joints. Interface as of `Contacts`.

    Friction that differs in a population has leading axes.

    Attributes:
        columns: Degrees of freedom with friction or a stop.
        origin: Configuration from which limits are counted.
        lower: Limits, (nv,).
        upper: Limits, (nv,).
        law: The law that is solved, as numbers.
        shapes: Shapes of the results of a single step, besides velocities.
        is_compiled: Always.
    """

    is_compiled: ClassVar[bool] = True

    def __init__(
        self, robot: Model, dt: float, friction: Array, limits: bool, solver: Solver, varied: bool,
        held: Constraints | None = None,
    ) -> None:  # fmt: skip
        self._robot, self._dt, self._varied, self._held = robot, dt, varied, held
        self._dry: Any = dt * friction if friction.ndim == 1 else Varied("joint friction")
        self.origin = robot.neutral()
        self.lower, self.upper = np.full(robot.nv, -np.inf), np.full(robot.nv, np.inf)
        if limits:
            self._set_stops(robot)
        bounded = np.isfinite(self.lower) | np.isfinite(self.upper)
        self.columns = np.flatnonzero(bounded | (friction.reshape(-1, robot.nv) > 0.0).any(axis=0))
        self.shapes = {"report": (3,), "joint_impulses": (robot.nv,)}
        self._solve, self.law = solver.bound(held is None, 0, len(self.columns))

    def _set_stops(self, robot: Model) -> None:
        """Take the limits of joints, refuse robots without, and warn of limits that no velocity obeys."""
        left = []
        for joint in robot.joints:
            lower, upper = joint.limits.lower, joint.limits.upper
            if joint.nv == joint.type.nv:
                self.lower[joint.v_slice], self.upper[joint.v_slice] = lower, upper
            elif np.isfinite([lower, upper]).any():
                left.append(joint.name)
        if not np.isfinite([self.lower, self.upper]).any():
            raise InputError(
                f"Simulator(limits=True) stops nothing: no joint of {robot.name!r} with a velocity of its own has a "
                "position limit; add limits with robot.with_limits, or leave limits out"
            )
        if left:
            names = ", ".join(map(repr, left))
            text = f"Simulator(limits=True) does not stop coupled joints of {robot.name!r}: {names}"
            warnings.warn(text, ModelWarning, stacklevel=4)

    def bodies(self, run: Any, solves: bool = False) -> None:
        """No bodies touch anything."""

    def given(self, run: Any, q: Any, v: Any) -> tuple[Any, ...]:
        """M⁻¹, or what constraints leave of it; its diagonal without them; v, and `bounds`."""
        Minv = inverse_of(run, self._robot, self._varied, q)
        left = Minv if self._held is None else self._held.mobility(run, q, Minv)
        return left, diagonal(run, Minv, self._robot.nv), v, *self.bounds(run, q)

    def bounds(self, run: Any, q: Any) -> tuple[Any, ...]:
        """The velocities between which joints stay within their stops, and the largest friction."""
        limits = self.origin, self.lower, self.upper, self._dt
        return *run(bound_to(joint_bounds, self._robot, ()), q, *limits), self._dry

    def joined(self, run: Any, G: Any, free: Any, axes: Any, *given: Any) -> tuple[Any, Any, Any]:
        """Matrix, velocities and bounds of the problem of contacts and joints; `given` are as of `joined_problem`."""
        rows = given[0].size
        contacts = [(i, i) for i in range(0, rows, 3)]
        return self._problem(run, rows, contacts, G, free, axes, *given)

    def _problem(self, run: Any, rows: int, contacts: list[tuple[int, int]], *given: Any) -> tuple[Any, Any, Any]:
        nv, first = self._robot.nv, 3 * len(contacts)
        joints = [(first + i, int(c)) for i, c in enumerate(self.columns)]
        total = first + len(joints)
        found: tuple[Any, Any, Any] = run(
            compiled(joined_problem, r=rows, n=nv, t=total, contacts=contacts, joints=joints), *given
        )
        return found

    def after(self, run: Any, v: Any, found: Any, rows: int, inverse: Any) -> tuple[Any, Any]:
        """Joint velocities after impulses, of which those of joints follow `rows` others; and these, (nv,)."""
        nv = self._robot.nv
        pushed = run.placed(run.taken(found, rows + np.arange(len(self.columns))), self.columns, (nv,))
        return run(compiled(velocities_after, m=nv, n=nv), inverse, v, pushed), pushed

    def impulses(self, run: Any, q: Any, v: Any, _: Any) -> Impulses:
        """The effect of friction and stops in a step without contacts: the text. Arguments as of `Contacts`."""
        given = self.given(run, q, v)
        nothing = np.zeros((3, 3)), np.zeros(3), np.zeros((3, 3)), np.zeros(3), np.zeros((self._robot.nv, 3))
        problem = self._problem(run, 3, [], *nothing, *given)
        found, moving, report = run(self._solve, *problem, self.law)
        after, pushed = self.after(run, v, found, 0, given[0])
        solved = ContactProblem(*problem, found, moving)
        return Impulses(after, report=report, joint_impulses=pushed, problem=solved)
