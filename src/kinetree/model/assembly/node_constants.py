"""Nodes under construction, and the constants of finished ones, computed for all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kinetree.language.mechanism import WORLD
from kinetree.model.body import Body, frozen
from kinetree.model.loops.cluster_kind import ClusterKind, SlotKind
from kinetree.model.nodes.general import ExitKind, GeneralKind
from kinetree.model.nodes.parametric import LinkBody
from kinetree.model.nodes.rigid import AxialBody, JointedBody, numbers_in
from kinetree.spatial.inertia import RigidInertia, spread
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.transform import transform_of
from kinetree.spatial.value import Array

_ROWS3, _COLUMNS3 = np.triu_indices(3)
#: No constants.
NONE = np.zeros(0)

# nodes of the same kind share one object
jointed_kind, axial_kind = cache(JointedBody), cache(AxialBody)


DraftKind = JointedBody | LinkBody | GeneralKind | ExitKind | ClusterKind | SlotKind


@dataclass(slots=True, eq=False)
class NodeDraft:
    """A node under construction. Clusters get their kind at the end."""

    name: str
    parent: int
    kind: DraftKind | None
    armature: Array
    own: Array


def stacked(arrays: Sequence[Array]) -> Array:
    """Matrices of equal shapes in one array, several times as fast as `np.array`."""
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape) if arrays else np.zeros((0, 4, 4))


def transforms(at: Array) -> Array:
    """The 12 numbers of `transform_of` for each pose, (n, 12), read-only."""
    turned = at[:, :3, :3].transpose(0, 2, 1).reshape(-1, 9)
    return _read_only(np.concatenate([turned, at[:, :3, 3]], axis=1))


def inertias_of(count: int, bodies: Sequence[Body], carriers: Array, at: Array) -> Array:
    """The 10 numbers of the rigid inertia of each node, summed over the bodies merged into it, (count, 10).

    Given are the node that carries each body, or −1, and the pose of the body's link frame there, (n, 4, 4).
    """
    inertias = np.zeros((count, RigidInertia.size))
    if not bodies:
        return inertias
    R = at[:, :3, :3]
    mass = np.array([body.mass for body in bodies])[:, None]
    com = apply(R, stacked([body.com for body in bodies])) + at[:, :3, 3]
    inertia = product(product(R, stacked([body.inertia for body in bodies])), R.transpose(0, 2, 1))
    about_origin = (inertia + mass[:, :, None] * spread(com))[:, _ROWS3, _COLUMNS3]
    carried = carriers != WORLD
    np.add.at(inertias, carriers[carried], np.concatenate([mass, mass * com, about_origin], axis=1)[carried])
    return inertias


def constants_of(
    nodes: Sequence[NodeDraft], at: Array, steps: Array, inertias: Array, clusters: Mapping[int, Array]
) -> tuple[Array, ...]:
    """Constants of each node, given placements as poses, (n, 4, 4), or in steps, (n, 9), and inertias, (n, 10).

    Those of clusters and of their exits are given, by node.
    """
    alike: dict[int, list[int]] = {}
    found: list[Array] = [NONE] * len(nodes)
    for k, node in enumerate(nodes):
        if isinstance(node.kind, JointedBody):
            alike.setdefault(id(node.kind), []).append(k)
        elif isinstance(node.kind, LinkBody | GeneralKind | ExitKind):
            inertia = RigidInertia(inertias[k])
            found[k] = _read_only(node.kind.parameters(transform_of(at[k]), inertia, node.armature, node.own))
        else:
            found[k] = _read_only(clusters[k])
    for group in alike.values():
        kind: Any = nodes[group[0]].kind
        if isinstance(kind, AxialBody):
            placements = numbers_in(kind.shape, kind.joint.rotates, steps[group])
        else:
            placements = transforms(at[group])
        armatures = stacked([nodes[k].armature for k in group]) if kind.has_armature else NONE
        own = stacked([nodes[k].own for k in group]) if kind.joint.own else np.zeros((len(group), 0))
        numbers = _read_only(kind.laid_out(placements, inertias[group], armatures, own))
        for k, row in zip(group, numbers, strict=True):
            found[k] = row
    return tuple(found)


def _read_only(array: Array) -> Array:
    return frozen(array, array.shape)
