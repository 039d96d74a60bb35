"""`Simulator.step` and `rollout` as functions with derivatives: matrices, changes along directions, gradients.

Gradients of rollouts are computed in reverse mode: states are kept every so many steps, and between two of them once
more computed, linearised many at once, and left behind. So memory does not grow with the number of steps, but for the
results and one state in √T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, overload

import numpy as np

from kinetree.errors import InputError, UnsupportedError
from kinetree.model.integrators import IMPULSIVE
from kinetree.runtime import arguments
from kinetree.simulation.step_derivatives import Columns, StepDerivatives
from kinetree.simulation.step_results import Modes, Rollout, StepDiscretized, StepGradients, StepInfo
from kinetree.spatial.value import Array

#: Steps of samples that are linearised at once in reverse mode.
_AT_ONCE = 256


def require(sim: Any) -> None:
    """Refuse what has no derivatives."""
    if sim.method not in IMPULSIVE:
        raise InputError(f"derivatives of steps need one of the methods {', '.join(IMPULSIVE)}; got {sim.method!r}")
    without = {
        "constraints": sim.constraints, "populations": sim._population, "gravity compensation": sim._plant.lift,
        "contacts that are discovered": sim._discovered,
    }  # fmt: skip
    for what, one in without.items():
        if one is not None:
            raise UnsupportedError(f"steps with {what} have no derivatives yet; leave them out")


def discretize(sim: Any, q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None) -> StepDiscretized:
    """A, B and modes, as of `Simulator.discretize`."""
    at, batch = _about(sim, "discretize", q, v, tau, f_ext)
    nv, sizes = sim.robot.nv, (sim.robot.nv,) * 3 + (len(at.ground),) * 2
    parts = np.split(np.eye(sum(sizes))[:, : 3 * nv], np.cumsum(sizes)[:-1])
    whole = np.concatenate(at.changes(Columns(*(np.broadcast_to(x, (len(at.rate), *x.shape)) for x in parts))), axis=1)
    A, B = (x.reshape(*batch, 2 * nv, -1) for x in (whole[..., : 2 * nv], whole[..., 2 * nv :]))
    return StepDiscretized(A, B, Modes(*(x.reshape((*batch, *x.shape[1:])) for x in at.modes)))


def no_modes(batch: tuple[int, ...], nv: int) -> Modes:
    """Of steps that nothing touches."""
    never, sure = np.full(batch, np.inf), np.ones(batch, dtype=bool)
    return Modes(
        np.zeros((*batch, 0), dtype=int), np.zeros((*batch, nv), dtype=int), never, sure, sure, np.zeros(batch)
    )


def _about(
    sim: Any, function: str, q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None
) -> tuple[StepDerivatives, tuple[int, ...]]:
    """A step to differentiate, and the shape of the batch."""
    require(sim)
    arrays = sim._state(function, q, v, sim._zero if tau is None else tau)
    batch = arrays[0].shape[:-1]
    q, v, tau = (np.ascontiguousarray(x.reshape(-1, x.shape[-1])) for x in arrays)
    return StepDerivatives(sim, q, v, tau, _wrenches(function, f_ext, batch)), batch


def _wrenches(function: str, f_ext: Mapping[str, Any] | None, batch: tuple[int, ...]) -> dict[str, Array]:
    """External wrenches along one axis."""
    return {frame: _along(function, f"f_ext[{frame!r}]", x, 6, batch) for frame, x in (f_ext or {}).items()}


def _along(function: str, name: str, value: Any, size: int, batch: tuple[int, ...]) -> Array:
    """An argument of the batch, along one axis; zero if it is None."""
    given = arguments.doubles(function, name, np.zeros(size) if value is None else value, (size,))
    arguments.common_batch(function, (name, "q, v, tau"), [given.shape[:-1], batch])
    return np.broadcast_to(given, (*batch, size)).reshape(math.prod(batch), size)


def held_gradients(q: Array, v: Array, tau: Array, f_ext: dict[str, Array]) -> StepGradients:
    """Of steps with constraints and no contacts, which have no modes."""
    batch = q.shape[:-1]
    return StepGradients(q, v, tau, np.zeros((*batch, 0)), np.zeros((*batch, 0)), f_ext, np.ones(batch, dtype=bool))


class StepFunction(partial[tuple[Any, Any, StepInfo]]):
    """`Simulator.step`, with derivatives."""

    def jvp(
        self, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any = None, *, friction: Any = None,
        height: Any = None, f_ext: Mapping[str, Any] | None = None, df_ext: Mapping[str, Any] | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Changes of q and v after the step along changes before it; both of q are tangents, (…, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv), or None.
            dq: Change of q, (…, nv).
            dv: Change of v, (…, nv).
            dtau: Change of tau, (…, nv).
            friction: Change of μ of each shape, (…, shapes).
            height: How far each shape is raised along its normals, (…, shapes) [m].
            f_ext: External wrenches on frames, as for `step`.
            df_ext: Changes of these.
        """
        sim: Any = self.args[0]
        if sim._held is not None:
            state = *sim._state("step.jvp", q, v, sim._zero if tau is None else tau), dq, dv
            found: tuple[Array, Array] = sim._held.jvp(*state, sim._zero if dtau is None else dtau, f_ext, df_ext)
            return found
        at, batch = _about(sim, "step.jvp", q, v, tau, f_ext)
        nv, shapes = sim.robot.nv, len(at.ground)
        sizes = {
            "dq": (dq, nv),
            "dv": (dv, nv),
            "dtau": (dtau, nv),
            "friction": (friction, shapes),
            "height": (height, shapes),
        }
        columns = [_along("step.jvp", name, value, size, batch) for name, (value, size) in sizes.items()]
        for frame, wrench in _wrenches("step.jvp", df_ext, batch).items():
            columns[2] = columns[2] + at.pushed(frame, wrench)
        q_after, v_after = at.changes(Columns(*(x[..., None] for x in columns)))
        return q_after.reshape(*batch, nv), v_after.reshape(*batch, nv)

    def vjp(
        self, q: Any, v: Any, tau: Any, q_weights: Any, v_weights: Any, *, f_ext: Mapping[str, Any] | None = None
    ) -> StepGradients:
        """Gradients of q_weights · δq′ + v_weights · δv′, with respect to all that a step depends on.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv), or None.
            q_weights: Weights of the tangent of q after the step, (…, nv).
            v_weights: Weights of v after the step, (…, nv).
            f_ext: External wrenches on frames, as for `step`.
        """
        sim: Any = self.args[0]
        if sim._held is not None:
            state = sim._state("step.vjp", q, v, sim._zero if tau is None else tau)
            return held_gradients(*sim._held.vjp(*state, q_weights, v_weights, f_ext))
        at, batch = _about(sim, "step.vjp", q, v, tau, f_ext)
        nv, modes = sim.robot.nv, at.modes
        weigh = (
            _along("step.vjp", "q_weights", q_weights, nv, batch),
            _along("step.vjp", "v_weights", v_weights, nv, batch),
        )
        found = at.gradients(*weigh)
        forces = {frame: at.forces(frame, found[2]).reshape(*batch, 6) for frame in f_ext or {}}
        gradients = (x.reshape(*batch, x.shape[-1]) for x in found)
        return StepGradients(*gradients, forces, (modes.certain & modes.unique).reshape(batch))  # type: ignore[call-arg, arg-type]


class RolloutFunction(partial[Rollout]):
    """`Simulator.rollout`, with gradients."""

    def vjp(
        self, q: Any, v: Any, tau: Any, q_weights: Any, v_weights: Any, *, checkpoint: int | None = None
    ) -> StepGradients:
        """Gradients of Σ q_weights · δq + v_weights · δv over all states of a motion, in reverse mode.

        States are kept every `checkpoint` steps only, and computed again from there, with the same bits.

        Args:
            q: Initial configuration, (…, nq).
            v: Initial joint velocities, (…, nv).
            tau: Joint forces of each step, (…, T, nv).
            q_weights: Weights of tangents of q, (…, T + 1, nv).
            v_weights: Weights of v, (…, T + 1, nv).
            checkpoint: Steps between states that are kept; about √T by default.
        """
        sim: Any = self.args[0]
        if sim._held is None:
            require(sim)
        nv = sim.robot.nv
        taus = np.asarray(arguments.numbers("rollout.vjp", "tau", tau), dtype=np.float64)
        if taus.ndim < 2 or taus.shape[-1] != nv:
            raise InputError(f"rollout.vjp: tau has shape {taus.shape}; it takes (…, T, {nv})")
        steps = taus.shape[-2]
        many = arguments.doubles("rollout.vjp", "q_weights", q_weights, (steps + 1, nv))
        more = arguments.doubles("rollout.vjp", "v_weights", v_weights, (steps + 1, nv))
        q, v = (arguments.doubles("rollout.vjp", n, x, (k,)) for n, x, k in (("q", q, sim.robot.nq), ("v", v, nv)))
        shapes = [q.shape[:-1], v.shape[:-1], taus.shape[:-2], many.shape[:-2], more.shape[:-2]]
        batch = arguments.common_batch("rollout.vjp", ("q", "v", "tau", "q_weights", "v_weights"), shapes)
        length = checkpoint if checkpoint is not None else max(1, math.isqrt(steps))
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 1:
            raise InputError(f"rollout.vjp: checkpoint={checkpoint!r} is not a positive integer")
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])).reshape(-1, x.shape[-1]) for x in (q, v))
        if sim._held is not None:
            each = (np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (taus, many, more))
            gradients = sim._held.rollout_vjp(self, q, v, *each, int(length))
            by_q, by_v, by_tau = (x.reshape(*batch, *x.shape[1:]) for x in gradients)
            return held_gradients(by_q, by_v, by_tau, {})
        taus, many, more = (
            np.moveaxis(np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]), 1, 0)
            for x in (taus, many, more)
        )
        return self._reverse(sim, batch, int(length), q, v, taus, many, more)

    def _reverse(
        self, sim: Any, batch: tuple[int, ...], length: int, q: Array, v: Array, taus: Array, many: Array,
        more: Array,
    ) -> StepGradients:  # fmt: skip
        """From checkpoint to checkpoint, backwards; time is the first axis."""
        steps, samples = len(taus), len(q)
        kept = [(q, v)]
        for start in range(0, steps, length):
            path = self(q, v, np.moveaxis(taus[start : start + length], 0, 1))
            q, v = path.q[:, -1].copy(), path.v[:, -1].copy()
            kept.append((q, v))
        q_bar, v_bar = many[-1], more[-1]
        by_tau, certain = np.zeros(taus.shape), np.ones(samples, dtype=bool)
        shapes: Array = np.zeros((2, samples, 0))
        most = max(1, _AT_ONCE // max(1, samples))
        for number, start in reversed(list(enumerate(range(0, steps, length)))):
            part = taus[start : start + length]
            path = self(*kept[number], np.moveaxis(part, 0, 1))
            kept.pop()
            qs, vs = (np.moveaxis(x, 1, 0) for x in (path.q, path.v))
            for first in reversed(range(0, len(part), most)):
                here = slice(first, min(first + most, len(part)))
                q, v, tau = (np.ascontiguousarray(x[here].reshape(-1, x.shape[-1])) for x in (qs, vs, part))
                at = StepDerivatives(sim, q, v, tau, {})
                modes = at.modes
                certain &= (modes.certain & modes.unique).reshape(-1, samples).all(axis=0)
                for i in reversed(range(here.start, here.stop)):
                    at_i = slice((i - first) * samples, (i - first + 1) * samples)
                    q_bar, v_bar, by_tau[start + i], friction, height = at.gradients(q_bar, v_bar, at_i)
                    shapes = np.array([friction, height]) + (shapes if shapes.shape[-1] else 0.0)
                    q_bar, v_bar = q_bar + many[start + i], v_bar + more[start + i]
        found = q_bar, v_bar, np.moveaxis(by_tau, 0, 1), *shapes
        rest = [x.reshape(*batch, *x.shape[1:]) for x in found]
        return StepGradients(*rest, {}, certain.reshape(batch))  # type: ignore[call-arg]


F = TypeVar("F", bound="partial[Any]")


class differentiable(Generic[F]):
    """A method of simulators that is a function with derivatives, as `kind` has them."""

    def __init__(self, kind: type[F], function: Callable[..., Any]) -> None:
        self._kind, self._function, self.__doc__ = kind, function, function.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, sim: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, sim: object, owner: type) -> F: ...
    def __get__(self, sim: object | None, owner: type) -> Any:
        if sim is None:
            return self._function
        made = vars(sim)[self._name] = self._kind(self._function, sim)
        return made
