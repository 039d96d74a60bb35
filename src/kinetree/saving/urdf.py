"""Export to URDF."""

from __future__ import annotations

import math
import warnings

import numpy as np

from kinetree.errors import InputError, ModelError, ModelWarning
from kinetree.model.coupling import LinearCoupling
from kinetree.model.joint import Joint
from kinetree.model.model import Model
from kinetree.model.specs import WORLD_NAME
from kinetree.saving.elements import Elements, number, numbers
from kinetree.saving.series import unfolded
from kinetree.spatial.value import Array

# Represents "no limit" where a number is required; `load` and other programs understand it.
_NO_LIMIT = 1e16
_GRAVITY = (0.0, 0.0, -9.81)


def to_urdf(robot: Model) -> str:
    """A robot as URDF source, which `load` reads back.

    Root bodies are attached to a link "world"; extra frames become massless links with fixed joints. Cylindrical,
    universal and translational joints become joints in series with the same coordinates. A single `ModelWarning` lists
    whatever URDF cannot express: armature, gravity other than 9.81 m/s² downwards, damping that differs between the
    coordinates of one joint. Spherical joints are an extension that few programs read.

    Args:
        robot: The model.

    Raises:
        InputError: If `robot` is not a `Model`.
        ModelError: If it has a helical joint, which URDF does not support.
    """
    if not isinstance(robot, Model):
        raise InputError(f"to_urdf takes a kinetree.Model, got {type(robot).__name__}")
    lost: list[str] = []
    if not np.array_equal(robot.gravity, _GRAVITY):
        lost.append(f"gravity {numbers(robot.gravity)}")
    model = unfolded(robot)
    xml = Elements()
    xml.open("robot", name=model.name)
    xml.put("link", name=WORLD_NAME)
    for body in model.bodies:
        if body.mass == 0.0 and not body.inertia.any():
            xml.put("link", name=body.name)
            continue
        xml.open("link", name=body.name)
        xml.open("inertial")
        xml.put("origin", xyz=numbers(body.com))
        xml.put("mass", value=number(body.mass))
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        xml.put("inertia", **{name: number(value) for name, value in moments.items()})
        xml.close()
        xml.close()
    for frame in model.extra_frames:
        xml.put("link", name=frame.name)
    taken = {model.joint(body.joint).name for body in model.bodies}
    mimics = _mimics(model)
    for body in model.bodies:
        _write_joint(xml, model.joint(body.joint), mimics, lost)
    for frame in model.extra_frames:
        name = f"{frame.name}_joint"
        while name in taken:
            name += "_"
        taken.add(name)
        xml.open("joint", name=name, type="fixed")
        _write_ends(xml, frame.body, frame.name, frame.placement)
        xml.close()
    xml.close()
    if lost:
        warnings.warn(f"{robot.name!r} as URDF loses: {'; '.join(lost)}", ModelWarning, stacklevel=2)
    return xml.text()


def _mimics(model: Model) -> dict[str, dict[str, str]]:
    """Attributes of the <mimic> of each coupled joint, by name."""
    found: dict[str, dict[str, str]] = {}
    for coupling in model.couplings:
        if not isinstance(coupling, LinearCoupling) or len(coupling.joints) != 2 or coupling.joints[0] in found:
            raise ModelError(
                f"URDF cannot describe the coupling {coupling}: a joint mimics one other joint, linearly; lock a joint "
                "with reduced()"
            )
        follower, leader = coupling.joints
        own, other = coupling.coefficients.tolist()
        found[follower] = {
            "joint": leader, "multiplier": number(-other / own), "offset": number(coupling.offset / own)
        }  # fmt: skip
    return found


def _write_joint(xml: Elements, joint: Joint, mimics: dict[str, dict[str, str]], lost: list[str]) -> None:
    if joint.kind == "helical":
        raise ModelError(f"joint {joint.name!r} is helical, which URDF does not know; lock it with reduced()")
    if joint.armature.any():
        lost.append(f"armature of joint {joint.name!r}")
    bounded = joint.type.nv == 1 and (joint.limits.lower[0] > -math.inf or joint.limits.upper[0] < math.inf)
    kind = "continuous" if joint.kind == "revolute" and not bounded else joint.kind
    xml.open("joint", name=joint.name, type=kind)
    _write_ends(xml, joint.parent, joint.child, joint.placement)
    if joint.type.axes:
        xml.put("axis", xyz=numbers(joint.axes[0]))
    if joint.type.nv == 1:
        limits = {name: getattr(joint.limits, name)[0] for name in ("lower", "upper", "velocity", "effort")}
        written = {name: number(min(max(value, -_NO_LIMIT), _NO_LIMIT)) for name, value in limits.items()}
        if kind == "continuous":
            del written["lower"], written["upper"]
        xml.put("limit", **written)
    elif any(np.isfinite(getattr(joint.limits, name)).any() for name in ("lower", "upper", "velocity", "effort")):
        lost.append(f"limits of joint {joint.name!r}")
    dissipation = {}
    for name in ("damping", "friction"):
        values = set(getattr(joint, name).tolist())
        if len(values) > 1:
            lost.append(f"{name} of joint {joint.name!r}, which differs between its coordinates")
        elif any(values):
            dissipation[name] = number(values.pop())
    if dissipation:
        xml.put("dynamics", **dissipation)
    if joint.name in mimics:
        xml.put("mimic", **mimics[joint.name])
    xml.close()


def _write_ends(xml: Elements, parent: str, child: str, placement: Array) -> None:
    xml.put("parent", link=parent)
    xml.put("child", link=child)
    turn = {} if np.array_equal(placement[:3, :3], np.eye(3)) else {"rpy": numbers(_angles(placement[:3, :3]))}
    if turn or placement[:3, 3].any():
        xml.put("origin", xyz=numbers(placement[:3, 3]), **turn)


def _angles(R: Array) -> tuple[float, float, float]:
    """Roll, pitch and yaw about the fixed x, y and z axes; where they are not unique, roll is zero."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) < 1e-8:
        # gimbal lock: roll and yaw are about the same axis
        yaw = math.atan2(-R[0, 1], R[1, 1])
        return 0.0, pitch, yaw
    yaw = math.atan2(R[1, 0], R[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    # undo the yaw first, so that roll stays accurate near pitch = ±π/2
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw
