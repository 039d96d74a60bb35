"""All nodes of a tree in one frame, so that every propagation weight is the identity and every gather a plain sum.

The frame has the world's axes. Its origin, the reference point of moments and velocities, moves with the robot: an
inertia about a point at distance d contains m d², which costs digits. It is the origin of the first node from the base
that can rotate. Everything before that node only translates. Pure translations are the same at every point, so branches
behind prismatic joints can have reference points of their own:

    mechanism                                         reference points
    revolute, spherical or floating root              the root's origin
    two prismatic joints, then a revolute arm         the origin of the first revolute joint
    two arms on a prismatic joint, or two robots      one for each

A prismatic joint has one too, its own origin. In the gather it receives sums of inertias and moments about several
points, but its motion uses only their linear parts, which do not depend on the point.

The limit of this approach: behind a joint that rotates there is only one reference point. Parts of a robot d apart
have errors of rounding × m d² in their inertias, 1e-10 kg m² for 1 kg at 1 km. O(n) recursions over weights, such as
`inverse_dynamics` and `forward_dynamics`, have no reference point and no such limit.

The use of one inertial frame for all nodes is that of [JR] (A. Jain, G. Rodriguez, "Linearization of manipulator
dynamics using spatial operators", 1993) and of Pinocchio's world convention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.recursion.tree import Tree
from kinetree.spatial.transform import Transform
from kinetree.spatial.vector3 import sum_with_error


def start(tree: Tree) -> None:
    """Initialise the fields that `place` reads on the world."""
    tree.world.C = Transform.identity()
    tree.world.origin = np.zeros(3)
    tree.world.origin_error = np.zeros(3)
    tree.world.slides = np.ones(1)


def place(k: Any, parent: Any, q: Any) -> None:
    """Set at the node: C, from the tree's frame to the node; its motions S in the tree's frame; the frame's origin.

    `slides` is 1 on the world and on nodes that cannot rotate, 0 on all others. `origin_error` is the rounding error of
    the origin, which makes differences of origins exact.
    """
    move(k, parent, q)
    k.S = k.H.seen(k.C, k.armature)


def move(k: Any, parent: Any, q: Any) -> None:
    """Set everything that `place` sets except the motions."""
    slides = parent.slides[0]
    seen = k.weight(q[k]) @ parent.C
    k.C = Transform.of(seen.E, seen.r * (1.0 - slides))
    origin, error = sum_with_error(parent.origin, seen.r * slides)
    k.origin, k.origin_error = origin, parent.origin_error + error
    k.slides = np.array([slides * k.H.translates])
