"""Joints, one file each, behind the protocol of `base`."""

from ramify.model.joints.base import JointKind, Stage
from ramify.model.joints.cylindrical import Cylindrical
from ramify.model.joints.fixed import Fixed
from ramify.model.joints.floating import Floating
from ramify.model.joints.helical import Helical
from ramify.model.joints.planar import Planar
from ramify.model.joints.prismatic import Prismatic
from ramify.model.joints.revolute import Revolute
from ramify.model.joints.spherical import Spherical
from ramify.model.joints.translational import Translational
from ramify.model.joints.universal import Universal

__all__ = ["KINDS", "JointKind", "Stage"]

#: Every kind of joint by the name that `Builder.add_body(joint=…)` takes.
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
