"""Loops of a model: closing them, their state, and what acts on all joints, independent or not."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.kinematics import dependent_joints as algorithms
from kinetree.errors import InputError
from kinetree.model.base import ModelBase
from kinetree.model.coordinates import checked
from kinetree.model.loops.aggregation import first_rates, rates_of
from kinetree.model.loops.solver import ClusterRows, LoopSolver, parts_of
from kinetree.runtime.arguments import common_batch
from kinetree.runtime.lazy import lazy
from kinetree.runtime.quantity import quantity
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

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


def _state(part: ClusterRows, chosen: Array, residual: Array, K: Array) -> LoopState:
    """The state of a cluster's loops, given residuals, (…, rows), K, and its rows that tell branches apart."""
    own = part.block(K, part.columns)
    finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))
    own, block = (np.where(finite[..., None, None], one, 0.0) for one in (own, part.block(K, part.dependent)))
    values, least = (np.linalg.svd(one, compute_uv=False) for one in (own, block))
    smallest = least[..., -1] if block.shape[-2] >= block.shape[-1] else np.zeros(least.shape[:-1])
    few = len(chosen) < block.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(finite, least[..., 0] / smallest, np.nan)
    columns = (
        np.abs(residual[..., part.rows]).max(axis=-1),
        (values > _RANK * np.maximum(values[..., :1], _NEVER_ZERO)).sum(axis=-1),
        condition,
        np.zeros(block.shape[:-2]) if few else np.sign(np.linalg.det(block[..., chosen, :])),
        ~(smallest > _RANK * least[..., 0]),
    )
    return LoopState(part.constraints, part.joints, *map(np.asarray, columns))


def _most_independent(part: ClusterRows, K: Array) -> Array:
    """As many rows as there are dependent columns: the longest of what others leave."""
    rest = part.block(K, part.dependent)
    chosen = []
    for _ in range(min(rest.shape)):
        chosen.append(int((rest**2).sum(axis=-1).argmax()))
        longest = rest[chosen[-1]]
        unit = longest / max(np.linalg.norm(longest), _NEVER_ZERO)
        rest = rest - (rest @ unit)[:, None] * unit
    return np.array(sorted(chosen), dtype=np.intp)


def _least_forces(part: ClusterRows, K: Array, needed: Array) -> Array:
    """The forces of least norm whose effect Kᵀλ on the joints is nearest to what is needed, (…, rows)."""
    own = part.block(K, part.columns)
    finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))[..., None]
    U, values, Vt = np.linalg.svd(np.where(finite[..., None], own, 0.0), full_matrices=False)
    kept = values > _RANK * values[..., :1]
    gain = np.where(finite, kept / np.where(kept, values, 1.0), np.nan)
    along = (Vt @ needed[..., part.columns][..., None])[..., 0]
    forces: Array = (U @ (gain * along)[..., None])[..., 0]
    return forces


class Loops(ModelBase):
    """Functions of joints that depend on each other."""

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
        return self._solver.close(q, held, "another guess, or hold=() to let all joints move")

    def loops(self, q: ArrayLike) -> tuple[LoopState, ...]:
        """The state of all loops: residual, rank, condition, branch and singularity, per cluster and sample.

        Args:
            q: Configuration, (…, nq).
        """
        q = checked("q", q, self.nq, real=True)
        if not self._loop_parts:
            return ()
        residual, K = self.astype("float64").loop_constraints(q)
        parts = zip(self._loop_parts, self._branch_rows, strict=True)
        return tuple(_state(part, chosen, residual, K) for part, chosen in parts)

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
        if not self._loop_parts:  # no loops: only the number of samples is left
            sizes = {"q": self.nq, "v": self.nv, "a": self.nv, "forces": self.mechanism.joint_starts[-1]}
            given = dict(zip(sizes, (q, v, a, forces), strict=True))
            batches = [checked(name, given[name], size, real=True).shape[:-1] for name, size in sizes.items()]
            return np.zeros((*common_batch("loop_forces", tuple(sizes), batches), 0))
        _, K = self.loop_constraints(q)
        tree: Any = self.spanning_tree
        in_order = tree.inverse_dynamics(*self.to_tree(q, v, a))[..., np.argsort(self._tree_rates)]
        needed = in_order - np.asarray(forces)
        return np.concatenate([_least_forces(part, K, needed) for part in self._loop_parts], axis=-1)

    @property
    def spanning_tree(self) -> Self:
        """The same bodies without loops and couplings: every joint has its own coordinates, depth first."""
        known: Self | None = self.__dict__.get("_spanning_tree")
        if known is None:
            known = self._edited(constraints=(), independent=(), near=())
            self.__dict__["_spanning_tree"] = known
        return known

    @overload
    def to_tree(self, q: ArrayLike) -> Array: ...
    @overload
    def to_tree(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]: ...
    @overload
    def to_tree(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> tuple[Array, Array, Array]: ...
    def to_tree(self, q: ArrayLike, v: ArrayLike | None = None, a: ArrayLike | None = None) -> Any:
        """The state of `spanning_tree` in which all joints are and move as they do here, all in that tree's order.

        Args:
            q: Configuration, (…, nq).
            v: Independent velocities, (…, nv).
            a: Independent accelerations, (…, nv).

        Returns:
            Its configuration, (…, its nq); with v a tuple of this and its velocity, (…, its nv); with a also of its
            acceleration. `joint_rates` and `joint_accelerations` are in the order of `joints`, which may differ.
        """
        every = self._coordinates.every_joint.of(checked("q", q, self.nq))
        there = self._rounded(every[..., self._tree_coordinates])
        if v is None:
            if a is not None:
                raise InputError("to_tree: accelerations need velocities, which add to them; pass v as well")
            return there
        order = self._tree_rates
        moving = there, self.joint_rates(q, v)[..., order]
        return moving if a is None else (*moving, self.joint_accelerations(q, v, a)[..., order])

    @property
    def tree_order(self) -> Array:
        """For each velocity of the spanning tree, its index among those of `joint_rates`."""
        order: Array = self._tree_rates.copy()
        return order

    def with_independent(self, *joints: str | tuple[str, int]) -> Self:
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
        return self._edited(constraints=self.joint_constraints, independent=[*kept, *rates])

    def _drawn(self, draw: Callable[[Any], Array], shape: Any) -> Array:
        """Random configurations with closed loops; see `LoopSolver.draw`."""
        return self._solver.draw(draw, shape)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _held(self, hold: Several[str | tuple[str, int]] | None) -> list[int]:
        """The joint rates that stay as they are."""
        if isinstance(hold, str) or (hold is not None and not isinstance(hold, Several)):
            raise InputError(f"hold is a list of joint names; got {hold!r}")
        if hold is None:
            return self._solver.independent
        starts = first_rates(self.joints)
        rates = [rate for name in hold for rate in rates_of(self.joints, name)]
        return [starts[name] + i for name, i in rates]

    @lazy
    def _loop_parts(self) -> tuple[ClusterRows, ...]:
        return parts_of(self.mechanism, self.joints, self.clusters)

    @lazy
    def _branch_rows(self) -> list[Array]:
        """The rows of K whose determinant tells branches of loops apart: the same for all configurations."""
        precise = self.astype("float64")
        _, K = precise.loop_constraints(precise._coordinates.neutral())
        return [_most_independent(part, K) for part in self._loop_parts]

    @lazy
    def _solver(self) -> LoopSolver:
        return LoopSolver(self.mechanism, self.joints, self._loop_parts, self._coordinates.neutral())

    @lazy
    def _tree_rates(self) -> Array:
        starts = first_rates(self.joints)
        order = [starts[joint.name] + i for joint in self.spanning_tree.joints for i in range(joint.nv)]
        return np.array(order, dtype=np.intp)

    @lazy
    def _tree_coordinates(self) -> Array:
        """For each coordinate of the spanning tree, its index among those of all joints."""
        places = self._coordinates.every_joint.places
        joints = [places[joint.name] for joint in self.spanning_tree.joints]
        return np.array([i for place in joints for i in range(place.start, place.stop)], dtype=np.intp)
