"""Derivatives of frames' accelerations with respect to q, v and a. Cost O(d) per frame, or O(n·d).

    pass      loop              computes                                                         source
    motion    scatter           V, α; S, ϑ and ζ of each column that moves the node                 Eqs. 3.3, 3.4
    frames    frames, columns   changes of V and α in the view, and of the acceleration

Moving a degree of freedom by δ changes the velocity and the acceleration of its descendants by ϑ and δα = ζ − V × ϑ, in
coordinates that move along (`language.variation`); per unit of its velocity these changes are S and ζ_v − V × S. In a
view that moves with the twist U, vectors that are constant on a body also turn with the body's motion S relative to it:

    δ(X x) = X δx + (S − U) × X x                                                                (1)

with U of `frame_kinematics`. The rate of change of a twist in axes at rest has ω × u as well, by the product rule. α is
that of the motion alone, without gravity. Columns travel from node to node, except in the common frame.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kinetree.algorithms.kinematics.frame_kinematics import for_each_reference, propagate_columns, turned_axes
from kinetree.language.contract import describe, rebuild
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import Here, variation
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import cross
from kinetree.spatial.transform import Transform


class MovedColumns(NamedTuple):
    """What each degree of freedom changes at the nodes that it moves, entries `[k, c]`."""

    S: Indexed  # motion per unit of its velocity, and ϑ per unit of its velocity
    theta: Indexed  # ϑ per unit of its coordinate
    zeta_q: Indexed  # ζ per unit of its coordinate
    zeta_v: Indexed  # ζ per unit of its velocity


class Changes(NamedTuple):
    """Changes of a body per unit of one degree of freedom, in a view, in coordinates that move along with the body."""

    S: Motion  # its motion
    theta: Motion  # of its velocity, per unit of the coordinate
    alpha_q: Motion  # of its acceleration, per unit of the coordinate
    alpha_v: Motion  # of its acceleration, per unit of the velocity


def moved_columns(tree: Tree, q: Indexed, v: Indexed, a: Indexed) -> MovedColumns:
    """Set X, C, V and α of every node, and what its columns change there."""
    of = MovedColumns(*(tree.travelling("v", like="still") for _ in range(4)))
    tree.world.C = Transform.identity()
    tree.world.V = tree.world.alpha = tree.world.still = Motion.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, alpha_p = parent.V, parent.alpha
        V_plus = k.X @ V_p
        k.C = k.X @ parent.C
        k.V = V_plus + k.H @ v[k]
        k.alpha = k.X @ alpha_p + (k.coriolis(k.V, v[k], V_p) + k.H @ a[k])
        propagate_columns(tree, k, parent, k.X, of.S)
        change = variation(k, Here(k.X, k.V, k.alpha, v[k], a[k], V_p, alpha_p, V_plus))
        like = describe(k.V)
        for i, c in enumerate(k.columns()):
            own = (rebuild(like, x[:, i]) for x in (change.theta, change.zeta_q, change.zeta_v))
            of.theta[k, c], of.zeta_q[k, c], of.zeta_v[k, c] = own
        for c in tree.ancestors(k):
            # no drag: frames move with body twists of outlets, whose rows of T are zero
            for each in (of.theta, of.zeta_q, of.zeta_v):
                each[k, c] = k.X @ each[parent, c]
    return of


def changes(of: MovedColumns, carrier: Any, c: Any, seen: Transform, V: Motion) -> Changes:
    """What a degree of freedom changes at a frame's carrier, in a view in which the carrier has the velocity V."""
    S, theta = seen @ of.S[carrier, c], seen @ of.theta[carrier, c]
    return Changes(S, theta, seen @ of.zeta_q[carrier, c] - V.cross(theta), seen @ of.zeta_v[carrier, c] - V.cross(S))


def in_axes_at_rest(rate: Motion, V: Motion, change: Motion) -> Motion:
    """The change of the rate of a twist V in axes at rest, given its change in the body's and the change of V."""
    swept = cross(change.angular, V.linear) + cross(V.angular, change.linear)
    return Motion.of(rate.angular, rate.linear + swept)


def _acceleration_derivatives(reference: str, aligned: bool) -> Callable[..., None]:
    def acceleration_derivatives(
        tree: Tree, q: Indexed, v: Indexed, a: Indexed, dq: Indexed, dv: Indexed, da: Indexed
    ) -> None:
        of = moved_columns(tree, q, v, a)

        for frame, carrier in tree.frames():
            seen = tree.seen(reference, frame, carrier)
            V, alpha = seen @ carrier.V, seen @ carrier.alpha
            for c in tree.path(frame):
                own = changes(of, carrier, c, seen, V)
                by_q, by_v = own.alpha_q + turned_axes(reference, own.S, alpha), own.alpha_v  # (1)
                if aligned:
                    by_q = in_axes_at_rest(by_q, V, own.theta + turned_axes(reference, own.S, V))
                    by_v = in_axes_at_rest(by_v, V, own.S)
                dq[frame, c], dv[frame, c], da[frame, c] = by_q.data, by_v.data, own.S.data

    return acceleration_derivatives


_MATRICES = ("dq", "dv", "da")
_DIMENSIONS: dict[str, Any] = {
    "q": ("q",), "v": ("v",), "a": ("v",), **dict.fromkeys(_MATRICES, ("frames", 6, "v")),
    "outputs": _MATRICES, "sparse": _MATRICES,
}  # fmt: skip

#: Derivatives of `ACCELERATIONS` with respect to q (along the tangent), v and a, (m, 6, nv) each, by reference.
ACCELERATION_DERIVATIVES = for_each_reference(
    lambda r: _acceleration_derivatives(r, r == "local_world_aligned"), **_DIMENSIONS
)
#: The same of `CLASSICAL_ACCELERATIONS`.
CLASSICAL_ACCELERATION_DERIVATIVES = for_each_reference(
    lambda r: _acceleration_derivatives(r, True), "classical_", **_DIMENSIONS
)
