"""Where bodies that may touch something are and how they move, and what impulses on them do to the robot. Cost O(n).

Points belong to bodies: frames of the robot that may touch something. These are recursions over the robot, for nodes of
any kind; `mass_factors.py` has the same for trees of rigid bodies, with less work. `kinetree.kernels.contact_problem`
takes over from there.
"""

from __future__ import annotations

from kinetree.algorithms.dynamics.forward_dynamics import articulated_body
from kinetree.algorithms.dynamics.mass_factors import PLACE
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import stack
from kinetree.spatial.transform import Transform


@algorithm(
    q=("q",), v=("v",), place=("frames", PLACE), twist=("frames", 6), outputs=("place", "twist"),
)  # fmt: skip
def contact_bodies(tree: Tree, q: Indexed, v: Indexed, place: Indexed, twist: Indexed) -> None:
    """Poses, as of `mass_factors`, and velocities of frames, in world axes."""
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


@algorithm(q=("q",), v=("v",), wrench=("frames", 6), after=("v",), outputs=("after",), sparse=("after",))
def after_impulses(tree: Tree, q: Indexed, v: Indexed, wrench: Indexed, after: Indexed) -> None:
    """v + M⁻¹Jᵀ w: velocities after impulses on the frames, in their own coordinates, moments first."""
    articulated_body(tree, q, Zeros(), Zeros(), Motion.zero(), wrench, after, springs=False)
    for k, _ in tree.scatter():
        after[k] = v[k] + after[k]
