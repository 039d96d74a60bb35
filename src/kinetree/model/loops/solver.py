"""Closes loops by Newton's method, and draws random configurations in which they are closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.kinematics.dependent_joints import CLOSED, close_loops
from kinetree.errors import LoopError
from kinetree.language.mechanism import Mechanism
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, first_rates
from kinetree.runtime.bound import Compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.sequence import KernelSequence as Steps
from kinetree.spatial.value import Array

# Newton steps of a round, the most rounds, and rounds after which another configuration is drawn if loops are open
_NEWTON_STEPS, _ROUNDS, _SHORT = 8, 8, 4
# times that random configurations are drawn until loops can be closed
_DRAWS = 50


class ClusterRows(NamedTuple):
    """A cluster's part of all loop constraints, and of their derivative K."""

    constraints: tuple[str, ...]  # in words
    counts: tuple[int, ...]  # number of rows of each
    joints: tuple[str, ...]  # names
    rows: range
    columns: tuple[int, ...]
    dependent: tuple[int, ...]  # columns of rates that are not independent

    def block(self, K: Array, columns: Sequence[int]) -> Array:
        """Some of its columns in its rows, (…, rows, columns)."""
        found: Array = K[..., np.array(self.rows)[:, None], np.array(columns, dtype=np.intp)]
        return found


def parts_of(mechanism: Mechanism, joints: Sequence[Joint], clusters: Sequence[Cluster]) -> tuple[ClusterRows, ...]:
    """The clusters with loops."""
    starts, by_child = first_rates(joints), {joint.child: joint for joint in joints}
    nodes = {first: k for k, first in enumerate(mechanism.joint_starts[:-1]) if mechanism.kinds[k].loop_rows > 0}
    found = []
    for cluster in clusters:
        if cluster.follows is not None:
            continue
        own = [by_child[body] for body in cluster.bodies if body in by_child]
        columns = tuple(starts[joint.name] + i for joint in own for i in range(joint.type.nv))
        node = nodes[columns[0]]
        kind: Any = mechanism.kinds[node]
        independent = {starts[name] + i for name, i in cluster.independent}
        found.append(
            ClusterRows(
                tuple(map(str, cluster.constraints)),
                tuple(closure.rows for closure in kind.closures),
                tuple(joint.name for joint in own),
                range(mechanism.loop_starts[node], mechanism.loop_starts[node + 1]),
                columns,
                tuple(column for column in columns if column not in independent),
            )
        )
    return tuple(found)


class LoopSolver:
    """Closes the loops of a robot that computes in float64, by Newton's method."""

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
        """The configuration near q in which all loops are closed, (…, nq); `held` joint rates stay as they are.

        Raises:
            LoopError: If a loop stays open; advises `fix`.
        """
        q, residual = self._closed(q, held, _ROUNDS)
        if not (np.abs(residual) <= CLOSED).all():
            raise self._open(residual, fix)
        return q

    def draw(self, draw: Callable[[Any], Array], shape: Any) -> Array:
        """Random configurations with closed loops: independent joints are drawn, again while a loop of theirs is open.

        `draw` draws all coordinates, for given leading axes.
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

        Samples with open loops are given up after as many rounds as `patience`.
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
