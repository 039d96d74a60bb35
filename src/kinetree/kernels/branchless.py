"""Choices between values in recursions and kernels: comparisons, bounds, limits that may be infinite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kinetree.spatial import scalar
from kinetree.spatial.value import Array

#: Limits beyond this are none.
UNBOUNDED = 1e300


def less(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x where a < b, else y; a depends on the sample."""
    return scalar.select(*(each if type(each) is scalar.Constant else np.asarray(each)[()] for each in (a, b, x, y)))


def above(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x where a > b, else y; a depends on the sample."""
    return less(-a, -b, x, y)


def where(flag: Any, x: Any, y: Any) -> Any:
    """x where a flag is 1, y where it is 0."""
    return less(flag, 0.5, y, x)


def between(x: Any, low: Any, high: Any) -> Any:
    """x within bounds."""
    return less(x, low, low, less(-x, -high, high, x))


def magnitude(x: Any) -> Any:
    """|x|."""
    return scalar.magnitude(np.asarray(x)[()])


def largest(values: Iterable[Any]) -> Any:
    """The largest |x|. Entries that are NaN do not count, unless it is the first."""
    first, *others = map(magnitude, values)
    found: Any = first
    for each in others:
        found = larger(found, each)
    return found


def larger(x: Any, y: Any) -> Any:
    """The larger one of two numbers."""
    return less(x, y, y, x)


def smaller(x: Any, y: Any) -> Any:
    """The smaller one of two numbers."""
    return less(x, y, x, y)


def nothing(x: Any) -> Any:
    """Zero, or x itself if it is not finite. Engines fold 0 · x to zero."""
    return less(magnitude(x), np.inf, 0.0, x)


def stand_in(limit: Array, at: Array) -> Array:
    """A limit, with the coordinate itself wherever there is none: a configuration."""
    return np.array([less(magnitude(end), UNBOUNDED, end, x) for end, x in zip(limit, at, strict=True)])
