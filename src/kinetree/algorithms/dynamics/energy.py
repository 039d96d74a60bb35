"""Kinetic and potential energy. Cost O(n)."""

from __future__ import annotations

import numpy as np

from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform


@algorithm(q=("q",), v=("v",), kinetic=(), potential=(), outputs=("kinetic", "potential"))
def energy(tree: Tree, q: Indexed, v: Indexed, kinetic: Indexed, potential: Indexed) -> None:
    """½ Σ Vᵀ M V + ½ Σ armature v², and −Σ m gᵀ c, zero with all mass at the world's origin, plus springs [J]."""
    tree.world.V = Motion.zero()
    tree.world.C = Transform.identity()
    tree.world.kinetic = np.zeros(1)
    tree.world.moment = np.zeros(3)
    tree.world.stored = np.zeros(1)

    for k, parent in tree.scatter():
        X = k.weight(q[k])
        k.V = X @ parent.V + k.H @ v[k]
        k.C = X @ parent.C
        doubled = k.V.dot(k.M @ k.V) + (k.armature * v[k]) @ v[k]
        k.kinetic = np.array([0.5 * doubled])
        k.moment = k.C.moment_of(k.M)
        k.stored = np.array([k.potential(q[k])])

    for k, parent in tree.gather():
        parent.kinetic += k.kinetic
        parent.moment += k.moment
        parent.stored += k.stored

    kinetic[...] = tree.world.kinetic[0]
    potential[...] = -(tree.gravity.linear @ tree.world.moment) + tree.world.stored[0]
