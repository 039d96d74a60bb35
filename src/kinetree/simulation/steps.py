"""Time steps as one text: compiled functions of several steps, called in a loop without Python in between.

A step is the integrator's (`kinetree.simulation.plant`), with constraints in its accelerations and a projection at its
end (`kinetree.model.constraints`), and impulses of contacts and joints (`kinetree.simulation.contacts`). Where shapes
are measured by Python code, single steps are executed on arrays instead.

Constraints have doubts where their rows come to depend on each other. Each function counts them; for samples with
doubts, single steps are computed again with `near`, which takes eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from kinetree.algorithms.dynamics import time_step
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.concurrency import ForkSafeLock
from kinetree.kernels.contact_problem import larger_residual
from kinetree.kernels.joint_rows import mean_acceleration
from kinetree.kernels.language import Kernel
from kinetree.kernels.solve import count_doubt
from kinetree.kernels.turning_bodies import turned, turned_back
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Site
from kinetree.model.constraints import Constraints
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import ready_for
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from kinetree.runtime.texts import BY_NAME, Recording, executed
from kinetree.runtime.threads import get_threads
from kinetree.simulation.contacts import Contacts, JointRows
from kinetree.simulation.discovery import DiscoveredContacts
from kinetree.simulation.plant import Plant
from kinetree.simulation.step_results import Impulses
from kinetree.spatial.value import Array

#: Methods that are one recursion if nothing interferes.
_WHOLE = {"semi_implicit_euler": time_step.semi_implicit_euler, "midpoint": time_step.midpoint}
#: Numbers of a sample, in its torques and results, that one call handles; lanes of them fit the processor's cache.
_CHUNK = 4096
#: Steps of all samples in one call: some tenths of a second, after which Ctrl-C is noticed.
_UNINTERRUPTED = 100_000
#: Samples from which on they are sorted by contacts, and steps after which they are again.
_SORTED, _RESORTED = 32, 50
#: Functions that are kept, by their numbers of steps.
_KEPT = 64


class Stage(NamedTuple):
    """Accelerations that a step has computed."""

    q: Any
    v: Any
    push: Any  # joint forces, with springs and dampers
    a: Any


class Met(NamedTuple):
    """Velocities of the end of a step in the middle of it, where impulses act."""

    free: Any  # before impulses, in the axes of the end
    before: Any
    after: Any


@dataclass
class Trail:
    """What a step has come by, for its derivatives."""

    stages: list[Stage] = field(default_factory=list)
    q: Any = None  # configuration after it, before a projection
    rate: Any = None  # velocities, too
    touched: Impulses | None = None
    met: Met | None = None
    bodies: Any = None


class Steps:
    """Steps of a plant.

    Args:
        plant: The robot, with its dampers and springs.
        contacts: Impulses of contacts and joints, if there are any.
        constraints: What is held fixed, if anything.
        project: Whether each step ends with a projection onto the constraints.

    Attributes:
        is_compiled: Whether steps are compiled functions, rather than executed on arrays.
        plant: As above, and so are the others.
        turning: Where velocities of free bodies start that turn between impulses and the end of a step, once for each.
        sorts: Whether rollouts count contacts, so that samples with as many share lanes.
    """

    def __init__(
        self,
        plant: Plant,
        contacts: Contacts | DiscoveredContacts | JointRows | None,
        constraints: Constraints | None,
        project: bool,
    ) -> None:
        self.plant, self.contacts = plant, contacts
        self.constraints, self.project = constraints, project
        self.is_compiled = contacts is None or contacts.is_compiled
        meets = plant.method == "midpoint" and isinstance(contacts, (Contacts, DiscoveredContacts))
        self.turning = plant.free_bodies if meets and constraints is None else []
        self.sorts = isinstance(contacts, DiscoveredContacts)
        self._lock = ForkSafeLock()
        self._made: dict[Any, Any] = {}

    # The text

    def text(
        self, run: Any, sites: tuple[Site, ...], near: bool, alone: bool, q: Any, v: Any, tau: Any,
        wrenches: list[Any], doubts: Any, trail: Trail | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """One step: results by name.

        `wrenches` on `sites` are one array or none; `doubts` is their number so far. A step `alone` has mean
        accelerations, those before a projection. A `trail` is filled.
        """
        plant, contacts, held = self.plant, self.contacts, self.constraints
        near = near or (held is not None and not held.regular)
        bodies = None if contacts is None else contacts.bodies(run, solves=trail is not None)
        touched: list[Impulses] = []
        found: dict[str, Any] = {"doubts": doubts}

        def watch(spread: Any) -> None:
            if not near:
                found["doubts"] = run(compiled(count_doubt), spread, found["doubts"])

        def dynamics(q: Any, v: Any, push: Any) -> Any:
            a = accelerations(q, v, push)
            if trail is not None:
                trail.stages.append(Stage(q, v, push, a))
            return a

        def accelerations(q: Any, v: Any, push: Any) -> Any:
            if held is None and not sites and bodies is not None and bodies.accelerations is not None:
                return bodies.accelerations(q, v, push)
            free = run(plant.recursion(forward_dynamics, sites, dynamic=True), q, v, push, *wrenches)
            if held is None:
                return free
            a, found["constraint_forces"], spread = held.part(run, "held", near, q, v, free)
            watch(spread)
            return a

        def impulses(contacts: Any, q: Any, v: Any) -> Any:
            before = self.turned(run, turned, v, 0.5)
            touched[:] = [contacts.impulses(run, q, before, bodies)]
            after = touched[0].velocity
            if trail is not None:
                trail.met = Met(v, before, after)
            return self.turned(run, turned_back, after, -0.5, before, v) if self.turning else after

        def own(algorithm: Algorithm, *inputs: Any) -> Any:
            return run(plant.recursion(algorithm), *inputs)

        if contacts is None and held is None and trail is None and plant.method in _WHOLE:
            whole = plant.recursion(_WHOLE[plant.method], sites, dynamic=True)
            after, rate = run(whole, q, v, plant.pushed(own, q, v, tau), plant.dt, *wrenches)
        else:
            applied = None if contacts is None else partial(impulses, contacts)
            after, rate = plant.integrated(own, dynamics, q, v, tau, applied)
        if alone:
            found["acceleration"] = run(compiled(mean_acceleration, n=plant.robot.nv), v, rate, plant.dt)
        if trail is not None:
            trail.q, trail.rate, trail.touched, trail.bodies = after, rate, touched[0] if touched else None, bodies
        if held is not None and self.project:
            after, spread = held.part(run, "configuration", near, after)
            watch(spread)
            rate, spread = held.part(run, "velocity", near, after, rate)
            watch(spread)
        return {**(touched[0]._asdict() if touched else {}), **found, "q": after, "v": rate}

    def turned(self, run: Any, kernel: Kernel, v: Any, steps: float, *given: Any) -> Any:
        """Velocities of the same motion in the axes of a robot that many steps away, or changes of them."""
        if not self.turning:
            return given[0] if given else v
        return run(compiled(kernel, n=self.plant.robot.nv, free=self.turning), v, steps * self.plant.dt, *given)

    # Functions

    def function(
        self,
        records: int | None,
        every: int,
        series: bool,
        sites: tuple[Site, ...] = (),
        near: bool = False,
        frictions: bool = False,
    ) -> Callable[..., Any]:
        """Steps as a function of q, v, tau, and wrenches on `sites` if there are any; its results are q and v.

        A single step has mean accelerations, the fields of `Impulses` and the forces of constraints as further results,
        several steps the residuals. With constraints, the last result is the number of doubts.

        Args:
            records: Number of states in the result; None for one, without an axis.
            every: Steps from each state to the next.
            series: Whether each step has its own joint forces.
            sites: Frames with wrenches.
            near: Whether rows of constraints may depend on each other.
            frictions: Whether μ of all shapes is an input, before what differs in a population; of recorded steps only.
        """
        key = records, every, series, sites, near, frictions
        made = self._made.get(key)
        if made is not None:
            return made  # type: ignore[no-any-return]
        with self._lock:
            if key not in self._made:
                if len(self._made) >= _KEPT:
                    self._made.clear()
                self._made[key] = self._recorded(*key) if self.is_compiled else self._executed(sites, near)
            return self._made[key]  # type: ignore[no-any-return]

    @property
    def constants(self) -> tuple[Array, ...]:
        """What differs in a population, the last inputs of functions, if there is one."""
        return tuple(self.plant.varied.values())

    def _operands(
        self, records: int | None, every: int, series: bool, sites: tuple[Site, ...], frictions: bool = False
    ) -> tuple[list[Operand], list[Operand]]:
        """Inputs and outputs of a function."""
        nq, nv, contacts = self.plant.robot.nq, self.plant.robot.nv, self.contacts
        length = () if records is None else (records,)
        tau = ((records or 1) * every, nv) if series else (nv,)
        inputs = [Operand("q", (nq,)), Operand("v", (nv,)), Operand("tau", tau)]
        inputs += [Operand("wrench", (len(sites), 6))] if sites else []
        inputs += [self.friction_operand] if frictions else []
        outputs = [Operand("q", (*length, nq)), Operand("v", (*length, nv))]
        if records is None:
            outputs.append(Operand("acceleration", (nv,)))
        if contacts is not None:
            kept = contacts.shapes if records is None else {"residual": length}
            kept |= {"number": ()} if records is not None and self.sorts else {}
            outputs += [Operand(name, shape) for name, shape in kept.items()]
        if self.constraints is not None:
            if records is None:
                outputs.append(Operand("constraint_forces", (self.constraints.rows,)))
            outputs.append(Operand("doubts", ()))
        return inputs + self.plant.varied_operands, outputs

    @property
    def friction_operand(self) -> Operand:
        """μ of all shapes, as an input."""
        return Operand("ground friction", (len(cast(Contacts, self.contacts).ground),))

    def _executed(self, sites: tuple[Site, ...], near: bool) -> Callable[..., Any]:
        """A single step, executed on arrays."""
        inputs, outputs = self._operands(None, 1, False, sites)

        def text(run: Any, q: Any, v: Any, tau: Any, *more: Any) -> list[Any]:
            wrenches = list(more[: bool(sites)])
            found = self.text(run, sites, near, True, q, v, tau, wrenches, 0.0)
            return [found[operand.name] for operand in outputs]

        return executed(inputs, text, "native")

    def _recorded(
        self, records: int | None, every: int, series: bool, sites: tuple[Site, ...], near: bool, frictions: bool
    ) -> Compiled:
        """Steps as a compiled function."""
        inputs, outputs = self._operands(records, every, series, sites, frictions)
        sequence = KernelSequence("step" if records is None else "rollout", inputs, outputs)
        named = dict(zip((operand.name for operand in inputs), sequence.inputs, strict=True))
        results = dict(zip((operand.name for operand in outputs), sequence.outputs, strict=True))
        sequence.defaults.update({name: place for name, place in named.items() if name in BY_NAME})
        wrenches = [named["wrench"]] if sites else []
        kept = {name: sequence.variable(named[name]) for name in ("q", "v")}
        zero, nv = sequence.constant(0.0), self.plant.robot.nv
        if self.constraints is not None:
            kept["doubts"] = sequence.variable(zero)
        worst = sequence.space(1) if records is not None and self.contacts is not None else None
        with sequence.loop(records or 1) as record:
            if worst is not None:
                sequence.copy(zero, worst)
            with sequence.loop(every) as number:
                tau = named["tau"]
                tau = tau.at(record, nv, every * nv).at(number, nv) if series else tau
                found = self.text(
                    Recording(sequence), sites, near, records is None, kept["q"], kept["v"], tau, wrenches,
                    kept.get("doubts"),
                )  # fmt: skip
                for name, place in kept.items():
                    if found[name] != place:
                        sequence.copy(found[name], place)
                if worst is not None:
                    sequence.copy(sequence.call(compiled(larger_residual), found["report"].part(1, 1), worst), worst)
            states = {"q": kept["q"], "v": kept["v"], **({} if worst is None else {"residual": worst})}
            for name, place in states.items():
                sequence.copy(place, results.pop(name).at(record, place.size))
        for name, result in results.items():
            sequence.copy(found[name], result)
        return sequence.finish()

    # Rollouts

    def fill(
        self, q: Array, v: Array, tau: Array, series: bool, every: int, qs: Array, vs: Array, residuals: Array
    ) -> Array:
        """Compute a rollout into qs, vs and residuals, (…, T/every + 1, …); returns the doubts of constraints, (…).

        Joint forces are a `series`, (…, T, nv), or constant, (…, nv). A call has as many steps as fit the cache and do
        not keep Ctrl-C waiting. All lanes take as long as the slowest, so samples are sorted by their contacts before
        each call but the first.
        """
        batch, steps = qs.shape[:-2], (qs.shape[-2] - 1) * every
        doubts = np.zeros(batch)
        samples = max(1, math.prod(batch))
        sorts = self.sorts and samples >= _SORTED
        longest = max(1, min(_UNINTERRUPTED // samples, _RESORTED if sorts else _UNINTERRUPTED))
        # states in a call, or if there are too many steps between two, parts of these
        most = max(1, _CHUNK // (q.shape[-1] + v.shape[-1] * (1 + every * series)))
        most = max(1, min(most, longest // every, qs.shape[-2] - 1))
        each = min(every, longest)
        work = self.function(most, each, series).binding.work  # type: ignore[attr-defined]
        where = None
        with ready_for(samples * steps * work // (most * each)):
            first = 0
            while first < steps:
                size = each if sorts and not first else most * each
                stop = first + min(size, steps - first if each == every else every - first % every)
                part = tau[..., first:stop, :] if series else tau
                after = slice(first // every + 1, -(-stop // every) + 1)
                count = after.stop - after.start
                found, number = [np.zeros((*batch, count)), np.zeros(batch)], np.zeros(batch)
                out = [qs[..., after, :], vs[..., after, :], *([found[0]] if self.contacts is not None else [])]
                out += [number] if self.sorts else []
                out += [found[1]] if self.constraints is not None else []
                function = cast(Compiled, self.function(count, (stop - first) // count, series))
                given = q, v, part, *self.constants
                if where is None:
                    function(*given, out=tuple(out))
                else:
                    cores = [x.shape[x.ndim - len(o.shape) :] for x, o in zip(given, function.binding.inputs)]
                    some = [np.broadcast_to(x, (*batch, *core))[where] for x, core in zip(given, cores)]
                    for place, result in zip(out, function(*some), strict=True):
                        place[where] = result
                residuals[..., after] = np.maximum(residuals[..., after], found[0])
                doubts += found[1]
                q, v = (x[..., after.stop - 1, :].copy() for x in (qs, vs))
                first = stop
                if sorts:
                    where = np.unravel_index(_dealt(number.ravel(), function.lanes(samples)), batch)
        return doubts


def _dealt(number: Array, lanes: int) -> Array:
    """Samples with many contacts first; threads, which take equal slices, get alike ones."""
    order, threads = np.argsort(-number, kind="stable"), get_threads()
    whole = len(order) // lanes * lanes
    blocks = order[:whole].reshape(-1, lanes)
    return np.concatenate([*(blocks[i::threads].ravel() for i in range(threads)), order[whole:]])
