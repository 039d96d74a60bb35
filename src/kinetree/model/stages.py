"""The stages of a joint: frames whose z axes are the joint's axes, in series."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kinetree.model.joint import Joint
from kinetree.model.joints import KINDS
from kinetree.model.joints.base import Stage
from kinetree.spatial.fixed import product
from kinetree.spatial.rotation import alignment
from kinetree.spatial.transform import IDENTITY, Transform, pose, pose_of, transform_of
from kinetree.spatial.value import Array


class JointStage(NamedTuple):
    """One of the stages of a joint.

    Attributes:
        name: Of the body that it moves, or of the stage.
        stage: The formulas.
        turn: Pose, in link axes, of the frame whose z is the stage's axis.
        back: Pose of link axes in that frame.
        armature: Reflected rotor inertias.
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
