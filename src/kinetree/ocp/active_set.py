"""Limits within a step: which rows act is decided in the linear-quadratic problem, by more sweeps, not by more steps.

A hard row costs ½ ρ d(z)², d the distance of z = r + y/ρ from an interval (see `kinetree.ocp.costs`). A sweep takes
rows to act as they do where the step starts. Where a step takes them across their bounds, its model is not the cost:
steps become short, and rows act in turns. With rows as linear functions of the step, the model is quadratic in pieces,
and its minimum is found by Newton's method with a search along lines [B22]: a sweep finds the minimum of the piece at
z̄, where a mean δ̄ of earlier steps leads, and δ̄ moves towards it by a length α.

The slope of all but rows, along what keeps the linearised dynamics, needs no Hessian: at the end of a sweep it is
−m·Cp in a direction p, with m = ρ d of the rows that act in the sweep, and Cp what p does to z. Slopes of quadratics
are linear, so that it is −m̄·Cp at a mean of steps, m̄ the mean of their m. The slope of the model from δ̄ to δ is

    ψ(α) = (ρ d(z̄ + α Δz) − (1 − α) m̄ − α m) · Δz                                                                  (1)

[B22] A. Bambade, S. El-Kazdadi, A. Taylor, J. Carpentier, "ProxQP: yet another quadratic programming solver for
      robotics and beyond", RSS 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.active_rows import moved_mean, sides_of, swept_rows
from kinetree.kernels.node_costs import matrix_product, product
from kinetree.ocp.costs import Costs, Given, NodeModel
from kinetree.ocp.horizon import Gains, Gap, Horizon, Path, Step
from kinetree.ocp.linearization import Linear
from kinetree.runtime.function import compiled
from kinetree.spatial.value import Array

#: What rows are entries of.
_ENTRIES = ("q", "v", "u")
#: The most sweeps of a step: with wide gaps, and else.
_FEW, _SWEEPS = 3, 16


class HardRows(NamedTuple):
    """Hard rows that may act or not at all nodes, M in all: bounds of entries of q, v and u first, then others.

    Attributes:
        places: The tangents that each part of the first is of, its entries, and its rows.
        by: Derivatives of the others by q, v and u, (N, T + 1, m, 2 nv + nu).
        z: r + y/ρ, (N, T + 1, M).
        weight: ρ, (N, T + 1, M).
        lower: The least values, (M,).
        upper: The largest, (M,).
    """

    places: list[tuple[str, slice, slice]]
    by: Array
    z: Array
    weight: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, costs: Costs, x: Path, given: Given, linear: Callable[[], Linear]) -> HardRows | None:
        """Those of problems at a path, where steps have derivatives; None if nothing is bounded but by equalities."""
        ends = {n: [np.asarray(x) for x in (costs.rows[n].lower, costs.rows[n].upper)] for n in costs.hard}
        free = [n for n, (lower, upper) in ends.items() if (lower < upper).any()]
        if not free:
            return None
        own = sorted(free, key=lambda n: costs.rows[n].part.of not in _ENTRIES)
        rows, u, start = [costs.rows[n] for n in own], costs.padded(x.u), 0
        places, values, sizes = list[tuple[str, slice, slice]](), list[Array](), (costs.nv, costs.nv, costs.nu)
        by: list[Array] = [np.zeros((*u.shape[:2], 0, sum(sizes)))]
        for n, row in zip(own, rows, strict=True):
            part, target = row.part, given.targets[n]
            if part.of in _ENTRIES:
                r = part.residual(x.q, x.v, u, target)
                places.append((part.of, part.entries, slice(start, start + part.size)))
            elif part.rows is None:
                r = part.residual(x.q, x.v, costs.padded(x.force), target)
                by.append(costs.padded(np.concatenate(costs.of_forces(part, linear()), axis=-1)))
            else:
                r, *each = part.rows(x.q, x.v, u, target)
                each = [*each, None, None][:3]
                wide = [np.zeros((*r.shape, k)) if J is None else J for J, k in zip(each, sizes, strict=True)]
                by.append(np.concatenate(wide, axis=-1))
            values.append(r)
            start += part.size
        z = np.concatenate([r + given.shifts[n] for r, n in zip(values, own, strict=True)], axis=-1)
        weight = np.concatenate([given.weights[n] for n in own], axis=-1)
        lower, upper = (np.concatenate(each) for each in zip(*(ends[n] for n in own), strict=True))
        return cls(places, np.concatenate(by, axis=-2), z, weight, lower, upper)

    def some(self, which: Array) -> HardRows:
        """Those of some problems."""
        return self._replace(by=self.by[which], z=self.z[which], weight=self.weight[which])

    def after(self, step: Step) -> Array:
        """Values after a step."""
        of = {"q": step.q, "v": step.v, "u": Costs.padded(step.u)}
        moved = [of[name][..., entries] for name, entries, _ in self.places]
        m, n = self.by.shape[2:]
        if m:
            moved.append(compiled(product, m=m, n=n)(self.by, np.concatenate(list(of.values()), axis=-1)))
        found: Array = self.z + np.concatenate(moved, axis=-1)
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
        m, n = self.by.shape[2:]
        if m:
            across = np.ascontiguousarray(self.by.swapaxes(-1, -2))
            along = compiled(product, m=n, n=m)(across, np.ascontiguousarray(slope[..., -m:]))
            square = compiled(matrix_product, m=n, n=m, p=n)(across, more[..., -m:, None] * self.by)
            nv = found["q"].shape[-1]
            parts = {"q": slice(0, nv), "v": slice(nv, 2 * nv), "u": slice(2 * nv, n)}
            for one, own in parts.items():
                found[one] = found[one] + along[..., own]
            for both in ("qq", "qv", "vv", "uq", "uv", "uu"):
                found[both] = found[both] + square[..., parts[both[0]], parts[both[1]]]
        return NodeModel(**found)


def settled(
    h: Horizon, rows: HardRows, linear: Linear, model: NodeModel, gap: Gap, damping: Array, gains: Gains, step: Step,
    far: Array,
) -> tuple[Gains, Step]:  # fmt: skip
    """Gains and steps once rows act after a step as in its model.

    Args:
        h: The horizon.
        rows: Bounds of entries.
        linear: Derivatives of steps.
        model: Models of nodes, with rows that act as at the path.
        gap: Gaps.
        damping: Of inputs, (N,).
        gains: Of a sweep of this model.
        step: Of that sweep.
        far: Whether gaps are wide, (N,).
    """
    left = np.arange(len(damping))
    gains, step = Gains(*(x.copy() for x in gains)), Step(*(x.copy() for x in step))
    first = rows.sides(rows.z)
    z = rows.after(step)
    mean, side, fall, *_ = rows.swept(z, first, first, step)
    step.curve[:] = -2.0 * (fall + step.slope)
    for sweep in range(1, _SWEEPS):
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
        ended = (swaps == 0.0) | (far & (sweep + 1 >= _FEW))
        on = good[~ended[good]]
        if not len(on):
            break
        left, rows, first, damping, far = left[on], rows.some(on), first[on], damping[on], far[on]
        z, side, mean, fall = z[on], side[on], mean[on], fall[on]
        linear, gap, model = (_some(x, on) for x in (linear, gap, model))
    return gains, step


def _some(arrays: Any, which: Array) -> Any:
    """Those of some problems; the same arrays if these are all."""
    return arrays._make(each if len(each) == len(which) else each[which] for each in arrays)
