"""Steps of the block factorisation of Λ⁻¹ by levels of priority, as in `kinetree.control.hierarchy`. Cost O(n³)."""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import between, less, nothing
from kinetree.kernels.language import Workspace, kernel
from kinetree.recursion.tree import Indexed

# the eigenvalue below which "blend" gives up a direction, as a fraction of the cut
_NONE = 0.01

_RECIPROCALS: Any = {"values": ("n",), "cut": (), "result": ("n",), "outputs": ("result",)}


@kernel(**_RECIPROCALS)
def truncated_reciprocals(k: Workspace, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """1/λ above a cut, else zero; NaN stays NaN."""
    for row in k.n:
        value = values[row]
        result[row] = less(cut[...], value, 1.0 / value, nothing(value))


@kernel(**_RECIPROCALS)
def blended_reciprocals(k: Workspace, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """ω/λ, where ω grows smoothly from 0 at a hundredth of the cut to 1 at the cut; NaN stays NaN."""
    least = _NONE * cut[...]
    width = cut[...] - least
    for row in k.n:
        value = values[row]
        s = between((value - least) / width, 0.0, 1.0)
        result[row] = less(least, value, s * s * (3.0 - 2.0 * s) / value, nothing(value))


@kernel(values=("n",), of_rows=("n", 2), least=(), outputs=("least",), sparse=("least",))
def least_share(k: Workspace, values: Indexed, of_rows: Indexed, least: Indexed) -> None:
    """The smallest eigenvalue relative to its cut; NaN if one is NaN.

    Args:
        k: Size n.
        values: λ, (n,).
        of_rows: What λ is multiplied by, and what is added then, (n, 2).
        least: ().
    """
    least[...] = float("inf")
    for row in k.n:
        scale, away = of_rows[row]
        share = values[row] * scale + away
        least[...] = less(share, least[...], share, least[...]) + nothing(values[row])


@kernel(
    A=("n", "n"), r=("n",), G=("n", "n"), later=("n",),
    A_left=("n", "n"), r_left=("n",), outputs=("A_left", "r_left"),
)  # fmt: skip
def eliminate(
    k: Workspace, A: Indexed, r: Indexed, G: Indexed, later: Indexed, A_left: Indexed, r_left: Indexed
) -> None:
    """What a level leaves to the rows after it: with C = A G, r −= C r and A −= C A there.

    Args:
        k: Size n.
        A: (n, n).
        r: (n,).
        G: The level's inverse in its own rows and columns, zero elsewhere, (n, n).
        later: 1 for rows after the level, else 0, (n,).
        A_left: (n, n).
        r_left: (n,).
    """
    C, B, left = k.array("n"), k.array("n"), k.array("n")
    for i in k.n:
        share = later[i]
        for j in k.n:
            C[j] = 0.0
            B[j] = A[i, j]
        for m in k.n:
            entry = share * A[i, m]
            for j in k.n:
                C[j] = C[j] + entry * G[m, j]
        left[i] = r[i]
        for m in k.n:
            entry = C[m]
            left[i] = left[i] - entry * r[m]
            for j in k.n:
                B[j] = B[j] - entry * A[m, j] * later[j]
        for j in k.n:
            A_left[i, j] = B[j]
    for i in k.n:
        r_left[i] = left[i]


@kernel(A=("n", "n"), r=("n",), G=("n", "n"), f=("n",), force=("n",), outputs=("force",))
def add_level(k: Workspace, A: Indexed, r: Indexed, G: Indexed, f: Indexed, force: Indexed) -> None:
    """Forces f of lower levels, and those of a level, G (r − A f).

    Args:
        k: Size n.
        A: Symmetric, (n, n).
        r: (n,).
        G: As of `eliminate`, (n, n).
        f: (n,).
        force: (n,).
    """
    left, total = k.copy(r, "n"), k.copy(f, "n")
    for j in k.n:
        entry = f[j]
        for i in k.n:
            left[i] = left[i] - entry * A[j, i]
    for j in k.n:
        entry = left[j]
        for i in k.n:
            total[i] = total[i] + entry * G[j, i]
    for i in k.n:
        force[i] = total[i]
