"""Dual numbers x + ε x′ with ε² = 0: arithmetic on them differentiates whatever is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial import scalar


class Dual:
    """A scalar and its rate of change. Plain scalars beside it are constants.

    Both parts may be of any scalar type, the symbols of a tracer among them.

    Args:
        value: The scalar.
        rate: Its rate of change.
        level: Which derivative it belongs to, where one is taken inside another; numbers of lower levels are constants.
    """

    __slots__ = ("level", "rate", "value")

    def __init__(self, value: Any, rate: Any, level: int = 0) -> None:
        self.value, self.rate, self.level = value, rate, level

    def _other(self, other: Any) -> tuple[Any, Any]:
        """Value and rate of an operand: no rate (None) if it is a constant, no value (None) if it knows better."""
        if isinstance(other, Dual):
            if other.level == self.level:
                return other.value, other.rate
            if other.level > self.level:
                return None, None
        elif isinstance(other, np.ndarray):
            return None, None  # arrays go entry by entry
        return other, None

    def __add__(self, other: Any) -> Any:
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        return Dual(self.value + value, self.rate if rate is None else self.rate + rate, self.level)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.rate, self.level)

    def __sub__(self, other: Any) -> Any:
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        return Dual(self.value - value, self.rate if rate is None else self.rate - rate, self.level)

    def __rsub__(self, other: Any) -> Dual:
        return Dual(other - self.value, -self.rate, self.level)

    def __mul__(self, other: Any) -> Any:
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        along = self.rate * value
        return Dual(self.value * value, along if rate is None else along + self.value * rate, self.level)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        value, rate = self._other(other)
        if value is None:
            return NotImplemented
        quotient = self.value / value
        along = self.rate if rate is None else self.rate - quotient * rate
        return Dual(quotient, along / value, self.level)

    def __rtruediv__(self, other: Any) -> Dual:
        quotient = other / self.value
        return Dual(quotient, -(quotient / self.value) * self.rate, self.level)

    # NumPy's functions of arrays of objects call these.

    def sin(self) -> Dual:
        s, c = scalar.sincos(self.value)
        return Dual(s, c * self.rate, self.level)

    def cos(self) -> Dual:
        s, c = scalar.sincos(self.value)
        return Dual(c, -(s * self.rate), self.level)

    def sqrt(self) -> Dual:
        root = scalar.sqrt(self.value)
        return Dual(root, self.rate / (root + root), self.level)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.rate})"


scalar.sincos.register(Dual, lambda x: (x.sin(), x.cos()))
scalar.sqrt.register(Dual, lambda x: x.sqrt())
