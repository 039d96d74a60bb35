"""Couplings between joints: coordinates that are functions of others, as in gears, belts, mimic joints, cams.

A `Coupling` is what the builder and loaders describe, a `Follower` its formula: arithmetic on scalars of any type,
given its constants and the coordinates of the leading joints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinetree.compiler.programs import Traced
from kinetree.errors import InputError
from kinetree.model.body import Record, frozen
from kinetree.model.nodes.formulas import digest
from kinetree.spatial.dual import IN_NODE, Dual
from kinetree.spatial.value import Array

# derivatives inside a node's formulas, which may themselves be differentiated
_FIRST, _SECOND = IN_NODE, IN_NODE + 1
_NO_CONSTANTS = frozen((), (0,))


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
    """c₀ + Σ cᵢ xᵢ, for a number of leaders."""

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
    """c₀ + c₁ x + c₂ x² + … of a single leader."""

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

    Functions that compute the same are equal, whatever their names. `owner` is named in errors.
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


@dataclass(frozen=True, eq=False)
class LinearCoupling(Record):
    """Σ cᵢ qᵢ = offset.

    Attributes:
        joints: Names of joints with one coordinate; the first one is expressed by the others unless that is impossible.
        coefficients: One for each joint.
        offset: [rad or m].
    """

    joints: tuple[str, ...]
    coefficients: Array
    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))
        if np.shape(self.coefficients) != (len(self.joints),):
            raise InputError(
                f"a coupling of {', '.join(self.joints)} has one coefficient for each; got {self.coefficients!r}"
            )
        object.__setattr__(self, "coefficients", frozen(self.coefficients, (len(self.joints),)))

    def expressed(self) -> Follows:
        """The first joint, expressed by the others."""
        own, *others = self.coefficients.tolist()
        slopes = {joint: -c / own for joint, c in zip(self.joints[1:], others, strict=True)}
        return Follows.linearly(slopes, self.offset / own)

    def __str__(self) -> str:
        if len(self.joints) == 1:
            return f"{self.joints[0]} = {self.offset / self.coefficients[0]:g}"
        if self.coefficients[0] == 1.0:
            followed = _sum(self.joints[1:], (-self.coefficients[1:]).tolist())
            offset = f" {'+' if self.offset > 0.0 else '-'} {abs(self.offset):g}" if self.offset else ""
            return f"{self.joints[0]} = {followed}{offset}"
        return f"{_sum(self.joints, self.coefficients.tolist())} = {self.offset:g}"


@dataclass(frozen=True, eq=False)
class _ExplicitCoupling(Record):
    """q of the first joint is given by a formula in those of the others."""

    joints: tuple[str, ...]

    @property
    def follower(self) -> Follower:
        """Its formula."""
        raise NotImplementedError

    @property
    def constants(self) -> Array:
        """Numbers of its formula."""
        return _NO_CONSTANTS

    def expressed(self) -> Follows:
        """The first joint, expressed by the others."""
        return Follows(self.joints[1:], self.follower, tuple(self.constants.tolist()))


@dataclass(frozen=True, eq=False)
class PolynomialCoupling(_ExplicitCoupling):
    """q of the first joint is c₀ + c₁ x + c₂ x² + …, with x that of the second.

    Attributes:
        joints: The follower and its leader.
        coefficients: Lowest power first.
    """

    coefficients: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", frozen(self.coefficients, (len(self.coefficients),)))

    @property
    def follower(self) -> Follower:
        return PolynomialFollower(len(self.coefficients) - 1)

    @property
    def constants(self) -> Array:
        return self.coefficients

    def __str__(self) -> str:
        return f"{self.joints[0]} = polynomial of {self.joints[1]}"


@dataclass(frozen=True, eq=False)
class FunctionCoupling(_ExplicitCoupling):
    """q of the first joint is a function of those of the others.

    Attributes:
        joints: The follower and its leaders.
        function: Arithmetic on scalars: numbers, dual numbers, symbols.
    """

    function: Callable[..., Any]

    @property
    def follower(self) -> Follower:
        return FunctionFollower(self.function, len(self.joints) - 1, f"coupling of joint {self.joints[0]!r}")

    def __str__(self) -> str:
        return f"{self.joints[0]} = function of {', '.join(self.joints[1:])}"


Coupling = LinearCoupling | PolynomialCoupling | FunctionCoupling


def _sum(joints: Sequence[str], coefficients: Sequence[float]) -> str:
    """A sum of multiples of coordinates, for messages."""
    text = ""
    for joint, c in zip(joints, coefficients, strict=True):
        sign = ("-" if c < 0.0 else "") if not text else (" - " if c < 0.0 else " + ")
        text += sign + (joint if abs(c) == 1.0 else f"{abs(c):g}·{joint}")
    return text


@dataclass(frozen=True)
class Follows:
    """How one joint follows from others, given by name: a formula with its numbers."""

    leaders: tuple[str, ...]
    formula: Follower
    constants: tuple[float, ...]

    @classmethod
    def linearly(cls, slopes: dict[str, float], offset: float) -> Follows:
        """offset + Σ slope · leader."""
        return cls(tuple(slopes), LinearFollower(len(slopes)), (offset, *slopes.values()))


def reduced_couplings(
    couplings: Sequence[Coupling], lock: Mapping[str, Any]
) -> tuple[tuple[Coupling, ...], dict[str, Any]]:
    """Couplings that remain when some joints are locked at given coordinates, and all joints that this locks.

    Raises:
        InputError: If the locked coordinates contradict a coupling, or a follower is locked without its leaders.
    """
    locked, left = dict(lock), list(couplings)
    found = True
    while found:
        found = False
        for coupling in list(left):
            free = [joint for joint in coupling.joints if joint not in locked]
            if len(free) == len(coupling.joints) or (len(free) > 1 and not isinstance(coupling, LinearCoupling)):
                continue
            at = {joint: _number(joint, locked[joint]) for joint in coupling.joints if joint in locked}
            left.remove(coupling)
            if isinstance(coupling, LinearCoupling):
                found |= _lock_linear(coupling, free, at, left, locked)
                continue
            follower, *leaders = coupling.joints
            if follower not in free and free:
                raise InputError(f"joint {follower!r} cannot be locked alone: {coupling}; lock {free[0]!r} instead")
            value = float(coupling.follower.value(coupling.constants, np.array([at[name] for name in leaders])))
            if free:
                locked[follower], found = value, True
            else:
                _require_met(coupling, at[follower] - value, abs(value))
    return tuple(left), locked


def _lock_linear(
    coupling: LinearCoupling, free: list[str], at: Mapping[str, float], left: list[Coupling], locked: dict[str, Any]
) -> bool:
    """Insert locked coordinates into a coupling; whether this locks another joint."""
    slopes = dict(zip(coupling.joints, coupling.coefficients.tolist(), strict=True))
    rest = coupling.offset - sum(slopes[joint] * value for joint, value in at.items())
    if not free:
        _require_met(coupling, rest, max(abs(slopes[joint] * value) for joint, value in at.items()))
    elif len(free) == 1:
        locked[free[0]] = rest / slopes[free[0]]
        return True
    else:
        left.append(LinearCoupling(tuple(free), np.array([slopes[joint] for joint in free]), rest))
    return False


def _require_met(coupling: Coupling, residual: float, size: float) -> None:
    if not abs(residual) <= 1e-9 * max(1.0, size):
        raise InputError(f"locked joints violate {coupling} by {abs(residual):g}; lock fewer of them")


def _number(joint: str, value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"joint {joint!r} is locked at one real number, got {value!r}")
    return float(array.reshape(()))
