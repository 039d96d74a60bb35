"""Feet that stand on something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.control.goals import nonnegative
from kinetree.errors import InputError
from kinetree.model.constraint_kinds import Weld
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Foot:
    """A flat sole, or a point, that stands on something.

    Attributes:
        frame: Frame of the sole; its z axis is the normal of the ground, pointing at the robot.
        size: Length and width of the sole along the frame's x and y axes [m]; (0, 0) for a point, which may turn.
        friction: Coefficient of friction μ.
    """

    frame: str
    size: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str):
            raise InputError(f"a Foot takes the name of a frame, got {type(self.frame).__name__}")
        size = tuple(self.size) if isinstance(self.size, (tuple, list, np.ndarray)) else ()
        if len(size) != 2:
            raise InputError(f"foot {self.frame!r}: size is the sole's length and width [m], got {self.size!r}")
        checked = tuple(nonnegative(f"foot {self.frame!r}: size", each) for each in size)
        if (checked[0] > 0.0) != (checked[1] > 0.0):
            raise InputError(f"foot {self.frame!r}: size {checked} is a line; give both edges, or (0, 0) for a point")
        object.__setattr__(self, "size", checked)
        object.__setattr__(self, "friction", nonnegative(f"foot {self.frame!r}: friction", self.friction))

    @property
    def points(self) -> Array:
        """Contact points in the frame, (1, 3) or (4, 3)."""
        x, y = (0.5 * edge for edge in self.size)
        return np.array([[i * x, j * y, 0.0] for i in (-1, 1) for j in (-1, 1)][: 4 if x > 0.0 else 1])

    @property
    def weld(self) -> Weld:
        """The rows that the contact holds."""
        return Weld(self.frame, rows="all" if self.size[0] > 0.0 else "position")
