"""Steps of the block factorisation of Λ⁻¹ by levels of priority, as in `kinetree.control.hierarchy`. Cost O(r³)."""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.choices import between, less
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree

# the eigenvalue below which "blend" gives up a direction, as a fraction of the cut
_NONE = 0.01

_RECIPROCALS: Any = {"values": ("rows",), "cut": (), "result": ("rows",), "outputs": ("result",)}


@algorithm(**_RECIPROCALS)
def truncated_reciprocals(tree: Tree, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """1/λ above a cut, else zero; NaN stays NaN."""
    for row in tree.task_rows():
        value = values[row]
        result[row] = less(cut[...], value, 1.0 / value, 0.0 * value)


@algorithm(**_RECIPROCALS)
def blended_reciprocals(tree: Tree, values: Indexed, cut: Indexed, result: Indexed) -> None:
    """ω/λ, where ω grows smoothly from 0 at a hundredth of the cut to 1 at the cut; NaN stays NaN."""
    least = _NONE * cut[...]
    width = cut[...] - least
    for row in tree.task_rows():
        value = values[row]
        s = between((value - least) / width, 0.0, 1.0)
        result[row] = less(least, value, s * s * (3.0 - 2.0 * s) / value, 0.0 * value)


@algorithm(values=("rows",), of_rows=("rows", 2), least=(), outputs=("least",), sparse=("least",))
def least_share(tree: Tree, values: Indexed, of_rows: Indexed, least: Indexed) -> None:
    """The smallest eigenvalue relative to its cut; NaN if one is NaN.

    Args:
        tree: Provides the rows.
        values: λ, (r,).
        of_rows: What λ is multiplied by, and what is added then, (r, 2).
        least: ().
    """
    least[...] = float("inf")
    for row in tree.task_rows():
        scale, away = of_rows[row]
        share = values[row] * scale + away
        least[...] = less(share, least[...], share, least[...]) + 0.0 * values[row]


@algorithm(
    A=("rows", "rows"), r=("rows",), G=("rows", "rows"), later=("rows",),
    A_left=("rows", "rows"), r_left=("rows",), outputs=("A_left", "r_left"),
)  # fmt: skip
def eliminate(tree: Tree, A: Indexed, r: Indexed, G: Indexed, later: Indexed, A_left: Indexed, r_left: Indexed) -> None:
    """What a level leaves to the rows after it: with C = A G, r −= C r and A −= C A there.

    Args:
        tree: Provides the rows.
        A: (r, r).
        r: (r,).
        G: The level's inverse in its own rows and columns, zero elsewhere, (r, r).
        later: 1 for rows after the level, else 0, (r,).
        A_left: (r, r).
        r_left: (r,).
    """
    C, B, left = tree.array("rows"), tree.array("rows"), tree.array("rows")
    for one in tree.task_rows():
        share = later[one]
        for other in tree.task_rows():
            C[other] = 0.0
            B[other] = A[one, other]
        for middle in tree.task_rows():
            entry = share * A[one, middle]
            for other in tree.task_rows():
                C[other] = C[other] + entry * G[middle, other]
        left[one] = r[one]
        for middle in tree.task_rows():
            entry = C[middle]
            left[one] = left[one] - entry * r[middle]
            for other in tree.task_rows():
                B[other] = B[other] - entry * A[middle, other] * later[other]
        for other in tree.task_rows():
            A_left[one, other] = B[other]
    for one in tree.task_rows():
        r_left[one] = left[one]


@algorithm(A=("rows", "rows"), r=("rows",), G=("rows", "rows"), f=("rows",), force=("rows",), outputs=("force",))
def add_level(tree: Tree, A: Indexed, r: Indexed, G: Indexed, f: Indexed, force: Indexed) -> None:
    """Forces f of lower levels, and those of a level, G (r − A f).

    Args:
        tree: Provides the rows.
        A: Symmetric, (r, r).
        r: (r,).
        G: As of `eliminate`, (r, r).
        f: (r,).
        force: (r,).
    """
    left, total = tree.array("rows"), tree.array("rows")
    for one in tree.task_rows():
        left[one] = r[one]
        total[one] = f[one]
    for other in tree.task_rows():
        entry = f[other]
        for one in tree.task_rows():
            left[one] = left[one] - entry * A[other, one]
    for other in tree.task_rows():
        entry = left[other]
        for one in tree.task_rows():
            total[one] = total[one] + entry * G[other, one]
    for one in tree.task_rows():
        force[one] = total[one]
