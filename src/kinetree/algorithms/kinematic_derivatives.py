"""Rates of Jacobians, J̇, and derivatives of twists with respect to q, ∂(J v)/∂q. Cost O(n·d), in the common frame O(d).

Seen from the world, a joint's motion rotates with its own node, S° = V × S, and is passed on by weights like S itself
(`recursion.variation` says what other nodes than rigid bodies add). In a view that moves with the twist U, its rate of
change is S° − U × S:

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

from kinetree.algorithms.kinematics import for_each_reference, propagate_columns
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Rates, turned_velocities
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform


def _start(tree: Tree) -> tuple[Indexed, Indexed]:
    """Initialise the world; memory for motions of columns and for changes of them."""
    tree.world.C = Transform.identity()
    tree.world.V = tree.world.still = Motion.zero()
    return tree.travelling("v", like="still"), tree.travelling("v", like="still")


def _jacobian_rate(reference: str) -> Callable[..., None]:
    def jacobian_rate(tree: Tree, q: Indexed, v: Indexed, rate: Indexed) -> None:
        S, S_rate = _start(tree)

        for k, parent in tree.scatter():
            X, V_p = k.weight(q[k]), parent.V
            k.C = X @ parent.C
            k.V = X @ V_p + k.H @ v[k]
            propagate_columns(tree, k, parent, X, S)
            rates = Rates.of(k, X, k.V, V_p, v[k])
            for c, own in zip(k.columns(), rates.own(), strict=True):
                S_rate[k, c] = own
            for c in tree.ancestors(k):
                S_rate[k, c] = rates.passed_on(S[parent, c], S_rate[parent, c])

        for frame, carrier in tree.frames():
            seen = tree.seen(reference, frame, carrier)
            U = _of_view(reference, seen @ carrier.V)
            for c in tree.path(frame):
                rate[frame, c] = (seen @ S_rate[carrier, c] - U.cross(seen @ S[carrier, c])).data

    return jacobian_rate


def _of_view(reference: str, V: Motion) -> Motion:
    """The twist of a view, given that of its frame in the view."""
    if reference == "local":
        return V
    return Motion.of(np.zeros(3), V.linear if reference == "local_world_aligned" else np.zeros(3))


def _velocity_derivative(reference: str) -> Callable[..., None]:
    def velocity_derivative(tree: Tree, q: Indexed, v: Indexed, dq: Indexed) -> None:
        S, turned = _start(tree)

        for k, parent in tree.scatter():
            X, V_p = k.weight(q[k]), parent.V
            k.C = X @ parent.C
            k.V = X @ V_p + k.H @ v[k]
            propagate_columns(tree, k, parent, X, S)
            for c, change in zip(k.columns(), turned_velocities(k, X, V_p, v[k]), strict=True):
                turned[k, c] = change
            for c in tree.ancestors(k):
                turned[k, c] = X @ turned[parent, c]

        for frame, carrier in tree.frames():
            seen = tree.seen(reference, frame, carrier)
            V = seen @ carrier.V
            for c in tree.path(frame):
                axes = _turned_axes(reference, seen @ S[carrier, c], V)
                dq[frame, c] = (seen @ turned[carrier, c] + axes).data

    return velocity_derivative


def _turned_axes(reference: str, S: Motion, V: Motion) -> Motion:
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
