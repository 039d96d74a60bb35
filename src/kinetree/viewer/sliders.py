"""Sliders for joint coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.model.joint import Joint
from kinetree.model.model import Model
from kinetree.spatial.rotation import exp_quaternion, matrix_of, multiply
from kinetree.spatial.value import Array

# Range of the sliders of joints without limits, to either side [rad, m].
_TURN, _LENGTH = math.pi, 2.0


@dataclass(frozen=True)
class Coordinate:
    """One slider.

    Attributes:
        label: Its label.
        lower: Left end [rad or m].
        upper: Right end [rad or m].
    """

    label: str
    lower: float
    upper: float


def coordinates(joint: Joint) -> tuple[Coordinate, ...]:
    """The sliders of a joint: its coordinates, with roll, pitch and yaw in place of a quaternion."""
    if joint.type.nq == joint.type.nv:
        count = joint.type.nq
        names = [joint.name] if count == 1 else [f"{joint.name} {i}" for i in range(count)]
        return tuple(
            _bounded(name, low, high, _TURN if angle else _LENGTH)
            for name, low, high, angle in zip(names, joint.limits.lower, joint.limits.upper, joint.type.angles)
        )
    lengths = [Coordinate(f"{joint.name} {axis}", -_LENGTH, _LENGTH) for axis in "xyz"[: joint.type.nq - 4]]
    turns = [Coordinate(f"{joint.name} {name}", -_TURN, _TURN) for name in ("roll", "pitch", "yaw")]
    return (*lengths, *turns)


def _bounded(label: str, lower: float, upper: float, reach: float) -> Coordinate:
    low = lower if math.isfinite(lower) else (upper - 2.0 * reach if math.isfinite(upper) else -reach)
    high = upper if math.isfinite(upper) else (lower + 2.0 * reach if math.isfinite(lower) else reach)
    return Coordinate(label, low, high)


def values_of(joint: Joint, q: Array) -> Array:
    """Slider values of a joint at its configuration, (nq,)."""
    if joint.type.nq == joint.type.nv:
        return q
    R = matrix_of(q[-4:])
    pitch = math.asin(min(max(-R[2, 0], -1.0), 1.0))
    roll, yaw = math.atan2(R[2, 1], R[2, 2]), math.atan2(R[1, 0], R[0, 0])
    return np.array([*q[:-4], roll, pitch, yaw])


def configuration_of(joint: Joint, values: Array) -> Array:
    """The configuration of a joint, (nq,), from its slider values."""
    if joint.type.nq == joint.type.nv:
        return values
    about_x, about_y, about_z = (exp_quaternion(angle * axis) for angle, axis in zip(values[-3:], np.eye(3)))
    return np.concatenate([values[:-3], multiply(multiply(about_z, about_y), about_x)])


class Sliders:
    """Sliders of all joints of a robot.

    Args:
        gui: GUI of a viser server.
        robot: The mechanism.
        moved: Called with a joint and its new configuration, (nq,), when a user moves one of its sliders.
    """

    def __init__(self, gui: Any, robot: Model, moved: Callable[[Joint, Array], None]) -> None:
        self._handles: list[tuple[Joint, list[Any]]] = []
        q = robot.neutral()
        for joint in (joint for joint in robot.joints if joint.nv):  # others follow
            values = values_of(joint, q[joint.q_slice])
            handles = [_slider(gui, one, float(value)) for one, value in zip(coordinates(joint), values)]
            for handle in handles:
                handle.on_update(_moved(joint, handles, moved))
            self._handles.append((joint, handles))

    def show(self, q: Array) -> None:
        """Set all sliders to a configuration, clamping values to their ranges."""
        for joint, handles in self._handles:
            for handle, value in zip(handles, values_of(joint, q[joint.q_slice])):
                within = min(max(float(value), handle.min), handle.max)
                if handle.value != within:
                    handle.value = within


def _moved(joint: Joint, handles: list[Any], moved: Callable[[Joint, Array], None]) -> Callable[[Any], None]:
    def update(event: Any) -> None:
        if event.client is not None:  # otherwise the program moved it
            moved(joint, configuration_of(joint, np.array([handle.value for handle in handles])))

    return update


def _slider(gui: Any, coordinate: Coordinate, value: float) -> Any:
    # limits rounded inwards to thousandths are easier to read
    low, high = math.ceil(1e3 * coordinate.lower) / 1e3, math.floor(1e3 * coordinate.upper) / 1e3
    if high - low < 0.1:
        low, high = coordinate.lower, coordinate.upper
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-6) / 500.0))
    return gui.add_slider(coordinate.label, low, high, step, min(max(value, low), high))
