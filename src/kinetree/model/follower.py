"""Joint coordinates that are functions of others: gears, belts, mimic joints, cams.

A follower's formula takes its constants and the coordinates of its leaders, and is arithmetic on scalars of any type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinetree.engines.identity import Traced
from kinetree.model.formulas import digest
from kinetree.spatial.dual import IN_NODE, Dual
from kinetree.spatial.value import Array

# derivatives inside a node's formulas, which may themselves be differentiated
_FIRST, _SECOND = IN_NODE, IN_NODE + 1


class Follower(Protocol):
    """How one coordinate follows from others, up to numbers that are constants."""

    @property
    def constants(self) -> int:
        """Number of constants."""

    @property
    def name(self) -> str:
        """Unique among followers with different formulas."""

    def value(self, c: Array, x: Array) -> Any:
        """The coordinate, given those of its leaders."""

    def slopes(self, c: Array, x: Array) -> Array:
        """Its derivatives with respect to the leaders'."""

    def curvature(self, c: Array, x: Array, rate: Array) -> Any:
        """Its second derivative while the leaders move at constant rates."""


@dataclass(frozen=True)
class LinearFollower:
    """c₀ + Σ cᵢ xᵢ.

    Args:
        leaders: Number of leaders.
    """

    leaders: int

    @property
    def constants(self) -> int:
        return self.leaders + 1

    @property
    def name(self) -> str:
        return f"l{self.leaders}"

    def value(self, c: Array, x: Array) -> Any:
        total = c[0]
        for slope, one in zip(c[1:], x, strict=True):
            total = total + slope * one
        return total

    def slopes(self, c: Array, _x: Array) -> Array:
        return c[1:]

    def curvature(self, _c: Array, _x: Array, _rate: Array) -> Any:
        return 0.0


@dataclass(frozen=True)
class PolynomialFollower:
    """c₀ + c₁ x + c₂ x² + … of a single leader.

    Args:
        degree: Highest power.
    """

    degree: int

    @property
    def constants(self) -> int:
        return self.degree + 1

    @property
    def name(self) -> str:
        return f"p{self.degree}"

    def value(self, c: Array, x: Array) -> Any:
        return _horner(list(c), x[0])

    def slopes(self, c: Array, x: Array) -> Array:
        return np.array([_horner([i * c[i] for i in range(1, len(c))], x[0])])

    def curvature(self, c: Array, x: Array, rate: Array) -> Any:
        return _horner([i * (i - 1.0) * c[i] for i in range(2, len(c))], x[0]) * (rate[0] * rate[0])


def _horner(coefficients: list[Any], x: Any) -> Any:
    total: Any = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


@dataclass(frozen=True, eq=False)
class FunctionFollower(Traced):
    """A user's function of the leaders' coordinates, differentiated with dual numbers.

    Functions that compute the same are equal, whatever their names.

    Args:
        function: Takes one number for each leader.
        leaders: Number of leaders.
        owner: What to call it in errors.
    """

    function: Callable[..., Any]
    leaders: int
    owner: str
    name: str = field(init=False)

    def __post_init__(self) -> None:
        traced = digest(self.owner, (self.leaders,), lambda x: {"function": (lambda: self.function(*x), ())})
        object.__setattr__(self, "name", f"f{self.leaders}_{traced}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionFollower) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def constants(self) -> int:
        return 0

    def value(self, _c: Array, x: Array) -> Any:
        return self.function(*x)

    def slopes(self, _c: Array, x: Array) -> Array:
        units = np.eye(self.leaders)
        moved = [[Dual(one, rate, _FIRST) for one, rate in zip(x, unit, strict=True)] for unit in units]
        return np.array([_rate(self.function(*each), _FIRST) for each in moved])

    def curvature(self, _c: Array, x: Array, rate: Array) -> Any:
        moved = [Dual(Dual(one, v, _FIRST), v, _SECOND) for one, v in zip(x, rate, strict=True)]
        return _rate(_rate(self.function(*moved), _SECOND), _FIRST)


def _rate(value: Any, level: int) -> Any:
    return value.rate if isinstance(value, Dual) and value.level == level else 0.0
