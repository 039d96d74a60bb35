"""Simulation of a robot with constraints, damping, springs and contacts, under given torques or a controller.

Joint damping and springs are in `kinetree.simulation.plant`, compiled steps in `kinetree.simulation.steps`.

Contacts apply impulses at the end of a step: see `kinetree.simulation.contacts`.

Constraints enter through the accelerations (`kinetree.model.constraints`); after each step the state is projected back
onto them, so that they do not drift.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kinetree.compiler.formats import require_double
from kinetree.errors import ConvergenceWarning, InputError, UnknownNameError, UnsupportedError
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.constraints import Constraints
from kinetree.model.held_rows import AnyConstraint
from kinetree.model.integrators import IMPULSIVE, METHODS
from kinetree.model.model import Model
from kinetree.model.population import Population
from kinetree.model.shapes import Scene
from kinetree.runtime import arguments, buffers
from kinetree.runtime.bound import standard_arithmetic
from kinetree.simulation import step_functions
from kinetree.simulation.contacts import Contacts, JointRows, Points, Sole, Solver, points_of
from kinetree.simulation.discovery import MOST, DiscoveredContacts
from kinetree.simulation.held_step_derivatives import HeldStepDerivatives
from kinetree.simulation.plant import Plant, gains, own_or_given, run
from kinetree.simulation.shapes import Shape
from kinetree.simulation.step_derivatives import StepDerivatives
from kinetree.simulation.step_results import CONVERGED, Film, Rollout, StepDiscretized, StepInfo
from kinetree.simulation.steps import Steps
from kinetree.spatial.value import Array

_ENDLESS = float("inf")
# what StepInfo(…) does, in half the time
_info = tuple.__new__


class Simulator:
    """Integrates a robot in time. Frozen: states are passed in and returned, single or in batches.

    Args:
        robot: The robot, or a scene of several (`robot.attach("world", box)`); or `robot.population(…)`, robots that
            differ in masses, gravity and joints, a sample each.
        constraints: `Weld`, `Distance`, frame names and tasks that are held fixed, couplings and loops, such as
            `robot.equalities`.
        at: Configuration, (nq,), whose poses the constraints hold; not needed for couplings, loops and lengths.
        dt: Time step [s].
        method: "midpoint", "semi_implicit_euler", "rk4" or "implicit_midpoint", see `integrators`.
        damping: True for the robot's own joint damping, or numbers, (nv,) [N m s/rad or N s/m]. In a population, True
            is for what differs from sample to sample, of friction, too.
        stiffness: True for the springs of the robot's joints, or numbers, (nv,) [N m/rad or N/m].
        rest: Rest configuration of these springs, (nq,); by default that of the robot's own, else neutral.
        gravity_compensation: Whether bodies' `gravity_compensation` bears a part of their weight.
        friction: True for the dry friction of the robot's joints, or numbers, (nv,) [N m or N].
        limits: Whether joints stop at their position limits, without bouncing. Coupled joints have no stops of their
            own.
        contacts: What of the robot may touch the ground: `Points`, a `control.Foot`, or names of frames, for their
            origins; friction is that of the ground. Or "discover" for contacts between all shapes of the robot and the
            scene; or `robot.collision_pairs(…)`, for those between some.
        scene: Shapes around the robot, for contacts that are discovered; by default those that the robot's file has in
            its world, else a floor.
        ground: One or several of `Plane`, `Block`, `Sphere`, `Capsule`; a floor by default.
        rounds: Number of rounds of the contact solver, at most; it stops when all is solved.
        compliance: Relative compliance of contacts while they are solved, which makes forces on faces even: 1e-4 by
            default, and 1e-10 if each contact is on a body of its own.
        centrings: How often, at most, the solver takes the creep of that compliance away: 12 times by default, 3 if
            each contact is on a body of its own. Mostly two are enough. Zero is faster, and leaves about 1 µm/s.
        project: Whether the state is projected onto the constraints after each step.

    Raises:
        UnknownNameError: No such method or frame.
        InputError: Constraints without `at`, a time step that is not positive, negative damping or stiffness, stops of
            a robot whose joints have no position limits.

    Warns:
        ModelWarning: Some joints with position limits have no stops.
    """

    def __init__(
        self,
        robot: Model | Population,
        *,
        constraints: Iterable[AnyConstraint] = (),
        at: Any = None,
        dt: float = 1e-3,
        method: str = "midpoint",
        damping: Any = False,
        stiffness: Any = None,
        rest: Any = None,
        gravity_compensation: bool = False,
        friction: Any = False,
        limits: bool = False,
        contacts: Iterable[Points | Sole | str] | CollisionPairs | str = (),
        scene: Scene | None = None,
        ground: Shape | Iterable[Shape] = (),
        rounds: int | None = None,
        compliance: float | None = None,
        centrings: int | None = None,
        project: bool = True,
    ) -> None:
        if method not in METHODS:
            raise UnknownNameError("method", method, tuple(METHODS))
        dt = arguments.number("dt", dt, what="a positive time step [s]", above=0.0)
        if isinstance(contacts, str) and contacts != "discover":
            raise UnknownNameError("way to find contacts", contacts, ("discover",))
        if not isinstance(contacts, Iterable):
            raise InputError(
                f'contacts are "discover", robot.collision_pairs(…), or a list of points; got {type(contacts).__name__}'
            )
        if not isinstance(robot, (Model, Population)):
            raise InputError(f"robot is a kinetree.Model or a population of one, got {type(robot).__name__}")
        pairs = contacts if isinstance(contacts, CollisionPairs) else None
        discovered = isinstance(contacts, (str, CollisionPairs))
        given = tuple(constraints)
        points = () if isinstance(contacts, (str, CollisionPairs)) else tuple(map(points_of, contacts))
        shapes = (ground,) if isinstance(ground, Shape) else tuple(ground)
        self._options = {
            "constraints": given, "at": at, "dt": dt, "method": method, "damping": damping, "stiffness": stiffness,
            "rest": rest, "gravity_compensation": gravity_compensation,
            "friction": friction, "limits": limits, "contacts": contacts if discovered else points,
            "scene": scene, "ground": shapes,
            "rounds": rounds, "compliance": compliance, "centrings": centrings, "project": project,
        }  # fmt: skip
        self._population = robot if isinstance(robot, Population) else None
        robot = robot.robot if isinstance(robot, Population) else robot
        require_double(robot.mechanism, "Simulator")
        self.robot, self.dt, self.method = robot, dt, method
        self._zero, self._nothing = np.zeros(robot.nv), _nothing((robot.nv,))
        for array in self._nothing[:-1]:  # shared by the results of all single steps
            array.flags.writeable = False
        springs = damping, stiffness, rest, bool(gravity_compensation)
        self._plant = plant = Plant(robot, self.dt, method, *springs, self._population)
        self.constraints = Constraints(plant.robot, given, at, plant.population) if given else None
        if self.constraints is not None and not self.constraints.holds:
            raise InputError("constraints hold poses: say at which configuration, with at=q")
        dry = self._population.friction if self._population is not None and friction is True else None
        if dry is None:
            dry = gains("friction", own_or_given(robot, "friction", friction), robot.nv)
        else:
            plant.varied["joint friction"] = self.dt * dry
        rows = bool(dry.any() or limits)
        for what, wanted in (("contacts", points or discovered), ("dry friction and joint stops", rows)):
            if wanted and method not in IMPULSIVE:
                raise InputError(f"{what} need one of the methods {', '.join(IMPULSIVE)}; got {method!r}")
        if shapes and not points:
            other = "; around contacts that are discovered is a scene=kt.Scene([shapes])" if discovered else ""
            raise InputError(f"there is ground, but no contacts=[simulation.Points(…)] that may touch it{other}")
        if scene is not None and not discovered:
            raise InputError('a scene is for contacts that are discovered: contacts="discover"')
        if given and "joint damping" in plant.varied:
            raise UnsupportedError("damping that differs in a population cannot be combined with constraints yet")
        solver = _solver(rounds, compliance, centrings)
        held, varied = self.constraints, self._population is not None
        joints = JointRows(plant.robot, self.dt, dry, limits, solver, varied, held) if rows else None
        self._contacts: Contacts | DiscoveredContacts | JointRows | None = joints
        self._discovered: DiscoveredContacts | None = None
        if discovered:
            self._contacts = self._discovered = DiscoveredContacts(
                plant.robot, scene, pairs, self.dt, joints, solver, varied, held
            )
        if points:
            self._contacts = Contacts(plant.robot, points, shapes, held, self.dt, joints, solver, varied)
        self._steps = Steps(plant, self._contacts, self.constraints, project)
        #: The step of a robot that nothing touches, after the first one.
        self._free: Any = None
        if varied and not self._steps.is_compiled:
            raise InputError("a population cannot be simulated with contacts on shapes measured by Python code")

    def __repr__(self) -> str:
        held = f", {self.constraints.rows} constrained rows" if self.constraints else ""
        return f"<Simulator of {self.robot.name}: {self.method}, {self.dt:g} s{held}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._population or self.robot, self._options)

    def _step(
        self, q: Any, v: Any, tau: Any = None, *, f_ext: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any, StepInfo]:
        """Configuration and velocity after one time step, and its `StepInfo`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv), constant over the step; zero by default.
            f_ext: External wrenches on frames, as for `robot.forward_dynamics`.

        Warns:
            ConvergenceWarning: The laws of contact do not hold in some samples, see `StepInfo.converged`, or numbers
                overflow.
        """
        tau = self._zero if tau is None else tau
        free = self._free
        if free is not None and f_ext is None:
            after, rate, acceleration = free(q, v, tau)
            if acceleration.ndim == 1:
                first = acceleration.item(0)
                if first == first:  # not NaN, as all are if something overflows
                    return after, rate, _info(StepInfo, (acceleration, {}) + self._nothing)  # noqa: RUF005
            elif (each := acceleration[..., 0].ravel()).dot(each) < _ENDLESS:
                return after, rate, self._info(acceleration)
        stepped = self._stepped(q, v, tau, f_ext)
        self._report("step", stepped[:2], stepped[2].residual, q, v, tau)
        return stepped

    #: The step as a function, with `jvp` and `vjp`.
    step = step_functions.differentiable(step_functions.StepFunction, _step)

    def discretize(self, q: Any, v: Any, tau: Any = None, *, f_ext: Mapping[str, Any] | None = None) -> StepDiscretized:
        """Exact derivatives of `step`: `A, B, modes` with δx′ = A δx + B δτ, for x = (q, v).

        δq and δq′ are tangents, the increments of `robot.integrate`. They hold while no contact and no joint changes
        its mode: see `modes.certain`, and `modes.unique` for what the laws leave open. Constraints and projections are
        part of the step.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv); zero by default.
            f_ext: External wrenches on frames, as for `step`; constant in their frames' axes.

        Raises:
            InputError: A method other than "midpoint" and "semi_implicit_euler", or a shape without slopes.
        """
        if self._held is None:
            return step_functions.discretize(self, q, v, tau, f_ext)
        given = self._state("discretize", q, v, self._zero if tau is None else tau)
        A, B = self._held.matrices(*given, f_ext)
        return StepDiscretized(A, B, step_functions.no_modes(A.shape[:-2], self.robot.nv))

    @functools.cached_property
    def _derivatives(self) -> StepDerivatives:
        """Derivatives of all other steps."""
        return StepDerivatives(self._steps)

    @functools.cached_property
    def _held(self) -> HeldStepDerivatives | None:
        """Derivatives of steps with constraints and no contacts."""
        if self.constraints is None or self._contacts is not None:
            return None
        return HeldStepDerivatives(self._plant, self.constraints, self._options["project"])

    def _stepped(self, q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> tuple[Any, Any, StepInfo]:
        """A step, without a word on its convergence."""
        sites, wrenches = self._plant.robot.forward_dynamics._wrenches(f_ext) if f_ext else ((), ())
        given = q, v, tau, *wrenches, *self._steps.constants
        if not self._steps.is_compiled:
            given = *self._state("step", q, v, tau), *given[3:]
        found = self._computed(given, sites)
        touched = self._contacts is not None or self.constraints is not None or self._population is not None
        if not touched and not sites and self.robot.nv:
            self._free = self._steps.function(None, 1, False)
        after, rate, acceleration, *results = found
        return after, rate, self._info(acceleration, results)

    def _computed(self, given: tuple[Any, ...], sites: tuple[Any, ...]) -> Any:
        """The results of a step, without doubts."""
        with standard_arithmetic():
            found = self._steps.function(None, 1, False, sites)(*given)
            if self.constraints is None:
                return found
            *found, doubts = found
            if not doubts.any():
                return found
            doubtful, ranks = doubts > 0.0, (1, 1, 1, *([2] if sites else []), 1)
            some = [
                np.broadcast_to(x, (*doubts.shape, *np.shape(x)[np.ndim(x) - rank :]))[doubtful]
                for x, rank in zip(given, ranks, strict=False)
            ]
            *again, _ = self._steps.function(None, 1, False, sites, near=True)(*some)
            for result, part in zip(found, again, strict=True):
                result[doubtful] = part
            return found

    def _report(self, function: str, end: tuple[Array, Array], residual: Array, *given: Any) -> None:
        """Warn of samples that did not converge, or whose motion left the range of numbers.

        Samples whose states or forces, `given`, are not finite from the start are not reported.
        """
        solved = functools.reduce(np.logical_and, [np.isfinite(x).all(axis=-1) for x in end], residual <= CONVERGED)
        if solved.all():
            return
        finite = [np.isfinite(np.asarray(x, dtype=np.float64)).all(axis=-1) for x in given]
        poor = ~solved & functools.reduce(np.logical_and, finite)
        if poor.any():
            what, worst = "contacts", float(np.max(residual[poor])) if residual.ndim else float(residual)
            fix = "See `converged` and `jammed`; more centrings help heavy bodies on light ones, see docs/simulation.md"
            if worst == np.inf:
                fix = f"More than {MOST} contacts at once are not solved: start above the ground, or leave out pairs"
            elif not worst > CONVERGED:  # or NaN
                what, worst = "the motion", np.nan
                fix = f"Numbers overflow: choose a time step below {self.dt:g} s, or check forces and states"
            warning = ConvergenceWarning(f"{function}: {what}", int(poor.sum()), solved.size, worst, CONVERGED, fix)
            warnings.warn(warning, stacklevel=3)

    def _state(self, function: str, q: Any, v: Any, tau: Any) -> tuple[Array, Array, Array]:
        """Arrays of one batch shape."""
        nq, nv = self.robot.nq, self.robot.nv
        given = ("q", q, nq), ("v", v, nv), ("tau", tau, nv)
        arrays = [arguments.doubles(function, name, value, (size,)) for name, value, size in given]
        batch = arguments.common_batch(function, ("q", "v", "tau"), [array.shape[:-1] for array in arrays])
        q, v, tau = (np.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays)
        return q, v, tau

    def _info(self, acceleration: Array, results: Iterable[Array] = ()) -> StepInfo:
        nothing = self._nothing if acceleration.ndim == 1 else _nothing(acceleration.shape)
        info, contacts = StepInfo(acceleration, {}, *nothing), self._contacts
        if not results:
            return info
        named = dict(zip([*(contacts.shapes if contacts else ()), "constraint_forces"], results, strict=False))
        if self.constraints is not None:
            info = info._replace(constraint_forces=self.constraints.split(named["constraint_forces"]))
        if contacts is None:
            return info
        report = named["report"]
        info = info._replace(residual=report[..., 1], jammed=report[..., 2] > 0.5)
        with standard_arithmetic():
            if isinstance(contacts, Contacts):
                info = info._replace(
                    contact_forces=contacts.on_points(named["forces"]) / self.dt,
                    penetration=np.maximum(-named["heights"].min(axis=-1), 0.0),
                )
            if self._discovered is not None:
                touching = self._discovered.told(named["found"], named["forces"], self.dt)
                info = info._replace(
                    contacts=touching,
                    contact_forces=touching.force,
                    penetration=np.maximum(-touching.gap.min(axis=-1, initial=0.0), 0.0),
                )
            if "joint_impulses" in contacts.shapes:
                info = info._replace(joint_forces=named["joint_impulses"] / self.dt)
        return info

    def _rollout(
        self,
        q: Any,
        v: Any,
        tau: Any = None,
        *,
        steps: int | None = None,
        every: int = 1,
        out: tuple[Array, Array] | None = None,
    ) -> Rollout:
        """The motion under given joint forces: the same bits as a loop of `step`, without its overhead.

        Args:
            q: Initial configuration, (…, nq).
            v: Initial joint velocities, (…, nv).
            tau: Joint forces of each step, (…, T, nv). With `steps`, constant joint forces, (…, nv), zero by default.
            steps: Number of steps T under constant joint forces.
            every: The result has the first state and every so many-th after it; divides T.
            out: float64 arrays for q and v of the result.

        Raises:
            InputError: Shapes that do not fit, or a number of steps that `every` does not divide.

        Warns:
            ConvergenceWarning: The laws of contact did not hold in some step of some samples, see `Rollout.converged`,
                or numbers overflowed.
        """
        nv = self.robot.nv
        _require_count("every", every, 1)
        if steps is None:
            taus = arguments.numbers("rollout", "tau", () if tau is None else tau)
            if taus.ndim < 2 or taus.shape[-1] != nv:
                raise InputError(
                    f"rollout: tau has shape {taus.shape}; it takes (…, T, {nv}), or with steps=T (…, {nv})"
                )
            count, batch_of_tau = taus.shape[-2], taus.shape[:-2]
        else:
            _require_count("steps", steps, 0)
            taus = arguments.doubles("rollout", "tau", self._zero if tau is None else tau, (nv,))
            count, batch_of_tau = int(steps), taus.shape[:-1]
        if count % every:
            raise InputError(f"rollout: every={every} does not divide the {count} steps")
        taus = np.asarray(taus, dtype=np.float64)
        q = arguments.doubles("rollout", "q", q, (self.robot.nq,))
        v = arguments.doubles("rollout", "v", v, (nv,))
        shapes = [
            q.shape[:-1],
            v.shape[:-1],
            batch_of_tau,
            *([] if self._population is None else [self._population.shape]),
        ]
        batch = arguments.common_batch("rollout", ("q", "v", "tau", "population"), shapes)
        records = count // every
        shapes = [(*batch, records + 1, size) for size in (self.robot.nq, nv)]
        fix = "choose a larger every=, or fewer steps at a time"
        residuals, time = arguments.empty("rollout", [(*batch, records + 1), (records + 1,)], np.zeros, fix)
        if out is None:
            qs, vs = arguments.empty("rollout", shapes, buffers.empty, fix)
        else:
            qs, vs = arguments.results("rollout", out, ("q", "v"), shapes)
            q, v, taus = (x.copy() if any(np.may_share_memory(x, y) for y in (qs, vs)) else x for x in (q, v, taus))
        qs[..., 0, :], vs[..., 0, :] = q, v
        series = steps is None
        if not self._steps.is_compiled:
            self._fill_by_steps(q, v, taus, series, every, qs, vs, residuals)
        elif (doubtful := self._steps.fill(q, v, taus, series, every, qs, vs, residuals) > 0.0).any():
            q, v, taus = (
                np.broadcast_to(x, (*batch, *x.shape[x.ndim - axes :]))[doubtful]
                for x, axes in ((q, 1), (v, 1), (taus, 1 + series))
            )
            part = [x[doubtful] for x in (qs, vs, residuals)]
            self._fill_by_steps(q, v, taus, series, every, *part)
            for whole, found in zip((qs, vs, residuals), part, strict=True):
                whole[doubtful] = found
        time[:] = self.dt * every * np.arange(records + 1)
        pushes = taus.sum(axis=-2) if series else taus
        end = qs[..., -1, :], vs[..., -1, :]
        self._report("rollout", end, residuals.max(axis=-1), qs[..., 0, :], vs[..., 0, :], pushes)
        return Rollout(time, qs, vs, residuals)

    #: The motion as a function, with `vjp`.
    rollout = step_functions.differentiable(step_functions.RolloutFunction, _rollout)

    def _fill_by_steps(self, q: Array, v: Array, tau: Array, series: bool, every: int, *results: Array) -> None:
        qs, vs, residuals = results
        for record in range(1, qs.shape[-2]):
            for i in range((record - 1) * every, record * every):
                push = tau[..., i, :] if series else tau
                q, v, info = self._stepped(q, v, push)
                residuals[..., record] = np.maximum(residuals[..., record], info.residual)
            qs[..., record, :], vs[..., record, :] = q, v

    def run(
        self,
        q: Any,
        controller: Callable[..., Any],
        targets: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        servo: float | None = None,
        v: Any = None,
        f_ext: Mapping[str, Any] | Callable[[float], Mapping[str, Any]] | None = None,
        watch: Callable[[float, Array, Array, Any], None] | None = None,
    ) -> Film:
        """The motion under a controller that runs at its own rate; torques are held in between.

        Args:
            q: Initial configuration, (…, nq).
            controller: Called with q, v and targets; its result, or its result's `tau`, is the joint torque. If the
                result has a `state` other than None, the next call takes it as `state`, and the time since as `dt` [s].
            targets: By goal name, paths, which are called with the time, or constant targets.
            seconds: Duration [s].
            servo: Rate of the controller [Hz]; by default every step.
            v: Initial joint velocities, (…, nv); zero by default.
            f_ext: External wrenches on frames, as for `step`, or a function of the time [s] that returns them.
            watch: Called after each command with the time, q, v and the command.

        Warns:
            ConvergenceWarning: The laws of contact did not hold in some step of some samples, see `Film.residual`, or
                numbers overflowed.
        """
        q, v, _ = self._state("run", q, self._zero if v is None else v, self._zero)
        wrenches = f_ext if callable(f_ext) else lambda _: f_ext
        film = run(self._stepped, self.dt, q, v, controller, targets or {}, seconds, servo, watch, wrenches)
        self._report("run", (film.q[..., -1, :], film.v[..., -1, :]), film.residual.max(axis=-1), q, v)
        return film


def _nothing(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Forces and residuals without contacts, friction and stops, for accelerations of a shape: see `StepInfo`."""
    *batch, _ = shape
    return (
        np.zeros((*batch, 0, 3)),
        np.zeros(batch),
        np.zeros(batch),
        np.zeros(shape),
        np.zeros(batch, dtype=bool),
        None,
    )


def _solver(rounds: Any, compliance: Any, centrings: Any) -> Solver:
    for name, value, least in (("rounds", rounds, 1), ("centrings", centrings, 0)):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= 1000
        ):
            raise InputError(f"{name}={value!r} is not an integer from {least} to 1000")
    if compliance is not None:
        compliance = arguments.number("compliance", compliance, what="a relative compliance", above=0.0)
    return Solver(None if rounds is None else int(rounds), compliance, None if centrings is None else int(centrings))


def _make(robot: Model | Population, options: dict[str, Any]) -> Simulator:
    return Simulator(robot, **options)


def _require_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"rollout: {name}={value!r} is not an integer of at least {least}")
    if value > sys.maxsize:
        raise InputError(f"rollout: {name}={value!r} is more than the {sys.maxsize} that can be counted")
