"""Operation counts of all methods for Λ⁻¹ grow as claimed, exactly: they are polynomials of the claimed degrees.

The mechanism is a comb: a stem of s joints, and m limbs of l joints on its end, with a task each. So n = s + m l and
d = s + l. What does not depend on the tasks, placing the mechanism and its inertias, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from functools import cache

import numpy as np
import pytest

from benchmarks.growth import comb
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.compiler.count import count_passes
from kinetree.language.common_frame import in_common_frame

#: Long enough for accumulation nodes to pay.
STEM, LIMB, TASKS = 16, 4, 4


@cache
def operations(method: str, stem: int, limb: int, tasks: int) -> int:
    """For the tasks alone."""
    robot, sites = comb(stem, limb, tasks, tasks)
    passes = count_passes(in_common_frame(inverse_inertia(method, "local")), robot.mechanism, sites)
    return sum(part.total for name, part in passes.items() if name not in ("place", "inertias"))


def degree(values: Iterable[int]) -> int:
    """Of the polynomial through values at successive numbers: the last order of differences that are not all zero."""
    differences = [np.array(list(values), dtype=object)]
    while len(differences[-1]) > 1:
        differences.append(np.diff(differences[-1]))
    found = max(k for k, each in enumerate(differences) if each.any())
    assert found < len(differences) - 2, "not a polynomial of low degree"
    return found


@dataclass(frozen=True)
class Degrees:
    """Of a method's operations, in s, l and m; and in m, of what one more joint of the stem or of all limbs adds."""

    stem: int
    limb: int
    tasks: int
    tasks_per_stem: int
    tasks_per_limb: int

    @classmethod
    def of(cls, count: Callable[[int, int, int], int]) -> Degrees:
        several = range(2, 8)
        return cls(
            degree(count(STEM + i, LIMB, TASKS) for i in several),
            degree(count(STEM, LIMB + i, TASKS) for i in several),
            degree(count(STEM, LIMB, m) for m in several),
            degree(count(STEM + 1, LIMB, m) - count(STEM, LIMB, m) for m in several),
            degree(count(STEM, LIMB + 1, m) - count(STEM, LIMB, m) for m in several),
        )


CLAIMED = {
    "definition": Degrees(3, 3, 3, 2, 3),  # n³ + n²m + nm²
    "chang_khatib": Degrees(1, 1, 2, 1, 2),  # n m
    "rjk": Degrees(1, 1, 2, 0, 2),  # n + d m², d from where tasks meet: the limbs
    "efpa": Degrees(1, 1, 2, 1, 1),  # m d + m²
    "sparse_factorization": Degrees(3, 3, 2, 2, 1),  # n d² + m d² + m² d, tasks meeting at the stem
    "pv_osim": Degrees(1, 1, 2, 2, 1),  # m² d, tasks meeting at the stem
    "pv_osim_r": Degrees(1, 1, 2, 0, 1),  # n + m²
    "efpa_segments": Degrees(1, 1, 2, 0, 1),  # n + m²
}


@pytest.mark.parametrize("method", ALGORITHMS)
def test_operations_grow_as_claimed(method: str) -> None:
    assert astuple(Degrees.of(lambda s, l, m: operations(method, s, l, m))) == astuple(CLAIMED[method])


def test_degrees_are_found() -> None:
    for power in range(4):
        assert degree((x + 1) ** power for x in range(6)) == power
    with pytest.raises(AssertionError, match="not a polynomial"):
        degree(2**x for x in range(6))
