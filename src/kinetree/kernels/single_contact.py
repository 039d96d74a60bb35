"""The impulse of one frictional contact, while all others stay. Constant cost.

With b its velocity without its own impulse, and W its block of G + ε: it is open if b_n ≥ 0, sticks if −W⁻¹ b is in the
cone, and else slides,

    u_n = 0, u_t = −α λ_t, |λ_t| = μ λ_n;    λ_t = −(A + α)⁻¹ (b_t − w b_n/W_nn),  A = W_tt − w wᵀ/W_nn   (1)

which leaves one equation for α. A root exists whenever b_n < 0; Newton's steps are kept within a bracket.
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import less
from kinetree.kernels.language import Workspace
from kinetree.spatial.scalar import select, sqrt

#: What is added to divisors that may be zero, and what no α reaches.
NEVER_ZERO, ENDLESS = 2.0**-500, 2.0**500


def slowness(u: Any, impulse: Any) -> Any:
    """α of a contact as it is; zero unless it slides."""
    speed, force = (v[0] * v[0] + v[1] * v[1] for v in (u, impulse))
    return select(-force, 0.0, sqrt(speed / select(-force, 0.0, force, 1.0)), 0.0)


def single_contact(k: Workspace, searches: Any, block: Any, b: Any, mu: Any, start: Any) -> list[Any]:
    """The impulse of one contact by (1), after so many rounds of a search that starts at an α."""
    xx, xy, yy, nx, ny, nn = block
    inverse = 1.0 / (nn + NEVER_ZERO)
    kx, ky, pressed = nx * inverse, ny * inverse, -b[2] * inverse
    a, c, d = xx - nx * kx, xy - nx * ky, yy - ny * ky
    free = b[0] - kx * b[2], b[1] - ky * b[2]

    def solve(alpha: Any, v: Any) -> tuple[Any, Any]:
        """(A + α)⁻¹ v."""
        p, q = a + alpha, d + alpha
        share = 1.0 / (p * q - c * c + NEVER_ZERO)
        return (q * v[0] - c * v[1]) * share, (p * v[1] - c * v[0]) * share

    def at(alpha: Any) -> tuple[Any, Any, Any, Any]:
        """λ, and |λ_t|²."""
        x, y = solve(alpha, free)
        return -x, -y, pressed + kx * x + ky * y, x * x + y * y

    alpha, low, high, number, ends = (k.scalar(x) for x in (start, 0.0, ENDLESS, 0.0, 0.0))
    for _ in k.roots.until(ends):
        here, since, below, above = alpha[...][()], number[...][()], low[...][()], high[...][()]
        x, y, normal, square = at(here)
        dx, dy = solve(here, (x, y))  # −dλ_t/dα
        beyond = sqrt(square) - mu * normal
        above, below = select(beyond, 0.0, here, above), select(beyond, 0.0, below, here)
        slope = mu * ((kx * dx + ky * dy) * square + normal * (x * dx + y * dy))
        step = here + beyond * square / select(-slope, 0.0, slope, 1.0)
        halved = select(above, ENDLESS, 0.5 * (below + above), 8.0 * here + 1.0)
        step = select(step, below, halved, select(-step, -above, halved, step))
        low[...], high[...], number[...] = below, above, since + 1.0
        alpha[...] = select(-slope, 0.0, step, halved)
        ends[...] = less(number[...], searches - 0.5, 0.0, 1.0)

    stuck, slid = at(0.0), at(alpha[...][()])
    holds = select(mu * mu * stuck[2] * stuck[2], stuck[3], 0.0, select(stuck[2], 0.0, 0.0, 1.0))
    # the direction of a root that is not exact yet, with |λ_t| = μ λ_n
    normal = select(slid[2], 0.0, 0.0, slid[2])
    share = mu * normal / (sqrt(slid[3]) + NEVER_ZERO)
    slides = slid[0] * share, slid[1] * share, normal
    return [
        select(b[2], 0.0, select(-holds, 0.0, held, moved), 0.0) for held, moved in zip(stuck, slides, strict=False)
    ]
