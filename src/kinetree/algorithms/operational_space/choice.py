"""The choice behind `method="auto"`: by weights if nodes carry few rows, else `pv_osim` or `pv_osim_r`.

By weights, rows pass from node to node in the nodes' own coordinates, with weights that have few steps; the others
first express all nodes in the frame of the tree. This costs more than seven rows on each node do, on average: with up
to that many, `weights` was 1.1 to 1.45 times as fast on Panda, ANYmal and Talos with one to four frames. With many
rows on a long chain, it takes twice as long as `pv_osim_r`. Relative tasks are computed in the frame of the tree, too:
there, the poses of both ends differ by no more than the size of the robot, however far it is from the world's origin.

Among the others, candidates are algorithms with about the same time per operation; the one with fewer operations is
chosen. The rest rarely win: `efpa`, `chang_khatib` and
`rjk` repeat work that the candidates do once, `efpa_segments` is at best 0.4 % ahead, and `sparse_factorization`, whose
counts are up to a fifth lower on shallow trees, needs a third more time per operation, since its loops follow a list
from column to column. On four real robots with one to eight frames, the choice took at most 7 % longer than the fastest
of the six methods timed (all but `definition` and `chang_khatib`), with one exception: in single calls,
`sparse_factorization` is 12 % ahead for eight frames on nine joints.

The candidates differ only in the rows that pass through the joints and in the work at accumulation nodes, so only that
is counted, by closed formulas. Tracing the programs instead would take a hundred times as long as loading the compiled
kernel. The formulas are those that `accumulation.py` applies to individual nodes. They deviate from the count engine by
at most 4 % of all operations, and where this changes the choice, it does not matter (`tests/unit/test_count.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms.operational_space.accumulation import UNITS, AccumulationNodes
from kinetree.algorithms.operational_space.by_weights import BY_WEIGHTS
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.topology import WORLD

_WITHOUT, _WITH = "pv_osim", "pv_osim_r"
CANDIDATES = (_WITHOUT, _WITH)
#: Rows that a node carries, on average, up to which they are propagated by weights.
_MOST_ROWS = 7


def choose(mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The method that is expected to take the least time.

    Args:
        mechanism: The robot.
        sites: The task frames, with their rows.

    Returns:
        `BY_WEIGHTS`, or one of `CANDIDATES`.
    """
    relative = any(site.part == "near" for site in sites)
    rows, nodes = Rows(mechanism, sites), range(len(mechanism.kinds))
    if not relative and sum(len(rows.carried(k)) for k in nodes) <= _MOST_ROWS * len(nodes):
        return BY_WEIGHTS
    return fewest_operations(mechanism, sites)


def fewest_operations(mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The one of `CANDIDATES` that needs fewer operations."""
    return _WITH if saved_by_accumulation(mechanism, sites) > 0 else _WITHOUT


def saved_by_accumulation(mechanism: Mechanism, sites: Sequence[Site]) -> int:
    """Operations saved by `pv_osim_r` compared with `pv_osim`; negative if it needs more.

    Zero if there are no accumulation nodes: then both do the same, and `pv_osim` has less to set up.
    """
    rows = Rows(mechanism, sites)
    nodes = AccumulationNodes(mechanism, rows)
    if not nodes.nodes:
        return 0
    saved = sum(
        _passing(kind.nv, len(rows.carried(k))) - _passing(kind.nv, len(nodes.passing(k)))
        for k, kind in enumerate(mechanism.kinds)
    )
    for k in nodes.nodes:
        carried = len(rows.carried(k))
        saved -= 66 * carried  # Ω₀ times each row
        if nodes.above(k) != WORLD:
            saved -= 66 * carried + 648  # propagates each row, and Ω₀, to the next node
    for _, one, other in nodes.joins:
        first, second = len(rows.of(one)), len(rows.of(other))
        saved -= 12 * (first * (first + 1) // 2 if one == other else first * second)
    return saved


def _passing(freedom: int, rows: int) -> int:
    """Operations for rows that pass through a joint, and for all their pairs.

    A joint with six degrees of freedom needs no projection.
    """
    return freedom * rows * (6 if freedom == UNITS else 24) + freedom * rows * rows
