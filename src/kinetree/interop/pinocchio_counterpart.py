"""Conversion to and from Pinocchio's coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.interop.counterpart import CoordinatePlace, Counterpart, matched
from kinetree.interop.foreign import PINOCCHIO_HINTS, require_instance, require_pair
from kinetree.interop.pinocchio_frames import Frames
from kinetree.interop.pinocchio_joints import parts_of
from kinetree.model.model import Model
from kinetree.spatial.value import Array


class PinocchioCounterpart(Counterpart):
    """Converts to and from Pinocchio's coordinates; created by `interop.pinocchio`.

    Pinocchio orders joints differently, represents quaternions as x, y, z, w and unbounded and planar angles as cosine
    and sine, and puts the linear part of twists first. Its velocities are a permutation of Kinetree's, so no conversion
    needs q.
    """

    library = "Pinocchio"

    def __init__(self, robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> None:
        parts = {part.name: part for part in parts_of(model)}
        pairs = matched(robot, {name: (part.codec.kind,) for name, part in parts.items()}, joints, self.library)
        places = {
            name: CoordinatePlace(parts[pairs[name]].q, parts[pairs[name]].v, parts[pairs[name]].codec)
            for name in pairs
        }
        super().__init__(robot, model.nq, places)
        self.model = model
        numbers = Frames(model).numbers
        self._numbers = {name: numbers[name] for name in robot.frames if name in numbers}

    @property
    def frames(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def frame_id(self, frame: str) -> int:
        """Pinocchio's index of a frame, by its name in Kinetree."""
        self._require(frame)
        return self._numbers[frame]

    def read_poses(self, data: Any, frames: Sequence[str] | None = None) -> Array:
        """Poses of frames in the world as computed by `pinocchio.framesForwardKinematics`, (m, 4, 4).

        Args:
            data: A `pinocchio.Data`, updated by the caller.
            frames: Names of frames; by default `frames`.
        """
        require_instance("read_poses", data, "pinocchio", "Data", {})
        return np.array([data.oMf[self.frame_id(frame)].homogeneous for frame in self._chosen(frames)])


def pinocchio(robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> PinocchioCounterpart:
    """Converter to and from a Pinocchio model of the same robot.

    Joints are matched by name, and a single floating base by its kind. Both models must have the same joints with the
    same zero positions, as they do if they come from the same file or from `from_pinocchio`.

        other = kt.interop.pinocchio(robot, model)
        tau = other.from_tau(pin.rnea(model, data, other.to_q(q), other.to_v(v), other.to_a(a)))

    Args:
        robot: Kinetree's model.
        model: A `pinocchio.Model`.
        joints: Pinocchio's names of joints that have different names in Kinetree, by name in Kinetree.

    Raises:
        InputError: If a joint has no counterpart; names it.
    """
    require_pair("interop.pinocchio", robot, joints)
    require_instance("interop.pinocchio", model, "pinocchio", "Model", PINOCCHIO_HINTS)
    return PinocchioCounterpart(robot, model, joints)
