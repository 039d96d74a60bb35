"""The same mechanism built a second time, in Pinocchio, joint by joint from the same list of links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import kinetree as kt
from tests.oracle import oracle
from tests.tolerance import Array
from tests.trees import Link, Mechanism

pin = oracle("pinocchio")

from benchmarks import robots  # noqa: E402, F401 (needs Pinocchio; tests take it from here)

REFERENCES = {
    "local": pin.ReferenceFrame.LOCAL,
    "world": pin.ReferenceFrame.WORLD,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}


def upright(mechanism: Mechanism) -> Mechanism:
    """The mechanism with every planar joint in the x-y plane of its frame, the only one that Pinocchio has."""
    z = np.array([0.0, 0.0, 1.0])
    links = tuple(replace(link, axis=z) if link.joint == "planar" else link for link in mechanism.links)
    return replace(mechanism, links=links)


def joint_of(link: Link) -> Any:
    """Pinocchio's joint of the same motion."""
    if link.joint == "cylindrical":
        joint = pin.JointModelComposite(pin.JointModelRevoluteUnaligned(link.axis))
        return joint.addJoint(pin.JointModelPrismaticUnaligned(link.axis))
    return {
        "revolute": lambda: pin.JointModelRevoluteUnaligned(link.axis),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(link.axis),
        "helical": lambda: pin.JointModelHelicalUnaligned(link.axis, link.pitch),
        "universal": lambda: pin.JointModelUniversal(link.axis, link.second_axis),
        "spherical": pin.JointModelSpherical,
        "planar": pin.JointModelPlanar,
        "translational": pin.JointModelTranslation,
        "floating": pin.JointModelFreeFlyer,
    }[link.joint]()


def pinocchio_model(mechanism: Mechanism, *, backwards: bool = False) -> Any:
    """The mechanism in Pinocchio, depth first as it needs it, with a frame for each link; siblings may be backwards."""
    model = pin.Model()
    model.name = mechanism.name
    model.gravity.linear = np.array(mechanism.gravity)
    children: dict[str, list[Link]] = {}
    for link in mechanism.links:
        children.setdefault(link.parent, []).append(link)
    numbers, pending, armature = {"world": 0}, children["world"][:: 1 if backwards else -1], {}
    while pending:
        link = pending.pop()
        pending += children.get(link.name, [])[:: 1 if backwards else -1]
        placement = pin.SE3(link.rotation, link.position)
        number = model.addJoint(numbers[link.parent], joint_of(link), placement, f"{link.name}_joint")
        model.appendBodyToJoint(number, pin.Inertia(link.mass, link.com, link.inertia), pin.SE3.Identity())
        model.addFrame(pin.Frame(link.name, number, 0, pin.SE3.Identity(), pin.FrameType.BODY))
        numbers[link.name], armature[number] = number, link
    for name, body, pose in mechanism.tips:
        placement = pin.SE3(pose[:3, :3], pose[:3, 3])
        model.addFrame(pin.Frame(name, numbers[body], 0, placement, pin.FrameType.OP_FRAME))
    values = np.array(model.armature)
    for number, link in armature.items():
        order = {"floating": [3, 4, 5, 0, 1, 2], "planar": [1, 2, 0]}.get(link.joint, list(range(link.nv)))
        start = model.joints[number].idx_v
        values[start : start + link.nv] = link.armature[order]
    model.armature = values
    return model


@dataclass(frozen=True)
class Twin:
    """A Pinocchio model, how its coordinates map to Kinetree's, and its number for each of Kinetree's frames."""

    model: Any
    order: kt.interop.PinocchioCounterpart
    frames: dict[str, int]

    @classmethod
    def of(cls, mechanism: Mechanism, robot: kt.Model) -> Twin:
        model = pinocchio_model(mechanism)
        names = [*(link.name for link in mechanism.links), *(name for name, *_ in mechanism.tips)]
        return cls(model, kt.interop.pinocchio(robot, model), {name: model.getFrameId(name) for name in names})

    def forces(self, wrenches: dict[str, Array]) -> Any:
        """Wrenches [moment; force] at frames, as Pinocchio's list of forces at joints."""
        forces = [pin.Force.Zero() for _ in range(self.model.njoints)]
        for name, wrench in wrenches.items():
            frame = self.model.frames[self.frames[name]]
            forces[frame.parentJoint] += frame.placement.act(pin.Force(wrench[3:], wrench[:3]))
        return pin.StdVec_Force(forces)


def mirrored(matrix: Array) -> Array:
    """A full matrix from the upper triangle that Pinocchio fills."""
    return np.triu(matrix) + np.triu(matrix, 1).T
