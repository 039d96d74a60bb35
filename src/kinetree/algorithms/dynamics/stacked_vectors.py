"""The stacked vectors of [J11] §2 at a state: one block for each node, in its own coordinates. Cost O(n).

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from kinetree.algorithms.dynamics.inverse_dynamics import newton_euler
from kinetree.language.algorithm import algorithm
from kinetree.language.contract import components
from kinetree.language.tree import Indexed, Tree


@algorithm(
    q=("q",), v=("v",), a=("v",), wrench=("frames", 6), V=("m",), alpha=("m",), f=("m",), coriolis=("m",),
    gyroscopic=("m",), outputs=("V", "alpha", "f", "coriolis", "gyroscopic"),
)  # fmt: skip
def stacked_vectors(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, V: Indexed, alpha: Indexed, f: Indexed,
    coriolis: Indexed, gyroscopic: Indexed,
) -> None:  # fmt: skip
    """V, α, f, a and b of every node: Eqs. 1 and 2, with the world accelerated by −g."""
    newton_euler(tree, q, v, a, -tree.gravity, wrench, None)
    for k, parent in tree.scatter():
        V[k], alpha[k], f[k] = components(k.V), components(k.alpha), components(k.f)
        coriolis[k] = components(k.coriolis(k.V, v[k], parent.V))
        gyroscopic[k] = components(k.gyroscopic(k.V, v[k]))
