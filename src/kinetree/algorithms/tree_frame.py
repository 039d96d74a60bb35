"""All nodes of a tree in one frame: every propagation weight becomes the identity, every gather a plain sum.

The frame of a tree has the world's axes and its origin at the tree's root body: with the origin of the world instead,
a robot 10 km away would lose its digits. Trees of a forest have frames of their own; they never meet in M or M⁻¹.

The idea of an inertial frame for all nodes is that of [JR] (A. Jain, G. Rodriguez, "Linearization of manipulator
dynamics using spatial operators", 1993) and of Pinocchio's world convention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.recursion.tree import Tree
from kinetree.spatial.transform import Transform


def start(tree: Tree) -> None:
    """What `place` reads on the world."""
    tree.world.C = Transform.identity()
    tree.world.origin = np.zeros(3)
    tree.world.inside = np.zeros(1)


def place(k: Any, parent: Any, q: Any) -> None:
    """Leave at the node: C, from the tree's frame to the node; its motions S in the tree's frame; the frame's origin.

    `inside` is 0 on the world and 1 on every node: the position of a root in its own tree's frame is zero.
    """
    move(k, parent, q)
    k.S = k.H.map(k.C.back)


def move(k: Any, parent: Any, q: Any) -> None:
    """Leave all that `place` does but the motions."""
    inside = parent.inside[0]
    from_world = k.weight(q[k]) @ parent.C
    k.C = Transform.of(from_world.E, from_world.r * inside)
    k.origin = parent.origin * inside + from_world.r * (1.0 - inside)
    k.inside = np.ones(1)
