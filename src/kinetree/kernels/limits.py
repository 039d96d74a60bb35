"""Bounds on accelerations that keep joints within their limits, and the check of a motion against them: O(l).

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         κ(−v_max − v) ≤ a ≤ κ(v_max − v)        (1)

A joint at a limit is held by a force that pushes it back. One that pulls it towards the limit shows that the joint need
not be held. All l joints have one coordinate each.

    ends        lower and upper limits, infinite where there are none
    rates       whether there is a lower limit, an upper one (1 if so, else 0), k², 2k, v_max, κ
    bounds      least and largest a; opposite are their negatives
    active      1 for joints held at their upper bound, −1 at their lower, else 0; following is the same afterwards
    along       forces along the rows of held joints, which act against the joint's direction
"""

from __future__ import annotations

from kinetree.kernels.branchless import UNBOUNDED, less, where
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.tree import Indexed

#: Tolerance on accelerations [rad/s² or m/s²].
SLACK = 1e-6
#: A joint whose holding force pulls with more than this is released [N m or N].
PULL = 1e-9


@kernel(
    q=("l",), v=("l",), ends=("l", 2), rates=("l", 6), bounds=("l", 2), opposite=("l", 2),
    outputs=("bounds", "opposite"),
)  # fmt: skip
def acceleration_bounds(
    k: Workspace, q: Indexed, v: Indexed, ends: Indexed, rates: Indexed, bounds: Indexed, opposite: Indexed
) -> None:
    """(1)."""
    for i in k.l:
        low, high = ends[i]
        lower, upper, square, double, fastest, rate = rates[i]
        pull = double * v[i]
        least = where(lower, square * (low - q[i]) - pull, -UNBOUNDED)
        most = where(upper, square * (high - q[i]) - pull, UNBOUNDED)
        slowest, quickest = rate * (-fastest - v[i]), rate * (fastest - v[i])
        least, most = less(least, slowest, slowest, least), less(most, quickest, most, quickest)
        # bounds conflict beyond a position limit, moving fast towards it: returning takes precedence
        least, most = less(least, most, least, most), less(least, most, most, least)
        bounds[i] = [least, most]
        opposite[i] = [-least, -most]


@kernel(
    a=("l",), bounds=("l", 2), along=("l",), active=("l",), following=("l",), excess=(),
    outputs=("following", "excess"), sparse=("excess",),
)  # fmt: skip
def bounds_check(
    k: Workspace, a: Indexed, bounds: Indexed, along: Indexed, active: Indexed, following: Indexed, excess: Indexed
) -> None:
    """Hold the free joints that violate a bound, release the held ones that need not be held, and count both."""
    for i in k.l:
        least, most = bounds[i]
        beyond = less(most + SLACK, a[i], 1.0, less(a[i], least - SLACK, -1.0, 0.0))
        held = active[i] * active[i]
        pulls = less(active[i] * along[i], -PULL, 1.0, 0.0)
        excess[...] = excess[...] + where(held, pulls, beyond * beyond)
        following[i] = where(held, where(pulls, 0.0, active[i]), beyond)
