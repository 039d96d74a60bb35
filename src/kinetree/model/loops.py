"""Loops of a model: closing them, their state, and what acts on all joints, independent or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Several
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms import coupling as algorithms
from kinetree.algorithms.loop_closing import CLOSED, close_loops
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.sequence import Sequence
from kinetree.engines.quantity import quantity
from kinetree.errors import InputError, LoopError, UnknownNameError
from kinetree.model.aggregation import Cluster, Rate
from kinetree.model.coordinates import checked
from kinetree.model.joint import Joint
from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.value import Array

_Model = TypeVar("_Model", bound="Loops")

# Newton steps of a round, the most rounds, and rounds after which another configuration is drawn if loops are open
_STEPS, _ROUNDS, _SHORT = 8, 8, 4
# times that random configurations are drawn until loops can be closed
_DRAWS = 50
# singular values below this fraction of the largest are rounding
_RANK = 1e-9


class LoopState(NamedTuple):
    """The state of the loops of one cluster; arrays have the batch axes of q.

    Attributes:
        constraints: What closes them, in words.
        joints: Names of the joints on them.
        residual: Largest residual of the constraints, (…) [m or rad].
        rank: Rank of K, the derivative of the constraints with respect to all joint rates, (…).
        condition: Condition number of the columns of K that belong to dependent rates, (…).
        branch: Sign of the determinant of these columns, restricted to as many independent rows, (…). A loop passes
            from one branch to another only through a singularity.
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


class Loops:
    """Functions of joints that depend on each other."""

    if TYPE_CHECKING:
        mechanism: Mechanism
        clusters: tuple[Cluster, ...]
        joints: tuple[Joint, ...]

        @property
        def nq(self) -> int: ...

        independent: tuple[Rate, ...]

        def _rounded(self, array: Array) -> Array: ...

        def astype(self: _Model, dtype: Any) -> _Model: ...

        def neutral(self) -> Array: ...

        def joint(self, name: str) -> Joint: ...

        def q_to_dict(self, q: Any) -> dict[str, Array]: ...

        def q_from_dict(self, values: Mapping[str, Any]) -> Array: ...

        @property
        def inverse_dynamics(self) -> Callable[..., Array]: ...

        def _opened(self: _Model) -> _Model: ...

        def _with_independent(self: _Model, rates: Several[Rate]) -> _Model: ...

    @quantity(algorithms.coupling)
    def coupling(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """G, (…, joint rates, nv): velocities of all joints, in the order of `joints`, per independent velocity.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(algorithms.coupling_rate)
    def coupling_rate(self, q: ArrayLike, v: ArrayLike, *, out: Array | None = None) -> Array:
        """Ġ, (…, joint rates, nv): the rate of `coupling` at velocity v.

        Args:
            q: Configuration, (…, nq).
            v: Independent velocities, (…, nv).
            out: Array for the result.
        """

    @quantity(algorithms.joint_rates)
    def joint_rates(self, q: ArrayLike, v: ArrayLike, *, out: Array | None = None) -> Array:
        """Velocities of all joints, G v, (…, joint rates), in the order of `joints`.

        Args:
            q: Configuration, (…, nq).
            v: Independent velocities, (…, nv).
            out: Array for the result.
        """

    @quantity(algorithms.joint_accelerations)
    def joint_accelerations(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, out: Array | None = None) -> Array:
        """Accelerations of all joints, G a + Ġ v, (…, joint rates), in the order of `joints`.

        Args:
            q: Configuration, (…, nq).
            v: Independent velocities, (…, nv).
            a: Independent accelerations, (…, nv).
            out: Array for the result.
        """

    @quantity(algorithms.joint_forces)
    def joint_forces(self, q: ArrayLike, forces: ArrayLike, *, out: Array | None = None) -> Array:
        """τ = Gᵀ f, (…, nv): forces along v that act like forces on all joints, such as motors on dependent ones.

        Args:
            q: Configuration, (…, nq).
            forces: Of all joints, (…, joint rates), in the order of `joints`.
            out: Array for the result.
        """

    @quantity(algorithms.loop_constraints)
    def loop_constraints(self, q: ArrayLike, *, out: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """Residuals φ of all loops, (…, rows), and K with φ̇ = K q̇, (…, rows, joint rates).

        Args:
            q: Configuration, (…, nq).
            out: Two arrays for the results.
        """

    def close(self, q: ArrayLike, hold: Several[str | tuple[str, int]] | None = None) -> Array:
        """The configuration near q in which all loops are closed, (…, nq), by Newton's method.

        It is found in float64, and rounded if the robot's type is float32.

        Args:
            q: A guess, (…, nq).
            hold: Joints that keep their coordinates. By default the independent ones; () changes all joints, by the
                least amount.

        Raises:
            LoopError: If a loop stays open in some sample; names both.
        """
        q = checked("q", q, self.nq, real=True)
        precise = self.astype("float64")
        if precise is not self:
            return self._rounded(precise.close(q, hold))
        held = self._held(hold)
        if not self.mechanism.loop_starts[-1]:
            return q
        q, residual = self._closed(q, held, _ROUNDS)
        if not (np.abs(residual) <= CLOSED).all():
            raise self._open(residual, "another guess, or hold=() to let all joints move")
        return q

    def loops(self, q: ArrayLike) -> tuple[LoopState, ...]:
        """The state of all loops: residual, rank, condition, branch and singularity, per cluster and sample.

        Args:
            q: Configuration, (…, nq).
        """
        q = checked("q", q, self.nq, real=True)
        if not any(True for _ in self._closed_clusters()):
            return ()
        residual, K = self.astype("float64").loop_constraints(q)
        return tuple(_state(one, residual, K) for one in self._closed_clusters())

    def loop_forces(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, forces: ArrayLike) -> Array:
        """Forces λ of the loop constraints, (…, rows), such that Kᵀλ acts on the joints; of least norm where redundant.

        They are computed in float64, whatever the robot's type.

        Args:
            q: Configuration, (…, nq).
            v: Independent velocities, (…, nv).
            a: Independent accelerations, (…, nv).
            forces: Of all joints, (…, joint rates), with `joint_forces(q, forces)` the forces that cause a.
        """
        precise = self.astype("float64")
        if precise is not self:
            return self._rounded(precise.loop_forces(q, v, a, forces))
        _, K = self.loop_constraints(q)
        order = self.tree_order
        rates, accelerations = self.joint_rates(q, v), self.joint_accelerations(q, v, a)
        tree = self.spanning_tree.inverse_dynamics(self.to_tree(q), rates[..., order], accelerations[..., order])
        needed = tree[..., np.argsort(order)] - np.asarray(forces)
        turned = np.swapaxes(K, -1, -2)
        found: Array = (np.linalg.pinv(turned, rcond=_RANK) @ needed[..., None])[..., 0]
        return found

    @property
    def spanning_tree(self: _Model) -> _Model:
        """The same bodies without loops and couplings: every joint has its own coordinates, depth first."""
        known: _Model | None = self.__dict__.get("_spanning_tree")
        if known is None:
            known = self._opened()
            self.__dict__["_spanning_tree"] = known
        return known

    def to_tree(self, q: ArrayLike) -> Array:
        """The configuration of `spanning_tree`, (…, its nq), with all joints where they are at q.

        Args:
            q: Configuration, (…, nq).
        """
        found: Array = self.spanning_tree.q_from_dict(self.q_to_dict(q))
        return found

    @property
    def tree_order(self) -> Array:
        """For each velocity of the spanning tree, its index among those of `joint_rates`."""
        starts = _starts(self.joints)
        order = [starts[joint.name] + i for joint in self.spanning_tree.joints for i in range(joint.nv)]
        return np.array(order, dtype=np.intp)

    def with_independent(self: _Model, *joints: str | tuple[str, int]) -> _Model:
        """The same robot with other independent joints: the same q, another v.

        Args:
            *joints: Names of joints, or pairs of a name and the index of one of its velocities. Joints that are not on
                a loop with one of them keep their part of v.

        Raises:
            ModelError: If they do not determine the others.
        """
        rates = [rate for joint in joints for rate in rates_of(self.joints, joint)]
        touched = {
            joint.name
            for cluster in self.clusters
            for joint in self.joints
            if joint.child in cluster.bodies and any(self.joint(name).child in cluster.bodies for name, _ in rates)
        }
        kept = [rate for rate in self.independent if rate[0] not in touched]
        return self._with_independent([*kept, *rates])

    def _drawn(self, draw: Callable[[Any], Array], shape: Any) -> Array:
        """Random configurations with closed loops: independent joints are drawn, again while a loop of theirs is open.

        Args:
            draw: Draws all coordinates, for given leading axes.
            shape: Leading axes.
        """
        parts, held, neutral = list(self._closed_clusters()), self._held(None), self.neutral()
        dependent = np.zeros(self.nq, dtype=bool)
        of_part = np.zeros((len(parts), self.nq), dtype=bool)
        for joint in self.joints:
            dependent[joint.q_slice] = joint.independent is not None
            of_part[:, joint.q_slice] = [[joint.name in part.joints] for part in parts]

        drawn = np.where(dependent, neutral, draw(shape))
        q = drawn.reshape(-1, self.nq)
        residual = np.zeros((len(q), self.mechanism.loop_starts[-1]))
        open_ = np.arange(len(q))
        for _ in range(_DRAWS):
            q[open_], residual[open_] = self._closed(q[open_], held, _SHORT)
            off = ~(np.abs(residual[open_]) <= CLOSED)
            parted = np.stack([off[:, part.rows].any(axis=1) for part in parts], axis=1)
            open_, parted = open_[parted.any(axis=1)], parted[parted.any(axis=1)]
            if not len(open_):
                return q.reshape(drawn.shape)
            again = np.where(dependent, neutral, draw(len(open_)))
            q[open_] = np.where(parted @ of_part, again, q[open_])
        raise self._open(residual.reshape(*drawn.shape[:-1], -1), "narrower limits of independent joints")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _held(self, hold: Several[str | tuple[str, int]] | None) -> list[int]:
        """The joint rates that stay as they are."""
        if isinstance(hold, str) or (hold is not None and not isinstance(hold, Several)):
            raise InputError(f"hold is a list of joint names; got {hold!r}")
        starts = _starts(self.joints)
        if hold is None:
            return [
                starts[joint.name] + i
                for joint in self.joints
                for i in (range(joint.type.nv) if joint.independent is None else joint.independent)
            ]
        rates = [rate for name in hold for rate in rates_of(self.joints, name)]
        return [starts[name] + i for name, i in rates]

    def _closed(self, q: Array, held: Several[int], patience: int) -> tuple[Array, Array]:
        """Configurations after Newton's method, (…, nq), and the residuals of their loops, (…, rows).

        Args:
            q: Where to start.
            held: Joint rates that stay as they are.
            patience: Rounds after which samples with open loops are given up.
        """
        free = np.ones(self.mechanism.joint_starts[-1])
        free[list(held)] = 0.0
        samples = np.array(q.reshape(-1, self.nq))
        residual = np.zeros((len(samples), self.mechanism.loop_starts[-1]))
        moving = np.arange(len(samples))
        for done in range(1, _ROUNDS + 1):
            samples[moving], residual[moving], still = self._newton(samples[moving], free)
            moving = moving[still > 0.0]
            if done >= patience:
                moving = moving[(np.abs(residual[moving]) <= CLOSED).all(axis=1)]
            if not len(moving):
                break
        return samples.reshape(q.shape), residual.reshape(*q.shape[:-1], -1)

    def _open(self, residual: Array, fix: str) -> LoopError:
        """The worst of all loops that are open, as an exception that lists their samples."""
        sizes = np.abs(residual)
        open_ = ~(sizes.max(axis=-1) <= CLOSED)
        worst = np.unravel_index(int(np.argmax(np.where(open_, sizes.max(axis=-1), -1.0))), open_.shape)
        off = sizes[worst]
        part = max(self._closed_clusters(), key=lambda one: float(np.nan_to_num(off[one.rows], nan=np.inf).max()))
        largest = float(off[part.rows].max())
        row = int(np.argmax(off[part.rows]))
        which = int(np.searchsorted(np.cumsum(part.counts), row, side="right"))
        samples = tuple(tuple(int(i) for i in index) for index in np.argwhere(open_)) if open_.ndim else ()
        return LoopError(part.constraints[which], largest, samples, fix)

    def _closed_clusters(self) -> Iterator[_Part]:
        """The clusters with loops, with their rows and columns of K."""
        mechanism = self.mechanism
        starts, by_child = _starts(self.joints), {joint.child: joint for joint in self.joints}
        own = {cluster.bodies: cluster for cluster in self.clusters if cluster.follows is None}
        for cluster in own.values():
            joints = [by_child[body] for body in cluster.bodies]
            columns = [starts[joint.name] + i for joint in joints for i in range(joint.type.nv)]
            node = next(
                k for k, first in enumerate(mechanism.joint_starts) if first == columns[0] and _rows(mechanism, k)
            )
            rows = slice(mechanism.loop_starts[node], mechanism.loop_starts[node + 1])
            independent = [starts[name] + i for name, i in cluster.independent]
            counts = tuple(_row_count(mechanism, node))
            named = tuple(map(str, cluster.constraints))
            yield _Part(named, counts, tuple(joint.name for joint in joints), rows, columns, independent)

    @property
    def _newton(self) -> Compiled:
        """Some Newton steps: final q, residuals there, and the number of loops that the last step moved."""
        known: Compiled | None = self.__dict__.get("_newton_steps")
        if known is None:
            step = bind(close_loops, self.mechanism, (), "close")
            sequence = Sequence("close", step.binding.inputs, step.binding.outputs)
            q = sequence.variable(sequence.inputs[0])
            with sequence.loop(_STEPS):
                results = sequence.call(step, q, sequence.inputs[1], into=[None, *sequence.outputs[1:]])
                sequence.copy(results[0], q)
            sequence.copy(q, sequence.outputs[0])
            known = self.__dict__["_newton_steps"] = sequence.finish()
        return known


class _Part(NamedTuple):
    """A cluster's part of all loop constraints."""

    constraints: tuple[str, ...]
    counts: tuple[int, ...]
    joints: tuple[str, ...]
    rows: slice
    columns: list[int]
    independent: list[int]


def _rows(mechanism: Mechanism, k: int) -> bool:
    return k < len(mechanism.kinds) and mechanism.kinds[k].loop_rows > 0


def _row_count(mechanism: Mechanism, k: int) -> Iterator[int]:
    kind: Any = mechanism.kinds[k]
    for closure in kind.closures:
        yield closure.rows


def _starts(joints: Several[Joint]) -> dict[str, int]:
    """Index of the first rate of each joint among those of all joints."""
    found, start = {}, 0
    for joint in joints:
        found[joint.name] = start
        start += joint.type.nv
    return found


def rates_of(joints: Several[Joint], given: Any) -> list[Rate]:
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


def _state(part: _Part, residual: Array, K: Array) -> LoopState:
    own = K[..., part.rows, :][..., part.columns]
    dependent = [i for i, column in enumerate(part.columns) if column not in part.independent]
    finite = np.isfinite(own).all(axis=(-2, -1))
    own = np.where(np.asarray(finite)[..., None, None], own, 0.0)
    values = np.linalg.svd(own, compute_uv=False)
    rank = (values > _RANK * np.maximum(values[..., :1], 1e-300)).sum(axis=-1)
    block = own[..., dependent]
    least = np.linalg.svd(block, compute_uv=False)
    enough = block.shape[-2] >= block.shape[-1]
    smallest = least[..., -1] if enough else np.zeros(least.shape[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(finite, least[..., 0] / smallest, np.nan)
    return LoopState(
        part.constraints,
        part.joints,
        np.abs(residual[..., part.rows]).max(axis=-1),
        rank,
        condition,
        _branch(block),
        ~(smallest > _RANK * least[..., 0]),
    )


def _branch(block: Array) -> Array:
    """Sign of the determinant of as many rows as there are columns: the most independent ones of the first sample."""
    rows, columns = block.shape[-2:]
    if rows < columns:
        return np.zeros(block.shape[:-2])
    if rows > columns:
        first = block.reshape(-1, rows, columns)[0]
        chosen: list[int] = []
        rest = first.copy()
        for _ in range(columns):
            best = int(np.argmax((rest**2).sum(axis=1)))
            chosen.append(best)
            unit = rest[best] / max(np.linalg.norm(rest[best]), 1e-300)
            rest = rest - np.outer(rest @ unit, unit)
        block = block[..., sorted(chosen), :]
    signs: Array = np.sign(np.linalg.det(block))
    return signs
