"""Where frames are, so that their distances keep all digits wherever the robot stands; and J̇v of the centre of mass."""

from __future__ import annotations

from ramify.algorithms import tree_frame
from ramify.recursion.algorithm import algorithm
from ramify.recursion.tree import Indexed, Tree
from ramify.spatial.inertia import RigidInertia
from ramify.spatial.motion import Force, Motion


@algorithm(
    q=("q",),
    rotation=("frames", 3, 3),
    position=("frames", 3),
    origin=("frames", 3),
    outputs=("rotation", "position", "origin"),
)
def placements(tree: Tree, q: Indexed, rotation: Indexed, position: Indexed, origin: Indexed) -> None:
    """Poses of frames in the frame of their tree.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        rotation: From each frame's axes to the world's, (m, 3, 3).
        position: Of each frame's origin, from the origin of its tree, in world axes, (m, 3) [m].
        origin: Of the tree that carries each frame, in the world, (m, 3) [m].
    """
    tree_frame.start(tree)

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)

    for frame, carrier in tree.frames():
        C = frame.X @ carrier.C
        rotation[frame] = C.E.T
        position[frame] = C.r
        origin[frame] = carrier.origin


@algorithm(q=("q",), v=("v",), acceleration=(3,), outputs=("acceleration",))
def center_of_mass_dot_v(tree: Tree, q: Indexed, v: Indexed, acceleration: Indexed) -> None:
    """Acceleration of the centre of mass when all joint accelerations are zero, without gravity.

    All forces that go with this motion add up, in the world, to mass times acceleration.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        acceleration: J̇v, (3,) [m/s²].
    """
    tree_frame.start(tree)
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()
    tree.world.R = RigidInertia.zero()
    tree.world.f = Force.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        own = k.S @ v[k]
        k.V = parent.V + own
        k.alpha = parent.alpha + k.V.cross(own)
        k.R = k.C.congruence(k.M)
        k.f = k.R @ k.alpha + k.V.cross(k.R @ k.V)

    for k, parent in tree.gather():
        parent.R += k.R
        parent.f += k.f

    acceleration[...] = tree.world.f.linear / tree.world.R.mass
