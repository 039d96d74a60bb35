"""From the constraints of a model to its clusters: loops are closed once, and independent rates chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from kinetree.algorithms.kinematics.dependent_joints import CLOSED
from kinetree.errors import LoopError, ModelError
from kinetree.model.assembly.assembly import clusters_of
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Clustering, Constraint, Linkage, Rate, aggregate, condensed
from kinetree.model.loops.cluster_kind import ClusterKind
from kinetree.model.loops.loop import Connect, Loop
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import alignment
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

# residuals of loops that need no further step, so that closed configurations stay as they are
_EXACT = 1e-13
# Newton steps, of at most this size [rad or m]
_CLOSING_STEPS, _LONGEST = 100, 0.5
# singular values below this fraction of the largest are rounding
_RANK = 1e-9
# closed configurations at which choices of independent rates are compared, and how far apart they are [rad or m];
# nodes that are not rigid bodies deform less than joints move
_SAMPLES, _SPREAD, _DEFORMED = 6, 0.3, 0.03


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
    if not constraints:
        return Clustering((), (), {})
    linkage = Linkage(bodies, joints)
    found = list(aggregate(linkage, constraints, independent))
    order, reference = condensed(linkage, bodies, found), dict[str, Array]()
    if all(cluster.follows is not None for cluster in found):
        return Clustering(tuple(found), order, reference)
    formulas = clusters_of(bodies, joints, found, order)
    for i, cluster in enumerate(found):
        if cluster.follows is not None:
            continue
        own = [joints[body] for body in cluster.bodies if joints[body].type.nv]
        start = np.concatenate([_start(joint, near) for joint in own])
        kind, parameters = formulas[cluster.bodies[0]]
        cluster = _turned(cluster, kind, parameters, start)
        if cluster != found[i]:
            found[i] = cluster
            kind, parameters = clusters_of(bodies, joints, found, order)[cluster.bodies[0]]
        q, rates = _closed(cluster, kind, parameters, own, start, independent)
        found[i] = replace(cluster, independent=rates)
        ends = accumulate(joint.type.nq for joint in own)
        reference |= {joint.name: q[end - joint.type.nq : end] for joint, end in zip(own, ends, strict=True)}
    return Clustering(tuple(found), order, reference)


def _start(joint: Joint, near: Mapping[str, tuple[float, ...]]) -> Array:
    """Where to start closing loops: near given coordinates, or the neutral ones within limits."""
    if joint.name in near:
        return np.array(near[joint.name])
    neutral = joint.type.neutral()
    return np.clip(neutral, joint.limits.lower, joint.limits.upper) if joint.type.limited else neutral


def _turned(cluster: Cluster, kind: ClusterKind, parameters: Array, q: Array) -> Cluster:
    """The cluster with frames that are half a turn apart at q welded or hinged like that.

    A hinge does not tell the two ends of its axis apart. Welded frames coincide; but if they start exactly half a turn
    apart, they stay so.
    """
    inside, found = kind.inside(parameters, q), list(cluster.constraints)
    for i, (loop, (closure, c)) in enumerate(zip(found, kind.closure_constants(parameters), strict=True)):
        turn = closure.half_turn(c, inside) if isinstance(closure, Connect) else None
        if isinstance(loop, Loop) and turn is not None:
            aligned = pose(alignment(loop.axis), np.zeros(3))
            flip = product(product(aligned, pose(turn, np.zeros(3))), aligned.T)
            found[i] = replace(loop, second=product(loop.second, flip))
    return replace(cluster, constraints=tuple(found))


def _closed(
    cluster: Cluster, kind: ClusterKind, parameters: Array, joints: Sequence[Joint], q: Array, wanted: Sequence[Rate]
) -> tuple[Array, tuple[Rate, ...]]:
    """Close the loops of a cluster near a configuration, with the least change, and choose its independent rates.

    The user may have `wanted` some rates, of any joints.
    """
    rates = [(joint.name, i) for joint in joints for i in range(joint.type.nv)]
    named = [rate for rate in wanted if rate in rates]
    fixed = [rates.index(rate) for rate in named]
    start = q
    q, residual = _newton(kind, parameters, start, fixed)
    if residual > CLOSED:
        q, residual = _newton(kind, parameters, start, [])
    if residual > CLOSED:
        raise LoopError(_worst(cluster, kind, parameters, q), residual, (), "a start nearer to it, build(near={…})")
    shown = ", ".join(map(str, cluster.constraints[:3]))
    if fixed:
        K = kind.loops(parameters, q)[1].astype(float)
        if len(fixed) == len(rates) - _rank(K) and _least_pivot(K, fixed) > _RANK * np.abs(K).max():
            return q, tuple(rates[i] for i in sorted(fixed))
    rng = np.random.default_rng(0)
    samples = [q]
    spread = np.concatenate([np.full(each.type.nv, _DEFORMED if each.node else _SPREAD) for each in joints])
    for _ in range(4 * _SAMPLES):
        start = kind.series.integrate(q, spread * rng.standard_normal(kind.joint_rates))
        other, off = _newton(kind, parameters, start, [])
        if off <= CLOSED:
            samples.append(other)
        if len(samples) == _SAMPLES:
            break
    matrices = [kind.loops(parameters, sample)[1].astype(float) for sample in samples]
    rank = max(_rank(K) for K in matrices)
    free = len(rates) - rank
    if free == 0:
        raise ModelError(f"{shown}: the loop leaves none of its joints any freedom; weld its bodies with fixed joints")
    if len(named) > free:
        raise ModelError(
            f"{_listed(named)} cannot all be independent: {shown} leaves {free} of {len(rates)} joint rates free"
        )
    choice = _chosen(matrices, fixed, free, [i for i, rate in enumerate(rates) if _driven(joints, rate)])
    if choice is None:
        raise ModelError(
            f"{_listed(named)} cannot be chosen as independent: {shown} determines other joints only if one of them "
            "depends on the rest. Choose others, or let Kinetree choose"
        )
    return q, tuple(rates[i] for i in choice)


def _driven(joints: Sequence[Joint], rate: Rate) -> bool:
    """Whether a rate is one of a motor, or of a general node, whose springs are stiffer than joints."""
    joint = next(joint for joint in joints if joint.name == rate[0])
    return joint.node is not None or bool(joint.armature[rate[1]])


def _listed(rates: Sequence[Rate]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(name for name, _ in rates))


def _newton(kind: ClusterKind, parameters: Array, q: Array, hold: Sequence[int]) -> tuple[Array, float]:
    """Newton's method with the least change of all joints but those held; the configuration and its residual."""
    moving = [i for i in range(kind.joint_rates) if i not in hold]
    residual = np.inf
    for _ in range(_CLOSING_STEPS):
        with np.errstate(all="ignore"):
            phi, K = (part.astype(float) for part in kind.loops(parameters, q))
        if not np.isfinite(K).all():
            return q, np.inf
        before, residual = residual, float(np.abs(phi).max())
        enough = _EXACT if before == np.inf else 0.01 * _EXACT
        if residual < enough or (residual < CLOSED and residual >= before):
            break
        step = np.zeros(kind.joint_rates)
        step[moving] = np.linalg.lstsq(K[:, moving], -phi, rcond=_RANK)[0]
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
        q = kind.series.integrate(q, step).astype(float)
    return q, residual


def _worst(cluster: Cluster, kind: ClusterKind, parameters: Array, q: Array) -> str:
    """The constraint with the largest residual, in words."""
    with np.errstate(all="ignore"):
        phi, start, sizes = np.nan_to_num(kind.loops(parameters, q)[0].astype(float), nan=np.inf), 0, []
    for closure in kind.closures:
        sizes.append(np.abs(phi[start : start + closure.rows]).max())
        start += closure.rows
    return str(cluster.constraints[int(np.argmax(sizes))])


def _rank(K: Array) -> int:
    values = np.linalg.svd(K, compute_uv=False)
    return int((values > _RANK * max(values[0], 1e-300)).sum())


def _least_pivot(K: Array, independent: Sequence[int]) -> float:
    """The least singular value of the columns of the dependent rates."""
    dependent = [i for i in range(K.shape[1]) if i not in set(independent)]
    return float(np.linalg.svd(K[:, dependent], compute_uv=False)[-1]) if dependent else np.inf


def _chosen(matrices: Sequence[Array], fixed: Sequence[int], free: int, driven: Sequence[int]) -> list[int] | None:
    """So many independent rates, `fixed` ones included, for which the others are determined best.

    That is, at the worst of several configurations, given K there. Rates that are `driven` are preferred.
    """
    scale = max(float(np.abs(K).max()) for K in matrices)
    candidates: list[list[int]] = []
    for preferred in ([*driven], []):
        for K in matrices:
            chosen = list(fixed)
            for pool in (preferred, range(K.shape[1])):
                while len(chosen) < free:
                    best = max((i for i in pool if i not in chosen), key=lambda i: _kept(K, [*chosen, i]), default=None)
                    if best is None or (pool is preferred and _kept(K, [*chosen, best]) < 1e-6 * scale):
                        break
                    chosen.append(best)
            candidates.append(sorted(chosen))
    # generic configurations decide; the first may be singular
    worst = [min(_least_pivot(K, each) for K in (matrices[1:] or matrices)) for each in candidates]
    preferred_best = max(range(len(candidates)), key=lambda i: worst[i])
    with_motors = [i for i in range(len(matrices)) if worst[i] > 1e-3 * worst[preferred_best]]
    best = max(with_motors, key=lambda i: worst[i]) if driven and with_motors else preferred_best
    return candidates[best] if worst[best] > _RANK * scale else None


def _kept(K: Array, independent: Sequence[int]) -> float:
    """How well the remaining columns still span what K spans: its least significant singular value."""
    rank = _rank(K)
    dependent = [i for i in range(K.shape[1]) if i not in set(independent)]
    values = np.linalg.svd(K[:, dependent], compute_uv=False) if dependent else np.zeros(0)
    return float(values[rank - 1]) if len(values) >= rank > 0 else 0.0
