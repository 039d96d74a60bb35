"""Rigid contacts with Coulomb friction between points of a robot and its environment.

With v_f the velocities that the robot would have without contacts, impulses λ along the rows of all contacts give

    u = G λ + g         G = R Λ⁻¹ Rᵀ         g = R J v_f, normal rows + (h > 0 ? h : β h)/dt       (1)

J and Λ⁻¹ are those of the bodies that may touch something, six rows each in world axes, with constraints eliminated; R
takes them to two tangents and the normal of each contact. h is the gap: a point may close its gap within the step but
not more, and a fraction β of any penetration is corrected in each step. Impulses obey Signorini's and Coulomb's laws:

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (2)

solved by a fixed number of Gauss–Seidel sweeps over contacts (`kinetree.kernels.contact_solvers`), so that the bits of
a sample do not depend on others. The residual measures the violation of (2), relative to the fastest approach
(`kinetree.kernels.contact_problem`). With poor mass ratios, such as a light body under a heavy one, sweeps converge
slowly and the residual is large; rounds of ADMM (`kinetree.kernels.contact_solvers`) cost more and do not mind.

Factors of the mass matrix as part of a recorded step, computed once for each configuration in it.

Solvers of the contact problem (`kinetree.simulation.contacts`) as sequences of kernels.

They take the mobility Λ⁻¹ of all bodies that may touch something, in world axes, the arms, velocities, normals and
heights of the contacts, the time step and the impulses to start from. They return impulses in world axes, the residual,
and impulses in contact axes.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from kinetree.algorithms.dynamics.mass_factors import (
    factored_accelerations,
    factored_impulses,
    factored_twists,
    mass_factors,
)
from kinetree.algorithms.kinematics.contact_points import after_impulses, contact_bodies
from kinetree.errors import InputError
from kinetree.kernels.contact_problem import (
    body_wrenches,
    contact_forces,
    contact_points,
    contact_problem,
    contact_start,
    contact_velocities,
    contact_wrenches,
)
from kinetree.kernels.contact_solvers import (
    SEVERAL,
    admm_adapt,
    admm_round,
    admm_weights,
    contact_sweep,
    contact_sweeps,
)
from kinetree.kernels.eigen import diagonalize
from kinetree.kernels.joint_rows import (
    joint_contact_start,
    joint_contact_sweep,
    joint_residual,
    joint_share,
    joint_start,
    response_to_contacts,
)
from kinetree.kernels.language import Kernel
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.matrix_products import times
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, KernelSequence, MemorySpan
from kinetree.simulation.shapes import Plane, Shape
from kinetree.simulation.step_constraints import JointRows, joined
from kinetree.simulation.step_results import Impulses
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import Task

#: Recursions that start from the results of `mass_factors`.
_SHARING = (factored_accelerations, factored_twists, factored_impulses)


class Factors(NamedTuple):
    """Factors of the mass matrix at a configuration, in the memory that calls read.

    Attributes:
        calls: Those of accelerations, twists and impulses, with the factors as their first input.
        place: Poses of the frames that may touch something.
        mobility: Their Λ⁻¹.
    """

    calls: list[Call]
    place: MemorySpan
    mobility: MemorySpan


class Factored:
    """What a step computes from factors of the mass matrix.

    Args:
        sequence: Where the step is recorded.
        recursion: Compiles a recursion for the robot and its frames; a dynamic one for a population.
    """

    def __init__(self, sequence: KernelSequence, recursion: Callable[[Algorithm, bool], Compiled]) -> None:
        self._sequence, self._recursion = sequence, recursion
        self._found: dict[MemorySpan, Factors] = {}

    def at(self, q: MemorySpan) -> Factors:
        """The factors at a configuration, whose place keeps its value until the end of the step."""
        if q not in self._found:
            calls = self._sequence.share(*(self._recursion(one, one is factored_accelerations) for one in _SHARING))
            into = calls[0].inputs[0], None, None
            _, *found = self._sequence.call(self._recursion(mass_factors, True), q, into=into)
            self._found[q] = Factors(calls, *found)
        return self._found[q]

    def accelerations(self, q: MemorySpan, v: MemorySpan, tau: MemorySpan) -> MemorySpan:
        """Forward dynamics."""
        return self._run(q, 0, v, tau)

    def twists(self, q: MemorySpan, v: MemorySpan) -> MemorySpan:
        """Velocities of the frames."""
        return self._run(q, 1, v, self.at(q).place)

    def after_impulses(self, q: MemorySpan, v: MemorySpan, wrench: MemorySpan) -> MemorySpan:
        """Joint velocities after impulses on the frames."""
        return self._run(q, 2, v, self.at(q).place, wrench)

    def _run(self, q: MemorySpan, number: int, *inputs: MemorySpan) -> MemorySpan:
        call = self.at(q).calls[number]
        # those of a population come last
        constants = [self._sequence.defaults["constants"]] if len(call.inputs) > 1 + len(inputs) else []
        (result,) = call.run(None, *inputs, *constants)
        return result


#: Rounds of ADMM after which ρ is adapted.
_ADAPTED = 5
#: Sweeps after rounds of ADMM.
_AFTER_ADMM = 11


def of_bodies(kernel: Kernel, bodies: tuple[int, ...]) -> KernelFunction:
    """A kernel of contacts that belong to bodies, given by their numbers."""
    contacts = [(3 * i, 6 * body) for i, body in enumerate(bodies)]
    return compiled(kernel, r=3 * len(bodies), n=6 * (max(bodies) + 1), contacts=contacts)


def _problem(bodies: tuple[int, ...]) -> tuple[KernelFunction, list[Operand]]:
    """The kernel that states the problem of contacts of these bodies, and its inputs."""
    moving, r = 6 * (max(bodies) + 1), 3 * len(bodies)
    inputs = [Operand("mobility", (moving, moving))]
    inputs += [Operand(name, (r,)) for name in ("arm", "velocity", "normal", "height")]
    inputs += [Operand("dt", ()), Operand("start", (r,))]
    return of_bodies(contact_problem, bodies), inputs


def _results(rows: int) -> list[Operand]:
    return [Operand("forces", (rows,)), Operand("residual", ()), Operand("impulses", (rows,))]


def _bound_to(contacts: int, *kernels: Kernel) -> list[KernelFunction]:
    return [compiled(one, r=3 * contacts) for one in kernels]


@lru_cache(maxsize=32)
def sweeps_solver(bodies: tuple[int, ...], sweeps: int, frictions: tuple[float, ...], rounds: int = 0) -> Compiled:
    """Impulses in world axes, the residual and λ; all robots share it.

    Args:
        bodies: The body of each contact.
        sweeps: Number of sweeps.
        frictions: μ of each contact.
        rounds: Number of rounds of ADMM before them.
    """
    r, friction = 3 * len(bodies), np.repeat(frictions, 3)
    begin, velocities, finish, *sweeping = _bound_to(
        len(bodies), contact_start, contact_velocities, contact_forces, contact_sweeps, contact_sweep
    )
    prepare, inputs = _problem(bodies)
    sequence = KernelSequence("contacts", inputs, _results(r))
    *problem, start = sequence.inputs
    swept, once = sequence.share(*sweeping)
    G, scale, mu, u, impulse = swept.inputs
    _, _, free, axes = sequence.call(prepare, *problem, into=(G, scale, None, None))
    sequence.copy(sequence.constant(friction), mu)
    start = _admm(sequence, len(bodies), rounds, G, mu, free, start) if rounds else start
    sequence.call(begin, G, free, start, into=(u, impulse))
    # the first with many rounds for each contact, then several at a time, and what is left over
    for some, count in ((once, 1), (swept, (sweeps - 1) // SEVERAL), (once, (sweeps - 1) % SEVERAL)):
        if count:
            with sequence.loop(count):
                for result, place in zip(some.run(*(None,) * 5), (u, impulse), strict=True):
                    sequence.copy(result, place)
    u = sequence.call(velocities, G, impulse, free)
    forces, residual, impulses = sequence.outputs
    found = axes, impulse, free, u, friction, scale, np.zeros(4)
    sequence.call(finish, *found, into=[forces, impulses, None, residual])
    return sequence.finish()


def admm_solver(bodies: tuple[int, ...], rounds: int, frictions: tuple[float, ...]) -> Compiled:
    """The same by rounds of ADMM, and a few sweeps: rounds couple contacts well, sweeps solve each of them."""
    return sweeps_solver(bodies, _AFTER_ADMM, frictions, rounds)


def _admm(
    sequence: KernelSequence,
    contacts: int,
    rounds: int,
    G: MemorySpan,
    mu: MemorySpan,
    free: MemorySpan,
    start: MemorySpan,
) -> MemorySpan:
    """Record rounds of ADMM; returns λ."""
    weigh, one_round, adapt = _bound_to(contacts, admm_weights, admm_round, admm_adapt)
    values, vectors = sequence.call(compiled(diagonalize, n=3 * contacts), G)
    rho, gain = sequence.call(weigh, values)
    rounded = sequence.prepare(one_round)
    given = (vectors, gain, rho, mu, free, start, sequence.constant(np.zeros(3 * contacts)))
    for source, place in zip(given, rounded.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(-(-rounds // _ADAPTED)):
        with sequence.loop(_ADAPTED):
            impulse, dual, off, step = rounded.run(*(None,) * len(given))
            sequence.copy(impulse, rounded.inputs[5])
            sequence.copy(dual, rounded.inputs[6])
        follow, gain = sequence.call(adapt, values, G, rho, rounded.inputs[2], off, step)
        sequence.copy(gain, rounded.inputs[1])
        sequence.copy(follow, rounded.inputs[2])
    found: MemorySpan = impulse
    return found


def joint_solver(
    nv: int, bodies: tuple[int, ...], sweeps: int, frictions: tuple[float, ...], joints: JointRows
) -> Compiled:
    """Joint velocities, impulses in world axes, the residual, λ, and impulses of joints."""
    r, mu = 3 * len(bodies), np.repeat(frictions, 3)
    velocities, finish = _bound_to(len(bodies), contact_velocities, contact_forces)
    prepare, inputs = _problem(bodies)
    turn, begin_joints, sweep = (
        compiled(one, r=r, n=nv) for one in (response_to_contacts, joint_contact_start, joint_contact_sweep)
    )
    inputs += [Operand("joints", (2 * nv,)), Operand("Minv", (nv, nv))]
    inputs += [Operand("response", (nv, r)), *(Operand(name, (nv,)) for name in ("v", "slowest", "fastest"))]
    sequence = KernelSequence("contacts", inputs, [Operand("v", (nv,)), *_results(r), Operand("joints", (2 * nv,))])
    *problem, start, own, Minv, response, v, slowest, fastest = sequence.inputs
    G, scale, free, axes = sequence.call(prepare, *problem)
    response = sequence.call(turn, response, axes)

    def moving(impulse: MemorySpan, friction: MemorySpan, stop: MemorySpan) -> Any:
        """Velocities of joints and rows with all impulses."""
        w = sequence.call(joints.kernel(joint_start), Minv, v, friction, stop)
        u = sequence.call(velocities, G, impulse, free)
        return sequence.call(begin_joints, response, w, u, impulse, friction, stop)

    started = own.part(0, nv), own.part(nv, nv)
    w, u = moving(start, *started)
    swept = sequence.prepare(sweep)
    constants = sequence.constant(mu), sequence.constant(joints.dry)
    given = (G, scale, constants[0], Minv, response, slowest, fastest, constants[1], u, w, start, *started)
    for source, place in zip(given, swept.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(sweeps):
        results = swept.run(*(None,) * len(given))
        for result, place in zip(results, swept.inputs[8:], strict=True):
            sequence.copy(result, place)
    found = results[2:]
    w, u = moving(*found)
    bounds = slowest, fastest, constants[1]
    parts, _ = sequence.call(joints.kernel(joint_residual), Minv, *bounds, v, w, *found[1:])
    after, forces, residual, impulses, others = sequence.outputs
    into = [forces, impulses, None, residual]
    *_, share, _ = sequence.call(finish, axes, found[0], free, u, mu, scale, parts, into=into)
    into = [after, others.part(0, nv), others.part(nv, nv)]
    sequence.call(joints.kernel(joint_share), share, v, w, *found[1:], into=into)
    return sequence.finish()


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

    def factored(self, sequence: KernelSequence) -> Factored | None:
        """The factors of the mass matrix in a step; None for trees with nodes that are no rigid bodies."""
        if self._free.robot.mechanism.first_general is not None:
            return None
        return Factored(sequence, lambda algorithm, dynamic: self._recursion(algorithm, dynamic=dynamic))

    def record(
        self, sequence: KernelSequence, q: MemorySpan, v: MemorySpan, start: Any, factored: Factored | None
    ) -> Impulses:
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

    def _record_joints(
        self, sequence: KernelSequence, q: MemorySpan, v: MemorySpan, start: Any, problem: list[Any]
    ) -> Impulses:
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


def _tiled(sequence: KernelSequence, matrix: MemorySpan, rows: int, times: int) -> MemorySpan:
    """A matrix repeated from left to right."""
    if times == 1:
        return matrix
    length = matrix.size // rows
    result = sequence.space(matrix.size * times)
    for i in range(rows):
        for j in range(times):
            sequence.copy(matrix.part(i * length, length), result.part((i * times + j) * length, length))
    return result


def _chosen(sequence: KernelSequence, of_bodies: MemorySpan, chosen: tuple[int, ...]) -> MemorySpan:
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
