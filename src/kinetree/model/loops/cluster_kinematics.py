"""Kinematics inside a cluster: where its bodies are, how they move, and how its joints depend on each other.

Where joints are coupled explicitly, q holds the coordinates of the others. Where constraints φ(q) = 0 close loops, q
holds the coordinates of all joints, and v the rates of some of them, the independent ones I. With K = ∂φ/∂q̇ the
others, D, follow:

    q̇ = G v,    G_I = 1,    G_D = −K_D⁺ K_I        q̈ = G v̇ + Ġ v,    (Ġ v)_I = 0,    (Ġ v)_D = −K_D⁺ K̇ q̇

Redundant constraints need no care: K_D⁺ is a least-squares solution. For body i with inner parent π(i), joint motions
S_i and rates q̇ = G v of the joints:

    T_i = T_π(i) + S_i G_i                        V_i = T_i v    velocity relative to the carrier
    a_i = a_π(i) + V_i × S_i q̇_i + S_i (Ġ v)_i                   its acceleration at v̇ = 0
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinetree.model.loops.cluster_structure import ClusterStructure, InnerConstants
from kinetree.model.loops.loop import Inside
from kinetree.spatial.dense import least_squares
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import stack
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class Posed(NamedTuple):
    """A configuration, one entry per inner body."""

    inside: Inside  # where the bodies are
    G: list[Array]  # joint rates per independent rate, (stage.nv, n)
    T: list[Array]  # motion of the body per independent rate, (6, n)
    inertia: list[RigidInertia | None]  # in the carrier's coordinates; None for massless bodies and outlets


class InnerRates(NamedTuple):
    """Velocities relative to the carrier, one entry per inner body."""

    V: list[Motion]
    a: list[Motion]  # accelerations at zero v̇, except for the part due to the carrier's own motion
    g: list[Array]  # joint accelerations at zero v̇: Ġ v, (stage.nv,)


# What follows from q is needed several times in a row, once for each formula: the last result is kept.
_last = threading.local()


def posed(cluster: ClusterStructure, parameters: Array, q: Array | None) -> Posed:
    """The cluster at a configuration."""
    if q is None:
        raise TypeError("the formulas of a cluster depend on q")
    key = cluster, parameters, q
    known = getattr(_last, "posed", None)
    if known is None or any(one is not other for one, other in zip(known[0], key, strict=True)):
        known = _last.posed = key, _pose(cluster, parameters, q)
    found: Posed = known[1]
    return found


def _pose(cluster: ClusterStructure, parameters: Array, q: Array) -> Posed:
    constants = cluster.constants(parameters)
    x = _coordinates(cluster, constants, q)
    inside = _inside(cluster, constants, x)
    G = _closed(cluster, parameters, inside) if cluster.closures else _coupled(cluster, constants, x)
    T: list[Array] = []
    inertia: list[RigidInertia | None] = []
    for i, (each, own) in enumerate(zip(cluster.inner, constants, strict=True)):
        moved = columns(inside.S[cluster.firsts[i] : cluster.firsts[i + 1]]) @ G[i]
        T.append(moved if each.parent < 0 else T[each.parent] + moved)
        seen = None if own.inertia is None or i in cluster.outlets else inside.up[i].congruence(own.inertia)
        inertia.append(seen)
    return Posed(inside, G, T, inertia)


def rates(cluster: ClusterStructure, parameters: Array, at: Posed, v: Array) -> InnerRates:
    """Velocities relative to the carrier at independent rates v."""
    joint_rates, inside = [G @ v for G in at.G], at.inside
    S = [columns(inside.S[cluster.firsts[i] : cluster.firsts[i + 1]]) for i in range(len(cluster.inner))]
    V: list[Motion] = []
    pushed: list[Motion] = []  # at zero joint accelerations
    for i, each in enumerate(cluster.inner):
        own = Motion(S[i] @ joint_rates[i])
        V.append(own if each.parent < 0 else V[each.parent] + own)
        turned = V[i].cross(own)
        pushed.append(turned if each.parent < 0 else pushed[each.parent] + turned)
    moving = replace(inside, V=V, a=pushed, rates=stack(*joint_rates))
    drift = _drift_of_loops if cluster.closures else _drift_of_followers
    g = drift(cluster, parameters, moving)
    a: list[Motion] = []
    for i, each in enumerate(cluster.inner):
        own = V[i].cross(Motion(S[i] @ joint_rates[i])) + Motion(S[i] @ g[i])
        a.append(own if each.parent < 0 else a[each.parent] + own)
    return InnerRates(V, a, g)


def located(cluster: ClusterStructure, parameters: Array, q: Array) -> Inside:
    """Where the bodies are, relative to the carrier."""
    constants = cluster.constants(parameters)
    return _inside(cluster, constants, _coordinates(cluster, constants, q))


def loops(cluster: ClusterStructure, parameters: Array, at: Inside) -> tuple[Array, Array]:
    """Residuals φ of the constraints that close loops, and their derivatives K."""
    residuals, rows = [], []
    for closure, c in cluster.closure_constants(parameters):
        residuals.append(closure.residual(c, at))
        rows.append(closure.jacobian(c, at))
    return np.concatenate(residuals), np.concatenate(rows)


def _coordinates(cluster: ClusterStructure, constants: list[InnerConstants], q: Array) -> list[Array]:
    """Coordinates of each joint."""
    x: dict[int, Array] = {}
    start = 0
    for i, each in enumerate(cluster.inner):
        if each.follower is None:
            x[i] = q[start : start + each.nq]
            start += each.nq
    for i, follower, leaders in cluster.followers:
        leading = stack(*(x[leader] for leader in leaders))
        x[i] = np.array([follower.value(constants[i].follower, leading)])
    return [x[i] for i in range(len(cluster.inner))]


def _inside(cluster: ClusterStructure, constants: list[InnerConstants], x: list[Array]) -> Inside:
    """Where the bodies are, relative to the carrier."""
    up: list[Transform] = []
    S: list[Array] = []
    for i, (each, own) in enumerate(zip(cluster.inner, constants, strict=True)):
        X = each.stage.transform(own.placement, own.own, x[i])
        up.append(X if each.parent < 0 else X @ up[each.parent])
        H = each.stage.joint_map(own.own)
        S += [up[i].back(H.column(c)).data for c in range(each.stage.nv)]
    return Inside(up, S, cluster.below, x, cluster.firsts)


def _coupled(cluster: ClusterStructure, constants: list[InnerConstants], x: list[Array]) -> list[Array]:
    """Rates of each joint per independent rate, where joints are coupled explicitly."""
    G: dict[int, Array] = {}
    column = 0
    for i, each in enumerate(cluster.inner):
        if each.follower is None:
            G[i] = np.eye(cluster.nv)[column : column + each.nv]
            column += each.nv
    for i, follower, leaders in cluster.followers:
        slopes = follower.slopes(constants[i].follower, stack(*(x[leader] for leader in leaders)))
        G[i] = np.zeros((1, cluster.nv))
        for slope, leader in zip(slopes, leaders, strict=True):
            G[i] = G[i] + slope * G[leader]
    return [G[i] for i in range(len(cluster.inner))]


def _closed(cluster: ClusterStructure, parameters: Array, inside: Inside) -> list[Array]:
    """The same where loops are closed."""
    _, K = loops(cluster, parameters, inside)
    G = np.zeros((cluster.joint_rates, cluster.nv), dtype=object)
    G[...] = 0.0
    for column, rate in enumerate(cluster.independent):
        G[rate, column] = 1.0
    if cluster.dependent and cluster.nv:
        G[list(cluster.dependent)] = least_squares(K[:, list(cluster.dependent)], -K[:, list(cluster.independent)])
    return _split(cluster, plain(G))


def _drift_of_followers(cluster: ClusterStructure, parameters: Array, moving: Inside) -> list[Array]:
    """Ġ v of each joint, where they are coupled explicitly."""
    constants = cluster.constants(parameters)
    g = [np.zeros(each.stage.nv) for each in cluster.inner]
    for i, follower, leaders in cluster.followers:
        c, leading = constants[i].follower, stack(*(moving.x[leader] for leader in leaders))
        rates = np.array([moving.rates[cluster.firsts[leader]] for leader in leaders])
        total = follower.curvature(c, leading, rates)
        for slope, leader in zip(follower.slopes(c, leading), leaders, strict=True):
            total = total + slope * g[leader][0]
        g[i] = np.array([total])
    return g


def _drift_of_loops(cluster: ClusterStructure, parameters: Array, moving: Inside) -> list[Array]:
    """The same where loops are closed."""
    _, K = loops(cluster, parameters, moving)
    k = np.concatenate([closure.drift(c, moving) for closure, c in cluster.closure_constants(parameters)])
    g = np.zeros(cluster.joint_rates, dtype=object)
    g[...] = 0.0
    if cluster.dependent:
        g[list(cluster.dependent)] = least_squares(K[:, list(cluster.dependent)], -k[:, None])[:, 0]
    return _split(cluster, plain(g))


def _split(cluster: ClusterStructure, rows: Array) -> list[Array]:
    """One part for each joint."""
    return [rows[cluster.firsts[i] : cluster.firsts[i + 1]] for i in range(len(cluster.inner))]


def columns(vectors: Sequence[Array]) -> Array:
    """Vectors as the columns of a matrix."""
    matrix: Array = np.stack(vectors, axis=1)
    return matrix


def plain(values: Array) -> Array:
    """An array of objects as one of numbers, if they are numbers."""
    kinds = {type(x) for x in values.reshape(-1)}
    if all(issubclass(kind, (float, complex, np.number)) for kind in kinds):
        numbers: Array = np.array(values.tolist()).reshape(values.shape)
        return numbers
    return values
