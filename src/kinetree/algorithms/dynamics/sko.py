"""Dynamics of a spatial kernel operator model, with Coriolis and gyroscopic vectors given. Cost O(n) each.

    recursion                 loop              computes                                   source
    sko_accelerations         scatter           α = Aᵀ(Hᵀ x + a)                           Eq. 2
    sko_inverse_dynamics      scatter, gather   τ = H A (M α + b)                          Alg. 3.1, Eq. 10
    sko_forward_dynamics      scatter, gather   x with this τ                              Alg. 6.1, Eq. 58
                              scatter

`H` is the transpose of the paper's, `X` its A*(p, k). The world is at rest.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.dynamics.forward_dynamics import acceleration
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion


@algorithm(q=("q",), x=("v",), a=("m",), alpha=("m",), outputs=("alpha",))
def sko_accelerations(tree: Tree, q: Indexed, x: Indexed, a: Indexed, alpha: Indexed) -> None:
    """α of all nodes."""
    tree.world.alpha = Motion.zero()
    for k, parent in tree.scatter():
        k.alpha = k.weight(q[k]) @ parent.alpha + k.H @ x[k] + a[k]
        alpha[k] = k.alpha


@algorithm(q=("q",), x=("v",), a=("m",), b=("m",), tau=("v",), outputs=("tau",))
def sko_inverse_dynamics(tree: Tree, q: Indexed, x: Indexed, a: Indexed, b: Indexed, tau: Indexed) -> None:
    """τ for given joint accelerations x."""
    tree.world.alpha = Motion.zero()
    tree.world.f = Force.zero()
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.alpha = k.X @ parent.alpha + k.H @ x[k] + a[k]
        k.f = k.M @ k.alpha + b[k]
    for k, parent in tree.gather():
        tau[k] = k.H.T @ k.f + k.armature * x[k]
        parent.f += k.X.T @ k.f


@algorithm(q=("q",), tau=("v",), a=("m",), b=("m",), x=("v",), outputs=("x",))
def sko_forward_dynamics(tree: Tree, q: Indexed, tau: Indexed, a: Indexed, b: Indexed, x: Indexed) -> None:
    """Joint accelerations x for given τ."""
    tree.world.alpha = Motion.zero()
    tree.world.z = Force.zero()
    inertias.start_articulated(tree)
    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.a, k.z = a[k], b[k]
        k.P = k.M.articulated()
    for k, parent in tree.gather():
        z = k.z + k.P @ k.a  # Eq. 58a
        inertias.hinge(k, parent)
        epsilon = tau[k] - k.H.T @ z  # Eq. 58c
        k.nu = k.D.solve(epsilon)  # Eq. 58d
        parent.z += k.X.T @ (z + k.G @ epsilon)  # Eqs. 58b, 58a
    for k, parent in tree.scatter():
        x[k] = acceleration(k, parent)
