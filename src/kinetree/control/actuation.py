"""Who drives what: joints with and without motors, objects, and the grasps that press on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinetree.engines import arguments
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.operational_space.tasks import RelativeTask
from kinetree.spatial.value import Array


def presses(
    robot: Model, constraints: Constraints | None, objects: set[str], squeeze: Mapping[str, float]
) -> list[tuple[list[str], list[list[int]], list[float], list[str], float]]:
    """For each squeezed object: grasping frames, rows of their forces, signs, frames of their axes, and force."""
    found = []
    for name, strength in squeeze.items():
        tree = tree_of(robot, name)
        if constraints is None or tree not in objects:
            raise InputError(f"squeeze: {name!r} is no frame of an object without motors that constraints hold")
        frames, parts, signs, axes = [], [], [], []
        for one, task, part in zip(constraints.constraints, constraints.tasks.tasks, constraints.slices, strict=True):
            first, second = ends(task)
            if "world" in (first, second) or (tree_of(robot, first) == tree) == (tree_of(robot, second) == tree):
                continue
            rows = [part.start + i for i, row in enumerate(task.rows) if row in (3, 4, 5)]
            if len(rows) != 3:
                raise InputError(f"squeeze: the {one} does not hold all three directions, so it cannot press")
            # the force acts on `first`, in the axes of `second`; the object is to be pressed inwards
            signs.append(1.0 if tree_of(robot, first) == tree else -1.0)
            frames.append(second if signs[-1] > 0.0 else first)
            parts.append(rows)
            axes.append(second)
        if len(frames) < 2:
            raise InputError(f"squeeze: {name!r} is held by fewer than two grasps, so nothing can press on it")
        force = arguments.number(f"squeeze: {name!r}", strength, what="a force [N]")
        found.append((frames, parts, signs, axes, force))
    return found


def joint_names(robot: Model) -> list[str]:
    """Joint name of each degree of freedom."""
    return [joint.name for joint in robot.joints for _ in range(joint.nv)]


def root_of(robot: Model, joint: str) -> str:
    """The joint at the root of a joint's tree."""
    return tree_of(robot, robot.joint(joint).child)


def tree_of(robot: Model, frame: str) -> str:
    """The joint at the root of the tree that carries a frame; "world" if it is fixed."""
    bodies = {body.name: body for body in robot.bodies}
    moving = {joint.name for joint in robot.joints}
    extra = {each.name: each.body for each in robot.extra_frames}
    body, root = extra.get(frame, frame), "world"
    while body != "world" and body in bodies:
        if bodies[body].joint in moving:
            root = bodies[body].joint
        body = bodies[body].parent
    return root


def objects(robot: Model, driven: Array) -> set[str]:
    """Roots of trees without any motor."""
    motors: dict[str, bool] = {}
    for i, name in enumerate(joint_names(robot)):
        root = root_of(robot, name)
        motors[root] = motors.get(root, False) or bool(driven[i])
    return {root for root, any_ in motors.items() if not any_}


def ends(task: Any) -> tuple[str, str]:
    """The frame on which the force acts, and the one on which its reaction acts."""
    if isinstance(task, RelativeTask):
        return task.frame_b, task.frame_a
    return task.frame, "world"


def driven_columns(robot: Model, undriven: Any) -> Array:
    """Which degrees of freedom have a motor, (nv,): all except those of free bodies, or of the joints named."""
    names = {joint.name for joint in robot.joints}
    if undriven is None:
        without = {joint.name for joint in robot.joints if joint.kind == "floating"}
    else:
        if isinstance(undriven, str):
            raise InputError(f"undriven={undriven!r} is one name; pass a list of joints")
        without = set(undriven)
        for name in without - names:
            raise UnknownNameError("joint", name, tuple(sorted(names)))
    return np.array([name not in without for name in joint_names(robot)], dtype=bool)
