"""Links and joints as described in a file, with their line numbers, before they form a tree."""

from __future__ import annotations

from typing import NamedTuple

from kinetree.model.joint import Limits
from kinetree.spatial.value import Array


class Link(NamedTuple):
    """A body.

    Attributes:
        name: Unique among links.
        line: Line in the file; None for formats without lines.
        mass: [kg].
        com: In the link frame, (3,) [m].
        inertia: About the centre of mass, in link axes, (3, 3) [kg m²].
    """

    name: str
    line: int | None
    mass: float
    com: tuple[float, ...]
    inertia: Array


class Mimic(NamedTuple):
    """q = multiplier · q(joint) + offset."""

    joint: str
    multiplier: float
    offset: float


class Hinge(NamedTuple):
    """A joint of any kind.

    Attributes:
        name: Unique among joints.
        line: Line in the file; None for formats without lines.
        kind: Kinetree's name of its kind.
        parent: Parent link.
        child: Child link.
        placement: Pose of the child's link frame in the parent's at neutral q, (4, 4).
        axes: Unit axes in the child's link frame, (count, 3).
        limits: One number per coordinate.
        damping: Viscous damping [N m s/rad or N s/m].
        friction: Dry friction [N m or N].
        mimic: The joint that it mimics, if any.
    """

    name: str
    line: int | None
    kind: str
    parent: str
    child: str
    placement: Array
    axes: Array
    limits: Limits
    damping: float
    friction: float
    mimic: Mimic | None
