"""The same robots in Pinocchio, MuJoCo and Ramify.

Real robots come from Pinocchio's model of a URDF file: inertias and placements are copied joint by joint, so that both
libraries compute with the same numbers. `benchmarks.mjcf` writes them once more for MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import ramify as rf

Array = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

_ROBOTS = {
    "Panda": ("panda_description/urdf/panda.urdf", False),
    "ANYmal": ("anymal_c_simple_description/urdf/anymal.urdf", True),
    "Talos": ("talos_data/robots/talos_reduced.urdf", True),
}
NAMES = tuple(_ROBOTS)


@dataclass(frozen=True)
class Order:
    """How Pinocchio's coordinates map to Ramify's, joint by joint.

    Pinocchio writes the linear part of a velocity first, quaternions as x, y, z, w, and planar and unbounded angles as
    cosine and sine.

    Attributes:
        kinds: Kind of each joint in both libraries' common order.
        unbounded: Whether Pinocchio stores each joint's angle as cosine and sine.
        columns: For each of Pinocchio's velocities, the place of the same one in Ramify.
    """

    kinds: tuple[str, ...]
    unbounded: tuple[bool, ...]
    columns: Indices

    @classmethod
    def of(cls, kinds: list[str], degrees: list[int], unbounded: list[bool] | None = None) -> Order:
        """Derive the order from the joints' kinds and degrees of freedom."""
        columns: list[int] = []
        start = 0
        for kind, nv in zip(kinds, degrees):
            local = {"floating": [3, 4, 5, 0, 1, 2], "planar": [1, 2, 0]}.get(kind, list(range(nv)))
            columns += [start + i for i in local]
            start += nv
        return cls(tuple(kinds), tuple(unbounded or [False] * len(kinds)), np.array(columns, dtype=np.intp))

    @property
    def back(self) -> Indices:
        """For each of Ramify's velocities, its place in Pinocchio."""
        return np.argsort(self.columns)

    def q(self, robot: rf.Model, q: Array) -> Array:
        """Ramify's configurations, (…, nq), in Pinocchio's coordinates."""
        parts = []
        joints = [joint for joint in robot.joints if joint.kind != "fixed"]
        for kind, joint, unbounded in zip(self.kinds, joints, self.unbounded):
            own = q[..., joint.q_slice]
            if kind == "spherical":
                own = own[..., [1, 2, 3, 0]]
            elif kind == "floating":
                own = own[..., [0, 1, 2, 4, 5, 6, 3]]
            elif kind == "planar":
                own = np.concatenate([own[..., :2], np.cos(own[..., 2:]), np.sin(own[..., 2:])], axis=-1)
            elif unbounded:
                own = np.concatenate([np.cos(own), np.sin(own)], axis=-1)
            parts.append(own)
        return np.concatenate(parts, axis=-1)

    def v(self, v: Array) -> Array:
        """Ramify's velocities, accelerations or joint forces, (…, nv), in Pinocchio's order."""
        return v[..., self.columns]

    def vector(self, vector: Array) -> Array:
        """Pinocchio's vector over degrees of freedom in Ramify's order."""
        return vector[..., self.back]

    def matrix(self, matrix: Array) -> Array:
        """Pinocchio's square matrix over degrees of freedom in Ramify's order."""
        return np.asarray(matrix[self.back][:, self.back])

    def jacobian(self, jacobian: Array) -> Array:
        """Pinocchio's 6×nv matrix in Ramify's order, angular rows first."""
        return np.asarray(jacobian[[3, 4, 5, 0, 1, 2]][:, self.back])


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
        model: In Ramify.
        pinocchio: In Pinocchio, with the same joints in the same order.
        parts: What both were made from.
        order: How coordinates map.
        frames: Name in Ramify and number in Pinocchio of every frame.
    """

    name: str
    model: rf.Model
    pinocchio: Any
    parts: tuple[Part, ...]
    order: Order
    frames: tuple[tuple[str, int], ...]


def from_pinocchio(name: str, model: Any, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)) -> Robot:
    """Copy a Pinocchio model of one-DoF joints and free-flyers, joint by joint and frame by frame."""
    model.gravity.linear = np.array(gravity)
    # Links and joints of a URDF may share names, so that bodies here get names of their own.
    names = ["world", *(f"{joint} link" for joint in list(model.names)[1:])]
    parts, degrees, unbounded = [], [], []
    builder = rf.Builder(name=name, gravity=gravity, strict=False)  # published inertias are not always possible
    for i in range(1, model.njoints):
        joint, inertia = model.joints[i], model.inertias[i]
        kind, axis = _kind_and_axis(joint)
        part = Part(
            name=names[i],
            parent=names[model.parents[i]],
            joint=kind,
            placement=model.jointPlacements[i].homogeneous,
            axis=axis,
            mass=float(inertia.mass),
            com=np.array(inertia.lever),
            inertia=np.array(inertia.inertia),
            armature=np.array(model.armature[joint.idx_v : joint.idx_v + joint.nv]),
        )
        builder.add_body(
            part.name,
            parent=part.parent,
            joint=kind,
            joint_name=model.names[i],
            placement=part.placement,
            mass=part.mass,
            com=part.com,
            inertia=part.inertia,
            axis=axis if joint.nv == 1 else None,
            armature=part.armature,
        )
        parts.append(part)
        degrees.append(joint.nv)
        unbounded.append(joint.nq == 2 and joint.nv == 1)
    frames = []
    # Body by body, as MuJoCo orders its sites; a stable sort keeps a file's order within each body.
    for number in sorted(range(1, model.nframes), key=lambda number: model.frames[number].parentJoint):
        frame = model.frames[number]
        frames.append((f"{frame.name} {frame.type}", number))
        builder.add_frame(frames[-1][0], body=names[frame.parentJoint], placement=frame.placement.homogeneous)
    robot = builder.build()
    if [joint.name for joint in robot.joints] != list(model.names)[1:]:
        raise ValueError(f"{name}: Pinocchio's joints are not in depth-first order")
    order = Order.of([part.joint for part in parts], degrees, unbounded)
    return Robot(name, robot, model, tuple(parts), order, tuple(frames))


def _kind_and_axis(joint: Any) -> tuple[str, Array]:
    """Ramify's name of a joint, and its axis if it has one."""
    short = joint.shortname()
    aligned = {"X": np.eye(3)[0], "Y": np.eye(3)[1], "Z": np.eye(3)[2]}
    if short == "JointModelFreeFlyer":
        return "floating", aligned["Z"]
    if short in ("JointModelRevoluteUnaligned", "JointModelPrismaticUnaligned"):
        return ("revolute" if "Revolute" in short else "prismatic"), np.array(joint.extract().axis)
    for prefix, kind in (("JointModelRUB", "revolute"), ("JointModelR", "revolute"), ("JointModelP", "prismatic")):
        if short.removeprefix(prefix) in aligned:
            return kind, aligned[short.removeprefix(prefix)]
    raise ValueError(f"joint {short} has no counterpart here")


def load(name: str) -> Robot:
    """One of the real robots, `NAMES`."""
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


def state_pool(robot: rf.Model, count: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Random configurations, velocities and accelerations (or joint forces), `count` of each."""
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, (count,))
    v, a = rng.uniform(-1.0, 1.0, (2, count, robot.nv))
    return q, v, a
