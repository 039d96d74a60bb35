"""Where contact points are and how they move, and what impulses at them do to the robot. Cost O(n).

The points are frames of the call.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms.forward_dynamics import articulated_body
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform


@algorithm(
    q=("q",), v=("v",), points=("frames", 3), axes=("frames", 3, 3), velocity=("frames", 3),
    outputs=("points", "axes", "velocity"), any_node=True,
)  # fmt: skip
def contact_points(tree: Tree, q: Indexed, v: Indexed, points: Indexed, axes: Indexed, velocity: Indexed) -> None:
    """Positions, axes and velocities of points, in the world.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        points: Positions, (m, 3).
        axes: Rotations from the world to the frames of the points, (m, 3, 3).
        velocity: Velocities, (m, 3).
    """
    tree.world.C = Transform.identity()
    tree.world.V = Motion.zero()

    for k, parent in tree.scatter():
        X = k.weight(q[k])
        V = X @ parent.V + k.H @ v[k]
        k.C = X @ parent.C
        k.V = V

    for frame, carrier in tree.frames():
        C = frame.X @ carrier.C
        points[frame] = C.r
        axes[frame] = C.E
        velocity[frame] = C.E.T @ (frame.X @ carrier.V).linear


@algorithm(
    axes=("frames", 3, 3), force=("frames", 3), before=("frames", 6), wrench=("frames", 6), outputs=("wrench",),
    any_node=True,
)  # fmt: skip
def point_wrenches(tree: Tree, axes: Indexed, force: Indexed, before: Indexed, wrench: Indexed) -> None:
    """Wrenches of forces at points, in the frames of the points.

    Args:
        tree: Has the points.
        axes: Rotations from the world to their frames, (m, 3, 3).
        force: In world axes, (m, 3).
        before: Wrenches that these are added to, (m, 6).
        wrench: (m, 6).
    """
    for frame, _ in tree.frames():
        wrench[frame] = before[frame] + np.concatenate([np.zeros(3), axes[frame] @ force[frame]])


@algorithm(q=("q",), v=("v",), wrench=("frames", 6), after=("v",), outputs=("after",), sparse=("after",), any_node=True)
def after_impulses(tree: Tree, q: Indexed, v: Indexed, wrench: Indexed, after: Indexed) -> None:
    """v + M⁻¹Jᵀ w: velocities after impulses.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities before, (nv,).
        wrench: Impulses on the frames, moments first, in their own coordinates, (m, 6).
        after: (nv,).
    """
    articulated_body(tree, q, Zeros(), Zeros(), Motion.zero(), wrench, after, springs=False)
    for k, _ in tree.scatter():
        after[k] = v[k] + after[k]
