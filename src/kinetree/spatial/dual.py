"""Dual numbers x + ε x′ with ε² = 0: forward-mode differentiation by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial import scalar

#: Levels of nested derivatives: of a node's formulas, by a recursion; inside these formulas; inside those of its
#: coordinates. Whole recursions are differentiated at level 0 or below. What is differentiated inside of something else
#: must have a higher level.
OF_NODE, IN_NODE, IN_MANIFOLD = 1, 2, 3
#: The level of recursions that reverse mode differentiates again: above 0, below which tapes take duals for constants.
IN_REVERSE = 0.5


class Dual:
    """A scalar and its rate of change. Plain scalars are treated as constants.

    Both parts may be of any scalar type, including a tracer's symbols.

    Args:
        value: The scalar.
        rate: Its rate of change.
        level: Level of differentiation, for nested derivatives; duals of lower levels are constants.
    """

    __slots__ = ("level", "rate", "value")

    def __init__(self, value: Any, rate: Any, level: float = 0) -> None:
        self.value, self.rate, self.level = value, rate, level

    def _other(self, other: Any) -> tuple[Any, Any]:
        """Value and rate of an operand: rate None for a constant, value None if its own operator must handle it."""
        if isinstance(other, Dual):
            if other.level == self.level:
                return other.value, other.rate
        elif isinstance(other, np.ndarray):
            return None, None  # arrays are handled entry by entry
        return other, None

    def _below(self, other: Any) -> bool:
        """Whether this is a constant for the other operand, which must then handle the operation.

        Python would not ask it, because both are of the same type.
        """
        return isinstance(other, Dual) and other.level > self.level

    def __add__(self, other: Any) -> Any:
        if self._below(other):
            return other.__radd__(self)
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        return Dual(self.value + value, self.rate if rate is None else self.rate + rate, self.level)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.rate, self.level)

    def __sub__(self, other: Any) -> Any:
        if self._below(other):
            return other.__rsub__(self)
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        return Dual(self.value - value, self.rate if rate is None else self.rate - rate, self.level)

    def __rsub__(self, other: Any) -> Dual:
        return Dual(other - self.value, -self.rate, self.level)

    def __mul__(self, other: Any) -> Any:
        if self._below(other):
            return other.__rmul__(self)
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        along = self.rate * value
        return Dual(self.value * value, along if rate is None else along + self.value * rate, self.level)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if self._below(other):
            return other.__rtruediv__(self)
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        quotient = self.value / value
        along = self.rate if rate is None else self.rate - quotient * rate
        return Dual(quotient, along / value, self.level)

    def __rtruediv__(self, other: Any) -> Dual:
        quotient = other / self.value
        return Dual(quotient, -(quotient / self.value) * self.rate, self.level)

    # Called by NumPy's functions on object arrays.

    def sin(self) -> Dual:
        s, c = scalar.sincos(self.value)
        return Dual(s, c * self.rate, self.level)

    def cos(self) -> Dual:
        s, c = scalar.sincos(self.value)
        return Dual(c, -(s * self.rate), self.level)

    def sqrt(self) -> Dual:
        root = scalar.sqrt(self.value)
        return Dual(root, self.rate / (root + root), self.level)

    def log(self) -> Dual:
        return Dual(scalar.log(self.value), self.rate / self.value, self.level)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.rate})"


scalar.sincos.register(Dual, lambda x: (x.sin(), x.cos()))
scalar.sqrt.register(Dual, lambda x: x.sqrt())
scalar.log.register(Dual, lambda x: x.log())


@scalar.select.register(Dual)
def _select(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Where a < b is decided by the values; the rate is that of the branch taken."""
    a, b = _value(a), _value(b)
    levels = [each.level for each in (x, y) if isinstance(each, Dual)]
    if not levels:
        return scalar.select(a, b, x, y)
    top = max(levels)
    (x, dx), (y, dy) = _split(x, top), _split(y, top)
    return Dual(_either(a, b, x, y), _either(a, b, dx, dy), top)


def select(a: Any, b: Any, x: Any, y: Any) -> Any:
    """`scalar.select`, also where a is no dual number but others are."""
    return _select(a, b, x, y) if any(type(each) is Dual for each in (a, b, x, y)) else scalar.select(a, b, x, y)


@scalar.arctan2.register(Dual)
def _arctan2(y: Any, x: Any) -> Any:
    top = max(each.level for each in (y, x) if isinstance(each, Dual))
    (y, dy), (x, dx) = _split(y, top), _split(x, top)
    return Dual(arctan2(y, x), (x * dy - y * dx) / (x * x + y * y), top)


def arctan2(y: Any, x: Any) -> Any:
    """`scalar.arctan2`, also where y is no dual number but x is."""
    return _arctan2(y, x) if type(x) is Dual else scalar.arctan2(y, x)


def _either(a: Any, b: Any, x: Any, y: Any) -> Any:
    """`select` with a plain a and b, for duals of any level."""
    return _select(a, b, x, y) if isinstance(x, Dual) or isinstance(y, Dual) else scalar.select(a, b, x, y)


def _value(x: Any) -> Any:
    """The plain scalar, without the rates of any level."""
    while isinstance(x, Dual):
        x = x.value
    return x


def _split(x: Any, level: float) -> tuple[Any, Any]:
    """The value of a scalar and its rate at a level."""
    return (x.value, x.rate) if isinstance(x, Dual) and x.level == level else (x, 0.0)


def along(x: Any, direction: Any, level: float) -> Any:
    """An array of numbers that change along a direction."""
    moving = np.empty(len(x), dtype=object)
    moving[:] = [Dual(value, rate, level) for value, rate in zip(x, direction, strict=True)]
    return moving


def rates_of(values: Any, level: float) -> Any:
    """The rates of values that may be dual numbers, as an array; constants have rate zero."""
    values = np.asarray(values)
    rates = [x.rate if isinstance(x, Dual) and x.level == level else 0.0 for x in values.reshape(-1)]
    return np.array(rates).reshape(values.shape)
