"""The stages of a joint: frames whose z axes are the joint's axes, in series."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from kinetree.model.joint import Joint
from kinetree.model.joints.base import Stage
from kinetree.model.placement import NOWHERE, alignment, pose_of, transform_of
from kinetree.spatial.fixed import product
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


def stages_of(body: str, joint: Joint) -> Iterator[tuple[str, Stage, Array, Array, Array]]:
    """For each stage of a joint: a name, the formulas, its frame in link axes, its armature, link axes in its frame."""
    stages, start = joint.type.stages, 0
    for count, stage in enumerate(stages, start=1):
        turn = turn_of(joint, count - 1)
        name = body if count == len(stages) else f"{body} (stage {count} of {joint.name})"
        armature = joint.armature if len(stages) == 1 else joint.armature[start : start + stage.nv]
        start += stage.nv
        yield name, stage, turn, armature, turn if turn is NOWHERE else turn.T


def turn_of(joint: Joint, stage: int) -> Array:
    """The pose, in link axes, of the node frame whose z is the stage's axis."""
    return _turned(*joint.axes[stage].tolist()) if len(joint.axes) else NOWHERE


@lru_cache(maxsize=4096)  # most axes are those of coordinates
def _turned(x: float, y: float, z: float) -> Array:
    if x == y == 0.0 < z:
        return NOWHERE
    turn: Array = NOWHERE.copy()
    turn[:3, :3] = alignment((x, y, z))
    return turn


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for index, stage in enumerate(joint.type.stages):
        turn = turn_of(joint, index)
        # sums of objects are evaluated in order, unlike those of a BLAS
        neutral = Transform(_objects(transform_of(product(link, turn)).data))
        numbers = _objects(q[start : start + stage.nq])
        moved = Transform(stage.transform(neutral, _objects(joint.own), numbers).data.astype(float))
        at, link, start = product(at, pose_of(moved)), turn.T, start + stage.nq
    return product(at, link)


def _objects(numbers: Array) -> Array:
    return np.array([np.float64(x) for x in numbers], dtype=object)
