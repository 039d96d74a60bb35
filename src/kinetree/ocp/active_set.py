"""Limits within a step: which rows act is decided in the linear-quadratic problem, by more sweeps, not by more steps.

A hard row costs ½ ρ d(z)², d the distance of z = r + y/ρ from an interval (see `kinetree.ocp.costs`). A sweep takes
rows to act as they do where the step starts. Where a step takes them across their bounds, its model is not the cost:
steps become short, and rows act in turns. Bounds of entries of q, v and u are linear in the step. With them the model
is quadratic in pieces, and its minimum is found by Newton's method with a search along lines [B22]: a sweep finds the
minimum of the piece at z̄, where a mean δ̄ of earlier steps leads, and δ̄ moves towards it by a length α.

The slope of all but rows, along what keeps the linearised dynamics, needs no Hessian: at the end of a sweep it is
−m·Cp in a direction p, with m = ρ d of the rows that act in the sweep, and Cp what p does to z. Slopes of quadratics
are linear, so that it is −m̄·Cp at a mean of steps, m̄ the mean of their m. The slope of the model from δ̄ to δ is

    ψ(α) = (ρ d(z̄ + α Δz) − (1 − α) m̄ − α m) · Δz                                                                  (1)

[B22] A. Bambade, S. El-Kazdadi, A. Taylor, J. Carpentier, "ProxQP: yet another quadratic programming solver for
      robotics and beyond", RSS 2022.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.active_rows import moved_mean, sides_of, swept_rows
from kinetree.ocp.costs import Costs, Given, NodeModel
from kinetree.ocp.horizon import Gains, Gap, Horizon, Path, Step
from kinetree.ocp.linearization import Linear
from kinetree.runtime.function import compiled
from kinetree.spatial.value import Array

#: The most sweeps of a step: while gaps are open, and once they are closed.
_OPEN, _CLOSED = 3, 8
#: Rises of the cost, relative to its slope, that are rounding.
_FLAT = 1e-9


class EntryRows(NamedTuple):
    """Hard rows that bound entries of q, v and u at all nodes, M in all.

    Attributes:
        places: The tangents that each part is of, its entries, and its rows.
        z: r + y/ρ, (N, T + 1, M).
        weight: ρ, (N, T + 1, M).
        lower: The least values, (M,).
        upper: The largest, (M,).
    """

    places: list[tuple[str, slice, slice]]
    z: Array
    weight: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, costs: Costs, x: Path, given: Given) -> EntryRows | None:
        """Those of problems at a path; None if nothing is bounded but by equalities."""
        own = [n for n in costs.hard if costs.rows[n].part.of in ("q", "v", "u")]
        rows, u = [costs.rows[n] for n in own], costs.padded(x.u)
        if all(np.array_equal(np.asarray(row.lower), np.asarray(row.upper)) for row in rows):
            return None
        ends = np.cumsum([row.part.size for row in rows]).tolist()
        parts = [(row.part, slice(end - row.part.size, end)) for row, end in zip(rows, ends, strict=True)]
        places = [(part.of, part.entries, own) for part, own in parts]
        values = [costs.rows[n].part.residual(x.q, x.v, u, given.targets[n]) + given.shifts[n] for n in own]
        z, weight = (np.concatenate(each, axis=-1) for each in (values, [given.weights[n] for n in own]))
        lower, upper = (np.concatenate([getattr(row, name) for row in rows]) for name in ("lower", "upper"))
        return cls(places, z, weight, lower, upper)

    def some(self, which: Array) -> EntryRows:
        """Those of some problems."""
        return self._replace(z=self.z[which], weight=self.weight[which])

    def after(self, step: Step) -> Array:
        """Values after a step."""
        of = {"q": step.q, "v": step.v, "u": Costs.padded(step.u)}
        found: Array = self.z + np.concatenate([of[name][..., entries] for name, entries, _ in self.places], axis=-1)
        return found

    def sides(self, z: Array) -> Array:
        """Where rows act: 1 above, −1 below, 0 within bounds or where not in force; equalities are above."""
        found: Array = self.compiled(sides_of)(z, self.weight, self.lower, self.upper)
        return found

    def compiled(self, kernel: Any) -> Any:
        """A kernel of these rows."""
        return compiled(kernel, S=self.z.shape[1], M=self.z.shape[2])

    def swept(self, z: Array, first: Array, side: Array, step: Step) -> Any:
        """See `kinetree.kernels.active_rows.swept_rows`."""
        args = self.z, z, first, side, self.weight, self.lower, self.upper, step.slope, step.curve
        return self.compiled(swept_rows)(*args)

    def swapped(self, step: Step) -> Array:
        """Whether rows of problems act elsewhere after a step."""
        found: Array = (self.sides(self.after(step)) != self.sides(self.z)).any(axis=(1, 2))
        return found

    def moved(self, model: NodeModel, side: Array, before: Array) -> NodeModel:
        """A model with rows that act on given sides, instead of as before."""
        found = model._asdict()
        bounds = np.where(side > 0.0, self.upper, np.where(side < 0.0, self.lower, self.z))
        old = np.where(before > 0.0, self.upper, np.where(before < 0.0, self.lower, self.z))
        slope, more = self.weight * (old - bounds), self.weight * (np.abs(side) - np.abs(before))
        for name in {name for name, *_ in self.places}:
            found[name], found[name * 2] = found[name].copy(), found[name * 2].copy()
        for name, entries, own in self.places:
            found[name][..., entries] += slope[..., own]
            np.einsum("...ii->...i", found[name * 2])[..., entries] += more[..., own]
        return NodeModel(**found)


def settled(
    h: Horizon, rows: EntryRows, linear: Linear, model: NodeModel, gap: Gap, damping: Array, gains: Gains, step: Step,
    closed: Array,
) -> tuple[Gains, Step, Array]:  # fmt: skip
    """Gains and steps once rows act after a step as in its model; and whose costs rise, which are not convex.

    Args:
        h: The horizon.
        rows: Bounds of entries.
        linear: Derivatives of steps.
        model: Models of nodes, with rows that act as at the path.
        gap: Gaps.
        damping: Of inputs, (N,).
        gains: Of a sweep of this model.
        step: Of that sweep.
        closed: Whether gaps are closed, (N,).
    """
    left, begun = np.arange(len(damping)), closed
    gains, step = Gains(*(x.copy() for x in gains)), Step(*(x.copy() for x in step))
    first = rows.sides(rows.z)
    z = rows.after(step)
    mean, side, fall, *_ = rows.swept(z, first, first, step)
    step.curve[:] = -2.0 * (fall + step.slope)
    for sweep in range(1, _CLOSED):
        changed = rows.moved(model, side, first)
        found, later = h.gains(linear, gap, changed, damping)
        good = np.flatnonzero(found.pivot > 0.0)  # curvature may need a row that acts no more
        new = h.step(linear, gap, changed, found, later, damping)
        to = rows.after(new)
        force, _, _, along, swaps = rows.swept(to, first, side, new)
        z, side, mean, length, more = rows.compiled(moved_mean)(z, to, rows.weight, rows.lower, rows.upper, mean, force)
        fall = fall + more
        for whole, part in zip(gains, found, strict=True):
            whole[left[good]] = part[good]
        for whole, part in zip(step, new._replace(slope=along), strict=True):
            old, share = whole[left[good]], length[good].reshape(-1, *(1,) * (part.ndim - 1))
            whole[left[good]] = old + share * (part[good] - old)
        step.curve[left[good]] = -2.0 * (fall[good] + step.slope[left[good]])
        ended = ((swaps == 0.0) & (length == 1.0)) | (~closed & (sweep + 1 >= _OPEN))
        on = good[~ended[good]]
        if not len(on):
            break
        left, rows, first, damping, closed = left[on], rows.some(on), first[on], damping[on], closed[on]
        z, side, mean, fall = z[on], side[on], mean[on], fall[on]
        linear, gap, model = (_some(x, on) for x in (linear, gap, model))
    rise = step.slope + 0.5 * step.curve
    return gains, step, begun & (rise > _FLAT * np.abs(step.slope))


def _some(arrays: Any, which: Array) -> Any:
    """Those of some problems; the same arrays if these are all."""
    return arrays._make(each if len(each) == len(which) else each[which] for each in arrays)
