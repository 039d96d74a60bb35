"""Contacts with given phases: feet that are held at some steps, impacts where they touch down, friction.

Steps with the same feet are computed as one batch, by the constrained dynamics of these feet and its derivatives
(`kinetree.model.constraints`), so that λ and its derivatives are in the world's axes.

An impact takes no time, and holds the feet of its step from then on:

    M (v⁺ − v) = Jᵀλ        J v⁺ = 0                                                                               (1)

That is constrained dynamics at rest without gravity, under the joint forces M v: accelerations are v⁺, forces are
impulses. So with its derivatives a_q, a_τ and the change of M v, which is inverse dynamics at rest,

    ∂v⁺/∂q = a_q + a_τ ∂(M v)/∂q        ∂v⁺/∂v = a_τ M                                                             (2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.kernels.node_costs import moved_on
from kinetree.model.constraints import Constraints
from kinetree.model.held_rows import AnyConstraint
from kinetree.model.model import Model
from kinetree.ocp.dynamics import FreeDynamics, Rates, Reached
from kinetree.ocp.terms import Foot
from kinetree.runtime import arguments
from kinetree.runtime.function import compiled
from kinetree.runtime.matrix_products import product
from kinetree.runtime.texts import Recording
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import ROWS, Task


@dataclass(frozen=True, eq=False)
class Contacts:
    """Feet, and the steps at which they are held.

    Args:
        held: For each foot, by the name of its frame, the steps at which it is held: (T,) of booleans, or True for all.
        rows: "position" for feet that are points, "all" for feet whose orientation is held as well; or one for each.
        impact: Whether the first step of a foot after one without it is an impact: it takes no time, and stops all feet
            that are held then. Or the impacts themselves, (T,) of booleans.
        damping: What velocity of held feet is taken away per second [1/s], against drift.
        constraints: What else is held at all times, as for `robot.constraints`, such as loops and grasps.
    """

    held: Mapping[str, Any]
    rows: Any = "position"
    impact: Any = True
    damping: float = 0.0
    constraints: Iterable[AnyConstraint] = ()


class _Phase(NamedTuple):
    """Steps with the same feet: their numbers, the constraints, and where their forces are among all."""

    nodes: Array
    impact: bool
    held: Constraints | None
    columns: Array


class Phases:
    """Contacts of a robot over a horizon: `Dynamics` whose steps have feet, impacts, or neither.

    Args:
        robot: The robot.
        dt: Time steps, (T,); those of impacts do not count.
        actuated: Numbers of the velocities whose joints have motors.
        contacts: The contacts.
    """

    curved = False

    def __init__(self, robot: Model, dt: Array, actuated: Array, contacts: Contacts) -> None:
        self.robot, self.actuated = robot, actuated
        self.feet: Sequence[Foot] = _feet(contacts, len(dt))
        T = len(dt)
        self.forces = self.feet[-1].part.stop if self.feet else 0
        damping = arguments.number("damping", contacts.damping, 0.0)
        self._gains = None if damping == 0.0 else np.array([0.0, damping])
        held = np.array([foot.held for foot in self.feet]).reshape(len(self.feet), T).T
        self.impacts = _impacts(contacts.impact, held)
        self.dt, self.pace = np.where(self.impacts, 0.0, dt), np.where(self.impacts, 1.0, dt)
        self._free = FreeDynamics(robot, self.dt, actuated)
        others = list(contacts.constraints)
        kinds = np.column_stack([held, self.impacts])
        distinct, which = np.unique(kinds, axis=0, return_inverse=True)
        self._which = which.reshape(-1)
        self._phases = [
            self._phase(np.flatnonzero(self._which == i), kind[:-1], bool(kind[-1]), others)
            for i, kind in enumerate(distinct)
        ]
        self._advance = compiled(moved_on, n=robot.nv)

    def _phase(self, nodes: Array, held: Array, impact: bool, others: list[AnyConstraint]) -> _Phase:
        feet = [foot for foot, on in zip(self.feet, held, strict=True) if on]
        columns = [i for foot in feet for i in range(foot.part.start, foot.part.stop)]
        rows: list[AnyConstraint] = [*(Task(foot.frame, foot.rows) for foot in feet), *others]
        robot = self.robot.with_gravity(np.zeros(3)) if impact else self.robot
        # poses do not count, since only velocities are damped
        known = robot.constraints(rows, at=self.robot._generic_configurations()[0]) if rows else None
        return _Phase(nodes, impact, known, np.array(columns, dtype=np.intp))

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """See `Dynamics`."""
        rate, force = np.empty_like(v), np.zeros((*q.shape[:2], self.forces))
        for phase in self._phases:
            at, *given = self._of(phase, q, v, tau)
            rate[:, phase.nodes], found = self._moved(phase, at, *given)
            force[:, phase.nodes[:, None], phase.columns] = found
        after = self.robot.integrate(q, rate, np.broadcast_to(self.dt, q.shape[:2]).copy())
        return Reached(after, rate, force)

    def _of(self, phase: _Phase, *arrays: Array) -> list[Any]:
        """What a phase needs of all nodes, with one leading axis; and its shape."""
        shape = len(arrays[0]), len(phase.nodes)
        whole = shape[1] == arrays[0].shape[1]
        some = arrays if whole else [x[:, phase.nodes] for x in arrays]
        return [shape, *(x.reshape(shape[0] * shape[1], x.shape[-1]) for x in some)]

    def _moved(self, phase: _Phase, shape: tuple[int, int], q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """Velocities after a step, and forces, (N, nodes, …)."""
        pace = np.tile(self.pace[phase.nodes], shape[0])
        if phase.held is None:
            a, force = self.robot.forward_dynamics(q, v, tau), np.zeros((len(q), 0))
        elif phase.impact:
            still = np.zeros_like(v)
            push = phase.held.robot.inverse_dynamics(q, still, v)
            after, force = phase.held.forward_dynamics(q, still, push)
            return after.reshape(*shape, -1), _shaped(force, shape, phase)
        else:
            a, force = phase.held.forward_dynamics(q, v, tau, stabilization=self._gains)
        return self._advance(v, a, pace).reshape(*shape, -1), _shaped(force, shape, phase)

    def linear(self, q: Array, v: Array, tau: Array) -> Rates:
        """See `Dynamics`."""
        lead, nv, nu, nf = q.shape[:2], self.robot.nv, len(self.actuated), self.forces
        of_a = [np.empty((*lead, nv, size)) for size in (nv, nv, nu)]
        of_force = [np.zeros((*lead, nf, size)) for size in (nv, nv, nu)]
        rate = np.empty_like(v)
        for phase in self._phases:
            shape, *given = self._of(phase, q, v, tau)
            found = self._derivatives(phase, *given)
            for whole, part in zip(of_a, found[:3], strict=True):
                whole[:, phase.nodes] = part.reshape(*shape, nv, -1)
            for whole, part in zip(of_force, found[3:6], strict=True):
                rows = part[..., : len(phase.columns), :].reshape(*shape, len(phase.columns), part.shape[-1])
                whole[:, phase.nodes[:, None], phase.columns] = rows
            pace = np.tile(self.pace[phase.nodes], shape[0])
            after = found[6] if phase.impact else self._advance(given[1], found[6], pace)
            rate[:, phase.nodes] = after.reshape(*shape, nv)
        return Rates._make([*of_a, *of_force, rate])

    def _derivatives(self, phase: _Phase, q: Array, v: Array, tau: Array) -> list[Array]:
        """Derivatives of a and λ by q, v and u, and a itself; v⁺ of impacts."""
        nv, drive = self.robot.nv, self.actuated
        if phase.held is None:
            a_q, a_v, a_u = self.robot.linearize(q, v, tau=tau)
            none = [np.zeros((len(q), 0, size)) for size in (nv, nv, len(drive))]
            return [a_q, a_v, a_u[..., drive], *none, self.robot.forward_dynamics(q, v, tau)]
        if not phase.impact:
            x = phase.held.linearize(q, v, tau, stabilization=self._gains)
            forces = x.forces_dq, x.forces_dv, x.forces_dtau[..., drive]
            return [x.dq, x.dv, x.dtau[..., drive], *forces, x.acceleration]
        robot, still = phase.held.robot, np.zeros_like(v)
        moved, _, mass = robot.linearize(q, still, a=v)
        x = phase.held.linearize(q, still, robot.inverse_dynamics(q, still, v))
        by_v = product(x.dtau, mass) - np.eye(nv)  # (2)
        by_q, force_q = x.dq + product(x.dtau, moved), x.forces_dq + product(x.forces_dtau, moved)
        none = [np.zeros((len(q), size, len(drive))) for size in (nv, phase.held.rows)]
        return [by_q, by_v, none[0], force_q, product(x.forces_dtau, mass), none[1], x.acceleration]

    def hold(self, q: Array) -> Array:
        """See `Dynamics`; forces at feet are the smallest that leave the least to be held."""
        nv, drive = self.robot.nv, self.actuated
        gravity, found = self.robot.gravity_forces(q), np.zeros((len(q), len(self.dt), len(drive)))
        for phase in self._phases:
            if phase.impact:
                continue
            J = np.zeros((len(q), 0, nv)) if phase.held is None else phase.held.jacobian(q)
            for i in np.flatnonzero(np.isfinite(gravity).all(axis=-1)):
                both = np.hstack([np.eye(nv)[:, drive], J[i].T])
                found[i, phase.nodes] = np.linalg.lstsq(both, gravity[i], rcond=None)[0][: len(drive)]
        return found

    @property
    def runs(self) -> list[tuple[int, int]]:
        """See `Dynamics`."""
        starts = [0, *(np.flatnonzero(np.diff(self._which)) + 1).tolist()]
        return [(start, stop - start) for start, stop in zip(starts, [*starts[1:], len(self.dt)], strict=True)]

    def record(self, run: Any, node: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """See `Dynamics`."""
        phase, text = self._phases[self._which[node]], Recording(run)
        if phase.held is None:
            return self._free.record(run, node, q, v, tau, dt)
        near = not phase.held.regular
        if phase.impact:
            after, *_ = phase.held.solve(text, q, None, v, near)  # v⁺ = v + M⁻¹Jᵀλ
        else:
            gains = None if self._gains is None else np.tile(self._gains, (phase.held.rows, 1))
            free = run.call(self.robot.forward_dynamics, q, v, tau)
            a, *_ = phase.held.solve(text, q, v, free, near, None, gains)
            after = run.call(self._advance, v, a, dt)
        return run.call(self.robot.integrate, q, after, dt), after


def _shaped(force: Array, shape: tuple[int, int], phase: _Phase) -> Array:
    found: Array = force[..., : len(phase.columns)].reshape(*shape, len(phase.columns))
    return found


def _feet(contacts: Contacts, T: int) -> list[Foot]:
    if not isinstance(contacts.held, Mapping):
        raise InputError(f"held of contacts is a mapping from frames to the steps of each, got {contacts.held!r}")
    found: list[Foot] = []
    for frame, on in contacts.held.items():
        rows = contacts.rows.get(frame, "position") if isinstance(contacts.rows, Mapping) else contacts.rows
        if rows not in ("position", "all"):
            raise InputError(f"rows of contact {frame!r} are 'position' or 'all', got {rows!r}")
        mask = np.asarray(on)
        if mask.dtype != bool or mask.shape not in ((), (T,)):
            raise InputError(
                f"contact {frame!r} is held at steps that are booleans, ({T},), or True for all; got "
                f"{mask.dtype} of shape {mask.shape}"
            )
        start = found[-1].part.stop if found else 0
        found.append(Foot(frame, rows, np.broadcast_to(mask, (T,)), slice(start, start + len(ROWS[rows]))))
    return found


def _impacts(given: Any, held: Array) -> Array:
    """The steps that are impacts, (T,)."""
    T = len(held)
    if isinstance(given, (bool, np.bool_)):
        found = np.zeros(T, dtype=bool)
        if given:
            found[1:] = (held[1:] & ~held[:-1]).any(axis=1)
        return found
    mask = np.asarray(given)
    if mask.dtype != bool or mask.shape != (T,):
        raise InputError(f"impact of contacts is True, False or the steps that are impacts, booleans ({T},)")
    if (mask & ~held.any(axis=1)).any():
        raise InputError(f"step {int(np.flatnonzero(mask & ~held.any(axis=1))[0])} is an impact without a held foot")
    return mask
