"""Poses of bodies behind fixed joints, in the frames of the nodes that they are merged into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.node_constants import stacked
from kinetree.model.stages import stages_of
from kinetree.spatial.fixed import product
from kinetree.spatial.transform import IDENTITY
from kinetree.spatial.value import Array


def merged_poses(bodies: Sequence[Body], joints: Mapping[str, Joint]) -> dict[str, Array]:
    """The pose of the link frame of each body behind a fixed joint, in the frame of the node that carries it.

    Many robots have more fixed joints than moving ones. So products are computed for all bodies at once that are as
    many fixed joints away from their nodes. Bodies on outlets of general nodes have nodes of their own.

    Args:
        bodies: Depth first.
        joints: The joint of each body, by the body's name.
    """
    levels: list[list[Joint]] = []
    level_of: dict[str, int] = {}
    for body in bodies:
        joint = joints[body.name]
        if joint.kind == "fixed":
            level = level_of[body.name] = level_of.get(joint.parent, -1) + 1
            if level == len(levels):
                levels.append([])
            levels[level].append(joint)
    found: dict[str, Array] = {}
    for level_joints in levels:
        behind, at = [], []
        for joint in level_joints:
            carrier = found[joint.parent] if joint.parent in found else _link_pose(joints.get(joint.parent))
            if carrier is None or joint.placement is IDENTITY:
                found[joint.child] = IDENTITY if carrier is None else carrier
            elif carrier is IDENTITY:
                found[joint.child] = joint.placement
            else:
                behind.append(joint)
                at.append(carrier)
        if behind:
            poses = product(stacked(at), stacked([joint.placement for joint in behind]))
            found.update(zip([joint.child for joint in behind], poses, strict=True))
    return found


def _link_pose(joint: Joint | None) -> Array | None:
    """The pose of a body's link frame in its node, given its joint, or none for the world; None for general nodes."""
    if joint is None:
        return IDENTITY
    return None if joint.node is not None else stages_of(joint.child, joint)[-1].back
