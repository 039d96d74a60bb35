"""The regressor of inertial parameters for nodes of any kind, by weights. Cost O(d) per body.

`regressor.py` works in the frame of the tree. The parameters are those of rigid bodies, at frames on rigid bodies or on
outlets of other nodes.
"""

from __future__ import annotations

from kinetree.algorithms.kinematics import propagate_columns
from kinetree.algorithms.regressor import forces_per_parameter
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), v=("v",), a=("v",), Y=("v", "frames", 10), outputs=("Y",), sparse=("Y",), any_node=True)
def regressor_by_weights(tree: Tree, q: Indexed, v: Indexed, a: Indexed, Y: Indexed) -> None:
    """Joint forces per unit of each inertial parameter of a body at each frame.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        Y: Regressor, (nv, m, 10).
    """
    S = tree.travelling("v", like="still")
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.still = Motion.zero()

    for k, parent in tree.scatter():
        X, V_p = k.weight(q[k]), parent.V
        k.V = X @ V_p + k.H @ v[k]
        k.alpha = X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        propagate_columns(tree, k, parent, X, S)

    for frame, carrier in tree.frames():
        forces = forces_per_parameter(frame.X @ carrier.V, frame.X @ carrier.alpha)
        for c in tree.path(frame):
            Y[c, frame] = forces.T @ (frame.X @ S[carrier, c]).data
