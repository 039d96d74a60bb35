"""Inverse dynamics as a linear function of inertial parameters: τ = Y(q, v, a) θ. Cost O(d) per body.

The force on a body, I α + V ×* I V, is linear in the ten parameters of I. By virtual work, its ten columns, in the
body's own coordinates, are projected onto the joints that move the body. Bodies are at frames, which sit on rigid
bodies or on outlets of other nodes.

[AAH86] C. Atkeson, C. An, J. Hollerbach, "Estimation of inertial parameters of manipulator loads and links",
        International Journal of Robotics Research 5, 1986.
[SL87]  J.-J. Slotine, W. Li, "On the adaptive control of robot manipulators", International Journal of Robotics
        Research 6, 1987.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms.kinematics.frame_kinematics import propagate_columns
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


@algorithm(q=("q",), v=("v",), a=("v",), Y=("v", "frames", 10), outputs=("Y",), sparse=("Y",))
def regressor(tree: Tree, q: Indexed, v: Indexed, a: Indexed, Y: Indexed) -> None:
    """Joint forces per unit of each inertial parameter of a body at each frame. [AAH86] Eq. 12."""
    S = tree.travelling("v", like="still")
    tree.world.V = tree.world.still = Motion.zero()
    tree.world.alpha = -tree.gravity

    for k, parent in tree.scatter():
        X, V_p = k.weight(q[k]), parent.V
        k.V = X @ V_p + k.H @ v[k]
        k.alpha = X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        propagate_columns(tree, k, parent, X, S)

    for frame, carrier in tree.frames():
        forces = forces_per_parameter(frame.X @ carrier.V, frame.X @ carrier.alpha)
        for c in tree.path(frame):
            Y[c, frame] = forces.T @ (frame.X @ S[carrier, c]).data


@algorithm(
    q=("q",), v=("v",), v_ref=("v",), a_ref=("v",), Y=("v", "frames", 10), outputs=("Y",), sparse=("Y",), rigid=True
)  # fmt: skip
def tracking_regressor(tree: Tree, q: Indexed, v: Indexed, v_ref: Indexed, a_ref: Indexed, Y: Indexed) -> None:
    """M a_r + C(q, v) v_r + g per unit of each inertial parameter, with the C for which Ṁ − 2C is skew. [SL87]."""
    S = tree.travelling("v", like="still")
    tree.world.V = tree.world.V_ref = tree.world.still = Motion.zero()
    tree.world.alpha = -tree.gravity

    for k, parent in tree.scatter():
        X = k.weight(q[k])
        k.V = X @ parent.V + k.H @ v[k]
        k.V_ref = X @ parent.V_ref + k.H @ v_ref[k]
        k.alpha = X @ parent.alpha + k.H @ a_ref[k] + k.V.cross(k.H @ v_ref[k])
        propagate_columns(tree, k, parent, X, S)

    for frame, carrier in tree.frames():
        V, V_ref, alpha = (frame.X @ motion for motion in (carrier.V, carrier.V_ref, carrier.alpha))
        units = [RigidInertia(row) for row in np.eye(10)]
        # I α + B(I, V) V_r, in which B is the share of the body in C
        forces = np.stack([(unit @ alpha + CoriolisInertia.of(unit, V) @ V_ref).data for unit in units], axis=1)
        for c in tree.path(frame):
            Y[c, frame] = forces.T @ (frame.X @ S[carrier, c]).data


def forces_per_parameter(V: Motion, alpha: Motion) -> Array:
    """I α + V ×* I V for unit values of the ten parameters of I, (6, 10)."""
    units = [RigidInertia(row) for row in np.eye(10)]
    return np.stack([(unit @ alpha + V.cross(unit @ V)).data for unit in units], axis=1)
