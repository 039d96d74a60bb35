"""Newton–Euler inverse dynamics: the joint forces required for given accelerations. Cost O(n).

    pass       loop       computes                                           source
    motion     scatter    velocity V, acceleration α, net force of each node   Alg. 3.1, first loop
    wrenches   frames     external forces on the bodies
    force      gather     force f through each joint, torque Hᵀf               Alg. 3.1, second loop

`H` is the transpose of the paper's, `X` its A*(p, k). Gravity enters as an acceleration of the world.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion


@algorithm(q=("q",), v=("v",), a=("v",), wrench=("frames", 6), tau=("v",), outputs=("tau",))
def inverse_dynamics(tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, tau: Indexed) -> None:
    """Joint forces τ = M(q) a + C(q, v) + g(q) − Σ Jᵀ w. [J11] Algorithm 3.1, Eq. 10."""
    newton_euler(tree, q, v, a, -tree.gravity, wrench, tau)


@algorithm(q=("q",), v=("v",), tau=("v",), outputs=("tau",))
def bias_forces(tree: Tree, q: Indexed, v: Indexed, tau: Indexed) -> None:
    """Joint forces C(q, v) + g(q) at zero joint accelerations."""
    newton_euler(tree, q, v, Zeros(), -tree.gravity, None, tau)


@algorithm(q=("q",), tau=("v",), outputs=("tau",))
def gravity_forces(tree: Tree, q: Indexed, tau: Indexed) -> None:
    """Joint forces g(q) that hold the mechanism still against gravity."""
    newton_euler(tree, q, Zeros(), Zeros(), -tree.gravity, None, tau)


def newton_euler(
    tree: Tree, q: Any, v: Any, a: Any, base: Motion, wrench: Any, tau: Any, *, springs: bool = True
) -> None:
    """[J11] Algorithm 3.1 for a world with acceleration `base`, with or without the nodes' springs and dampers.

    Leaves V, α and f at every node; τ is not computed if there is no array for it.
    """
    tree.world.V = Motion.zero()
    tree.world.alpha = base
    tree.world.f = Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ k.alpha + k.gyroscopic(k.V, v[k])

    if wrench is not None:
        for frame, carrier in tree.frames():
            carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        if tau is not None:
            needed = k.H.T @ k.f + k.armature * a[k]
            tau[k] = needed + k.resistance(q[k], v[k]) if springs else needed
        parent.f += k.X.T @ k.f
