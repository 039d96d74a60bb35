"""Robots as MJCF text, with the same numbers to the last digit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def mjcf(
    name: str,
    parts: Iterable[Any],
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81),
    sites: Iterable[tuple[str, Array]] = (),
) -> str:
    """Parts as MJCF: hinges, slides, balls and free joints, explicit inertias, no constraints.

    Args:
        name: Of the robot.
        parts: Objects with the attributes of `Part`, depth first; floating joints hang on the world.
        gravity: Acceleration of free fall [m/s²].
        sites: Extra frames: the body's name and the pose in it, (4, 4).
    """
    fixed: dict[str, list[Array]] = {}
    for body, pose in sites:
        fixed.setdefault(body, []).append(pose)
    children: dict[str, list[Any]] = {}
    for part in parts:
        children.setdefault(part.parent, []).append(part)

    def numbers(values: Any) -> str:
        return " ".join(repr(float(value)) for value in np.ravel(values))

    def place(pose: Array) -> str:
        return f'pos="{numbers(pose[:3, 3])}" quat="{numbers(_quaternion(pose))}"'

    def write(part: Any, indent: str) -> str:
        entries = part.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        kind = {"revolute": "hinge", "prismatic": "slide", "spherical": "ball", "floating": "free"}[part.joint]
        axis = f' axis="{numbers(part.axis)}"' if kind in ("hinge", "slide") else ""
        lines = [
            f'<body name="{part.name}" {place(part.placement)}>',
            f'  <inertial mass="{float(part.mass)!r}" pos="{numbers(part.com)}" fullinertia="{numbers(entries)}"/>',
            f'  <joint type="{kind}"{axis} armature="{float(part.armature[0])!r}"/>',
            *(f"  <site {place(pose)}/>" for pose in fixed.get(part.name, [])),
        ]
        inner = "".join(write(child, indent + "  ") for child in children.get(part.name, []))
        return "".join(f"{indent}{line}\n" for line in lines) + inner + f"{indent}</body>\n"

    tree = "".join(f"    <site {place(pose)}/>\n" for pose in fixed.get("world", []))
    tree += "".join(write(part, "    ") for part in children.get("world", []))
    return (
        f'<mujoco model="{name}">\n'
        '  <compiler angle="radian" boundmass="0" boundinertia="0" inertiafromgeom="false"/>\n'
        f'  <option gravity="{numbers(gravity)}">\n'
        '    <flag contact="disable" constraint="disable" limit="disable" eulerdamp="disable"/>\n'
        f"  </option>\n  <worldbody>\n{tree}  </worldbody>\n</mujoco>\n"
    )


def _quaternion(pose: Array) -> Array:
    """Unit quaternion w, x, y, z of a pose's rotation, by the eigenvector that is stable everywhere."""
    R = pose[:3, :3]
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
            [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
            [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    return np.asarray(np.linalg.eigh(K)[1][:, -1])
