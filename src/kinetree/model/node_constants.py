"""Nodes under construction, and the constants of finished ones, computed for all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kinetree.model.body import Body
from kinetree.model.cluster import ClusterKind
from kinetree.model.general import ExitKind, GeneralKind
from kinetree.model.node import AxialBody, JointedBody
from kinetree.model.placement import transform_of
from kinetree.model.record import frozen
from kinetree.model.shape import Steps, numbers_in
from kinetree.model.slot import SlotKind
from kinetree.recursion.topology import WORLD
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.inertia import RigidInertia, spread
from kinetree.spatial.value import Array

_ROWS3, _COLUMNS3 = np.triu_indices(3)

# nodes of the same kind share one object
jointed_kind, axial_kind = cache(JointedBody), cache(AxialBody)


@dataclass(slots=True, eq=False)
class NodeDraft:
    """A node under construction; `at` is its pose in its parent at neutral q. Clusters get their kind at the end.

    Those whose frame was chosen have their placement in `steps` instead.
    """

    name: str
    parent: int
    kind: JointedBody | GeneralKind | ExitKind | ClusterKind | SlotKind | None
    at: Array
    armature: Array
    own: Array
    steps: Steps | None = None


def stacked(arrays: Sequence[Array]) -> Array:
    """Matrices of equal shapes in one array, several times as fast as `np.array`."""
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape) if arrays else np.zeros((0, 4, 4))


def transforms(poses: Sequence[Array]) -> Array:
    """The 12 numbers of `transform_of` for each pose, (n, 12), read-only."""
    at = stacked(poses)
    turned = at[:, :3, :3].transpose(0, 2, 1).reshape(-1, 9)
    return _read_only(np.concatenate([turned, at[:, :3, 3]], axis=1))


def inertias_of(count: int, bodies: Sequence[Body], carriers: Sequence[tuple[int, Array]]) -> Array:
    """The 10 numbers of the rigid inertia of each node, summed over the bodies merged into it, (count, 10)."""
    inertias = np.zeros((count, RigidInertia.size))
    carried = [(body, node, at) for body, (node, at) in zip(bodies, carriers) if node != WORLD]
    if not carried:
        return inertias
    at = stacked([at for _, _, at in carried])
    R = at[:, :3, :3]
    mass = np.array([body.mass for body, _, _ in carried])[:, None]
    com = apply(R, stacked([body.com for body, _, _ in carried])) + at[:, :3, 3]
    inertia = product(product(R, stacked([body.inertia for body, _, _ in carried])), R.transpose(0, 2, 1))
    about_origin = (inertia + mass[:, :, None] * spread(com))[:, _ROWS3, _COLUMNS3]
    np.add.at(inertias, [node for _, node, _ in carried], np.concatenate([mass, mass * com, about_origin], axis=1))
    return inertias


def constants_of(nodes: Sequence[NodeDraft], inertias: Array, clusters: Mapping[int, Array]) -> tuple[Array, ...]:
    """Constants of each node; those of clusters and their exits are given."""
    alike: dict[int, list[int]] = {}
    found: list[Array] = [_NONE] * len(nodes)
    for k, node in enumerate(nodes):
        if isinstance(node.kind, JointedBody):
            alike.setdefault(id(node.kind), []).append(k)
        elif isinstance(node.kind, GeneralKind | ExitKind):
            inertia = RigidInertia(inertias[k])
            found[k] = _read_only(node.kind.parameters(transform_of(node.at), inertia, node.armature, node.own))
        else:
            found[k] = _read_only(clusters[k])
    for group in alike.values():
        own = [nodes[k] for k in group]
        kind: Any = own[0].kind
        if isinstance(kind, AxialBody):
            placements = numbers_in(kind.shape, kind.joint.rotates, [node.steps for node in own if node.steps])
        else:
            placements = transforms([node.at for node in own])
        last = stacked([node.armature for node in own]), stacked([node.own for node in own])
        for k, numbers in zip(group, _read_only(kind.laid_out(placements, inertias[group], *last)), strict=True):
            found[k] = numbers
    return tuple(found)


_NONE = np.zeros(0)


def _read_only(array: Array) -> Array:
    return frozen(array, array.shape)
