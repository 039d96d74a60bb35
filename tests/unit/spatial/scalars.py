"""Scalar types that the spatial algebra must work on, and how close it must come with each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import sympy

from kinetree.spatial.scalar import register_scalar

Array = np.ndarray[Any, np.dtype[Any]]

_DIGITS = mpmath.MPContext()
_DIGITS.dps = 50

register_scalar(_DIGITS.mpf, sincos=lambda x: (_DIGITS.sin(x), _DIGITS.cos(x)), sqrt=_DIGITS.sqrt)
register_scalar(sympy.Basic, sincos=lambda x: (sympy.sin(x), sympy.cos(x)), sqrt=sympy.sqrt)


@dataclass(frozen=True)
class Scalars:
    """One scalar type."""

    name: str
    convert: Callable[[Array], Array]
    tolerance: float

    def random(self, rng: np.random.Generator, *shape: int) -> Array:
        return self.convert(rng.uniform(-1.0, 1.0, shape))

    def assert_close(self, one: Any, other: Any) -> None:
        difference = np.abs(np.asarray(one) - np.asarray(other))
        assert np.max(difference, initial=0.0) <= self.tolerance


def _complex(x: Array) -> Array:
    return x * (1.0 + 0.3j)


def _mpf(x: Array) -> Array:
    # thirds have no short binary form, so that a detour through float64 would show
    return np.array([_DIGITS.mpf(float(y)) / 3 for y in x.reshape(-1)], dtype=object).reshape(x.shape)


SCALARS = [
    Scalars("float64", lambda x: x, 1e-14),
    Scalars("longdouble", lambda x: x.astype(np.longdouble) / 3, 1e-17),
    Scalars("complex128", _complex, 1e-14),
    Scalars("mpmath", _mpf, 1e-45),
]
