"""Bodies with their joints as plain numbers, from which models make objects all at once.

Python builds a list of numbers in a fraction of the time that a small array takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinetree.model.body import Body
from kinetree.model.general import Node
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import JointKind
from kinetree.model.record import frozen
from kinetree.spatial.value import Array


class Draft(NamedTuple):
    """A body and the joint in front of it, checked. See `Body` and `Joint`.

    Attributes:
        name: Name of the body.
        parent: Its parent.
        joint: Name of the joint.
        type: Its formulas.
        mass: [kg].
        com: Three numbers [m].
        inertia: Nine numbers, not necessarily symmetric [kg m²].
        placement: Sixteen numbers.
        axes: Three numbers for each axis.
        pitch: [m/rad].
        armature: One number for each velocity.
        limits: One number for each coordinate.
        damping: One number for each velocity.
        friction: One number for each velocity.
        node: Formulas of a part that is not a rigid body.
    """

    name: str
    parent: str
    joint: str
    type: JointKind
    mass: float
    com: Sequence[float]
    inertia: Sequence[float]
    placement: Sequence[float]
    axes: Sequence[float]
    pitch: float
    armature: Array
    limits: Limits
    damping: Array
    friction: Array
    node: Node | None = None

    @property
    def kind(self) -> str:
        """The kind of joint; "node" for one with formulas of its own."""
        return self.type.name if self.node is None else "node"


def finished(drafts: Sequence[Draft]) -> tuple[list[Body], list[Joint]]:
    """The bodies and joints, with parts of q and v in the given order."""
    count = len(drafts)
    inertias = np.array([draft.inertia for draft in drafts]).reshape(count, 3, 3)
    coms = frozen([draft.com for draft in drafts], (count, 3))
    inertias = frozen((inertias + inertias.transpose(0, 2, 1)) / 2.0, (count, 3, 3))
    placements = frozen([draft.placement for draft in drafts], (count, 4, 4))
    axes = frozen([number for draft in drafts for number in draft.axes], (sum(d.type.axes for d in drafts), 3))
    bodies, joints = [], []
    q = v = axis = 0
    for draft, com, inertia, placement in zip(drafts, coms, inertias, placements, strict=True):
        name, parent, joint, kind = draft[:4]
        bodies.append(Body.trusted(name=name, parent=parent, joint=joint, mass=draft.mass, com=com, inertia=inertia))
        joints.append(
            Joint.trusted(
                name=joint,
                kind=draft.kind,
                parent=parent,
                child=name,
                placement=placement,
                axes=axes[axis : axis + kind.axes],
                pitch=draft.pitch,
                armature=draft.armature,
                limits=draft.limits,
                damping=draft.damping,
                friction=draft.friction,
                q_start=q,
                v_start=v,
                node=draft.node,
            )
        )
        q, v, axis = q + kind.nq, v + kind.nv, axis + kind.axes
    return bodies, joints
