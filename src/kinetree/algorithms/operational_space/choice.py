"""What `method="auto"` means for a mechanism and its tasks: `pv_osim` or `pv_osim_r`, whichever needs fewer operations.

Candidates are the algorithms whose operations take about the same time. The others hardly win: `efpa`, `chang_khatib`
and `rjk` repeat what the candidates do once, `efpa_segments` is at best 0.4 % ahead, and `sparse_factorization`, whose
counts are up to a fifth lower on shallow trees, spends a third longer on each operation: its loops go from column to
column through a list. On four real robots with one to eight frames the choice took at most 7 % longer than the fastest
of the six that were timed (all but `definition` and `chang_khatib`), with one exception: in single calls,
`sparse_factorization` is 12 % ahead for eight frames on nine joints.

The candidates differ only in what passes the joints and in what accumulation nodes do, so only that is counted, by
formulas for the steps and without tracing a program: that would take a hundred times as long as to load the compiled
kernel. The formulas are those by which `accumulation.py` weighs single nodes. Against the count engine they are off by
at most 4 % of all operations, and where they choose differently it does not matter (`tests/unit/test_count.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms.operational_space.accumulation import UNITS, AccumulationNodes
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.topology import WORLD

_WITHOUT, _WITH = "pv_osim", "pv_osim_r"
CANDIDATES = (_WITHOUT, _WITH)


def choose(mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The candidate that needs fewer operations.

    Args:
        mechanism: The robot.
        sites: The frames of the tasks, with their rows.

    Returns:
        One of `CANDIDATES`.
    """
    return _WITH if saved_by_accumulation(mechanism, sites) > 0 else _WITHOUT


def saved_by_accumulation(mechanism: Mechanism, sites: Sequence[Site]) -> int:
    """Operations that `pv_osim` takes and `pv_osim_r` does not, less those that only the latter takes.

    Zero if there are no accumulation nodes: then both do the same, and the former has less to set up.
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
            saved -= 66 * carried + 648  # each row, and Ω₀, taken to the next node
    for _, one, other in nodes.joins:
        first, second = len(rows.of(one)), len(rows.of(other))
        saved -= 12 * (first * (first + 1) // 2 if one == other else first * second)
    return saved


def _passing(freedom: int, rows: int) -> int:
    """Operations for rows that pass a joint, and for all pairs of them.

    A joint with all six freedoms has no directions to project on.
    """
    return freedom * rows * (6 if freedom == UNITS else 24) + freedom * rows * rows
