"""The stages of a joint: frames whose z axes are the joint's axes, in series."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kinetree.model.joint import Joint
from kinetree.model.joints.base import Stage
from kinetree.model.placement import NOWHERE, alignment, pose_of, transform_of
from kinetree.spatial.fixed import product
from kinetree.spatial.transform import Transform
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
    stages = joint.type.stages
    if len(stages) == 1:
        return [JointStage(body, stages[0], *_turn_of(joint, 0), joint.armature)]
    found, start = [], 0
    for i, stage in enumerate(stages):
        name = body if i == len(stages) - 1 else f"{body} (stage {i + 1} of {joint.name})"
        found.append(JointStage(name, stage, *_turn_of(joint, i), joint.armature[start : start + stage.nv]))
        start += stage.nv
    return found


def _turn_of(joint: Joint, stage: int) -> tuple[Array, Array]:
    """The pose, in link axes, of the node frame whose z is the stage's axis; and its inverse."""
    axes = joint.axes.tolist()
    return _turned(*axes[stage]) if axes else (NOWHERE, NOWHERE)


@lru_cache(maxsize=4096)  # most axes are those of coordinates
def _turned(x: float, y: float, z: float) -> tuple[Array, Array]:
    if x == y == 0.0 < z:
        return NOWHERE, NOWHERE
    turn: Array = NOWHERE.copy()
    turn[:3, :3] = alignment((x, y, z))
    return turn, turn.T


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for index, stage in enumerate(joint.type.stages):
        turn, back = _turn_of(joint, index)
        # sums of objects are evaluated in order, unlike those of a BLAS
        neutral = Transform(_objects(transform_of(product(link, turn)).data))
        numbers = _objects(q[start : start + stage.nq])
        moved = Transform(stage.transform(neutral, _objects(joint.own), numbers).data.astype(float))
        at, link, start = product(at, pose_of(moved)), back, start + stage.nq
    return product(at, link)


def _objects(numbers: Array) -> Array:
    return np.array([np.float64(x) for x in numbers], dtype=object)
