"""Robots as the papers count them: with placements of any direction at every joint."""

from __future__ import annotations

from kinetree.language.mechanism import Mechanism
from kinetree.model.assembly.assembly import assemble
from kinetree.model.model import Model


def general(robot: Model) -> Mechanism:
    """The mechanism of a robot whose placements are rotation matrices and positions, whatever zeros these have."""
    joints = {joint.child: joint for joint in (*robot.joints, *robot.fixed_joints)}
    return assemble(robot.bodies, joints, robot.extra_frames, robot.gravity, reframed=False).mechanism
