"""Which algorithm for Λ⁻¹ is best for a mechanism and its tasks, by counting operations.

Candidates are the algorithms whose operations take about the same time. The others have not been seen to win: `efpa`,
`chang_khatib` and `rjk` repeat what the candidates do once, `efpa_segments` is at best 0.4 % ahead, and
`sparse_factorization`, whose counts are up to a fifth lower on shallow trees, spends a third longer on each operation:
its loops go from column to column through a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ramify.algorithms.operational_space import inverse_inertia
from ramify.engines.count import count
from ramify.recursion.mechanism import Mechanism, Site
from ramify.recursion.rows import Rows
from ramify.recursion.stations import Stations

_WITHOUT_STATIONS = "pv_osim"
CANDIDATES = (_WITHOUT_STATIONS, "pv_osim_r")


def choose(mechanism: Mechanism, sites: Sequence[Site], reference: str) -> str:
    """The method with the fewest operations.

    Args:
        mechanism: The robot.
        sites: The frames of the tasks, with their rows.
        reference: From where they are seen.

    Returns:
        One of `CANDIDATES`.
    """
    return _choose(mechanism, tuple(sites), reference)


@lru_cache(maxsize=256)
def _choose(mechanism: Mechanism, sites: tuple[Site, ...], reference: str) -> str:
    if not Stations(mechanism, Rows(mechanism, sites)).nodes:
        return _WITHOUT_STATIONS  # all candidates do the same then, and this one has the least to set up
    return min(CANDIDATES, key=lambda method: count(inverse_inertia(method, reference), mechanism, sites).total)
