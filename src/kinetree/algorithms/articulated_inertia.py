"""Articulated-body inertias: the Riccati recursion shared by forward dynamics, M⁻¹ and operational space. Cost O(n).

`H` is the transpose of the paper's, `X` its A*(p, k). The armature of a joint (its reflected rotor inertia) adds to D
only.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

from kinetree.spatial.inertia import ArticulatedInertia


def start(tree: Any) -> None:
    """Initialise the fields that the gather adds to on the world."""
    tree.world.P = ArticulatedInertia.zero()


def hinge(k: Any, parent: Any) -> None:
    """One step of [J11] Eq. 33: sets D and G = P H D⁻¹ at the node, and adds A P⁺ A* to the parent."""
    step = k.H.hinge(k.P, k.armature)  # Eq. 32
    k.D, k.G = step.D, step.G
    parent.P += k.X.congruence(step.P_plus)  # Eq. 33
