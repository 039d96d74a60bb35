"""Steps of the block factorisation of Λ⁻¹ by levels of priority, as in `kinetree.control.hierarchy`. Cost O(n³).

A, r       Λ⁻¹ of all n rows, and their residual accelerations
G          a level's inverse in its own rows and columns, zero elsewhere
later      1 for rows after the level, else 0
λ, cut     eigenvalues of a level, and ε, below which they count as singular
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import between, less, nothing
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.tree import Indexed

# the eigenvalue below which "blend" gives up a direction, as a fraction of the cut
_NONE = 0.01

_RECIPROCALS: Any = {"values": ("n",), "cut": (), "result": ("n",), "outputs": ("result",)}


@kernel(**_RECIPROCALS)
def truncated_reciprocals(k: Workspace, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """1/λ above a cut, else zero; NaN stays NaN."""
    for i in k.n:
        value = values[i]
        result[i] = less(cut[...], value, 1.0 / value, nothing(value))


@kernel(**_RECIPROCALS)
def blended_reciprocals(k: Workspace, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """ω/λ, where ω grows smoothly from 0 at a hundredth of the cut to 1 at the cut; NaN stays NaN."""
    least = _NONE * cut[...]
    width = cut[...] - least
    for i in k.n:
        value = values[i]
        s = between((value - least) / width, 0.0, 1.0)
        result[i] = less(least, value, s * s * (3.0 - 2.0 * s) / value, nothing(value))


@kernel(values=("n",), of_rows=("n", 2), least=(), outputs=("least",), sparse=("least",))
def least_share(k: Workspace, values: Indexed, of_rows: Indexed, least: Indexed) -> None:
    """The smallest λ scale + away, each row with its own scale and away; NaN if one is NaN."""
    least[...] = float("inf")
    for i in k.n:
        scale, away = of_rows[i]
        share = values[i] * scale + away
        least[...] = less(share, least[...], share, least[...]) + nothing(values[i])


@kernel(
    A=("n", "n"), r=("n",), G=("n", "n"), later=("n",), A_left=("n", "n"), r_left=("n",), outputs=("A_left", "r_left"),
    sparse=("A_left", "r_left"),
)  # fmt: skip
def eliminate(
    k: Workspace, A: Indexed, r: Indexed, G: Indexed, later: Indexed, A_left: Indexed, r_left: Indexed
) -> None:
    """What a level leaves to the rows after it: with C = A G, r −= C r and A −= C A there."""
    C = k.array("n")
    for i in k.n:
        share = later[i]
        for j in k.n:
            C[j] = 0.0
            A_left[i, j] = A[i, j]
        for m in k.n:
            entry = share * A[i, m]
            for j in k.n:
                C[j] = C[j] + entry * G[m, j]
        r_left[i] = r[i]
        for m in k.n:
            entry = C[m]
            r_left[i] = r_left[i] - entry * r[m]
            for j in k.n:
                A_left[i, j] = A_left[i, j] - entry * A[m, j] * later[j]


@kernel(
    A=("n", "n"), r=("n",), G=("n", "n"), f=("n",), force=("n",), outputs=("force",), sparse=("force",)
)  # fmt: skip
def add_level(k: Workspace, A: Indexed, r: Indexed, G: Indexed, f: Indexed, force: Indexed) -> None:
    """Forces f of lower levels, and those of a level, G (r − A f)."""
    left = k.copy(r, "n")
    for i in k.n:
        force[i] = f[i]
    for j in k.n:
        entry = f[j]
        for i in k.n:
            left[i] = left[i] - entry * A[j, i]
    for j in k.n:
        entry = left[j]
        for i in k.n:
            force[i] = force[i] + entry * G[j, i]
