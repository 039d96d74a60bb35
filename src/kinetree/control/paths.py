"""Paths in time: polynomials from rest to rest, or with given velocities and accelerations at the ends.

    path              polynomial                    continuous at rest     minimises
    cubic             3s² − 2s³                     velocity               ∫ acceleration²
    quintic           10s³ − 15s⁴ + 6s⁵             acceleration           ∫ jerk²

Both are shown from rest to rest, s = t / seconds. The second is the minimum-jerk movement of [FH85], a model of human
reaching. The first has acceleration jumps at both ends, which appear in the torques.

[FH85] T. Flash, N. Hogan, "The coordination of arm movements", Journal of Neuroscience 5, 1985.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.pose_functions import interpolate, pose_error, real_numbers
from kinetree.errors import InputError, UnknownNameError
from kinetree.runtime.arguments import number
from kinetree.spatial.value import Array

# Powers of s, lowest first, that multiply Δ, T·v₀, T·v₁, T²·a₀ and T²·a₁.
_CUBIC = np.array([[0, 0, 3, -2], [0, 1, -2, 1], [0, 0, -1, 1]], dtype=float)
_QUINTIC = np.array(
    [
        [0, 0, 0, 10, -15, 6],
        [0, 1, 0, -6, 8, -3],
        [0, 0, 0, -4, 7, -3],
        [0, 0, 0.5, -1.5, 1.5, -0.5],
        [0, 0, 0, 0.5, -1, 0.5],
    ]
)
#: Values of `pose_path(timing=…)`.
TIMINGS = {"cubic": _CUBIC, "quintic": _QUINTIC}


class State(NamedTuple):
    """State of a path.

    Attributes:
        position: (…, n).
        velocity: [1/s].
        acceleration: [1/s²].
    """

    position: Array
    velocity: Array
    acceleration: Array


class PoseState(NamedTuple):
    """State of a path of poses.

    Attributes:
        pose: (…, 4, 4).
        velocity: Twist in world axes, at the moving frame's origin ("local_world_aligned"), (…, 6) [rad/s, m/s].
        acceleration: Its time derivative, (…, 6) [rad/s², m/s²].
    """

    pose: Array
    velocity: Array
    acceleration: Array


@dataclass(frozen=True, eq=False)
class Path:
    """A path of points, made by `cubic`, `quintic` or `minimum_jerk`; call it with times.

    Before 0 and after `seconds` it rests at its ends: velocity and acceleration are zero there.

    Attributes:
        start: Where it begins, of any shape.
        end: Where it ends, of the same shape.
        seconds: How long it takes [s].
    """

    start: Array
    end: Array
    seconds: float
    _weights: Array
    _powers: Array

    def __call__(self, time: Any) -> State:
        """Positions, velocities and accelerations at times of any shape, each (*time.shape, *start.shape).

        Args:
            time: [s].
        """
        times = _finite("time", time, nan=True)
        s = (times / self.seconds).reshape(times.shape + (1,) * self.start.ndim)
        inside = ~((s < 0.0) | (s > 1.0))  # NaN counts as inside, and stays NaN
        within = np.clip(s, 0.0, 1.0)
        results = []
        powers = self._powers
        for order in range(3):
            total = np.zeros(times.shape + self.start.shape)
            for polynomial, weight in zip(powers, self._weights):
                total = total + _value(polynomial, within) * weight
            results.append(np.where(inside, total / self.seconds**order, 0.0))
            powers = powers[:, 1:] * np.arange(1, powers.shape[1])
        position = self.start + results[0]
        # the ends are those that were given, to the last bit
        position = np.where(s >= 1.0, self.end, np.where(s <= 0.0, self.start, position))
        return State(position, results[1], results[2])


def cubic(start: Any, end: Any, seconds: float, *, start_velocity: Any = 0.0, end_velocity: Any = 0.0) -> Path:
    """A cubic polynomial in time from one point to another.

    Args:
        start: Array of any shape.
        end: As `start`; the two broadcast.
        seconds: How long it takes [s].
        start_velocity: Zero by default.
        end_velocity: Zero by default.
    """
    return _path(_CUBIC, start, end, seconds, velocities=(start_velocity, end_velocity))


def quintic(
    start: Any,
    end: Any,
    seconds: float,
    *,
    start_velocity: Any = 0.0,
    end_velocity: Any = 0.0,
    start_acceleration: Any = 0.0,
    end_acceleration: Any = 0.0,
) -> Path:
    """A fifth-degree polynomial in time from one point to another, which minimises ∫ jerk².

    Args:
        start: As for `cubic`.
        end: As for `cubic`.
        seconds: As for `cubic`.
        start_velocity: As for `cubic`.
        end_velocity: As for `cubic`.
        start_acceleration: Zero by default.
        end_acceleration: Zero by default.
    """
    velocities, accelerations = (start_velocity, end_velocity), (start_acceleration, end_acceleration)
    return _path(_QUINTIC, start, end, seconds, velocities, accelerations)


def minimum_jerk(start: Any, end: Any, seconds: float) -> Path:
    """The minimum-jerk movement from rest to rest: `quintic` with its defaults.

    Args:
        start: As for `cubic`.
        end: As for `cubic`.
        seconds: As for `cubic`.
    """
    return quintic(start, end, seconds)


@dataclass(frozen=True, eq=False)
class PosePath:
    """A path of poses, made by `pose_path`; call it with times. Before 0 and after `seconds` it rests at its ends.

    Attributes:
        start: Where it begins, (…, 4, 4).
        end: Where it ends, (…, 4, 4).
        seconds: How long it takes [s].
    """

    start: Array
    end: Array
    seconds: float
    _twist: Array
    _timing: Path

    def __call__(self, time: Any) -> PoseState:
        """Poses, velocities and accelerations at times of any shape, whose axes precede the path's own.

        Args:
            time: [s].
        """
        share, rate, change = self._timing(time)
        own = (1,) * (self.start.ndim - 2)
        pose = interpolate(self.start, self.end, share.reshape(share.shape + own))
        shape = share.shape + own + (1,)
        return PoseState(pose, rate.reshape(shape) * self._twist, change.reshape(shape) * self._twist)


def pose_path(start: Any, end: Any, seconds: float, timing: str = "quintic") -> PosePath:
    """A path from rest to rest along which the origin moves in a straight line and the frame turns about one axis.

    Args:
        start: Poses, (…, 4, 4).
        end: Poses, (…, 4, 4).
        seconds: How long it takes [s].
        timing: "quintic" (minimum jerk) or "cubic".

    Raises:
        InputError: If a matrix is not a pose, or leading axes do not broadcast.
    """
    if timing not in TIMINGS:
        raise UnknownNameError("timing", timing, tuple(TIMINGS))
    twist = pose_error(start, end, "local_world_aligned")
    shape = (*twist.shape[:-1], 4, 4)
    first, last = (np.array(np.broadcast_to(np.asarray(T, dtype=float), shape)) for T in (start, end))
    return PosePath(first, last, _seconds(seconds), twist, _path(TIMINGS[timing], 0.0, 1.0, seconds))


_REST = (0.0, 0.0)


def _path(
    powers: Array, start: Any, end: Any, seconds: Any, velocities: tuple[Any, ...] = _REST, accelerations: Any = _REST
) -> Path:
    T = _seconds(seconds)
    names = ("start", "end", "start_velocity", "end_velocity", "start_acceleration", "end_acceleration")
    given = [_finite(name, value) for name, value in zip(names, (start, end, *velocities, *accelerations))]
    try:
        shape = np.broadcast_shapes(*(one.shape for one in given))
    except ValueError:
        told = ", ".join(f"{name} {one.shape}" for name, one in zip(names, given))
        raise InputError(f"shapes do not broadcast: {told}") from None
    first, last, v0, v1, a0, a1 = (np.array(np.broadcast_to(one, shape)) for one in given)
    weights = [last - first, T * v0, T * v1, T * T * a0, T * T * a1][: len(powers)]
    return Path(first, last, T, np.array(weights), powers)


def _value(polynomial: Array, s: Array) -> Array:
    """Horner's scheme, lowest power first."""
    total: Array = np.full_like(s, polynomial[-1])
    for coefficient in polynomial[-2::-1]:
        total = total * s + coefficient
    return total


def _seconds(seconds: Any) -> float:
    return number("seconds", seconds, what="a positive duration", above=0.0)


def _finite(name: str, values: Any, nan: bool = False) -> Array:
    array = real_numbers(name, values)
    if not nan and not np.isfinite(array).all():
        raise InputError(f"{name} has NaN or infinite entries")
    return array
