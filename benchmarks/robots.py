"""The same robots in Pinocchio, MuJoCo and Kinetree.

Real robots come from Pinocchio's model of a URDF file: inertias and placements are copied joint by joint, so that both
libraries compute with the same numbers. `benchmarks.mjcf` writes them once more for MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import kinetree as kt
from kinetree.model import Frame

Array = np.ndarray[Any, np.dtype[np.float64]]

_ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", False),
    "Panda": ("panda_description/urdf/panda.urdf", False),
    "ANYmal": ("anymal_c_simple_description/urdf/anymal.urdf", True),
    "Talos": ("talos_data/robots/talos_reduced.urdf", True),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
}
#: Those on which every function is timed.
NAMES = ("Panda", "ANYmal", "Talos")


@dataclass(frozen=True)
class Part:
    """A body and the joint that carries it.

    Attributes:
        name: Of the body.
        parent: Name of the body that carries it, or "world".
        joint: Kind of the joint.
        placement: Pose of the joint in the parent, (4, 4).
        axis: Of a one-DoF joint.
        mass: [kg].
        com: Centre of mass [m].
        inertia: About the centre of mass, (3, 3) [kg m²].
        armature: One entry per degree of freedom [kg m² or kg].
    """

    name: str
    parent: str
    joint: str
    placement: Array
    axis: Array
    mass: float
    com: Array
    inertia: Array
    armature: Array


@dataclass(frozen=True)
class Robot:
    """One robot in both libraries.

    Attributes:
        name: For tables.
        model: In Kinetree.
        pinocchio: In Pinocchio, with the same joints in the same order.
        parts: What both were made from.
        order: Converts coordinates between the two.
        frames: Name in Kinetree and number in Pinocchio of every frame.
    """

    name: str
    model: kt.Model
    pinocchio: Any
    parts: tuple[Part, ...]
    order: kt.interop.PinocchioCounterpart
    frames: tuple[tuple[str, int], ...]


def from_pinocchio(name: str, model: Any, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)) -> Robot:
    """A Pinocchio model of one-DoF joints and free-flyers in Kinetree, with all of its frames, those of joints too."""
    model.gravity.linear = np.array(gravity)
    copied = kt.from_pinocchio(model)
    if [joint.name for joint in copied.joints] != list(model.names)[1:]:
        raise ValueError(f"{name}: Pinocchio's joints are not in depth-first order")
    bodies = ["world", *(joint.child for joint in copied.joints)]
    # Body by body, as MuJoCo orders its sites; a stable sort keeps a file's order within each body.
    numbers = sorted(range(1, model.nframes), key=lambda number: model.frames[number].parentJoint)
    frames = [
        Frame(f"{frame.name} {frame.type}", bodies[frame.parentJoint], frame.placement.homogeneous)
        for frame in (model.frames[number] for number in numbers)
    ]
    robot = kt.Model(name, copied.gravity, copied.bodies, copied.joints, frames)
    parts = tuple(_part(body, joint) for body, joint in zip(robot.bodies, robot.joints))
    named = tuple((frame.name, number) for frame, number in zip(frames, numbers))
    return Robot(name, robot, model, parts, kt.interop.pinocchio(robot, model), named)


def _part(body: kt.Body, joint: kt.Joint) -> Part:
    return Part(
        name=body.name,
        parent=body.parent,
        joint=joint.kind,
        placement=joint.placement,
        axis=joint.axes[0] if len(joint.axes) else np.array([0.0, 0.0, 1.0]),
        mass=body.mass,
        com=body.com,
        inertia=body.inertia,
        armature=joint.armature,
    )


def load(name: str) -> Robot:
    """One of the real robots: UR5, Panda, ANYmal, Talos, G1."""
    file, floating = _ROBOTS[name]
    path = str(share() / file)
    model = pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer()) if floating else pin.buildModelFromUrdf(path)
    return from_pinocchio(name, model)


def share() -> Path:
    """Where the package example-robot-data puts its files: beside Pinocchio's."""
    prefix = next(parent for parent in Path(pin.__file__).parents if parent.name == "cmeel.prefix")
    return prefix / "share" / "example-robot-data" / "robots"


def chain(n: int, seed: int = 0) -> Robot:
    """A serial chain of n bodies with revolute joints about random axes."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    parent = 0
    for i in range(n):
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        placement = pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.2]) if i else np.zeros(3))
        parent = model.addJoint(parent, pin.JointModelRevoluteUnaligned(axis), placement, f"joint{i}")
        moments = rng.uniform(0.02, 0.04, 3)
        inertia = pin.Inertia(float(rng.uniform(0.5, 2.0)), rng.uniform(-0.1, 0.1, 3), np.diag(moments))
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
        tip = pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.2]))
        model.addFrame(pin.Frame(f"tip{i}", parent, 0, tip, pin.FrameType.OP_FRAME))
    return from_pinocchio(f"chain {n}", model)


def state_pool(robot: kt.Model, count: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Random configurations, velocities and accelerations (or joint forces), `count` of each."""
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, (count,))
    v, a = rng.uniform(-1.0, 1.0, (2, count, robot.nv))
    return q, v, a
