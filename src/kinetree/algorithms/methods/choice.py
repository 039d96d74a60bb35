"""The choice behind `method="auto"`, `pv_osim` or `pv_osim_r`, and that of a view.

In own coordinates, rows pass from node to node with weights that have few steps; for the common frame of a tree, all
nodes are first brought there. On Panda, ANYmal, Talos and chains of 30 and 60 bodies with two to eight frames, the
candidate that is chosen took 2 to 30 % less time in own coordinates, alone and in batches; the other one up to 4 %
more for eight frames on ANYmal, and up to 11 % more in single calls for eight on a chain. Relative tasks are computed
in the common frame: there, the poses of both ends differ by no more than the size of the robot, however far it is from
the world's origin. So are the methods that refer to columns of matrices, which need no propagation there.

Candidates are algorithms with about the same time per operation. The rest rarely win: `efpa`, `chang_khatib` and `rjk`
repeat work that the candidates do once, `efpa_segments` is at best 0.4 % ahead, and `sparse_factorization`, whose
counts are up to a fifth lower on shallow trees, needs a third more time per operation, since its loops follow a list
from column to column.

The candidates differ only in the rows that pass through the joints and in the work at accumulation nodes, so only that
is counted, by closed formulas. Tracing the programs instead would take a hundred times as long as loading the compiled
kernel. The formulas are those that `accumulation.py` applies to individual nodes. They deviate from the count engine by
at most 4 % of all operations (`tests/unit/compiler/test_count.py`). `pv_osim_r` must save a share of what it counts,
since its products at accumulation nodes take longer in batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms.methods.accumulation import UNITS, AccumulationNodes
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.setup import Rows

_WITHOUT, _WITH = "pv_osim", "pv_osim_r"
CANDIDATES = (_WITHOUT, _WITH)
#: The share of the operations of rows that pass joints from which on accumulation nodes save time.
_LEAST_SAVED = 0.15
#: Methods that refer to columns of matrices.
_BY_COLUMNS = ("definition", "sparse_factorization")


def view_of(sites: Sequence[Site], method: str = _WITHOUT) -> str:
    """The view for recursions of the rows of tasks at these sites, "own" or "common"; method: that for Λ⁻¹."""
    return "common" if method in _BY_COLUMNS or any(site.part == "near" for site in sites) else "own"


def choose(mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The one of `CANDIDATES` that is expected to take less time for the rows of tasks at these sites."""
    if mechanism.first_general is not None:
        return _WITHOUT
    rows = Rows(mechanism, sites)
    passing = sum(_passing(kind.nv, len(rows.carried(k))) for k, kind in enumerate(mechanism.kinds))
    return _WITH if saved_by_accumulation(mechanism, sites) > _LEAST_SAVED * passing else _WITHOUT


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
