"""Motion of frames: poses, twists, accelerations, Jacobians J, J̇v, J̇ and ∂(J v)/∂q.

Cost O(d) per frame of depth d, and O(n·d) for matrices, whose columns travel from node to node; in the common frame
they do not, and cost O(d) per frame, too.

Motions of a frame are expressed in one of three references. A view that moves along with a frame has the twist U:

    reference              axes       velocity is that of                          U
    local                  frame's    the frame's origin                           twist of the frame
    local_world_aligned    world's    the frame's origin                           velocity of its origin, no rotation
    world                  world's    the body-fixed point at the world's origin   0

Each is a transform from the carrier's coordinates (`tree.seen`). Frames sit on rigid bodies, or on outlets of other
nodes.

Seen from the world, a joint's motion rotates with its own node, S° = V × S, and is passed on by weights like S itself
(`language.variation` says what other nodes than rigid bodies add). So in a view its rate of change is S° − U × S.
Moving a joint by δ changes the twists of its descendants, in their own coordinates, by Ψ̇ δ with Ψ̇ = V⁺ × S, where V⁺
is the velocity of the joint's parent ([JR] Eq. 3.3). In other views, axes also rotate and the reference point moves.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.language.variation import Rates, turned_velocities
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import cross
from kinetree.spatial.transform import Transform

#: The references, in the order of the table above.
REFERENCES = ("local", "local_world_aligned", "world")


@algorithm(q=("q",), T=("frames", 4, 4), outputs=("T",))
def poses(tree: Tree, q: Indexed, T: Indexed) -> None:
    """Homogeneous transforms from each frame to the world."""
    tree.world.C = Transform.identity()

    for k, parent in tree.scatter():
        k.C = k.weight(q[k]) @ parent.C

    for frame, carrier in tree.frames():
        C = frame.X @ carrier.C
        T[frame] = np.block([[C.E.T, C.r[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


@algorithm(q=("q",), S=("v", 6), outputs=("S",), rigid=True)
def joint_screws(tree: Tree, q: Indexed, S: Indexed) -> None:
    """The motion per unit velocity of each degree of freedom, of all bodies that it moves, in the world's frame.

    Only rigid bodies that follow their joints move alike. The column of a frame's Jacobian is that of S, or zero.
    """
    tree.world.C = Transform.identity()

    for k, parent in tree.scatter():
        k.C = k.weight(q[k]) @ parent.C
        out = k.C.inverse()
        for c, unit in zip(k.columns(), np.eye(len(Zeros()[k])), strict=True):
            S[c] = (out @ (k.H @ unit)).data


def _propagate(tree: Tree, q: Indexed, v: Indexed, a: Indexed | Zeros | None) -> None:
    """Set pose C and velocity V at every node, and its rate α if there are joint accelerations. [J11] Eqs. 5, 6."""
    tree.world.C = Transform.identity()
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()

    for k, parent in tree.scatter():
        X, V_p = k.weight(q[k]), parent.V
        k.C = X @ parent.C
        k.V = X @ V_p + k.H @ v[k]
        if a is not None:
            k.alpha = X @ parent.alpha + (k.coriolis(k.V, v[k], V_p) + k.H @ a[k])


def _velocities(reference: str) -> Callable[..., None]:
    def velocities(tree: Tree, q: Indexed, v: Indexed, velocity: Indexed) -> None:
        _propagate(tree, q, v, None)

        for frame, carrier in tree.frames():
            velocity[frame] = (tree.seen(reference, frame, carrier) @ carrier.V).data

    return velocities


def _accelerations(reference: str, aligned: bool) -> Callable[..., None]:
    def accelerations(tree: Tree, q: Indexed, v: Indexed, a: Indexed, acceleration: Indexed) -> None:
        _rates(tree, q, v, a, reference, aligned, acceleration)

    return accelerations


def _jacobian_dot_v(reference: str, aligned: bool) -> Callable[..., None]:
    def jacobian_dot_v(tree: Tree, q: Indexed, v: Indexed, acceleration: Indexed) -> None:
        _rates(tree, q, v, Zeros(), reference, aligned, acceleration)

    return jacobian_dot_v


def _rates(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed | Zeros, reference: str, aligned: bool, acceleration: Indexed
) -> None:
    _propagate(tree, q, v, a)

    for frame, carrier in tree.frames():
        seen = tree.seen(reference, frame, carrier)
        acceleration[frame] = seen_rate(seen, aligned, carrier.V, carrier.alpha).data


def seen_rate(seen: Transform, aligned: bool, V: Motion, alpha: Motion) -> Motion:
    """Rate of change of a body's motion V in a view.

    Args:
        seen: Transform to the view.
        aligned: Whether the origin of the view moves with the body while its axes do not rotate.
        V: Velocity of the body.
        alpha: Its rate of change.
    """
    rate = seen @ alpha
    if not aligned:
        return rate
    shown = seen @ V
    return Motion.of(rate.angular, rate.linear + cross(shown.angular, shown.linear))


def _jacobians(reference: str) -> Callable[..., None]:
    def jacobians(tree: Tree, q: Indexed, J: Indexed) -> None:
        S = tree.travelling("v", like="still")
        tree.world.C = Transform.identity()
        tree.world.still = Motion.zero()

        for k, parent in tree.scatter():
            X = k.weight(q[k])
            k.C = X @ parent.C
            propagate_columns(tree, k, parent, X, S)

        for frame, carrier in tree.frames():
            seen = tree.seen(reference, frame, carrier)
            for c in tree.path(frame):
                J[frame, c] = (seen @ S[carrier, c]).data

    return jacobians


def propagate_columns(tree: Tree, k: Any, parent: Any, X: Any, S: Indexed) -> None:
    """Set S, of `tree.travelling`: the motion of a node per unit velocity of each degree of freedom that moves it.

    The parent has `still`, a motion that is zero.
    """
    k.still = k.H @ Zeros()[k]  # the type of motions
    for c, unit in zip(k.columns(), np.eye(len(Zeros()[k])), strict=True):
        S[k, c] = k.H @ unit
    for c in tree.ancestors(k):
        S[k, c] = X @ S[parent, c]


def for_each_reference(
    make: Callable[[str], Callable[..., None]], prefix: str = "", **dimensions: Any
) -> dict[str, Algorithm]:
    """One algorithm for each reference, named after it; `prefix` precedes the recursion's own name."""
    made = {}
    for reference in REFERENCES:
        run = make(reference)
        run.__name__ = f"{prefix}{run.__name__}_{reference}"
        made[reference] = algorithm(**dimensions)(run)
    return made


#: Velocity of each frame, (m, 6), by reference.
VELOCITIES = for_each_reference(_velocities, q=("q",), v=("v",), velocity=("frames", 6), outputs=("velocity",))
#: Jacobian of each frame, (m, 6, nv), by reference.
JACOBIANS = for_each_reference(_jacobians, q=("q",), J=("frames", 6, "v"), outputs=("J",), sparse=("J",))
#: Rate of each frame's velocity, (m, 6), by reference.
ACCELERATIONS = for_each_reference(
    lambda r: _accelerations(r, r == "local_world_aligned"),
    q=("q",), v=("v",), a=("v",), acceleration=("frames", 6), outputs=("acceleration",),
)  # fmt: skip
#: Classical acceleration of each frame, (m, 6), by reference: the rate in axes at rest, in the axes of the reference.
CLASSICAL_ACCELERATIONS = for_each_reference(
    lambda r: _accelerations(r, True), "classical_",
    q=("q",), v=("v",), a=("v",), acceleration=("frames", 6), outputs=("acceleration",),
)  # fmt: skip
#: J̇v of each frame, (m, 6), by reference: its acceleration at zero joint accelerations.
JACOBIANS_DOT_V = for_each_reference(
    lambda r: _jacobian_dot_v(r, r == "local_world_aligned"),
    q=("q",), v=("v",), acceleration=("frames", 6), outputs=("acceleration",),
)  # fmt: skip


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
                axes = turned_axes(reference, seen @ S[carrier, c], V)
                dq[frame, c] = (seen @ turned[carrier, c] + axes).data

    return velocity_derivative


def turned_axes(reference: str, S: Motion, V: Motion) -> Motion:
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
