"""Directional derivatives (jvp) of inverse and forward dynamics. Cost O(n) each.

Of the joint forces, δτ = ∂τ/∂q dq + ∂τ/∂v dv + M da, at twice the cost of inverse dynamics:

    pass       loop       computes                                                          source
    motion     scatter    V, α; changes of velocity ϑ and of acceleration ζ, net of rotation  Eqs. 3.3, 3.4
    wrenches   frames     external forces on the bodies
    force      gather     force f, its change ν, δτ                                           Eq. 3.5

Everything is in body coordinates, in which vectors that merely rotate with a body are constant: ϑ and ζ are δV and δα
without this rotation, and a wrench that is constant in its frame's coordinates contributes to f only. Changes of rigid
bodies have closed forms; other nodes evaluate their formulas once on dual numbers (`language.variation`).

Of the joint accelerations, δa = ∂a/∂q dq + ∂a/∂v dv + M⁻¹ dτ:

    pass           loop       computes                                                       source
    motion         scatter    V, Coriolis acceleration, gyroscopic force                       [J11] Alg. 6.1
    hinge          gather     P, D, G; residual acceleration ν                                 [J11] Eqs. 33, 58
    linearized     scatter    α; changes of velocity ϑ and of acceleration ζ, without δa       Eq. 3.3
    force          gather     force f; linearised bias force z, residual ε                     Lemma 4.6
    acceleration   scatter    δa, and the resulting accelerations of bodies                    Lemma 4.6

This is not Algorithm 5, which takes a and f as given and starts from the tips. It needs two additional recursions, for
P̂ and Ĝ, in place of the linearised motion. If a has to be computed, an outward sweep is needed in any case. Then the
linearised equations of motion, solved with the available articulated inertias (Lemma 4.6), need neither P̂ nor Ĝ:
549 M + 483 A per link of a chain, including the computation of a, while Algorithm 5, corrected and written in the tree
language (`benchmarks/papers/algorithm_5.py`), takes 606 M + 559 A with a given.

Corrections to the paper: 2 M̂ ϑ for M̂ ϑ, H̃* f δθ for H̃ f; see the package for joints with several degrees of
freedom.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import Direction, Here, change, change_back, change_of_joint, gyroscopic
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), tau=("v",), dq=("v",), dv=("v",), dtau=("v",), wrench=("frames", 6), da=("v",),
    outputs=("da",),
)  # fmt: skip
def forward_dynamics_jvp(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, wrench: Indexed,
    da: Indexed,
) -> None:  # fmt: skip
    """δa. [JR] Lemma 4.6."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.theta = Motion.zero()
    tree.world.zeta = Motion.zero()
    tree.world.response = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.z = Force.zero()
    tree.world.dz = Force.zero()
    inertias.start_articulated(tree)

    for k, parent in tree.scatter():
        motion(k, parent, q[k], v[k])

    for frame, carrier in tree.frames():
        push(carrier, frame.X.T @ Force(wrench[frame]))

    for k, parent in tree.gather():
        z = k.z + k.P @ k.a
        inertias.hinge(k, parent)
        epsilon = tau[k] - k.resistance(q[k], v[k]) - k.H.T @ z
        k.nu = k.D.solve(epsilon)
        parent.z += k.X.T @ (z + k.G @ epsilon)

    for k, parent in tree.scatter():
        V_p, alpha_p = parent.V, parent.alpha
        alpha_plus = k.X @ alpha_p
        acceleration = k.nu - k.G.T @ alpha_plus
        k.alpha = alpha_plus + k.H @ acceleration + k.a
        k.f = k.f + k.M @ k.alpha
        here = Here(k.X, k.V, k.alpha, v[k], acceleration, V_p, alpha_p, k.V_plus)
        moved = change(k, here, Direction(dq[k], dv[k]), parent.theta, parent.zeta)
        k.theta, k.zeta, k.dz, k.spring = moved

    for k, parent in tree.gather():
        epsilon = dtau[k] - k.spring - change_of_joint(k, k.f, k.dz)
        k.dnu = k.D.solve(epsilon)
        parent.dz += change_back(k, k.X, dq[k], k.f, k.dz + k.G @ epsilon)
        parent.f += k.X.T @ k.f

    for k, parent in tree.scatter():
        response_plus = k.X @ parent.response
        response = k.dnu - k.G.T @ response_plus
        k.response = response_plus + k.H @ response
        da[k] = response


def motion(k: Any, parent: Any, q: Any, v: Any) -> None:
    """Set X, V, the Coriolis acceleration a, the gyroscopic force z, and the initial values of f and P."""
    k.X = k.weight(q)
    V_p = parent.V
    k.V_plus = k.X @ V_p
    k.V = k.V_plus + k.H @ v
    k.a = k.coriolis(k.V, v, V_p)
    k.z = k.f = gyroscopic(k, k.V, v)  # Eq. 2.7
    k.P = k.M.articulated()


def inverse_motion(k: Any, parent: Any, q: Any, v: Any, a: Any) -> Here:
    """Set X, V, α and the inertial force f of a node; its state."""
    k.X = k.weight(q)
    V_p, alpha_p = parent.V, parent.alpha
    V_plus = k.X @ V_p
    k.V = V_plus + k.H @ v
    k.alpha = k.X @ alpha_p + k.H @ a + k.coriolis(k.V, v, V_p)
    k.f = k.M @ k.alpha + gyroscopic(k, k.V, v)  # Eq. 2.9
    return Here(k.X, k.V, k.alpha, v, a, V_p, alpha_p, V_plus)


def push(carrier: Any, force: Force) -> None:
    """Apply an external force to a node, in the bias force z and in the joint force f."""
    carrier.z -= force
    carrier.f -= force


@algorithm(
    q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), da=("v",), wrench=("frames", 6), dtau=("v",),
    outputs=("dtau",),
)  # fmt: skip
def inverse_dynamics_jvp(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, dq: Indexed, dv: Indexed, da: Indexed, wrench: Indexed,
    dtau: Indexed,
) -> None:  # fmt: skip
    """δτ. [JR] Algorithm 1."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.theta = Motion.zero()
    tree.world.zeta = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.nu = Force.zero()

    for k, parent in tree.scatter():
        here = inverse_motion(k, parent, q[k], v[k], a[k])
        moved = change(k, here, Direction(dq[k], dv[k], da[k]), parent.theta, parent.zeta)
        k.theta, k.zeta, k.nu, k.spring = moved

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        dtau[k] = change_of_joint(k, k.f, k.nu) + k.spring + k.armature * da[k]
        parent.nu += change_back(k, k.X, dq[k], k.f, k.nu)
        parent.f += k.X.T @ k.f
