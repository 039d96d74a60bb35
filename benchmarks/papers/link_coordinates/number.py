"""Numbers that count what is done to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kinetree.compiler.count import Count
from kinetree.spatial.value import Array


class Tally:
    """Operations, by the part of an algorithm that takes them.

    Attributes:
        transforms: Whether coordinates are being changed. Such operations are counted a second time, by themselves.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Counter[str]] = {}
        self._transforms: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self.transforms = False

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside belongs to a part."""
        before, self._now = self._now, self._parts.setdefault(name, Counter())
        yield
        self._now = before

    def charge(self, **operations: int) -> None:
        """Add operations that are known only by their number."""
        self._now.update(operations)

    def one(self, operation: str) -> None:
        """Add an operation, a field of `Count`."""
        self._now[operation] += 1
        if self.transforms:
            self._transforms[operation] += 1

    def parts(self) -> dict[str, Count]:
        """Operations of each part, in the order in which they were begun."""
        return {name: Count(**counter) for name, counter in self._parts.items()}

    @property
    def total(self) -> int:
        """Operations of all parts."""
        return sum(part.total for part in self.parts().values())

    def changing_coordinates(self) -> Count:
        """Those that only change coordinates."""
        return Count(**self._transforms)

    def numbers(self, array: Any) -> Array:
        """An array whose entries count. Zeros become structural: what is done with them costs nothing."""
        wrapped: Array = np.vectorize(lambda x: Number(float(x), self) if x else 0, otypes=[object])(array)
        return wrapped


class Number:
    """A number that tells its tally of each operation.

    The integers 0 and 1 are structural: to add 0 or to multiply by 0 or 1 is not an operation. Nor is a sign.
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Tally) -> None:
        self.value, self.tally = value, tally

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, int) and other == 0:
            return self
        self.tally.one("additions")
        return Number(self.value + value_of(other), self.tally)

    __radd__ = __add__

    def __neg__(self) -> Number:
        return Number(-self.value, self.tally)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, int) and other in (0, 1):
            return self if other else 0
        self.tally.one("multiplications")
        return Number(self.value * value_of(other), self.tally)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Number:
        self.tally.one("divisions")
        return Number(self.value / other.value, self.tally)

    def __rtruediv__(self, other: Any) -> Any:
        if other == 0:
            return 0
        self.tally.one("divisions")
        return Number(value_of(other) / self.value, self.tally)

    def sqrt(self) -> Number:
        """Its root."""
        self.tally.one("square_roots")
        return Number(math.sqrt(self.value), self.tally)


def value_of(number: Any) -> float:
    """What a number, or a structural 0 or 1, stands for."""
    return number.value if isinstance(number, Number) else float(number)


def values(array: Array) -> Array:
    """What the entries of an array stand for."""
    plain: Array = np.vectorize(value_of, otypes=[float])(array)
    return plain
