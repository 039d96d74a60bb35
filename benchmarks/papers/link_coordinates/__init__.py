"""The algorithms that [W12] compares, carried out in link coordinates on numbers that count.

Kinetree works in one frame per tree, where propagation costs no coordinate transforms. The paper's authors change
coordinates at every joint. This package does as they do, only to be counted: it explains why published ratios differ
from those of the library.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from benchmarks.papers.link_coordinates.efpa import efpa
from benchmarks.papers.link_coordinates.links import Blocks, Links
from benchmarks.papers.link_coordinates.number import Tally
from benchmarks.papers.link_coordinates.rjk import rjk
from benchmarks.papers.link_coordinates.sparse import sparse
from kinetree.zoo import asimo35, asimo35_tasks

#: By the names that the paper gives them. In "RJK, shared" pairs share what they have in common.
ALGORITHMS: dict[str, Callable[[Links], Blocks]] = {
    "SFA": sparse,
    "RJK": rjk,
    "EFPA": efpa,
    "RJK, shared": partial(rjk, shared=True),
}

__all__ = ["ALGORITHMS", "links_of", "operations"]


def links_of(variant: str) -> Links:
    """The links of a mechanism of the paper, and the end-effectors on them."""
    robot = asimo35(variant)
    tips = [robot.site(task).node for task in asimo35_tasks(variant)]
    return Links(robot.mechanism.parents, robot.mechanism.kinds[0].nv == 6, tips)


@cache
def operations(variant: str, algorithm: str) -> Tally:
    """What an algorithm takes on a mechanism of the paper."""
    links = links_of(variant)
    ALGORITHMS[algorithm](links)
    return links.tally
