"""The quadratic program of a step of differential inverse kinematics within limits. Cost O(n²·r) for r rows.

    min  ½ ΔᵀH Δ + gᵀΔ        H = JᵀW J + d 1        g = −α JᵀW e − w₀² Δ₀

The terms are those of `kinetree.algorithms.operational_space.differential_step`.
"""

from __future__ import annotations

from kinetree.kernels.language import Workspace, kernel
from kinetree.recursion.tree import Indexed


@kernel(
    J=("r", "n"), error=("r",), pull=("n",), weights=("r",), factors=(3,), H=("n", "n"), g=("n",),
    outputs=("H", "g"), sparse=("H", "g"),
)  # fmt: skip
def differential_program(
    k: Workspace, J: Indexed, error: Indexed, pull: Indexed, weights: Indexed, factors: Indexed, H: Indexed, g: Indexed
) -> None:
    """H and g.

    Args:
        k: Sizes n and r.
        J: Jacobian of the rows, (r, n).
        error: e of the rows, (r,).
        pull: Δ₀, (n,).
        weights: W of the rows, (r,).
        factors: α, w₀² and d.
        H: (n, n).
        g: (n,).
    """
    gain, pulling, least = factors[...]
    for i in k.n:
        g[i] = -(pulling * pull[i])
        H[i, i] = least
    for row in k.r:
        weight = weights[row]
        pushing = weight * (gain * error[row])
        for i in k.n:
            g[i] = g[i] - J[row, i] * pushing
            entry = weight * J[row, i]
            for j in k.n:
                H[i, j] = H[i, j] + entry * J[row, j]
