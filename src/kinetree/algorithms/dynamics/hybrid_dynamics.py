"""Hybrid dynamics: joint forces are given for some joints, accelerations for the others. Cost O(n).

    pass           loop       computes                                                        source
    motion         scatter    V; Coriolis acceleration a with given joint accelerations, b       Alg. 6.1, first loop
    hinge          gather     P, D, G; residual ν. Given joints pass P and z on as they are       Eqs. 33, 58a–58d
    acceleration   scatter    joint acceleration, α, net force of each node                      Eqs. 58e–58g
    force          gather     force through each joint, τ                                        Alg. 3.1, second loop

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array


@algorithm(
    q=("q",), v=("v",), x=("v",), given=("v",), wrench=("frames", 6), a=("v",), tau=("v",), outputs=("a", "tau")
)  # fmt: skip
def hybrid_dynamics(
    tree: Tree, q: Indexed, v: Indexed, x: Indexed, given: Indexed, wrench: Indexed, a: Indexed, tau: Indexed
) -> None:
    """Accelerations and forces of all joints; x has accelerations where `given` is 1, and forces where it is 0."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.z = Force.zero()
    tree.world.f = Force.zero()
    tree.world.load = Force.zero()
    inertias.start_articulated(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.a = k.coriolis(k.V, v[k], V_p) + k.H @ (given[k] * x[k])
        k.b = k.gyroscopic(k.V, v[k])
        k.load = k.b * 0.0
        k.P = k.M.articulated()

    for frame, carrier in tree.frames():
        carrier.load += frame.X.T @ Force(wrench[frame])

    for k, _ in tree.scatter():
        k.z = k.b - k.load

    for k, parent in tree.gather():
        z = k.z + k.P @ k.a
        share = _share(given[k])
        # what is given needs no D; it is kept regular
        k.D, k.G, P_plus = k.H.hinge(k.P, k.armature + given[k])
        epsilon = (x[k] - k.resistance(q[k], v[k]) - k.H.T @ z) * (1.0 - given[k])
        k.nu = k.D.solve(epsilon)
        parent.P += k.X.congruence(P_plus) * (1.0 - share) + k.X.congruence(k.P) * share
        parent.z += k.X.T @ (z + k.G @ epsilon)

    for k, parent in tree.scatter():
        alpha_plus = k.X @ parent.alpha
        own = k.nu - (k.G.T @ alpha_plus) * (1.0 - given[k])
        a[k] = own + given[k] * x[k]
        k.own = own + given[k] * x[k]
        k.alpha = alpha_plus + k.H @ own + k.a
        k.f = k.M @ k.alpha + k.b - k.load

    for k, parent in tree.gather():
        tau[k] = k.H.T @ k.f + k.armature * k.own + k.resistance(q[k], v[k])
        parent.f += k.X.T @ k.f


def _share(given: Array) -> Any:
    """Whether a node's accelerations are given: all of them, or none."""
    return given[0] if len(given) else 0.0
