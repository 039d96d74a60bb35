"""Bodies and frames of a model."""

from __future__ import annotations

from dataclasses import dataclass

from kinetree.model.record import Record, frozen
from kinetree.spatial.value import Array


@dataclass(frozen=True, eq=False)
class Body(Record):
    """A rigid body, in the coordinates of its link frame.

    Attributes:
        name: Also the name of its link frame.
        parent: Parent body, "world" for a root.
        joint: Name of the joint between the two.
        mass: [kg].
        com: Centre of mass, (3,) [m].
        inertia: About the centre of mass, in link axes, (3, 3) [kg m²].
    """

    name: str
    parent: str
    joint: str
    mass: float
    com: Array
    inertia: Array

    def __post_init__(self) -> None:
        self.__dict__.update(com=frozen(self.com, (3,)), inertia=frozen(self.inertia, (3, 3)))


@dataclass(frozen=True, eq=False)
class Frame(Record):
    """A named frame fixed to a body.

    Attributes:
        name: Unique among frames and bodies.
        body: Body that carries it, or "world".
        placement: Pose in the body's link frame, (4, 4).
    """

    name: str
    body: str
    placement: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "placement", frozen(self.placement, (4, 4)))
