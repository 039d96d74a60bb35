"""Joint forces together with those of springs and dampers in the joints. Cost O(n).

    push = τ − D v − K (q ⊖ q₀ + v dt)

With dt the length of a time step, the force of the springs is that at its end, as far as v tells: the part of implicit
damping and springs that depends on the state (`kinetree.simulation.simulator`). With dt = 0 it is the force now.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree


@algorithm(
    q=("q",), v=("v",), tau=("v",), damping=("v",), stiffness=("v",), rest=("q",), dt=(), push=("v",),
    outputs=("push",),
)  # fmt: skip
def joint_springs(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, damping: Indexed, stiffness: Indexed, rest: Indexed, dt: Indexed,
    push: Indexed,
) -> None:  # fmt: skip
    """Joint forces with springs and dampers.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        tau: Joint forces, (nv,).
        damping: D of each degree of freedom, (nv,).
        stiffness: K, (nv,).
        rest: Configuration q₀ without spring forces, (nq,).
        dt: How far the springs look ahead, seconds.
        push: (nv,).
    """
    for k, _ in tree.scatter():
        stretch = k.manifold.difference(rest[k], q[k]) + v[k] * dt[...]
        push[k] = tau[k] - damping[k] * v[k] - stiffness[k] * stretch
