"""Kinds of joints, one per file; `base` defines their protocol."""

from kinetree.model.joints.base import JointKind, Stage
from kinetree.model.joints.cylindrical import Cylindrical
from kinetree.model.joints.fixed import Fixed
from kinetree.model.joints.floating import Floating
from kinetree.model.joints.helical import Helical
from kinetree.model.joints.planar import Planar
from kinetree.model.joints.prismatic import Prismatic
from kinetree.model.joints.revolute import Revolute
from kinetree.model.joints.spherical import Spherical
from kinetree.model.joints.translational import Translational
from kinetree.model.joints.universal import Universal

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
