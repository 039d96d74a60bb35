"""Pinocchio's models: conversion to a robot, and of coordinates in both directions.

A composite joint becomes its parts in series, a `SphericalZYX` joint three revolute joints about z, y and x; between
them are massless bodies. Their coordinates are the same, number by number.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinetree.errors import ModelError, ModelWarning
from kinetree.interop.counterpart import (
    PINOCCHIO_HINTS,
    Codec,
    CoordinatePlace,
    CosineSine,
    Counterpart,
    matched,
    require_instance,
    require_pair,
    reserved,
    same,
)
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.model import Model
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

#: The order in which frames receive names, so that links keep theirs.
_TYPES = ("BODY", "OP_FRAME", "SENSOR", "FIXED_JOINT", "JOINT")


class PinocchioFrames:
    """Pinocchio's frames, divided into Kinetree's bodies and the frames fixed to them.

    Pinocchio identifies frames by name and type, Kinetree by name alone, so duplicate names get a number as suffix.
    Joint frames that coincide with another frame are left out.
    """

    def __init__(self, model: Any) -> None:
        self._taken = {WORLD_NAME}
        self.bodies: dict[int, str] = {}  # of each joint, by its index
        self.others: list[tuple[str, int, Array]] = []  # name, index of the joint, and pose in it
        self.numbers = {WORLD_NAME: 0}  # Pinocchio's indices of frames
        # the first of Pinocchio's frames is the world
        frames = [(number, model.frames[number]) for number in range(1, model.nframes)]
        rest = []
        for number, frame in frames:
            at, joint = np.array(frame.placement.homogeneous), int(frame.parentJoint)
            own = frame.type.name == "BODY" and np.array_equal(at, np.eye(4))
            if own and joint and joint not in self.bodies:
                self.bodies[joint] = self.free(frame.name, number)
            elif not (own and joint == 0 and frame.name == WORLD_NAME):
                rest.append((_TYPES.index(frame.type.name), number, frame.name, joint, at))
        for joint in range(1, model.njoints):
            if joint not in self.bodies:
                self.bodies[joint] = self.free(f"{model.names[joint]} body")
        placed = {(joint, np.eye(4).tobytes()) for joint in range(model.njoints)}
        for kind, number, name, joint, at in sorted(rest, key=lambda entry: entry[:2]):
            if _TYPES[kind].endswith("JOINT") and (joint, at.tobytes()) in placed:
                continue
            placed.add((joint, at.tobytes()))
            self.others.append((self.free(name, number), joint, at))

    def free(self, name: str, number: int | None = None) -> str:
        """Reserve a name that is not used yet, for the frame with Pinocchio's index `number`."""
        name = reserved(name, self._taken)
        if number is not None:
            self.numbers[name] = number
        return name


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
class PinocchioJoint:
    """One of Kinetree's joints in a Pinocchio model."""

    name: str  # Pinocchio's name, with a number as suffix if the joint has several parts
    number: int  # Pinocchio's index of the joint that it is part of
    last: bool  # whether it carries the joint's body
    codec: Codec  # representation of its coordinates in Pinocchio
    q: int  # index of its first coordinate in Pinocchio's configuration
    v: int  # index of its first component in Pinocchio's velocity
    placement: Array  # pose in the parent joint, or in the previous part, (4, 4)
    axes: Array  # axes in the moved frame, (count, 3)
    pitch: float | None = None  # pitch of a helical joint [m/rad], else None


def parts_of(model: Any) -> list[PinocchioJoint]:
    """All joints of a Pinocchio model, in its order."""
    found = []
    for number in range(1, model.njoints):
        found += _parts(model.joints[number], model.names[number], number, model.jointPlacements[number].homogeneous)
    return found


def _parts(joint: Any, name: str, number: int, placement: Array) -> list[PinocchioJoint]:
    short = joint.shortname()
    at = PinocchioJoint(
        name, number, True, same("fixed", 0), joint.idx_q, joint.idx_v, np.array(placement), np.zeros((0, 3))
    )
    if short == "JointModelComposite":
        return _composite(joint.extract(), at)
    if short == "JointModelSphericalZYX":
        turns = [
            replace(at, codec=same("revolute", 1), q=at.q + i, v=at.v + i, axes=np.eye(3)[[2 - i]]) for i in range(3)
        ]
        return _in_series([turns[0], *(replace(turn, placement=np.eye(4)) for turn in turns[1:])], name)
    if short in _SEVERAL:
        codec, axes = _SEVERAL[short], at.axes
        if codec.kind == "planar":
            axes = np.eye(3)[[2]]
        elif codec.kind == "universal":
            own = joint.extract()
            axes = np.array([own.axis1, own.axis2])
        return [replace(at, codec=codec, axes=axes)]
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


def _composite(joint: Any, at: PinocchioJoint) -> list[PinocchioJoint]:
    parts: list[PinocchioJoint] = []
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


def _in_series(parts: list[PinocchioJoint], name: str) -> list[PinocchioJoint]:
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


class PinocchioCounterpart(Counterpart):
    """Converts to and from Pinocchio's coordinates; created by `interop.pinocchio`.

    Pinocchio orders joints differently, represents quaternions as x, y, z, w and unbounded and planar angles as cosine
    and sine, and puts the linear part of twists first. Its velocities are a permutation of Kinetree's, so no conversion
    needs q.
    """

    library = "Pinocchio"

    def __init__(self, robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> None:
        parts = {part.name: part for part in parts_of(model)}
        pairs = matched(robot, {name: (part.codec.kind,) for name, part in parts.items()}, joints, self.library)
        found = {name: parts[other] for name, other in pairs.items()}
        places = {name: CoordinatePlace(part.q, part.v, part.codec) for name, part in found.items()}
        super().__init__(robot, model.nq, places)
        self.model = model
        numbers = PinocchioFrames(model).numbers
        self._named = {name: numbers[name] for name in robot.frames if name in numbers}

    def frame_id(self, frame: str) -> int:
        """Pinocchio's index of a frame, by its name in Kinetree."""
        index: int = self._known(frame)
        return index

    def read_poses(self, data: Any, frames: Sequence[str] | None = None) -> Array:
        """Poses of frames in the world as computed by `pinocchio.framesForwardKinematics`, (m, 4, 4).

        Args:
            data: A `pinocchio.Data`, updated by the caller.
            frames: Names of frames; by default `frames`.
        """
        require_instance("read_poses", data, "pinocchio", "Data", {})
        return np.array([data.oMf[self.frame_id(frame)].homogeneous for frame in self._chosen(frames)])


def pinocchio(robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> PinocchioCounterpart:
    """Converter to and from a Pinocchio model of the same robot.

    Joints are matched by name, and a single floating base by its kind. Both models must have the same joints with the
    same zero positions, as they do if they come from the same file or from `from_pinocchio`.

        other = kt.interop.pinocchio(robot, model)
        tau = other.from_tau(pin.rnea(model, data, other.to_q(q), other.to_v(v), other.to_a(a)))

    Args:
        robot: Kinetree's model.
        model: A `pinocchio.Model`.
        joints: Pinocchio's names of joints that have different names in Kinetree, by name in Kinetree.

    Raises:
        InputError: If a joint has no counterpart; names it.
    """
    require_pair("interop.pinocchio", robot, joints)
    require_instance("interop.pinocchio", model, "pinocchio", "Model", PINOCCHIO_HINTS)
    return PinocchioCounterpart(robot, model, joints)


# Pinocchio's value for no limit
_NO_LIMIT = 1e300


def from_pinocchio(model: Any) -> Model:
    """A robot from a Pinocchio model.

    Every joint of Pinocchio that Kinetree has becomes one: revolute (unbounded ones too, as one angle), prismatic,
    helical, universal, spherical, planar, translation and free-flyer joints. Composite and `SphericalZYX` joints become
    their parts in series. A mimic or ellipsoid joint is an error. Joints come depth first, siblings in Pinocchio's
    order; `interop.pinocchio` converts coordinates and matrices.

    Bodies are called after Pinocchio's body frame at their joint, else after the joint with " body" behind. All other
    frames come along, but those of joints where a frame sits already. Gravity, armature, damping, dry friction and
    limits are kept. Rotor inertias are in no algorithm of Pinocchio's, nor here: a `ModelWarning` says so if there are
    any.

    Args:
        model: A `pinocchio.Model`. It is copied, so it may be changed afterwards.

    Raises:
        InputError: If it is not a `pinocchio.Model`.
        ModelError: If it has a joint that Kinetree does not support.
    """
    require_instance("from_pinocchio", model, "pinocchio", "Model", PINOCCHIO_HINTS)
    parts = parts_of(model)
    frames = PinocchioFrames(model)
    builder = Builder(model.name or "robot", np.array(model.gravity.linear), strict=False)
    carriers = {0: WORLD_NAME}
    for part in parts:
        # the first part of a joint is attached to the parent's body, the others to the previous part
        parent = carriers.get(part.number) or carriers[model.parents[part.number]]
        body = frames.bodies[part.number] if part.last else frames.free(f"{part.name} body")
        _add(builder, model, part, parent, body)
        carriers[part.number] = body
    for name, number, placement in frames.others:
        builder.add_frame(name, body=carriers[number], placement=placement)
    if np.any(model.rotorInertia):
        warnings.warn(
            f"Pinocchio model {model.name!r}: rotorInertia is not used, here as in Pinocchio; set armature instead",
            ModelWarning,
            stacklevel=2,
        )
    return builder.build()


def _add(builder: Builder, model: Any, part: PinocchioJoint, parent: str, body: str) -> None:
    kind, inertia = part.codec.kind, model.inertias[part.number]
    own: dict[str, Any] = {"universal": {"axes": part.axes}}.get(kind, {"axis": part.axes[0]} if len(part.axes) else {})
    if part.pitch is not None:
        own["pitch"] = part.pitch
    if part.last:
        own.update(mass=float(inertia.mass), com=np.array(inertia.lever), inertia=np.array(inertia.inertia))
    columns = part.v + np.argsort(part.codec.columns)
    builder.add_body(
        body,
        parent=parent,
        joint=kind,
        joint_name=part.name,
        placement=part.placement,
        armature=np.array(model.armature)[columns],
        damping=np.array(model.damping)[columns],
        friction=np.array(model.upperDryFrictionLimit)[columns] if hasattr(model, "upperDryFrictionLimit") else 0.0,
        limits=_limits(model, part, columns),
        **own,
    )


def _limits(model: Any, part: PinocchioJoint, columns: Array) -> Limits:
    """Position limits of joints with the same coordinates in both libraries; others have none."""

    def bounds(values: Any, indices: Array) -> Array:
        chosen = np.array(values)[indices]
        return np.where(np.abs(chosen) < _NO_LIMIT, chosen, np.copysign(np.inf, chosen))

    given = {"velocity": model.velocityLimit, "effort": model.effortLimit}
    limits = {name: np.maximum(bounds(values, columns), 0.0) for name, values in given.items()}
    if part.codec.nq == len(columns):
        indices = part.q + np.arange(part.codec.nq)
        limits["lower"] = bounds(model.lowerPositionLimit, indices)
        limits["upper"] = bounds(model.upperPositionLimit, indices)
    return Limits(**limits)
