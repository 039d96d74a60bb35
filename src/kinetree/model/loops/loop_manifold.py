"""The configurations of a cluster with closed loops: q holds all joint coordinates, v the independent rates.

Where the rates of joints and the constraints of loops are: their rows and columns of K.

The state of closed loops, and the forces in them, from the singular values of K, the derivative of constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.language.mechanism import Mechanism
from kinetree.model.joint import Joint
from kinetree.model.joints.protocol import ScrewStage, Series
from kinetree.model.loops.aggregation import Cluster, Rate
from kinetree.spatial.dense import least_squares
from kinetree.spatial.scalar import Constant, select
from kinetree.spatial.value import Array

# Newton steps after the prediction: their errors are squared each time, so that a tenth of a radian vanishes
_STEPS = 4
# loops open by more than this fraction of their size after all steps are not closed [m or rad]
_OPEN = Constant(1e-8, 1e-4)


class ClusterFormulas(Protocol):
    """The formulas of a cluster that its coordinates need."""

    @property
    def series(self) -> Series:
        """The coordinates of all joints."""

    @property
    def joint_rates(self) -> int:
        """Number of their rates."""

    @property
    def independent(self) -> tuple[int, ...]:
        """The independent rates."""

    @property
    def dependent(self) -> tuple[int, ...]:
        """The others."""

    def coupling(self, parameters: Array, q: Array) -> Array:
        """All rates per independent rate."""

    def loops(self, parameters: Array, q: Array) -> tuple[Array, Array]:
        """Residuals of the constraints, and their derivatives."""


@dataclass(frozen=True)
class LoopManifold:
    """A `language.node.Manifold` whose points satisfy φ(q) = 0.

    Args:
        kind: The cluster's formulas.
        parameters: Its constants.
    """

    kind: ClusterFormulas
    parameters: Array

    def integrate(self, q: Array, step: Array) -> Array:
        """Move the independent joints, and let the others follow by Newton's method; NaN if they cannot."""
        kind, columns = self.kind, list(self.kind.dependent)
        q = kind.series.integrate(q, kind.coupling(self.parameters, q) @ step)
        for _ in range(_STEPS if columns else 0):
            residual, K = kind.loops(self.parameters, q)
            correction: list[Any] = [0.0] * kind.joint_rates
            for i, x in zip(columns, least_squares(K[:, columns], -residual[:, None])[:, 0], strict=True):
                correction[i] = x
            q = kind.series.integrate(q, np.array(correction))
        residual, _ = kind.loops(self.parameters, q)
        # open loops give NaN: a sum with 0 where they are closed
        closed: Array = q + select(residual @ residual, _OPEN * _OPEN, 0.0, np.nan)
        return closed

    def difference(self, q0: Array, q1: Array) -> Array:
        """The rates of the independent joints; the others follow."""
        self._require_coordinates()
        return self.kind.series.difference(q0, q1)[list(self.kind.independent)]

    def room(self, q: Array, limit: Array) -> Array:
        """That of the independent joints. Limits of the others bound nothing: there is no velocity to stop."""
        return self.kind.series.difference(q, limit)[list(self.kind.independent)]

    def rates(self, q: Array, v: Array) -> Array:
        return self.kind.series.rates(q, self.kind.coupling(self.parameters, q) @ v)

    def transport(self, step: Array) -> Array:
        return self._own(self.kind.series.transport(self._spread(step)))

    def right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.right_jacobian(self._spread(step)))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.inverse_right_jacobian(self._spread(step)))

    def bracket(self, x: Array) -> Array:
        return self._own(self.kind.series.bracket(self._spread(x)))

    def tangent_map(self, q: Array) -> Array:
        own: Array = self.kind.series.tangent_map(q)[list(self.kind.independent)]
        return own

    def normalize(self, q: Array) -> Array:
        return self.kind.series.normalize(q)

    def _spread(self, step: Array) -> Array:
        """A step of the independent joints alone, as one of all joints."""
        found: list[Any] = [0.0] * self.kind.joint_rates
        for i, x in zip(self.kind.independent, step, strict=True):
            found[i] = x
        return np.array(found)

    def _require_coordinates(self) -> None:
        """Raise if some independent rates are not those of whole joints: then no coordinates belong to them."""
        start, own = 0, set(self.kind.independent)
        for stage in self.kind.series.stages:
            rates = set(range(start, start + stage.nv))
            start += stage.nv
            if own & rates and not rates <= own and isinstance(stage, ScrewStage):
                raise UnsupportedError(
                    f"a single velocity of a {stage.name} joint is independent here, a rate without coordinate: there "
                    "are no differences of configurations, and no derivatives of integrate. Choose whole joints with "
                    "with_independent()"
                )

    def _own(self, matrix: Array) -> Array:
        self._require_coordinates()
        own: Array = matrix[np.ix_(self.kind.independent, self.kind.independent)]
        return own


class ClusterRows(NamedTuple):
    """A cluster's part of all loop constraints.

    Attributes:
        constraints: In words.
        counts: Number of rows of each.
        joints: Names.
        rows: Its rows of K.
        columns: Its columns of K.
        dependent: Those of rates that are not independent.
    """

    constraints: tuple[str, ...]
    counts: tuple[int, ...]
    joints: tuple[str, ...]
    rows: range
    columns: tuple[int, ...]
    dependent: tuple[int, ...]


class Alike:
    """Parts of the same shape, which are computed together.

    Args:
        places: Their positions among all parts.
        parts: The parts.
    """

    def __init__(self, places: Sequence[int], parts: Sequence[ClusterRows]) -> None:
        self.places, self.parts = places, parts

    @cached_property
    def rows(self) -> Array:
        """(parts, rows)."""
        return np.array([part.rows for part in self.parts], dtype=np.intp)

    @cached_property
    def columns(self) -> Array:
        """(parts, columns)."""
        return np.array([part.columns for part in self.parts], dtype=np.intp)

    @cached_property
    def dependent(self) -> Array:
        """(parts, columns of dependent rates)."""
        return np.array([part.dependent for part in self.parts], dtype=np.intp)

    def block(self, K: Array, columns: Array) -> Array:
        """These columns of each part, (…, parts, rows, columns)."""
        found: Array = K[..., self.rows[:, :, None], columns[:, None, :]]
        return found


def parts_of(mechanism: Mechanism, joints: Sequence[Joint], clusters: Sequence[Cluster]) -> tuple[ClusterRows, ...]:
    """The clusters with loops."""
    starts, by_child = first_rates(joints), {joint.child: joint for joint in joints}
    nodes = {first: k for k, first in enumerate(mechanism.joint_starts[:-1]) if mechanism.kinds[k].loop_rows > 0}
    found = []
    for cluster in clusters:
        if cluster.follows is not None:
            continue
        own = [by_child[body] for body in cluster.bodies]
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


def alike(parts: Sequence[ClusterRows]) -> tuple[Alike, ...]:
    """Parts by their shapes."""
    shapes: dict[tuple[int, int, int], list[int]] = {}
    for place, part in enumerate(parts):
        shapes.setdefault((len(part.rows), len(part.columns), len(part.dependent)), []).append(place)
    return tuple(Alike(places, [parts[place] for place in places]) for places in shapes.values())


def first_rates(joints: Sequence[Joint]) -> dict[str, int]:
    """Index of the first rate of each joint among those of all joints."""
    found, start = {}, 0
    for joint in joints:
        found[joint.name] = start
        start += joint.type.nv
    return found


def rates_of(joints: Sequence[Joint], given: Any) -> list[Rate]:
    """The rates of a joint by name, or one of them by a pair of a name and an index."""
    name, index = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    joint = next((joint for joint in joints if name in (joint.name, joint.child)), None)
    if joint is None:
        raise UnknownNameError("moving joint", name, tuple(joint.name for joint in joints))
    if index is None:
        return [(joint.name, i) for i in range(joint.type.nv)]
    if not isinstance(index, int) or not 0 <= index < joint.type.nv:
        raise InputError(f"joint {joint.name!r} has {joint.type.nv} velocities; there is none with index {index!r}")
    return [(joint.name, index)]


# singular values below this fraction of the largest are rounding
_RANK = 1e-9
_NEVER_ZERO = 1e-300


class LoopState(NamedTuple):
    """The state of the loops of one cluster; arrays have the batch axes of q.

    Attributes:
        constraints: What closes them, in words.
        joints: Names of the joints on them.
        residual: Largest residual of the constraints, (…) [m or rad].
        rank: Rank of K, the derivative of the constraints with respect to all joint rates, (…).
        condition: Condition number of the columns of K that belong to dependent rates, (…).
        branch: Sign of the determinant of these columns, restricted to as many rows, those that are most independent at
            the robot's neutral configuration, (…). A loop passes from one branch to another only through a singularity
            of these rows, which is one of the loop if its constraints are not redundant.
        singular: Whether the independent rates fail to determine the others, (…). If K has its usual rank, another
            choice of independent joints helps: `with_independent`.
    """

    constraints: tuple[str, ...]
    joints: tuple[str, ...]
    residual: Array
    rank: Array
    condition: Array
    branch: Array
    singular: Array


def states(parts: Sequence[Alike], rows: Sequence[Array], residual: Array, K: Array) -> tuple[LoopState, ...]:
    """The states of all parts, in order.

    Args:
        parts: By shape.
        rows: From `most_independent`.
        residual: (…, rows).
        K: (…, rows, joint rates).
    """
    found: dict[int, LoopState] = {}
    for same, chosen in zip(parts, rows, strict=True):
        own = same.block(K, same.columns)
        finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))
        own, block = (np.where(finite[..., None, None], one, 0.0) for one in (own, same.block(K, same.dependent)))
        values, least = (np.linalg.svd(one, compute_uv=False) for one in (own, block))
        smallest = least[..., -1] if block.shape[-2] >= block.shape[-1] else np.zeros(least.shape[:-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            condition = np.where(finite, least[..., 0] / smallest, np.nan)
        columns = (
            np.abs(residual[..., same.rows]).max(axis=-1),
            (values > _RANK * np.maximum(values[..., :1], _NEVER_ZERO)).sum(axis=-1),
            condition,
            _branch(block, chosen),
            ~(smallest > _RANK * least[..., 0]),
        )
        for i, (place, part) in enumerate(zip(same.places, same.parts, strict=True)):
            found[place] = LoopState(part.constraints, part.joints, *(column[..., i] for column in columns))
    return tuple(found[place] for place in sorted(found))


def least_forces(parts: Sequence[Alike], K: Array, needed: Array) -> Array:
    """The forces of least norm whose effect Kᵀλ on the joints is nearest to what is needed, (…, rows).

    Args:
        parts: By shape.
        K: (…, rows, joint rates).
        needed: (…, joint rates).
    """
    forces = np.zeros((*needed.shape[:-1], K.shape[-2]))
    for same in parts:
        own = same.block(K, same.columns)
        finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))[..., None]
        U, values, Vt = np.linalg.svd(np.where(finite[..., None], own, 0.0), full_matrices=False)
        kept = values > _RANK * values[..., :1]
        gain = np.where(finite, kept / np.where(kept, values, 1.0), np.nan)
        along = (Vt @ needed[..., same.columns][..., None])[..., 0]
        forces[..., same.rows] = (U @ (gain * along)[..., None])[..., 0]
    return forces


def most_independent(parts: Sequence[Alike], K: Array) -> list[Array]:
    """For each shape, as many rows as there are dependent columns: the longest of what others leave, (parts, columns).

    Args:
        parts: By shape.
        K: (rows, joint rates).
    """
    found = []
    for same in parts:
        rest = same.block(K, same.dependent)
        every, columns = np.arange(len(same.parts)), min(rest.shape[-2:])
        chosen = np.empty((len(every), columns), dtype=np.intp)
        for i in range(columns):
            chosen[:, i] = best = (rest**2).sum(axis=-1).argmax(axis=-1)
            longest = rest[every, best]
            unit = longest / np.maximum(np.linalg.norm(longest, axis=-1, keepdims=True), _NEVER_ZERO)
            rest = rest - (rest @ unit[:, :, None]) * unit[:, None, :]
        found.append(np.sort(chosen, axis=-1))
    return found


def _branch(block: Array, rows: Array) -> Array:
    """Sign of the determinant of some rows; zero if there are too few."""
    parts, columns = rows.shape
    if columns < block.shape[-1]:
        return np.zeros(block.shape[:-2])
    signs: Array = np.sign(np.linalg.det(block[..., np.arange(parts)[:, None], rows, :]))
    return signs
