"""From bodies and joints to nodes: merges what is fixed, lays axes along z, splits joints of several stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ramify.model.body import Body, Frame
from ramify.model.joint import Joint
from ramify.model.node import JointedBody
from ramify.model.placement import alignment, pose, pose_of, transform_of
from ramify.recursion.mechanism import Mechanism, Site
from ramify.recursion.topology import WORLD
from ramify.spatial.inertia import RigidInertia
from ramify.spatial.transform import Transform
from ramify.spatial.value import Array


def assemble(
    bodies: Sequence[Body], joints: Mapping[str, Joint], frames: Sequence[Frame], gravity: Array
) -> tuple[Mechanism, tuple[Site, ...]]:
    """The nodes of a model, and its frames: the world's, each body's, then the extra ones.

    Args:
        bodies: Depth first.
        joints: The joint in front of each body, by the body's name; fixed ones too.
        frames: Extra frames.
        gravity: (3,) [m/s²].
    """
    nodes: list[_Node] = []
    # where each body is: the node that carries it, and its link frame's pose there
    carriers: dict[str, tuple[int, Array]] = {"world": (WORLD, np.eye(4))}
    for body in bodies:
        joint = joints[body.name]
        carrier, at = carriers[joint.parent]
        at = at @ joint.placement
        v_start = 0
        for count, stage in enumerate(joint.type.stages, start=1):
            turn = _turn(joint, count - 1)
            armature = joint.armature[v_start : v_start + stage.nv]
            v_start += stage.nv
            last = count == len(joint.type.stages)
            name = body.name if last else f"{body.name} (stage {count} of {joint.name})"
            nodes.append(_Node(name, carrier, JointedBody(stage, bool(armature.any())), at @ turn, armature, joint.own))
            carrier, at = len(nodes) - 1, turn.T
        carriers[body.name] = carrier, at
        if carrier != WORLD:
            nodes[carrier].inertia += _inertia_at(body, at)
    mechanism = Mechanism(
        parents=tuple(node.parent for node in nodes),
        kinds=tuple(node.kind for node in nodes),
        parameters=tuple(node.parameters() for node in nodes),
        names=tuple(node.name for node in nodes),
        gravity=gravity,
    )
    named = [("world", "world", np.eye(4))]
    named += [(body.name, body.name, np.eye(4)) for body in bodies]
    named += [(frame.name, frame.body, frame.placement) for frame in frames]
    return mechanism, tuple(_site(name, *carriers[body], placement) for name, body, placement in named)


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for index, stage in enumerate(joint.type.stages):
        turn = _turn(joint, index)
        moved = stage.transform(transform_of(link @ turn), joint.own, q[start : start + stage.nq])
        at, link, start = at @ pose_of(moved), turn.T, start + stage.nq
    return at @ link


class _Node:
    """A node under construction: its inertia grows by what is merged into it."""

    def __init__(self, name: str, parent: int, kind: JointedBody, at: Array, armature: Array, own: Array) -> None:
        self.name, self.parent, self.kind = name, parent, kind
        self.placement, self.armature, self.own = transform_of(at), armature, own
        self.inertia = RigidInertia.zero()

    def parameters(self) -> Array:
        return _read_only(self.kind.parameters(self.placement, self.inertia, self.armature, self.own))


def _turn(joint: Joint, stage: int) -> Array:
    """The pose, in link axes, of the node frame whose z is the stage's axis."""
    return pose(alignment(joint.axes[stage]), np.zeros(3)) if len(joint.axes) else np.eye(4)


def _inertia_at(body: Body, at: Array) -> RigidInertia:
    R, p = at[:3, :3], at[:3, 3]
    return RigidInertia.of(body.mass, R @ body.com + p, R @ body.inertia @ R.T)


def _site(name: str, node: int, at: Array, placement: Array) -> Site:
    transform: Transform = transform_of(at @ placement)
    return Site(name, node, _read_only(transform.data + 0.0))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
