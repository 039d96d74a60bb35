"""Converts MuJoCo models to Kinetree models."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinetree.errors import InputError, ModelWarning
from kinetree.interop.foreign import MUJOCO_HINTS, require_instance
from kinetree.interop.mujoco_counterpart import CODECS
from kinetree.interop.mujoco_equalities import add_equalities, start
from kinetree.interop.mujoco_names import Names
from kinetree.model.body import Frame
from kinetree.model.builder import Builder
from kinetree.model.coupling import LinearCoupling
from kinetree.model.joint import Limits
from kinetree.model.model import Model
from kinetree.model.placement import pose
from kinetree.spatial.fixed import product
from kinetree.spatial.rotation import exp_matrix, matrix_of
from kinetree.spatial.value import Array

# bits of `opt.disableflags`
_NO_CONTACT, _NO_GRAVITY = 1 << 4, 1 << 7

# values of `actuator_trntype`: a joint, in the child's axes or the parent's
_AT_JOINTS = (0, 1)


def from_mujoco(model: Any, *, loops: str = "ignore") -> Model:
    """A robot from a MuJoCo model.

    Configurations are MuJoCo's `qpos`, number by number: reference angles (`ref`) are worked into placements, and a
    free joint starts at the world's origin, so that `qpos0` is where the file puts the robot, and `neutral` is not. Of
    velocities only those of free joints differ; `interop.mujoco` converts them, and matrices.

    A body with several joints becomes several, massless but for the last, and so does one whose hinge or ball joint is
    off its origin: "name (joint)" is what the joint moves. Bodies and sites are frames. Damping, dry friction and
    limits are kept on the joints. What Kinetree does not model is listed in one `ModelWarning`.

    Args:
        model: A `mujoco.MjModel`. It is copied, so it may be changed afterwards.
        loops: "embed" turns active equality constraints into exact couplings and loops, closed near the first keyframe
            or `qpos0`; "multipliers" keeps the open tree, and makes them exact constraints, `robot.equalities`, for
            `constrained_dynamics` and `Simulator`; "ignore" leaves them out.

    Raises:
        InputError: If it is not a `mujoco.MjModel`.
    """
    require_instance("from_mujoco", model, "mujoco", "MjModel", MUJOCO_HINTS)
    if loops not in LOOPS:
        raise InputError(f"loops={loops!r} is not known; choose one of {', '.join(map(repr, LOOPS))}")
    robot, notes = converted(model, loops=loops)
    if notes:
        warnings.warn(
            f"MuJoCo model {robot.name!r}: Kinetree does not model {'; '.join(notes)}", ModelWarning, stacklevel=2
        )
    return robot


@dataclass(frozen=True)
class Unmodelled:
    """Numbers of objects outside the bodies that act on a robot in MuJoCo but not in Kinetree."""

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
        return cls(model.nu, model.neq, model.ntendon, model.nflex, model.nplugin, contacts)

    def __add__(self, other: Unmodelled) -> Unmodelled:
        return Unmodelled(
            self.actuators + other.actuators,
            self.equalities + other.equalities,
            self.tendons + other.tendons,
            self.flexes + other.flexes,
            self.plugins + other.plugins,
            self.contacts or other.contacts,
        )


#: What can become of equality constraints.
LOOPS = ("embed", "multipliers", "ignore")


def converted(model: Any, unmodelled: Unmodelled | None = None, *, loops: str = "ignore") -> tuple[Model, list[str]]:
    """A robot from a MuJoCo model, and what Kinetree does not model of it.

    Args:
        model: A `mujoco.MjModel`.
        unmodelled: Objects outside the bodies, if they were left out of the model; otherwise counted in it.
        loops: What becomes of equality constraints.
    """
    unmodelled = Unmodelled.of(model) if unmodelled is None else unmodelled
    names = Names(model)
    gravity = np.zeros(3) if model.opt.disableflags & _NO_GRAVITY else np.array(model.opt.gravity)
    name = bytes(model.names).split(b"\0")[0].decode() or "robot"
    turns = matrix_of(np.array(model.site_quat))
    frames = [
        (name, names.bodies[model.site_bodyid[site]], pose(turns[site], np.array(model.site_pos[site])))
        for site, name in enumerate(names.sites)
    ]
    if model.nbody == 1:
        return Model(name, gravity, [], [], [Frame(*frame) for frame in frames]), _notes(model, names, unmodelled)
    builder = Builder(name, gravity, strict=False)
    turns, principal = matrix_of(np.array(model.body_quat)), matrix_of(np.array(model.body_iquat))
    rotors = _rotors(model)
    with np.errstate(all="ignore"):  # the builder refuses what is not finite
        for body in range(1, model.nbody):
            at = pose(turns[body], np.array(model.body_pos[body]))
            _add_body(builder, model, names, body, at, principal[body], rotors)
        for frame, body_name, placement in frames:
            builder.add_frame(frame, body=body_name, placement=placement)
        if loops == "ignore" or not model.neq:
            return builder.build(), _notes(model, names, unmodelled)
        count, held = add_equalities(builder, model, names)
        if loops == "multipliers":
            for joint, position in held.items():
                builder.add_coupling(LinearCoupling((joint,), np.ones(1), position))
            robot, held = builder.build(loops="multipliers"), {}
        else:
            robot = builder.build(near=start(model, names))
        notes = _notes(model, names, replace(unmodelled, equalities=unmodelled.equalities - count))
        notes.append(f"slack of equality constraints, which hold exactly here ({count})")
        return robot.reduced(held) if held else robot, notes


def _rotors(model: Any) -> Array:
    """Reflected rotor inertia that actuators add to each joint."""
    rotors = np.zeros(model.njnt)
    armature = getattr(model, "actuator_armature", None)  # older versions have none
    if armature is None:
        return rotors
    first = getattr(model, "actuator_outadr", np.arange(len(armature)))
    for actuator in np.flatnonzero(armature):
        if model.actuator_trntype[actuator] in _AT_JOINTS:
            gear = float(model.actuator_gear[first[actuator], 0])
            rotors[model.actuator_trnid[actuator, 0]] += gear * gear * float(armature[actuator])
    return rotors


def _add_body(builder: Builder, model: Any, names: Names, body: int, at: Array, R: Array, rotors: Array) -> None:
    """Add a body with its joints, in the order in which MuJoCo applies them.

    Args:
        builder: The builder to add to.
        model: MuJoCo's model.
        names: Names in Kinetree.
        body: MuJoCo's index of the body.
        at: Its pose in its parent, (4, 4).
        R: Axes of its principal inertias, (3, 3).
        rotors: Armature that actuators add to each joint.
    """
    name, parent = names.bodies[body], names.bodies[model.body_parentid[body]]
    solid: dict[str, Any] = {
        "mass": float(model.body_mass[body]),
        "com": np.array(model.body_ipos[body]),
        "inertia": product(R * np.array(model.body_inertia[body]), R.T),
    }
    joints = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
    origin = np.zeros(3)  # of the last link frame, seen from the body's; they have the same axes
    # hinges and balls rotate about their anchor; the position of a slide is irrelevant
    anchors = [np.array(model.jnt_pos[joint]) for joint in joints if CODECS[model.jnt_type[joint]].kind != "prismatic"]
    off_centre = bool(anchors and anchors[-1].any() and model.jnt_type[joints[0]] != 0)
    for joint in joints:
        last = joint == joints[-1] and not off_centre
        link = name if last else names.free(f"{name} ({names.joints[joint]})")
        kind, axis = CODECS[model.jnt_type[joint]].kind, np.array(model.jnt_axis[joint])
        reference = float(model.qpos0[model.jnt_qposadr[joint]])
        anchor = origin if kind == "prismatic" else np.array(model.jnt_pos[joint])
        placed = product(at, pose(np.eye(3), anchor - origin))
        if kind == "floating":
            placed, anchor = np.eye(4), origin
        elif kind == "revolute" and reference != 0.0:
            placed = product(placed, pose(exp_matrix(-reference * axis), np.zeros(3)))
        elif kind == "prismatic":
            placed = product(placed, pose(np.eye(3), -reference * axis))
        dofs = slice(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + len(CODECS[model.jnt_type[joint]].columns))
        order = np.argsort(CODECS[model.jnt_type[joint]].columns)
        builder.add_body(
            link,
            parent=parent,
            joint=kind,
            joint_name=names.joints[joint],
            placement=placed,
            axis=axis if kind in ("revolute", "prismatic") else None,
            armature=np.array(model.dof_armature[dofs])[order] + rotors[joint],
            damping=np.array(model.dof_damping[dofs])[order],
            friction=np.array(model.dof_frictionloss[dofs])[order],
            limits=_limits(model, joint, kind),
            **(solid if last else {}),
        )
        parent, at, origin = link, np.eye(4), anchor
    if not len(joints) or off_centre:
        back = product(at, pose(np.eye(3), -origin))
        builder.add_body(
            name, parent=parent, joint="fixed", joint_name=names.free_joint(f"{name}_joint"), placement=back, **solid
        )


def _limits(model: Any, joint: int, kind: str) -> Limits:
    """Limits of hinges and slides; the cone of a ball joint does not limit its coordinates."""
    if kind not in ("revolute", "prismatic"):
        return Limits()
    lower, upper = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.inf, np.inf)
    effort = np.max(np.abs(model.jnt_actfrcrange[joint])) if model.jnt_actfrclimited[joint] else np.inf
    return Limits(float(lower), float(upper), np.inf, float(effort))


def _notes(model: Any, names: Names, unmodelled: Unmodelled) -> list[str]:
    """What acts on the robot in MuJoCo but not in Kinetree, with counts."""
    fluid = model.opt.density or model.opt.viscosity or np.any(model.opt.wind)
    free = [j for j in range(model.njnt) if model.jnt_type[j] == 0]
    rotors = _rotors(model)
    heavy = [names.joints[j] for j in free if model.dof_armature[model.jnt_dofadr[j]] + rotors[j] != 0.0]
    balls = (model.jnt_type == 1) & (model.jnt_limited != 0)
    kept = np.any(model.dof_damping) or np.any(model.dof_frictionloss)
    counted = {
        "actuators": unmodelled.actuators,
        "equality constraints": unmodelled.equalities,
        "tendons": unmodelled.tendons,
        "flexible bodies": unmodelled.flexes,
        "plugins": unmodelled.plugins,
        "springs at joints": np.count_nonzero(model.jnt_stiffness),
        "limits of ball joints": np.count_nonzero(balls),
        "bodies with gravity compensation": np.count_nonzero(model.body_gravcomp),
        "mocap bodies, which stay where they are": model.nmocap,
    }
    notes = [f"{what} ({count})" for what, count in counted.items() if count]
    if unmodelled.contacts:
        notes.append("contacts")
    if fluid:
        notes.append("forces of air or water")
    if kept:
        notes.append("damping and dry friction of joints, which are kept but do not act")
    if heavy:
        notes.append(f"armature along world axes, here it is along the body's ({', '.join(heavy)})")
    return notes
