"""Shields the library from the caller's floating-point settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from kinetree.engines.native.compiled import standard_arithmetic

P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with NumPy's floating-point errors ignored: an overflow concerns only its own sample."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return run


def ieee_default(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in IEEE default arithmetic, whatever the calling thread's rounding and flushing."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # switching takes compiled code, so it is left out where there is nothing to switch
        with np.errstate(all="ignore") if _standard(1.0, 1e-17, 5e-324) else standard_arithmetic():
            return function(*args, **kwargs)

    return run


def _standard(one: float, small: float, subnormal: float) -> bool:
    """Whether this thread rounds to nearest and keeps subnormal numbers. Arguments, so that Python computes nothing."""
    return one + small == one and one - small == one and one * subnormal > 0.0
