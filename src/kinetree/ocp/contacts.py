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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.impacts import impact_derivatives
from kinetree.kernels.node_costs import moved_on
from kinetree.kernels.node_models import difference
from kinetree.kernels.solve import count_doubt
from kinetree.model.constraints import Constraints
from kinetree.model.held_derivatives import DerivativeText
from kinetree.model.held_rows import AnyConstraint
from kinetree.model.model import Model
from kinetree.ocp.dynamics import Dynamics, Rates, Reached, copy_columns, free_rates
from kinetree.ocp.force_terms import friction
from kinetree.ocp.terms import CostTerm, Foot
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.runtime.texts import Recording, consecutive, recorded
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import ROWS, Task

#: Matrices of `DerivativeText` of "linearize".
_MATRICES = 7


@dataclass(frozen=True, eq=False)
class Contacts:
    """Feet, and the steps at which they are held.

    Args:
        held: For each foot, by the name of its frame, the steps at which it is held: (T,) of booleans, or True for all.
        rows: "position" for feet that are points, "all" for feet whose orientation is held as well; or one for each.
        impact: Whether the step at which a foot touches down is an impact: it takes no time, and stops all feet that
            are held from then on. Or the impacts themselves, (T,) of booleans.
        damping: Rate at which velocities of held feet decay [1/s], against drift.
        friction: Coefficient of friction; forces and impulses of all feet then stay inside cones, as with the hard
            terms `ocp.friction(foot, friction, sole=…)`.
        sole: Half length and half width of whole feet [m]: see `ocp.cone`.
        forward: Directions of the feet's lengths in the world, by foot, of those that are turned: see `ocp.cone`.
        constraints: What else is held at all times, as for `robot.constraints`, such as loops and grasps.
    """

    held: Mapping[str, Any]
    rows: Any = "position"
    impact: Any = True
    damping: float = 0.0
    friction: float | None = None
    sole: tuple[float, float] | None = None
    forward: Mapping[str, Any] | None = None
    constraints: Iterable[AnyConstraint] = ()

    @property
    def terms(self) -> list[CostTerm]:
        """Internal. The cones of friction."""
        if not isinstance(self.held, Mapping):
            raise InputError(f"held of contacts is a mapping from frames to the steps of each, got {self.held!r}")
        mu, forward, whole = self.friction, dict(self.forward or {}), [f for f in self.held if self.rows_of(f) == "all"]
        for name, feet in (("forward", forward), ("rows", self.rows if isinstance(self.rows, Mapping) else {})):
            for foot in feet:
                if foot not in self.held:
                    raise UnknownNameError(f"foot in {name} of contacts", foot, tuple(self.held))
        if self.sole is not None and (mu is None or not whole):
            fix = "friction=…" if mu is None else 'a foot with rows="all"'
            raise InputError(f"sole={self.sole!r} of contacts is for cones of whole feet, which need {fix}")
        if mu is None:
            return []
        # first penalties: impulses are forces times a step, and so smaller
        options: dict[str, Any] = {"hard": True, "weight": 1e-2, "impact": 10.0}
        soles = dict.fromkeys(whole, self.sole)
        return [friction(foot, mu, sole=soles.get(foot), forward=forward.get(foot), **options) for foot in self.held]

    def rows_of(self, foot: str) -> Any:
        """Internal. What is held of a foot."""
        return self.rows.get(foot, "position") if isinstance(self.rows, Mapping) else self.rows


class _Phase(NamedTuple):
    """Steps with the same feet.

    Attributes:
        nodes: Their numbers; a slice if they follow each other.
        impact: Whether they are impacts.
        held: Their constraints, of a robot without gravity for impacts; None without any.
        columns: Where the forces of their feet are among all.
    """

    nodes: Any
    impact: bool
    held: Constraints | None
    columns: Array


class Phases(Dynamics):
    """Contacts of a robot over a horizon: `Dynamics` whose steps have feet, impacts, or neither.

    Args:
        robot: The robot.
        dt: Time steps, (T,); those of impacts do not count.
        actuated: Numbers of the velocities whose joints have motors.
        contacts: The contacts.
    """

    curved = False

    def __init__(self, robot: Model, dt: Array, actuated: Array, contacts: Contacts) -> None:
        super().__init__(robot, dt, actuated)
        self.feet: Sequence[Foot] = _feet(contacts, len(dt))
        T = len(dt)
        self.forces = self.feet[-1].part.stop if self.feet else 0
        damping = arguments.number("damping of contacts", contacts.damping, 0.0, "a rate from 0 on [1/s]")
        self._gains = None if damping == 0.0 else np.array([0.0, damping])
        held = np.array([foot.held for foot in self.feet], dtype=bool).reshape(len(self.feet), T).T
        self.impacts = _impacts(contacts.impact, held)
        self.dt, self.pace = np.where(self.impacts, 0.0, dt), np.where(self.impacts, 1.0, dt)
        others = list(contacts.constraints)
        kinds = np.column_stack([held, self.impacts])
        distinct, which = np.unique(kinds, axis=0, return_inverse=True)
        self._phases = [
            self._phase(np.flatnonzero(which.reshape(-1) == i), kind[:-1], bool(kind[-1]), others)
            for i, kind in enumerate(distinct)
        ]
        self.kinds = [phase.nodes for phase in self._phases]
        self._advance = compiled(moved_on, n=robot.nv)
        self._steps = cache(self._recorded)

    def _phase(self, nodes: Array, held: Array, impact: bool, others: list[AnyConstraint]) -> _Phase:
        feet = [foot for foot, on in zip(self.feet, held, strict=True) if on]
        columns = [i for foot in feet for i in range(foot.part.start, foot.part.stop)]
        rows: list[AnyConstraint] = [*(Task(foot.frame, foot.rows) for foot in feet), *others]
        robot = self.robot.with_gravity(np.zeros(3)) if impact else self.robot
        # poses do not count, since only velocities are damped
        known = robot.constraints(rows, at=self.robot._generic_configurations()[0]) if rows else None
        return _Phase(_sliced(nodes), impact, known, np.array(columns, dtype=np.intp))

    def step(self, q: Array, v: Array, tau: Array) -> Reached:
        """See `Dynamics`."""
        reached = Reached(np.empty_like(q), np.empty_like(v), np.empty((*q.shape[:2], self.forces)))
        self.evaluate(self._steps, (q, v, tau), reached)
        return reached

    def _recorded(self, number: int, near: bool) -> Compiled:
        """A step of a phase as one function."""
        phase, nq, nv = self._phases[number], self.robot.nq, self.robot.nv
        shapes = {"q": (nq,), "v": (nv,), "tau": (nv,), "dt": (), "pace": ()}
        inputs = [Operand(name, shape) for name, shape in shapes.items()]
        outputs = [Operand("q", (nq,)), Operand("v", (nv,)), Operand("force", (self.forces,)), Operand("doubts", ())]

        def text(run: Any, q: Any, v: Any, tau: Any, dt: Any, pace: Any) -> Sequence[Any]:
            after, force, spread = self._text(run, phase, near, q, v, tau, pace)
            feet = phase.columns
            force = run.placed(force, feet, (self.forces,)) if len(feet) else np.zeros(self.forces)
            doubt = 0.0 if spread is None else run(compiled(count_doubt), spread, 0.0)
            return run(self.robot.integrate, q, after, dt), after, force, doubt

        return recorded("step", inputs, outputs, text)

    def _text(self, run: Any, phase: _Phase, near: bool, q: Any, v: Any, tau: Any, pace: Any) -> tuple[Any, Any, Any]:
        """Velocities after a step, forces, and `spread` (see `Constraints.solve`)."""
        if phase.impact and phase.held is not None:
            after, force, spread = phase.held.solve(run, q, None, v, near)  # v⁺ = v + M⁻¹Jᵀλ
            return after, force, None if near else spread
        a, force, spread = run(self.robot.forward_dynamics, q, v, tau), None, None
        if phase.held is not None:
            gains = None if self._gains is None else np.tile(self._gains, (phase.held.rows, 1))
            a, force, spread = phase.held.solve(run, q, v, a, near, None, gains)
        return run(self._advance, v, a, pace), force, None if near else spread

    def regular(self, kind: int) -> bool:
        """See `Dynamics`."""
        held = self._phases[kind].held
        return held is None or held.regular

    def record_rates(
        self, run: KernelSequence, kind: int, near: bool, q: Any, v: Any, tau: Any, into: Rates
    ) -> tuple[Callable[[], Any], Any]:
        """See `Dynamics`."""
        phase, nv = self._phases[kind], self.robot.nv
        held = phase.held
        if held is None:
            return free_rates(run, self.robot, self.actuated, q, v, tau, into), 0.0
        all_rows = len(phase.columns) == held.rows == self.forces
        if phase.impact:
            robot, still = held.robot, np.zeros(nv)
            moved, _, mass = run.call(robot.inverse_dynamics_derivatives, q, still, v)
            push = run.call(robot.inverse_dynamics, q, still, v)
            text = Recording(run, [None] * _MATRICES)
            x = DerivativeText(held, "linearize", (), stabilized=False)(text, near, q, still, push, None)
            by_q, _, by_tau, _, force_q, _, force_tau, _, after, _, _, spread = x
            both = compiled(impact_derivatives, n=nv, c=held.rows)  # (2)
            places = [into.a_q, into.a_v, *([into.force_q, into.force_v] if all_rows else [None, None])]
            *_, force_q, force_v = run.call(both, by_q, by_tau, force_q, force_tau, moved, mass, into=places)
            run.clear(into.a_u)
            for part, place in ((force_q, into.force_q), (force_v, into.force_v), (None, into.force_u)):
                self._put_rows(run, phase, part, place)
            return lambda: run.call(compiled(difference, n=nv), after, v), spread
        gains = () if self._gains is None else (np.tile(self._gains, (held.rows, 1)),)
        forces = (into.force_q, into.force_v) if all_rows else (None, None)
        text = Recording(run, [into.a_q, into.a_v, None, None, *forces, None])
        x = DerivativeText(held, "linearize", (), bool(gains))(text, near, q, v, tau, None, *gains)
        _, _, by_tau, _, force_q, force_v, force_tau, _, a, _, _, spread = x
        copy_columns(run, by_tau, nv, self.actuated, into.a_u)
        force_u = run.space(held.rows * len(self.actuated))
        copy_columns(run, force_tau, nv, self.actuated, force_u)
        for part, place in ((force_q, into.force_q), (force_v, into.force_v), (force_u, into.force_u)):
            self._put_rows(run, phase, part, place)
        return lambda: a, spread

    def _put_rows(self, run: KernelSequence, phase: _Phase, part: Any, to: MemorySpan) -> None:
        """What the feet of a phase have among all feet; nothing of others."""
        if part == to:
            return
        if to.size:
            run.clear(to)
        width = to.size // max(self.forces, 1)
        for at, start, size in consecutive(phase.columns) if part is not None else ():
            run.copy(part.part(at * width, size * width), to.part(start * width, size * width))

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

    def record(self, run: Any, kind: int, q: Any, v: Any, tau: Any, dt: Any) -> Any:
        """See `Dynamics`."""
        phase, near = self._phases[kind], not self.regular(kind)
        pace = np.ones(()) if phase.impact else dt
        after, *_ = self._text(Recording(run), phase, near, q, v, tau, pace)
        return run.call(self.robot.integrate, q, after, dt), after


def _sliced(numbers: Array) -> Any:
    """Numbers as a slice, if they follow each other."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


def _feet(contacts: Contacts, T: int) -> list[Foot]:
    found: list[Foot] = []
    for frame, on in contacts.held.items():
        rows = contacts.rows_of(frame)
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
