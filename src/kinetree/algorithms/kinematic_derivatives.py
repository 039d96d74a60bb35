"""Rates of Jacobians, J̇, and derivatives of twists with respect to q, ∂(J v)/∂q. Cost O(d) per frame.

In the frame of the tree, a joint's motion S rotates with its own node, Ṡ = V × S. In a view that moves with the twist
U, its rate of change is Ṡ − U × S:

    reference              U
    local                  twist of the frame
    local_world_aligned    velocity of the frame's origin, without rotation
    world                  0

Moving a joint by δ changes the twists of its descendants, in their own coordinates, by Ψ̇ δ with Ψ̇ = V⁺ × S, where V⁺
is the velocity of the joint's parent ([JR] Eq. 3.3). In other views, axes also rotate and the reference point moves.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import VIEWS, for_each_reference
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def _place(tree: Tree, q: Indexed, v: Indexed, S: Indexed, rate: Indexed, of_parent: bool) -> None:
    """Set V at the nodes, and in the arrays each column's S and its rate, V × S of its node or of its parent."""
    tree_frame.start(tree)
    tree.world.V = Motion.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        inward = parent.V
        k.V = inward + k.S @ v[k]
        rates = k.S.map((inward if of_parent else k.V).cross)
        for c in k.columns():
            S[c], rate[c] = c.of(k.S), c.of(rates)


def _jacobian_rate(reference: str) -> Callable[..., None]:
    view = VIEWS[reference]

    def jacobian_rate(tree: Tree, q: Indexed, v: Indexed, rate: Indexed) -> None:
        S, S_rate = tree.array("v"), tree.array("v")
        _place(tree, q, v, S, S_rate, of_parent=False)
        for frame, carrier in tree.frames():
            seen = view(frame.X @ carrier.C, carrier.origin)
            U = _of_view(reference, seen @ carrier.V)
            for c in tree.support(frame):
                rate[frame, c] = (seen @ S_rate[c] - U.cross(seen @ S[c])).data

    return jacobian_rate


def _of_view(reference: str, V: Motion) -> Motion:
    """The twist of a view, given that of its frame in the view."""
    if reference == "local":
        return V
    return Motion.of(np.zeros(3), V.linear if reference == "local_world_aligned" else np.zeros(3))


def _velocity_derivative(reference: str) -> Callable[..., None]:
    view = VIEWS[reference]

    def velocity_derivative(tree: Tree, q: Indexed, v: Indexed, dq: Indexed) -> None:
        S, S_rate = tree.array("v"), tree.array("v")
        _place(tree, q, v, S, S_rate, of_parent=True)
        for frame, carrier in tree.frames():
            seen = view(frame.X @ carrier.C, carrier.origin)
            V = seen @ carrier.V
            for c in tree.support(frame):
                dq[frame, c] = (seen @ S_rate[c] + turned_view(reference, seen @ S[c], V)).data

    return velocity_derivative


def turned_view(reference: str, S: Motion, V: Motion) -> Motion:
    """The contribution of rotating axes and, for "world", of the moving reference point to the change of a twist."""
    if reference == "local":
        return Motion.zero()
    return (S if reference == "world" else Motion.of(S.angular, np.zeros(3))).cross(V)


_DIMENSIONS: dict[str, Any] = {"q": ("q",), "v": ("v",)}

#: J̇ of each frame, (m, 6, nv), by reference.
JACOBIAN_RATES = for_each_reference(
    _jacobian_rate, **_DIMENSIONS, rate=("frames", 6, "v"), outputs=("rate",), sparse=("rate",)
)
#: ∂(J v)/∂q of each frame along the tangent, (m, 6, nv), by reference.
VELOCITY_DERIVATIVES = for_each_reference(
    _velocity_derivative, **_DIMENSIONS, dq=("frames", 6, "v"), outputs=("dq",), sparse=("dq",)
)
