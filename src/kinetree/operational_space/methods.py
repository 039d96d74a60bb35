"""Algorithms for Λ⁻¹ by name."""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.algorithms import operational_space
from kinetree.algorithms.operational_space.choice import choose
from kinetree.errors import UnknownNameError
from kinetree.recursion.mechanism import Mechanism, Site

#: Published algorithms: values of `method=` besides "auto".
METHODS = tuple(operational_space.ALGORITHMS)


def chosen(method: str, mechanism: Mechanism, sites: Sequence[Site]) -> str:
    """The name of the algorithm for some tasks of a mechanism; resolves "auto"."""
    if method == "auto":
        return choose(mechanism, sites)
    require_method(method)
    return method


def require_method(method: str) -> None:
    """Raise `UnknownNameError` unless this is a value of `method=`."""
    known = ("auto", *METHODS)
    if method not in known:
        raise UnknownNameError("method", method, known)
