"""Couplings between joints, as the builder and loaders describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model.follower import Follower, FunctionFollower, LinearFollower, PolynomialFollower
from kinetree.model.record import Record, frozen
from kinetree.spatial.value import Array


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
class PolynomialCoupling(Record):
    """q of the first joint is c₀ + c₁ x + c₂ x² + …, with x that of the second.

    Attributes:
        joints: The follower and its leader.
        coefficients: Lowest power first.
    """

    joints: tuple[str, ...]
    coefficients: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", frozen(self.coefficients, (len(self.coefficients),)))

    @property
    def follower(self) -> Follower:
        """Its formula."""
        return PolynomialFollower(len(self.coefficients) - 1)

    @property
    def constants(self) -> Array:
        """Numbers of its formula."""
        return self.coefficients

    def expressed(self) -> Follows:
        """The first joint, expressed by the others."""
        return Follows(self.joints[1:], self.follower, tuple(self.constants.tolist()))

    def __str__(self) -> str:
        return f"{self.joints[0]} = polynomial of {self.joints[1]}"


@dataclass(frozen=True, eq=False)
class FunctionCoupling(Record):
    """q of the first joint is a function of those of the others.

    Attributes:
        joints: The follower and its leaders.
        function: Arithmetic on scalars: numbers, dual numbers, symbols.
    """

    joints: tuple[str, ...]
    function: Callable[..., Any]

    @property
    def follower(self) -> Follower:
        """Its formula."""
        return FunctionFollower(self.function, len(self.joints) - 1, f"coupling of joint {self.joints[0]!r}")

    @property
    def constants(self) -> Array:
        """Numbers of its formula: none."""
        return frozen((), (0,))

    def expressed(self) -> Follows:
        """The first joint, expressed by the others."""
        return Follows(self.joints[1:], self.follower, tuple(self.constants.tolist()))

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
    """How one joint follows from others, as a formula with its numbers.

    Attributes:
        leaders: Names of the leading joints.
        formula: The formula.
        constants: Its numbers.
    """

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
    """Couplings that remain when some joints are locked, and all joints that this locks.

    Args:
        couplings: Couplings between joints.
        lock: Locked joints, with their coordinates.

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
