"""Elementary functions of a single scalar of any type.

Floats and complex numbers are passed to NumPy. Traced symbols have methods of their own. Other scalar types (mpmath,
sympy, dual numbers) are registered with `register_scalar`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

#: Beyond this angle [rad], adjacent float64 numbers are 1/64 rad apart: sin and cos are meaningless, and NaN.
LARGEST_ANGLE = 2.0**46


class Constant(float):
    """A number of a formula that depends on the floating-point format, such as a threshold or a rounding error.

    It is a float with the value for float64. Kernels in float32 take the other value, also of what is computed from it
    and other numbers before a kernel is traced. NumPy's numbers and arrays know only the value for float64: use it as a
    scalar.

    Args:
        double: Its value in float64.
        single: Its value in float32.
    """

    single: float

    def __new__(cls, double: float, single: float) -> Constant:
        made = super().__new__(cls, double)
        made.single = float(np.float32(single))
        return made

    def __reduce__(self) -> tuple[type[Constant], tuple[float, float]]:
        return Constant, (float(self), self.single)

    def __eq__(self, other: object) -> bool:
        return float.__eq__(self, other) is True and self.single == getattr(other, "single", other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__

    def __repr__(self) -> str:
        return f"Constant({float(self)!r}, {self.single!r})"

    def __neg__(self) -> Constant:
        return Constant(-float(self), -self.single)

    def _with(self, other: Any, operation: Callable[[float, float], float]) -> Any:
        if type(other) not in (int, float, Constant):
            return NotImplemented
        return Constant(operation(float(self), float(other)), operation(self.single, getattr(other, "single", other)))

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda x, y: y + x)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, lambda x, y: y * x)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda x, y: y / x)


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


@singledispatch
def arctan2(y: Any, x: Any) -> Any:
    """Angle in [0, π/2] of the point (x, y) in the first quadrant, x ≥ 0 and y ≥ 0; NaN at the origin. Analytic."""
    if y == x == 0.0:
        return y * np.nan
    if np.real(x) < np.real(y):
        return np.pi / 2.0 - np.arctan(x / y)
    return np.arctan(y / x)


@singledispatch
def log(x: Any) -> Any:
    """Natural logarithm; −∞ at zero. Analytic."""
    return np.log(x)


@singledispatch
def select(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x where a < b, else y. Both are evaluated; complex numbers are compared by their real parts.

    Dispatches on the type of `a`.
    """
    return x if np.real(a) < np.real(b) else y


@select.register(np.ndarray)
def _select_entries(a: Any, b: Any, x: Any, y: Any) -> Any:
    return np.where(np.real(a) < np.real(b), x, y)


def magnitude(x: Any) -> Any:
    """|x|; ±x for complex numbers, whichever has the positive real part."""
    return select(x, 0.0, -x, x)


def register_scalar(
    kind: type,
    *,
    sincos: Callable[[Any], tuple[Any, Any]],
    sqrt: Callable[[Any], Any],
    arctan2: Callable[[Any, Any], Any] | None = None,
    log: Callable[[Any], Any] | None = None,
) -> None:
    """Register the elementary functions of a scalar type, so that the reference engine can compute with it.

    Args:
        kind: The scalar's class, for example `mpmath.mpf`.
        sincos: Returns the sine and the cosine of an angle in radians.
        sqrt: Returns the square root.
        arctan2: Returns the angle of the point (x, y), called with y and x, both at least 0. Required by `difference`
            and `ddifference`.
        log: Returns the natural logarithm. Required by `mass_matrix_log_determinant`.
    """
    _sincos_of.register(kind, sincos)
    _sqrt_of.register(kind, sqrt)
    if arctan2 is not None:
        _arctan2_of.register(kind, arctan2)
    if log is not None:
        _log_of.register(kind, log)


_sincos_of, _sqrt_of, _arctan2_of, _log_of = sincos, sqrt, arctan2, log
