"""`Simulator.step` and `rollout` as functions with derivatives: matrices, changes along directions, gradients.

Gradients of rollouts are computed in reverse mode: states are kept every so many steps, and those between two of them
are computed once more, with the same bits. So memory does not grow with the number of steps, but for the results and
one state in √T.
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
from kinetree.runtime.bound import standard_arithmetic
from kinetree.simulation.step_results import Modes, Rollout, StepDiscretized, StepGradients, StepInfo
from kinetree.spatial.value import Array

#: Numbers of a sample, in the states and weights of some steps, that one call handles.
_CHUNK = 4096


def require(sim: Any) -> None:
    """Refuse what has no derivatives."""
    if sim.method not in IMPULSIVE:
        raise InputError(f"derivatives of steps need one of the methods {', '.join(IMPULSIVE)}; got {sim.method!r}")


def discretize(sim: Any, q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None) -> StepDiscretized:
    """A, B and modes, as of `Simulator.discretize`."""
    require(sim)
    A, B, *contacts, joints, report, solved = _called(sim, "matrices", (q, v, tau), f_ext)
    whole = [np.zeros((*report.shape[:-1], 0), dtype=int)] if not contacts else [contacts[0].astype(int)]
    modes = *whole, joints.astype(int), report[..., 0], report[..., 1] > 0.5, report[..., 2] > 0.5, solved[..., 1]
    return StepDiscretized(A, B, Modes(*modes))


def _called(sim: Any, name: str, given: Any, f_ext: Mapping[str, Any] | None, masses: bool = False) -> Any:
    """The results of a function of `StepDerivatives`."""
    q, v, tau, *rest = given
    sites, wrenches = sim._plant.robot.forward_dynamics._wrenches(f_ext) if f_ext else ((), ())
    function = sim._derivatives.function(name, sites, masses)
    inputs = q, v, sim._zero if tau is None else tau, *rest, *wrenches, *sim._steps.constants
    if sim._steps.is_compiled:
        return function(*inputs)
    with standard_arithmetic():
        return function(*inputs)


def no_modes(batch: tuple[int, ...], nv: int) -> Modes:
    """Of steps that nothing touches."""
    never, sure = np.full(batch, np.inf), np.ones(batch, dtype=bool)
    return Modes(
        np.zeros((*batch, 0), dtype=int), np.zeros((*batch, nv), dtype=int), never, sure, sure, np.zeros(batch)
    )


def _require_no_masses(sim: Any, wanted: bool) -> None:
    """Steps with constraints and contacts have no derivatives with respect to masses."""
    if wanted and sim.constraints is not None and sim._held is None:
        raise UnsupportedError(
            "steps with constraints and contacts have no derivatives with respect to inertial parameters yet; see "
            "held.parameter_derivative"
        )


def held_gradients(q: Array, v: Array, tau: Array, f_ext: dict[str, Array], parameters: Array | None) -> StepGradients:
    """Of steps with constraints and no contacts, which have no modes."""
    batch = q.shape[:-1]
    none, sure = np.zeros((*batch, 0)), np.ones(batch, dtype=bool)
    return StepGradients(q, v, tau, none, none, f_ext, sure, parameters)


class StepFunction(partial[tuple[Any, Any, StepInfo]]):
    """`Simulator.step`, with derivatives."""

    def jvp(
        self, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any = None, *, friction: Any = None,
        height: Any = None, parameters: Any = None, f_ext: Mapping[str, Any] | None = None,
        df_ext: Mapping[str, Any] | None = None,
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
            parameters: Change of the inertial parameters, (…, bodies, 10), as of `robot.inertial_parameters`.
            f_ext: External wrenches on frames, as for `step`.
            df_ext: Changes of these.
        """
        sim: Any = self.args[0]
        _require_no_masses(sim, parameters is not None)
        if sim._held is not None:
            state = *sim._state("step.jvp", q, v, sim._zero if tau is None else tau), dq, dv
            push = sim._zero if dtau is None else dtau
            found: tuple[Array, Array] = sim._held.jvp(*state, push, f_ext, df_ext, parameters)
            return found
        require(sim)
        shapes, zero = sim._derivatives.shapes, np.zeros(sim.robot.nv)
        if df_ext and not f_ext:
            f_ext = dict.fromkeys(df_ext, np.zeros(6))
        given = [q, v, tau, dq, dv, zero if dtau is None else dtau]
        if shapes:
            given += [np.zeros(shapes) if x is None else x for x in (friction, height)]
        elif friction is not None or height is not None:
            raise InputError("step.jvp: friction and height are of shapes in `ground`, of which there are none")
        if f_ext:
            unknown = [name for name in df_ext or () if name not in f_ext]
            if unknown:
                raise InputError(f"step.jvp: df_ext has {unknown[0]!r}, on which f_ext has no wrench")
            changes = {name: (df_ext or {}).get(name, np.zeros(6)) for name in f_ext}
            given += sim._plant.robot.forward_dynamics._wrenches(changes)[1]
        if parameters is not None:
            given.append(parameters)
        after_q, after_v = _called(sim, "jvp", given, f_ext, parameters is not None)
        return after_q, after_v

    def vjp(
        self, q: Any, v: Any, tau: Any, q_weights: Any, v_weights: Any, *, f_ext: Mapping[str, Any] | None = None,
        parameters: bool = False,
    ) -> StepGradients:  # fmt: skip
        """Gradients of q_weights · δq′ + v_weights · δv′, with respect to all that a step depends on.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv), or None.
            q_weights: Weights of the tangent of q after the step, (…, nv).
            v_weights: Weights of v after the step, (…, nv).
            f_ext: External wrenches on frames, as for `step`.
            parameters: Whether gradients with respect to inertial parameters are wanted.
        """
        sim: Any = self.args[0]
        _require_no_masses(sim, parameters)
        if sim._held is not None:
            state = sim._state("step.vjp", q, v, sim._zero if tau is None else tau)
            return held_gradients(*sim._held.vjp(*state, q_weights, v_weights, f_ext, parameters))
        require(sim)
        given = q, v, tau, q_weights, v_weights
        by_q, by_v, by_tau, *rest, report = _called(sim, "vjp", given, f_ext, parameters)
        forces = {}
        if f_ext:
            wrench = rest.pop(-1 - parameters)
            forces = {frame: wrench[..., i, :] for i, frame in enumerate(f_ext)}
        sure = (report[..., 1] > 0.5) & (report[..., 2] > 0.5)
        return _gradients(sim, by_q, by_v, by_tau, rest, forces, sure, parameters)


class RolloutFunction(partial[Rollout]):
    """`Simulator.rollout`, with gradients."""

    def vjp(
        self, q: Any, v: Any, tau: Any, q_weights: Any, v_weights: Any, *, checkpoint: int | None = None,
        parameters: bool = False,
    ) -> StepGradients:  # fmt: skip
        """Gradients of Σ q_weights · δq + v_weights · δv over all states of a motion, in reverse mode.

        States are kept every `checkpoint` steps only, and computed again from there, with the same bits.

        Args:
            q: Initial configuration, (…, nq).
            v: Initial joint velocities, (…, nv).
            tau: Joint forces of each step, (…, T, nv).
            q_weights: Weights of tangents of q, (…, T + 1, nv).
            v_weights: Weights of v, (…, T + 1, nv).
            checkpoint: Steps between states that are kept; about √T by default.
            parameters: Whether gradients with respect to inertial parameters are wanted.
        """
        sim: Any = self.args[0]
        _require_no_masses(sim, parameters)
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
        names = ["q", "v", "tau", "q_weights", "v_weights"]
        if sim._population is not None:
            names, shapes = [*names, "population"], [*shapes, sim._population.shape]
        batch = arguments.common_batch("rollout.vjp", names, shapes)
        length = checkpoint if checkpoint is not None else max(1, math.isqrt(steps))
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 1:
            raise InputError(f"rollout.vjp: checkpoint={checkpoint!r} is not a positive integer")
        if sim._held is not None:
            each = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (taus, many, more))
            given = *(np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v)), *each
            return held_gradients(*sim._held.rollout_vjp(self, *given, int(length), parameters))
        starts, kept = range(0, steps, int(length)), [(q, v)]
        for start in starts[1:]:
            kept.append(self._end(*kept[-1], taus[..., start - length : start, :]))
        end = [np.broadcast_to(x[..., -1, :], (*batch, nv)) for x in (many, more)]
        back, by_tau = _Backwards(sim, end[0], end[1], parameters), np.zeros((*batch, steps, nv))
        for start in reversed(starts):
            part = slice(start, min(start + length, steps))
            path = self(*kept.pop(), taus[..., part, :])
            weights = (x[..., part, :] for x in (many, more))
            back.through([path.q, path.v, taus[..., part, :], *weights], by_tau[..., part, :])
        return _gradients(sim, back.q, back.v, by_tau, back.sums, {}, back.sure > 0.5, parameters)

    def _end(self, q: Array, v: Array, taus: Array) -> tuple[Array, Array]:
        path = self(q, v, taus)
        return path.q[..., -1, :].copy(), path.v[..., -1, :].copy()


class _Backwards:
    """Gradients on their way backwards through a motion, from those with respect to its end."""

    def __init__(self, sim: Any, q: Array, v: Array, masses: bool) -> None:
        self._sim, self._masses, self.q, self.v = sim, masses, q, v
        self.sums = [np.zeros((*q.shape[:-1], *one.shape)) for one in sim._derivatives.sums(masses)]
        self.sure = np.ones(q.shape[:-1])

    def through(self, given: list[Array], by_tau: Array) -> None:
        """Through some steps: from states, joint forces and weights of states; fills gradients of joint forces."""
        sim, count = self._sim, by_tau.shape[-2]
        most = max(1, _CHUNK // (5 * sim.robot.nv)) if sim._steps.is_compiled else 1
        for start in reversed(range(0, count, most)):
            part = slice(start, min(start + most, count))
            series = [x[..., part, :] for x in given]
            with standard_arithmetic():
                if sim._steps.is_compiled:
                    function = sim._derivatives.rollout(part.stop - start, self._masses)
                    found = function(*series, self.q, self.v, *self.sums, *sim._steps.constants)
                    self.q, self.v, by_tau[..., part, :], *self.sums, sure = found
                else:
                    q, v, tau, *weights = (x[..., 0, :] for x in series)
                    found = sim._derivatives.function("vjp", (), self._masses)(q, v, tau, self.q, self.v)
                    by_q, by_v, by_tau[..., start, :], *added, report = found
                    self.q, self.v, sure = by_q + weights[0], by_v + weights[1], report[..., 1] * report[..., 2]
                    self.sums = [x + y for x, y in zip(self.sums, added, strict=True)]
                self.sure = self.sure * sure


def _gradients(
    sim: Any, by_q: Array, by_v: Array, by_tau: Array, rest: list[Array], forces: dict[str, Array], sure: Array,
    masses: bool,
) -> StepGradients:  # fmt: skip
    """`rest` are gradients with respect to shapes, if there are any, and inertial parameters, if they are wanted."""
    none = np.zeros((*by_q.shape[:-1], 0))
    friction, height = rest[:2] if sim._derivatives.shapes else (none, none)
    return StepGradients(by_q, by_v, by_tau, friction, height, forces, sure, rest[-1] if masses else None)


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
