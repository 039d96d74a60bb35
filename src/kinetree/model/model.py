"""The public robot model."""

from __future__ import annotations

from kinetree.model.distances import Collisions
from kinetree.model.editing import Editing
from kinetree.model.operational import Operational


class Model(Collisions, Operational, Editing):
    """An immutable robot model whose bodies form a tree. Created by `Builder.build`, `load` or the `zoo`.

    Attributes:
        name: Name of the model.
        gravity: Acceleration of free fall in the world frame, (3,) [m/s²].
        bodies: All bodies, depth first, including those behind fixed joints.
        joints: The moving joints, in the order of q and v. Coupled ones are among them, without a part of either.
        fixed_joints: The fixed joints.
        extra_frames: Frames other than the world's and the bodies'.
        joint_constraints: Couplings between joints, and loops.
        independent: Rates of joints that do not follow others, as far as there was a choice.
        near: Coordinates of joints with closed loops.
        equalities: Couplings and loops that the model does not embed: constraints for `constrained_dynamics`.
        source: Path of the file that it was loaded from, or None; robots that differ in this alone are equal.
        named_positions: Internal. Coordinates of joints in each of `keyframes`.
        shapes: Shapes of the bodies, for distances and collisions.
        pair_rules: `excluded` bodies and `included` shapes, pairs of names: `<exclude>` and `<pair>` of MJCF files.
        clusters: Internal. Bodies whose joints depend on each other.
    """
