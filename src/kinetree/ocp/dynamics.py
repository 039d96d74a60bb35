"""Steps of the nodes of a horizon, all at once, and their derivatives.

Each step is that of semi-implicit Euler, v′ = v + pace a(q, v, u), q′ = q ⊕ dt v′, where pace is dt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinetree.model.model import Model
from kinetree.ocp.terms import Foot
from kinetree.spatial.value import Array


class Reached(NamedTuple):
    """Where steps lead from nodes, (N, T, …), and the forces at contacts, (N, T, nf)."""

    q: Array
    v: Array
    force: Array


class Rates(NamedTuple):
    """Derivatives of accelerations, (N, T, nv, …), and of forces, (N, T, nf, …), by q, v and u; and v′, if at hand."""

    a_q: Array
    a_v: Array
    a_u: Array
    force_q: Array
    force_v: Array
    force_u: Array
    v: Array | None


class Dynamics(Protocol):
    """How the nodes of a horizon move on. Arrays have leading axes of problems and of nodes.

    Attributes:
        dt: What velocities are multiplied by, (T,).
        pace: What accelerations are multiplied by, (T,).
        forces: Number of components of all forces at contacts, nf.
        curved: Whether second derivatives are those of the robot's free dynamics.
        feet: Feet at contacts.
        impacts: Which steps are impacts, (T,).
    """

    feet: Sequence[Foot]
    impacts: Array
    dt: Array
    pace: Array
    forces: int
    curved: bool

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """Where all steps lead."""

    def linear(self, q: Array, v: Array, tau: Array) -> Rates:
        """Derivatives of all steps."""

    def hold(self, q: Array) -> Array:
        """Inputs that hold configurations, (N, nq), against gravity as well as they can, (N, T, nu)."""

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First node and number of nodes of each run of nodes that are alike."""

    def record(self, run: Any, node: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """The step of a node like this one, in a sequence: q′ and v′."""


class FreeDynamics:
    """The robot without contacts.

    Args:
        robot: The robot.
        dt: Time steps, (T,).
        actuated: Numbers of the velocities whose joints have motors.
    """

    forces, curved = 0, True
    feet: Sequence[Foot] = ()

    def __init__(self, robot: Model, dt: Array, actuated: Array) -> None:
        self.impacts = np.zeros(len(dt), dtype=bool)
        self.robot, self.dt, self.pace, self.actuated = robot, dt, dt, actuated
        self._full = bool(np.array_equal(actuated, np.arange(robot.nv)))
        #: Time steps of all nodes, for as many problems as in the last call.
        self._times = np.zeros((0, 0))

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """See `Dynamics`."""
        times = self._times
        if times.shape != q.shape[:2]:
            self._times = times = np.broadcast_to(self.dt, q.shape[:2]).copy()
        return Reached(*self.robot.step(q, v, tau, times), np.zeros((*q.shape[:2], 0)))

    def linear(self, q: Array, v: Array, tau: Array) -> Rates:
        """See `Dynamics`."""
        a_q, a_v, a_u = self.robot.linearize(q, v, tau=tau)
        a_u = a_u if self._full else np.ascontiguousarray(a_u[..., self.actuated])
        return Rates(a_q, a_v, a_u, a_q[..., :0, :], a_v[..., :0, :], a_u[..., :0, :], None)

    def hold(self, q: Array) -> Array:
        """See `Dynamics`."""
        return np.repeat(self.robot.gravity_forces(q)[:, None, self.actuated], len(self.dt), axis=1)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """See `Dynamics`."""
        return [(0, len(self.dt))]

    def record(self, run: Any, node: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """See `Dynamics`."""
        del node
        return run.call(self.robot.step, q, v, tau, dt)


class DenseDynamics(FreeDynamics):
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
        self._step: Any = robot.step

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """See `Dynamics`."""
        after = self.robot.step(q, v, tau, np.broadcast_to(self.dt, q.shape[:2]).copy(), self.method)
        return Reached(*after, np.zeros((*q.shape[:2], 0)))

    def discretized(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """A and B of all steps, (N, T, 2 nv, …)."""
        A, B = self.robot.discretize(q, v, tau, np.broadcast_to(self.dt, q.shape[:2]).copy(), self.method)
        return A, B if self._full else np.ascontiguousarray(B[..., self.actuated])

    def record(self, run: Any, node: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """See `Dynamics`."""
        del node
        return run.call(self._step.bound_by(self.method), q, v, tau, dt)
