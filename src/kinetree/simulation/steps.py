"""Time steps as one compiled function: the recursions of a step, called in a loop without Python in between."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import time_step
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.concurrency import ForkSafeLock
from kinetree.kernels.contact_problem import larger_residual
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Site
from kinetree.model.constraints import Constraints
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.runtime.tiered import ready_for
from kinetree.simulation.contacts import Contacts
from kinetree.simulation.plant import Plant
from kinetree.simulation.step_constraints import JointRows
from kinetree.simulation.step_constraints import held as recorded
from kinetree.simulation.step_results import Impulses
from kinetree.spatial.value import Array

#: Methods that are one recursion if nothing interferes.
_WHOLE = {"semi_implicit_euler": time_step.semi_implicit_euler, "midpoint": time_step.midpoint}
#: Numbers of a sample, in its torques and results, that one call handles; lanes of them fit the processor's cache.
_CHUNK = 4096
#: Steps of all samples in one call: some tenths of a second, after which Ctrl-C is noticed.
_UNINTERRUPTED = 100_000
#: Compiled functions that are kept, by their numbers of steps.
_KEPT = 64


class Steps:
    """Compiled steps of a plant.

    Args:
        plant: The robot, with its dampers and springs.
        contacts: Impulses of contacts and joints, if there are any.
        warm: Whether each step starts from the impulses of the last.
        constraints: What is held fixed, if anything.
        project: Whether each step ends with a projection onto the constraints.
    """

    def __init__(
        self,
        plant: Plant,
        contacts: Contacts | JointRows | None,
        warm: bool,
        constraints: Constraints | None = None,
        project: bool = True,
    ) -> None:
        self._plant, self._contacts, self._warm = plant, contacts, warm
        self._constraints, self._project = constraints, project
        self._measured = contacts is not None
        self._lock = ForkSafeLock()
        self._made: dict[Any, Compiled] = {}

    def function(self, records: int | None, every: int, series: bool, sites: tuple[Site, ...] = ()) -> Compiled:
        """Steps as a function of q, v, tau, and wrenches on `sites` if there are any; its results are q and v.

        With impulses it also takes the impulses to start from. A single step has the mean accelerations (before a
        projection) and the fields of `Impulses` as further results, several steps with a warm start the last impulses.
        With constraints, a single step has their forces as a further result, and the last result is how often the law
        had doubts.

        Args:
            records: Number of states in the result; None for one, without an axis.
            every: Steps from each state to the next.
            series: Whether each step has its own joint forces.
            sites: Frames with wrenches.
        """
        key = records, every, series, sites
        made = self._made.get(key)
        if made is not None:
            return made
        with self._lock:
            if key not in self._made:
                if len(self._made) >= _KEPT:
                    self._made.clear()
                self._made[key] = self._record(*key)
            return self._made[key]

    @property
    def constants(self) -> tuple[Array, ...]:
        """The constants of a population, the last input of functions, if there is one."""
        return () if self._plant.population is None else (self._plant.population.constants,)

    def fill(self, q: Array, v: Array, tau: Array, series: bool, every: int, *results: Array) -> Array:
        """Compute a rollout, as many steps at a time as fit the cache and do not keep Ctrl-C waiting.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, T, nv), or constant ones, (…, nv).
            series: Whether each step has its own joint forces.
            every: Steps from each state to the next.
            results: For the configurations, (…, T/every + 1, nq), velocities, (…, T/every + 1, nv), and residuals of
                contacts, (…, T/every + 1).

        Returns:
            How often the law of constraints had doubts, (…).
        """
        qs, *_ = results
        records = qs.shape[-2] - 1
        doubts = np.zeros(qs.shape[:-2])
        impulses = [] if self._contacts is None else [np.zeros((*qs.shape[:-2], self._contacts.size))]
        samples = max(1, math.prod(qs.shape[:-2]))
        longest = max(1, _UNINTERRUPTED // samples)
        most = max(1, _CHUNK // (q.shape[-1] + v.shape[-1] * (1 + every * series)))
        most = max(1, min(most, longest // every, records))
        work = self.function(most, min(every, longest), series).binding.work
        with ready_for(samples * records * work * every // (most * min(every, longest))):
            if every > longest:
                self._fill_one_by_one(q, v, tau, series, every, longest, (*results, doubts), impulses)
            else:
                self._fill_several(q, v, tau, series, every, most, (*results, doubts), impulses)
        return doubts

    def _fill_several(
        self, q: Array, v: Array, tau: Array, series: bool, every: int, most: int,
        results: tuple[Array, ...], impulses: list[Array],
    ) -> None:  # fmt: skip
        """Compute several states of a rollout with each call."""
        qs, vs, residuals, doubts = results
        records = qs.shape[-2] - 1
        for start in range(0, records, most):
            stop = min(start + most, records)
            part = tau[..., start * every : stop * every, :] if series else tau
            after = slice(start + 1, stop + 1)
            out = [qs[..., after, :], vs[..., after, :], *[residuals[..., after]][: self._measured]]
            out += impulses[: self._warm]
            found = [np.zeros(doubts.shape)] if self._constraints is not None else []
            self.function(stop - start, every, series)(q, v, part, *impulses, *self.constants, out=(*out, *found))
            doubts += sum(found)
            q, v = qs[..., stop, :].copy(), vs[..., stop, :].copy()

    def _fill_one_by_one(
        self, q: Array, v: Array, tau: Array, series: bool, every: int, longest: int,
        results: tuple[Array, ...], impulses: list[Array],
    ) -> None:  # fmt: skip
        """Compute each state of a rollout by several calls, of as many steps as do not keep Ctrl-C waiting."""
        qs, vs, residuals, doubts = results
        batch = qs.shape[:-2]
        for record in range(1, qs.shape[-2]):
            for first in range((record - 1) * every, record * every, longest):
                stop = min(first + longest, record * every)
                part = tau[..., first:stop, :] if series else tau
                q_end, v_end = np.empty((*batch, 1, q.shape[-1])), np.empty((*batch, 1, v.shape[-1]))
                residual = np.zeros((*batch, 1))
                found = [np.zeros(batch)] if self._constraints is not None else []
                out = (q_end, v_end, *[residual][: self._measured], *impulses[: self._warm], *found)
                self.function(1, stop - first, series)(q, v, part, *impulses, *self.constants, out=out)
                doubts += sum(found)
                q, v = q_end[..., 0, :], v_end[..., 0, :]
                residuals[..., record] = np.maximum(residuals[..., record], residual[..., 0])
            qs[..., record, :], vs[..., record, :] = q, v

    def _record(self, records: int | None, every: int, series: bool, sites: tuple[Site, ...]) -> Compiled:
        plant = self._plant
        nq, nv = plant.robot.nq, plant.robot.nv
        length, count = (() if records is None else (records,)), records or 1
        inputs = [Operand("q", (nq,)), Operand("v", (nv,)), Operand("tau", (count * every, nv) if series else (nv,))]
        inputs += [Operand("wrench", (len(sites), 6))] if sites else []
        outputs = [Operand("q", (*length, nq)), Operand("v", (*length, nv))]
        outputs += [Operand("acceleration", (nv,))] if records is None else []
        contacts = self._contacts
        if contacts is not None:
            inputs.append(Operand("start", (contacts.size,)))
            outputs += [Operand("residual", length)] if records is not None and self._measured else []
            kept = contacts.fields if records is None else ("impulses",) if self._warm else ()
            outputs += [Operand(name, contacts.shapes[name]) for name in kept]
        constraints = self._constraints
        if constraints is not None and records is None:
            outputs.append(Operand("constraint_forces", (constraints.rows,)))
        outputs += [] if constraints is None else [Operand("doubts", ())]
        population = plant.population
        inputs += [] if population is None else [Operand("constants", population.constants.shape[-1:])]
        sequence = KernelSequence("step" if records is None else "rollout", inputs, outputs)
        named = dict(zip((operand.name for operand in inputs), sequence.inputs, strict=True))
        if population is not None:
            sequence.defaults["constants"] = named["constants"]
        wrenches = [named["wrench"]] if sites else []
        start = named.get("start", sequence.inputs[0])
        start = sequence.variable(start) if self._warm and contacts is not None else start
        touched: list[Impulses] = []

        def run(algorithm: Algorithm, *inputs: Any) -> Any:
            return sequence.call(plant.recursion(algorithm), *inputs)

        held = None if constraints is None else recorded(sequence, plant, constraints)
        factored = contacts.factored(sequence) if isinstance(contacts, Contacts) else None
        projected: list[MemorySpan] = []

        def dynamics(q: MemorySpan, v: MemorySpan, push: MemorySpan) -> Any:
            if factored is not None and not sites:
                return factored.accelerations(q, v, push)
            free = sequence.call(plant.recursion(forward_dynamics, sites, dynamic=True), q, v, push, *wrenches)
            return free if held is None else held.accelerations(q, v, free)

        def impulses(contacts: Contacts | JointRows, q: MemorySpan, v: MemorySpan) -> Any:
            record = partial(contacts.record, factored=factored) if isinstance(contacts, Contacts) else contacts.record
            touched.append(record(sequence, q, v, start))
            return touched[-1].velocity

        def step(q: MemorySpan, v: MemorySpan, tau: MemorySpan) -> Any:
            if contacts is not None:
                return plant.integrated(run, dynamics, q, v, tau, partial(impulses, contacts))
            if held is not None:
                after, rate = plant.integrated(run, dynamics, q, v, tau)
                projected[:] = [rate]
                return held.project(after, rate) if self._project else (after, rate)
            if plant.method not in _WHOLE:
                return plant.integrated(run, dynamics, q, v, tau)
            whole = plant.recursion(_WHOLE[plant.method], sites, dynamic=True)
            return sequence.call(whole, q, v, plant.pushed(run, q, v, tau), plant.dt, *wrenches)

        state = [sequence.variable(place) for place in sequence.inputs[:2]]
        worst = sequence.space(1)
        measured = records is not None and self._measured
        none = sequence.constant(0.0)
        with sequence.loop(count) as record:
            sequence.copy(none, worst)
            with sequence.loop(every) as number:
                tau = sequence.inputs[2]
                tau = tau.at(record, nv, every * nv).at(number, nv) if series else tau
                for after, place in zip(step(state[0], state[1], tau), state, strict=True):
                    sequence.copy(after, place)
                if touched and self._warm:
                    sequence.copy(touched[-1].impulses, start)
                if measured:
                    sequence.copy(sequence.call(compiled(larger_residual), touched[-1].residual, worst), worst)
            for place, result in zip([*state, worst][: 2 + measured], sequence.outputs, strict=False):
                sequence.copy(place, result.at(record, place.size))
        of_held = {} if held is None else {"constraint_forces": held.force, "doubts": held.doubts}
        for operand, result in zip(outputs[2 + measured :], sequence.outputs[2 + measured :], strict=True):
            if operand.name == "acceleration":
                rates = sequence.inputs[1], projected[-1] if projected else state[1]
                sequence.call(plant.recursion(time_step.mean_acceleration), *rates, plant.dt, into=[result])
            else:
                sequence.copy(of_held.get(operand.name) or getattr(touched[-1], operand.name), result)
        return sequence.finish()
