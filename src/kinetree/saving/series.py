"""Joints that other formats lack, replaced by supported joints in series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.body import Body
from kinetree.model.joint import Joint, Limits
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: The parts of each kind of joint; their coordinates are the same, in the same order.
_PARTS = {
    "cylindrical": ("revolute", "prismatic"),
    "universal": ("revolute", "revolute"),
    "translational": ("prismatic", "prismatic", "prismatic"),
}


def unfolded(model: Model) -> Model:
    """The same robot, with its cylindrical, universal and translational joints replaced by one-DoF joints in series.

    The parts of joint "j" are "j.1", "j.2", …; between them are massless bodies "b (j.1)", ….
    """
    bodies: list[Body] = []
    joints: list[Joint] = []
    taken = set(model.frames)
    for cluster in model.clusters:
        if cluster.follows is None:
            raise ModelError(
                f"neither URDF nor MJCF can describe {cluster.constraints[0]} as it is here, without slack"
            )
    if model.equalities:
        raise ModelError(
            f"neither URDF nor MJCF can describe {model.equalities[0]} as it is here, without slack; save a robot "
            'loaded with loops="ignore"'
        )
    for joint in model.joints:
        if joint.node is not None:
            raise ModelError(f"{joint.name!r} is a general node, which neither URDF nor MJCF can describe")
    for body in model.bodies:
        joint = model.joint(body.joint)
        parts = _PARTS.get(joint.kind, ())
        if not parts:
            bodies.append(body)
            joints.append(joint)
            continue
        parent, placement = joint.parent, joint.placement
        for i, kind in enumerate(parts):
            last = i == len(parts) - 1
            child = body.name if last else _free(f"{body.name} ({joint.name}.{i + 1})", taken)
            part = Joint(
                name=f"{joint.name}.{i + 1}",
                kind=kind,
                parent=parent,
                child=child,
                placement=placement,
                axes=_axis(joint, i),
                pitch=0.0,
                armature=joint.armature[i : i + 1],
                limits=Limits(*(getattr(joint.limits, name)[i] for name in ("lower", "upper", "velocity", "effort"))),
                damping=joint.damping[i : i + 1],
                friction=joint.friction[i : i + 1],
                q_start=0,
                v_start=0,
            )
            solid = replace(body, parent=parent, joint=part.name)
            bodies.append(solid if last else Body(child, parent, part.name, 0.0, np.zeros(3), np.zeros((3, 3))))
            joints.append(part)
            parent, placement = child, np.eye(4)
    own = model.name, model.gravity, bodies, joints, model.extra_frames
    return Model(*own, model.joint_constraints, model.independent, model.near, model.equalities)


def _axis(joint: Joint, part: int) -> Array:
    if joint.kind == "translational":
        return np.eye(3)[[part]]
    return joint.axes[[part]] if joint.kind == "universal" else joint.axes


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
