"""The node kind of rigid bodies whose constants are what a user calls parameters: masses, lengths, axes.

The nodes of a model have frames in which its formulas are cheap, and inertias summed over what is fixed to them. Here,
a node's frame is the link frame of its body, and its constants are the numbers of `Body` and `Joint` themselves. So a
derivative with respect to a parameter is one with respect to a constant of one node, and any recursion has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.model.body import Body
from kinetree.model.joints.protocol import JointKind
from kinetree.model.loops.cluster_kind import ClusterKind
from kinetree.model.loops.cluster_structure import InnerConstants
from kinetree.model.nodes.rigid import BodyKind
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.rotation import alignment, pack3, skew, stack
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.screw import Angle, dot
from kinetree.spatial.transform import Transform, transform_of
from kinetree.spatial.value import Array


class Slots(NamedTuple):
    """Where the constants of a `LinkBody` are."""

    mass: slice
    com: slice  # in link axes
    inertia: slice  # about the centre of mass: xx, xy, xz, yy, yz, zz
    rest: slice  # the rigid inertia of bodies that are fixed to it and merged, about the link's origin
    armature: slice
    own: slice  # of the joint, such as a pitch
    position: slice  # of the link's origin in the parent's link frame, at neutral q
    rotation: slice  # a rotation vector in link axes, from the nominal orientation
    turned: slice  # the nominal orientation: rows of the link's axes in the parent's
    axis: slice  # of the joint, in link axes, of any length; none if it has no axis
    side: slice  # 1 or −1, the nominal sign of the axis' z
    aligned: slice  # the nominal orientation of a frame whose z is the axis, as a matrix


@dataclass(frozen=True)
class LinkBody(BodyKind):
    """The formulas of all rigid bodies behind one kind of joint, in coordinates of their link frames.

    Attributes:
        joint: The joint's motion, whose axis is z in a frame of its own.
        rotated: Whether orientations may differ from the nominal ones; if not, `rotation` is ignored.
        tilted: Whether axes may.
    """

    rotated: bool = False
    tilted: bool = False

    @cached_property
    def name(self) -> str:
        return f"link_{self.joint.name}{'_rotated' if self.rotated else ''}{'_tilted' if self.tilted else ''}"

    @cached_property
    def slots(self) -> Slots:
        """Where its constants are."""
        axis = 3 if self.joint.axes else 0
        sizes = Slots(
            *(slice(0, n) for n in (1, 3, 6, 10, self.nv, self.joint.own, 3, 3, 9, axis, axis // 3, 3 * axis))
        )
        ends = np.cumsum([each.stop for each in sizes]).tolist()
        return Slots(*(slice(end - each.stop, end) for each, end in zip(sizes, ends, strict=True)))

    @property
    def parameter_count(self) -> int:
        return self.slots.aligned.stop  # type: ignore[no-any-return]

    def parameters(self, placement: Transform, inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node; `own` are those of body and joint, as `own_constants` has them."""
        body, joint, axis = own[:10], own[10 : 10 + self.joint.own], own[10 + self.joint.own :]
        rest = inertia.data - natural_inertia(body[0], body[1:4], body[4:10]).data
        return stack(body, rest, armature, joint, placement.r, np.zeros(3), placement.E, axis)

    def _alignment(self, parameters: Array) -> Array | None:
        """The matrix from the joint's axes to link axes; None if they are the same."""
        if not self.joint.axes:
            return None
        if not self.tilted:
            nominal: Array = parameters[self.slots.aligned].reshape(3, 3)
            return nominal
        axis, side = parameters[self.slots.axis], parameters[self.slots.side][0]
        return alignment(axis / sqrt(dot(axis, axis)), side)

    def weight(self, parameters: Array, q: Array) -> Transform:
        slots = self.slots
        E = parameters[slots.turned].reshape(3, 3)
        if self.rotated:
            w = parameters[slots.rotation]
            angle, W = Angle.of(w), skew(w)
            E = (np.eye(3) - angle.A * W + angle.B * (W @ W)) @ E  # exp(−w)
        turn = self._alignment(parameters)
        E = E if turn is None else turn.T @ E
        moved = self.joint.transform(Transform.of(E, parameters[slots.position]), parameters[slots.own], q)
        return moved if turn is None else Transform.of(turn @ moved.E, moved.r)

    def joint_map(self, parameters: Array, _q: Array | None = None) -> Any:
        H, turn = self.joint.joint_map(parameters[self.slots.own]), self._alignment(parameters)
        if turn is None or not self.nv:
            return H
        back = Transform.of(turn, np.zeros(3))
        columns = [(back @ H.column(i)).data for i in range(self.nv)]
        return MotionColumns(stack(*columns), self.nv)

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        slots = self.slots
        own = natural_inertia(parameters[slots.mass][0], parameters[slots.com], parameters[slots.inertia])
        return own + RigidInertia(parameters[slots.rest])

    def armature(self, parameters: Array) -> Array:
        return parameters[self.slots.armature]


@dataclass(frozen=True)
class LinkStage:
    """The motion of a `LinkBody` inside a cluster, in link coordinates: in the place of a `joints.protocol.Stage`.

    Its constants are those of the body. Its place in the cluster is the parent's link frame.
    """

    link: LinkBody

    @property
    def name(self) -> str:
        return self.link.name

    @property
    def nq(self) -> int:
        return self.link.nq

    @property
    def nv(self) -> int:
        return self.link.nv

    @property
    def own(self) -> int:
        return self.link.parameter_count

    @property
    def coordinates(self) -> JointKind:
        return self.link.joint.coordinates

    def frame_motion(self, placement: Transform, own: Array, q: Array) -> tuple[Transform, list[Array]]:
        H = self.link.joint_map(own)
        return self.link.weight(own, q) @ placement, [H.column(c).data for c in range(self.nv)]

    def swerve(self, _own: Array, _q: Array, _v: Array) -> None:
        return None


@dataclass(frozen=True)
class LinkCluster(ClusterKind):
    """Clusters in which inertias of some bodies are parameters.

    Behind the constants of the cluster, without the inertias of these bodies, are for each of them mass, centre of mass
    and inertia as of a `LinkBody`, and the 12 numbers of the transform from its place in the cluster to its link frame.

    Attributes:
        bodies: The places of the bodies in the cluster.
    """

    bodies: tuple[int, ...] = ()

    @cached_property
    def name(self) -> str:
        return f"{super().name}_links_{'_'.join(map(str, self.bodies))}"

    @cached_property
    def parameter_count(self) -> int:
        return self.own_start + 22 * len(self.bodies)

    @property
    def own_start(self) -> int:
        """Where the constants of the bodies start."""
        return self._turn_start + 9

    def constants(self, parameters: Array) -> list[InnerConstants]:
        """The constants of each inner body."""
        found = super().constants(parameters)
        for k, i in enumerate(self.bodies):
            own = parameters[self.own_start + 22 * k :][:22]
            inertia = Transform(own[10:]).congruence(natural_inertia(own[0], own[1:4], own[4:10]))
            rest = found[i].inertia
            found[i] = found[i]._replace(inertia=inertia if rest is None else inertia + rest)
        return found


def linked(kind: ClusterKind, constants: Array, bodies: Sequence[tuple[Body, int, Array]]) -> tuple[LinkCluster, Array]:
    """A cluster in which bodies have parameters, given their places and poses of their link frames there."""
    numbers, added = constants.copy(), []
    for body, i, at in bodies:
        own, X = own_constants(body, np.zeros(0), None), transform_of(at)
        start = kind.start_of(i) + Transform.size
        numbers[start : start + 10] -= X.congruence(natural_inertia(own[0], own[1:4], own[4:10])).data
        added += [own, X.data]
    same = {field.name: getattr(kind, field.name) for field in fields(kind)}
    return LinkCluster(**same, bodies=tuple(i for _, i, _ in bodies)), np.concatenate([numbers, *added])


def natural_inertia(mass: Any, com: Array, inertia: Array) -> RigidInertia:
    """The rigid inertia about the link's origin of a body, given its inertia about the centre of mass, (6,)."""
    K = skew(com)
    return RigidInertia(stack(mass, mass * com, inertia - mass * pack3(K @ K)))


def own_constants(body: Any, joint_own: Array, aligned: Array | None) -> Array:
    """The part of a node's constants that is specific to a body and its joint, for `LinkBody.parameters`."""
    axis = [] if aligned is None else [aligned[:, 2], -1.0 if aligned[2, 2] < 0.0 else 1.0, aligned]
    return stack(body.mass, body.com, pack3(body.inertia), joint_own, *axis)
