"""Centre of mass, its Jacobian, and the centroidal momentum matrix. Cost O(n) each.

With locked joints, all that a node carries is one body: its momentum per unit velocity of the node's joint is R H with
the composite inertia R. For momenta about the centre of mass, the centre is computed first.

Far from the world's origin, the coordinates of the centre of mass are rounded to fewer digits than the robot's size
needs. So poses are relative to a point that moves with the robot (see `language.common_frame`), and the first moment
that remains about the rounded centre corrects it.

[OGL13] D. Orin, A. Goswami, S.-H. Lee, "Centroidal dynamics of a humanoid robot", Autonomous Robots 35, 2013.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.reproducible import sum_with_error
from kinetree.spatial.rotation import cross, stack
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@algorithm(q=("q",), com=(3,), outputs=("com",))
def center_of_mass(tree: Tree, q: Indexed, com: Indexed) -> None:
    """Centre of mass of all bodies in the world frame [m]."""
    inertias.start_composite(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.R = inertias.own(tree, k)

    for k, parent in tree.gather():
        parent.R += k.X.congruence(k.R)

    total = inertias.total(tree)
    com[...] = total.first_moment / total.mass


@algorithm(q=("q",), J=(3, "v"), outputs=("J",))
def center_of_mass_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
    """Jacobian of the centre of mass."""
    F = tree.array("v")
    inertias.start_composite(tree)
    tree.world.C = Transform.identity()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        k.R = inertias.own(tree, k)

    for k, parent in tree.gather():
        for c, motion in _motions(k):
            F[c] = (k.C.T @ (k.R @ motion)).linear
        parent.R += k.X.congruence(k.R)

    share = 1.0 / inertias.total(tree).mass
    for c in tree.columns():
        J[c] = F[c] * share


@algorithm(q=("q",), A=(6, "v"), outputs=("A",))
def centroidal_momentum_matrix(tree: Tree, q: Indexed, A: Indexed) -> None:
    """Maps joint velocities to momentum about the centre of mass, in world axes, angular part first. [OGL13] Eq. 6."""
    inertias.start_composite(tree)
    tree.world.C = Transform.identity()
    tree.world.origin = tree.world.origin_error = tree.world.left = np.zeros(3)
    tree.world.slides = np.ones(1)
    tree.world.total = tree.world.about = np.zeros(4)

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        slides = parent.slides[0]
        k.C, shift = (k.X @ parent.C).referred(slides)
        origin, error = sum_with_error(parent.origin, shift)
        k.origin, k.origin_error = origin, parent.origin_error + error
        k.slides = np.array([slides * k.H.translates])
        k.R = inertias.own(tree, k)
        k.moment, mass = k.C.moment_of(k.M), k.C.mass_of(k.M)
        k.mass = np.array([mass])
        k.total = stack(k.moment + origin * mass, mass)

    for k, parent in tree.gather():
        parent.total += k.total
    share = 1.0 / tree.world.total[3]
    rounded = tree.world.total[:3] * share

    for k, _ in tree.scatter():
        k.offset = (k.origin - rounded) + k.origin_error
        k.left = k.moment + k.offset * k.mass[0]

    for k, parent in tree.gather():
        parent.left += k.left
    correction = tree.world.left * share

    for k, _ in tree.scatter():
        k.offset = k.offset - correction
        k.about = stack(k.moment + k.offset * k.mass[0], k.mass)

    for k, parent in tree.gather():
        for c, motion in _motions(k):
            A[c] = _momentum(motion, k.R, k.C, k.offset, k.about).data
        parent.R += k.X.congruence(k.R)
        parent.about += k.about


def _motions(k: Any) -> Any:
    """A node's own degrees of freedom, each with its motion of the node."""
    return zip(k.columns(), [k.H @ unit for unit in np.eye(len(k.armature))], strict=True)


def _momentum(motion: Any, R: Any, C: Any, offset: Array, about: Array) -> Force:
    """Momentum about the centre of mass of what a node carries, in world axes.

    A rigid body turns by ω and moves by u. With first moments h about its origin, at d from the centre, and h + m d
    about the centre: J ω + h × u + d × (m u − h × ω) = J ω − d × (h × ω) + (h + m d) × u. The last term is exact where
    the body and what it carries are far apart, behind prismatic joints.

    Args:
        motion: Motion of the node.
        R: Inertia of all that it carries.
        C: Its pose, relative to a reference point.
        offset: Vector from the centre to the reference point.
        about: First moment of all that it carries, about the centre, and its mass, (4,).
    """
    moved = np.zeros(3)
    if isinstance(motion, Motion):
        moved = C.E.T @ motion.linear
        motion = Motion.of(motion.angular, np.zeros(3))
    turning = C.T @ (R @ motion)
    angular = turning.angular + cross(offset, turning.linear) + cross(about[:3], moved)
    return Force.of(angular, turning.linear + moved * about[3])
