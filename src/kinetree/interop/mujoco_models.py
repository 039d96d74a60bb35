"""MuJoCo's models: conversion to a robot, and of coordinates in both directions.

MuJoCo allows objects without names, and the same name for a body, a joint and a site. In Kinetree every object has a
name, unique among bodies and frames or among joints.

MuJoCo's equality constraints are soft, and relative to the reference configuration `qpos0`; here they become exact
couplings and loops. A joint equality is q₁ − r₁ = p(q₂ − r₂) for reference positions r; without a second joint it holds
the first one. Points of a connection coincide at `qpos0`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, LoopError, ModelError, ModelWarning
from kinetree.interop.counterpart import (
    MUJOCO_HINTS,
    Codec,
    CoordinatePlace,
    Counterpart,
    matched,
    require_instance,
    require_pair,
    reserved,
    same,
)
from kinetree.interop.mujoco_shapes import posed, with_geoms, written_names
from kinetree.model.body import Frame
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.loops.coupling import LinearCoupling
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.shapes import Hull
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import exp_matrix, matrix_of
from kinetree.spatial.transform import IDENTITY, pose
from kinetree.spatial.value import Array


class Names:
    """Names of MuJoCo's objects in Kinetree, by MuJoCo's index: bodies, the world first, joints and sites.

    Unnamed ones are called after their kind and index; a site with the name of a body gets the suffix " (site)".
    """

    def __init__(self, model: Any) -> None:
        joints = written_names(model, model.name_jntadr)
        self._taken_joints = set(joints)
        self.joints = tuple(name or self.free_joint(f"joint{i}") for i, name in enumerate(joints))
        bodies = written_names(model, model.name_bodyadr)[1:]
        self._taken = {WORLD_NAME, *bodies}
        self.bodies = (WORLD_NAME, *(name or self.free(f"body{i}") for i, name in enumerate(bodies, start=1)))
        sites = written_names(model, model.name_siteadr)
        self.sites = tuple(
            self.free(name if name not in self._taken else f"{name} (site)") if name else self.free(f"site{i}")
            for i, name in enumerate(sites)
        )

    def free(self, name: str) -> str:
        """Reserve a name that no body or frame has yet."""
        return reserved(name, self._taken)

    def free_joint(self, name: str) -> str:
        """Reserve a name that no joint has yet."""
        return reserved(name, self._taken_joints)


#: Codecs by MuJoCo's number of the joint type.
CODECS = (
    Codec("floating", columns=(3, 4, 5, 0, 1, 2), order=(0, 1, 2, 3, 4, 5, 6), world_linear=True),
    Codec("spherical", columns=(0, 1, 2), order=(0, 1, 2, 3)),
    same("prismatic", 1),
    same("revolute", 1),
)


class MujocoCounterpart(Counterpart):
    """Converts to and from MuJoCo's coordinates; created by `interop.mujoco`.

    Configurations differ only in the order of joints. The velocity of a free joint is linear in world axes, then
    angular in body axes. So for robots with a free joint, converting velocities, accelerations, forces, matrices and
    Jacobians needs q, and converting accelerations needs v. Jacobians correspond to the two results of `mj_jac…`,
    stacked with position above rotation, and to Kinetree's with `reference="local_world_aligned"`.
    """

    library = "MuJoCo"

    def __init__(self, robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> None:
        names = Names(model)
        numbers = {name: number for number, name in enumerate(names.joints)}
        kinds = {name: (CODECS[model.jnt_type[number]].kind,) for name, number in numbers.items()}
        places = {}
        for name, other in matched(robot, kinds, joints, self.library).items():
            number = numbers[other]
            joint, codec = robot.joint(name), CODECS[model.jnt_type[number]]
            if codec.world_linear and not (joint.parent == "world" and np.array_equal(joint.placement, np.eye(4))):
                raise InputError(
                    f"joint {name!r} floats relative to a pose other than the world's origin, which MuJoCo's free "
                    "joints cannot; build the robot without this placement"
                )
            places[name] = CoordinatePlace(int(model.jnt_qposadr[number]), int(model.jnt_dofadr[number]), codec)
        super().__init__(robot, model.nq, places)
        self.model = model
        found = {name: ("site", number) for number, name in enumerate(names.sites)}
        found.update({name: ("body", number) for number, name in enumerate(names.bodies)})
        self._named = {name: found[name] for name in robot.frames if name in found}

    def frame_id(self, frame: str) -> tuple[str, int]:
        """MuJoCo's type of a frame, "body" or "site", and its index."""
        what, index = self._known(frame)
        return what, index

    def read_poses(self, data: Any, frames: Sequence[str] | None = None) -> Array:
        """Poses of frames in the world as computed by `mj_kinematics`, (m, 4, 4).

        Args:
            data: A `mujoco.MjData`, updated by the caller.
            frames: Names of frames; by default `frames`.
        """
        require_instance("read_poses", data, "mujoco", "MjData", {})
        where = [self.frame_id(frame) for frame in self._chosen(frames)]
        places = {"body": (data.xpos, data.xmat), "site": (data.site_xpos, data.site_xmat)}
        return np.array([pose(places[what][1][i].reshape(3, 3), places[what][0][i]) for what, i in where])


def mujoco(robot: Model, model: Any, joints: Mapping[str, str] | None = None) -> MujocoCounterpart:
    """Converter to and from a MuJoCo model of the same robot.

    Joints are matched by name, and a single floating base by its kind. Both models must have the same joints with the
    same zero positions, as they do if the robot comes from `from_mujoco` or the same MJCF file.

        other = kt.interop.mujoco(robot, model)
        data.qpos, data.qvel = other.to_q(q), other.to_v(v, q)
        mujoco.mj_forward(model, data)
        a = other.from_a(data.qacc, v, q)

    Args:
        robot: Kinetree's model.
        model: A `mujoco.MjModel`.
        joints: MuJoCo's names of joints that have different names in Kinetree, by name in Kinetree.

    Raises:
        InputError: If a joint has no counterpart; names it.
    """
    require_pair("interop.mujoco", robot, joints)
    require_instance("interop.mujoco", model, "mujoco", "MjModel", MUJOCO_HINTS)
    return MujocoCounterpart(robot, model, joints)


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


def add_bodies(builder: Builder, model: Any, names: Names) -> None:
    """Add all bodies, each with its joints."""
    rotations, principal = np.split(matrix_of(np.concatenate([model.body_quat, model.body_iquat])), 2)
    poses = posed(rotations, model.body_pos)
    inertias = product(principal * model.body_inertia[:, None], principal.transpose(0, 2, 1))
    masses, centers, borne = model.body_mass.tolist(), model.body_ipos.tolist(), model.body_gravcomp.tolist()
    parents, starts = model.body_parentid.tolist(), model.body_jntadr.tolist()
    joints = _joints(model, names)
    for body, count in enumerate(model.body_jntnum.tolist()):
        if body == 0:
            continue
        solid = {"mass": masses[body], "com": centers[body], "inertia": inertias[body]}
        solid["gravity_compensation"] = borne[body]
        own = joints[starts[body] : starts[body] + count] if count else []
        _add_body(builder, names, body, names.bodies[parents[body]], poses[body], own, solid)


class _MovingJoint(NamedTuple):
    """A joint."""

    name: str  # in Kinetree
    kind: str
    axis: Array  # (3,)
    anchor: Array  # the point that hinges and balls rotate about, (3,); the position of a slide is irrelevant
    reference: float  # its coordinate where the file puts the robot
    given: dict[str, Any]  # further arguments of `Builder.add_body`


def _joints(model: Any, names: Names) -> list[_MovingJoint]:
    """All joints."""
    positions, axes, starts = np.array(model.jnt_pos), np.array(model.jnt_axis), model.jnt_dofadr.tolist()
    references, rotors = model.qpos0[model.jnt_qposadr].tolist(), rotors_of(model).tolist()
    losses = [model.dof_armature.tolist(), model.dof_damping.tolist(), model.dof_frictionloss.tolist()]
    stiffness, rest, places = model.jnt_stiffness.tolist(), model.qpos_spring, model.jnt_qposadr.tolist()
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
        if _springy(number, stiffness[joint]):
            given.update(stiffness=stiffness[joint], spring_reference=rest[places[joint] :][: codec.nq])
        if codec.kind in ("revolute", "prismatic"):  # the cone of a ball joint does not limit its coordinates
            lower, upper = ranges[joint] if ranged[joint] else (-math.inf, math.inf)
            given["limits"] = Limits(lower, upper, math.inf, efforts[joint])
            given["axis"] = axes[joint]
        at = positions[joint], references[joint]
        found.append(_MovingJoint(names.joints[joint], codec.kind, axes[joint], *at, given))
    return found


def _springy(kind: int, stiffness: float) -> bool:
    """Whether a joint has a spring that Kinetree keeps; not a free one, whose spring acts along world axes."""
    return kind != 0 and stiffness > 0.0


def _one_if_equal(numbers: list[float]) -> Any:
    """One number for all if they are the same."""
    return numbers[0] if numbers.count(numbers[0]) == len(numbers) else numbers


def _add_body(
    builder: Builder,
    names: Names,
    body: int,
    parent: str,
    at: Array,
    joints: Sequence[_MovingJoint],
    solid: Mapping[str, Any],
) -> None:
    """Add a body, at a pose in its parent, with its joints in the order in which MuJoCo applies them."""
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


# values of `eq_type`, and of `eq_objtype`
_CONNECT, _WELD, _JOINT = 0, 1, 2
_SITE = 6
_Z = np.array([0.0, 0.0, 1.0])


def add_equalities(builder: Builder, model: Any, names: Names, mimic: str) -> tuple[int, dict[str, float]]:
    """Add the active equality constraints; returns their number, and the positions of joints that they hold.

    Those of mocap bodies, which users move about, are left out, and couplings of joints unless `mimic` is "couple".
    """
    held: dict[str, float] = {}
    moved = model.body_mocapid >= 0
    active = []
    for i in np.flatnonzero(model.eq_active0).tolist():
        ends = [int(model.eq_obj1id[i]), int(model.eq_obj2id[i])]
        if model.eq_objtype[i] == _SITE:
            ends = [int(model.site_bodyid[site]) for site in ends]
        if mimic != "independent" if model.eq_type[i] == _JOINT else not moved[ends].any():
            active.append(i)
    for i in active:
        kind, data = int(model.eq_type[i]), np.array(model.eq_data[i], dtype=float)
        name = model.equality(i).name or f"equality{i}"
        if kind == _JOINT:
            _add_coupling(builder, model, names, i, data, held, lock=mimic == "lock")
        elif kind in (_CONNECT, _WELD):
            builder.add_loop(_loop(model, names, i, name, "connect" if kind == _CONNECT else "weld", data))
        else:
            raise ModelError(
                f"equality constraint {name!r} ties tendons or flexible bodies, which have no counterpart; load with "
                'loops="ignore", which leaves all of them out'
            )
    return len(active), held


def _add_coupling(
    builder: Builder, model: Any, names: Names, i: int, data: Array, held: dict[str, float], lock: bool
) -> None:
    first, second = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    follower = names.joints[first]
    r1 = float(model.qpos0[model.jnt_qposadr[first]])
    if second < 0 or lock:  # where the leader is at its reference
        held[follower] = r1 + float(data[0])
        return
    r2 = float(model.qpos0[model.jnt_qposadr[second]])
    # r₁ + Σ cᵢ (x − r₂)ⁱ, in powers of x
    shifted = np.polynomial.Polynomial(data[:5])(np.polynomial.Polynomial([-r2, 1.0])).coef.tolist()
    shifted[0] += r1
    while len(shifted) > 2 and shifted[-1] == 0.0:
        shifted.pop()
    if len(shifted) < 2 or not any(shifted[1:]):
        held[follower] = shifted[0]
    elif len(shifted) == 2:
        builder.couple(follower, to=names.joints[second], ratio=shifted[1], offset=shifted[0])
    else:
        builder.couple(follower, to=names.joints[second], poly=shifted)


def _loop(model: Any, names: Names, i: int, name: str, kind: str, data: Array) -> Loop:
    ends = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    if int(model.eq_objtype[i]) == _SITE:
        bodies = tuple(names.bodies[model.site_bodyid[site]] for site in ends)
        turns = matrix_of(np.array([model.site_quat[site] for site in ends]))
        first, second = (pose(turn, np.array(model.site_pos[site])) for turn, site in zip(turns, ends, strict=True))
    else:
        bodies = tuple(names.bodies[body] for body in ends)
        if kind == "connect":
            first, second = pose(np.eye(3), data[:3]), pose(np.eye(3), data[3:6])
        else:
            first, second = pose(matrix_of(data[None, 6:10])[0], data[3:6]), np.eye(4)
    return Loop(name, kind, (bodies[0], bodies[1]), first, second, _Z)


def by_joint(model: Any, names: Names, qpos: Array) -> dict[str, Array]:
    """A configuration, by joint."""
    starts, kinds = model.jnt_qposadr.tolist(), model.jnt_type.tolist()
    return {name: qpos[at : at + CODECS[kind].nq] for name, at, kind in zip(names.joints, starts, kinds, strict=True)}


# bits of `opt.disableflags`
_NO_CONTACT, _NO_GRAVITY = 1 << 4, 1 << 7


def from_mujoco(model: Any, *, loops: str = "embed", near: Mapping[str, Any] | None = None) -> Model:
    """A robot from a MuJoCo model.

    Configurations are MuJoCo's `qpos`, number by number: reference angles (`ref`) are worked into placements, and a
    free joint starts at the world's origin, so that `qpos0` is where the file puts the robot, and `neutral` is not. Of
    velocities only those of free joints differ; `interop.mujoco` converts them, and matrices.

    A body with several joints becomes several, massless but for the last, and so does one whose hinge or ball joint is
    off its origin: "name (joint)" is what the joint moves. Bodies and sites are frames. Keyframes are kept, and
    damping, dry friction, springs, limits and gravity compensation, which do not enter the dynamics. Actuators are left
    out; of what else Kinetree does not model, a `ModelWarning` tells.

    Args:
        model: A `mujoco.MjModel`. It is copied, so it may be changed afterwards.
        loops: "embed" turns active equality constraints into exact couplings and loops; "multipliers" keeps the open
            tree, and makes them exact constraints, `robot.equalities`, for `constrained_dynamics` and `Simulator`;
            "ignore" leaves them out.
        near: Coordinates of joints, by name, near which loops are closed; by default the first keyframe, or `qpos0`.

    Raises:
        InputError: If it is not a `mujoco.MjModel`.
    """
    require_instance("from_mujoco", model, "mujoco", "MjModel", MUJOCO_HINTS)
    if loops not in LOOPS:
        raise InputError(f"loops={loops!r} is not known; choose one of {', '.join(map(repr, LOOPS))}")
    robot, notes = converted(model, loops=loops, near=near)
    if notes.odd:
        warnings.warn(
            f"MuJoCo model {robot.name!r}: Kinetree does not model {'; '.join(notes.odd)}", ModelWarning, stacklevel=2
        )
    return robot


@dataclass(frozen=True)
class Unmodelled:
    """Numbers of objects outside the bodies that act on a robot in MuJoCo but not in Kinetree.

    Of tendons, those that exert a force of their own, rather than that of an actuator.
    """

    actuators: int = 0
    equalities: int = 0
    tendons: int = 0
    flexes: int = 0
    plugins: int = 0
    contacts: bool = False

    @classmethod
    def of(cls, model: Any) -> Unmodelled:
        """Count them in a `mujoco.MjModel`."""
        collide = bool(model.geom_contype.any() and model.geom_conaffinity.any() and model.ngeom > 1)
        contacts = bool(collide or model.npair) and not model.opt.disableflags & _NO_CONTACT
        acts = np.zeros(model.ntendon, dtype=bool)
        for name in ("stiffness", "damping", "frictionloss", "limited", "armature", "actfrclimited"):
            acts |= np.asarray(getattr(model, f"tendon_{name}", acts)) != 0
        return cls(model.nu, model.neq, int(acts.sum()), model.nflex, model.nplugin, contacts)

    def __add__(self, other: Unmodelled) -> Unmodelled:
        counts = {name: number + getattr(other, name) for name, number in asdict(self).items()}
        return Unmodelled(**counts)


#: What can become of equality constraints.
LOOPS = ("embed", "multipliers", "ignore")


class Notes(NamedTuple):
    """What Kinetree does not model: what robots usually have, and what one would not expect to be missing."""

    usual: list[str]
    odd: list[str]


def converted(
    model: Any,
    unmodelled: Unmodelled | None = None,
    *,
    loops: str = "embed",
    mimic: str = "couple",
    near: Mapping[str, Any] | None = None,
    hulls: Sequence[Hull] = (),
) -> tuple[Model, Notes]:
    """A robot from a MuJoCo model, and what Kinetree does not model of it.

    `unmodelled` counts objects that were left out of the model; by default they are counted in it. `hulls` take the
    place of geoms whose user data is their number, from 1 on.
    """
    unmodelled = Unmodelled.of(model) if unmodelled is None else unmodelled
    names = Names(model)
    robot, notes = _without_shapes(model, names, unmodelled, loops, mimic, near)
    return with_geoms(robot, model, names.bodies, hulls), notes


def _without_shapes(
    model: Any, names: Names, unmodelled: Unmodelled, loops: str, mimic: str, near: Mapping[str, Any] | None
) -> tuple[Model, Notes]:
    gravity = np.zeros(3) if model.opt.disableflags & _NO_GRAVITY else np.array(model.opt.gravity)
    name = bytes(model.names).split(b"\0")[0].decode() or "robot"
    poses = posed(matrix_of(np.array(model.site_quat)), model.site_pos) if model.nsite else np.zeros((0, 4, 4))
    placed = zip(names.sites, model.site_bodyid.tolist(), poses)
    frames = [(name, names.bodies[body], at) for name, body, at in placed]
    if model.nbody == 1:
        return Model(name, gravity, [], [], [Frame(*frame) for frame in frames]), _notes(model, names, unmodelled)
    builder = Builder(name, gravity, strict=False)
    with np.errstate(all="ignore"):  # the builder refuses what is not finite
        add_bodies(builder, model, names)
        for frame, body_name, placement in frames:
            builder.add_frame(frame, body=body_name, placement=placement)
        for key, qpos in enumerate(np.array(model.key_qpos, dtype=float)):
            builder.add_keyframe(model.key(key).name or f"key{key}", by_joint(model, names, qpos))
        if loops == "ignore" or not model.neq:
            return builder.build(), _notes(model, names, unmodelled)
        count, held = add_equalities(builder, model, names, mimic)
        if loops == "multipliers":
            for joint, position in held.items():
                builder.add_coupling(LinearCoupling((joint,), np.ones(1), position))
            robot, held = builder.build(loops="multipliers"), {}
        else:
            start = by_joint(model, names, np.array(model.key_qpos[0] if model.nkey else model.qpos0, dtype=float))
            try:
                robot = builder.build(near={**start, **(near or {})})
            except (LoopError, ModelError) as error:
                raise ModelError(f"{error}. {_WAYS_OUT}") from error
        notes = _notes(model, names, replace(unmodelled, equalities=0))
        notes.usual.append(f"slack of equality constraints, which hold exactly here ({count})")
        if unmodelled.equalities > count:
            notes.usual.append(f"equality constraints that are inactive ({unmodelled.equalities - count})")
        return robot.reduced(held) if held else robot, notes


_WAYS_OUT = (
    'Equality constraints are built into the coordinates; loops="multipliers" keeps the open tree and makes them '
    'constraints, loops="ignore" leaves them out, and near={…} closes loops elsewhere'
)


def _notes(model: Any, names: Names, unmodelled: Unmodelled) -> Notes:
    """What acts on the robot in MuJoCo but not in Kinetree, with counts."""
    fluid = model.opt.density or model.opt.viscosity or np.any(model.opt.wind)
    free = np.flatnonzero(model.jnt_type == 0).tolist()
    rotors = rotors_of(model)
    heavy = [names.joints[j] for j in free if model.dof_armature[model.jnt_dofadr[j]] + rotors[j] != 0.0]
    balls = (model.jnt_type == 1) & (model.jnt_limited != 0)
    left = 'equality constraints, left out; loops="embed" or "multipliers" keeps those of joints and bodies'
    springs = [k != 0.0 and not _springy(kind, k) for kind, k in zip(model.jnt_type, model.jnt_stiffness, strict=True)]
    counted = {
        left: unmodelled.equalities,
        "tendons": unmodelled.tendons,
        "flexible bodies": unmodelled.flexes,
        "plugins": unmodelled.plugins,
        "springs at free joints, or of negative stiffness": sum(springs),
        "limits of ball joints": np.count_nonzero(balls),
        "mocap bodies, which stay where they are": model.nmocap,
    }
    notes = [f"{what} ({count})" for what, count in counted.items() if count]
    usual = [f"actuators ({unmodelled.actuators})"] if unmodelled.actuators else []
    if unmodelled.contacts:
        usual.append("softness of contacts")
    if fluid:
        notes.append("forces of air or water")
    if heavy:
        notes.append(f"armature along world axes, here it is along the body's ({', '.join(heavy)})")
    return Notes(usual, notes)
