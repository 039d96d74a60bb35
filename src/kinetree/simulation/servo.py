"""A simulation under a controller that runs at its own rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinetree.engines import arguments
from kinetree.errors import InputError
from kinetree.simulation.results import Film, StepInfo
from kinetree.spatial.value import Array

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
    warm: bool,
) -> Film:
    """The motion under a controller; arguments as of `Simulator.run`.

    Args:
        step: The simulator's step.
        dt: Its time step [s].
        q: Initial configuration, (…, nq).
        v: Initial joint velocities, (…, nv).
        controller: Called at the servo's rate; torques are held in between.
        targets: By goal name, paths or constant targets.
        seconds: Duration [s].
        servo: Rate of the controller [Hz]; None for every step.
        watch: Called after each command.
        warm: Whether a step's contact solver starts from the impulses of the step before.
    """
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
    info: StepInfo | None = None
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
        q, v, info = step(q, v, tau, start=info if warm else None)
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
