"""The choice of an algorithm for Λ⁻¹."""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms import operational_space
from kinetree.algorithms.operational_space.choice import choose
from kinetree.errors import UnknownNameError
from kinetree.recursion.mechanism import Mechanism, Site

#: Names that `method=` takes besides "auto".
METHODS = tuple(operational_space.ALGORITHMS)


def chosen(method: str, mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The name of the algorithm that a choice means for some tasks of a mechanism."""
    if method == "auto":
        return choose(mechanism, sites)
    if method not in METHODS:
        raise UnknownNameError("method", method, ("auto", *METHODS))
    return method
