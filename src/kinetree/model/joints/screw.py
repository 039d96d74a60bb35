"""Joints whose coordinates are not plain numbers: they follow screw motions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial import screw
from kinetree.spatial.value import Array


class ScrewStage(Stage):
    """A joint whose velocities are components of a body twist. Its derivatives are the corresponding ones of the twist.

    Attributes:
        screw: Indices of these components among the six of a body twist.
    """

    screw: ClassVar[tuple[int, ...]]

    def twist(self, step: Array) -> Array:
        """A velocity as a twist, (6,)."""
        parts = dict(zip(self.screw, step))
        return np.array([parts.get(i, 0.0) for i in range(6)])

    def transport(self, step: Array) -> Array:
        return self._own(screw.transport(self.twist(step)))

    def right_jacobian(self, step: Array) -> Array:
        return self._own(screw.right_jacobian(self.twist(step)))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return self._own(screw.inverse_right_jacobian(self.twist(step)))

    def bracket(self, x: Array) -> Array:
        return self._own(screw.bracket(self.twist(x)))

    def _own(self, matrix: Array) -> Array:
        own: Array = matrix[np.ix_(self.screw, self.screw)]
        return own
