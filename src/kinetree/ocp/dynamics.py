"""Steps of the nodes of a horizon, all at once, and their derivatives.

Each step is that of semi-implicit Euler, v′ = v + pace a(q, v, u), q′ = q ⊕ dt v′, where pace is dt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.model.model import Model
from kinetree.ocp.terms import Foot
from kinetree.runtime.bound import Compiled
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.runtime.texts import consecutive
from kinetree.spatial.value import Array


class Reached(NamedTuple):
    """Where steps lead from nodes, (N, T, …), and the forces at contacts, (N, T, nf)."""

    q: Array
    v: Array
    force: Array


class Rates(NamedTuple):
    """Where a sequence puts derivatives of a node's accelerations, (nv, …), and forces, (nf, …), by q, v and u."""

    a_q: MemorySpan
    a_v: MemorySpan
    a_u: MemorySpan
    force_q: MemorySpan
    force_v: MemorySpan
    force_u: MemorySpan


class Dynamics:
    """How the nodes of a horizon move on: without contacts. Arrays have leading axes of problems and of nodes.

    Args:
        robot: The robot.
        dt: Time steps, (T,).
        actuated: Numbers of the velocities whose joints have motors.

    Attributes:
        dt: What velocities are multiplied by, (T,).
        pace: What accelerations are multiplied by, (T,).
        forces: Number of components of all forces at contacts, nf.
        curved: Whether second derivatives are those of the robot's free dynamics.
        feet: Feet at contacts.
        impacts: Which steps are impacts, (T,).
        kinds: The nodes of steps that are alike: numbers, or a slice.
    """

    forces, curved = 0, True
    feet: Sequence[Foot] = ()

    def __init__(self, robot: Model, dt: Array, actuated: Array) -> None:
        self.robot, self.dt, self.pace, self.actuated = robot, dt, dt, actuated
        self.impacts = np.zeros(len(dt), dtype=bool)
        self.kinds: Sequence[Any] = [slice(0, len(dt))]
        #: Time steps and paces of nodes of a kind, for a number of problems.
        self.times = lru_cache(64)(self._repeated)

    def _repeated(self, kind: int, problems: int) -> list[Array]:
        return [np.tile(x[self.kinds[kind]], (problems, 1)) for x in (self.dt, self.pace)]

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """First node, number of nodes and kind of each run of nodes that are alike."""
        which = np.empty(len(self.dt), dtype=int)
        for kind, nodes in enumerate(self.kinds):
            which[nodes] = kind
        starts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist()]
        stops = [*starts[1:], len(which)]
        return [(start, stop - start, int(which[start])) for start, stop in zip(starts, stops, strict=True)]

    def evaluate(
        self, function: Callable[[int, bool], Compiled], given: Sequence[Array], results: Sequence[Array]
    ) -> None:
        """Put results of steps in their places.

        Args:
            function: Makes what computes them for a kind of step from what is given of its nodes, times and paces, and
                says whether constraints may depend on each other; or else what does so by eigenvalues.
            given: Arrays of all nodes, (N, T, …).
            results: Where to put results.
        """
        for kind, nodes in enumerate(self.kinds):
            own = [np.ascontiguousarray(x[:, nodes]) for x in given] + self.times(kind, len(given[0]))
            near = not self.regular(kind)
            *found, doubts = function(kind, near)(*own)
            if not near and doubts.any():
                some = doubts > 0.0
                for one, new in zip(found, function(kind, True)(*(x[some] for x in own)), strict=False):
                    one[some] = new
            for each, part in zip(results, found, strict=True):
                each[:, nodes] = part

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """Where all steps lead."""
        dt, _ = self.times(0, len(q))
        return Reached(*self.robot.step(q, v, tau, dt), np.zeros((*q.shape[:2], 0)))

    def hold(self, q: Array) -> Array:
        """Inputs that hold configurations, (N, nq), against gravity as well as they can, (N, T, nu)."""
        return np.repeat(self.robot.gravity_forces(q)[:, None, self.actuated], len(self.dt), axis=1)

    def regular(self, kind: int) -> bool:
        """Whether constraints of a kind of step, as far as is known, do not depend on each other."""
        del kind
        return True

    def record(self, run: Any, kind: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """A step of a kind in a sequence: q′ and v′."""
        del kind
        return run.call(self.robot.step, q, v, tau, dt)

    def record_rates(
        self, run: KernelSequence, kind: int, near: bool, q: Any, v: Any, tau: Any, into: Rates
    ) -> tuple[Callable[[], Any], Any]:
        """Derivatives of a step of a kind in a sequence; returns what records a, and `spread` of constraints.

        Where they are `near` to depend on each other, derivatives are by eigenvalues.
        """
        del kind, near
        return free_rates(run, self.robot, self.actuated, q, v, tau, into), 0.0


class DenseDynamics(Dynamics):
    """The robot without contacts, by an integrator whose steps have no structure.

    Args:
        robot: The robot.
        dt: Time steps, (T,).
        actuated: Numbers of the velocities whose joints have motors.
        method: As for `robot.step`.
    """

    curved = False

    def __init__(self, robot: Model, dt: Array, actuated: Array, method: str) -> None:
        super().__init__(robot, dt, actuated)
        self.method = method

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """See `Dynamics`."""
        dt, _ = self.times(0, len(q))
        return Reached(*self.robot.step(q, v, tau, dt, self.method), np.zeros((*q.shape[:2], 0)))

    def discretized(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """A and B of all steps, (N, T, 2 nv, …)."""
        dt, _ = self.times(0, len(q))
        A, B = self.robot.discretize(q, v, tau, dt, self.method)
        return A, np.ascontiguousarray(B[..., self.actuated])

    def record(self, run: Any, kind: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """See `Dynamics`."""
        del kind
        step: Any = self.robot.step
        return run.call(step.bound_by(self.method), q, v, tau, dt)


def free_rates(
    run: KernelSequence, robot: Model, actuated: Array, q: Any, v: Any, tau: Any, into: Rates
) -> Callable[[], Any]:
    """Derivatives of a step without contacts in a sequence; returns what records accelerations."""
    full = bool(np.array_equal(actuated, np.arange(robot.nv)))
    places = [into.a_q, into.a_v, into.a_u if full else None]
    *_, by_tau = run.call(robot.forward_dynamics_derivatives, q, v, tau, into=places)
    if not full:
        copy_columns(run, by_tau, robot.nv, actuated, into.a_u)
    for place in into[3:]:
        if place.size:
            run.clear(place)
    return lambda: run.call(robot.forward_dynamics, q, v, tau)


def copy_columns(run: KernelSequence, matrix: MemorySpan, width: int, columns: Array, to: MemorySpan) -> None:
    """Some columns of a matrix whose rows have a width."""
    for row in range(matrix.size // width):
        for at, start, size in consecutive(columns):
            run.copy(matrix.part(row * width + start, size), to.part(row * len(columns) + at, size))
