"""Centre of mass, its Jacobian, and the centroidal momentum matrix. Cost O(n) each.

Momenta are formed in the frame of each tree. For momenta about the centre of mass, it is computed first.

[OGL13] D. Orin, A. Goswami, S.-H. Lee, "Centroidal dynamics of a humanoid robot", Autonomous Robots 35, 2013.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross, stack


@algorithm(q=("q",), com=(3,), outputs=("com",))
def center_of_mass(tree: Tree, q: Indexed, com: Indexed) -> None:
    """Centre of mass of all bodies in the world frame.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        com: Centre of mass, (3,) [m].
    """
    _composite_momenta(tree, q, None)
    com[...] = tree.world.moment / tree.world.R.mass


@algorithm(q=("q",), J=(3, "v"), outputs=("J",))
def center_of_mass_jacobian(tree: Tree, q: Indexed, J: Indexed) -> None:
    """Jacobian of the centre of mass.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        J: Jacobian, (3, nv).
    """
    F = tree.array("v")
    _composite_momenta(tree, q, F)
    share = 1.0 / tree.world.R.mass
    for c in tree.columns():
        J[c] = F[c].linear * share


@algorithm(q=("q",), A=(6, "v"), outputs=("A",))
def centroidal_momentum_matrix(tree: Tree, q: Indexed, A: Indexed) -> None:
    """Maps joint velocities to momentum about the centre of mass, in world axes, angular part first. [OGL13] Eq. 6.

    Far from the world's origin, the coordinates of the centre of mass are rounded to fewer digits than the robot's size
    needs. The remaining first moment about the rounded centre corrects it.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        A: Centroidal momentum matrix, (6, nv).
    """
    tree_frame.start(tree)
    tree.world.total = np.zeros(4)
    tree.world.left = np.zeros(3)
    tree.world.about = np.zeros(3)
    tree.world.R = RigidInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.R = k.C.congruence(k.M)
        k.moment = k.R.first_moment
        k.total = stack(k.R.mass, k.moment + k.origin * k.R.mass)

    for k, parent in tree.gather():
        parent.total += k.total
    share = 1.0 / tree.world.total[0]
    rounded = tree.world.total[1:] * share

    for k, _ in tree.scatter():
        k.offset = (k.origin - rounded) + k.origin_error
        k.left = k.moment + k.offset * k.M.mass

    for k, parent in tree.gather():
        parent.left += k.left
    correction = tree.world.left * share

    for k, _ in tree.scatter():
        k.offset = k.offset - correction
        k.about = k.moment + k.offset * k.M.mass

    for k, parent in tree.gather():
        momenta = k.S.map(lambda s, R=k.R, about=k.about, offset=k.offset: _momentum(s, R, about, offset))
        for c in k.columns():
            A[c] = c.of(momenta).data
        parent.R += k.R
        parent.about += k.about


def _momentum(s: Motion, R: RigidInertia, about: Array, offset: Array) -> Force:
    """Momentum per unit velocity of one degree of freedom, about the centre of mass.

    This is R s, shifted by the offset d from the centre to the reference point of `tree_frame`. With first moments h
    about the reference point and h + m d about the centre,
    J ω + h × u + d × (m u − h × ω) = J ω − d × (h × ω) + (h + m d) × u.

    Prismatic joints may move inertias about several points; since ω = 0, only their masses are used.

    Args:
        s: Motion of the degree of freedom, at the reference point.
        R: Inertia of the bodies that it moves, about the reference point.
        about: First moment of these bodies about the centre.
        offset: Vector from the centre to the reference point.
    """
    turned = cross(R.first_moment, s.angular)
    angular = R.rotational @ s.angular - cross(offset, turned) + cross(about, s.linear)
    return Force.of(angular, s.linear * R.mass - turned)


def _composite_momenta(tree: Tree, q: Indexed, F: Indexed | None) -> None:
    """Total mass and first moment on the world; in F, the momentum per unit velocity of each degree of freedom.

    Only its linear part is meaningful: moments are about the reference points of `tree_frame`, which may differ.
    """
    tree_frame.start(tree)
    tree.world.R = RigidInertia.zero()
    tree.world.moment = np.zeros(3)

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.R = k.C.congruence(k.M)
        k.moment = k.R.first_moment + k.origin * k.R.mass

    for k, parent in tree.gather():
        if F is not None:
            _put_momenta(k, F)
        parent.R += k.R
        parent.moment += k.moment


def column_momenta(tree: Tree, F: Indexed) -> Any:
    """Fill F with the linear momentum per unit velocity of each degree of freedom, after bodies are placed.

    Returns:
        The total mass.
    """
    tree.world.R = RigidInertia.zero()

    for k, _ in tree.scatter():
        k.R = k.C.congruence(k.M)

    for k, parent in tree.gather():
        _put_momenta(k, F)
        parent.R += k.R

    return tree.world.R.mass


def _put_momenta(k: Any, F: Indexed) -> None:
    """R S for a node's own degrees of freedom, with the composite inertia R."""
    momenta = k.S.map(lambda s: k.R @ s)
    for c in k.columns():
        F[c] = c.of(momenta)
