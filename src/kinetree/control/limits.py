"""Joint limits as rows of a level between constraints and goals, switched by an active set.

A joint may approach a limit only as fast as still lets it come to rest there, at a rate k:

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         k(−v_max − v) ≤ a ≤ k(v_max − v)        (1)

Each round solves all levels. Joints whose accelerations violate (1) become rows of the level, and rows whose force
pulls instead of pushing are released; in later rounds only one at a time, and finally none, so that the iteration
terminates. At convergence, the motion is that of the quadratic programme with bounds (1) above the goals. The rounds of
a sample depend on that sample only: samples with the same active rows are solved together, with the same bits as alone.
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

#: Solves samples with the same active joints: maps sample indices, joints and their accelerations to a and f.
Solve = Callable[[Array, Array, Array], tuple[Array, Array]]
#: The same for the only sample.
SolveOne = Callable[[tuple[int, ...], Array], tuple[Array, Array]]


class Limits:
    """The joint limits that are enforced.

    Attributes:
        columns: Degrees of freedom that have limits, (l,).
        joints: Their joints.
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
        self.joints = tuple(joint for joint, any_ in zip(single, bounded, strict=True) if any_)
        margin = np.minimum(bounds.margin, 0.5 * (high[bounded] - low[bounded]))
        self._low, self._high, self._fastest = low[bounded] + margin, high[bounded] - margin, fastest[bounded]

    def accelerations(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Lower and upper bounds on joint accelerations, (…, l), by (1)."""
        at, rate = q[..., self._q], v[..., self.columns]
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

    def kept(self, least: Array, most: Array, a: Array) -> bool:
        """Whether all samples keep the bounds as they are; NaN breaks no bound."""
        at = a[..., self.columns]
        return not ((at > most + _SLACK) | (at < least - _SLACK)).any()

    def keep(self, least: Array, most: Array, a: Array, solve: Solve, given: Array | None = None) -> Array:
        """Enforce the limits on accelerations, in place; return the active rows, −1, 0 or 1 for each joint, (n, l).

        Args:
            least: From `accelerations`, (n, l).
            most: From `accelerations`, (n, l).
            a: Joint accelerations without limits, (n, nv).
            solve: Solves samples with some joints at given accelerations.
            given: Active rows, (n, l); determined by the active-set iteration by default.
        """
        active = np.zeros(least.shape, dtype=np.int8)
        force = np.zeros(least.shape)
        if given is not None:
            self._solve_patterns(given, (given != 0).any(axis=1), least, most, a, force, solve)
            return given
        open_ = np.ones(len(a), dtype=bool)
        for round_ in range(ROUNDS):
            at = a[:, self.columns]
            free = open_[:, None] & (active == 0)
            above, below = free & (at > most + _SLACK), free & (at < least - _SLACK)
            violated = (above | below).any(axis=1)
            pulling = (active * force > _PULL) & open_[:, None]
            if round_ >= _ALL:
                pulling &= ~violated[:, None] & (np.cumsum(pulling, axis=1) == 1) & (round_ < _ONE)
            open_ = violated | pulling.any(axis=1)
            if not open_.any():
                break
            active = np.where(above, 1, np.where(below, -1, np.where(pulling, 0, active))).astype(np.int8)
            self._solve_patterns(active, open_, least, most, a, force, solve)
        return active

    def keep_one(self, least: Array, most: Array, a: Array, solve: SolveOne) -> tuple[Array, Array]:
        """The same for a single sample: joint accelerations, (nv,), and the active rows, (l,).

        Args:
            least: From `accelerations`, (l,).
            most: From `accelerations`, (l,).
            a: Joint accelerations without limits, (nv,).
            solve: Solves the sample with some joints at given accelerations.
        """
        active, force = np.zeros(least.shape, dtype=np.int8), np.zeros(least.shape)
        low, high = least - _SLACK, most + _SLACK
        for round_ in range(ROUNDS):
            at = a[self.columns]
            free = active == 0
            above, below = free & (at > high), free & (at < low)
            violated = above.any() or below.any()
            pulling = active * force > _PULL
            if round_ >= _ALL:
                pulling &= (not violated) & (np.cumsum(pulling) == 1) & (round_ < _ONE)
            if not violated and not pulling.any():
                break
            active[pulling] = 0
            active[above], active[below] = 1, -1
            rows = np.flatnonzero(active)
            wanted = np.where(active[rows] > 0, most[rows], least[rows])
            a, force[rows] = solve(tuple(self.columns[rows].tolist()), wanted)
        return a, active

    def _solve_patterns(
        self, active: Array, open_: Array, least: Array, most: Array, a: Array, force: Array, solve: Solve
    ) -> None:
        """Solve the remaining samples, those with the same active joints together."""
        groups: dict[bytes, list[int]] = {}
        for sample in np.flatnonzero(open_).tolist():
            groups.setdefault(active[sample].tobytes(), []).append(sample)
        for group in groups.values():
            chosen, pattern = np.array(group), active[group[0]]
            rows = np.flatnonzero(pattern)
            wanted = np.where(pattern[rows] > 0, most[chosen][:, rows], least[chosen][:, rows])
            a[chosen], f = solve(chosen, self.columns[rows], wanted)
            force[chosen] = 0.0
            force[np.ix_(chosen, rows)] = f
