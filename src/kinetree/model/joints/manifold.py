"""The coordinates of nodes that are not rigid bodies: plain numbers, those of joints, and manifolds of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, final

import numpy as np

from kinetree.model.joints.protocol import JointKind, Series, Stage
from kinetree.spatial.dual import IN_MANIFOLD, IN_NODE, along, arctan2, rates_of, select
from kinetree.spatial.scalar import magnitude
from kinetree.spatial.value import Array


class Manifold(ABC):
    """Coordinates that are not plain numbers, as part of the `coordinates` of a `Node`: subclass it.

    `nq` coordinates describe a configuration that has `nv` velocities. Velocities are those of a group: the same motion
    from another configuration, as body-frame velocities are. Formulas are arithmetic on scalars without branches on
    values, like those of a `Node`; they must be smooth, also at a step of zero. Derivatives follow from them.

    Attributes:
        nq: Number of coordinates.
        nv: Number of velocities.
    """

    nq: int
    nv: int

    @abstractmethod
    def neutral(self) -> Any:
        """The configuration to start from, (nq,)."""

    @abstractmethod
    def integrate(self, q: Array, step: Array) -> Any:
        """The configuration reached from q at constant velocity `step` in unit time, (nq,)."""

    @abstractmethod
    def difference(self, q0: Array, q1: Array) -> Any:
        """The constant velocity that leads from q0 to q1 in unit time, (nv,)."""

    def normalize(self, q: Array) -> Any:
        """The same configuration in normal form, (nq,)."""
        return q

    def random(self, rng: np.random.Generator) -> Any:
        """A random configuration, (nq,); by default a step of ±1 in each velocity away from the neutral one."""
        return self.integrate(np.asarray(self.neutral(), dtype=float), rng.uniform(-1.0, 1.0, self.nv))

    def rates(self, q: Array, v: Array) -> Array:
        """Rates of the coordinates at velocity v, (nq,). By default those of `integrate`, by dual numbers."""
        return derivative(lambda s: self.integrate(q, s * v), np.zeros(1), np.ones(1))

    def tangent_map(self, q: Array) -> Array:
        """Velocity per unit rate of each coordinate, (nv, nq). By default that of `difference`, by dual numbers."""
        return _columns([derivative(lambda x: self.difference(q, x), q, unit) for unit in np.eye(self.nq)], self.nv)

    @staticmethod
    def angle(y: Any, x: Any) -> Any:
        """The angle of a point (x, y) in ±π, as `np.arctan2`, for scalars of any type; NaN at the origin."""
        acute = arctan2(magnitude(y), magnitude(x))
        upper = select(x, 0.0, np.pi - acute, acute)
        return select(y, 0.0, -upper, upper)

    # What follows, as in `language.node.NodeManifold`. In a group, these do not depend on where a step starts.

    @cached_property
    def _start(self) -> Array:
        return np.asarray(self.neutral(), dtype=float)

    def room(self, q: Array, limit: Array) -> Array:
        """How far q is from a limit, (nv,)."""
        return np.asarray(self.difference(q, limit))

    def transport(self, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to q, (nv, nv)."""
        return self.transport_from(self._start, step)

    def transport_from(self, q: Array, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to q, as a map between tangents, (nv, nv)."""
        end = self.tangent_map(np.asarray(self.integrate(q, step)))
        moved = (derivative(lambda x: self.integrate(x, step), q, self.rates(q, u)) for u in np.eye(self.nv))
        return _columns([end @ each for each in moved], self.nv)

    def right_jacobian(self, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to the step, (nv, nv)."""
        return self.right_jacobian_from(self._start, step)

    def right_jacobian_from(self, q: Array, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to the step, in the tangent at the end, (nv, nv)."""
        end = self.tangent_map(np.asarray(self.integrate(q, step)))
        moved = (derivative(lambda x: self.integrate(q, x), step, u) for u in np.eye(self.nv))
        return _columns([end @ each for each in moved], self.nv)

    def inverse_right_jacobian(self, step: Array) -> Array:
        """Inverse of `right_jacobian`, from `difference`, (nv, nv)."""
        q, end = self._start, np.asarray(self.integrate(self._start, step))
        moved = (derivative(lambda x: self.difference(q, x), end, self.rates(end, u)) for u in np.eye(self.nv))
        return _columns(list(moved), self.nv)

    def bracket(self, x: Array) -> Array:
        """Matrix of the Lie bracket with a velocity x, (nv, nv)."""
        found: list[list[Any]] = [[0.0] * self.nv for _ in range(self.nv)]
        for i, matrix in enumerate(self._brackets):
            for row, column in np.argwhere(matrix):
                found[row][column] = found[row][column] + matrix[row, column] * x[i]
        return np.array(found)

    @cached_property
    def _brackets(self) -> list[Array]:
        return self.brackets_at(self._start)

    def brackets_at(self, q: Array) -> list[Array]:
        """The matrices of the Lie brackets with each unit velocity at q, numbers, (nv, nv) each.

        [x, y] = (∂(E y)/∂q) E x − (∂(E x)/∂q) E y for rates E(q) x, as a velocity.
        """
        T, units = np.asarray(self.tangent_map(q)), np.eye(self.nv)

        def turned(i: int, j: int) -> Array:
            """Change of the rates of velocity j along velocity i."""
            return derivative(lambda p: self.rates(p, units[j]), q, self.rates(q, units[i]), IN_NODE)

        found = [_columns([T @ (turned(i, j) - turned(j, i)) for j in range(self.nv)], self.nv) for i in range(self.nv)]
        # what is rounding would be computed with
        return [np.where(np.abs(each) < 1e-13 * max(1.0, np.abs(each).max()), 0.0, each) for each in found]


def derivative(function: Callable[[Array], Any], x: Array, direction: Array, level: int = IN_MANIFOLD) -> Array:
    """The change of a function along a direction, by dual numbers."""
    found: Array = rates_of(function(along(x, direction, level)), level)
    return found


def _columns(vectors: list[Array], rows: int) -> Array:
    matrix: Array = np.stack(vectors, axis=1) if vectors else np.zeros((rows, 0))
    return matrix


@cache
def plain(count: int) -> JointKind:
    """A kind of joint with `count` plain coordinates and no stages: its formulas are those of its node."""

    @final
    class Plain(JointKind):
        """Plain numbers."""

        name = "node"
        nq = count
        nv = count
        angles = (False,) * count

        @property
        def stages(self) -> tuple[Stage, ...]:
            return ()

    return Plain()


@cache
def in_parts(parts: tuple[JointKind | Manifold, ...]) -> JointKind:
    """A kind of joint whose coordinates are those of some joints and manifolds, without stages."""

    @final
    class Parts(Series, JointKind):
        """Coordinates of several kinds in a row."""

        name = "node"
        nq = sum(part.nq for part in parts)
        nv = sum(part.nv for part in parts)
        limited = False

        @property
        def stages(self) -> tuple[Stage, ...]:
            return ()

        def neutral(self) -> Array:
            return np.concatenate([np.asarray(part.neutral(), dtype=float) for part in parts])

        def random(self, rng: np.random.Generator, shape: tuple[int, ...], _lower: Array, _upper: Array) -> Array:
            return np.concatenate([_drawn(part, rng, shape) for part in parts], axis=-1)

    return Parts(parts)


def _drawn(part: JointKind | Manifold, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random coordinates of one part, (*shape, nq)."""
    if isinstance(part, Manifold):
        samples = [np.asarray(part.random(rng), dtype=float) for _ in range(int(np.prod(shape)))]
        return np.array(samples).reshape(*shape, part.nq)
    unlimited = np.full(part.nv, np.inf)
    return part.random(rng, shape, -unlimited, unlimited)
