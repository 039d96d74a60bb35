"""The choice behind `method="auto"`, `pv_osim` or `pv_osim_r`, and that of a view.

In own coordinates, rows pass from node to node with weights that have few steps; in the common frame of a tree, all
nodes are first brought there. This costs more than seven rows on each node do, on average: with up to that many,
`pv_osim` was 1.1 to 1.45 times as fast in own coordinates on Panda, ANYmal and Talos with one to four frames. With many
rows on a long chain, it takes twice as long there as `pv_osim_r` in the common frame. Relative tasks are computed in
the common frame, too: there, the poses of both ends differ by no more than the size of the robot, however far it is
from the world's origin.

Candidates are algorithms with about the same time per operation; the one with fewer operations is chosen. The rest
rarely win: `efpa`, `chang_khatib` and `rjk` repeat work that the candidates do once, `efpa_segments` is at best 0.4 %
ahead, and `sparse_factorization`, whose counts are up to a fifth lower on shallow trees, needs a third more time per
operation, since its loops follow a list from column to column. On four real robots with one to eight frames, the choice
took at most 7 % longer than the fastest of the six methods timed (all but `definition` and `chang_khatib`), with one
exception: in single calls, `sparse_factorization` is 12 % ahead for eight frames on nine joints.

The candidates differ only in the rows that pass through the joints and in the work at accumulation nodes, so only that
is counted, by closed formulas. Tracing the programs instead would take a hundred times as long as loading the compiled
kernel. The formulas are those that `accumulation.py` applies to individual nodes. They deviate from the count engine by
at most 4 % of all operations, and where this changes the choice, it does not matter (`tests/unit/test_count.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms.operational_space.accumulation import UNITS, AccumulationNodes
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.topology import WORLD

_WITHOUT, _WITH = "pv_osim", "pv_osim_r"
CANDIDATES = (_WITHOUT, _WITH)
#: Rows that a node carries, on average, up to which they pass nodes in own coordinates.
_MOST_ROWS = 7
#: Methods that refer to columns of matrices, which need no propagation in the common frame.
_BY_COLUMNS = ("definition", "sparse_factorization")


def prefers_common_frame(mechanism: Mechanism, sites: Sequence[Site]) -> bool:
    """Whether rows of tasks should be propagated in the common frame, if all nodes are rigid bodies.

    Args:
        mechanism: The robot.
        sites: The task frames, with their rows.
    """
    rows, nodes = Rows(mechanism, sites), range(len(mechanism.kinds))
    return _relative(sites) or sum(len(rows.carried(k)) for k in nodes) > _MOST_ROWS * len(nodes)


def _relative(sites: Sequence[Site]) -> bool:
    return any(site.part == "near" for site in sites)


def view_of(method: str, mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The view for a method, "own" or "common"; other arguments as of `prefers_common_frame`."""
    return "common" if method in _BY_COLUMNS or prefers_common_frame(mechanism, sites) else "own"


def view_of_rows(sites: Sequence[Site]) -> str:
    """The view for M⁻¹Jᵀ and J̇v, which take less time in own coordinates, however many rows there are."""
    return "common" if _relative(sites) else "own"


def choose(mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The one of `CANDIDATES` that is expected to take less time; arguments as of `prefers_common_frame`."""
    common = mechanism.first_general is None and prefers_common_frame(mechanism, sites)
    return fewest_operations(mechanism, sites) if common else _WITHOUT


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
