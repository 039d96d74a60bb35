"""Dual numbers x + ε x′ with ε² = 0: arithmetic on them differentiates whatever is computed."""

from __future__ import annotations

from typing import Any

import numpy as np


class Dual:
    """A scalar and its rate of change. Plain scalars beside it are constants.

    Both parts may be of any scalar type, the symbols of a tracer among them.
    """

    __slots__ = ("rate", "value")

    def __init__(self, value: Any, rate: Any) -> None:
        self.value, self.rate = value, rate

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented  # arrays go entry by entry
        if isinstance(other, Dual):
            return Dual(self.value + other.value, self.rate + other.rate)
        return Dual(self.value + other, self.rate)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.rate)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, Dual):
            return Dual(self.value - other.value, self.rate - other.rate)
        return Dual(self.value - other, self.rate)

    def __rsub__(self, other: Any) -> Dual:
        return Dual(other - self.value, -self.rate)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, Dual):
            return Dual(self.value * other.value, self.rate * other.value + self.value * other.rate)
        return Dual(self.value * other, self.rate * other)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Dual:
        quotient = other / self.value
        return Dual(quotient, -(quotient / self.value) * self.rate)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.rate})"
