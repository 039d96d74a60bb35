"""Articulated-body forward dynamics: the joint accelerations caused by given joint forces. Cost O(n).

    pass           loop       computes                                                  source
    motion         scatter    velocity V, Coriolis acceleration a, gyroscopic force b      Alg. 6.1, first loop
    hinge          gather     articulated inertia P, D, G; residual joint acceleration ν   Eqs. 33, 58a–58d
    acceleration   scatter    joint acceleration, node acceleration α                      Eqs. 58e–58g

`H` is the transpose of the paper's, `X` its A*(p, k). In (58a) and (58e) the paper prints E_φ for E_A.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.roles import NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array


@algorithm(q=("q",), v=("v",), tau=("v",), wrench=("frames", 6), a=("v",), outputs=("a",))
def forward_dynamics(tree: Tree, q: Indexed, v: Indexed, tau: Indexed, wrench: Indexed, a: Indexed) -> None:
    """Joint accelerations M⁻¹ (τ + Σ Jᵀ w − C − g). [J11] Algorithm 6.1, Eq. 58."""
    articulated_body(tree, q, v, tau, -tree.gravity, wrench, a)


def articulated_body(
    tree: Tree, q: Any, v: Any, tau: Any, base: Motion, wrench: Any, a: Any, *, springs: bool = True
) -> None:
    """[J11] Algorithm 6.1 for a world with acceleration `base`, with or without the nodes' springs and dampers."""
    articulated_forces(tree, q, v, tau, base, wrench, springs=springs)
    for k, parent in tree.scatter():
        a[k] = acceleration(k, parent)


def articulated_forces(
    tree: Tree, q: Any, v: Any, tau: Any, base: Motion, wrench: Any, *, springs: bool = True
) -> None:
    """The passes motion and hinge; arguments as of `articulated_body`."""
    tree.world.V = Motion.zero()
    tree.world.alpha = base
    tree.world.z = Force.zero()
    inertias.start_articulated(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.a = k.coriolis(k.V, v[k], V_p)
        k.z = k.gyroscopic(k.V, v[k])
        k.P = k.M.articulated()

    if wrench is not None:
        for frame, carrier in tree.frames():
            carrier.z -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        z = k.z + k.P @ k.a  # Eq. 58a
        inertias.hinge(k, parent)
        applied = tau[k] - k.resistance(q[k], v[k]) if springs else tau[k]
        epsilon = applied - k.H.T @ z  # Eq. 58c
        k.nu = k.D.solve(epsilon)  # Eq. 58d
        parent.z += k.X.T @ (z + k.G @ epsilon)  # Eqs. 58b, 58a


def acceleration(k: NodeRole, parent: NodeRole) -> Array:
    """The pass acceleration at a node: its joint acceleration."""
    alpha_plus = k.X @ parent.alpha  # Eq. 58e
    a: Array = k.nu - k.G.T @ alpha_plus  # Eq. 58f
    k.alpha = alpha_plus + k.H @ a + k.a  # Eq. 58g
    return a
