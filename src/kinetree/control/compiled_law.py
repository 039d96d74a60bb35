"""The controller's whole computation as one compiled function, for each choice of joints at their limits.

    bounds    of the joints' accelerations, by their limits
    law       torques for the goals, with the chosen joints held at their bounds, and the accelerations that follow
    check     whether the chosen joints are the right ones
    sharing   what motors, grasps and supports contribute

Near a singularity, a second function solves the law level by level, as `hierarchy` does. Samples whose constraints lack
a direction are marked: the caller treats them in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.control.command import Solved
from kinetree.control.hierarchy import Levels
from kinetree.control.limits import EnforcedLimits, alike
from kinetree.control.sharing import Sharing
from kinetree.engines.kernel_function import compiled
from kinetree.engines.locks import Lock
from kinetree.engines.native.compiled import Compiled, standard_arithmetic
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.kernels.priorities import least_share
from kinetree.model.model import Model
from kinetree.operational_space.law import Law
from kinetree.operational_space.recursions import Recursions
from kinetree.spatial.value import Array

#: Rounds in which all joints that violate a bound are held and all that pull are released; two to four are typical.
#: Samples that need more are left to the caller.
ROUNDS = 10
#: Choices of joints whose functions are kept.
_CHOICES = 256
_NOTHING = np.zeros(0)


class CompiledLaw:
    """The law within limits, with the sharing of loads.

    Args:
        robot: The robot.
        limits: Its limits.
        law: The law with some joints held, by their degrees of freedom.
        sharing: Shares the load, in a kernel, or not at all.
        inputs: Inputs of the law that do not change: posture, its gains, those of all rows, targets of constraints.
        held: Number of rows of constraints.
        levels: Solves the law near singularities; None if the caller does.
        unheld: Active rows if no joint is at a limit, (l,): the result holds this very array then.
    """

    def __init__(
        self,
        robot: Model,
        limits: EnforcedLimits,
        law: Callable[[tuple[int, ...]], Law],
        sharing: Sharing,
        inputs: tuple[Array, Array, Array, Array],
        held: int,
        levels: Levels | None,
        unheld: Array,
    ) -> None:
        self._robot, self._limits, self._law, self._sharing = robot, limits, law, sharing
        self._posture, self._pull, self._gains, self._fixed = inputs
        self._held, self._levels = held, levels
        self._functions: dict[tuple[bytes, bool], Compiled] = {}
        self._free, self._free_key = unheld, unheld.tobytes()
        self._lock = Lock()

    def alone(self, q: Array, v: Array, target: Array, feed: Array, active: Array | None) -> Solved | None:
        """The command for one sample, or None where another way must be found.

        Args:
            q: Configuration, (nq,).
            v: Joint velocities, (nv,).
            target: Targets of the goals, without those of constraints, (m, 4, 4).
            feed: Feed-forward of their rows, (r, 2).
            active: Joints held at their limits at first, (l,).
        """
        pattern, rounds = self._free, ROUNDS
        if active is not None and active.any():
            pattern, rounds = active, ROUNDS + 1
        while True:
            found = self._function(pattern)(q, v, target, feed)
            spread, fault, excess, *lacking = found[3].tolist()
            if spread < 1.0:
                margin = 1.0 / math.sqrt(spread) if spread > 0.0 else math.inf
            elif self._levels is None:
                return None
            else:
                found = self._function(pattern, near=True)(q, v, target, feed)
                margin, fault, excess, *lacking = found[3].tolist()
                if math.isnan(margin):
                    return None
            if not excess:
                break
            rounds -= 1
            if not rounds:
                return None
            pattern = self._free if rounds == ROUNDS else found[4].astype(np.int8)
        if any(lacking) and not self._carried(*lacking):
            return None
        tau, a, force = found[:3]
        held = found[-1] if self._held else _NOTHING
        return Solved(tau, a, force, held, pattern if len(self._free) else None, margin, fault)

    def _carried(self, grasps: Any, supports: Any, spread: Any) -> Any:
        """Whether no direction is missing in which constraints should bear a load."""
        return self._sharing.sure(grasps) & self._sharing.sure(supports, spread)

    def together(self, q: Array, v: Array, target: Array, feed: Array, active: Array | None) -> tuple[Solved, Array]:
        """The same for a batch, and for which samples it holds, (…), booleans."""
        batch = q.shape[:-1]
        count = math.prod(batch)
        given = [
            np.broadcast_to(x, (*batch, *x.shape[-axes:])).reshape(count, *x.shape[-axes:])
            for x, axes in ((q, 1), (v, 1), (target, 3), (feed, 2))
        ]
        free = np.zeros((count, len(self._free)), np.int8)
        with standard_arithmetic():
            pattern = free
            if active is not None:
                pattern = np.array(np.broadcast_to(active, (*batch, len(self._free)))).reshape(free.shape)
            results = self._attempt(given, pattern)
            # rows from elsewhere that do not fit are forgotten; samples that another way treats need no further rounds
            waiting = self._misfits(results[3], np.arange(count))
            again = np.asarray(pattern.any(axis=1))
            for _ in range(ROUNDS if len(waiting) else 0):
                following = results[4] if len(self._free) else free
                pattern[waiting] = np.where(again[waiting, None], 0, following[waiting])
                again[:] = False
                for result, part in zip(
                    results, self._attempt([x[waiting] for x in given], pattern[waiting]), strict=True
                ):
                    result[waiting] = part
                waiting = self._misfits(results[3], waiting)
                if not len(waiting):
                    break
            shaped = [x.reshape(*batch, *x.shape[1:]) for x in results]
            margin, fault, excess, *lacking = np.moveaxis(shaped[3], -1, 0)
            sure = ~np.isnan(margin) & (excess == 0.0) & self._carried(*lacking)
            held = shaped[-1] if self._held else np.zeros((*batch, 0))
            shown = pattern.reshape(*batch, len(self._free)) if len(self._free) else None
            return Solved(shaped[0], shaped[1], shaped[2], held, shown, margin, fault), sure

    def _attempt(self, given: list[Array], pattern: Array) -> list[Array]:
        """Solve samples, each with the joints of its pattern held at their limits, (n, l).

        The first of the checks is the margin; NaN where the caller must find another way.
        """
        groups = alike(pattern, np.arange(len(pattern)))
        if len(groups) == 1:
            return self._alike(given, groups[0][0])
        results: list[Array] = []
        for shared, samples in groups:
            found = self._alike([x[samples] for x in given], shared)
            if not results:
                results = [np.empty((len(pattern), *x.shape[1:])) for x in found]
            for result, part in zip(results, found, strict=True):
                result[samples] = part
        return results

    def _alike(self, given: list[Array], pattern: Array) -> list[Array]:
        """The same for samples with one pattern, (l,)."""
        results = list(self._function(pattern)(*given))
        checks = results[3]
        near = ~(checks[:, 0] < 1.0)
        checks[:, 0] = np.where(near, np.nan, 1.0 / np.sqrt(checks[:, 0]))
        if self._levels is not None and near.any():
            these = [x[near] for x in given]
            again = self._function(pattern, near=True)(*these)
            for result, part in zip(results, again, strict=True):
                result[near] = part
        return results

    @staticmethod
    def _misfits(checks: Array, samples: Array) -> Array:
        """Those of some samples whose joints at limits are not the right ones."""
        own = checks[samples]
        return samples[(own[:, 2] > 0.0) & ~np.isnan(own[:, 0])]

    def compile(self) -> None:
        """Compile what every call needs."""
        self._function(self._free).compile()

    def _function(self, pattern: Array, near: bool = False) -> Compiled:
        key = (self._free_key if pattern is self._free else pattern.tobytes()), near
        return self._functions.get(key) or self._kept(key, pattern)

    def _kept(self, key: tuple[bytes, bool], pattern: Array) -> Compiled:
        with self._lock:
            if len(self._functions) >= _CHOICES:
                self._functions.clear()
            return self._functions.setdefault(key, self._recorded(pattern, key[1]))

    def _recorded(self, pattern: Array, near: bool) -> Compiled:
        robot, nv, held = self._robot, self._robot.nv, self._held
        rows = np.flatnonzero(pattern)
        columns = tuple(self._limits.columns[rows].tolist())
        law, own = self._law(columns), len(rows)
        fixed, count = len(self._fixed), len(self._gains)
        inputs = [Operand("q", (robot.nq,)), Operand("v", (nv,))]
        inputs += [Operand("target", (law.sites() - 2 * own - fixed, 4, 4)), Operand("feed", (count - held, 2))]
        outputs = [Operand("tau", (nv,)), Operand("a", (nv,)), Operand("force", (count,)), Operand("checks", (6,))]
        if len(self._free):
            outputs += [Operand("following", (len(self._free),))]
        outputs += [Operand("constraint_force", (held,))] if held else []
        sequence = Sequence("control", inputs, outputs)
        q, v, target, feed = sequence.inputs
        into = dict(zip((operand.name for operand in outputs), sequence.outputs, strict=True))
        spread, fault, excess, *lacking = (into["checks"].part(i, 1) for i in range(6))

        targets = _after(sequence, np.concatenate([self._fixed, np.tile(np.eye(4), (2 * own, 1, 1))]), target)
        feeds = _after(sequence, np.zeros((held + own, 2)), feed)
        if len(self._free):
            bounds, opposite = self._limits.record(sequence, q, v)
            for i, row in enumerate(rows.tolist()):
                sequence.copy(opposite.part(2 * row + (pattern[row] > 0), 1), feeds.part(2 * (held + i) + 1, 1))
        gains = np.insert(self._gains, [held] * own, 0.0, axis=0)
        full, force, residual, found_spread, a0, found_fault, *motion = sequence.call(
            law.compiled(), q, v, self._posture, self._pull, targets, feeds, gains, *law.weights
        )
        if near and self._levels is not None:
            full, force, found_spread = _level_by_level(sequence, law.recursions, self._levels, own, q, v, a0, residual)
            motion = []
        sequence.copy(found_spread, spread)
        sequence.copy(found_fault, fault)
        _split(sequence, force, into["force"], held, own)
        if motion:
            sequence.copy(motion[0], into["a"])
        else:
            sequence.call(robot.forward_dynamics.bound(), q, v, full, into=(into["a"],))

        none = sequence.constant(0.0)
        if len(self._free):
            along = sequence.variable(sequence.constant(np.zeros(len(pattern))))
            for i, row in enumerate(rows.tolist()):
                sequence.copy(force.part(held + i, 1), along.part(row, 1))
            self._limits.record_check(sequence, into["a"], bounds, along, pattern, (into["following"], excess))
        else:
            sequence.copy(none, excess)
        self._share(sequence, q, full, into, lacking)
        return sequence.finish()

    def _share(self, sequence: Sequence, q: Place, full: Place, into: dict[str, Place], lacking: list[Place]) -> None:
        """Record how constraints share the load of the joint forces."""
        for place in lacking:
            sequence.copy(sequence.constant(0.0), place)
        for part in self._sharing.parts:
            full, force, weak, *spread = sequence.call(part.kernel.bound(), q, full, *part.constants)
            start = 0
            for rows in np.split(part.rows, np.flatnonzero(np.diff(part.rows) != 1) + 1):
                sequence.copy(force.part(start, len(rows)), into["constraint_force"].part(int(rows[0]), len(rows)))
                start += len(rows)
            sequence.copy(weak, lacking[1 if spread else 0])
            if spread:
                sequence.copy(spread[0], lacking[2])
        sequence.copy(full, into["tau"])


def _level_by_level(
    sequence: Sequence, recursions: Recursions, levels: Levels, own: int, q: Place, v: Place, a0: Place, residual: Place
) -> tuple[Place, Place, Place]:
    """Record joint forces, forces along the rows, and the margin, near singularities.

    Args:
        sequence: Where to record.
        recursions: Those of all rows.
        levels: Their priorities.
        own: Number of joints held at their limits.
        q: Configuration.
        v: Joint velocities.
        a0: Joint accelerations of the posture.
        residual: Residual accelerations of the rows.
    """
    A, J = (sequence.call(function.bound(), q) for function in (recursions.inverse_inertia, recursions.jacobian))
    force, values = sequence.call(levels.solver(own), A, residual)
    base = sequence.call(recursions.inverse_dynamics.bound(), q, v, a0)
    full = sequence.call(recursions.with_row_forces.bound(), base, J, force)
    of_rows = levels.shares(own)
    return full, force, sequence.call(compiled(least_share, n=len(of_rows)), values, of_rows)


def _after(sequence: Sequence, constants: Array, given: Place) -> Place:
    """An array that starts with constants."""
    if not constants.size:
        return given
    place = sequence.space(constants.size + given.size)
    sequence.copy(sequence.constant(constants), place.part(0, constants.size))
    sequence.copy(given, place.part(constants.size, given.size))
    return place


def _split(sequence: Sequence, given: Place, to: Place, start: int, size: int) -> None:
    """Copy an array without some of its elements."""
    if start:
        sequence.copy(given.part(0, start), to.part(0, start))
    if to.size > start:
        sequence.copy(given.part(start + size, to.size - start), to.part(start, to.size - start))
