"""[W12] Table I, step by step, in link coordinates.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

import numpy as np

from benchmarks.papers.link_coordinates.links import HELD, Blocks, Hinges, Links
from kinetree.spatial.value import Array


def efpa(links: Links) -> Blocks:
    """Blocks of Λ⁻¹ on and right of the diagonal."""
    tally, effectors = links.tally, range(len(links.tips))
    with tally.part("inertias"):
        hinges = Hinges(links)
    with tally.part("inward"):
        chi = {(i, k): matrix for k in effectors for i, matrix in _propagators(links, hinges, k).items()}
    response: dict[tuple[int, int], Array] = {}
    with tally.part("outward"):
        for k, tip in enumerate(links.tips):
            for i in links.paths[tip]:
                response[i, k] = _response(links, hinges, i, response.get((links.parents[i], k)), chi[i, k])
    blocks: Blocks = {}
    with tally.part("pairs"):
        for one in effectors:
            carrier = links.tips[one]
            blocks[one, one] = np.array([links.at_effector(one, m) for m in response[carrier, one].T], dtype=object).T
            for other in effectors[one + 1 :]:
                meeting = links.meeting(one, other)
                if meeting is not None:
                    blocks[one, other] = chi[meeting, one] @ response[meeting, other]  # Eq. 14
    return blocks


def _propagators(links: Links, hinges: Hinges, k: int) -> dict[int, Array]:
    """χ of an end-effector at all links on its way. Eq. 11."""
    found: dict[int, Array] = {}
    chi = links.effector(k)
    for i in reversed(links.paths[links.tips[k]]):
        found[i] = chi
        if links.parents[i] >= 0:
            passed = np.zeros((6, 6), dtype=object)
            for j in HELD:
                passed[:, j] = chi[:, j] - chi[:, 2] * hinges.G[i][j]
            chi = np.array([links.inward(i, row) for row in passed], dtype=object)
    return found


def _response(links: Links, hinges: Hinges, i: int, before: Array | None, chi: Array) -> Array:
    """Λ⁻¹ of a link and an end-effector, from that of its parent. Eq. 13."""
    if links.is_floating(i):
        dense: Array = hinges.base @ chi.T
        return dense
    result = np.zeros((6, 6), dtype=object)
    if before is not None:
        result = np.array([hinges.propagated(links, i, column) for column in before.T], dtype=object).T
    result[2] = result[2] + chi[:, 2] * hinges.reciprocal[i]
    return result
