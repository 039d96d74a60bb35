"""Links and joints as a file describes them, with their lines: not yet a tree."""

from __future__ import annotations

from dataclasses import dataclass

from kinetree.model.joint import Limits
from kinetree.spatial.value import Array


@dataclass(frozen=True, eq=False)
class Link:
    """A body.

    Attributes:
        name: Unique among links.
        line: Where it is described.
        mass: [kg].
        com: In the link frame, (3,) [m].
        inertia: About the centre of mass, in link axes, (3, 3) [kg m²].
    """

    name: str
    line: int
    mass: float
    com: tuple[float, ...]
    inertia: Array


@dataclass(frozen=True)
class Mimic:
    """q = multiplier · q(joint) + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Hinge:
    """A joint of any kind.

    Attributes:
        name: Unique among joints.
        line: Where it is described.
        kind: Kinetree's name of its kind.
        parent: Link on the near side.
        child: Link on the far side.
        placement: Pose of the child's link frame in the parent's when the joint is neutral, (4, 4).
        axes: Unit axes in the child's link frame, (count, 3).
        limits: One number per coordinate.
        damping: Viscous [N m s/rad or N s/m].
        friction: Dry [N m or N].
        mimic: Which joint it follows, if any.
    """

    name: str
    line: int
    kind: str
    parent: str
    child: str
    placement: Array
    axes: Array
    limits: Limits
    damping: float
    friction: float
    mimic: Mimic | None
