"""Linearised inverse dynamics of nodes of any kind: ∂τ/∂q, ∂τ/∂v and M. Cost O(n·d).

pass        loop               computes                                                     source
motion      scatter            V, α, force f; changes ϑ and ζ per degree of freedom            [J11] Alg. 3.1
wrenches    frames             external forces on the bodies
composite   gather, columns    composite R, R̂, force f; rows and columns of the matrices      [JR] Eq. 3.8

Sources: see the package.
"""

from __future__ import annotations

from kinetree.algorithms.linearized.by_weights import columns
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Here
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), M=("v", "v"),
    outputs=("dq", "dv", "M"), sparse=("dq", "dv"), symmetric=("M",), any_node=True,
)  # fmt: skip
def inverse_dynamics_derivatives_by_weights(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, M: Indexed
) -> None:
    """∂τ/∂q along the tangent, ∂τ/∂v and M = ∂τ/∂a.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: ∂τ/∂q, (nv, nv).
        dv: ∂τ/∂v, (nv, nv).
        M: Mass matrix, (nv, nv).
    """
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = Force.zero()
    columns.start(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, alpha_p = parent.V, parent.alpha
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ alpha_p + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ k.alpha + k.gyroscopic(k.V, v[k])
        columns.vary(tree, k, Here(k.X, k.V, k.alpha, v[k], a[k], V_p, alpha_p))

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    columns.gather(tree, dv, M, dq)
