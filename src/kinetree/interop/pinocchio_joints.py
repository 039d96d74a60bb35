"""Pinocchio's joints in terms of Kinetree's.

A composite joint becomes its parts in series, a `SphericalZYX` joint three turns about z, y and x; between them are
massless bodies. Their coordinates are the same, number by number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.interop.codec import Codec, CosineSine, same
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

_FREE = Codec("floating", columns=(3, 4, 5, 0, 1, 2), order=(0, 1, 2, 4, 5, 6, 3))
_BALL = Codec("spherical", columns=(0, 1, 2), order=(1, 2, 3, 0))
_PLANAR = CosineSine("planar", columns=(1, 2, 0), order=(0, 1, 2))
_UNBOUNDED = CosineSine("revolute", columns=(0,), order=(0,))

#: Codecs of joints with several degrees of freedom, by Pinocchio's name.
_SEVERAL = {
    "JointModelFreeFlyer": _FREE,
    "JointModelSpherical": _BALL,
    "JointModelPlanar": _PLANAR,
    "JointModelTranslation": same("translational", 3),
    "JointModelUniversal": same("universal", 2),
}

#: Prefixes of Pinocchio's names of joints with one degree of freedom.
_ONE = (
    ("JointModelRevoluteUnbounded", _UNBOUNDED),
    ("JointModelRUB", _UNBOUNDED),
    ("JointModelR", same("revolute", 1)),
    ("JointModelP", same("prismatic", 1)),
    ("JointModelH", same("helical", 1)),
)


@dataclass(frozen=True, eq=False)
class Part:
    """One of Kinetree's joints in a Pinocchio model.

    Attributes:
        name: Pinocchio's name, with a number as suffix if the joint has several parts.
        number: Pinocchio's index of the joint that it is part of.
        last: Whether it carries the joint's body.
        codec: Representation of its coordinates in Pinocchio.
        q: Index of its first coordinate in Pinocchio's configuration.
        v: Index of its first component in Pinocchio's velocity.
        placement: Pose in the parent joint, or in the previous part, (4, 4).
        axes: Axes in the moved frame, (count, 3).
        pitch: Pitch of a helical joint [m/rad], else None.
    """

    name: str
    number: int
    last: bool
    codec: Codec
    q: int
    v: int
    placement: Array
    axes: Array
    pitch: float | None = None


def parts_of(model: Any) -> list[Part]:
    """All joints of a Pinocchio model, in its order."""
    found = []
    for number in range(1, model.njoints):
        found += _parts(model.joints[number], model.names[number], number, model.jointPlacements[number].homogeneous)
    return found


def _parts(joint: Any, name: str, number: int, placement: Array) -> list[Part]:
    short = joint.shortname()
    at = Part(name, number, True, same("fixed", 0), joint.idx_q, joint.idx_v, np.array(placement), np.zeros((0, 3)))
    if short == "JointModelComposite":
        return _composite(joint.extract(), at)
    if short == "JointModelSphericalZYX":
        turns = [
            replace(at, codec=same("revolute", 1), q=at.q + i, v=at.v + i, axes=np.eye(3)[[2 - i]]) for i in range(3)
        ]
        return _in_series([turns[0], *(replace(turn, placement=np.eye(4)) for turn in turns[1:])], name)
    if short in _SEVERAL:
        codec = _SEVERAL[short]
        if codec.kind == "planar":
            return [replace(at, codec=codec, axes=np.eye(3)[[2]])]
        if codec.kind == "universal":
            own = joint.extract()
            return [replace(at, codec=codec, axes=np.array([own.axis1, own.axis2]))]
        return [replace(at, codec=codec)]
    if joint.nv == 1 and "Mimic" not in short:
        for start, codec in _ONE:
            if short.startswith(start):
                axis, pitch = _axis_and_pitch(joint, codec.kind)
                return [replace(at, codec=codec, axes=axis[None], pitch=pitch)]
    hint = (
        "build the model without mimic=True, which makes it a joint of its own"
        if "Mimic" in short
        else "lock it with pinocchio.buildReducedModel"
    )
    kind = short.removeprefix("JointModel")
    raise ModelError(f"joint {name!r} has type {kind}, which Kinetree does not support; {hint}")


def _composite(joint: Any, at: Part) -> list[Part]:
    parts: list[Part] = []
    for i, (inner, placement) in enumerate(zip(joint.joints, joint.jointPlacements)):
        first = product(at.placement, placement.homogeneous) if i == 0 else placement.homogeneous
        parts += _parts(inner, at.name, at.number, first)
    if [part.codec.kind for part in parts] == ["revolute", "prismatic"] and parts[0].codec.nq == 1:
        turn, slide = parts
        moved = np.max(np.abs(slide.placement - pose(slide.placement[:3, :3], np.zeros(3))))
        along = apply(slide.placement[:3, :3], slide.axes[0])
        if moved == 0.0 and np.max(np.abs(along - turn.axes[0])) < 1e-15:
            whole = product(turn.placement, slide.placement)
            return [replace(turn, codec=same("cylindrical", 2), placement=whole, axes=slide.axes)]
    return _in_series(parts, at.name)


def _in_series(parts: list[Part], name: str) -> list[Part]:
    if len(parts) == 1:
        return parts
    return [replace(part, name=f"{name}.{i}", last=i == len(parts)) for i, part in enumerate(parts, start=1)]


def _axis_and_pitch(joint: Any, kind: str) -> tuple[Array, float | None]:
    """The axis, from the joint's motion subspace with the linear part first, since not every joint stores its axis."""
    data = joint.createData()
    q = np.zeros(joint.idx_q + joint.nq)
    q[joint.idx_q] = float(joint.nq == 2)  # the cosine of an unbounded angle
    joint.calc(data, q)
    S = np.ravel(data.S)
    linear, angular = S[:3], S[3:]
    if kind == "prismatic":
        return linear, None
    return angular, float(sum(linear * angular)) if kind == "helical" else None
