"""Converts MuJoCo models to Kinetree models."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinetree.errors import InputError, ModelWarning
from kinetree.interop.foreign import MUJOCO_HINTS, require_instance
from kinetree.interop.mujoco_bodies import add_bodies, poses_of, rotors_of
from kinetree.interop.mujoco_equalities import add_equalities, start
from kinetree.interop.mujoco_names import Names
from kinetree.model.body import Frame
from kinetree.model.builder import Builder
from kinetree.model.coupling import LinearCoupling
from kinetree.model.model import Model

# bits of `opt.disableflags`
_NO_CONTACT, _NO_GRAVITY = 1 << 4, 1 << 7


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
    placed = zip(names.sites, model.site_bodyid.tolist(), poses_of(model.site_quat, model.site_pos))
    frames = [(name, names.bodies[body], at) for name, body, at in placed]
    if model.nbody == 1:
        return Model(name, gravity, [], [], [Frame(*frame) for frame in frames]), _notes(model, names, unmodelled)
    builder = Builder(name, gravity, strict=False)
    with np.errstate(all="ignore"):  # the builder refuses what is not finite
        add_bodies(builder, model, names)
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


def _notes(model: Any, names: Names, unmodelled: Unmodelled) -> list[str]:
    """What acts on the robot in MuJoCo but not in Kinetree, with counts."""
    fluid = model.opt.density or model.opt.viscosity or np.any(model.opt.wind)
    free = np.flatnonzero(model.jnt_type == 0).tolist()
    rotors = rotors_of(model)
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
