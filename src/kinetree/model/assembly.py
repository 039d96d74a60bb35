"""Assembles nodes from bodies and joints: merges fixed bodies, aligns axes with z, splits joints into stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.body import Body, Frame
from kinetree.model.general import ExitKind, GeneralKind, Node, size
from kinetree.model.joint import Joint
from kinetree.model.node import JointedBody
from kinetree.model.placement import alignment, pose_of, transform_of
from kinetree.model.record import frozen
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.topology import WORLD
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.inertia import RigidInertia, spread
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

_ROWS3, _COLUMNS3 = np.triu_indices(3)


def assemble(
    bodies: Sequence[Body], joints: Mapping[str, Joint], frames: Sequence[Frame], gravity: Array
) -> tuple[Mechanism, tuple[Site, ...]]:
    """The nodes of a model and its frames: the world's, each body's, then the extra ones.

    Args:
        bodies: Depth first.
        joints: The joint of each body, fixed ones included, by the body's name.
        frames: Extra frames.
        gravity: (3,) [m/s²].
    """
    nodes: list[_Node] = []
    # the node that carries each body, and the pose of the body's link frame in it
    carriers: dict[str, tuple[int, Array]] = {"world": (WORLD, _NOWHERE)}
    general: dict[str, Node] = {}
    for body in bodies:
        joint = joints[body.name]
        if joint.parent in general:
            start = _outlet(body.name, joint, general[joint.parent])
            way_out = ExitKind(start, size(general[joint.parent]))
            nodes.append(_Node(body.name, carriers[joint.parent][0], way_out, _NOWHERE, np.zeros(0), np.zeros(0)))
            carriers[body.name] = len(nodes) - 1, _NOWHERE
            continue
        carrier, at = carriers[joint.parent]
        at = _composed(at, joint.placement)
        if joint.node is not None:
            if body.mass:
                raise ModelError(f"{body.name!r} is a general node, and takes no mass: give it to a body on an outlet")
            nodes.append(_Node(body.name, carrier, joint.node.kind, at, joint.armature, joint.own))
            carriers[body.name], general[body.name] = (len(nodes) - 1, _NOWHERE), joint.node
            continue
        stages, v_start = joint.type.stages, 0
        for count, stage in enumerate(stages, start=1):
            turn = _turn(joint, count - 1)
            armature = joint.armature[v_start : v_start + stage.nv]
            v_start += stage.nv
            name = body.name if count == len(stages) else f"{body.name} (stage {count} of {joint.name})"
            kind = _kind(stage, bool(armature.any()))
            nodes.append(_Node(name, carrier, kind, _composed(at, turn), armature, joint.own))
            carrier, at = len(nodes) - 1, turn if turn is _NOWHERE else turn.T
        carriers[body.name] = carrier, at
    inertias = _inertias(len(nodes), bodies, [carriers[body.name] for body in bodies])
    for k, node in enumerate(nodes):
        if isinstance(node.kind, ExitKind) and inertias[k].any():  # bodies are fixed to an outlet
            nodes[k] = node._replace(kind=replace(node.kind, loaded=True))
    mechanism = Mechanism(
        parents=tuple(node.parent for node in nodes),
        kinds=tuple(node.kind for node in nodes),
        parameters=_parameters(nodes, inertias),
        names=tuple(node.name for node in nodes),
        gravity=gravity,
    )
    solid = [body.name for body in bodies if body.name not in general]
    named = [("world", *carriers["world"]), *((name, *carriers[name]) for name in solid)]
    for frame in frames:
        if frame.body in general:
            raise ModelError(f"frame {frame.name!r}: {_no_body(frame.body, general[frame.body])}")
        carrier, at = carriers[frame.body]
        named.append((frame.name, carrier, _composed(at, frame.placement)))
    rows = _transforms([at for _, _, at in named])
    return mechanism, tuple(Site(name, node, row) for (name, node, _), row in zip(named, rows))


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for index, stage in enumerate(joint.type.stages):
        turn = _turn(joint, index)
        # sums of objects are evaluated in order, unlike those of a BLAS
        neutral = Transform(_objects(transform_of(product(link, turn)).data))
        numbers = _objects(q[start : start + stage.nq])
        moved = Transform(stage.transform(neutral, _objects(joint.own), numbers).data.astype(float))
        at, link, start = product(at, pose_of(moved)), turn.T, start + stage.nq
    return product(at, link)


def _objects(numbers: Array) -> Array:
    return np.array([np.float64(x) for x in numbers], dtype=object)


# nodes of the same kind share one object
_kind = cache(JointedBody)


class _Node(NamedTuple):
    """A node under construction; `at` is its pose in its parent at neutral q."""

    name: str
    parent: int
    kind: JointedBody | GeneralKind | ExitKind
    at: Array
    armature: Array
    own: Array


def _outlet(body: str, joint: Joint, node: Node) -> int:
    """Where the twist of an outlet starts in its node's velocity."""
    name = body.removeprefix(f"{joint.parent}/")
    if joint.kind != "fixed" or name == body or name not in node.outlets:
        raise ModelError(f"body {body!r}: {_no_body(joint.parent, node)}")
    return node.outlets[name]


def _no_body(name: str, node: Node) -> str:
    outlets = ", ".join(repr(f"{name}/{outlet}") for outlet in node.outlets)
    fix = f"hang it on one of its outlets: {outlets}" if outlets else "it has no outlets that could carry anything"
    return f"{name!r} is a general node, not a body; {fix}"


def _turn(joint: Joint, stage: int) -> Array:
    """The pose, in link axes, of the node frame whose z is the stage's axis."""
    if not len(joint.axes) or not joint.axes[stage, :2].any():
        return _NOWHERE if not len(joint.axes) or joint.axes[stage, 2] > 0.0 else _UPSIDE_DOWN
    turn = np.eye(4)
    turn[:3, :3] = alignment(joint.axes[stage])
    return turn


# most axes are ±z, which saves products with identities
_NOWHERE, _UPSIDE_DOWN = np.eye(4), np.eye(4)
_UPSIDE_DOWN[:3, :3] = alignment(np.array([0.0, 0.0, -1.0]))


def _composed(at: Array, pose: Array) -> Array:
    if at is _NOWHERE:
        return pose
    return at if pose is _NOWHERE else product(at, pose)


# The following functions are vectorised over all bodies.


def _transforms(poses: list[Array]) -> Array:
    """The 12 numbers of `transform_of` for each pose, (n, 12), read-only."""
    stacked = np.array(poses).reshape(-1, 4, 4)
    turned = stacked[:, :3, :3].transpose(0, 2, 1).reshape(-1, 9)
    return _read_only(np.concatenate([turned, stacked[:, :3, 3]], axis=1))


def _inertias(count: int, bodies: Sequence[Body], carriers: Sequence[tuple[int, Array]]) -> Array:
    """The 10 numbers of the rigid inertia of each node, summed over the bodies merged into it, (count, 10)."""
    inertias = np.zeros((count, RigidInertia.size))
    carried = [(body, node, at) for body, (node, at) in zip(bodies, carriers) if node != WORLD]
    if not carried:
        return inertias
    at = np.array([at for _, _, at in carried])
    R = at[:, :3, :3]
    mass = np.array([body.mass for body, _, _ in carried])[:, None]
    com = apply(R, np.array([body.com for body, _, _ in carried])) + at[:, :3, 3]
    inertia = product(product(R, np.array([body.inertia for body, _, _ in carried])), R.transpose(0, 2, 1))
    about_origin = (inertia + mass[:, :, None] * spread(com))[:, _ROWS3, _COLUMNS3]
    np.add.at(inertias, [node for _, node, _ in carried], np.concatenate([mass, mass * com, about_origin], axis=1))
    return inertias


def _parameters(nodes: Sequence[_Node], inertias: Array) -> tuple[Array, ...]:
    placements = _transforms([node.at for node in nodes])
    return tuple(
        _read_only(node.kind.parameters(Transform(placement), RigidInertia(inertia), node.armature, node.own))
        for node, placement, inertia in zip(nodes, placements, inertias)
    )


def _read_only(array: Array) -> Array:
    return frozen(array, array.shape)
