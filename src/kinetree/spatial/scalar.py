"""Elementary functions of one scalar, whatever its type.

Floats and complex numbers go to NumPy. Traced symbols bring their own methods. Other scalars (mpmath, sympy, dual
numbers) are taught with `register_scalar`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

#: Beyond this angle (radians) neighbouring float64 numbers are 1/64 rad apart: sin and cos mean nothing, and are NaN.
LARGEST_ANGLE = 2.0**46


@singledispatch
def sincos(angle: Any) -> tuple[Any, Any]:
    """Sine and cosine of an angle in radians; NaN beyond `LARGEST_ANGLE`."""
    if not abs(angle) <= LARGEST_ANGLE:
        return angle * np.nan, angle * np.nan
    return np.sin(angle), np.cos(angle)


@singledispatch
def sqrt(x: Any) -> Any:
    """Square root."""
    return np.sqrt(x)


def register_scalar(kind: type, *, sincos: Callable[[Any], tuple[Any, Any]], sqrt: Callable[[Any], Any]) -> None:
    """Teach a scalar type its elementary functions, so that the reference engine can compute with it.

    Args:
        kind: The scalar's class, for example `mpmath.mpf`.
        sincos: Gives the sine and the cosine of an angle in radians.
        sqrt: Gives the square root.
    """
    _sincos_of.register(kind, sincos)
    _sqrt_of.register(kind, sqrt)


_sincos_of, _sqrt_of = sincos, sqrt
