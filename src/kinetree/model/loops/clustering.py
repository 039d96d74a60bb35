"""From the constraints of a model to its clusters, with closed loops and chosen independent rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinetree.model.assembly.assembly import Clusters, clusters_of
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Constraint, Linkage, Rate, aggregate, condensed
from kinetree.model.loops.solver import closed, turned
from kinetree.spatial.value import Array


class Reference(NamedTuple):
    """A configuration with closed loops.

    Attributes:
        q: Coordinates of the joints on loops, by name.
        members: The joints of each cluster with loops, by its first body.
    """

    q: dict[str, Array]
    members: dict[str, tuple[str, ...]]

    def joints(self, cluster: Cluster) -> tuple[str, ...]:
        """The joints of a cluster."""
        return self.members[cluster.bodies[0]]


class Clustering(NamedTuple):
    """What the geometry of joints and their constraints determine.

    Attributes:
        clusters: The clusters of a model, if it has any.
        closed: A configuration with closed loops.
    """

    clusters: Clusters | None
    closed: Reference


def clustered(
    bodies: Sequence[Body],
    joints: Mapping[str, Joint],
    constraints: Sequence[Constraint],
    independent: Sequence[Rate],
    near: Mapping[str, tuple[float, ...]],
) -> Clustering:
    """Find the clusters of a model, close its loops and choose independent rates.

    Args:
        bodies: Depth first.
        joints: The joint of each body, by the body's name.
        constraints: Couplings and loops.
        independent: Rates that must be independent.
        near: Coordinates of joints near which loops are closed.

    Raises:
        ModelError: If constraints contradict each other, or a choice is impossible.
        LoopError: If a loop cannot be closed.
    """
    reference = Reference({}, {})
    if not constraints:
        return Clustering(None, reference)
    linkage = Linkage(bodies, joints)
    found = list(aggregate(linkage, constraints, independent))
    order = condensed(linkage, bodies, found)
    if all(cluster.follows is not None for cluster in found):
        return Clustering(Clusters(found, order), reference)
    formulas = clusters_of(bodies, joints, Clusters(found, order))
    for i, cluster in enumerate(found):
        if cluster.follows is not None:
            continue
        own = [joints[body] for body in cluster.bodies]
        start = np.concatenate([_start(joint, near) for joint in own])
        kind, parameters = formulas[cluster.bodies[0]]
        cluster = turned(cluster, kind, parameters, start)
        if cluster != found[i]:
            found[i] = cluster
            kind, parameters = clusters_of(bodies, joints, Clusters(found, order))[cluster.bodies[0]]
        q, rates = closed(cluster, kind, parameters, own, start, independent)
        found[i] = replace(cluster, independent=rates)
        reference.members[cluster.bodies[0]] = tuple(joint.name for joint in own)
        at = 0
        for joint in own:
            reference.q[joint.name] = q[at : at + joint.type.nq]
            at += joint.type.nq
    return Clustering(Clusters(found, order), reference)


def _start(joint: Joint, near: Mapping[str, tuple[float, ...]]) -> Array:
    """Where to start closing loops: near given coordinates, or the neutral ones within limits."""
    if joint.name in near:
        return np.array(near[joint.name])
    neutral = joint.type.neutral()
    return np.clip(neutral, joint.limits.lower, joint.limits.upper) if joint.type.limited else neutral
