"""The controller's whole computation as one compiled function, for each choice of joints at their limits.

    bounds    of the joints' accelerations, by their limits
    law       torques for the goals, with the chosen joints held at their bounds
    motion    the accelerations that follow
    check     whether the chosen joints are the right ones
    sharing   what motors and constraints contribute

Samples near a singularity, or whose constraints lack a direction, are marked: the caller treats them in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.acceleration_bounds import acceleration_bounds, bounds_check
from kinetree.control.command import Solved
from kinetree.control.limits import Limits, Trial
from kinetree.control.sharing import Sharing
from kinetree.control.targets import Wanted
from kinetree.engines.locks import Lock
from kinetree.engines.native.compiled import Compiled, standard_arithmetic
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.model.model import Model
from kinetree.operational_space.law import Law
from kinetree.spatial.value import Array

#: Choices of joints whose functions are kept.
_CHOICES = 256
_NOTHING = np.zeros(0)
_RIGHT = Trial(np.array(True), *(_NOTHING,) * 4)


class CompiledLaw:
    """The law within limits, with the sharing of loads.

    Args:
        robot: The robot.
        limits: Its limits.
        law: The law with some joints held, by their degrees of freedom.
        sharing: Shares the load, in a kernel, or not at all.
        inputs: Inputs of the law that do not change: posture, its gains, those of all rows.
        held: Number of rows of constraints.
        sites: Number of sites of constraints.
        unheld: Active rows if no joint is at a limit, (l,): the result holds this very array then.
    """

    def __init__(
        self,
        robot: Model,
        limits: Limits,
        law: Callable[[tuple[int, ...]], Law],
        sharing: Sharing,
        inputs: tuple[Array, Array, Array],
        held: int,
        sites: int,
        unheld: Array,
    ) -> None:
        self._robot, self._limits, self._law, self._sharing = robot, limits, law, sharing
        self._posture, self._pull, self._gains = inputs
        self._held, self._sites = held, sites
        self._functions: dict[bytes, Compiled] = {}
        self._free = unheld
        self._lock = Lock()

    def alone(self, q: Array, v: Array, wanted: Wanted, active: Array | None) -> Solved | None:
        """The command for one sample, or None where another way must be found.

        Args:
            q: Configuration, (nq,).
            v: Joint velocities, (nv,).
            wanted: Inputs of the law.
            active: Joints held at their limits at first, (l,).
        """
        pattern = self._free if active is None or not active.any() else active
        found = self._function(pattern)(q, v, wanted.target, wanted.feed)
        spread, fault, excess, supports, weak = found[3].tolist()
        if excess and spread < 1.0:
            first: Any = found

            def attempt(pattern: Array) -> Trial:
                nonlocal found, first
                found, first = first or self._function(pattern)(q, v, wanted.target, wanted.feed), None
                spread, _, excess, _, _ = found[3].tolist()
                return self._trial(found) if excess and spread < 1.0 else _RIGHT

            with standard_arithmetic():
                pattern = self._limits.settle_one(attempt, active)
            spread, fault, _, supports, weak = found[3].tolist()
        if not (spread < 1.0 and self._sharing.sure(supports, weak)):
            return None
        tau, a, force = found[:3]
        held = found[-1] if self._held else _NOTHING
        margin = np.array(1.0 / math.sqrt(spread) if spread > 0.0 else np.inf)
        return Solved(tau, a, force, held, pattern if len(self._free) else None, margin, np.array(fault))

    def together(self, q: Array, v: Array, wanted: Wanted, active: Array | None) -> tuple[Solved, Array]:
        """The same for a batch, and for which samples it holds, (…), booleans."""
        batch = q.shape[:-1]
        count = math.prod(batch)
        given = [
            np.broadcast_to(x, (*batch, *x.shape[-axes:])).reshape(count, *x.shape[-axes:])
            for x, axes in ((q, 1), (v, 1), (wanted.target, 3), (wanted.feed, 2))
        ]
        results: list[Array] = []

        def attempt(samples: Array, pattern: Array) -> Trial:
            whole = len(samples) == count
            found = self._function(pattern)(*(given if whole else [x[samples] for x in given]))
            if whole:
                results[:] = found
            else:
                if not results:
                    results[:] = [np.empty((count, *x.shape[1:])) for x in found]
                for result, part in zip(results, found, strict=True):
                    result[samples] = part
            return self._trial(found)

        with standard_arithmetic():
            start = None if active is None else np.broadcast_to(active, (*batch, len(self._free))).reshape(count, -1)
            pattern = self._limits.settle(count, attempt, start)
            shaped = [x.reshape(*batch, *x.shape[1:]) for x in results]
            spread, fault, _, supports, weak = np.moveaxis(shaped[3], -1, 0)
            sure = (spread < 1.0) & self._sharing.sure(supports, weak)
            held = shaped[-1] if self._held else np.zeros((*batch, 0))
            shown = pattern.reshape(*batch, len(self._free)) if len(self._free) else None
            return Solved(shaped[0], shaped[1], shaped[2], held, shown, 1.0 / np.sqrt(spread), fault), sure

    def compile(self) -> None:
        """Compile what every call needs."""
        self._function(self._free).compile()

    def _trial(self, found: Any) -> Trial:
        checks = found[3]
        # samples that another way treats need no further rounds
        right = np.logical_not((checks[..., 2] > 0.0) & (checks[..., 0] < 1.0))
        if right.all():
            return Trial(right, *_RIGHT[1:])
        columns, bounds = self._limits.columns, found[4]
        a, force = found[1][..., columns], -found[5][..., columns]
        return Trial(right, a, force, bounds[..., columns, 0], bounds[..., columns, 1])

    def _function(self, pattern: Array) -> Compiled:
        key = pattern.tobytes()
        return self._functions.get(key) or self._kept(key, pattern)

    def _kept(self, key: bytes, pattern: Array) -> Compiled:
        with self._lock:
            if len(self._functions) >= _CHOICES:
                self._functions.clear()
            return self._functions.setdefault(key, self._recorded(pattern))

    def _recorded(self, pattern: Array) -> Compiled:
        robot, nv, held = self._robot, self._robot.nv, self._held
        rows = np.flatnonzero(pattern)
        columns = tuple(self._limits.columns[rows].tolist())
        law = self._law(columns)
        frames, count = law.sites() - 2 * len(rows), len(self._gains)
        inputs = [Operand("q", (robot.nq,)), Operand("v", (nv,))]
        inputs += [Operand("target", (frames, 4, 4)), Operand("feed", (count, 2))]
        outputs = [Operand("tau", (nv,)), Operand("a", (nv,)), Operand("force", (count,)), Operand("checks", (5,))]
        if len(self._free):
            outputs += [Operand("bounds", (nv, 2)), Operand("along", (nv,))]
        outputs += [Operand("constraint_force", (held,))] if held else []
        sequence = Sequence("control", inputs, outputs)
        q, v, target, feed = sequence.inputs
        into = dict(zip((operand.name for operand in outputs), sequence.outputs, strict=True))
        spread, fault, excess, supports, weak = (into["checks"].part(i, 1) for i in range(5))

        opposite = None
        if len(self._free):
            bounds_of = bind(acceleration_bounds, robot.mechanism, (), "control")
            _, opposite = sequence.call(bounds_of, q, v, *self._limits.constants(robot), into=(into["bounds"], None))
        step = law.compiled()
        own = len(rows)
        targets = _joined(sequence, target, 16 * self._sites, np.tile(np.eye(4), (2 * own, 1, 1)))
        feeds = _joined(sequence, feed, 2 * held, np.zeros((own, 2)))
        for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
            if opposite is not None:
                side = opposite.part(2 * column + (pattern[row] > 0), 1)
                sequence.copy(side, feeds.part(2 * (held + i) + 1, 1))
        gains = np.insert(self._gains, [held] * own, 0.0, axis=0)
        full, force, _, found_spread, _, found_fault = sequence.call(
            step, q, v, self._posture, self._pull, targets, feeds, gains, *law.weights
        )
        sequence.copy(found_spread, spread)
        sequence.copy(found_fault, fault)
        _split(sequence, force, into["force"], held, own)
        sequence.call(robot.forward_dynamics.bound(), q, v, full, into=(into["a"],))

        none = sequence.constant(0.0)
        if len(self._free):
            sequence.copy(sequence.constant(np.zeros(nv)), into["along"])
            active = np.zeros(nv)
            for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
                sequence.copy(force.part(held + i, 1), into["along"].part(column, 1))
                active[column] = pattern[row]
            check = bind(bounds_check, robot.mechanism, (), "control")
            sequence.call(check, into["a"], into["bounds"], into["along"], active, into=(excess,))
        else:
            sequence.copy(none, excess)
        kernel = self._sharing.compiled()
        if kernel is None:
            sequence.copy(full, into["tau"])
            sequence.copy(none, supports)
            sequence.copy(none, weak)
        else:
            results = into["tau"], into["constraint_force"], supports, weak
            sequence.call(kernel, q, full, *self._sharing.weights, into=results)
        return sequence.finish()


def _joined(sequence: Sequence, given: Place, start: int, between: Array) -> Place:
    """An array with constants inserted at a position."""
    size = between.size
    if not size:
        return given
    place = sequence.space(given.size + size)
    if start:
        sequence.copy(given.part(0, start), place.part(0, start))
    sequence.copy(sequence.constant(between), place.part(start, size))
    if given.size > start:
        sequence.copy(given.part(start, given.size - start), place.part(start + size, given.size - start))
    return place


def _split(sequence: Sequence, given: Place, to: Place, start: int, size: int) -> None:
    """Copy an array without some of its elements."""
    if start:
        sequence.copy(given.part(0, start), to.part(0, start))
    if to.size > start:
        sequence.copy(given.part(start + size, to.size - start), to.part(start, to.size - start))
