"""Unique names for a Pinocchio model's bodies and frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.value import Array

#: The order in which frames receive names, so that links keep theirs.
_TYPES = ("BODY", "OP_FRAME", "SENSOR", "FIXED_JOINT", "JOINT")


class Frames:
    """Pinocchio's frames, divided into Kinetree's bodies and the frames fixed to them.

    Pinocchio identifies frames by name and type, Kinetree by name alone, so duplicate names get a number as suffix.
    Joint frames that coincide with another frame are left out.

    Attributes:
        bodies: Name of each joint's body, by the joint's index.
        others: Name, joint index and pose in the joint, (4, 4), of each frame that is not a body.
        numbers: Pinocchio's index of each frame.
    """

    def __init__(self, model: Any) -> None:
        self._taken = {WORLD_NAME}
        self.bodies: dict[int, str] = {}
        self.others: list[tuple[str, int, Array]] = []
        self.numbers = {WORLD_NAME: 0}
        # the first of Pinocchio's frames is the world
        frames = [(number, model.frames[number]) for number in range(1, model.nframes)]
        rest = []
        for number, frame in frames:
            at, joint = np.array(frame.placement.homogeneous), int(frame.parentJoint)
            own = frame.type.name == "BODY" and np.array_equal(at, np.eye(4))
            if own and joint and joint not in self.bodies:
                self.bodies[joint] = self.free(frame.name, number)
            elif not (own and joint == 0 and frame.name == WORLD_NAME):
                rest.append((_TYPES.index(frame.type.name), number, frame.name, joint, at))
        for joint in range(1, model.njoints):
            if joint not in self.bodies:
                self.bodies[joint] = self.free(f"{model.names[joint]} body")
        placed = {(joint, np.eye(4).tobytes()) for joint in range(model.njoints)}
        for kind, number, name, joint, at in sorted(rest, key=lambda entry: entry[:2]):
            if _TYPES[kind].endswith("JOINT") and (joint, at.tobytes()) in placed:
                continue
            placed.add((joint, at.tobytes()))
            self.others.append((self.free(name, number), joint, at))

    def free(self, name: str, number: int | None = None) -> str:
        """Reserve a name that is not used yet.

        Args:
            name: The preferred name.
            number: Pinocchio's index of the frame.
        """
        count, tried = 1, name
        while tried in self._taken:
            count += 1
            tried = f"{name} ({count})"
        self._taken.add(tried)
        if number is not None:
            self.numbers[tried] = number
        return tried
