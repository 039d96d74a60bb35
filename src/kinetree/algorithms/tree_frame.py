"""All nodes of a tree in one frame: every propagation weight becomes the identity, every gather a plain sum.

The frame has the world's axes. Its origin, the reference point of moments and of velocities, moves with the robot:
inertias about a point at a distance d hold m d², and digits of what is small beside that are lost. It is the origin of
the first node on the way from the base that can turn. Before that node everything only translates. Pure translations
look the same from every point, so what hangs on such slides can have reference points of its own, branch by branch:

    mechanism                               reference points
    revolute, spherical, floating root      the root's origin
    slide, slide, hinge, arm                the hinge's origin, wherever the slides are
    two arms on one slide, or two robots    one for each

A slide has one too, its own origin. Below, it takes sums of inertias and moments about several points, but its motion
picks their linear parts, which do not depend on the point.

The limit of this: behind a joint that turns there is no other reference point. Parts of one robot that are d apart
have errors of rounding × m d² in their inertias, 1e-10 kg m² for 1 kg at 1 km. O(n) recursions over weights, such as
`inverse_dynamics` and `forward_dynamics`, have no reference point and no such limit.

The idea of an inertial frame for all nodes is that of [JR] (A. Jain, G. Rodriguez, "Linearization of manipulator
dynamics using spatial operators", 1993) and of Pinocchio's world convention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.recursion.tree import Tree
from kinetree.spatial.transform import Transform
from kinetree.spatial.vector3 import sum_with_error


def start(tree: Tree) -> None:
    """What `place` reads on the world."""
    tree.world.C = Transform.identity()
    tree.world.origin = np.zeros(3)
    tree.world.origin_error = np.zeros(3)
    tree.world.slides = np.ones(1)


def place(k: Any, parent: Any, q: Any) -> None:
    """Leave at the node: C, from the tree's frame to the node; its motions S in the tree's frame; the frame's origin.

    `slides` is 1 on the world and on nodes that nothing turns, 0 on all others. `origin_error` is what rounding took
    from the origin: differences of origins are exact with it.
    """
    move(k, parent, q)
    k.S = k.H.map(k.C.back)


def move(k: Any, parent: Any, q: Any) -> None:
    """Leave all that `place` does but the motions."""
    slides = parent.slides[0]
    seen = k.weight(q[k]) @ parent.C
    k.C = Transform.of(seen.E, seen.r * (1.0 - slides))
    origin, error = sum_with_error(parent.origin, seen.r * slides)
    k.origin, k.origin_error = origin, parent.origin_error + error
    k.slides = np.array([slides * k.H.translates])
