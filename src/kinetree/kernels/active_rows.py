"""Moving a mean of steps towards the end of a sweep, while rows cross their bounds: see `kinetree.ocp.active_set`.

A row costs ½ ρ d², d the distance of its value z from an interval [l, h]. Cost O(r) for r rows.
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import above, less
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.tree import Indexed

_ROWS = ("S", "M")
#: Evaluations of the slope for a length, and the share of Newton's steps that is taken.
_SEARCH, _SHORT = 12, 0.999999


@kernel(
    start=_ROWS, to=_ROWS, first=_ROWS, side=_ROWS, weight=_ROWS, lower=("M",), upper=("M",), slope=(), curve=(),
    force=_ROWS, side_new=_ROWS, fall=(), along=(), swaps=(),
    outputs=("force", "side_new", "fall", "along", "swaps"),
)  # fmt: skip
def swept_rows(
    k: Workspace, start: Indexed, to: Indexed, first: Indexed, side: Indexed, weight: Indexed, lower: Indexed,
    upper: Indexed, slope: Indexed, curve: Indexed, force: Indexed, side_new: Indexed, fall: Indexed, along: Indexed,
    swaps: Indexed,
) -> None:  # fmt: skip
    """Of a sweep whose rows act on given sides, instead of the first ones: ρ d at its end, and where rows act there.

    `fall` is that of the cost if rows act as at the first; `along` its slope where the step starts, `swaps` how many
    rows end elsewhere than they act.
    """
    own, gain, other = k.scalar(slope[...]), k.scalar(0.0), k.scalar(0.0)
    for t in k.S:
        for i in k.M:
            l, h, w = lower[i], upper[i], weight[t, i]
            d, apart = _acting(to[t, i], side[t, i], l, h), _apart(to[t, i], l, h)
            more = _acting(start[t, i], first[t, i], l, h) - _acting(start[t, i], side[t, i], l, h)
            own[...] = own[...] + w * more * (to[t, i] - start[t, i])
            gain[...] = gain[...] + 0.5 * w * (d * d - apart * apart)
            there = _side(to[t, i], w, l, h)
            other[...] = other[...] + (there - side[t, i]) * (there - side[t, i])
            force[t, i], side_new[t, i] = w * d, there
    fall[...], along[...], swaps[...] = gain[...] - (slope[...] + 0.5 * curve[...]), own[...], other[...]


@kernel(
    z=_ROWS, to=_ROWS, weight=_ROWS, lower=("M",), upper=("M",), mean=_ROWS, force=_ROWS, z_new=_ROWS, side=_ROWS,
    mean_new=_ROWS, length=(), fall=(), outputs=("z_new", "side", "mean_new", "length", "fall"),
)  # fmt: skip
def moved_mean(
    k: Workspace, z: Indexed, to: Indexed, weight: Indexed, lower: Indexed, upper: Indexed, mean: Indexed,
    force: Indexed, z_new: Indexed, side: Indexed, mean_new: Indexed, length: Indexed, fall: Indexed,
) -> None:  # fmt: skip
    """A mean at z̄ that has moved towards z, by the length at which (1) of `kinetree.ocp.active_set` is zero.

    `fall` is that of the cost on the way, less (1)'s integral.
    """
    S, M = k.S, k.M

    def value(part: Any) -> tuple[Any, Any]:
        """(1), and its derivative by α."""
        total, rise = k.scalar(0.0), k.scalar(0.0)
        for t in S:
            for i in M:
                way, w, l, h = to[t, i] - z[t, i], weight[t, i], lower[i], upper[i]
                at, more = z[t, i] + part * way, force[t, i] - mean[t, i]
                total[...] = total[...] + (w * _apart(at, l, h) - mean[t, i] - part * more) * way
                pull = less(at, l, w, less(h, at, w, 0.0))
                rise[...] = rise[...] + (pull * way - more) * way
        return total[...], rise[...]

    # Newton's method from above, which ends just beyond the row that is met: it acts from then on
    low, high = k.scalar(0.0), k.scalar(1.0)
    found, rise = value(1.0)
    most, steep = k.scalar(found), k.scalar(rise)
    whole = above(most[...], 0.0, 0.0, 1.0)
    for _ in range(_SEARCH):
        newton = high[...] - _SHORT * most[...] / above(steep[...], 0.0, steep[...], 1.0)
        inside = above(newton, low[...], above(steep[...], 0.0, 1.0, 0.0), 0.0)
        middle = above(inside, 0.5, newton, 0.5 * (low[...] + high[...]))
        found, rise = value(middle)
        low[...] = above(found, 0.0, low[...], middle)
        high[...], most[...] = above(found, 0.0, middle, high[...]), above(found, 0.0, found, most[...])
        steep[...] = above(found, 0.0, rise, steep[...])
    part = k.scalar(above(whole, 0.5, 1.0, high[...]))

    gain = k.scalar(0.0)
    for t in S:
        for i in M:
            l, h, w, way = lower[i], upper[i], weight[t, i], to[t, i] - z[t, i]
            after = z[t, i] + part[...] * way
            before, now = _apart(z[t, i], l, h), _apart(after, l, h)
            half = mean[t, i] + 0.5 * part[...] * (force[t, i] - mean[t, i])
            gain[...] = gain[...] + (part[...] * half * way - 0.5 * w * (now * now - before * before))
            mean_new[t, i] = mean[t, i] + part[...] * (force[t, i] - mean[t, i])
            z_new[t, i], side[t, i] = after, _side(after, w, l, h)
    length[...], fall[...] = part[...], gain[...]


@kernel(z=_ROWS, weight=_ROWS, lower=("M",), upper=("M",), side=_ROWS, outputs=("side",))
def sides_of(k: Workspace, z: Indexed, weight: Indexed, lower: Indexed, upper: Indexed, side: Indexed) -> None:
    """1 above, −1 below, 0 within bounds or where not in force; equalities are above."""
    for t in k.S:
        for i in k.M:
            side[t, i] = _side(z[t, i], weight[t, i], lower[i], upper[i])


def _side(z: Any, weight: Any, lower: Any, upper: Any) -> Any:
    side = less(lower, upper, above(z, upper, 1.0, less(z, lower, -1.0, 0.0)), 1.0)
    return above(weight, 0.0, side, 0.0)


def _acting(z: Any, side: Any, lower: Any, upper: Any) -> Any:
    """The distance from the bound on a side, if there is one."""
    return above(side, 0.5, z - upper, less(side, -0.5, z - lower, 0.0))


def _apart(z: Any, lower: Any, upper: Any) -> Any:
    """The distance from an interval, negative below it."""
    return less(z, lower, z - lower, less(upper, z, z - upper, 0.0))
