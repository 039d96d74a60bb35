"""The humanoid of [CK01]: 24 links with one-DoF joints, and an operational point at each hand.

The paper gives no parameters; these are ours, plausible for a robot 1.6 m tall. It stands on its right foot, which is
part of the world: 6 joints lead up to the pelvis, from there 6 down to the left foot and 2 up to the chest, which
carries two arms of 5 joints.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.model import Model
from kinetree.zoo.small import thick_rod

_X, _Y, _Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)

# name, axis, offset from the parent's joint [m], mass [kg], reach of the link from its joint [m], limits of the angle
# [rad] and torque [N m]: standing on one leg requires 75 at the ankle, lowering a box 145 at the hip
_STANCE_LEG = [
    ("ankle_roll", _X, (0, 0, 0.08), 0.6, (0, 0, 0.02), (-0.6, 0.6), 120),
    ("ankle_pitch", _Y, (0, 0, 0.02), 3.0, (0, 0, 0.36), (-0.7, 1.2), 160),
    ("knee", _Y, (0, 0, 0.36), 5.5, (0, 0, 0.38), (-2.4, 0.1), 220),
    ("hip_pitch", _Y, (0, 0, 0.38), 0.9, (0, 0, 0.03), (-0.6, 2.0), 220),
    ("hip_roll", _X, (0, 0, 0.02), 0.9, (0, 0, 0.03), (-0.6, 0.6), 160),
    ("hip_yaw", _Z, (0, 0, 0.03), 7.0, (0, 0.18, 0.08), (-1.0, 1.0), 100),
]
_SWING_LEG = [
    ("hip_yaw", _Z, (0, 0.18, 0), 0.9, (0, 0, -0.03), (-1.0, 1.0), 100),
    ("hip_roll", _X, (0, 0, -0.03), 0.9, (0, 0, -0.03), (-0.6, 0.6), 160),
    ("hip_pitch", _Y, (0, 0, -0.02), 5.5, (0, 0, -0.38), (-2.0, 0.6), 220),
    ("knee", _Y, (0, 0, -0.38), 3.0, (0, 0, -0.36), (-0.1, 2.4), 220),
    ("ankle_pitch", _Y, (0, 0, -0.36), 0.6, (0, 0, -0.02), (-1.2, 0.7), 160),
    ("ankle_roll", _X, (0, 0, -0.02), 1.2, (0.06, 0, -0.07), (-0.6, 0.6), 120),
]
_TORSO = [
    ("waist_yaw", _Z, (0, 0.09, 0.1), 1.5, (0, 0, 0.08), (-1.5, 1.5), 100),
    ("waist_pitch", _Y, (0, 0, 0.08), 16.0, (0, 0, 0.42), (-0.4, 1.2), 160),
]
_ARM = [
    ("shoulder_pitch", _Y, (0, 0.2, 0.34), 0.8, (0, 0.06, 0), (-3.0, 1.5), 60),
    ("shoulder_roll", _X, (0, 0.03, 0), 0.8, (0, 0, -0.06), (-0.3, 2.5), 60),
    ("shoulder_yaw", _Z, (0, 0, -0.04), 1.6, (0, 0, -0.25), (-1.6, 1.6), 40),
    ("elbow", _Y, (0, 0, -0.25), 1.1, (0, 0, -0.22), (-2.4, 0.05), 40),
    ("wrist", _Z, (0, 0, -0.22), 0.6, (0, 0, -0.16), (-1.6, 1.6), 20),
]


def humanoid24(floating: bool = False) -> Model:
    """24 one-DoF links, nv = 24; frames "left_hand", "right_hand", "left_foot" and "right_foot" (on the world).

    Args:
        floating: Whether the right foot is a body of its own that nothing holds, on a joint "base"; nv = 30.
    """
    builder, sole = Builder("humanoid24"), "world"
    if floating:
        sole = "right_foot_link"
        builder.add_body(sole, joint="floating", joint_name="base", **thick_rod(1.2, np.array([0.12, 0.0, 0.0])))
    pelvis = _limb(builder, "right", _STANCE_LEG, sole, mirror=1)
    left_foot = _limb(builder, "left", _SWING_LEG, pelvis, mirror=1)
    chest = _limb(builder, "", _TORSO, pelvis, mirror=1)
    left_wrist = _limb(builder, "left", _ARM, chest, mirror=1)
    right_wrist = _limb(builder, "right", _ARM, chest, mirror=-1)
    builder.add_frame("left_hand", body=left_wrist, placement=(np.eye(3), (0, 0, -0.16)))
    builder.add_frame("right_hand", body=right_wrist, placement=(np.eye(3), (0, 0, -0.16)))
    builder.add_frame("left_foot", body=left_foot, placement=(np.eye(3), (0, 0, -0.08)))
    builder.add_frame("right_foot", body=sole)
    return builder.build()


def _limb(builder: Builder, side: str, links: list[tuple[Any, ...]], parent: str, mirror: int) -> str:
    """Add links in series; mirror = −1 turns a left limb into a right one. Returns the last link's name."""
    flip = np.array([1, mirror, 1])
    for joint, axis, offset, mass, reach, (low, high), effort in links:
        name = f"{side}_{joint}".strip("_")
        # mirroring reverses rotations about axes in the plane of symmetry
        lower, upper = (low, high) if mirror == 1 or axis == _Y else (-high, -low)
        builder.add_body(
            f"{name}_link",
            parent=parent,
            joint_name=name,
            placement=(np.eye(3), flip * offset),
            axis=axis,
            limits=Limits(lower=lower, upper=upper, velocity=6.0, effort=effort),
            **thick_rod(mass, flip * reach),
        )
        parent = f"{name}_link"
    return parent
