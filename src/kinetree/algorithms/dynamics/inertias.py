"""Articulated and composite inertias: the two recursions that most algorithms share. Cost O(n) each.

The articulated inertia P of a node is that of all it carries with free joints, by the Riccati recursion of forward
dynamics, M⁻¹ and the operational space. The armature of a joint (its reflected rotor inertia) adds to D only. The
composite inertia R is that of all it carries with locked joints. For rigid bodies this is a rigid body again, with ten
numbers; where there are nodes that do not consist of bodies, R is stored as any symmetric matrix.

`H` is the transpose of the paper's, `X` its A*(p, k).

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.language.tree import Tree
from kinetree.spatial.inertia import ArticulatedInertia, RigidInertia


def start_articulated(tree: Any) -> None:
    """Initialise the fields that the gather adds to on the world."""
    tree.world.P = ArticulatedInertia.zero()


def hinge(k: Any, parent: Any) -> None:
    """One step of [J11] Eq. 33: sets D and G = P H D⁻¹ at the node, and adds A P⁺ A* to the parent."""
    k.D, k.G, P_plus = k.H.hinge(k.P, k.armature)  # Eq. 32
    parent.P += k.X.congruence(P_plus)  # Eq. 33


def start_composite(tree: Tree) -> None:
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
