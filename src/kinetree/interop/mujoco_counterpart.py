"""Conversion to and from MuJoCo's coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.interop.codec import Codec, same
from kinetree.interop.counterpart import CoordinatePlace, Counterpart, matched
from kinetree.interop.foreign import MUJOCO_HINTS, require_instance, require_pair
from kinetree.interop.mujoco_names import Names
from kinetree.model.model import Model
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

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
        self._found = {name: found[name] for name in robot.frames if name in found}

    @property
    def frames(self) -> tuple[str, ...]:
        return tuple(self._found)

    def frame_id(self, frame: str) -> tuple[str, int]:
        """MuJoCo's type of a frame, "body" or "site", and its index."""
        self._require(frame)
        return self._found[frame]

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
