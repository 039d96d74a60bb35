"""Links and joints as described in a file, with their line numbers, before they form a tree.

Their numbers are plain tuples, row by row: NumPy takes long for a few, so arrays are made for all bodies at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kinetree.model.joints import KINDS
from kinetree.spatial.value import Array

#: The rows of a rotation.
Rotation = tuple[tuple[float, ...], ...]
#: A rotation, None if there is none, and a position.
Placement = tuple[Rotation | None, tuple[float, ...]]
#: Numbers of a link without mass.
NO_COM, NO_INERTIA = (0.0,) * 3, (0.0,) * 9
#: Limits of a joint without any, by its kind.
UNLIMITED = {kind.name: (-math.inf,) * kind.nv + (math.inf,) * (3 * kind.nv) for kind in KINDS.values()}


class Link(NamedTuple):
    """A body.

    Attributes:
        name: Unique among links.
        line: Line in the file; None for formats without lines.
        mass: [kg].
        com: In the link frame, 3 numbers [m].
        inertia: About the centre of mass, in link axes, 9 numbers [kg m²].
    """

    name: str
    line: int | None
    mass: float
    com: tuple[float, ...]
    inertia: tuple[float, ...]


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
        placement: Pose of the child's link frame in the parent's at neutral q.
        axes: Unit axes in the child's link frame, 3 numbers each.
        limits: Lower, upper, of velocity and of effort, each with one number per coordinate.
        damping: Viscous damping [N m s/rad or N s/m].
        friction: Dry friction [N m or N].
        mimic: The joint that it mimics, if any.
    """

    name: str
    line: int | None
    kind: str
    parent: str
    child: str
    placement: Placement
    axes: tuple[float, ...]
    limits: tuple[float, ...]
    damping: float
    friction: float
    mimic: Mimic | None


def flat(array: Array) -> tuple[float, ...]:
    """The numbers of an array, row by row."""
    return tuple(array.ravel().tolist())
