"""Robots as SDF text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kinetree as kt


def sdf(robot: kt.Model) -> str:
    """A robot with hinges, slides and fixed joints as SDF; poses are relative to the parent, as in a URDF."""
    joints = {joint.child: joint for joint in (*robot.joints, *robot.fixed_joints)}
    lines = ['<sdf version="1.9">', f'<model name="{robot.name}">']
    for body in robot.bodies:
        to = "" if body.parent == "world" else f' relative_to="{body.parent}"'
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia.tolist()
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        lines += [
            f'<link name="{body.name}">',
            f"  <pose{to}>{_numbers(_pose(joints[body.name].placement))}</pose>",
            f"  <inertial><pose>{_numbers(body.com)} 0 0 0</pose><mass>{body.mass!r}</mass>",
            f"    <inertia>{_elements(moments)}</inertia></inertial>",
            "</link>",
        ]
    for body in robot.bodies:
        joint = joints[body.name]
        name = joint.name if joint.name not in joints else f"{joint.name} (joint)"  # links and joints share names
        lines.append(f'<joint name="{name}" type="{joint.kind}">')
        lines.append(f"  <parent>{body.parent}</parent><child>{body.name}</child>")
        if joint.kind != "fixed":
            limits = {key: getattr(joint.limits, key)[0] for key in ("lower", "upper", "velocity", "effort")}
            losses = {"damping": float(joint.damping[0]), "friction": float(joint.friction[0])}
            lines += [
                f"  <axis><xyz>{_numbers(joint.axes)}</xyz>",
                f"    <limit>{_elements(limits)}</limit>",
                f"    <dynamics>{_elements(losses)}</dynamics></axis>",
            ]
        lines.append("</joint>")
    return "\n".join([*lines, "</model>", "</sdf>\n"])


def _numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in np.ravel(values))


def _elements(values: dict[str, float]) -> str:
    return "".join(f"<{name}>{value!r}</{name}>" for name, value in values.items())


def _pose(placement: Any) -> list[float]:
    """Position, then roll, pitch and yaw."""
    R, p = placement[:3, :3], placement[:3, 3]
    roll, yaw = math.atan2(R[2, 1], R[2, 2]), math.atan2(R[1, 0], R[0, 0])
    return [*p.tolist(), roll, math.atan2(-R[2, 0], math.hypot(R[2, 1], R[2, 2])), yaw]
