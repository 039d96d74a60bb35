"""Directional derivative of the joint forces: δτ = ∂τ/∂q dq + ∂τ/∂v dv + M da. Cost O(n), twice inverse dynamics.

    pass       loop       computes                                                          source
    motion     scatter    V, α; changes of velocity ϑ and of acceleration ζ, net of rotation  Eqs. 3.3, 3.4
    wrenches   frames     external forces on the bodies
    force      gather     force f, its change ν, δτ                                           Eq. 3.5

Everything is in body coordinates, in which vectors that merely rotate with a body are constant: ϑ and ζ are δV and δα
without this rotation, and a wrench that is constant in its frame's coordinates contributes to f only. Changes of rigid
bodies have closed forms; other nodes evaluate their formulas once on dual numbers (`recursion.variation`).

Corrections to the paper: 2 M̂ ϑ for M̂ ϑ, H̃* f δθ for H̃ f; see the package for joints with several degrees of freedom.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Direction, Here, change, change_back, change_of_joint, gyroscopic
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), da=("v",), wrench=("frames", 6), dtau=("v",),
    outputs=("dtau",),
)  # fmt: skip
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
        V_p, alpha_p = parent.V, parent.alpha
        V_plus = k.X @ V_p
        k.V = V_plus + k.H @ v[k]
        k.alpha = k.X @ alpha_p + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ k.alpha + gyroscopic(k, k.V, v[k])  # Eq. 2.9
        here = Here(k.X, k.V, k.alpha, v[k], a[k], V_p, alpha_p, V_plus)
        moved = change(k, here, Direction(dq[k], dv[k], da[k]), parent.theta, parent.zeta)
        k.theta, k.zeta, k.nu, k.spring = moved

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    for k, parent in tree.gather():
        dtau[k] = change_of_joint(k, k.f, k.nu) + k.spring + k.armature * da[k]
        parent.nu += change_back(k, k.X, dq[k], k.f, k.nu)
        parent.f += k.X.T @ k.f
