"""Newton's method on the nodes of a horizon: multiple shooting, sweeps for steps, two forward passes, limits.

Each iteration models costs and dynamics at all nodes at once, and solves the linear-quadratic problem by a backward and
a forward sweep. States then follow the linear prediction, and a filter accepts what is better than every earlier
iterate in cost or in gaps, within a bound on the cost (as stagewise SQP [J23]). If no length of that step is accepted,
states follow the dynamics under the gains (as FDDP [M20]); so they do first if gaps are narrow and models have no
curvature.

Models are those of Gauss and Newton at first. After a few iterations, or if steps become short, the curvature of
dynamics and residuals enters; where that is indefinite, half of it, and so on. Limits are an augmented Lagrangian:
multipliers move when a subproblem is nearly solved, to an accuracy that rises with each move.

Everything is decided for each problem on its own.

[J23] A. Jordana et al., "Stagewise implementations of sequential quadratic programming for model-predictive control",
      2023.
[M20] C. Mastalli et al., "Crocoddyl: an efficient and versatile framework for multi-contact optimal control", 2020.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from kinetree.ocp.active_set import HardRows, settled
from kinetree.ocp.costs import Bounds, NodeModel
from kinetree.ocp.horizon import Gains, Gap, Horizon, Path, Step, Trial
from kinetree.spatial.value import Array

#: Lengths of steps, in the order in which they are tried.
_SHARES = 0.5 ** np.arange(9.0)
#: Damping of inputs: the least, the first after a refusal, and that which ends a problem.
_LEAST, _FIRST, _MOST = 1e-9, 1e-6, 1e6
#: Steps that ask for more damping; and without curvature or rows, where damping only makes the next ones shorter [M20].
_SHORT, _TINY = 0.1, 0.012
#: Shortened steps after which states are rolled out first, where filters would go round along gaps.
_PATIENCE = 5
#: Shortened steps with wide gaps after which a path is given up for one that follows the dynamics.
_LOST = 60
#: Iterations before curvature enters anyway.
EARLY = 3
#: How often a problem that is not convex is made more so.
_TRIES = 24
#: Shares of curvature below which it is left out.
_LITTLE = 0.2
#: What a filter asks for: a fall of the cost per gap, relative to the cost, and of the gaps themselves; how far costs
#: may rise, and how wide gaps may be, per step: before curvature enters, as wide gaps lead to other valleys, and then.
_FALL, _CLOSE, _RISE, _FIRST_WIDE, _WIDE = 1e-5, 1e-3, 100.0, 0.3, 1.0
#: Gaps of a solution; sums of gaps that are as good as none.
GAP, _CLOSED = 1e-6, 1e-9
#: Gaps below which rows that act are found exactly; paths are not given up; and states are rolled out first, if there
#: is no curvature.
_NARROW = 0.1
#: First penalty of a limit, in units of the weight of its entry; how far it may grow, and how.
_PENALTY, _GROWTH, _FACTOR = 5e4, 1e8, 10.0
#: How often penalties grow without a smaller violation, and what is smaller, before limits count as impossible to keep.
_STILL, _SAME = 8, 0.99
#: How nearly subproblems are solved before multipliers move, relative to the cost: at first, and from one to the next;
#: or to what a move brings.
_NEAR, _NEARER, _WORTH = 1e-3, 0.1, 0.1
#: Attributes of the solver that have an entry for each problem.
_OF_PROBLEMS = (
    "warm", "damping", "stalled", "share", "shortened", "adrift", "given_up", "rounds", "worst", "still"
)  # fmt: skip
#: Columns of `Plan.table`.
ROW = np.dtype(
    [("cost", float), ("gap", float), ("violation", float), ("expected", float), ("step", float), ("damping", float),
     ("curvature", float), ("rollout", bool)]
)  # fmt: skip


class Options(NamedTuple):
    """How to solve."""

    iterations: int
    tolerance: float
    feasibility: float
    second_order: bool
    rollout: str
    progress: Callable[[int, Array, Array], None] | None


class Solution(NamedTuple):
    """All problems of a call, at their last iterates."""

    path: Path
    gains: Gains
    costs: Array
    gap: Array
    violation: Array
    violations: Array
    bounds: list[Bounds]
    reason: Array
    iterations: Array
    table: Array
    seconds: dict[str, float]


class _Ended(NamedTuple):
    """Problems that are at an end: their numbers, where they are, and why."""

    numbers: Array
    at: Trial
    gains: Gains
    costs: Array
    violations: Array
    bounds: list[Bounds]
    reason: Array
    iterations: int


def _of(arrays: Any, some: Any) -> Any:
    return [array[some] for array in arrays]


def _flat(array: Array) -> Array:
    return array.reshape(len(array), -1)


def _largest(*arrays: Array) -> Array:
    found: Array = np.maximum.reduce([np.abs(_flat(array)).max(axis=-1, initial=0.0) for array in arrays])
    return found


class Solver:
    """Solves a batch of problems. Those that have ended leave it, and the others go on.

    Args:
        horizon: What they have in common.
        path: Where to begin.
        targets: Targets of all rows.
        bounds: Hard rows.
        warm: Which problems begin with a plan, (N,).
        options: How to solve.
    """

    def __init__(
        self, horizon: Horizon, path: Path, targets: list[Any], bounds: list[Bounds], warm: Array, options: Options
    ) -> None:
        self.h, self.options, self.bounds, self.warm = horizon, options, bounds, warm
        self.N = N = len(path.q)
        self.seconds = dict.fromkeys(("derivatives", "sweeps", "trials"), 0.0)
        #: Whether curvature enters at all.
        self.curved = options.second_order and horizon.curved
        #: Numbers of the problems that are left; everything below is theirs.
        self.index = np.arange(N)
        self.given = horizon.costs.given(targets, bounds) if len(targets) else horizon.costs.given([], bounds)
        with np.errstate(all="ignore"):
            self.at = horizon.trial(path, self.given)
        #: Where problems began.
        self.start = self.at.path
        self.damping, self.stalled, self.share = np.full(N, _LEAST), np.zeros(N, dtype=bool), np.ones(N)
        #: Contacts without limits; and how many steps were shortened.
        self.held, self.shortened = bool(horizon.dynamics.feet) and not bounds, np.zeros(N)
        #: How many since gaps were narrow; and whether paths were given up, from which on states are rolled out first.
        self.adrift, self.given_up = np.zeros(N), np.zeros(N, dtype=bool)
        self.costate: list[Array] = []
        #: Of limits: how often multipliers moved, the least violation then, and how often it has stayed since.
        self.rounds, self.worst, self.still = np.zeros(N), np.full(N, np.inf), np.zeros(N)
        #: Costs and gaps of earlier iterates, as far as they are used.
        self.filter = np.full((2, N, options.iterations), np.inf)
        self.table = np.full((options.iterations, N), np.nan, dtype=ROW)
        self.ended: list[_Ended] = []

    def solve(self) -> Solution:
        """Iterate until each problem has a reason to stop."""
        h, n, T = self.h, self.N, self.h.T
        wide = (n, T, h.nu, h.nv)
        shapes = (wide, wide, (n, T, h.nu), (n,), (n,))
        with np.errstate(all="ignore"):
            reason = np.where(np.isfinite(self.at.cost), "", "not finite")
            self._leave(reason, Gains(*map(np.zeros, shapes)) if (reason != "").any() else None, 0)
            for iteration in range(self.options.iterations):
                if not len(self.index):
                    break
                index = self.index
                reason, gains = self._iterate(iteration)
                if self.options.progress is not None:
                    left = np.full(self.N, "-", dtype=object)
                    left[index] = reason
                    self.options.progress(iteration, self.table[iteration], left)
                if iteration + 1 == self.options.iterations:
                    broken = self.at.violation > self.options.feasibility
                    reason = np.where(reason == "", np.where(broken, "constraints", "iterations"), reason)
                self._leave(reason, gains, iteration + 1)
        return self._solution()

    def _leave(self, reason: Array, gains: Gains | None, iterations: int) -> None:
        """Take out problems that have ended."""
        out = reason != ""
        if gains is None or not out.any():
            return
        on, off = np.flatnonzero(~out), np.flatnonzero(out)
        given, at, bounds = self.given, self.at, self.bounds
        if len(on):
            given, at, gains = given.some(off), at.of(off), Gains(*_of(gains, off))
            bounds = [bound.some(off) for bound in bounds]
        costs = self.h.costs.by_term(at.path, given)
        broken = np.zeros((len(costs), len(bounds)))
        for number, (bound, d) in enumerate(_by_bound(bounds, at)):
            apart = np.where(bound.penalty > 0.0, np.sign(d) * (d - bound.shift), 0.0)
            broken[:, number] = _flat(np.maximum(apart, 0.0)).max(axis=-1)
        self.ended.append(_Ended(self.index[off], at, gains, costs, broken, bounds, reason[off], iterations))
        self.index = self.index[on]
        if len(on):
            self.given, self.at, self.bounds = self.given.some(on), self.at.of(on), [b.some(on) for b in self.bounds]
            for name in _OF_PROBLEMS:
                setattr(self, name, getattr(self, name)[on])
            self.costate, self.filter, self.start = _of(self.costate, on), self.filter[:, on], self.start.of(on)

    def _solution(self) -> Solution:
        """All problems in their order."""
        every = self.ended
        order = np.argsort(np.concatenate([each.numbers for each in every]))

        def joined(parts: list[Array]) -> Array:
            return parts[0] if len(parts) == 1 else np.concatenate(parts)[order]

        def both(parts: list[Any]) -> Any:
            return [joined(list(arrays)) for arrays in zip(*parts, strict=True)]

        def fields(number: int) -> Bounds:
            some = [each.bounds[number] for each in every]
            return Bounds(some[0].row, *both([x.arrays for x in some]))

        bounds = [fields(number) for number in range(len(every[0].bounds))]
        iterations = joined([np.full(len(each.numbers), each.iterations) for each in every])
        return Solution(
            Path(*both([each.at.path for each in every])), Gains(*both([each.gains for each in every])),
            joined([each.costs for each in every]), joined([each.at.largest for each in every]),
            joined([each.at.violation for each in every]), joined([each.violations for each in every]), bounds,
            joined([each.reason for each in every]), iterations,
            self.table[: int(iterations.max(initial=0))], self.seconds,
        )  # fmt: skip

    # One iteration

    def _iterate(self, iteration: int) -> tuple[Array, Gains]:
        h, clock, before = self.h, time.perf_counter(), self.seconds["derivatives"]
        self._give_up()
        at = self.at
        exact = np.full(len(self.index), self.curved and iteration > EARLY)
        if self.curved and iteration > 0:
            exact |= self.stalled
        # twice the share of curvature that was convex before
        share, damping = np.where(exact, np.minimum(np.maximum(2.0 * self.share, _LITTLE), 1.0), 0.0), self.damping
        if h.fuses(bool(exact.any())):
            gains, step, doubtful, share, damping = self._together(share, damping)
            if len(doubtful):
                again = self._separate(share[doubtful], damping[doubtful], doubtful)
                for whole, part in zip((*gains, *step, share, damping), again, strict=True):
                    whole[doubtful] = part
        else:
            *found, share, damping = self._separate(share, damping)
            gains, step = Gains(*found[:5]), Step(*found[5:])
        gains, step = self._settled(gains, step, share, damping)
        self.share = np.where(exact, share, self.share)
        expected = -(step.slope + 0.5 * step.curve)
        clock = self._clock("sweeps", clock + self.seconds["derivatives"] - before)

        self.filter[0, :, iteration], self.filter[1, :, iteration] = at.cost, at.gaps
        taken, length, rolled = self._taken(gains, step, expected, iteration + 1)
        self._clock("trials", clock)

        if self.curved:
            new = [step.costate_q, step.costate_v]
            s = length[:, None, None]
            self.costate = new if iteration == 0 else [y + s * (w - y) for y, w in zip(self.costate, new, strict=True)]
        self.at = taken
        grown, less = np.maximum(damping * 10.0, _FIRST), np.maximum(damping / 10.0, _LEAST)
        grown = np.where(length > 0.0, np.minimum(grown, _MOST), grown)  # a short step is a step
        short = length < (_TINY if self.held else _SHORT)
        self.damping = np.where(short, grown, np.where(length > 0.5, less, damping))
        self.stalled = length < 1.0
        self.shortened = self.shortened + self.stalled
        self.adrift = np.where(taken.largest < _NARROW, 0.0, self.adrift + self.stalled)
        reason = self._finish(expected, length, gains)
        row = (taken.cost, taken.largest, taken.violation, expected, length, damping, share, rolled)
        own = self.table[iteration]
        for name, each in zip(ROW.names or (), row, strict=True):
            own[name][self.index] = each
        return reason, gains

    def _together(self, share: Array, damping: Array) -> tuple[Gains, Step, Array, Array, Array]:
        """Gains and steps of all problems, and again of those that are not convex.

        Returns the numbers of those in doubt (see `Horizon.direction`), and the shares of curvature and the damping.
        """
        h, at, exact = self.h, self.at, bool(share.any())
        gains, step, doubtful = h.direction(
            at.path, at.gap, self.given, damping, self.costate, share if exact else None
        )
        for _ in range(_TRIES):
            bad = self._bad(gains)
            bad = bad[~doubtful[bad]] if len(bad) else bad
            if not len(bad):
                break
            share, damping = _weaker(share, damping, bad)
            own, some = at.of(bad), share[bad] if exact else None
            again = h.direction(own.path, own.gap, self.given.some(bad), damping[bad], _of(self.costate, bad), some)
            for whole, part in zip((*gains, *step), chain(*again[:2]), strict=True):
                whole[bad] = part
        return gains, step, np.flatnonzero(doubtful), share, damping

    def _separate(self, share: Array, damping: Array, some: Any = None) -> list[Array]:
        """Gains, steps, shares of curvature and damping of some problems, from all their nodes at once."""
        h, clock = self.h, time.perf_counter()
        at, given, costate = self.at, self.given, self.costate
        if some is not None:
            at, given, costate = at.of(some), given.some(some), _of(costate, some)
        linear, model = h.models(at.path, at.gap, given, costate, share)
        self._clock("derivatives", clock)
        gains, later = h.gains(linear, at.gap, model, damping)
        for _ in range(_TRIES):
            bad = self._bad(gains)
            if not len(bad):
                break
            share, damping = _weaker(share, damping, bad)
            own = at.of(bad)
            of_bad, again = h.models(own.path, own.gap, given.some(bad), _of(costate, bad), share[bad])
            found = h.gains(of_bad, own.gap, again, damping[bad])
            model, gains = NodeModel(*(each.copy() for each in model)), Gains(*(each.copy() for each in gains))
            later = tuple(each.copy() for each in later)
            for whole, part in zip((*model, *gains, *later), chain(again, *found), strict=True):
                whole[bad] = part
        step = h.step(linear, at.gap, model, gains, later, damping)
        return [*gains, *step, share, damping]

    def _settled(self, gains: Gains, step: Step, share: Array, damping: Array) -> tuple[Gains, Step]:
        """The same once rows act after a step as in its model, if steps are short or multipliers have moved.

        After a warm start, from which there may be a single iteration, they always do.
        """
        h, at, given = self.h, self.at, self.given
        hard = np.flatnonzero(self.stalled | (self.rounds > 0.0) | self.warm)
        if not self.bounds or not len(hard):
            return gains, step
        own, some = at.of(hard), given.some(hard)
        rows = HardRows.of(h.costs, own.path, some, lambda: h.linear(own.path, own.gap))
        if rows is None:
            return gains, step
        places = np.flatnonzero(rows.swapped(Step(*_of(step, hard))))
        if not len(places):
            return gains, step
        left = hard[places]
        own, whole = at.of(left), [x.copy() for x in (*gains, *step)]
        found = _of(whole, left)
        models = h.models(own.path, own.gap, given.some(left), _of(self.costate, left), share[left])
        ends = rows.some(places), *models, own.gap, damping[left], Gains(*found[:5]), Step(*found[5:])
        far = (own.largest > _NARROW) & ~self.warm[left]
        for each, part in zip(whole, chain(*settled(h, *ends, far)), strict=True):
            each[left] = part
        return Gains(*whole[:5]), Step(*whole[5:])

    def _bad(self, gains: Gains) -> Array:
        """Problems that are not convex in the inputs."""
        if gains.pivot.min() > 0.0:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(~(gains.pivot > 0.0) & np.isfinite(gains.pivot))

    def _taken(self, gains: Gains, step: Step, expected: Array, used: int) -> tuple[Trial, Array, Array]:
        """Where each problem goes: the longest step that is accepted, along the prediction or the dynamics."""
        n, at = len(self.index), self.at
        length, rolled = np.zeros(n), np.zeros(n, dtype=bool)
        best: Trial | None = None
        auto = self.options.rollout == "auto"
        # without curvature, predictions overshoot near a solution, and gaps do not tell; with contacts they do not
        rolls = not self.curved and not self.h.dynamics.feet
        first = np.full(n, self.options.rollout == "nonlinear")
        if auto:
            first = (at.largest < _NARROW) & rolls | (self.shortened >= _PATIENCE) & self.held | self.given_up
        for stage, share, way in product(range(1 + auto), _SHARES, ("linear", "nonlinear")):
            left = np.flatnonzero((length == 0.0) & (first == ((way == "nonlinear") != bool(stage))))
            if not len(left):
                continue
            each = np.full(len(left), share)
            trial = self._tried(way, gains, step, left, each)
            good = self._accepted(way, trial, left, each, step, expected, used)
            moving = left[good]
            if len(moving) == n:
                return trial, each, np.full(n, way == "nonlinear")
            if len(moving):
                length[moving], rolled[moving] = share, way == "nonlinear"
                best = at.of(np.arange(n)) if best is None else best
                best.put(moving, trial.of(good))
                if length.all():
                    break
        return (at if best is None else best), length, rolled

    def _give_up(self) -> None:
        """Leave paths whose gaps stay wide, for states that follow the dynamics.

        They track the path, or have the inputs of the start, whichever costs less. Far from any motion, damping of
        inputs does not help: predictions close gaps all the same, and the less they may steer, the farther they go.
        """
        tired = (self.adrift >= _LOST) | (10.0 * self.damping > _MOST)
        lost = np.flatnonzero(tired & (self.at.largest > _NARROW))
        if not len(lost) or self.options.rollout != "auto":
            return
        h, given, own, none = self.h, self.given.some(lost), self.at.of(lost), np.zeros(len(lost))
        gains = Gains(*self._separate(none, none + _FIRST, lost)[:5])
        near = gains._replace(k=np.zeros_like(gains.k))
        open_loop = near._replace(Kq=np.zeros_like(gains.Kq), Kv=np.zeros_like(gains.Kv))
        closed = Gap(*map(np.zeros_like, own.gap))
        best, again = (
            h.trial(h.rolled(path, closed, by, none), given)
            for path, by in ((own.path, near), (self.start.of(lost), open_loop))
        )
        less = np.flatnonzero(~(best.cost <= again.cost))
        best.put(less, again.of(less))
        good = np.isfinite(best.cost)
        self.at, taken = self.at.of(np.arange(len(self.index))), lost[good]
        self.at.put(taken, best.of(good))
        self.filter[:, taken], self.damping[taken], self.stalled[taken] = np.inf, _FIRST, False
        self.given_up[lost], self.adrift[lost] = True, 0.0

    def _tried(self, way: str, gains: Gains, step: Step, which: Array, share: Array) -> Trial:
        at, given = self.at, self.given
        path, gap = at.path, at.gap
        if len(which) < len(self.index):
            path, gap, given = path.of(which), Gap(*_of(gap, which)), given.some(which)
            step = Step(*_of(step, which))
            gains = Gains(*_of(gains, which)) if way == "nonlinear" else gains
        moved = self.h.moved(path, step, share) if way == "linear" else self.h.rolled(path, gap, gains, share)
        return self.h.trial(moved, given)

    def _accepted(
        self, way: str, trial: Trial, which: Array, share: Array, step: Step, expected: Array, used: int
    ) -> Array:
        new, left = trial.cost, trial.gaps
        cost, gap, expected = self.at.cost[which], self.at.gaps[which], expected[which]
        if way == "linear":
            costs, gaps = self.filter[:, which, :used]
            closer = (left[:, None] < (1.0 - _CLOSE) * gaps) & (gaps > _CLOSED)
            less = new + _FALL * np.abs(cost) * left
            good = ((less[:, None] < costs) | closer).all(axis=1)
            highest = np.where(costs < np.inf, np.abs(costs), 0.0).max(axis=1)
            wide = (_FIRST_WIDE if self.curved and used <= EARLY + 1 else _WIDE) * self.h.T
            good &= (new < _RISE * np.maximum(1.0, highest)) & (left < np.maximum(wide, gap))
            if not good.all():  # rounding decides at a solution
                scale = np.maximum(1.0, np.abs(cost))
                flat = (np.abs(expected) < 1e-8 * scale) & (gap < GAP) & (left < GAP)
                good |= flat & (new <= cost + 1e-10 * scale)
        else:
            # as FDDP: a tenth of what is expected, or while gaps close, no more than twice the rise; and less of both
            want = -share * (step.slope[which] + 0.5 * share * step.curve[which])
            fall = cost - new
            good = np.where(want >= 0.0, (fall > 0.1 * want) | (expected < 1e-12), (fall >= 2.0 * want) & (gap > GAP))
            if self.options.rollout == "auto":
                price = 1.5 * _largest(step.costate_q[which], step.costate_v[which])
                enough = 0.1 * np.maximum(share * (expected + price * gap), 0.0)
                good &= (gap < GAP) | (cost + price * gap - new - price * left > enough)
        accepted: Array = good & np.isfinite(new)
        return accepted

    # Limits and ends

    def _finish(self, expected: Array, length: Array, gains: Gains) -> Array:
        """Move multipliers of subproblems that are nearly solved, and say which problems are at an end."""
        options, cost, gap = self.options, self.at.cost, self.at.largest
        scale, size = np.maximum(1.0, np.abs(cost)), np.abs(expected)
        enough = options.tolerance * scale
        flat = size < 0.1 * enough
        done = (size <= enough) & (gains.decrease <= 4.0 * enough) & (gap <= GAP) & ((length == 1.0) | flat)
        if self.bounds:
            near = np.maximum(_NEAR * np.abs(cost) * _NEARER**self.rounds, _WORTH * self._worth())
            near = np.maximum(near, enough)
            ready = (size <= near) & (gap < 1e-3) & ((length > 0.0) | flat)
            done &= (self.at.violation <= options.feasibility) & self._moved_multipliers(ready)
        over = (self.damping > _MOST) | (self.still >= _STILL)
        if (done | over).any() or not np.isfinite(expected + cost + gains.pivot).all():
            finite = np.isfinite(expected) & np.isfinite(cost) & np.isfinite(gains.pivot)
            broken = self.at.violation > options.feasibility
            ended = np.where(over, np.where(broken, "constraints", "no step"), "")
            reason = np.where(done, "converged", ended)
            return np.where(finite, reason, "not finite")
        return np.zeros(len(done), dtype="U10")

    def _worth(self) -> Array:
        """½ Σ ρ c², c what rows are not complementary by: what a move of multipliers brings."""
        total = np.zeros(len(self.index))
        for bound, d in _by_bound(self.bounds, self.at):
            c = np.where(bound.penalty > 0.0, d - bound.shift, 0.0)
            total = total + 0.5 * _flat(bound.penalty * c * c).sum(axis=-1)
        return total

    def _moved_multipliers(self, ready: Array) -> Array:
        """Whether the multipliers of each problem have settled; those of problems that are `ready` move."""
        settled: Array = ready.copy()
        some = np.flatnonzero(ready)
        if not len(some):
            return settled
        worst = self.at.violation[some]
        grows = ((worst > self.options.feasibility) & (worst > 0.25 * self.worst[some]))[:, None, None]
        change = np.zeros(len(some))
        for number, (bound, d) in enumerate(_by_bound(self.bounds, self.at)):
            own = bound.some(some)
            on, new = own.penalty > 0.0, own.penalty * d[some]
            # what is not complementary: distances from bounds whose multipliers act, and violations of the others
            change = np.maximum(change, _largest((new - own.multipliers) / np.where(on, own.penalty, 1.0)))
            grown = np.minimum(own.penalty * _FACTOR, own.first * _GROWTH)
            both = bound.multipliers.copy(), bound.penalty.copy()
            both[0][some], both[1][some] = new, np.where(grows, grown, own.penalty)
            self.bounds[number] = replace(bound, multipliers=both[0], penalty=both[1])
        self.still[some] = np.where(grows[:, 0, 0] & (worst > _SAME * self.worst[some]), self.still[some] + 1.0, 0.0)
        self.worst[some] = np.minimum(self.worst[some], worst)
        self.rounds[some] += 1.0
        settled[ready] = change <= self.options.feasibility
        # a new subproblem: its costs compare with no earlier ones
        self.filter[:, some] = np.inf
        self.h.costs.bind(self.given, self.bounds)
        self.at = self.h.trial(self.at.path, self.given)
        return settled

    def _clock(self, name: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds[name] += now - since
        return now


def _by_bound(bounds: list[Bounds], at: Trial) -> Iterator[tuple[Bounds, Array]]:
    """Hard rows, and their distances d."""
    start = 0
    for bound in bounds:
        end = start + bound.row.part.size
        yield bound, at.distance[..., start:end]
        start = end


def _weaker(share: Array, damping: Array, bad: Array) -> tuple[Array, Array]:
    """Half the curvature of some problems, or none, or else ten times their damping."""
    share, damping = share.copy(), damping.copy()
    curved = share[bad] > 0.0
    share[bad] = np.where(share[bad] > _LITTLE, 0.5 * share[bad], 0.0)
    damping[bad] = np.where(curved, damping[bad], 10.0 * damping[bad])
    return share, damping


def first_penalty(weights: Array) -> Array:
    """Penalties to start with, from the weights of entries, (…): those without a weight take the largest of others."""
    most = weights.max(axis=(-1, -2), keepdims=True, initial=0.0)
    found: Array = _PENALTY * np.where(weights > 0.0, weights, np.where(most > 0.0, most, 1e-4))
    return found
