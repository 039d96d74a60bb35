"""Composite inertias: what a node carries, and itself, as one inertia. Cost O(n).

With locked joints, everything that a rigid body carries is one rigid body, whose inertia has ten numbers. Where there
are nodes that do not consist of bodies, composite inertias are stored as any symmetric matrix.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.recursion.tree import Tree
from kinetree.spatial.inertia import ArticulatedInertia, RigidInertia


def start(tree: Tree) -> None:
    """Initialise the field that the gather adds to on the world."""
    tree.world.R = RigidInertia.zero() if tree.rigid_multibody else ArticulatedInertia.zero()


def own(tree: Tree, k: Any) -> Any:
    """A node's own inertia; [J11] Eq. 20 adds those of its children, through their weights."""
    return k.M.composite() if tree.rigid_multibody else k.M.articulated()


def total(tree: Tree) -> RigidInertia:
    """The inertia of the whole mechanism with locked joints, gathered on the world."""
    R: Any = tree.world.R
    whole: RigidInertia = R if tree.rigid_multibody else R.rigid()
    return whole
