"""Joint limits as rows of a level between constraints and goals, switched by an active set.

A joint may approach a limit only as fast as still lets it come to rest there, at a rate k:

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         k(−v_max − v) ≤ a ≤ k(v_max − v)        (1)

Each round solves all levels. Joints whose accelerations violate (1) become rows of the level, and rows whose force
pulls instead of pushing are released; in later rounds only one at a time, and finally none, so that the iteration
terminates. At convergence, the motion is that of the quadratic programme with bounds (1) above the goals. The rounds of
a sample depend on that sample only: samples with the same active rows are solved together, with the same bits as alone.
The rows of the last command may be tried first: where they are still the right ones, nothing else is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.control.goals import Bounds
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Maximum number of active-set rounds. Two to four are typical.
ROUNDS = 60
#: Rounds that release all pulling rows; the next ones release one at a time, and the rest none.
_ALL, _ONE = 10, 50
# Tolerance on acceleration bounds, relative to the bound's own scale [rad/s²].
_SLACK = 1e-6
# A row that pulls back with more than this is released [N m].
_PULL = 1e-9

_NOTHING = np.zeros(0)

#: Solves samples with the same active joints: maps sample indices, joints and their accelerations to a and f.
Solve = Callable[[Array, Array, Array], tuple[Array, Array]]
#: The same for the only sample.
SolveOne = Callable[[tuple[int, ...], Array], tuple[Array, Array]]


class Limits:
    """The joint limits that are enforced.

    Attributes:
        columns: Degrees of freedom that have limits, (l,).
    """

    def __init__(self, robot: Model, bounds: Bounds, driven: Array) -> None:
        single = [joint for joint in robot.joints if joint.nq == joint.nv == 1 and driven[joint.v_start]]
        q, v = [joint.q_start for joint in single], [joint.v_start for joint in single]
        low, high = robot.lower_limits[q], robot.upper_limits[q]
        fastest = robot.velocity_limits[v]
        self._position, self._velocity = bounds.position, bounds.velocity
        bounded = np.zeros(len(single), dtype=bool)
        if bounds.position is not None:
            bounded |= np.isfinite(low) | np.isfinite(high)
        if bounds.velocity is not None:
            bounded |= np.isfinite(fastest)
        self._q, self.columns = (np.array(x, dtype=int)[bounded] for x in (q, v))
        self._at, self._rate = contiguous(self._q), contiguous(self.columns)
        margin = np.minimum(bounds.margin, 0.5 * (high[bounded] - low[bounded]))
        self._low, self._high, self._fastest = low[bounded] + margin, high[bounded] - margin, fastest[bounded]

    def accelerations(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Lower and upper bounds on joint accelerations, (…, l), by (1)."""
        at, rate = q[..., self._at], v[..., self._rate]
        least: Any = -np.inf
        most: Any = np.inf
        if self._position is not None:
            k = self._position
            pull = (2.0 * k) * rate
            least = (k * k) * (self._low - at) - pull
            most = (k * k) * (self._high - at) - pull
        if self._velocity is not None:
            k = self._velocity
            least = np.maximum(least, k * (-self._fastest - rate))
            most = np.minimum(most, k * (self._fastest - rate))
            # bounds conflict beyond a position limit, moving fast towards it: returning takes precedence
            least, most = np.minimum(least, most), np.maximum(least, most)
        return least, most

    def keep(self, least: Array, most: Array, solve: Solve, given: Array | None, fixed: bool) -> Array:
        """Solve all samples within the limits; return the active rows, −1, 0 or 1 for each joint, (n, l).

        Args:
            least: From `accelerations`, (n, l).
            most: From `accelerations`, (n, l).
            solve: Solves samples with some joints at given accelerations.
            given: Active rows to start with, (n, l); none by default.
            fixed: Whether the given rows are the ones.
        """
        active = np.zeros(least.shape, dtype=np.int8) if given is None else np.array(given, dtype=np.int8)
        force, found = np.zeros(least.shape), np.zeros(least.shape)
        open_ = np.ones(len(least), dtype=bool)
        self._solve_patterns(active, open_, least, most, found, force, solve)
        if given is not None and not fixed:
            open_ = active.any(axis=1) & ~self._fits(active, least, most, found, force)
            active[open_] = 0  # afresh
            self._solve_patterns(active, open_, least, most, found, force, solve)
            open_ |= ~active.any(axis=1)
        for round_ in range(0 if fixed else ROUNDS):
            free = open_[:, None] & (active == 0)
            above, below = free & (found > most + _SLACK), free & (found < least - _SLACK)
            violated = (above | below).any(axis=1)
            pulling = (active * force > _PULL) & open_[:, None]
            if round_ >= _ALL:
                pulling &= ~violated[:, None] & (np.cumsum(pulling, axis=1) == 1) & (round_ < _ONE)
            open_ = violated | pulling.any(axis=1)
            if not open_.any():
                break
            active = np.where(above, 1, np.where(below, -1, np.where(pulling, 0, active))).astype(np.int8)
            self._solve_patterns(active, open_, least, most, found, force, solve)
        return active

    def _fits(self, active: Array, least: Array, most: Array, found: Array, force: Array) -> Array:
        """Whether the active rows are the right ones, (…)."""
        beyond = (active == 0) & ((found > most + _SLACK) | (found < least - _SLACK))
        fits: Array = ~(beyond | (active * force > _PULL)).any(axis=-1)
        return fits

    def keep_one(self, least: Array, most: Array, solve: SolveOne, given: Array | None) -> tuple[Array, Array]:
        """The same for a single sample: joint accelerations, (nv,), and the active rows, (l,).

        Args:
            least: From `accelerations`, (l,).
            most: From `accelerations`, (l,).
            solve: Solves the sample with some joints at given accelerations.
            given: Active rows to start with, (l,); none by default.
        """
        active, force = np.zeros(least.shape, dtype=np.int8), np.zeros(least.shape)
        if given is not None:
            active[...] = given
        low, high = least - _SLACK, most + _SLACK
        if active.any():
            rows = np.flatnonzero(active)
            a, f = solve(tuple(self.columns[rows].tolist()), np.where(active[rows] > 0, most[rows], least[rows]))
            force[rows] = f
            if self._fits(active, least, most, a[self.columns], force):
                return a, active
            active[...] = 0  # afresh
        for round_ in range(ROUNDS + 1):
            rows = np.flatnonzero(active)
            if len(rows):
                wanted = np.where(active[rows] > 0, most[rows], least[rows])
                a, f = solve(tuple(self.columns[rows].tolist()), wanted)
                force[...] = 0.0
                force[rows] = f
            else:
                a, _ = solve((), _NOTHING)
            found = a[self.columns]
            above, below = found > high, found < low
            if len(rows):
                free = active == 0
                above &= free
                below &= free
            violated = bool(above.any() or below.any())
            if not len(rows) and not violated:
                break
            pulling = active * force > _PULL
            if round_ >= _ALL:
                pulling &= (not violated) & (np.cumsum(pulling) == 1) & (round_ < _ONE)
            if round_ == ROUNDS or (not violated and not pulling.any()):
                break
            active[pulling] = 0
            active[above], active[below] = 1, -1
        return a, active

    def _solve_patterns(
        self, active: Array, open_: Array, least: Array, most: Array, found: Array, force: Array, solve: Solve
    ) -> None:
        """Solve the open samples, those with the same active joints together."""
        groups: dict[bytes, list[int]] = {}
        samples = np.flatnonzero(open_).tolist()
        if active[samples].any():
            for sample in samples:
                groups.setdefault(active[sample].tobytes(), []).append(sample)
        elif samples:
            groups[b""] = samples
        for group in groups.values():
            chosen, pattern = np.array(group), active[group[0]]
            rows = np.flatnonzero(pattern)
            wanted = np.where(pattern[rows] > 0, most[chosen][:, rows], least[chosen][:, rows])
            a, f = solve(chosen, self.columns[rows], wanted)
            found[chosen] = a[:, self.columns]
            force[chosen] = 0.0
            if len(rows):
                force[np.ix_(chosen, rows)] = f


def contiguous(numbers: Array) -> Any:
    """Indices, as a slice where they are contiguous: views are faster than copies."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
