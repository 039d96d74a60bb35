"""The Coriolis matrix C(q, v) for which Ṁ = C + Cᵀ, that is, Ṁ − 2C is skew. Cost O(n·d).

Forces that are quadratic in joint velocities are C v for C = ½ ∂(C v)/∂v. This is the matrix of Christoffel's symbols,
for which Ṁ − 2C is skew, where velocities are rates of coordinates. Those of a spherical or floating joint are not:
their tangents do not commute, and with the matrix [v] of their Lie brackets,

    C = ½ (∂(C v)/∂v + M [v])

The derivative comes from the columns of linearised inverse dynamics. On rigid bodies the result is that of [EW21],
Algorithm 1.

[EW21] S. Echeandia, P. Wensing, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for
       rigid-body systems", Journal of Computational and Nonlinear Dynamics 16, 2021.
"""

from __future__ import annotations

from kinetree.algorithms.derivatives import columns
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.language.variation import Here, gyroscopic
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), v=("v",), C=("v", "v"), outputs=("C",), sparse=("C",))
def coriolis_matrix(tree: Tree, q: Indexed, v: Indexed, C: Indexed) -> None:
    """C(q, v) with C v = bias forces without gravity, springs and dampers."""
    tree.world.V = tree.world.rest = Motion.zero()
    columns.start(tree)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, rest_p = parent.V, parent.rest
        V_plus = k.X @ V_p
        k.V, k.rest = V_plus + k.H @ v[k], k.H @ Zeros()[k]
        gyroscopic(k, k.V, v[k])
        here = Here(k.X, k.V, k.rest, v[k], Zeros()[k], V_p, rest_p, V_plus)
        columns.vary_speed(tree, k, here, k.brackets(q[k], v[k]))

    columns.gather(tree, C)
