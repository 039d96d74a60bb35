"""Motions of nodes of any kind, and the errors, velocities and accelerations of task rows. Cost O(n)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics import seen_rate
from kinetree.algorithms.operational_space.by_weights import frames
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.kernels.poses import sine
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross


def motion(tree: Tree, v: Any, a0: Any) -> None:
    """Compute velocity V, its rate alpha and the inertial force `push` of every node; nodes must be placed.

    Args:
        tree: The mechanism.
        v: Joint velocities.
        a0: Joint accelerations.
    """
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()
    tree.world.fall = tree.gravity
    tree.world.push = Force.zero()

    for k, parent in tree.scatter():
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ parent.alpha + k.H @ a0[k] + k.coriolis(k.V, v[k], V_p)
        k.fall = k.X @ parent.fall
        k.inertial = k.M @ k.alpha + k.gyroscopic(k.V, v[k])
        k.push = k.inertial - k.M @ k.fall


def torques(tree: Tree, q: Indexed, v: Any, a0: Any, tau: Indexed) -> None:
    """Joint forces from the forces `push` on all nodes."""
    for k, parent in tree.gather():
        tau[k] = k.H.T @ k.push + k.armature * a0[k] + k.resistance(q[k], v[k])
        parent.push += k.X.T @ k.push


def rows_of_motion(
    tree: Tree,
    parts: Parts,
    target: Indexed | None,
    put: Callable[[FrameRole, Any, Any, Any], None],
    error_of: Callable[[Array, Array], Array] = sine,
    reference: str = "local_world_aligned",
) -> None:
    """Call `put` with each task's frame, error, velocity J v and acceleration J a₀ + J̇v; as in `control_law`.

    Args:
        tree: The mechanism, in motion.
        parts: The kinds of tasks present.
        target: Targets, (m, 4, 4); None if there are none, so that errors are zero.
        put: Takes the results.
        error_of: The error of a pose, from the rotation and the way that are left.
        reference: Reference of the motions of single frames.
    """
    for frame, carrier in tree.frames("frame"):
        C, X = frame.X @ carrier.C, frames.seen(reference, frame, carrier)
        rate = seen_rate(X, reference == "local_world_aligned", carrier.V, carrier.alpha).data
        error: Any = np.zeros(6)
        if target is not None:
            T = target[frame]
            error = error_of(T[:3, :3] @ C.E, T[:3, 3] - C.r)
        put(frame, error, (X @ carrier.V).data, rate)
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            X_near, X_far = frames.between(near, near_carrier, far, far_carrier)
            V = X_near @ near_carrier.V
            apart = X_far @ far_carrier.V - V
            rate_ = X_far @ far_carrier.alpha - X_near @ near_carrier.alpha - V.cross(apart)
            rate_ = rate_ + Motion.of(np.zeros(3), cross(apart.angular, apart.linear))
            A, B = near.X @ near_carrier.C, far.X @ far_carrier.C
            error = np.zeros(6)
            if target is not None:
                T = target[far]
                error = error_of(T[:3, :3] @ (B.E @ A.E.T), T[:3, 3] - A.E @ (B.r - A.r))
            put(far, error, apart.data, rate_.data)
    if parts.mass:
        _of_mass(tree, target, put)


def _of_mass(tree: Tree, target: Indexed | None, put: Callable[[FrameRole, Any, Any, Any], None]) -> None:
    """The same for the centre of mass."""
    frames.fall(tree)
    share = 1.0 / frames.mass(tree)
    tree.world.moment = np.zeros(3)
    tree.world.momentum = Force.zero()
    tree.world.change = Force.zero()
    for k, _ in tree.scatter():
        k.moment = k.C.moment_of(k.M)
        k.momentum = k.M @ k.V
        k.change = k.inertial
    for k, parent in tree.gather():
        parent.moment += k.moment
        parent.momentum += k.X.T @ k.momentum
        parent.change += k.X.T @ k.change
    momentum, change = (of.data * share for of in (tree.world.momentum, tree.world.change))
    for center, _ in tree.frames("mass"):
        way = np.zeros(3) if target is None else target[center][:3, 3] - tree.world.moment * share
        put(center, np.concatenate([np.zeros(3), way]), momentum, change)


def press(tree: Tree, parts: Parts, tips: Indexed, along: Indexed) -> None:
    """Add forces along all rows to those on the nodes."""
    for frame, carrier in tree.frames():
        total = Force.zero()
        for row in frame.rows():
            total = total + Force(tips[row].data * along[row])
        carrier.push += total
    if not parts.mass:
        return
    # the centre of mass: each node takes its share, as under a common acceleration
    tree.world.lifted = Motion.zero()
    share = 1.0 / tree.world.heavy[0]
    for center, world in tree.frames("mass"):
        world.lifted += Motion(sum(row.unit().data * (along[row] * share) for row in center.rows()))
    for k, parent in tree.scatter():
        k.lifted = k.X @ parent.lifted
        k.push = k.push + k.M @ k.lifted
