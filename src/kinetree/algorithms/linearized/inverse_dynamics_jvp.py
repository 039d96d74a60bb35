"""Directional derivative of the joint forces: δτ = ∂τ/∂q dq + ∂τ/∂v dv + M da. Cost O(n), twice inverse dynamics.

    pass       loop       computes                                                          source
    motion     scatter    V, α; changes of velocity ϑ and of acceleration ζ, net of rotation  Eqs. 3.3, 3.4
    wrenches   frames     external forces on the bodies
    force      gather     force f, its change ν, δτ                                           Eq. 3.5

Everything is in body coordinates, in which vectors that merely rotate with a body are constant: ϑ and ζ are δV and δα
without this rotation, and a wrench that is constant in its frame's coordinates contributes to f only.

Corrections to the paper: 2 M̂ ϑ for M̂ ϑ, H̃* f δθ for H̃ f; see the package for joints with several degrees of freedom.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import CoriolisInertia
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), da=("v",), wrench=("frames", 6), dtau=("v",), outputs=("dtau",)
)
def inverse_dynamics_jvp(
    tree: Tree,
    q: Indexed,
    v: Indexed,
    a: Indexed,
    dq: Indexed,
    dv: Indexed,
    da: Indexed,
    wrench: Indexed,
    dtau: Indexed,
) -> None:
    """δτ. [JR] Algorithm 1.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        dq: Direction of the configuration, a tangent, (nv,).
        dv: Direction of the velocities, (nv,).
        da: Direction of the accelerations, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dtau: Change of the joint forces, (nv,).
    """
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.theta = Motion.zero()
    tree.world.zeta = Motion.zero()
    tree.world.f = Force.zero()
    tree.world.nu = Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_plus, alpha_plus = k.X @ parent.V, k.X @ parent.alpha
        k.V = V_plus + k.H @ v[k]
        k.alpha = alpha_plus + k.H @ a[k] + k.coriolis(k.V, v[k])
        turn = tangent(k, parent, V_plus, alpha_plus, dq[k], dv[k])
        k.theta = turn.theta
        k.zeta = turn.zeta + k.H @ da[k]
        M_hat = CoriolisInertia.of(k.M, k.V)
        k.f = k.M @ k.alpha + M_hat @ k.V  # Eq. 2.9
        k.nu = k.M @ k.zeta + (M_hat @ k.theta) * 2.0

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        dtau[k] = k.H.T @ k.nu + k.armature * da[k]
        parent.nu += k.X.T @ (k.nu + (k.H @ dq[k]).cross(k.f))  # H̃* f δθ, for the ancestors only
        parent.f += k.X.T @ k.f


class Tangent(NamedTuple):
    """The changes of a node's motion due to dq and dv, net of its rotation."""

    theta: Motion
    zeta: Motion


def tangent(k: Any, parent: Any, V_plus: Motion, alpha_plus: Motion, dq: Any, dv: Any) -> Tangent:
    """[JR] Eq. 3.3: ϑ, and ζ without the contribution of da.

    Args:
        k: A node with X and V.
        parent: Its parent, with theta and zeta.
        V_plus: The parent's velocity, in the node's coordinates.
        alpha_plus: The parent's acceleration, in the node's coordinates.
        dq: The node's part of the direction of q.
        dv: The node's part of the direction of v.
    """
    turn, push = k.H @ dq, k.H @ dv
    psi_rate = V_plus.cross(turn)  # Ψ̇ dq
    theta = k.X @ parent.theta + push + psi_rate
    zeta = k.X @ parent.zeta + (k.V + V_plus).cross(push) + alpha_plus.cross(turn) + V_plus.cross(psi_rate)
    return Tangent(theta, zeta)
