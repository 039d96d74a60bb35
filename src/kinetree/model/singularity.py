"""Mechanisms whose mass matrix has no inverse, whatever the configuration."""

from __future__ import annotations

import numpy as np

from kinetree.errors import SingularMechanismError
from kinetree.recursion.mechanism import Mechanism
from kinetree.recursion.node import WORLD_PORT
from kinetree.spatial.inertia import ArticulatedInertia
from kinetree.spatial.value import Array

# Relative to the inertia that the joint carries: what rounding leaves of an exact zero.
_SINGULAR = 1e-13


def require_invertible(mechanism: Mechanism) -> None:
    """Raise unless D = HᵀPH + armature is positive definite at every node of rigid bodies, at some configuration.

    Where HᵀMH + armature of the body alone is, nothing that it carries can spoil it. So articulated inertias are needed
    only behind nodes where it is not, such as the massless one inside a universal joint; they are taken at a fixed
    configuration without special symmetry.

    Args:
        mechanism: Its nodes are rigid bodies; others are not looked at.

    Raises:
        SingularMechanismError: Naming the body.
    """
    rigid = [kind.port == WORLD_PORT for kind in mechanism.kinds]
    doubtful = [
        node
        for node, kind in enumerate(mechanism.kinds)
        if rigid[node] and not _definite(mechanism, node, kind.inertia(mechanism.parameters[node]).articulated())
    ]
    topology = mechanism.topology
    for node in doubtful:
        if len(topology.subtree(node)) == 1:
            raise SingularMechanismError(_told(mechanism, node))
    needed = sorted({below for node in doubtful for below in topology.subtree(node)}, reverse=True)
    if not all(rigid[node] for node in needed):
        return
    q = np.random.default_rng(1).uniform(0.3, 1.3, mechanism.nq)
    carried: dict[int, ArticulatedInertia] = {}
    for node in needed:
        kind, parameters = mechanism.kinds[node], mechanism.parameters[node]
        P = kind.inertia(parameters).articulated()
        P = P + carried[node] if node in carried else P
        if not _definite(mechanism, node, P):
            raise SingularMechanismError(_told(mechanism, node))
        X = kind.weight(parameters, q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]])
        felt = X.congruence(kind.joint_map(parameters).hinge(P, kind.armature(parameters)).P_plus)
        parent = mechanism.parents[node]
        carried[parent] = carried[parent] + felt if parent in carried else felt


def _definite(mechanism: Mechanism, node: int, P: ArticulatedInertia) -> bool:
    """Whether D is positive definite, on the scale of the inertia that the joint moves."""
    kind, parameters = mechanism.kinds[node], mechanism.parameters[node]
    H: Array = np.stack([kind.joint_map(parameters).column(i).data for i in range(kind.nv)], axis=1)
    added = kind.armature(parameters)
    D = H.T @ P.matrix() @ H + np.diag(added)
    turning, sliding = np.trace(P.angular), np.trace(P.linear)
    scale = (H[:3] ** 2).sum(axis=0) * turning + (H[3:] ** 2).sum(axis=0) * sliding + added
    if not (scale > 0.0).all():
        return False
    return bool(np.linalg.eigvalsh(D / np.sqrt(np.outer(scale, scale)))[0] > _SINGULAR)


def _told(mechanism: Mechanism, node: int) -> str:
    return (
        f"body {mechanism.names[node]!r}: no inertia resists its {mechanism.kinds[node].name} joint, so that the mass "
        "matrix has no inverse. Give the body a mass and an inertia, or the joint an armature, or lock the joint with "
        "reduced(). Inverse dynamics and the mass matrix work as it is"
    )


def require_mass(mechanism: Mechanism) -> None:
    """Raise if nothing that moves has mass, so that there is no centre of mass.

    Raises:
        SingularMechanismError: Says so.
    """
    rigid = [node for node, kind in enumerate(mechanism.kinds) if kind.port == WORLD_PORT]
    if not sum(mechanism.kinds[node].inertia(mechanism.parameters[node]).mass for node in rigid) > 0.0:
        raise SingularMechanismError(
            "no moving body has mass, so that there is no centre of mass. Give some body a mass"
        )
