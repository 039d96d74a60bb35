"""Linearised inverse dynamics: ∂τ/∂q (the paper's B_D), ∂τ/∂v (A_D) and M. Cost O(n·d).

    pass        loop               computes                                                   source
    motion      scatter            V, α, force f; changes ϑ and ζ per degree of freedom         Step 1
    wrenches    frames             external forces on the bodies
    composite   gather, columns    composite R, R̂, force f; rows and columns of the matrices    Eq. 3.8

The paper's inner loop walks from link k to the base; here, as in `mass_matrix.py`, node k uses the columns X, X̂, X_A,
X_B of all its descendants c (`columns.py`). In the common frame, the paper's inertial frame I, they do not change on
the way.

Corrections to the paper: H̃* f for H̃ f; R sums over the descendant links, not M(k) again; and see the package for
joints with several degrees of freedom. M̂ᵀ has no linear rows, so products with X̂ cost 3 multiplications instead of 6:
36 per pair of joints instead of the paper's 42.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from kinetree.algorithms.derivatives import columns
from kinetree.algorithms.derivatives.jvp import inverse_motion
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), a=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), M=("v", "v"),
    outputs=("dq", "dv", "M"), sparse=("dq", "dv"), symmetric=("M",),
)  # fmt: skip
def inverse_dynamics_derivatives(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, M: Indexed
) -> None:
    """∂τ/∂q along the tangent, ∂τ/∂v and M = ∂τ/∂a. [JR] Lemma 3.2 and Algorithm 2."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = Force.zero()
    columns.start(tree)

    for k, parent in tree.scatter():
        columns.vary(tree, k, inverse_motion(k, parent, q[k], v[k], a[k]))

    for frame, carrier in tree.frames():
        carrier.f -= frame.X.T @ Force(wrench[frame])

    columns.gather(tree, dv, M, dq)
