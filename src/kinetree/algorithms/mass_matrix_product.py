"""M x without M. Cost O(n), for nodes of any kind.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from kinetree.algorithms.inverse_dynamics import newton_euler
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), x=("v",), y=("v",), outputs=("y",))
def mass_matrix_product(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """y = M(q) x: inverse dynamics at rest, without gravity. [J11] Eq. 9.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        x: Joint accelerations, (nv,).
        y: Joint forces, (nv,).
    """
    newton_euler(tree, q, Zeros(), x, Motion.zero(), None, y, springs=False)
