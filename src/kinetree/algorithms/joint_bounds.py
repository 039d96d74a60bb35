"""Velocities between which joints stay within their stops in a time step: see `kinetree.kernels.joint_rows`. O(n)."""

from __future__ import annotations

from typing import Any

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import select


@algorithm(
    q=("q",), origin=("q",), lower=("v",), upper=("v",), dt=(), slowest=("v",), fastest=("v",),
    outputs=("slowest", "fastest"),
)  # fmt: skip
def joint_bounds(
    tree: Tree, q: Indexed, origin: Indexed, lower: Indexed, upper: Indexed, dt: Indexed,
    slowest: Indexed, fastest: Indexed,
) -> None:  # fmt: skip
    """Velocities between which joints stay within their stops.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        origin: The configuration from which limits are counted, (nq,).
        lower: Lower limits, −∞ where there is none, (nv,).
        upper: Upper limits, ∞ where there is none, (nv,).
        dt: Length of the step, seconds.
        slowest: (nv,).
        fastest: (nv,).
    """
    for k, _ in tree.scatter():
        place = k.manifold.difference(origin[k], q[k])
        slowest[k] = [-_allowed(gap) / dt[...] for gap in place - lower[k]]
        fastest[k] = [_allowed(gap) / dt[...] for gap in upper[k] - place]


def _allowed(gap: Any) -> Any:
    return select(gap, 0.0, 0.0, gap)  # NaN stays NaN
