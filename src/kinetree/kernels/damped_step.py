"""The step of a damped least-squares problem within bounds. Cost O(n·r² + r³) for r rows and n columns.

Δ = Jᵀ (J Jᵀ + λ 1)⁻¹ e        columns that would exceed a bound stop there, and the others make up for them
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import between, less, magnitude, where
from kinetree.kernels.language import Size
from kinetree.kernels.solve import apply_inverse, invert
from kinetree.language.tree import Indexed

#: How often a step is recomputed, each time with the columns that exceeded their bounds clamped.
CLAMPINGS = 3


def damped_step(
    rows: Size, columns: Size, e: Indexed, J: Indexed, down: Indexed, up: Indexed, damping: Any, step: Indexed
) -> None:
    """Write Δ, (n,), between the bounds `down`, at most zero but for rounding, and `up`; λ is `damping`."""
    free, fixed = columns.vector(), columns.vector()
    A, rest, x = rows.matrix(rows), rows.vector(), rows.vector()
    for c in columns:
        step[c] = fixed[c] = 0.0
    for row in rows:
        entry = e[row]
        for c in columns:
            step[c] = step[c] + J[row, c] * entry  # the slope, for the moment
    for c in columns:
        stuck_down = less(down[c], 0.0, 0.0, less(step[c], 0.0, 1.0, 0.0))
        stuck_up = less(-up[c], 0.0, 0.0, less(-step[c], 0.0, 1.0, 0.0))
        free[c] = 1.0 - less(stuck_down, stuck_up, stuck_up, stuck_down)

    for _ in range(CLAMPINGS):
        for one in rows:
            rest[one] = e[one]
            for other in rows.since(one):
                A[one, other] = 0.0
            A[one, one] = damping
        for c in columns:
            w, held = free[c], fixed[c]
            for one in rows:
                entry = J[one, c]
                rest[one] = rest[one] - entry * held
                entry = w * entry
                for other in rows.since(one):
                    A[one, other] = A[one, other] + entry * J[other, c]
            step[c] = held
        invert(rows, A)
        apply_inverse(rows, A, rest, x)
        for row in rows:
            entry = x[row]
            for c in columns:
                step[c] = step[c] + free[c] * (J[row, c] * entry)
        for c in columns:
            would = between(step[c], down[c], up[c])
            over = less(-magnitude(step[c] - would), 0.0, free[c], 0.0)
            fixed[c] = where(over, would, fixed[c])
            free[c] = where(over, 0.0, free[c])
            # in the last round, what is left over is cut off
            step[c] = would
