"""Closes the loops of a cluster once, when a model is built, and chooses its independent rates.

Closes loops by Newton's method, and draws random configurations in which they are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.kinematics.dependent_joints import CLOSED, close_loops
from kinetree.errors import LoopError, ModelError
from kinetree.language.mechanism import Mechanism
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Rate
from kinetree.model.loops.closure import HingeClosure, WeldClosure
from kinetree.model.loops.cluster_kind import ClusterKind
from kinetree.model.loops.loop import Loop
from kinetree.model.loops.loop_manifold import ClusterRows, first_rates
from kinetree.runtime.bound import Compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.sequence import KernelSequence as Steps
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
# closed configurations at which choices of independent rates are compared, and how far apart they are [rad or m]
_SAMPLES, _SPREAD = 6, 0.3


class Closed(NamedTuple):
    """A cluster with closed loops.

    Attributes:
        q: Coordinates of its joints.
        independent: The independent rates.
    """

    q: Array
    independent: tuple[Rate, ...]


def turned(cluster: Cluster, kind: ClusterKind, parameters: Array, q: Array) -> Cluster:
    """The cluster with frames that are half a turn apart at q welded or hinged like that.

    A hinge does not tell the two ends of its axis apart. Welded frames coincide; but if they start exactly half a turn
    apart, they stay so.
    """
    inside, found = kind.inside(parameters, q), list(cluster.constraints)
    for i, (closure, loop) in enumerate(zip(kind.closures, cluster.constraints, strict=True)):
        if not isinstance(loop, Loop) or not isinstance(closure, HingeClosure | WeldClosure):
            continue
        _, c = list(kind.closure_constants(parameters))[i]
        turn = closure.half_turn(c, inside)
        if turn is not None:
            aligned = pose(alignment(loop.axis), np.zeros(3))
            flip = product(product(aligned, pose(turn, np.zeros(3))), aligned.T)
            found[i] = replace(loop, second=product(loop.second, flip))
    return replace(cluster, constraints=tuple(found))


def closed(
    cluster: Cluster, kind: ClusterKind, parameters: Array, joints: Sequence[Joint], q: Array, wanted: Sequence[Rate]
) -> Closed:
    """Close the loops of a cluster near a configuration, with the least change, and choose its independent rates.

    Args:
        cluster: The cluster.
        kind: Its formulas.
        parameters: Its constants.
        joints: Its joints, in order.
        q: Where to start.
        wanted: Rates that the user chose, of any joints.

    Raises:
        LoopError: If the loops cannot be closed from there.
        ModelError: If the user's choice is impossible.
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
        if len(fixed) == len(rates) - _rank(K) and least_pivot(K, fixed) > _RANK * np.abs(K).max():
            return Closed(q, tuple(rates[i] for i in sorted(fixed)))
    rng = np.random.default_rng(0)
    samples = [q]
    for _ in range(4 * _SAMPLES):
        start = kind.series.integrate(q, _SPREAD * rng.standard_normal(kind.joint_rates))
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
    return Closed(q, tuple(rates[i] for i in choice))


def _driven(joints: Sequence[Joint], rate: Rate) -> bool:
    joint = next(joint for joint in joints if joint.name == rate[0])
    return bool(joint.armature[rate[1]])


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


def least_pivot(K: Array, independent: Sequence[int]) -> float:
    """The least singular value of the columns of the dependent rates."""
    dependent = [i for i in range(K.shape[1]) if i not in set(independent)]
    return float(np.linalg.svd(K[:, dependent], compute_uv=False)[-1]) if dependent else np.inf


def _chosen(matrices: Sequence[Array], fixed: Sequence[int], free: int, driven: Sequence[int]) -> list[int] | None:
    """Independent rates for which the others are determined best, at the worst of several configurations.

    Args:
        matrices: K at these configurations.
        fixed: Rates that must be independent.
        free: Their number.
        driven: Rates of joints with a rotor, which are preferred.
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
    worst = [min(least_pivot(K, each) for K in (matrices[1:] or matrices)) for each in candidates]
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


# Newton steps of a round, the most rounds, and rounds after which another configuration is drawn if loops are open
_NEWTON_STEPS, _ROUNDS, _SHORT = 8, 8, 4
# times that random configurations are drawn until loops can be closed
_DRAWS = 50


class LoopSolver:
    """Closes the loops of a robot that computes in float64.

    Args:
        mechanism: The robot.
        joints: Its moving joints.
        parts: Its clusters with loops.
        neutral: Its neutral configuration.
    """

    def __init__(
        self, mechanism: Mechanism, joints: Sequence[Joint], parts: Sequence[ClusterRows], neutral: Array
    ) -> None:
        self.mechanism, self.parts, self.neutral = mechanism, parts, neutral
        starts = first_rates(joints)
        #: The independent rates, which stay as they are unless others are chosen.
        self.independent = [
            starts[joint.name] + i
            for joint in joints
            for i in (range(joint.type.nv) if joint.independent is None else joint.independent)
        ]
        self._dependent = np.zeros(len(neutral), dtype=bool)
        self._of_part = np.zeros((len(parts), len(neutral)), dtype=bool)
        for joint in joints:
            self._dependent[joint.q_slice] = joint.independent is not None
            for own, part in zip(self._of_part, parts, strict=True):
                own[joint.q_slice] = joint.name in part.joints

    def close(self, q: Array, held: Sequence[int], fix: str) -> Array:
        """The configuration near q in which all loops are closed, (…, nq).

        Args:
            q: A guess, (…, nq).
            held: Joint rates that stay as they are.
            fix: What to advise if that fails.

        Raises:
            LoopError: If a loop stays open.
        """
        q, residual = self._closed(q, held, _ROUNDS)
        if not (np.abs(residual) <= CLOSED).all():
            raise self._open(residual, fix)
        return q

    def draw(self, draw: Callable[[Any], Array], shape: Any) -> Array:
        """Random configurations with closed loops: independent joints are drawn, again while a loop of theirs is open.

        Args:
            draw: Draws all coordinates, for given leading axes.
            shape: Leading axes.
        """
        drawn = np.where(self._dependent, self.neutral, draw(shape))
        q = drawn.reshape(-1, len(self.neutral))
        q, residual = self._closed(q, self.independent, _SHORT)
        open_ = np.arange(len(q))
        for _ in range(_DRAWS):
            off = ~(np.abs(residual[open_]) <= CLOSED)
            parted = np.stack([off[:, part.rows].any(axis=1) for part in self.parts], axis=1)
            open_, parted = open_[parted.any(axis=1)], parted[parted.any(axis=1)]
            if not len(open_):
                return q.reshape(drawn.shape)
            again = np.where(self._dependent, self.neutral, draw(len(open_)))
            again = np.where(parted @ self._of_part, again, q[open_])
            q[open_], residual[open_] = self._closed(again, self.independent, _SHORT)
        raise self._open(residual.reshape(*drawn.shape[:-1], -1), "narrower limits of independent joints")

    def _closed(self, q: Array, held: Sequence[int], patience: int) -> tuple[Array, Array]:
        """Configurations after Newton's method, (…, nq), and the residuals of their loops, (…, rows).

        Args:
            q: Where to start.
            held: Joint rates that stay as they are.
            patience: Rounds after which samples with open loops are given up.
        """
        free = np.ones(self.mechanism.joint_starts[-1])
        free[list(held)] = 0.0
        samples, residual, still = self._newton(q.reshape(-1, q.shape[-1]), free)
        moving = np.flatnonzero(still > 0.0)
        for done in range(1, _ROUNDS):
            if done >= patience:
                moving = moving[(np.abs(residual[moving]) <= CLOSED).all(axis=1)]
            if not len(moving):
                break
            samples[moving], residual[moving], still = self._newton(samples[moving], free)
            moving = moving[still > 0.0]
        return samples.reshape(q.shape), residual.reshape(*q.shape[:-1], -1)

    def _open(self, residual: Array, fix: str) -> LoopError:
        """The worst of all loops that are open, as an exception that lists their samples."""
        sizes = np.abs(residual)
        open_ = ~(sizes.max(axis=-1) <= CLOSED)
        worst = np.unravel_index(int(np.argmax(np.where(open_, sizes.max(axis=-1), -1.0))), open_.shape)
        off = sizes[worst]
        part = max(self.parts, key=lambda one: float(np.nan_to_num(off[one.rows], nan=np.inf).max()))
        largest = float(off[part.rows].max())
        row = int(np.argmax(off[part.rows]))
        which = int(np.searchsorted(np.cumsum(part.counts), row, side="right"))
        samples = tuple(tuple(int(i) for i in index) for index in np.argwhere(open_)) if open_.ndim else ()
        return LoopError(part.constraints[which], largest, samples, fix)

    @cached_property
    def _newton(self) -> Compiled:
        """Some Newton steps: final q, residuals there, and the number of loops that the last step moved."""
        step = bind(close_loops, self.mechanism, (), "close")
        sequence = Steps("close", step.binding.inputs, step.binding.outputs)
        q = sequence.variable(sequence.inputs[0])
        with sequence.loop(_NEWTON_STEPS):
            results = sequence.call(step, q, sequence.inputs[1], into=[None, *sequence.outputs[1:]])
            sequence.copy(results[0], q)
        sequence.copy(q, sequence.outputs[0])
        return sequence.finish()
