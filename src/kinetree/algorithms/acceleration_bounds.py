"""Bounds on joint accelerations that keep joints within their limits, and the check of a motion against them: O(n).

    k²(q_lo − q) − 2k v ≤ a ≤ k²(q_hi − q) − 2k v         κ(−v_max − v) ≤ a ≤ κ(v_max − v)        (1)

A joint at a limit is held by a force that pushes it back. One that pulls it towards the limit shows that the joint need
not be held.
"""

from __future__ import annotations

from kinetree.algorithms.choices import UNBOUNDED, less, stand_in, where
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree

#: Tolerance on accelerations [rad/s² or m/s²].
SLACK = 1e-6
#: A joint whose holding force pulls with more than this is released [N m or N].
PULL = 1e-9


@algorithm(
    q=("q",),
    v=("v",),
    low=("q",),
    high=("q",),
    rates=("v", 6),
    bounds=("v", 2),
    opposite=("v", 2),
    outputs=("bounds", "opposite"),
    any_node=True,
)
def acceleration_bounds(
    tree: Tree,
    q: Indexed,
    v: Indexed,
    low: Indexed,
    high: Indexed,
    rates: Indexed,
    bounds: Indexed,
    opposite: Indexed,
) -> None:
    """(1).

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        low: Lower limits, −∞ where there are none, (nq,).
        high: Upper limits, ∞ where there are none, (nq,).
        rates: For each degree of freedom, whether it has a lower limit, an upper one (1 if so, else 0), k², 2k, the
            largest velocity, and κ, (nv, 6).
        bounds: Lower and upper bounds of a, (nv, 2).
        opposite: Their negatives, (nv, 2).
    """
    for k, _ in tree.scatter():
        rooms = [k.manifold.difference(q[k], stand_in(limit[k], q[k])) for limit in (low, high)]
        for i, c in enumerate(k.columns()):
            lower, upper, square, double, fastest, rate = rates[c]
            pull = double * v[c][()]
            least = where(lower, square * rooms[0][i] - pull, -UNBOUNDED)
            most = where(upper, square * rooms[1][i] - pull, UNBOUNDED)
            slowest, quickest = rate * (-fastest - v[c][()]), rate * (fastest - v[c][()])
            least, most = less(least, slowest, slowest, least), less(most, quickest, most, quickest)
            # bounds conflict beyond a position limit, moving fast towards it: returning takes precedence
            least, most = less(least, most, least, most), less(least, most, most, least)
            bounds[c] = [least, most]
            opposite[c] = [-least, -most]


@algorithm(
    a=("v",),
    bounds=("v", 2),
    along=("v",),
    active=("v",),
    following=("v",),
    excess=(),
    outputs=("following", "excess"),
    sparse=("excess",),
    any_node=True,
)
def bounds_check(
    tree: Tree, a: Indexed, bounds: Indexed, along: Indexed, active: Indexed, following: Indexed, excess: Indexed
) -> None:
    """Count the free joints that violate a bound, and the held ones that need not be held.

    Args:
        tree: The mechanism.
        a: Joint accelerations, (nv,).
        bounds: From `acceleration_bounds`, (nv, 2).
        along: Forces along the rows of held joints, which act against the joint's direction, (nv,).
        active: 1 for joints held at their upper bound, −1 at their lower, else 0, (nv,).
        following: The same after holding the former and releasing the latter, (nv,).
        excess: The number.
    """
    for c in tree.columns():
        least, most = bounds[c]
        beyond = less(most + SLACK, a[c], 1.0, less(a[c], least - SLACK, -1.0, 0.0))
        held = active[c] * active[c]
        pulls = less(active[c] * along[c], -PULL, 1.0, 0.0)
        excess[...] = excess[...] + where(held, pulls, beyond * beyond)
        following[c] = where(held, where(pulls, 0.0, active[c]), beyond)
