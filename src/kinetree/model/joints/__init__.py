"""Kinds of joints."""

from kinetree.model.joints.free import Fixed, Floating, Planar, Spherical, Translational, Universal
from kinetree.model.joints.one_axis import Cylindrical, Helical, Prismatic, Revolute
from kinetree.model.joints.protocol import JointKind, Stage

__all__ = ["KINDS", "JointKind", "Stage"]

_ONE_AXIS: tuple[type[JointKind], ...] = Revolute, Prismatic, Helical, Cylindrical
_OTHERS: tuple[type[JointKind], ...] = Universal, Spherical, Planar, Translational, Floating, Fixed

#: Every kind of joint, by its name in `Builder.add_body(joint=…)`.
KINDS: dict[str, JointKind] = {kind.name: kind() for kind in (*_ONE_AXIS, *_OTHERS)}
