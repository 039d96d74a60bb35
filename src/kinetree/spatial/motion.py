"""Spatial motion and force vectors, angular part first, in the coordinates of a single frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from kinetree.spatial.rotation import cross, stack
from kinetree.spatial.value import Array, Linear

if TYPE_CHECKING:
    from typing_extensions import Self


class SpatialVector(Linear):
    """Six numbers: an angular three-vector and a linear one."""

    __slots__ = ()
    size = 6

    @classmethod
    def of(cls, angular: Any, linear: Any) -> Self:
        """From the angular and the linear part."""
        return cls(stack(angular, linear))

    @property
    def angular(self) -> Array:
        return self.data[:3]

    @property
    def linear(self) -> Array:
        return self.data[3:]


class Force(SpatialVector):
    """A wrench: moment about the frame's origin [N m], then force [N]. Also a momentum."""

    __slots__ = ()

    @classmethod
    def unit(cls, component: int) -> Force:
        """The unit vector of a component."""
        return cls(np.eye(6)[component])

    @staticmethod
    def is_linear(component: int) -> bool:
        """Whether a component belongs to the force rather than to the moment."""
        return component >= 3


class Motion(SpatialVector):
    """A twist: angular velocity [rad/s], then velocity of the frame's origin [m/s]. Also an acceleration."""

    __slots__ = ()

    @overload
    def cross(self, other: Motion) -> Motion: ...
    @overload
    def cross(self, other: Force) -> Force: ...
    def cross(self, other: Motion | Force) -> Motion | Force:
        """Rate of change of `other` if it is fixed in a frame moving with this twist."""
        w, v = self.angular, self.linear
        if isinstance(other, Force):
            return Force.of(cross(w, other.angular) + cross(v, other.linear), cross(w, other.linear))
        return Motion.of(cross(w, other.angular), cross(w, other.linear) + cross(v, other.angular))

    def dot(self, force: Force) -> Any:
        """Power of a force under this motion [W]."""
        return self.data @ force.data
