"""Detects mechanisms whose mass matrix is singular in every configuration.

A motion that no inertia resists has a zero pivot D = HᵀPH + armature at some node. Rounding makes it small instead, so
it is compared with what it is while all joints beyond the node are locked: the entry of M. For a regular mechanism, the
ratio is at least the reciprocal condition of M, scaled to a unit diagonal.

P is kept as rows L with P = LᵀL, and joints are eliminated by orthogonal transformations: from tips to base, that is
the QR factorisation of the Jacobian of all bodies, weighted by their inertias. Errors relative to its columns are those
of rounding, whatever the masses and however long the chain [H02]. A ratio of pivots is the square of one of columns, so
noise is far below what counts.

[H02] N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, §19.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from kinetree.algorithms.dynamics.centroid import center_of_mass
from kinetree.errors import SingularMechanismError
from kinetree.language.contract import components
from kinetree.language.mechanism import WORLD, Mechanism
from kinetree.language.node import WORLD_PORT, NodeKind, told
from kinetree.model.nodes.rigid import INERTIA, JointedBody
from kinetree.runtime.reference import run
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array

_EPS = float(np.finfo(np.float64).eps)

# least pivot, relative to that with all joints beyond it locked
_SIGNIFICANT = 1e-13

# least eigenvalue of a scaled inertia that is not rounding, and one that is beyond doubt
_ZERO, _SOLID = 16.0 * _EPS, 1e-10

# displacements of joints that slide, for robots of any size [m]
_LENGTHS = (1.0, 1e-3, 1e3)


def require_invertible(mechanism: Mechanism) -> None:
    """Raise unless D is positive definite at every node, at a generic configuration.

    If HᵀMH of a body alone is positive definite, so is D, whatever the body carries. Other nodes, such as the massless
    one inside a universal joint, need what they carry, up to bodies with definite inertia: a motion that leaves these
    at rest, continued by locked joints, leaves all that they carry at rest.

    Raises:
        SingularMechanismError: The message names the body.
    """
    if mechanism in _invertible:
        return
    with np.errstate(all="ignore"):
        doubtful = _doubtful(mechanism)
        for length in _LENGTHS:
            doubtful = _unresisted(mechanism, doubtful, length)
    if doubtful:  # name one without others beyond it
        raise SingularMechanismError(_message(mechanism, max(doubtful)))
    _invertible.add(mechanism)


# mechanisms that have passed
_invertible: WeakSet[Mechanism] = WeakSet()


def _doubtful(mechanism: Mechanism) -> list[int]:
    """The nodes whose own inertia does not clearly resist all motions of their joint."""
    members: dict[int, list[int]] = {}
    for node, kind in enumerate(mechanism.kinds):
        members.setdefault(id(kind), []).append(node)
    doubtful: list[int] = []
    for nodes in members.values():
        kind = mechanism.kinds[nodes[0]]
        if not isinstance(kind, JointedBody):
            doubtful += nodes
            continue
        parameters = np.concatenate([mechanism.parameters[node] for node in nodes]).reshape(len(nodes), -1)
        M, H = np.tensordot(parameters[:, INERTIA], _OF_NUMBERS, axes=1), kind.joint_maps(parameters)
        scale = np.sqrt(np.einsum("bi,bij->bj", _sizes(M), H * H))
        least = np.linalg.eigvalsh(_scaled(np.swapaxes(H, -1, -2) @ M @ H, scale)).min(axis=1, initial=np.inf)
        doubtful += np.array(nodes)[~(least > _SOLID)].tolist()
    return doubtful


def _unresisted(mechanism: Mechanism, doubtful: list[int], length: float) -> list[int]:
    """Nodes with a pivot that is not significant at a generic configuration, among doubtful ones and what they need.

    Joints that slide are displaced by a given length [m].
    """
    q = _generic(mechanism)
    reached: dict[int, _Gathered] = {}
    pending = list(doubtful)
    while pending:
        node = pending.pop()
        if node not in reached:
            part = reached[node] = _Gathered(mechanism, node, q, length)
            if not part.solid:
                pending += mechanism.topology.children[node]
    unresisted = []
    for node in sorted(reached, reverse=True):
        part, parent = reached[node], reached.get(mechanism.parents[node])
        if not part.eliminate():
            unresisted.append(node)
        if parent is not None:
            parent.rows.append(part.rows[0] @ part.W)
            parent.least += part.W.T @ part.least @ part.W
    return unresisted


class _Gathered:
    """A node at a configuration, and what it gathers.

    Attributes:
        W: Weight, (m, m_p).
        H: Joint map, (m, n).
        armature: (n,).
        rows: Parts of L with P = LᵀL, (…, m) each.
        least: D of which P is significant: that of the inertia of all that it gathers with joints locked, times what
            counts, and errors of its own inertias, (m, m).
        solid: Whether the node's own inertia is definite beyond doubt.
    """

    def __init__(self, mechanism: Mechanism, node: int, q: Array, length: float) -> None:
        kind, c, parent = mechanism.kinds[node], mechanism.parameters[node], mechanism.parents[node]
        m, carrier = kind.dimension, None if parent == WORLD else mechanism.kinds[parent]
        own = q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]]
        self.H, self.armature = _matrix(kind.joint_map(c, own), list(np.eye(kind.nv)), m), kind.armature(c)
        if kind.rigid and not self.H[:3].any():
            own = own * length
        self.W = _matrix(kind.weight(c, own), _velocities(carrier), m)
        M = _matrix(kind.inertia(c, own), _velocities(kind), m)
        scale = np.sqrt(_sizes(M) if kind.port == WORLD_PORT else np.diagonal(M))
        values, vectors = np.linalg.eigh(_scaled(M, scale))
        self.solid = bool(values[0] > _SOLID)
        self.rows = [np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * scale]
        self.least = _SIGNIFICANT * M + _ZERO * np.diag(scale**2)

    def eliminate(self) -> bool:
        """Replace P by P⁺ = P − PH D⁻¹ HᵀP; returns whether all pivots of D are significant."""
        L, n = np.concatenate(self.rows), len(self.armature)
        rotors = np.concatenate([np.diag(np.sqrt(self.armature)), np.zeros((n, L.shape[1]))], axis=1)
        R = np.asarray(np.linalg.qr(np.concatenate([np.concatenate([L @ self.H, L], axis=1), rotors]), mode="r"))
        self.rows = [R[n:, n:]]
        pivots, least = np.diagonal(R)[:n], self.H.T @ self.least @ self.H
        # a pivot is twice the energy of a motion that includes joint axes before: their errors count as well
        motions = np.linalg.solve(R[:n, :n] / pivots[:, None], np.eye(n))
        counts = np.maximum(np.diagonal(least), np.einsum("ik,ij,jk->k", motions, least, motions))
        return bool((pivots**2 > counts).all())


def _matrix(operator: Any, units: Sequence[Any], rows: int) -> Array:
    """The matrix of a weight, joint map or inertia of a node."""
    # formulas of users may collect their numbers in arrays of objects
    found: Array = np.array([components(operator @ unit) for unit in units], dtype=float).reshape(len(units), rows).T
    return found


def _velocities(kind: NodeKind | None) -> Sequence[Any]:
    """Unit velocities of a node, or of the world."""
    if kind is None or kind.port == WORLD_PORT:
        return [Motion(unit) for unit in np.eye(6)]
    return list(np.eye(kind.dimension))


def _sizes(M: Array) -> Array:
    """Magnitudes with which to compare motions of bodies with given inertias, (…, 6, 6) to (…, 6).

    Inertias are rotated from link axes to joint axes. A needle that a joint rotates about its own axis has zero moment
    there, plus rounding errors of its other moments and the square of the error in its distance from the axis.
    """
    mass, first_moment = M[..., 5, 5], M[..., [1, 0, 1], [5, 5, 3]]
    around = (first_moment**2).sum(axis=-1) / np.where(mass > 0.0, mass, np.inf)
    moments = np.trace(M[..., :3, :3], axis1=-2, axis2=-1) - 2.0 * around
    sizes: Array = np.diagonal(M, axis1=-2, axis2=-1).copy()
    sizes[..., :3] += (moments + 8.0 * _EPS * around)[..., None]
    return sizes


def _scaled(M: Array, scale: Array) -> Array:
    """M / (s sᵀ), with zeros where that is no number."""
    scaled = M / scale[..., :, None] / scale[..., None, :]
    return np.where(np.isfinite(scaled), scaled, 0.0)


# 6×6 matrices of the ten numbers of a rigid inertia; their entries are 0, 1 and −1
_OF_NUMBERS = np.array([RigidInertia(unit).matrix() for unit in np.eye(RigidInertia.size)])


def _message(mechanism: Mechanism, node: int) -> str:
    kind, name = mechanism.kinds[node], mechanism.names[node]
    what = f"body {name!r}: no inertia resists its {told(kind)} joint" if kind.rigid else f"no inertia resists {name!r}"
    return (
        f"{what} beyond rounding error, so the mass matrix has no usable inverse. Give the body a mass and an inertia, "
        "or the joint an armature, or lock the joint with reduced(). Inverse dynamics and the mass matrix work "
        "nevertheless"
    )


def require_mass(mechanism: Mechanism) -> None:
    """Raise if no moving body has mass, so that there is no centre of mass."""
    rigid = [node for node, kind in enumerate(mechanism.kinds) if kind.rigid]
    if sum(mechanism.kinds[node].inertia(mechanism.parameters[node]).mass for node in rigid) > 0.0:
        return
    with np.errstate(all="ignore"):  # nodes that are not rigid bodies may have mass
        (com,) = run(center_of_mass, mechanism, (), (_generic(mechanism),))
    if not np.isfinite(com).all():
        raise SingularMechanismError(
            "no moving body has mass, so there is no centre of mass. Give at least one body a mass"
        )


def _generic(mechanism: Mechanism) -> Array:
    """Coordinates of no particular configuration, (nq,); those of joints may not be normalised."""
    q, starts = np.random.default_rng(1).uniform(0.3, 1.3, mechanism.nq), mechanism.q_starts
    for node, kind in enumerate(mechanism.kinds):
        if kind.moving:
            own = slice(starts[node], starts[node + 1])
            q[own] = kind.manifold(mechanism.parameters[node]).normalize(q[own])
    return q
