"""Velocities, accelerations, Jacobians and J̇v of frames on nodes of any kind. Cost O(n), unless noted.

`kinematics.py` works in the tree's frame, where rigid bodies need fewer operations; here velocities are propagated with
the weights of [J11], in each node's own coordinates. Frames sit on rigid bodies, or on outlets of other nodes.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.kinematic_derivatives import turned_view
from kinetree.algorithms.kinematics import for_each_reference
from kinetree.recursion.forward_mode import directional_derivative
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.recursion.variation import turned_velocities
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.vector3 import cross

#: How a frame's own twist is seen, given its pose.
_VIEWS: dict[str, Callable[[Transform, Motion], Motion]] = {
    "local": lambda _, twist: twist,
    "local_world_aligned": lambda pose, twist: _aligned(pose) @ twist,
    "world": lambda pose, twist: pose.back(twist),
}


def _aligned(pose: Transform) -> Transform:
    return Transform.of(pose.E.T, np.zeros(3))


def _propagate(tree: Tree, q: Any, v: Any, a: Any) -> None:
    """Leave pose C and velocity V at every node, and its rate α if there are joint accelerations."""
    tree.world.C = Transform.identity()
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()

    for k, parent in tree.scatter():
        X, V_p = k.weight(q[k]), parent.V
        k.C = X @ parent.C
        k.V = X @ V_p + k.H @ v[k]
        if a is not None:
            k.alpha = X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)


def _velocities(reference: str) -> Callable[..., None]:
    def velocities_by_weights(tree: Tree, q: Indexed, v: Indexed, velocity: Indexed) -> None:
        _propagate(tree, q, v, None)

        for frame, carrier in tree.frames():
            velocity[frame] = _VIEWS[reference](frame.X @ carrier.C, frame.X @ carrier.V).data

    return velocities_by_weights


def _jacobians(reference: str) -> Callable[..., None]:
    def jacobians_by_weights(tree: Tree, q: Indexed, J: Indexed) -> None:
        # motion of each node per unit velocity of each degree of freedom that moves it
        S = tree.array("node", "v", like="still")
        tree.world.C = Transform.identity()
        tree.world.still = Motion.zero()

        for k, parent in tree.scatter():
            X = k.weight(q[k])
            k.C = X @ parent.C
            propagate_columns(tree, k, parent, X, S)

        for frame, carrier in tree.frames():
            pose = frame.X @ carrier.C
            for c in tree.path(frame):
                J[frame, c] = _VIEWS[reference](pose, frame.X @ S[carrier, c]).data

    return jacobians_by_weights


def _velocity_derivative(reference: str) -> Callable[..., None]:
    def velocity_derivative_by_weights(tree: Tree, q: Indexed, v: Indexed, dq: Indexed) -> None:
        S, turned = (tree.array("node", "v", like="still") for _ in range(2))
        tree.world.C = Transform.identity()
        tree.world.V = tree.world.still = Motion.zero()

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
            view, pose = _VIEWS[reference], frame.X @ carrier.C
            V = view(pose, frame.X @ carrier.V)
            for c in tree.path(frame):
                own, change = (view(pose, frame.X @ array[carrier, c]) for array in (S, turned))
                dq[frame, c] = (change + turned_view(reference, own, V)).data

    return velocity_derivative_by_weights


def propagate_columns(tree: Tree, k: Any, parent: Any, X: Any, S: Indexed) -> None:
    """Set the motion S of a node with weight X per unit velocity of each degree of freedom that moves it."""
    k.still = k.H @ Zeros()[k]
    for c, unit in zip(k.columns(), np.eye(len(Zeros()[k])), strict=True):
        S[k, c] = k.H @ unit
    for c in tree.ancestors(k):
        S[k, c] = X @ S[parent, c]


def _rates(tree: Tree, q: Any, v: Any, a: Any, reference: str, aligned: bool, acceleration: Any) -> None:
    _propagate(tree, q, v, a)

    for frame, carrier in tree.frames():
        view, pose = _VIEWS[reference], frame.X @ carrier.C
        rate = view(pose, frame.X @ carrier.alpha)
        if aligned:  # the axes in which the twist changes do not turn with the frame
            seen = view(pose, frame.X @ carrier.V)
            rate = Motion.of(rate.angular, rate.linear + cross(seen.angular, seen.linear))
        acceleration[frame] = rate.data


def _accelerations(reference: str, aligned: bool) -> Callable[..., None]:
    def accelerations_by_weights(tree: Tree, q: Indexed, v: Indexed, a: Indexed, acceleration: Indexed) -> None:
        _rates(tree, q, v, a, reference, aligned, acceleration)

    return accelerations_by_weights


def _jacobian_dot_v(reference: str) -> Callable[..., None]:
    def jacobian_dot_v_by_weights(tree: Tree, q: Indexed, v: Indexed, acceleration: Indexed) -> None:
        _rates(tree, q, v, Zeros(), reference, reference == "local_world_aligned", acceleration)

    return jacobian_dot_v_by_weights


#: Velocity of each frame, (m, 6), by reference.
VELOCITIES = for_each_reference(
    _velocities, q=("q",), v=("v",), velocity=("frames", 6), outputs=("velocity",), any_node=True
)
#: Jacobian of each frame, (m, 6, nv), by reference. Cost O(n·d).
JACOBIANS = for_each_reference(_jacobians, q=("q",), J=("frames", 6, "v"), outputs=("J",), sparse=("J",), any_node=True)
#: J̇ of each frame while q moves with v, (m, 6, nv), by reference. Cost O(n·d).
JACOBIAN_RATES = {
    reference: directional_derivative(jacobians, f"{jacobians.name}_rate", "v", {}, ("rate",))
    for reference, jacobians in JACOBIANS.items()
}
#: ∂(J v)/∂q of each frame along the tangent, (m, 6, nv), by reference. Cost O(n·d).
VELOCITY_DERIVATIVES = for_each_reference(
    _velocity_derivative, q=("q",), v=("v",), dq=("frames", 6, "v"), outputs=("dq",), sparse=("dq",), any_node=True
)
#: Rate of each frame's velocity, (m, 6), by reference.
ACCELERATIONS = for_each_reference(
    lambda r: _accelerations(r, r == "local_world_aligned"),
    q=("q",), v=("v",), a=("v",), acceleration=("frames", 6), outputs=("acceleration",), any_node=True,
)  # fmt: skip
#: Classical acceleration of each frame, (m, 6), by reference.
CLASSICAL_ACCELERATIONS = for_each_reference(
    lambda r: _accelerations(r, True), "classical_",
    q=("q",), v=("v",), a=("v",), acceleration=("frames", 6), outputs=("acceleration",), any_node=True,
)  # fmt: skip
#: J̇v of each frame, (m, 6), by reference.
JACOBIANS_DOT_V = for_each_reference(
    _jacobian_dot_v, q=("q",), v=("v",), acceleration=("frames", 6), outputs=("acceleration",), any_node=True
)
