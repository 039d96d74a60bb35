"""Bodies, joints and frames as plain numbers, of which readers of files and `Builder` make a model.

Python builds a tuple of numbers in a fraction of the time that a small array takes, so arrays are made for all bodies
at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from kinetree.model.body import Body, Frame
from kinetree.model.general import Node
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.joints.plain import plain
from kinetree.model.record import frozen, frozen_tables
from kinetree.spatial.value import Array

#: The first three rows of a pose, one after the other.
Pose = tuple[float, ...]
#: The pose of a frame in itself.
HERE: Pose = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
#: Name of the inertial frame; no body may have it.
WORLD_NAME = "world"
_LAST = (0.0, 0.0, 0.0, 1.0)  # row of a pose


def matrix_of_pose(pose: Pose) -> Array:
    """A pose as an array, (4, 4)."""
    return np.array((*pose, *_LAST)).reshape(4, 4)


@lru_cache(maxsize=4096)  # joints of one robot often have the same damping
def constant(number: float, count: int) -> Array:
    """The same number several times; arrays are shared."""
    return frozen(np.full(count, number), (count,))


@cache
def unlimited(kind: str) -> Limits:
    """No limits, for a kind of joint."""
    return Limits().expanded(KINDS[kind])


_NONE = constant(0.0, 0)


class BodySpec(NamedTuple):
    """A rigid body.

    Attributes:
        name: Unique among bodies and frames.
        mass: [kg].
        com: Centre of mass in the link frame, three numbers [m].
        inertia: About the centre of mass, in link axes, nine numbers [kg m²].
        line: Line in a file that has lines.
    """

    name: str
    mass: float = 0.0
    com: Sequence[float] = (0.0,) * 3
    inertia: Sequence[float] = (0.0,) * 9
    line: int | None = None


class Mimic(NamedTuple):
    """q = multiplier · q(joint) + offset."""

    joint: str
    multiplier: float
    offset: float


class JointSpec(NamedTuple):
    """The joint in front of a body.

    Attributes:
        name: Unique among joints.
        kind: Its kind; "node" for formulas that are not those of a joint.
        parent: Parent body, or "world".
        child: Child body.
        placement: Pose of the child's link frame in the parent's at neutral q.
        axes: Unit axes in the child's link frame.
        limits: One number for each coordinate.
        damping: Viscous damping, (nv,) [N m s/rad or N s/m].
        friction: Dry friction, (nv,) [N m or N].
        armature: Reflected rotor inertia, (nv,) [kg m² or kg].
        pitch: Advance of a helical joint [m/rad].
        node: Formulas of a part that is not a rigid body.
        mimic: The joint of a file that it mimics.
        line: Line in a file that has lines.
    """

    name: str
    kind: str
    parent: str
    child: str
    placement: Pose
    axes: Sequence[Sequence[float]]
    limits: Limits
    damping: Array
    friction: Array
    armature: Array
    pitch: float = 0.0
    node: Node | None = None
    mimic: Mimic | None = None
    line: int | None = None

    @classmethod
    def fixed(cls, name: str, parent: str, child: str, placement: Pose = HERE, line: int | None = None) -> JointSpec:
        """A fixed joint."""
        return cls(
            name, "fixed", parent, child, placement, (), unlimited("fixed"), _NONE, _NONE, _NONE, line=line
        )  # fmt: skip

    @property
    def type(self) -> JointKind:
        """The formulas of its kind."""
        return KINDS[self.kind] if self.node is None else plain(self.node.nv)


class FrameSpec(NamedTuple):
    """A named frame fixed to a body.

    Attributes:
        name: Unique among bodies and frames.
        body: Body that carries it, or "world".
        placement: Pose in the body's link frame.
    """

    name: str
    body: str
    placement: Pose


def made(
    bodies: Sequence[BodySpec], joints: Sequence[JointSpec], frames: Iterable[FrameSpec] = ()
) -> tuple[list[Body], list[Joint], list[Frame]]:
    """The parts of a model, of checked numbers.

    Args:
        bodies: Depth first.
        joints: The joint in front of each of them; they get their parts of q and v in this order.
        frames: Extra frames.
    """
    coms, inertias, placements, axes = frozen_tables(
        ([body.com for body in bodies], (3,)),
        ([body.inertia for body in bodies], (3, 3)),
        ([(*joint.placement, *_LAST) for joint in joints], (4, 4)),
        ([axis for joint in joints for axis in joint.axes], (3,)),
    )
    made_bodies, made_joints = [], []
    q = v = axis = 0
    for body, joint, com, inertia, placement in zip(bodies, joints, coms, inertias, placements, strict=True):
        kind, parent = joint.type, joint.parent
        made_bodies.append(
            Body.trusted(name=body.name, parent=parent, joint=joint.name, mass=body.mass, com=com, inertia=inertia)
        )
        made_joints.append(
            Joint.trusted(
                name=joint.name,
                kind=joint.kind,
                parent=parent,
                child=body.name,
                placement=placement,
                axes=axes[axis : axis + kind.axes],
                pitch=joint.pitch,
                armature=joint.armature,
                limits=joint.limits,
                damping=joint.damping,
                friction=joint.friction,
                q_start=q,
                v_start=v,
                node=joint.node,
            )
        )
        q, v, axis = q + kind.nq, v + kind.nv, axis + kind.axes
    return made_bodies, made_joints, [Frame(f.name, f.body, matrix_of_pose(f.placement)) for f in frames]
