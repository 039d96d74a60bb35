"""Description of a robot, human-readable or as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

import kinetree as kt
from kinetree.cli.tables import table
from kinetree.cli.terminal import safe
from kinetree.model.joint import Joint
from kinetree.spatial.value import Array


def center_of_mass(robot: kt.Model) -> Array | None:
    """Centre of mass in the neutral configuration, in the world frame, (3,) [m]; None if no body has mass."""
    if not robot.mass > 0.0:
        return None
    # the reference engine, since compiling takes longer than a single call
    poses = robot.pose.engine("reference")(robot.neutral(), [body.name for body in robot.bodies])
    places = [pose[:3, :3] @ body.com + pose[:3, 3] for body, pose in zip(robot.bodies, poses)]
    total: Array = sum(body.mass * place for body, place in zip(robot.bodies, places)) / robot.mass
    return total


def as_json(robot: kt.Model, warnings: list[str]) -> str:
    """A complete description of a robot, in SI units; missing limits are null."""
    com = center_of_mass(robot)
    return json.dumps(
        {
            "name": robot.name,
            "nq": robot.nq,
            "nv": robot.nv,
            "mass": robot.mass,
            "center_of_mass": None if com is None else com.tolist(),
            "gravity": robot.gravity.tolist(),
            "bodies": [
                {
                    "name": body.name,
                    "parent": body.parent,
                    "joint": body.joint,
                    "mass": body.mass,
                    "com": body.com.tolist(),
                    "inertia": body.inertia.tolist(),
                }
                for body in robot.bodies
            ],
            "couplings": [str(coupling) for coupling in robot.couplings],
            "joints": [_joint(joint) for joint in (*robot.joints, *robot.fixed_joints)],
            "frames": list(robot.frames),
            "warnings": warnings,
        },
        indent=2,
        allow_nan=False,
    )


def show(console: Console, robot: kt.Model, warnings: list[str]) -> None:
    """Print a robot's tree, its joints, its mass and its warnings."""
    console.print(safe(robot))
    if robot.joints:
        console.print()
        console.print(_joints(robot))
    if robot.couplings:
        console.print("\ncoupled joints:")
        for coupling in robot.couplings:
            console.print(f"  {safe(coupling)}")
    com = center_of_mass(robot)
    where = "" if com is None else f", centre of mass in the neutral configuration {_numbers(com)} m"
    console.print(f"\nmass {robot.mass:.6g} kg{where}")
    if warnings:
        console.print(f"\n{len(warnings)} warning{'s' if len(warnings) > 1 else ''}:", style="yellow")
        for text in warnings:
            console.print(f"  {safe(text)}")


def _joint(joint: Joint) -> dict[str, Any]:
    limits = joint.limits
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "placement": joint.placement.tolist(),
        "axes": joint.axes.tolist(),
        "q": [joint.q_slice.start, joint.q_slice.stop] if joint.nq else None,
        "v": [joint.v_slice.start, joint.v_slice.stop] if joint.nv else None,
        "limits": {
            name: [bound if math.isfinite(bound) else None for bound in getattr(limits, name)]
            for name in ("lower", "upper", "velocity", "effort")
        },
        "armature": joint.armature.tolist(),
        "damping": joint.damping.tolist(),
        "friction": joint.friction.tolist(),
    }


def _joints(robot: kt.Model) -> Text:
    """One row per moving joint; a dash where there is no limit."""
    rows = []
    for joint in robot.joints:
        limits = joint.limits
        bounds = [_bounds(values) for values in (limits.lower, limits.upper, limits.velocity, limits.effort)]
        armature = _bounds(joint.armature) if joint.armature.any() else "–"
        rows.append([joint.name, joint.kind, *bounds, armature])
    return table(("joint", "kind", "lower", "upper", "velocity", "effort", "armature"), rows, left=2)


def _bounds(values: Any) -> str:
    if not any(math.isfinite(value) for value in values):
        return "–"
    return " ".join(f"{value:.4g}" if math.isfinite(value) else "–" for value in dict.fromkeys(values))


def _numbers(values: Array) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in np.asarray(values) + 0.0) + ")"
