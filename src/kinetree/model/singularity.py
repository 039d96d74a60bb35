"""Detects mechanisms whose mass matrix is singular in every configuration.

A joint whose motion no inertia resists has a zero pivot D = HᵀPH + armature. Because of rounding, the computed pivot is
seldom exactly zero, so it is compared with a bound on its rounding error. The bound is propagated along with each
articulated inertia, in units of the machine precision: a running error analysis [H02].

[H02] N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, §3.3.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakSet

import numpy as np

from kinetree.algorithms.center_of_mass_by_weights import center_of_mass_by_weights
from kinetree.algorithms.mass_matrix_product import mass_matrix_product
from kinetree.engines.native.kernels import bind
from kinetree.engines.reference import run
from kinetree.errors import SingularMechanismError
from kinetree.model.node import INERTIA, JointedBody
from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.value import Array

# A pivot this many times its error bound is significant. Bounds are pessimistic, but count each rounding only once.
_EPS = float(np.finfo(np.float64).eps)
_TRUSTED = 4.0 * _EPS

# roundings per term of a congruence XᵀPX: two products of three factors and a sum
_CONGRUENCE = 4.0

# matrices of 6×6 numbers that fit a second-level cache several times
_BLOCK = 500

# length scales of the generic configurations [m], for robots of any size
_LENGTHS = (1.0, 1e-3, 1e3)


def require_invertible(mechanism: Mechanism) -> None:
    """Raise unless D = HᵀPH + armature is positive definite at every node of rigid bodies, at some configuration.

    If HᵀMH + armature of the body alone is positive definite, so is D, whatever the body carries. Articulated inertias
    are therefore needed only at other nodes, such as the massless one inside a universal joint. They are computed at a
    few generic configurations.

    Args:
        mechanism: The mechanism. Nodes other than rigid bodies are ignored.

    Raises:
        SingularMechanismError: The message names the body.
    """
    if mechanism in _invertible:
        return
    if mechanism.first_general is not None:
        _require_definite(mechanism)
    else:
        _require_pivots(mechanism)
    _invertible.add(mechanism)


# mechanisms that have passed
_invertible: WeakSet[Mechanism] = WeakSet()


def _require_pivots(mechanism: Mechanism) -> None:
    doubtful = _doubtful(mechanism)
    topology = mechanism.topology
    for node in doubtful:
        if len(topology.subtree(node)) == 1:
            raise SingularMechanismError(_message(mechanism, node))
    needed = sorted({below for node in doubtful for below in topology.subtree(node)}, reverse=True)
    if not needed:
        return
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        found = [_singular(mechanism, needed, set(doubtful), _configuration(mechanism, rng, at)) for at in _LENGTHS]
    if None not in found:
        raise SingularMechanismError(_message(mechanism, next(node for node in found if node is not None)))


def _require_definite(mechanism: Mechanism) -> None:
    """The same for mechanisms with nodes that are not rigid bodies, from M at one configuration.

    Scaled to a unit diagonal, M has eigenvalues that do not depend on units; those of a singular one are rounding.
    """
    q = _configuration(mechanism, np.random.default_rng(1), 1.0)
    if mechanism.nv * len(mechanism.kinds) < _SMALL:
        (M,) = run(mass_matrix_product, mechanism, (), (q, np.eye(mechanism.nv)))
    else:
        M = bind(mass_matrix_product, mechanism, (), "mass_matrix")(q, np.eye(mechanism.nv))
    scale = np.sqrt(np.diagonal(M))
    with np.errstate(all="ignore"):
        scaled = M / scale / scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2.0) if np.isfinite(scaled).all() else ([0.0], -M)
    if not values[0] > 64.0 * mechanism.nv * _EPS:
        column = int(np.argmin(scale)) if not scale.all() else int(np.argmax(np.abs(vectors[:, 0])))
        node = next(k for k in range(len(mechanism.kinds)) if mechanism.v_starts[k + 1] > column)
        raise SingularMechanismError(_message(mechanism, node))


# number of products of M with a node that take as long as compiling them
_SMALL = 400


class _Bounded(NamedTuple):
    """Symmetric matrices and bounds on the errors of their entries, in units of machine precision."""

    value: Array
    error: Array


def _doubtful(mechanism: Mechanism) -> list[int]:
    """The rigid bodies whose own inertia and armature do not resist all motions of their joint."""
    members: dict[int, list[int]] = {}
    for node, kind in enumerate(mechanism.kinds):
        members.setdefault(id(kind), []).append(node)
    doubtful: list[int] = []
    # as many at a time as fit the cache
    for nodes in (every[i : i + _BLOCK] for every in members.values() for i in range(0, len(every), _BLOCK)):
        kind = mechanism.kinds[nodes[0]]
        if not isinstance(kind, JointedBody):
            continue
        parameters = np.concatenate([mechanism.parameters[node] for node in nodes]).reshape(len(nodes), -1)
        with np.errstate(all="ignore"):
            M = _own(_matrices(parameters[:, INERTIA]))
            definite = _definite(M, kind.joint_maps(parameters), kind.armatures(parameters))
        doubtful += np.array(nodes)[~definite].tolist()
    return sorted(doubtful)


def _singular(mechanism: Mechanism, needed: list[int], doubtful: set[int], q: Array) -> int | None:
    """The first doubtful node, tips first, with a pivot that is not significant; None if there is none.

    Args:
        mechanism: The mechanism.
        needed: The doubtful nodes with their subtrees, tips first.
        doubtful: Nodes whose own inertia does not suffice.
        q: Configuration, (nq,).
    """
    carried: dict[int, _Bounded] = {}
    for node in needed:
        kind, parameters = mechanism.kinds[node], mechanism.parameters[node]
        P = _own(_matrices(kind.inertia(parameters).data))
        if node in carried:
            P = _Bounded(P.value + carried[node].value, P.error + carried[node].error)
        definite, P_plus = _hinge(P, _joint_map(mechanism, node), _armature(mechanism, node))
        if node in doubtful and not definite:
            return node
        X = kind.weight(parameters, q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]]).matrix()
        error = P_plus.error + _CONGRUENCE * np.abs(P_plus.value)
        seen = _Bounded(X.T @ P_plus.value @ X, np.abs(X).T @ error @ np.abs(X))
        parent = mechanism.parents[node]
        before = carried.get(parent, _Bounded(np.zeros((6, 6)), np.zeros((6, 6))))
        carried[parent] = _Bounded(before.value + seen.value, before.error + seen.error)
    return None


def _own(M: Array) -> _Bounded:
    """Rigid inertias, (…, 6, 6), with the error of rotating them from link axes to joint axes.

    A needle that a joint rotates about its own axis has zero moment there, plus rounding errors of its other moments
    and the square of the error in its distance from the axis.
    """
    mass = M[..., 5, 5]
    first_moment = M[..., [1, 0, 1], [5, 5, 3]]
    around = (first_moment**2).sum(axis=-1) / np.where(mass > 0.0, mass, np.inf)
    moments = np.trace(M[..., :3, :3], axis1=-2, axis2=-1) - 2.0 * around
    error = np.abs(M)
    error[..., :3, :3] += (2.0 * np.maximum(moments, 0.0) + 8.0 * _EPS * around)[..., None, None] * np.eye(3)
    return _Bounded(M, error)


def _definite(P: _Bounded, H: Array, armature: Array) -> Array:
    """Whether all pivots of D = HᵀPH + armature are significantly positive; arguments as of `_hinge`."""
    return _eliminated(P, H, armature, H[..., :0])[0]


def _eliminated(P: _Bounded, H: Array, armature: Array, others: Array) -> tuple[Array, Array, Array]:
    """Eliminate degrees of freedom one by one from [HᵀPH + armature, HᵀPB; BᵀPH, BᵀPB] for other directions B.

    Returns:
        Whether all pivots are significantly positive, the matrix and its errors.
    """
    n = H.shape[-1]
    left = np.concatenate([H, others], axis=-1)
    turned = np.swapaxes(left, -1, -2)
    S, E = turned @ P.value @ left, np.abs(turned) @ P.error @ np.abs(left)
    own = np.arange(n)
    S[..., own, own] += armature
    E[..., own, own] += armature
    definite = np.ones(S.shape[:-2], dtype=bool)
    for i in range(n):
        pivot, error = S[..., i, i], E[..., i, i]
        definite &= pivot > _TRUSTED * error
        safe = np.where(definite, pivot, 1.0)[..., None]
        s, e = S[..., :, i], E[..., :, i]
        g = s / safe
        size = np.abs(g)
        S = S - _outer(s, g)
        spread = _outer(size, e + 0.5 * error[..., None] * size)
        E = E + spread + np.swapaxes(spread, -1, -2) + _outer(np.abs(s), size)
    return definite, S, E


def _hinge(P: _Bounded, H: Array, armature: Array) -> tuple[Array, _Bounded]:
    """Whether all pivots of D = HᵀPH + armature are significantly positive, and P⁺ = P − PH D⁻¹ HᵀP.

    Args:
        P: (…, 6, 6).
        H: (…, 6, n).
        armature: (…, n).
    """
    n = H.shape[-1]
    definite, S, E = _eliminated(P, H, armature, np.broadcast_to(np.eye(6), (*H.shape[:-1], 6)))
    P_plus = _Bounded(S[..., n:, n:].copy(), E[..., n:, n:].copy())
    # along a unit vector without armature, P⁺ vanishes exactly
    free = (np.abs(H).sum(axis=-2) == 1.0) & (armature == 0.0)
    exact = ((H != 0.0) & free[..., None, :]).any(axis=-1)
    for part in P_plus:
        part[exact[..., :, None] | exact[..., None, :]] = 0.0
    return definite, P_plus


def _outer(a: Array, b: Array) -> Array:
    product: Array = a[..., :, None] * b[..., None, :]
    return product


def _configuration(mechanism: Mechanism, rng: np.random.Generator, length: float) -> Array:
    """Angles of about a radian and displacements of about a given length, (nq,)."""
    q = rng.uniform(0.3, 1.3, mechanism.nq)
    for node, kind in enumerate(mechanism.kinds):
        if kind.rigid and not _joint_map(mechanism, node)[:3].any():
            q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]] *= length
    return q


# 6×6 matrices of the ten numbers of a rigid inertia; their entries are 0, 1 and −1
_OF_NUMBERS = np.array([RigidInertia(unit).matrix() for unit in np.eye(RigidInertia.size)])


def _matrices(numbers: Array) -> Array:
    """Inertias as matrices, (…, 10) to (…, 6, 6)."""
    return np.tensordot(numbers, _OF_NUMBERS, axes=1)


def _joint_map(mechanism: Mechanism, node: int) -> Array:
    """(6, n)."""
    return np.asarray(mechanism.kinds[node].joint_map(mechanism.parameters[node]).matrix())


def _armature(mechanism: Mechanism, node: int) -> Array:
    """(n,)."""
    return mechanism.kinds[node].armature(mechanism.parameters[node])


def _message(mechanism: Mechanism, node: int) -> str:
    kind, name = mechanism.kinds[node], mechanism.names[node]
    what = f"body {name!r}: no inertia resists its {kind.name} joint" if kind.rigid else f"no inertia resists {name!r}"
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
    if mechanism.first_general is None or not _has_center(mechanism):
        raise SingularMechanismError(
            "no moving body has mass, so there is no centre of mass. Give at least one body a mass"
        )


def _has_center(mechanism: Mechanism) -> bool:
    """Whether nodes that are not rigid bodies have mass."""
    q = _configuration(mechanism, np.random.default_rng(1), 1.0)
    with np.errstate(all="ignore"):
        (com,) = run(center_of_mass_by_weights, mechanism, (), (q,))
    return bool(np.isfinite(com).all())
