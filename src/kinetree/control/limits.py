"""Joint limits as rows of a level between constraints and goals, switched by an active set.

A joint may approach a limit only as fast as still lets it come to rest there, at a rate k:

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         k(−v_max − v) ≤ a ≤ k(v_max − v)        (1)

Each round solves all levels. Joints whose accelerations violate (1) become rows of the level, and rows whose force
pulls instead of pushing are released; in later rounds only one at a time, and finally none, so that the iteration
terminates. At convergence, the motion is that of the quadratic program with bounds (1) above the goals. The rounds of
a sample depend on that sample only: samples with the same active rows are solved together, with the same bits as alone.
The rows of the last command may be tried first: where they are still the right ones, nothing else is solved.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.goals import Bounds
from kinetree.engines.kernel_function import KernelFunction, compiled
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.errors import InputError, ModelWarning
from kinetree.kernels.limits import PULL, SLACK, acceleration_bounds, bounds_check
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Maximum number of active-set rounds. Two to four are typical.
ROUNDS = 60
#: Rounds that release all pulling rows; the next ones release one at a time, and the rest none.
_ALL, _ONE = 10, 50


class Trial(NamedTuple):
    """All levels, solved with some joints held at their limits.

    Attributes:
        fits: Whether the held joints are the right ones, (…), booleans.
        a: Accelerations of the joints that have limits, (…, l).
        force: Forces that hold joints at their limits, (…, l).
        least: Lower bounds of accelerations, (…, l).
        most: Upper bounds, (…, l).
    """

    fits: Array
    a: Array
    force: Array
    least: Array
    most: Array

    def of(self, samples: Array) -> Trial:
        """Some samples."""
        return Trial(*(x[samples] for x in self))


class EnforcedLimits:
    """The joint limits that are enforced.

    Attributes:
        columns: Degrees of freedom that have limits, (l,).
    """

    def __init__(self, robot: Model, bounds: Bounds, driven: Array) -> None:
        _require_limits(robot, bounds, driven)
        single = [joint for joint in robot.joints if joint.nq == joint.nv == 1 and driven[joint.v_start]]
        q, v = [joint.q_start for joint in single], [joint.v_start for joint in single]
        low, high = robot.lower_limits[q], robot.upper_limits[q]
        fastest = robot.velocity_limits[v]
        bounded = np.zeros(len(single), dtype=bool)
        if bounds.position is not None:
            bounded |= np.isfinite(low) | np.isfinite(high)
        if bounds.velocity is not None:
            bounded |= np.isfinite(fastest)
        self._q, self.columns = (np.array(x, dtype=int)[bounded] for x in (q, v))
        self._at, self._rate = contiguous(self._q), contiguous(self.columns)
        low, high, fastest = low[bounded], high[bounded], fastest[bounded]
        margin = np.minimum(bounds.margin, 0.5 * (high - low))
        ends, rates = np.stack([low + margin, high - margin], axis=1), np.zeros((len(self._q), 6))
        rates[:, 4:] = np.inf, 1.0
        if bounds.position is not None:
            rates[:, :2] = np.isfinite(ends)
            rates[:, 2:4] = bounds.position**2, 2.0 * bounds.position
        if bounds.velocity is not None:
            rates[:, 4], rates[:, 5] = fastest, bounds.velocity
        self._constants = ends, rates

    def accelerations(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Lower and upper bounds on joint accelerations, (…, l), by (1)."""
        bounds, _ = self._bounds(q[..., self._at], v[..., self._rate], *self._constants)
        return bounds[..., 0], bounds[..., 1]

    def record(self, sequence: Sequence, q: Place, v: Place) -> list[Place]:
        """Record bounds, (l, 2), and their negatives."""
        own = (_gathered(sequence, place, at) for place, at in ((q, self._q), (v, self.columns)))
        found: list[Place] = sequence.call(self._bounds, *own, *self._constants)
        return found

    def record_check(self, sequence: Sequence, a: Place, bounds: Place, along: Place, active: Array, into: Any) -> None:
        """Record which joints to hold next, (l,), and how many of them change: see `bounds_check`."""
        check = compiled(bounds_check, l=len(self.columns))
        sequence.call(check, _gathered(sequence, a, self.columns), bounds, along, active, into=into)

    @property
    def _bounds(self) -> KernelFunction:
        return compiled(acceleration_bounds, l=len(self.columns))

    def settle(
        self, count: int, attempt: Callable[[Array, Array], Trial], given: Array | None, fixed: bool = False
    ) -> Array:
        """Find the active rows of many samples: −1, 0 or 1 for each joint, (n, l).

        Args:
            count: Number of samples, n.
            attempt: Takes numbers of samples and the active rows that they share, (l,).
            given: Active rows to start with, (n, l); none by default.
            fixed: Whether the given rows are the ones.
        """
        active = np.zeros((count, len(self.columns)), np.int8) if given is None else np.array(given, dtype=np.int8)
        rounds = np.where(active.any(axis=1), -1, 0)  # in round −1, the given rows are tried
        waiting = alike(active, np.arange(count))
        while waiting:
            misfits = []
            for pattern, samples in waiting:
                trial = attempt(samples, pattern)
                wrong = np.flatnonzero(~trial.fits)
                if fixed or not len(wrong):
                    continue
                samples = samples[wrong]
                active[samples], changed = next_rows(active[samples], trial.of(wrong), rounds[samples, None])
                misfits.append(samples[changed])
                rounds[samples] += 1
            waiting = alike(active, np.sort(np.concatenate(misfits))) if misfits else []
        return active

    def settle_one(self, attempt: Callable[[Array], Trial], given: Array | None) -> Array:
        """The same for a single sample, (l,).

        Args:
            attempt: Takes active rows, (l,).
            given: Active rows to start with, (l,); none by default.
        """
        active = np.zeros(len(self.columns), np.int8) if given is None else given
        round_ = -1 if active.any() else 0
        while not (trial := attempt(active)).fits:
            active, changed = next_rows(active, trial, round_)
            if not changed:
                break
            round_ += 1
        return active


def _require_limits(robot: Model, bounds: Bounds, driven: Array) -> None:
    """Refuse a bound for which no joint has a limit, and warn of joints that it leaves out.

    Raises:
        InputError: A bound limits nothing.
    """
    for name in ("position", "velocity", "torque"):
        if not getattr(bounds, name):
            continue
        kept, left = [], []
        for joint in (joint for joint in robot.joints if joint.nv and driven[joint.v_start]):
            own, single = joint.limits, joint.nq == joint.nv == 1
            if name == "position":
                has, missed = np.isfinite(own.lower + own.upper).any(), False  # without one, it may turn for ever
            else:
                has = np.isfinite(own.velocity if name == "velocity" else own.effort).all()
                missed = not has
            if has and (single or name == "torque"):
                kept.append(joint.name)
            elif has or missed:
                left.append(joint.name)
        asked = f"Bounds({name}={getattr(bounds, name)!r})"
        if not kept:
            raise InputError(
                f"{asked} limits nothing: no joint of {robot.name!r} with a motor and one coordinate has a {name} "
                "limit; add limits with robot.with_limits, or leave the bound out"
            )
        if left:
            shown = ", ".join(map(repr, left[:10])) + (f", … ({len(left)} in all)" if len(left) > 10 else "")
            warnings.warn(
                f"{asked} leaves out joints of {robot.name!r} with no {name} limit, or several coordinates: {shown}",
                ModelWarning,
                stacklevel=4,
            )


def fits(active: Array, a: Array, force: Array, least: Array, most: Array) -> Array:
    """Whether the active rows are the right ones, (…)."""
    beyond = (active == 0) & ((a > most + SLACK) | (a < least - SLACK))
    right: Array = ~(beyond | (active * force > PULL)).any(axis=-1)
    return right


def next_rows(active: Array, trial: Trial, round_: Any) -> tuple[Array, Array]:
    """The active rows of the next round, (…, l), and whether they differ, (…).

    Args:
        active: Active rows, (…, l).
        trial: What they lead to.
        round_: Number of the round, or −1 for rows from elsewhere, after which there are none, (…, 1).
    """
    free = active == 0
    above, below = free & (trial.a > trial.most + SLACK), free & (trial.a < trial.least - SLACK)
    pulling = active * trial.force > PULL
    if np.any(round_ >= _ALL):
        single = pulling & ~(above | below).any(axis=-1, keepdims=True) & (np.cumsum(pulling, axis=-1) == 1)
        pulling = np.where(round_ >= _ALL, single & (round_ < _ONE), pulling)
    following = np.where(pulling, 0, active) + above - below
    following = np.where(round_ < 0, 0, np.where(round_ < ROUNDS, following, active)).astype(np.int8)
    changed: Array = (following != active).any(axis=-1)
    return following, changed


def alike(active: Array, samples: Array) -> list[tuple[Array, Array]]:
    """Active rows, each with the samples that share them."""
    rows = active[samples]
    if not rows.any():
        return [(np.zeros(active.shape[1], np.int8), samples)]
    if (rows == rows[0]).all():
        return [(rows[0].copy(), samples)]
    groups: dict[bytes, list[int]] = {}
    for sample, row in zip(samples.tolist(), rows, strict=True):
        groups.setdefault(row.tobytes(), []).append(sample)
    return [(active[group[0]].copy(), np.array(group)) for group in groups.values()]


def _gathered(sequence: Sequence, given: Place, numbers: Array) -> Place:
    """Some elements of an array, in as few copies as possible."""
    place, starts = sequence.space(len(numbers)), [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
        sequence.copy(given.part(int(numbers[start]), stop - start), place.part(start, stop - start))
    return place


def contiguous(numbers: Array) -> Any:
    """Indices, as a slice where they are contiguous: views are faster than copies."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
