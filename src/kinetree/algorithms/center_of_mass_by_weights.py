"""Centre of mass, its Jacobian and the centroidal momentum matrix for nodes of any kind. Cost O(n).

A motion of the world with all joints locked moves each node with e = W … W e_world; the forces M e, gathered by the
transposed weights, are momenta per unit velocity of each joint: Hᵀ f is a row of the momentum matrix.
`center_of_mass.py` works in the frame of the tree instead, which only rigid bodies allow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.vector3 import cross

_UNITS = tuple(Motion(unit) for unit in np.eye(6))
_LINEAR = (3, 4, 5)


@algorithm(q=("q",), com=(3,), outputs=("com",), any_node=True)
def center_of_mass_by_weights(tree: Tree, q: Indexed, com: Indexed) -> None:
    """Centre of mass of all bodies in the world frame.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        com: Centre of mass, (3,) [m].
    """
    _place(tree, q, (3,))
    com[...] = _center(tree)[0]


@algorithm(q=("q",), J=(3, "v"), outputs=("J",), any_node=True)
def center_of_mass_jacobian_by_weights(tree: Tree, q: Indexed, J: Indexed) -> None:
    """Jacobian of the centre of mass.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        J: Jacobian, (3, nv).
    """
    own = tree.array("v")
    _place(tree, q, _LINEAR)
    _, share = _center(tree)
    _momenta(tree, own, _LINEAR)
    for c in tree.columns():
        J[c] = own[c] * share


@algorithm(q=("q",), A=(6, "v"), outputs=("A",), any_node=True)
def centroidal_momentum_matrix_by_weights(tree: Tree, q: Indexed, A: Indexed) -> None:
    """Maps joint velocities to momentum about the centre of mass, in world axes, angular part first.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        A: Centroidal momentum matrix, (6, nv).
    """
    own = tree.array("v")
    _place(tree, q, range(6))
    com, _ = _center(tree)
    _momenta(tree, own, range(6))
    for c in tree.columns():
        angular, linear = own[c][:3], own[c][3:]
        A[c] = np.concatenate([angular - cross(com, linear), linear])


def _place(tree: Tree, q: Indexed, along: Any) -> None:
    """Set weight, pose, first moment and mass of every node, and its motion when the world moves along some units."""
    tree.world.C = Transform.identity()
    tree.world.moment = np.zeros(4)
    for i in along:
        setattr(tree.world, f"e{i}", _UNITS[i])
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        for i in along:
            setattr(k, f"e{i}", k.X @ getattr(parent, f"e{i}"))
        k.moment = np.concatenate([k.C.moment_of(k.M), [k.e3.dot(k.M @ k.e3)]])


def _center(tree: Tree) -> tuple[Any, Any]:
    """Centre of mass, and the reciprocal of the mass."""
    for k, parent in tree.gather():
        parent.moment += k.moment
    share = 1.0 / tree.world.moment[3]
    return tree.world.moment[:3] * share, share


def _momenta(tree: Tree, own: Indexed, along: Any) -> None:
    """Momentum per unit velocity of each degree of freedom, about the world's origin, along some units."""
    for i in along:
        setattr(tree.world, f"f{i}", Force.zero())
    for k, _ in tree.scatter():
        for i in along:
            setattr(k, f"f{i}", k.M @ getattr(k, f"e{i}"))
    for k, parent in tree.gather():
        rows = [k.H.T @ getattr(k, f"f{i}") for i in along]
        for local, c in enumerate(k.columns()):
            own[c] = np.array([row[local] for row in rows])
        for i in along:
            value = getattr(parent, f"f{i}")
            value += k.X.T @ getattr(k, f"f{i}")
            setattr(parent, f"f{i}", value)
