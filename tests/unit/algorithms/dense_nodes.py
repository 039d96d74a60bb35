"""Nodes of any dimension with dense, non-square, singular weights: the abstract models of [J11] §2.3.

They prove that neither the tree language nor the engines assume six dimensions, invertible weights, or joint maps and
inertias that are constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.language.mechanism import Mechanism
from kinetree.language.node import Unconstrained
from kinetree.model.joints.protocol import PlainCoordinates
from kinetree.spatial.dense import DenseInertia, DenseMap, DenseWeight, RootWeight
from kinetree.spatial.motion import Motion
from kinetree.spatial.scalar import sincos
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class DenseNode(Unconstrained):
    """A node of the given dimension behind nv degrees of freedom, on a parent of another dimension.

    Each of W, H and M is a constant matrix and one more times sin q₀; only W's moves unless the node is `moving`.
    """

    dimension: int
    parent_dimension: int
    nv: int
    rooted: bool = False
    moving: bool = False
    rigid = False

    @property
    def name(self) -> str:
        flags = f"{'r' * self.rooted}{'m' * self.moving}"
        return f"dense_{self.dimension}_{self.parent_dimension}_{self.nv}{flags}"

    @property
    def port(self) -> str:
        return f"dense_{self.dimension}"

    @property
    def nq(self) -> int:
        return self.nv

    def manifold(self, _parameters: Array) -> PlainCoordinates:
        return PlainCoordinates()

    @property
    def parameter_count(self) -> int:
        return 2 * sum(self._sizes)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        m, p, n = self.dimension, self.parent_dimension, self.nv
        return m * p, m * n, m * m

    def _part(self, parameters: Array, which: int, q: Array | None, columns: int) -> Array:
        start, count = 2 * sum(self._sizes[:which]), self._sizes[which]
        matrix = parameters[start : start + count]
        if q is not None and len(q):
            matrix = matrix + parameters[start + count : start + 2 * count] * sincos(q[0])[0]
        return matrix.reshape(self.dimension, columns)

    def weight(self, parameters: Array, q: Array) -> DenseWeight:
        kind = RootWeight if self.rooted else DenseWeight
        weight: DenseWeight = kind.of(self._part(parameters, 0, q, self.parent_dimension))
        return weight

    def joint_map(self, parameters: Array, q: Array | None = None) -> DenseMap:
        joint_map: DenseMap = DenseMap.of(self._part(parameters, 1, q, self.nv))
        return joint_map

    def inertia(self, parameters: Array, q: Array | None = None) -> DenseInertia:
        root = self._part(parameters, 2, q, self.dimension)
        return DenseInertia.of(root @ root.T + np.eye(self.dimension))

    def armature(self, _: Array) -> Array:
        return np.zeros(self.nv)

    def coriolis(self, _: Array, q: Array | None, v: Array, velocity: Array, carrier: Any) -> Array:
        rate = sum(v) if self.nv else 0.0
        if self.moving and q is not None and self.nv:
            rate = rate + q[0] * (carrier.data if isinstance(carrier, Motion) else carrier)[0]
        return velocity * rate

    def gyroscopic(self, _: Array, q: Array | None, v: Array, velocity: Array) -> Array:
        force: Array = velocity * velocity[0]
        return force * (v[0] + q[0]) if self.moving and q is not None and self.nv else force

    def resistance(self, _: Array, q: Array, v: Array) -> Array:
        return q + 0.5 * v if self.moving else np.zeros(self.nv)

    def potential(self, _: Array, q: Array) -> Any:
        return 0.5 * (q @ q) if self.moving else 0.0


#: Dimension and degrees of freedom of each node, and the node that carries it, −1 for the world or the last rigid body.
PLAN = ((-1, 4, 2), (0, 3, 1), (1, 7, 3), (2, 4, 2), (0, 4, 2), (-2, 3, 2), (5, 7, 3), (5, 2, 0), (7, 5, 2))


def abstract_model(
    seed: int, rigid: Mechanism | None = None, moving: bool = False, plan: Any = PLAN, singular: bool = True
) -> Mechanism:
    """A forest of nodes of dimensions 2 to 7, one of them on a rigid mechanism if there is one; −2: on the world."""
    rng = np.random.default_rng(seed)
    parents = list(rigid.parents) if rigid else []
    kinds: list[Any] = list(rigid.kinds) if rigid else []
    parameters = list(rigid.parameters) if rigid else []
    first = len(kinds)
    for above, m, n in plan:
        rooted = above < 0
        p = 6 if rooted else plan[above][1]
        weights, maps, roots = (rng.normal(size=(2, m, columns)) for columns in (p, n, m))
        if singular:
            weights[:, 0] = 0.0
        parameters.append(np.concatenate([part.reshape(-1) for part in (weights, maps, roots)]))
        kinds.append(DenseNode(m, p, n, rooted, moving))
        parents.append({-1: first - 1, -2: -1}.get(above, first + above))
    names = tuple(f"node{i}" for i in range(len(kinds)))
    return Mechanism(tuple(parents), tuple(kinds), tuple(parameters), names, np.array([0.1, -0.2, -9.81]))
