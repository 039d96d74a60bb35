"""Simulation of a robot with constraints, damping, springs and contacts, under given torques or a controller.

Joint damping D and stiffness K are implicit in the velocity, so that any D and K is stable at any step size: with
τ′ = τ − D v − K (q ⊖ q₀) − dt K v, and armature + dt D + dt² K in place of the armature, forward dynamics solves

    (M + dt D + dt² K) a = τ′ − C − g                                                             (1)

in O(n). "rk4" and "implicit_midpoint" treat −D v − K (q ⊖ q₀) as ordinary forces.

Contacts apply impulses at the end of a step: see `kinetree.simulation.contact`.

Constraints enter through the accelerations (`kinetree.model.constraints`); after each step the state is projected back
onto them, so that they do not drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kinetree.engines import arguments
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.constraints import AnyConstraint, Constraints
from kinetree.model.model import Model
from kinetree.simulation.contact import Contacts, Impulses, Points
from kinetree.simulation.integrators import IMPULSIVE, METHODS
from kinetree.simulation.results import Film, Rollout, StepInfo
from kinetree.simulation.shapes import Shape
from kinetree.spatial.value import Array

#: Methods in which damping and springs are implicit by (1).
_IMPLICIT = ("midpoint", "semi_implicit_euler")
# Servo times this close to a step coincide with it [s].
_SOON = 1e-9


class Simulator:
    """Integrates a robot in time. Frozen: states are passed in and returned, single or in batches.

    Args:
        robot: The robot, or a scene of several (`robot.attach("world", box)`).
        constraints: `Weld`, frame names and tasks that are held fixed.
        at: Configuration, (nq,), whose poses the constraints hold.
        dt: Time step [s].
        method: "midpoint", "semi_implicit_euler", "rk4" or "implicit_midpoint", see `integrators`.
        damping: True for the robot's own joint damping, or numbers, (nv,) [N m s/rad or N s/m].
        stiffness: Stiffness of joint springs, (nv,) [N m/rad or N/m].
        rest: Rest configuration of these springs, (nq,); neutral by default.
        contacts: `Points` of the robot that may touch the ground.
        ground: One or several of `Plane`, `Block`, `Sphere`, `Capsule`; a floor by default.
        sweeps: Number of sweeps of the contact solver. More sweeps reduce the residual.
        project: Whether the state is projected onto the constraints after each step.

    Raises:
        UnknownNameError: No such method or frame.
        InputError: Constraints without `at`, a time step that is not positive, negative damping or stiffness.
    """

    def __init__(
        self,
        robot: Model,
        *,
        constraints: Iterable[AnyConstraint] = (),
        at: Any = None,
        dt: float = 1e-3,
        method: str = "midpoint",
        damping: Any = False,
        stiffness: Any = None,
        rest: Any = None,
        contacts: Iterable[Points] = (),
        ground: Shape | Iterable[Shape] = (),
        sweeps: int = 50,
        project: bool = True,
    ) -> None:
        if method not in METHODS:
            raise UnknownNameError("method", method, tuple(METHODS))
        if isinstance(dt, bool) or not isinstance(dt, (int, float, np.floating)) or not 0.0 < dt < np.inf:
            raise InputError(f"dt={dt!r} is not a positive time step [s]")
        given = tuple(constraints)
        if given and at is None:
            raise InputError("constraints hold poses: say at which configuration, with at=q")
        self.robot, self.dt, self.method = robot, float(dt), method
        self._project = project
        self._integrate = METHODS[method]
        own = np.concatenate([joint.damping for joint in robot.joints]) if damping is True else damping
        self._damping = _gains("damping", np.zeros(robot.nv) if own is False else own, robot.nv)
        self._stiffness = _gains("stiffness", np.zeros(robot.nv) if stiffness is None else stiffness, robot.nv)
        self._rest = robot.neutral() if rest is None else _vector("rest", rest, robot.nq)
        self._soft = bool(self._damping.any() or self._stiffness.any())
        self._plant = robot
        if self._soft and method in _IMPLICIT:
            added = self.dt * self._damping + self.dt**2 * self._stiffness
            self._plant = robot.with_armature(np.concatenate([j.armature for j in robot.joints]) + added)
        self.constraints = Constraints(self._plant, given, at) if given else None
        points = tuple(contacts)
        shapes = (ground,) if isinstance(ground, Shape) else tuple(ground)
        if points and method not in IMPULSIVE:
            raise InputError(f"contacts need one of the methods {', '.join(IMPULSIVE)}; got {method!r}")
        if shapes and not points:
            raise InputError("there is ground, but no contacts=[simulation.Points(…)] that may touch it")
        held = self.constraints.tasks.tasks if self.constraints else ()
        self._contacts = Contacts(self._plant, points, shapes, held, sweeps) if points else None

    def __repr__(self) -> str:
        held = f", {self.constraints.rows} constrained rows" if self.constraints else ""
        return f"<Simulator of {self.robot.name}: {self.method}, {self.dt:g} s{held}>"

    def step(
        self, q: Any, v: Any, tau: Any = None, *, f_ext: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any, StepInfo]:
        """Configuration and velocity after one time step, and its `StepInfo`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv), constant over the step; zero by default.
            f_ext: External wrenches on frames, as for `robot.forward_dynamics`.
        """
        q, v, tau = self._state(q, v, tau)
        with standard_arithmetic():
            return self._step(q, v, tau, f_ext)

    def _state(self, q: Any, v: Any, tau: Any) -> tuple[Array, Array, Array]:
        robot = self.robot
        tau = np.zeros(robot.nv) if tau is None else tau
        arrays = []
        for name, value, size in (("q", q, robot.nq), ("v", v, robot.nv), ("tau", tau, robot.nv)):
            array = arguments.numbers("step", name, value)
            arguments.require_shape(f"step: {name}", array.shape, (size,))
            arrays.append(np.asarray(array, dtype=np.float64))
        batch = arguments.common_batch("step", ("q", "v", "tau"), [array.shape[:-1] for array in arrays])
        q, v, tau = (np.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays)
        return q, v, tau

    def _step(self, q: Array, v: Array, tau: Array, f_ext: Any) -> tuple[Array, Array, StepInfo]:
        felt: list[Array] = []
        accelerations = self._accelerations(q, v, tau, f_ext, felt)
        touched: list[Impulses] = []
        if self._contacts is None:
            q_after, v_after = self._integrate(self._plant, accelerations, q, v, self.dt)
        else:
            contacts = self._contacts

            def impulses(q: Array, v: Array) -> Array:
                touched.append(contacts.apply(q, v, self.dt))
                return touched[-1].velocity

            q_after, v_after = IMPULSIVE[self.method](self._plant, accelerations, q, v, self.dt, impulses)
        mean = (v_after - v) / self.dt
        if self.constraints is not None and self._project:
            q_after, v_after = self.constraints.project(q_after, v_after)
        forces = self.constraints.split(felt[-1]) if self.constraints is not None else {}
        none = np.zeros(v.shape[:-1])
        felt_by = touched[-1][1:] if touched else (np.zeros((*v.shape[:-1], 0, 3)), none, none)
        return q_after, v_after, StepInfo(mean, forces, *felt_by)

    def _accelerations(
        self, q: Array, v: Array, tau: Array, f_ext: Any, felt: list[Array]
    ) -> Callable[[Array, Array], Array]:
        """a(q, v) with springs, damping and constraints; constraint forces are added to `felt`."""
        robot, plant, D, K = self.robot, self._plant, self._damping, self._stiffness
        start = tau
        if self._soft and self.method in _IMPLICIT:  # (1)
            start = tau - D * v - self.dt * K * v
            if K.any():
                start = start - K * robot.difference(self._rest, q)

        def accelerations(q: Array, v: Array) -> Array:
            push = start
            if self._soft and self.method not in _IMPLICIT:
                push = tau - D * v - (K * robot.difference(self._rest, q) if K.any() else 0.0)
            if self.constraints is None:
                free: Array = plant.forward_dynamics(q, v, push, f_ext=f_ext)
                return free
            a, force = self.constraints.forward_dynamics(q, v, push, f_ext=f_ext)
            felt.append(force)
            return a

        return accelerations

    def rollout(self, q: Any, v: Any, tau: Any) -> Rollout:
        """The motion under a sequence of joint forces: the same bits as a loop of `step`.

        Args:
            q: Initial configuration, (…, nq).
            v: Initial joint velocities, (…, nv).
            tau: Joint forces of each step, (…, T, nv).
        """
        taus = arguments.numbers("rollout", "tau", tau)
        if taus.ndim < 2 or taus.shape[-1] != self.robot.nv:
            raise InputError(f"rollout: tau has shape {taus.shape}; it takes (…, T, {self.robot.nv})")
        count = taus.shape[-2]
        q, v, _ = self._state(q, v, None)
        batch = arguments.common_batch("rollout", ("q", "v", "tau"), (q.shape[:-1], v.shape[:-1], taus.shape[:-2]))
        qs, vs = np.empty((*batch, count + 1, q.shape[-1])), np.empty((*batch, count + 1, v.shape[-1]))
        qs[..., 0, :], vs[..., 0, :] = q, v
        for i in range(count):
            after = self.step(qs[..., i, :], vs[..., i, :], taus[..., i, :])
            qs[..., i + 1, :], vs[..., i + 1, :] = after[:2]
        return Rollout(self.dt * np.arange(count + 1), qs, vs)

    def run(
        self,
        q: Any,
        controller: Callable[..., Any],
        targets: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        servo: float | None = None,
        v: Any = None,
        watch: Callable[[float, Array, Array, Any], None] | None = None,
    ) -> Film:
        """The motion under a controller that runs at its own rate; torques are held in between.

        Args:
            q: Initial configuration, (…, nq).
            controller: Called with q, v and targets; its result, or its result's `tau`, is the joint torque.
            targets: By goal name, paths, which are called with the time, or constant targets.
            seconds: Duration [s].
            servo: Rate of the controller [Hz]; by default every step.
            v: Initial joint velocities, (…, nv); zero by default.
            watch: Called after each command with the time, q, v and the command.
        """
        for name, value in (("seconds", seconds), ("servo", servo)):
            if value is not None and not 0.0 < value < np.inf:
                raise InputError(f"{name}={value!r} is not a positive number")
        q, v, _ = self._state(q, np.zeros(self.robot.nv) if v is None else v, None)
        period = self.dt if servo is None else 1.0 / servo
        if period < self.dt - _SOON:
            raise InputError(f"servo={servo!r} Hz is faster than the time step of {self.dt:g} s; lower it, or dt")
        given = dict(targets or {})
        count = round(seconds / self.dt)
        kept: list[tuple[float, Array, Array, Array, Any]] = []
        forces: list[dict[str, Array]] = []
        tau, due, fresh = np.zeros_like(v), 0.0, False
        for i in range(count + 1):
            time = i * self.dt
            if time >= due - _SOON or i == count:
                wanted = {name: value(time) if callable(value) else value for name, value in given.items()}
                command = controller(q, v, wanted)
                tau = np.asarray(getattr(command, "tau", command), dtype=np.float64)
                if time >= due - _SOON:
                    due += period
                fresh = True
                kept.append((time, q, v, tau, command))
                if watch is not None:
                    watch(time, q, v, command)
            # one extra step at the end yields the constraint forces under the last command
            after, rate, info = self.step(q, v, tau)
            if fresh:
                forces.append(info.constraint_forces)
                fresh = False
            q, v = after, rate
        felt = {name: np.stack([each[name] for each in forces], axis=-2) for name in (forces[0] if forces else ())}
        times, qs, vs, taus, commands = zip(*kept, strict=True)
        q, v, tau = (np.stack(x, axis=-2) for x in (qs, vs, taus))
        return Film(np.array(times), q, v, tau, felt, list(commands))


def _vector(name: str, values: Any, size: int) -> Array:
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} takes {size} finite numbers, got shape {array.shape}")
    return array


def _gains(name: str, values: Any, size: int) -> Array:
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    array = np.broadcast_to(array, (size,)) if array.shape == () else array
    if array.shape != (size,) or not np.isfinite(array).all() or (array < 0.0).any():
        raise InputError(f"{name} takes one number or {size} of them, none negative; got {values!r}")
    return np.array(array)
