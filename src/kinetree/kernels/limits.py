"""Bounds on accelerations that keep joints within their limits, and the check of a motion against them: O(l).

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         κ(−v_max − v) ≤ a ≤ κ(v_max − v)        (1)

A joint at a limit is held by a force that pushes it back. One that pulls it towards the limit shows that the joint need
not be held. All l joints have one coordinate each.
"""

from __future__ import annotations

from kinetree.kernels.branchless import UNBOUNDED, less, where
from kinetree.kernels.language import Workspace, kernel
from kinetree.recursion.tree import Indexed

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
    """(1).

    Args:
        k: Size l.
        q: Positions, (l,).
        v: Velocities, (l,).
        ends: Lower and upper limits, infinite where there are none, (l, 2).
        rates: For each joint, whether it has a lower limit, an upper one (1 if so, else 0), k², 2k, the largest
            velocity, and κ, (l, 6).
        bounds: Lower and upper bounds of a, (l, 2).
        opposite: Their negatives, (l, 2).
    """
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
    """Count the free joints that violate a bound, and the held ones that need not be held.

    Args:
        k: Size l.
        a: Accelerations, (l,).
        bounds: From `acceleration_bounds`, (l, 2).
        along: Forces along the rows of held joints, which act against the joint's direction, (l,).
        active: 1 for joints held at their upper bound, −1 at their lower, else 0, (l,).
        following: The same after holding the former and releasing the latter, (l,).
        excess: The number.
    """
    for i in k.l:
        least, most = bounds[i]
        beyond = less(most + SLACK, a[i], 1.0, less(a[i], least - SLACK, -1.0, 0.0))
        held = active[i] * active[i]
        pulls = less(active[i] * along[i], -PULL, 1.0, 0.0)
        excess[...] = excess[...] + where(held, pulls, beyond * beyond)
        following[i] = where(held, where(pulls, 0.0, active[i]), beyond)
