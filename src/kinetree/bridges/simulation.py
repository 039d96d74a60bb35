"""Steps of a `Simulator`, with contacts and constraints: the compiled functions of its `step`, `step.jvp`, `step.vjp`.

Tangents of configurations after a step and changes of their components are one linear map apart, that of the move
q′ ⊕ x at x = 0 (`algorithms/kinematics/manifold.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics.manifold import integrate_change, integrate_gradients
from kinetree.bridges.differentiable import Arrays, NumPy, OnceDifferentiable
from kinetree.errors import InputError, UnsupportedError
from kinetree.runtime.bound import quiet
from kinetree.simulation import Simulator
from kinetree.simulation.contacts import Contacts
from kinetree.simulation.step_functions import require
from kinetree.spatial.value import Array


class SimulatedStep(OnceDifferentiable):
    """q, v and the residual after a step, of q, v, τ, wrenches on frames and friction of shapes before it.

    Args:
        sim: The simulator.
        frames: Frames on which wrenches act.
        arrays: The library whose arrays it takes.
        frictions: Whether μ of the shapes of the ground is the last argument.
    """

    def __init__(self, sim: Simulator, frames: Sequence[str], arrays: Arrays, frictions: bool = False) -> None:
        self.sim, self.frames = _simulator("step", sim), tuple(frames)
        robot = sim.robot
        self._sites = tuple(robot.site(frame) for frame in self.frames)
        given = [("q", robot.nq), ("v", robot.nv), ("tau", robot.nv), *((repr(frame), 6) for frame in self.frames)]
        self._frictions = frictions
        if frictions:
            if not isinstance(sim._contacts, Contacts) or not sim._steps.is_compiled:
                raise UnsupportedError("step: friction is an argument of compiled steps with contacts=[Points(…)] only")
            given.append(("friction", len(sim._contacts.ground)))
        super().__init__("step", robot, arrays, given, [(robot.nq,), (robot.nv,), ()])

    @property
    def fixed(self) -> tuple[Array, ...]:
        """The constants of a population."""
        return self.sim._steps.constants

    @quiet
    def value(self, *arrays: Any) -> Any:
        """State and residual after the step."""
        (q, v, tau, *rest), fixed = self.groups("value", arrays)
        q, v, _, *rest = self._run("step", (q, v, tau), *self._split(rest), fixed)
        names = list(self.sim._contacts.shapes) if self.sim._contacts is not None else []
        residual = rest[names.index("report")][..., 1:2] if names else 0.0 * v[..., :1]
        return self._flat((q, v, residual), q.shape[:-1])

    @quiet
    def change(self, *arrays: Any) -> Any:
        """Its change; that of the residual is zero."""
        (q, v, tau, *rest), (dq, dv, dtau, *changes), fixed = self.groups("change", arrays)
        xp, state = self._arrays.numpy, (q, v, tau)
        (wrenches, friction), (pushes, rougher) = self._split(rest), self._split(changes)
        along = [self.tangent(q, dq), dv, dtau]
        if self._shapes:
            none = xp.zeros((*q.shape[:-1], self._shapes), dtype=q.dtype)
            along += [*(rougher or [none]), none]
        stacked = [xp.stack(pushes, axis=-2)] if pushes else []
        after, rate = self._run("jvp", (*state, *along, *stacked), wrenches, friction, fixed)[:2]
        end = None if self.is_plain else self._run("step", state, wrenches, friction, fixed)[0]
        return self._flat((self._components(end, after), rate, 0.0 * rate[..., :1]), q.shape[:-1])

    @quiet
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients with respect to each argument."""
        (q, v, tau, *rest), (weights,), fixed = self.groups("gradients", arrays)
        state, nq, (wrenches, friction) = (q, v, tau), self.robot.nq, self._split(rest)
        end = None if self.is_plain else self._run("step", state, wrenches, friction, fixed)[0]
        at_end = self.tangents(end, weights[..., :nq]), weights[..., nq:-1]
        by_q, by_v, by_tau, *others = self._run("vjp", (*state, *at_end), wrenches, friction, fixed)
        by_wrenches = [others[2 * bool(self._shapes)][..., i, :] for i in range(len(self.frames))]
        by_friction = [others[0]] if self._frictions else []
        return self.by_components(q, by_q), by_v, by_tau, *by_wrenches, *by_friction

    @property
    def _shapes(self) -> int:
        """The number of shapes whose friction and height derivatives know."""
        return 0 if self.sim._held is not None else self.sim._derivatives.shapes

    def _split(self, rest: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Wrenches, and friction if that is an argument."""
        return rest[: len(self.frames)], rest[len(self.frames) :]

    def _run(
        self, name: str, given: Sequence[Any], wrenches: Sequence[Any], friction: Sequence[Any], fixed: Sequence[Any]
    ) -> Any:
        """The results of a function of the simulator; of its other one, where rows of constraints become dependent."""
        stacked = [self._arrays.numpy.stack(wrenches, axis=-2)] if wrenches else []
        inputs = [*given, *stacked, *friction, *fixed]
        found = self._arrays.run(self._function(name, False), *inputs)
        if self.sim.constraints is None or (name != "step" and self.sim._held is None):
            return found
        *found, doubts = found
        return self._arrays.recomputed(
            doubts, found, lambda: self._arrays.run(self._function(name, True), *inputs)[:-1]
        )

    def _function(self, name: str, near: bool) -> Callable[..., Any]:
        if name == "step":
            return self.sim._steps.function(None, 1, False, self._sites, near, self._frictions)
        if self.sim._held is not None:
            return self.sim._held._function((name, self._sites, False), near)
        require(self.sim)
        return self.sim._derivatives.function(name, self._sites, False, self._frictions)

    def _components(self, end: Any, tangent: Any) -> Any:
        """The change of the components of q for a tangent."""
        if self.is_plain:
            return tangent
        ones = self._arrays.numpy.ones(end.shape[:-1], dtype=end.dtype)
        return self._map(integrate_change, end, 0.0 * tangent, ones, 0.0 * end, tangent)

    def tangents(self, end: Any, weights: Any) -> Any:
        """Weights of a tangent, from those of the components of q."""
        if self.is_plain:
            return weights
        still = self._arrays.numpy.zeros((*end.shape[:-1], self.robot.nv), dtype=end.dtype)
        return self._map(integrate_gradients, end, still, weights)[1]


class SimulatedMotion(OnceDifferentiable):
    """States and residuals of T steps, the first included, as of `Simulator.rollout`, on NumPy arrays.

    Gradients are those of `rollout.vjp`, whose memory is bounded.

    Args:
        sim: The simulator.
        steps: T.
    """

    def __init__(self, sim: Simulator, steps: int) -> None:
        self.sim, self._steps, robot = _simulator("simulate", sim), steps, sim.robot
        given = [("q", robot.nq), ("v", robot.nv), ("tau", steps * robot.nv)]
        results = [(steps + 1, robot.nq), (steps + 1, robot.nv), (steps + 1,)]
        super().__init__("simulate", robot, NumPy(), given, results)
        self._one = SimulatedStep(sim, (), NumPy())

    @property
    def fixed(self) -> tuple[Array, ...]:
        """The constants of a population, which give its axes."""
        return self.sim._steps.constants

    def value(self, *arrays: Any) -> Any:
        """States and residuals."""
        _, q, v, residual = self._rolled_out(arrays)
        return self._flat((q, v, residual), q.shape[:-2])

    def change(self, *arrays: Any) -> Any:
        """Their changes, step by step."""
        (q, v, tau), (dq, dv, dtau), fixed = self.groups("change", arrays)
        taus, along = self._series(tau), self._series(dtau)
        changes = [(dq, dv)]
        for i in range(self._steps):
            state = q, v, taus[..., i, :]
            joined = self._one.change(*state, dq, dv, along[..., i, :], *fixed)
            dq, dv, _ = self._one.shaped(joined)
            q, v, _ = self._one.shaped(self._one.value(*state, *fixed))
            changes.append((dq, dv))
        found = [np.stack(each, axis=-2) for each in zip(*changes, strict=True)]
        return self._flat((*found, np.zeros(found[0].shape[:-1])), q.shape[:-1])

    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients with respect to the first state and all joint forces."""
        (q, _, tau), (weights,), fixed = self.groups("gradients", arrays)
        (start, v, taus), path, _, _ = self._rolled_out((*arrays[:3], *fixed))
        by_q, by_v, _ = self.shaped(weights)
        tangents, rates = np.zeros((*by_q.shape[:-1], self.robot.nv)), by_v.copy()
        tangents[..., 1:, :] = self._one.tangents(path[..., 1:, :], by_q[..., 1:, :])
        rates[..., 0, :] = 0.0
        found = self.sim.rollout.vjp(start, v, taus, tangents, rates)
        by_tau = found.tau.reshape(tau.shape)
        return by_q[..., 0, :] + self.by_components(q, found.q), by_v[..., 0, :] + found.v, by_tau

    def _rolled_out(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        q, v, tau = arrays[:3]
        given = q, v, self._series(tau)
        path = self.sim.rollout(*given)
        return given, path.q, path.v, path.residual

    def _series(self, tau: Any) -> Any:
        return tau.reshape((*tau.shape[:-1], self._steps, self.robot.nv))


def _simulator(name: str, sim: Any) -> Simulator:
    if not isinstance(sim, Simulator):
        raise InputError(f"{name} takes a kinetree.Model or a Simulator, got {type(sim).__name__}")
    return sim
