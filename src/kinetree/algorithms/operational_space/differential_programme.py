"""The quadratic programme of a step of differential inverse kinematics within limits. Cost O(n²·r) for r rows.

    min  ½ ΔᵀH Δ + gᵀΔ        H = JᵀW J + d 1        g = −α JᵀW e − w₀² Δ₀

The terms are those of `differential_step`.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree


@algorithm(
    J=("rows", "v"),
    error=("rows",),
    pull=("v",),
    weights=("rows",),
    factors=(3,),
    H=("v", "v"),
    g=("v",),
    outputs=("H", "g"),
    sparse=("H", "g"),
    any_node=True,
)
def differential_programme(
    tree: Tree,
    J: Indexed,
    error: Indexed,
    pull: Indexed,
    weights: Indexed,
    factors: Indexed,
    H: Indexed,
    g: Indexed,
) -> None:
    """H and g.

    Args:
        tree: The mechanism.
        J: Jacobian of the rows, (r, nv).
        error: e of the rows, (r,).
        pull: Δ₀, (nv,).
        weights: W of the rows, (r,).
        factors: α, w₀² and d.
        H: (nv, nv).
        g: (nv,).
    """
    gain, pulling, least = factors[...]
    for one in tree.columns():
        g[one] = -(pulling * pull[one])
        H[one, one] = least
    for row in tree.task_rows():
        weight = weights[row]
        pushing = weight * (gain * error[row])
        for one in tree.columns():
            g[one] = g[one] - J[row, one] * pushing
            entry = weight * J[row, one]
            for other in tree.columns():
                H[one, other] = H[one, other] + entry * J[row, other]
