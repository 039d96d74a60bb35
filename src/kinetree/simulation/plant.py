"""What a simulator integrates: a robot with springs and dampers in its joints, also under a controller.

Joint damping D and stiffness K are implicit in the velocity, so that any D and K is stable at any step size: with
τ′ = τ − D v − K (q ⊖ q₀) − dt K v, and armature + dt D + dt² K in place of the armature, forward dynamics solves

    (M + dt D + dt² K) a = τ′ − C − g                                                             (1)

in O(n). "rk4" and "implicit_midpoint" treat −D v − K (q ⊖ q₀) as ordinary forces. A controller runs at its own rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics.inverse_dynamics import gravity_forces
from kinetree.concurrency import ForkSafeLock
from kinetree.errors import InputError, UnsupportedError
from kinetree.kernels.joint_rows import joint_springs
from kinetree.kernels.products import total
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.integrators import IMPULSIVE, METHODS, Impulses, Run
from kinetree.model.model import Model
from kinetree.model.population import Population
from kinetree.model.specs import WORLD_NAME
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import Varied
from kinetree.simulation.step_results import Film, StepInfo
from kinetree.spatial.value import Array

#: Accelerations for a configuration, velocities and joint forces.
Dynamics = Callable[[Any, Any, Any], Any]


class Plant:
    """A robot, a time step and an integrator. Damping and springs as for `Simulator`.

    Attributes:
        robot: The robot; with implicit damping and springs, its armature is that of (1).
        dt: Time step [s].
        method: The integrator.
        population: Variants of the robot, a sample each, if there are any.
        damping: Of joints, (nv,), or what stands for that of each sample.
        varied: What differs in the population, by name, (…, n) each.
        stiffness: Of springs in the joints, (nv,).
        rest: Rest configuration of the springs, (nq,).
        soft: Whether there are springs or dampers.
        borne: The robot with the compensated part of its masses, if there is one.
        lift: Forces that bear the compensated part of the weight, if there is one.
    """

    def __init__(
        self,
        robot: Model,
        dt: float,
        method: str,
        damping: Any,
        stiffness: Any,
        rest: Any,
        gravity_compensation: bool = False,
        population: Population | None = None,
    ) -> None:
        self.robot, self.dt, self.method = robot, dt, method
        given = population.damping if population is not None and damping is True else None
        differs, D = given is not None, given
        if D is None:
            D = gains("damping", own_or_given(robot, "damping", damping), robot.nv)
        self.damping: Any = Varied("joint damping") if differs else D
        own = own_or_given(robot, "stiffness", False if stiffness is None else stiffness)
        self.stiffness = gains("stiffness", own, robot.nv)
        neutral = robot.spring_reference if stiffness is True else robot.neutral()
        self.rest = neutral if rest is None else _vector("rest", rest, robot.nq)
        self.borne = _borne(robot) if gravity_compensation else None
        self.lift = None if self.borne is None else bind(gravity_forces, self.borne, (), "step")
        if self.lift is not None and population is not None:
            raise InputError("a population, whose masses differ, cannot have gravity_compensation=True")
        self.soft = bool(D.any() or self.stiffness.any())
        self._implicit = method in IMPULSIVE
        if self.soft and self._implicit:
            added = (dt * D + dt**2 * self.stiffness).reshape(-1, robot.nv).max(axis=0, initial=0.0)
            free = [joint for joint in robot.joints if joint.nv == joint.type.nv]
            partial = [joint for joint in robot.joints if 0 < joint.nv < joint.type.nv and added[joint.v_slice].any()]
            if partial:
                raise UnsupportedError(
                    f"joint {partial[0].name!r} depends on others in part, so its dampers and springs take an explicit "
                    'method: "midpoint" or "rk4"'
                )
            self.robot = robot.with_armature({joint.name: joint.armature + added[joint.v_slice] for joint in free})
        self.population = None if population is None else population.of(self.robot)
        if population is not None and (differs or population.armature is not None):
            more = dt * D + dt**2 * self.stiffness if self._implicit else np.zeros(robot.nv)
            self.population = population.with_armature_added(more)
            self.robot = self.population.robot
        self.varied: dict[str, Array] = {} if self.population is None else {"constants": self.population.constants}
        if differs:
            self.varied["joint damping"] = D
        self._lock = ForkSafeLock()
        self._recursions: dict[Any, Compiled] = {}

    @property
    def free_bodies(self) -> list[tuple[int]]:
        """Where velocities start of bodies that move freely in the world, and carry nothing that moves."""
        _, parents = self.robot._moving_bodies
        alone = {body for body, parent in parents.items() if parent == WORLD_NAME} - set(parents.values())
        free = [joint for joint in self.robot.joints if joint.kind == "floating" and joint.nv == joint.type.nv]
        return [(joint.v_start,) for joint in free if joint.child in alone]

    @property
    def varied_operands(self) -> list[Operand]:
        """What differs in the population, as inputs."""
        return [Operand(name, array.shape[-1:]) for name, array in self.varied.items()]

    def recursion(self, algorithm: Any, sites: tuple[Site, ...] = (), dynamic: bool = False) -> Compiled:
        """A compiled recursion of the robot; a `dynamic` one of a population takes the constants last."""
        if not isinstance(algorithm, Algorithm):
            bound: Compiled = algorithm
            return bound
        algorithm = with_constants(algorithm) if dynamic and self.population is not None else algorithm
        key = algorithm, sites
        with self._lock:
            if key not in self._recursions:
                if not self._recursions:
                    self.robot.forward_dynamics.require()
                    if self.population is not None:
                        self.population.require_invertible()
                self._recursions[key] = bind(algorithm, self.robot.mechanism, sites, "step")
            return self._recursions[key]

    def heavy(self, algorithm: Algorithm) -> tuple[Array, Compiled]:
        """Places of the parameters of bodies that have frames, which nodes of users have not, and their recursion."""
        robot = self.robot
        bodies = [(i, body.name) for i, body in enumerate(robot.bodies) if body.name in robot.frames]
        sites = tuple(robot.site(name) for _, name in bodies)
        numbers = 10 * np.array([i for i, _ in bodies])[:, None] + np.arange(10)
        return numbers, self.recursion(algorithm, sites, dynamic=True)

    def integrated(
        self, run: Run, dynamics: Dynamics, q: Any, v: Any, tau: Any, impulses: Impulses | None = None
    ) -> tuple[Any, Any]:
        """The state after a step, on arrays or recorded: `run` runs a recursion."""
        start = self.pushed(run, q, v, tau) if self._implicit else None

        def accelerations(q: Any, v: Any) -> Any:
            return dynamics(q, v, start if self._implicit else self.pushed(run, q, v, tau))

        if impulses is None:
            return METHODS[self.method](run, accelerations, q, v, self.dt)
        return IMPULSIVE[self.method](run, accelerations, q, v, self.dt, impulses)

    def pushed(self, run: Run, q: Any, v: Any, tau: Any) -> Any:
        """Joint forces together with those of dampers and springs, and what bears a part of the weight."""
        if self.lift is not None:
            tau = run(compiled(total, n=self.robot.nv), tau, run(self.lift, q))
        if not self.soft:
            return tau
        ahead = self.dt if self._implicit else 0.0  # (1)
        return run(joint_springs, q, v, tau, self.damping, self.stiffness, self.rest, ahead)


def _borne(robot: Model) -> Mechanism | None:
    """The robot with the compensated part of each body's mass; None if nothing is compensated."""
    if not any(body.gravity_compensation for body in robot.bodies):
        return None
    borne = [replace(body, mass=body.mass * body.gravity_compensation) for body in robot.bodies]
    return robot._edited(bodies=borne).mechanism


def _vector(name: str, values: Any, size: int) -> Array:
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} takes {size} finite numbers, got shape {array.shape}")
    return array


def gains(name: str, values: Any, size: int) -> Array:
    """One number or `size` of them, none negative."""
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    array = np.broadcast_to(array, (size,)) if array.shape == () else array
    if array.shape != (size,) or not np.isfinite(array).all() or (array < 0.0).any():
        raise InputError(f"{name} takes one number or {size} of them, none negative; got {values!r}")
    return np.array(array)


def own_or_given(robot: Model, what: str, given: Any) -> Any:
    """Damping, dry friction or stiffness: the robot's own for True, none for False, else what is given."""
    if given is not True:
        return np.zeros(robot.nv) if given is False else given
    values = np.zeros(robot.nv)
    for joint in robot.joints:
        own = np.zeros(joint.type.nv)
        if what != "stiffness":
            own = getattr(joint, what)
        elif joint.spring is not None:
            own = joint.spring.stiffness
        if joint.nv == joint.type.nv:
            values[joint.v_slice] = own
        elif np.any(own):
            raise InputError(
                f"joint {joint.name!r} depends on others, so its own {what} cannot be simulated; set it to zero "
                f"with with_{what}, or give the {what} of each degree of freedom"
            )
    return values


# Servo times this close to a step coincide with it [s].
_SOON = 1e-9


def run(
    step: Callable[..., tuple[Array, Array, StepInfo]],
    dt: float,
    q: Array,
    v: Array,
    controller: Callable[..., Any],
    targets: Mapping[str, Any],
    seconds: float,
    servo: float | None,
    watch: Callable[[float, Array, Array, Any], None] | None,
    wrenches: Callable[[float], Mapping[str, Any] | None],
) -> Film:
    """The motion under a controller; arguments as of `Simulator.run`, with its step and its time step."""
    if not callable(controller) or not isinstance(targets, Mapping):
        name, given, want = (
            ("targets", targets, "a mapping from names of goals to targets, or to functions of the time")
            if callable(controller)
            else ("controller", controller, "a function of q, v and targets")
        )
        raise InputError(f"run: {name} is {want}; got {type(given).__name__}")
    seconds = arguments.number("seconds", seconds, what="a positive number", above=0.0)
    servo = None if servo is None else arguments.number("servo", servo, what="a positive number", above=0.0)
    period = dt if servo is None else 1.0 / servo
    if period < dt - _SOON:
        raise InputError(f"servo={servo!r} Hz is faster than the time step of {dt:g} s; lower it, or dt")
    count = round(seconds / dt)
    fix = "run fewer seconds at a time, or a slower servo"
    arguments.empty("run", [(round(seconds / period) + 1, q.size + 2 * v.size)], np.empty, fix)
    kept: list[tuple[float, Array, Array, Array, Any]] = []
    forces: list[dict[str, Array]] = []
    residuals: list[Array] = []
    tau, due, fresh = np.zeros_like(v), 0.0, False
    for i in range(count + 1):
        time = i * dt
        if time >= due - _SOON or i == count:
            command = _commanded(controller, q, v, targets, time, kept)
            tau = np.asarray(getattr(command, "tau", command), dtype=np.float64)
            if time >= due - _SOON:
                due += period
            fresh = True
            kept.append((time, q, v, tau, command))
            residuals.append(np.zeros(q.shape[:-1]))
            if watch is not None:
                watch(time, q, v, command)
        # one extra step at the end yields the constraint forces under the last command
        q, v, info = step(q, v, tau, wrenches(time))
        residuals[-1] = np.maximum(residuals[-1], info.residual)
        if fresh:
            forces.append(info.constraint_forces)
            fresh = False
    felt = {name: np.stack([each[name] for each in forces], axis=-2) for name in (forces[0] if forces else ())}
    times, qs, vs, taus, commands = zip(*kept, strict=True)
    q, v, tau = (np.stack(x, axis=-2) for x in (qs, vs, taus))
    return Film(np.array(times), q, v, tau, felt, list(commands), np.stack(residuals, axis=-1))


def _commanded(
    controller: Callable[..., Any], q: Array, v: Array, targets: Mapping[str, Any], time: float, kept: list[Any]
) -> Any:
    """The controller's result at a time; what it remembered at the last one is passed back to it."""
    wanted = {name: value(time) if callable(value) else value for name, value in targets.items()}
    state = getattr(kept[-1][-1], "state", None) if kept else None
    if state is None:
        return controller(q, v, wanted)
    return controller(q, v, wanted, state=state, dt=time - kept[-1][0])
