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
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kinetree.ocp.horizon import Bounds, Gains, Gap, Horizon, Linear, NodeModel, Path, Step
from kinetree.spatial.value import Array

#: Lengths of steps that are tried together if the whole step is refused.
_SHARES = 0.5 ** np.arange(1.0, 9.0)
#: Damping of inputs: the least, the first after a refusal, and that which ends a problem.
_LEAST, _FIRST, _MOST = 1e-9, 1e-6, 1e6
#: Iterations before curvature enters anyway.
_EARLY = 3
#: Shares of curvature below which it is left out.
_LITTLE = 0.2
#: What a filter asks for: a fall of the cost per gap, and of the gaps themselves; and how far costs may rise.
_FALL, _CLOSE, _RISE = 1e-5, 1e-3, 100.0
#: Gaps of a solution; sums of gaps that are as good as none.
GAP, _CLOSED = 1e-6, 1e-9
#: Gaps below which states are rolled out first, if there is no curvature.
_NARROW = 0.1
#: First penalty of a limit, in units of the weight of its entry; how far it may grow, and how.
_PENALTY, _GROWTH, _FACTOR = 5e3, 1e4, 10.0
#: How nearly subproblems are solved before multipliers move, relative to the cost: at first, and from one to the next.
_NEAR, _NEARER = 1e-3, 0.1
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
    bounds: list[Bounds]
    reason: Array
    iterations: Array
    table: Array
    seconds: dict[str, float]


class _Trial(NamedTuple):
    """Where some problems could go."""

    path: Path
    gap: Gap
    costs: Array
    extra: Array

    def of(self, some: Any) -> _Trial:
        return _Trial(self.path.of(some), Gap(*_of(self.gap, some)), self.costs[some], self.extra[some])


def _of(arrays: Any, some: Any) -> Any:
    return [array[some] for array in arrays]


def _flat(array: Array) -> Array:
    return array.reshape(len(array), -1)


def _largest(*arrays: Array) -> Array:
    found: Array = np.maximum.reduce([np.abs(_flat(array)).max(axis=-1, initial=0.0) for array in arrays])
    return found


def _sum(gap: Gap) -> Array:
    total: Array = np.abs(_flat(gap.q)).sum(axis=-1) + np.abs(_flat(gap.v)).sum(axis=-1)
    return total


class Solver:
    """The iteration, on a flat batch of problems."""

    def __init__(
        self, horizon: Horizon, path: Path, targets: list[Any], bounds: list[Bounds], options: Options
    ) -> None:
        self.h, self.targets, self.options, self.N = horizon, targets, options, len(path.q)
        self.seconds = dict.fromkeys(("derivatives", "sweeps", "trials"), 0.0)
        N, T, nv, nu = self.N, horizon.T, horizon.nv, horizon.nu
        #: Whether curvature enters at all.
        self.curved = options.second_order and horizon.curved
        self.bounds = bounds
        self.at = self._evaluated(path, targets, bounds)
        self.gains = Gains(
            np.zeros((N, T, nu, nv)), np.zeros((N, T, nu, nv)), np.zeros((N, T, nu)), np.zeros(N), np.zeros(N)
        )
        self.costate = np.zeros((N, T, nv)), np.zeros((N, T, nv))
        self.damping, self.stalled = np.full(N, _LEAST), np.zeros(N, dtype=bool)
        self.rounds, self.worst = np.zeros(N), np.full(N, np.inf)
        self.reason = np.full(N, "", dtype="U16")
        self.count = np.zeros(N, dtype=int)
        #: Costs and gaps of earlier iterates, as far as they are used.
        self.used = 0
        self.filter = np.full((2, N, max(options.iterations, 1)), np.inf)
        self.table = np.full((options.iterations, N), np.nan, dtype=ROW)
        self.violation = self._violation(path, bounds)

    def solve(self) -> Solution:
        """Iterate until each problem has a reason to stop."""
        self.reason[~np.isfinite(self._cost(self.at))] = "not finite"
        for iteration in range(self.options.iterations):
            on = np.flatnonzero(self.reason == "")
            if not len(on):
                break
            with np.errstate(all="ignore"):
                self._iterate(iteration, on)
            if self.options.progress is not None:
                self.options.progress(iteration, self.table[iteration], self.reason)
        left = self.reason == ""
        self.reason[left] = np.where(self.violation[left] > self.options.feasibility, "constraints", "iterations")
        return Solution(
            self.at.path, self.gains, self.at.costs, _largest(*self.at.gap), self.violation, self.bounds,
            self.reason, self.count, self.table[: int(self.count.max(initial=0))], self.seconds,
        )  # fmt: skip

    # One iteration of some problems

    def _iterate(self, iteration: int, on: Array) -> None:
        h, clock = self.h, time.perf_counter()
        every = len(on) == self.N
        at, targets, bounds = self.at, self.targets, self.bounds
        if not every:
            at, targets, bounds = at.of(on), self._targets(on), [bound.some(on) for bound in bounds]
        linear = h.linear(at.path)
        model = h.model(at.path, linear, targets, bounds)
        exact = self.curved & (self.stalled[on] & (self.count[on] > 0) | (self.count[on] > _EARLY))
        full = model
        if exact.any():
            full = self._full(at.path, linear, model, targets, exact, on)
        clock = self._clock("derivatives", clock)

        share = exact.astype(float)
        model, gains, share, damping = self._swept(linear, at.gap, model, full, share, self.damping[on])
        step = h.step(linear, at.gap, model, gains)
        expected = -(step.slope + 0.5 * step.curve)
        clock = self._clock("sweeps", clock)

        cost, gap = self._cost(at), _sum(at.gap)
        self.used = iteration + 1
        self.filter[0, on, iteration], self.filter[1, on, iteration] = cost, gap
        taken, length, rolled = self._taken(at, targets, bounds, gains, step, cost, gap, expected, on)
        self._clock("trials", clock)

        for whole, part in zip(self.costate, (step.costate_q, step.costate_v) if self.curved else (), strict=False):
            first = (self.count[on] == 0)[:, None, None]
            s = np.where(first, 1.0, length[:, None, None])
            whole[on] += s * (part - whole[on])
        if every:
            self.gains = gains
        else:
            for whole, part in zip(self.gains, gains, strict=True):
                whole[on] = part
        self._put(on, taken)
        none = length == 0.0
        self.damping[on] = np.where(
            none,
            np.maximum(damping * 10.0, _FIRST),
            np.where(length > 0.5, np.maximum(damping / 10.0, _LEAST), damping),
        )
        self.stalled[on], self.count[on] = length < 1.0, self.count[on] + 1
        self.violation[on] = self._violation(taken.path, bounds)
        self._finish(on, expected, length, gains)
        row = (self._cost(taken), _largest(*taken.gap), self.violation[on], expected, length, damping, share, rolled)
        for name, each in zip(ROW.names or (), row, strict=True):
            self.table[name][iteration, on] = each

    def _full(
        self, path: Path, linear: Linear, model: NodeModel, targets: list[Any], exact: Array, on: Array
    ) -> NodeModel:
        """Models with the curvature of dynamics and residuals, where it is asked for."""
        some = np.flatnonzero(exact)
        x, aims = path.of(some), [None if target is None else target[some] for target in targets]
        part = NodeModel(*_of(model, some))
        part = part._replace(qq=part.qq + self.h.bend(x, aims))
        by_q, by_v = (each[on[some]] for each in self.costate)
        part = self.h.curvature(x, Linear(*_of(linear, some)), by_q, by_v, np.ones(len(some)), part)
        if len(some) == len(exact):
            return part
        whole = NodeModel(*(each.copy() for each in model))
        for each, new in zip(whole, part, strict=True):
            each[some] = new
        return whole

    def _swept(
        self, linear: Linear, gap: Gap, plain: NodeModel, full: NodeModel, share: Array, damping: Array
    ) -> tuple[NodeModel, Gains, Array, Array]:
        """Gains of problems that are convex in the inputs, with as much curvature and little damping as that takes."""
        model = full
        gains = self.h.gains(linear, gap, model, damping)
        for _ in range(24):
            bad = np.flatnonzero(~(gains.pivot > 0.0) & np.isfinite(_flat(plain.q).sum(axis=-1)))
            if not len(bad):
                break
            if model is full:
                model = NodeModel(*(each.copy() for each in full))
                gains = Gains(*(each.copy() for each in gains))
            curved = share[bad] > 0.0
            share[bad] = np.where(share[bad] > _LITTLE, 0.5 * share[bad], 0.0)
            damping = damping.copy()
            damping[bad] = np.where(curved, damping[bad], 10.0 * damping[bad])
            for each, gauss, newton in zip(model, plain, full, strict=True):
                s = share[bad].reshape(-1, *(1,) * (each.ndim - 1))
                each[bad] = gauss[bad] + s * (newton[bad] - gauss[bad])
            again = self.h.gains(
                Linear(*_of(linear, bad)), Gap(*_of(gap, bad)), NodeModel(*_of(model, bad)), damping[bad]
            )
            for whole, part in zip(gains, again, strict=True):
                whole[bad] = part
        return model, gains, share, damping

    def _taken(
        self, at: _Trial, targets: list[Any], bounds: list[Bounds], gains: Gains, step: Step, cost: Array, gap: Array,
        expected: Array, on: Array,
    ) -> tuple[_Trial, Array, Array]:  # fmt: skip
        """Where each problem goes: the longest step that is accepted, along the prediction or the dynamics."""
        n = len(on)
        length, rolled = np.zeros(n), np.zeros(n, dtype=bool)
        best: _Trial | None = None
        auto = self.options.rollout == "auto"
        # without curvature, predictions overshoot near a solution, and gaps do not tell
        narrow = (_largest(*at.gap) < _NARROW) & (not self.curved)
        rolls_first = narrow if auto else np.full(n, self.options.rollout == "nonlinear")
        for stage in range(1 + auto):
            for shares, way in product((np.ones(1), _SHARES), ("linear", "nonlinear")):
                left = np.flatnonzero((length == 0.0) & (rolls_first == ((way == "nonlinear") != bool(stage))))
                if not len(left):
                    continue
                which, each = np.repeat(left, len(shares)), np.tile(shares, len(left))
                trial = self._tried(way, at, targets, bounds, gains, step, which, each)
                judged = self._accepted(way, trial, which, each, step, cost, gap, expected, on)
                good = judged.reshape(len(left), len(shares))
                found, first = good.any(axis=1), good.argmax(axis=1)
                moving = left[found]
                length[moving], rolled[moving] = shares[first[found]], way == "nonlinear"
                if len(moving) == n and len(shares) == 1:
                    return trial, length, rolled
                best = at.of(np.arange(n)) if best is None else best
                _put(best, moving, trial.of(np.flatnonzero(found) * len(shares) + first[found]))
        return (at if best is None else best), length, rolled

    def _tried(
        self, way: str, at: _Trial, targets: list[Any], bounds: list[Bounds], gains: Gains, step: Step, which: Array,
        share: Array,
    ) -> _Trial:  # fmt: skip
        path, gap = at.path, at.gap
        if len(which) != len(path.q) or (which[1:] != which[:-1] + 1).any():  # else all of them, once
            path, gap, step, gains = (
                path.of(which),
                Gap(*_of(gap, which)),
                Step(*_of(step, which)),
                Gains(*_of(gains, which)),
            )
            targets = [None if target is None else target[which] for target in targets]
            bounds = [bound.some(which) for bound in bounds]
        moved = self.h.moved(path, step, share) if way == "linear" else self.h.rolled(path, gap, gains, share)
        return self._evaluated(moved, targets, bounds)

    def _accepted(
        self, way: str, trial: _Trial, which: Array, share: Array, step: Step, cost: Array, gap: Array, expected: Array,
        on: Array,
    ) -> Array:  # fmt: skip
        new, left = self._cost(trial), _sum(trial.gap)
        if way == "linear":
            costs, gaps = self.filter[:, on[which], : self.used]
            closer = (left[:, None] < (1.0 - _CLOSE) * gaps) & (gaps > _CLOSED)
            good = ((new[:, None] < costs - _FALL * left[:, None]) | closer).all(axis=1)
            good &= new < _RISE * np.maximum(1.0, np.abs(np.where(np.isfinite(costs), costs, 0.0)).max(axis=1))
            # rounding decides at a solution
            scale = np.maximum(1.0, np.abs(cost[which]))
            flat = (np.abs(expected[which]) < 1e-8 * scale) & (gap[which] < GAP) & (left < GAP)
            good |= flat & (new <= cost[which] + 1e-10 * scale)
        else:
            # as FDDP: a tenth of what is expected, or while gaps close, no more than twice the rise; and less of both
            want = -share * (step.slope[which] + 0.5 * share * step.curve[which])
            fall = cost[which] - new
            good = np.where(want >= 0.0, (fall > 0.1 * want) | (expected[which] < 1e-12), fall >= 2.0 * want)
            if self.options.rollout == "auto":
                price = 1.5 * _largest(step.costate_q, step.costate_v)[which]
                merit = cost[which] + price * gap[which]
                enough = 0.1 * np.maximum(share * (expected[which] + price * gap[which]), 0.0)
                good &= (gap[which] < GAP) | (merit - new - price * left > enough)
        accepted: Array = good & np.isfinite(new)
        return accepted

    # Limits and ends

    def _finish(self, on: Array, expected: Array, length: Array, gains: Gains) -> None:
        """Move multipliers of subproblems that are nearly solved, and say which problems are at an end."""
        options, at = self.options, self.at if len(on) == self.N else self.at.of(on)
        cost, gap = self._cost(at), _largest(*at.gap)
        scale = np.maximum(1.0, np.abs(cost))
        small = np.abs(expected) <= options.tolerance * scale
        done = small & (gains.decrease <= 4.0 * options.tolerance * scale) & (gap <= GAP)
        flat = np.abs(expected) < 0.1 * options.tolerance * scale
        done &= (length == 1.0) | flat
        if self.bounds:
            near = np.maximum(_NEAR * np.abs(cost) * _NEARER ** self.rounds[on], options.tolerance * scale)
            ready = (np.abs(expected) <= near) & (gap < 1e-3) & ((length > 0.0) | flat)
            done &= self._moved_multipliers(on, ready) & (self.violation[on] <= options.feasibility)
        finite = np.isfinite(expected) & np.isfinite(cost) & np.isfinite(gains.pivot)
        reason = np.where(done, "converged", np.where(self.damping[on] > _MOST, "no step", ""))
        self.reason[on] = np.where(finite, reason, "not finite")

    def _moved_multipliers(self, on: Array, ready: Array) -> Array:
        """Whether the multipliers of each problem have settled; those of problems that are `ready` move."""
        settled: Array = ready.copy()
        some = on[ready]
        if not len(some):
            return settled
        worst = self.violation[some]
        grows = (worst > self.options.feasibility) & (worst > 0.25 * self.worst[some])
        change = np.zeros(len(some))
        for number, bound in enumerate(self.bounds):
            own = bound.some(some)
            new = own.penalty * own.distance(self.at.path.of(some))
            # what is not complementary: distances from bounds whose multipliers act, and violations of the others
            change = np.maximum(change, _largest((new - own.multipliers) / own.penalty))
            penalty = np.where(
                grows[:, None, None], np.minimum(own.penalty * _FACTOR, bound.first[some] * _GROWTH), own.penalty
            )
            both = bound.multipliers.copy(), bound.penalty.copy()
            both[0][some], both[1][some] = new, penalty
            self.bounds[number] = replace(bound, multipliers=both[0], penalty=both[1])
        self.worst[some] = np.minimum(self.worst[some], worst)
        self.rounds[some] += 1.0
        settled[ready] = change <= self.options.feasibility
        # a new subproblem: its costs compare with no earlier ones
        self.filter[:, some] = np.inf
        extra = self.h.costs(self.at.path.of(some), self._targets(some), [b.some(some) for b in self.bounds])[1]
        self.at.extra[some] = extra
        return settled

    # Small things

    def _evaluated(self, path: Path, targets: list[Any], bounds: list[Bounds]) -> _Trial:
        path, gap = self.h.reached(path)
        return _Trial(path, gap, *self.h.costs(path, targets, bounds))

    def _cost(self, trial: _Trial) -> Array:
        total: Array = trial.costs.sum(axis=-1) + trial.extra
        return total

    def _violation(self, path: Path, bounds: list[Bounds]) -> Array:
        found = np.zeros(len(path.q))
        for bound in bounds:
            found = np.maximum(found, bound.violation(path))
        return found

    def _targets(self, some: Array) -> list[Any]:
        return [None if target is None else target[some] for target in self.targets]

    def _put(self, some: Array, trial: _Trial) -> None:
        if len(some) == self.N:
            self.at = trial
        else:
            _put(self.at, some, trial)

    def _clock(self, name: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds[name] += now - since
        return now


def _put(whole: _Trial, some: Array, part: _Trial) -> None:
    for one, other in (*zip(whole.path, part.path, strict=True), *zip(whole.gap, part.gap, strict=True)):
        one[some] = other
    whole.costs[some], whole.extra[some] = part.costs, part.extra


def first_penalty(weights: Array) -> Array:
    """Penalties to start with, from the weights of entries, (…): those without a weight take the largest of others."""
    most = weights.max(axis=(-1, -2), keepdims=True, initial=0.0)
    found: Array = _PENALTY * np.where(weights > 0.0, weights, np.where(most > 0.0, most, 1e-4))
    return found
