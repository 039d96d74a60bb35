"""The algorithm of Rodriguez, Jain and Kreutz-Delgado as [W12] describes it, in link coordinates.

Ω of the links on the way to any end-effector; then, for each pair, outwards from where the two meet, "using local
articulated transforms only"; then from links to end-effectors.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

import numpy as np

from benchmarks.papers.link_coordinates.links import HELD, Blocks, Hinges, Links
from benchmarks.papers.link_coordinates.number import values
from kinetree.spatial.value import Array


def rjk(links: Links, *, shared: bool = False) -> Blocks:
    """Blocks of Λ⁻¹ on and right of the diagonal.

    Args:
        links: The mechanism.
        shared: Pairs with the same first end-effector share what they have in common. The paper does not say so.
    """
    tally, effectors = links.tally, range(len(links.tips))
    with tally.part("inertias"):
        hinges = Hinges(links)
    with tally.part("outward"):
        omega: dict[int, Array] = {}
        for i in sorted({i for tip in links.tips for i in links.paths[tip]}):
            omega[i] = _mobility(links, hinges, i, omega.get(links.parents[i]))
    blocks: Blocks = {}
    with tally.part("pairs"):
        for one in effectors:
            blocks[one, one] = _at_effector(links, one, omega[links.tips[one]])
            known: dict[tuple[int, int], Array] = {}
            for other in effectors[one + 1 :]:
                meeting = links.meeting(one, other)
                if meeting is None:
                    continue
                matrix = omega[meeting]
                for turned, tip in enumerate((links.tips[one], links.tips[other])):
                    for i in links.paths[tip][len(links.paths[meeting]) :]:
                        # The first way depends on where it begins, the second one does not.
                        place = (i, -1 if turned else meeting)
                        if not shared or place not in known:
                            known[place] = _step(links, hinges, i, matrix if turned else matrix.T)
                            known[place] = known[place] if turned else known[place].T
                        matrix = known[place]
                columns = np.array([links.at_effector(one, m) for m in matrix.T], dtype=object).T
                blocks[one, other] = np.array([links.at_effector(other, m) for m in columns], dtype=object)
    return blocks


def _step(links: Links, hinges: Hinges, i: int, rows: Array) -> Array:
    """Take rows of Ω from the parent to the link."""
    return np.array([hinges.propagated(links, i, row) for row in rows], dtype=object)


def _mobility(links: Links, hinges: Hinges, i: int, before: Array | None) -> Array:
    """Ω of a link, from that of its parent: L X Ω Xᵀ Lᵀ + K."""
    if links.is_floating(i):
        return hinges.base
    result = np.zeros((6, 6), dtype=object)
    if before is not None:
        result = before
        for screw in links.screws[i]:
            result = screw.compliance(result)
        for j in HELD:
            result[2, j] = hinges.freed(i, result[:, j])
        for j in HELD:
            result[j, 2] = result[2, j]
        result[2, 2] = hinges.freed(i, result[2])
    result[2, 2] = result[2, 2] + hinges.reciprocal[i] if before is not None else hinges.reciprocal[i]
    return result


def _at_effector(links: Links, k: int, omega: Array) -> Array:
    """X Ω Xᵀ of an end-effector, at the published cost."""
    X = values(links.effector(k))
    links.tally.charge(multiplications=137, additions=137)
    return links.tally.numbers(X @ values(omega) @ X.T)
