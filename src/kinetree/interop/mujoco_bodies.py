"""Adds the bodies and joints of a MuJoCo model to a builder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.interop.mujoco_counterpart import CODECS
from kinetree.interop.mujoco_names import Names
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.spatial.fixed import product
from kinetree.spatial.rotation import exp_matrix, matrix_of
from kinetree.spatial.transform import IDENTITY, pose
from kinetree.spatial.value import Array

# values of `actuator_trntype`: a joint, in the child's axes or the parent's
_AT_JOINTS = (0, 1)
# where MuJoCo has each velocity of a joint, by its number of the type
_VELOCITIES = [np.argsort(codec.columns).tolist() for codec in CODECS]
_ZERO = np.zeros(3)


def rotors_of(model: Any) -> Array:
    """Reflected rotor inertia that actuators add to each joint."""
    rotors = np.zeros(model.njnt)
    armature = getattr(model, "actuator_armature", None)  # older versions have none
    if armature is None:
        return rotors
    for actuator, joint, gear in _geared(model):
        rotors[joint] += gear * gear * float(armature[actuator])
    return rotors


def efforts_of(model: Any) -> Array:
    """Largest force of the actuators at each joint; infinite where one of them, or all of them, have no limit.

    Actuators at tendons, sites and bodies do not count: what they exert on a joint depends on the configuration.
    """
    reach, driven = np.zeros((2, model.njnt)), np.zeros(model.njnt, dtype=bool)
    for actuator, joint, gear in _geared(model):
        limited = model.actuator_forcelimited[actuator]
        ends = gear * np.array(model.actuator_forcerange[actuator]) if limited else [-math.inf, math.inf]
        reach[:, joint] += np.sort(ends)
        driven[joint] = True
    reach[:, ~driven] = [[-math.inf], [math.inf]]
    limits = np.where(model.jnt_actfrclimited.astype(bool), model.jnt_actfrcrange.T, [[-math.inf], [math.inf]])
    found: Array = np.abs(np.clip(reach, *limits)).max(axis=0)
    return found


def _geared(model: Any) -> Iterator[tuple[int, int, float]]:
    """Actuators at joints, each with its joint and gear; with gear 0 it does nothing."""
    first = getattr(model, "actuator_outadr", range(len(model.actuator_trntype)))  # older versions have one output each
    for actuator, kind in enumerate(model.actuator_trntype.tolist()):
        gear = float(model.actuator_gear[first[actuator], 0])
        if kind in _AT_JOINTS and gear != 0.0:
            yield actuator, int(model.actuator_trnid[actuator, 0]), gear


def poses_of(quaternions: Any, positions: Any) -> Array:
    """Poses, (n, 4, 4)."""
    return _posed(matrix_of(np.array(quaternions)), positions) if len(positions) else np.zeros((0, 4, 4))


def _posed(rotations: Array, positions: Any) -> Array:
    found = IDENTITY[None].repeat(len(positions), 0)
    found[:, :3, :3], found[:, :3, 3] = rotations, positions
    return found


def add_bodies(builder: Builder, model: Any, names: Names) -> None:
    """Add all bodies, each with its joints."""
    rotations, principal = np.split(matrix_of(np.concatenate([model.body_quat, model.body_iquat])), 2)
    poses = _posed(rotations, model.body_pos)
    inertias = product(principal * model.body_inertia[:, None], principal.transpose(0, 2, 1))
    masses, centers = model.body_mass.tolist(), model.body_ipos.tolist()
    parents, starts = model.body_parentid.tolist(), model.body_jntadr.tolist()
    joints = _joints(model, names)
    for body, count in enumerate(model.body_jntnum.tolist()):
        if body == 0:
            continue
        solid = {"mass": masses[body], "com": centers[body], "inertia": inertias[body]}
        own = joints[starts[body] : starts[body] + count] if count else []
        _add_body(builder, names, body, names.bodies[parents[body]], poses[body], own, solid)


class _Moving(NamedTuple):
    """A joint.

    Attributes:
        name: In Kinetree.
        kind: Likewise.
        axis: Its axis, (3,).
        anchor: The point that hinges and balls rotate about, (3,); the position of a slide is irrelevant.
        reference: Its coordinate where the file puts the robot.
        given: Further arguments of `Builder.add_body`.
    """

    name: str
    kind: str
    axis: Array
    anchor: Array
    reference: float
    given: dict[str, Any]


def _joints(model: Any, names: Names) -> list[_Moving]:
    """All joints."""
    positions, axes, starts = np.array(model.jnt_pos), np.array(model.jnt_axis), model.jnt_dofadr.tolist()
    references, rotors = model.qpos0[model.jnt_qposadr].tolist(), rotors_of(model).tolist()
    losses = [model.dof_armature.tolist(), model.dof_damping.tolist(), model.dof_frictionloss.tolist()]
    ranges, ranged = model.jnt_range.tolist(), model.jnt_limited.tolist()
    efforts = efforts_of(model).tolist()
    found = []
    for joint, number in enumerate(model.jnt_type.tolist()):
        codec, start = CODECS[number], starts[joint]
        armature, damping, friction = ([numbers[start + k] for k in _VELOCITIES[number]] for numbers in losses)
        given = {
            "armature": _one_if_equal([number + rotors[joint] for number in armature]),
            "damping": _one_if_equal(damping),
            "friction": _one_if_equal(friction),
        }
        if codec.kind in ("revolute", "prismatic"):  # the cone of a ball joint does not limit its coordinates
            lower, upper = ranges[joint] if ranged[joint] else (-math.inf, math.inf)
            given["limits"] = Limits(lower, upper, math.inf, efforts[joint])
            given["axis"] = axes[joint]
        found.append(_Moving(names.joints[joint], codec.kind, axes[joint], positions[joint], references[joint], given))
    return found


def _one_if_equal(numbers: list[float]) -> Any:
    """One number for all if they are the same."""
    return numbers[0] if numbers.count(numbers[0]) == len(numbers) else numbers


def _add_body(
    builder: Builder,
    names: Names,
    body: int,
    parent: str,
    at: Array,
    joints: Sequence[_Moving],
    solid: Mapping[str, Any],
) -> None:
    """Add a body with its joints, in the order in which MuJoCo applies them.

    Args:
        builder: The builder to add to.
        names: Names in Kinetree.
        body: MuJoCo's index of the body.
        parent: Its parent.
        at: Its pose there, (4, 4).
        joints: Its joints.
        solid: Its mass, centre of mass and inertia.
    """
    name, origin = names.bodies[body], _ZERO  # of the last link frame, seen from the body's; they have the same axes
    anchors = [joint.anchor for joint in joints if joint.kind != "prismatic"]
    off_centre = bool(anchors and any(anchors[-1].tolist()) and joints[0].kind != "floating")
    for joint in joints:
        last = joint is joints[-1] and not off_centre
        link = name if last else names.free(f"{name} ({joint.name})")
        anchor = origin if joint.kind == "prismatic" else joint.anchor
        placed = _shifted(at, anchor - origin)
        if joint.kind == "floating":
            placed, anchor = IDENTITY, origin
        elif joint.kind == "revolute" and joint.reference != 0.0:
            placed = product(placed, pose(exp_matrix(-joint.reference * joint.axis), _ZERO))
        elif joint.kind == "prismatic":
            placed = _shifted(placed, -joint.reference * joint.axis)
        builder.add_body(
            link,
            parent=parent,
            joint=joint.kind,
            joint_name=joint.name,
            placement=placed,
            **joint.given,
            **(solid if last else {}),
        )
        parent, at, origin = link, IDENTITY, anchor
    if not joints or off_centre:
        joint_name = names.free_joint(f"{name}_joint")
        builder.add_body(
            name, parent=parent, joint="fixed", joint_name=joint_name, placement=_shifted(at, -origin), **solid
        )


def _shifted(at: Array, position: Array) -> Array:
    """A pose, shifted along its own axes."""
    return product(at, pose(np.eye(3), position)) if any(position.tolist()) else at
