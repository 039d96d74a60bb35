"""Nodes of any dimension with dense, non-square, singular weights: the abstract models of [J11] §2.3.

They stand for the flexible bodies and aggregates of bodies that are further kinds of nodes, and prove that neither the
tree language nor the engines assume six dimensions or invertible weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.hinge import RiccatiStep
from kinetree.spatial.inertia import ArticulatedInertia
from kinetree.spatial.motion import Force
from kinetree.spatial.symmetric import Factor
from kinetree.spatial.value import Array, Linear, Transposed, Value


def _flat(x: Any) -> Array:
    return x.data if isinstance(x, Value) else x


class Matrix(Linear):
    """A dense matrix of rows × columns."""

    __slots__ = ("shape",)

    def __init__(self, data: Any, rows: int, columns: int) -> None:
        self.data, self.shape = np.asarray(data).reshape(-1), (rows, columns)

    @property
    def parameters(self) -> tuple[int, ...]:
        return self.shape

    @classmethod
    def size_of(cls, *_: int) -> int:
        rows, columns = _
        return rows * columns

    def matrix(self) -> Array:
        return self.data.reshape(self.shape)

    def __matmul__(self, x: Any) -> Array:
        return self.matrix() @ _flat(x)


class Inertia(Matrix):
    __slots__ = ()

    def articulated(self) -> Inertia:
        return self


class Weight(Matrix):
    """A*(p, k). Towards a rigid parent, or the world, it speaks the language of spatial vectors."""

    __slots__ = ()

    @property
    def T(self) -> Transposed[Any, Any]:
        return Transposed(self._force_back)

    def _force_back(self, f: Any) -> Any:
        product = self.matrix().T @ f
        return Force(product) if self.shape[1] == 6 else product

    def congruence(self, inertia: Inertia) -> Any:
        W = self.matrix()
        product = W.T @ inertia.matrix() @ W
        if self.shape[1] == 6:
            return ArticulatedInertia.from_matrix(product)
        return Inertia(product, self.shape[1], self.shape[1])


class Map(Matrix):
    """H, or G."""

    __slots__ = ()

    @property
    def T(self) -> Transposed[Any, Array]:
        return Transposed(lambda f: self.matrix().T @ _flat(f))

    def hinge(self, P: Inertia, armature: Array) -> RiccatiStep:
        assert not armature.any()
        H, dense = self.matrix(), P.matrix()
        U = dense @ H
        D = Factor.of(H.T @ U)
        G = D.solve(U.T).T
        n = len(dense)
        return RiccatiStep(D, Map(G, *G.shape), Inertia(dense - U @ G.T, n, n))  # type: ignore[arg-type]


@dataclass(frozen=True)
class DenseNode:
    """A node of the given dimension behind nv degrees of freedom, on a parent of another dimension."""

    dimension: int
    parent_dimension: int
    nv: int

    @property
    def name(self) -> str:
        return f"dense_{self.dimension}_{self.parent_dimension}_{self.nv}"

    @property
    def port(self) -> str:
        return f"dense_{self.dimension}"

    @property
    def nq(self) -> int:
        return self.nv

    @property
    def parameter_count(self) -> int:
        m, p, n = self.dimension, self.parent_dimension, self.nv
        return 2 * m * p + m * n + m * m

    def _part(self, parameters: Array, which: int) -> Array:
        m, p, n = self.dimension, self.parent_dimension, self.nv
        sizes = [m * p, m * p, m * n, m * m]
        start = sum(sizes[:which])
        return parameters[start : start + sizes[which]]

    def weight(self, parameters: Array, q: Array) -> Weight:
        return Weight(
            self._part(parameters, 0) + self._part(parameters, 1) * q[0], self.dimension, self.parent_dimension
        )

    def joint_map(self, parameters: Array) -> Map:
        return Map(self._part(parameters, 2), self.dimension, self.nv)

    def inertia(self, parameters: Array) -> Inertia:
        return Inertia(self._part(parameters, 3), self.dimension, self.dimension)

    def armature(self, _: Array) -> Array:
        return np.zeros(self.nv)

    def coriolis(self, _: Array, velocity: Array, v: Array) -> Array:
        return velocity * v[0]

    def gyroscopic(self, _: Array, velocity: Array) -> Array:
        return velocity * velocity[0]


def abstract_model(seed: int, rigid: Mechanism | None = None) -> Mechanism:
    """A forest of nodes of dimensions 3, 4, 6 and 7, some on a rigid mechanism if one is given."""
    rng = np.random.default_rng(seed)
    parents = list(rigid.parents) if rigid else []
    kinds: list[Any] = list(rigid.kinds) if rigid else []
    parameters = list(rigid.parameters) if rigid else []
    base = len(kinds) - 1
    #                  parent      dimension, parent's, nv
    plan = [
        (base, (5, 6, 2)),
        (base + 1, (3, 5, 1)),
        (base + 2, (8, 3, 3)),
        (base + 3, (5, 8, 2)),
        (base + 1, (5, 5, 2)),
    ]
    plan += [(-1, (3, 6, 2)), (base + 6, (8, 3, 3))]
    for parent, (m, p, n) in plan:
        kind = DenseNode(m, p, n)
        root = rng.normal(size=(m, m))
        weights = rng.normal(size=(2, m, p))
        weights[:, 0] = 0.0  # singular too
        parts = (weights, rng.normal(size=(m, n)), root @ root.T + np.eye(m))
        parameters.append(np.concatenate([part.reshape(-1) for part in parts]))
        kinds.append(kind)
        parents.append(parent)
    names = tuple(f"node{i}" for i in range(len(kinds)))
    return Mechanism(tuple(parents), tuple(kinds), tuple(parameters), names, np.array([0.1, -0.2, -9.81]))
