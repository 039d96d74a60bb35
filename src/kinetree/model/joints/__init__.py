"""Kinds of joints, one per file; `base` defines their protocol."""

from kinetree.model.joints.free import Fixed, Floating, Planar, Spherical, Translational, Universal
from kinetree.model.joints.one_axis import Cylindrical, Helical, Prismatic, Revolute
from kinetree.model.joints.protocol import JointKind, Stage

__all__ = ["KINDS", "JointKind", "Stage"]

#: Every kind of joint, by its name in `Builder.add_body(joint=…)`.
KINDS: dict[str, JointKind] = {
    kind.name: kind
    for kind in (
        Revolute(),
        Prismatic(),
        Helical(),
        Cylindrical(),
        Universal(),
        Spherical(),
        Planar(),
        Translational(),
        Floating(),
        Fixed(),
    )
}
