"""Derivatives of impacts from those of constrained dynamics at rest. Cost O(n³) for n degrees of freedom.

With a_τ, a_q, λ_τ and λ_q under the joint forces p = M v, whose derivatives are p_q and M, velocities after an impact
and impulses change by

    ∂v⁺/∂q = a_q + a_τ p_q    ∂v⁺/∂v = a_τ M    ∂λ/∂q = λ_q + λ_τ p_q    ∂λ/∂v = λ_τ M                        (1)
"""

from __future__ import annotations

from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import add_products
from kinetree.language.tree import Indexed

_SQUARE, _WIDE = ("n", "n"), ("c", "n")


@kernel(
    a_q=_SQUARE, a_tau=_SQUARE, force_q=_WIDE, force_tau=_WIDE, p_q=_SQUARE, M=_SQUARE, by_q=_SQUARE, by_v=_SQUARE,
    impulse_q=_WIDE, impulse_v=_WIDE, outputs=("by_q", "by_v", "impulse_q", "impulse_v"),
    sparse=("by_q", "by_v", "impulse_q", "impulse_v"),
)  # fmt: skip
def impact_derivatives(
    k: Workspace, a_q: Indexed, a_tau: Indexed, force_q: Indexed, force_tau: Indexed, p_q: Indexed, M: Indexed,
    by_q: Indexed, by_v: Indexed, impulse_q: Indexed, impulse_v: Indexed,
) -> None:  # fmt: skip
    """(1), of v⁺ − v instead of v⁺."""
    add_products([by_q, by_v], (k.n, k.n, k.n), a_tau, [p_q, M])
    add_products([impulse_q, impulse_v], (k.c, k.n, k.n), force_tau, [p_q, M])
    for i in k.n:
        for j in k.n:
            by_q[i, j] = by_q[i, j] + a_q[i, j]
        by_v[i, i] = by_v[i, i] - 1.0
    for i in k.c:
        for j in k.n:
            impulse_q[i, j] = impulse_q[i, j] + force_q[i, j]
