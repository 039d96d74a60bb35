"""Where contact points are and how they move, and what impulses at them do to the robot. Cost O(n).

Points belong to bodies: frames of the robot that may touch something. `contact_bodies`, `body_wrenches` and
`after_impulses` are recursions over the robot, for nodes of any kind; `mass_factors.py` has the same for trees of rigid
bodies, with less work. The others run on a mechanism of free bodies that carry the points, whatever the robot.
"""

from __future__ import annotations

import numpy as np

from kinetree.algorithms.forward_dynamics import articulated_body
from kinetree.algorithms.mass_factors import PLACE
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.vector3 import cross, stack


@algorithm(
    q=("q",), v=("v",), place=("frames", PLACE), twist=("frames", 6), outputs=("place", "twist"), any_node=True,
)  # fmt: skip
def contact_bodies(tree: Tree, q: Indexed, v: Indexed, place: Indexed, twist: Indexed) -> None:
    """Poses and velocities of frames, in world axes.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        place: As of `mass_factors`, (m, 15).
        twist: (m, 6).
    """
    tree.world.C = Transform.identity()
    tree.world.V = Motion.zero()

    for k, parent in tree.scatter():
        X = k.weight(q[k])
        V = X @ parent.V + k.H @ v[k]
        k.C = X @ parent.C
        k.V = V

    for frame, carrier in tree.frames():
        C, V = frame.X @ carrier.C, frame.X @ carrier.V
        place[frame] = stack(C.E.T.reshape(-1), C.r, C.r)
        twist[frame] = stack(C.E.T @ V.angular, C.E.T @ V.linear)


@algorithm(
    place=("frames", PLACE), twist=("frames", 6), position=("frames", 3),
    points=("frames", 3), arm=("frames", 3), velocity=("frames", 3), outputs=("points", "arm", "velocity"),
)  # fmt: skip
def contact_points(
    tree: Tree, place: Indexed, twist: Indexed, position: Indexed, points: Indexed, arm: Indexed, velocity: Indexed
) -> None:
    """Positions and velocities of points.

    Args:
        tree: Has the points.
        place: Of the body of each point, as of `mass_factors`, (m, 15).
        twist: Of the body of each point, in world axes, (m, 6).
        position: In the body, (m, 3).
        points: Positions in the world, (m, 3).
        arm: From the body to the point, in world axes, (m, 3).
        velocity: In world axes, (m, 3).
    """
    for frame, _ in tree.frames():
        R, there = place[frame][:9].reshape(3, 3), place[frame][9:12]
        away = R @ position[frame]
        points[frame] = there + away
        arm[frame] = away
        velocity[frame] = twist[frame][3:] + cross(twist[frame][:3], away)


@algorithm(arm=("frames", 3), force=("frames", 3), wrench=("v",), outputs=("wrench",))
def contact_wrenches(tree: Tree, arm: Indexed, force: Indexed, wrench: Indexed) -> None:
    """What forces at all points are for their bodies.

    Args:
        tree: The bodies, with the points.
        arm: As of `contact_points`, (m, 3).
        force: In world axes, (m, 3).
        wrench: On the bodies, in world axes, moments first, (6 b,).
    """
    tree.world.total = Force.zero()
    for k, _ in tree.scatter():
        k.total = Force.zero()
    for frame, carrier in tree.frames():
        carrier.total += Force.of(cross(arm[frame], force[frame]), force[frame])
    for k, _ in tree.scatter():
        wrench[k] = k.total.data


@algorithm(
    place=("frames", PLACE), wrench=("frames", 6), turned=("frames", 6), outputs=("turned",), any_node=True
)  # fmt: skip
def body_wrenches(tree: Tree, place: Indexed, wrench: Indexed, turned: Indexed) -> None:
    """Wrenches on frames, from world axes to their own.

    Args:
        tree: The mechanism.
        place: As of `mass_factors`, (m, 15).
        wrench: (m, 6).
        turned: (m, 6).
    """
    for frame, _ in tree.frames():
        R = place[frame][:9].reshape(3, 3)
        turned[frame] = np.concatenate([R.T @ wrench[frame][:3], R.T @ wrench[frame][3:]])


@algorithm(q=("q",), v=("v",), wrench=("frames", 6), after=("v",), outputs=("after",), sparse=("after",), any_node=True)
def after_impulses(tree: Tree, q: Indexed, v: Indexed, wrench: Indexed, after: Indexed) -> None:
    """v + M⁻¹Jᵀ w: velocities after impulses.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities before, (nv,).
        wrench: Impulses on the frames, moments first, in their own coordinates, (m, 6).
        after: (nv,).
    """
    articulated_body(tree, q, Zeros(), Zeros(), Motion.zero(), wrench, after, springs=False)
    for k, _ in tree.scatter():
        after[k] = v[k] + after[k]
