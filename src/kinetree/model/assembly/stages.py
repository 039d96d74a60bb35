"""Poses between bodies: the stages of moving joints, and chains of fixed ones.

The stages of a joint are frames in series whose z axes are the joint's axes. Bodies behind fixed joints are merged into
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kinetree.model.assembly.node_constants import stacked
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.joints import KINDS
from kinetree.model.joints.protocol import Stage
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import alignment
from kinetree.spatial.transform import IDENTITY, Transform, pose, pose_of, transform_of
from kinetree.spatial.value import Array


class JointStage(NamedTuple):
    """One of the stages of a joint.

    `turn` is the pose, in link axes, of the frame whose z is the stage's axis, `back` that of link axes in this frame.
    """

    name: str
    stage: Stage
    turn: Array
    back: Array
    armature: Array


def stages_of(body: str, joint: Joint) -> list[JointStage]:
    """The stages of a joint, base first."""
    stages = _frames(joint.kind, joint.axes.tobytes())
    if len(stages) == 1:
        return [JointStage(body, *stages[0], joint.armature)]
    found, start = [], 0
    for i, (stage, turn, back) in enumerate(stages):
        name = body if i == len(stages) - 1 else f"{body} (stage {i + 1} of {joint.name})"
        found.append(JointStage(name, stage, turn, back, joint.armature[start : start + stage.nv]))
        start += stage.nv
    return found


@lru_cache(maxsize=4096)  # most axes are those of coordinates
def _frames(kind: str, axes: bytes) -> list[tuple[Stage, Array, Array]]:
    """The stages of a kind of joint with given axes, each with `turn` and `back` of `JointStage`."""
    stages = KINDS[kind].stages
    directions = np.frombuffer(axes).reshape(-1, 3).tolist() or [[0.0, 0.0, 1.0]] * len(stages)
    found = []
    for stage, (x, y, z) in zip(stages, directions, strict=True):
        turn = IDENTITY if x == y == 0.0 < z else pose(alignment((x, y, z)), np.zeros(3))
        found.append((stage, turn, turn if turn is IDENTITY else turn.T))
    return found


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for stage, turn, back in _frames(joint.kind, joint.axes.tobytes()):
        # sums of objects are evaluated in order, unlike those of a BLAS
        neutral = Transform(_objects(transform_of(product(link, turn)).data))
        numbers = _objects(q[start : start + stage.nq])
        moved = Transform(stage.transform(neutral, _objects(joint.own), numbers).data.astype(float))
        at, link, start = product(at, pose_of(moved)), back, start + stage.nq
    return product(at, link)


def _objects(numbers: Array) -> Array:
    return np.array([np.float64(x) for x in numbers], dtype=object)


def merged_poses(bodies: Sequence[Body], joints: Mapping[str, Joint]) -> dict[str, Array]:
    """The pose of the link frame of each body behind a fixed joint, in the frame of the node that carries it.

    Many robots have more fixed joints than moving ones. So products are computed for all bodies at once that are as
    many fixed joints away from their nodes. Bodies on outlets of general nodes have nodes of their own.
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
