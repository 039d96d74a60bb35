"""Weights, joint maps and inertias of nodes of any dimension, as dense matrices whatever their structure.

Velocities and forces of such nodes are plain arrays. A weight converts to spatial vectors towards a rigid parent, an
`Outlet` towards rigid children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kinetree.spatial.hinge import RiccatiStep
from kinetree.spatial.inertia import ArticulatedInertia, Factor, Triangular
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array, Linear, Sized, Transposed, Value

if TYPE_CHECKING:
    from typing_extensions import Self


class Matrix(Sized, Linear):
    """A dense matrix, stored row by row."""

    __slots__ = names = ("rows", "columns")

    @classmethod
    def of(cls, matrix: Any) -> Any:
        """From a two-dimensional array."""
        return cls(matrix, *np.shape(matrix))

    @classmethod
    def size_of(cls, *_: int) -> int:
        rows, columns = _
        return rows * columns

    def matrix(self) -> Array:
        """As a two-dimensional array."""
        matrix: Array = self.data.reshape(self.parameters)
        return matrix


class Pose(Matrix):
    """W C of a node with weight W and parent pose C: maps motions in the world to the node."""

    __slots__ = ()

    @property
    def T(self) -> Transposed[Array, Force]:
        """Maps forces on the node to the pose's source frame."""
        return Transposed(lambda force: Force(self.matrix().T @ force))

    def moment_of(self, inertia: DenseInertia) -> Array:
        """First mass moment of the node in the pose's source frame, (3,) [kg m]."""
        felt = self._felt(inertia)
        return np.array([felt[2, 4], felt[0, 5], felt[1, 3]])

    def mass_of(self, inertia: DenseInertia) -> Any:
        """Mass of the node [kg]."""
        return self._felt(inertia)[3, 3]

    def _felt(self, inertia: DenseInertia) -> Array:
        """Rigid-body inertia, joints locked."""
        felt: Array = self.matrix().T @ (inertia.matrix() @ self.matrix())
        return felt

    def referred(self, _slides: Any) -> tuple[Pose, Array]:
        """This pose itself, whose source stays where it is."""
        return self, np.zeros(3)


class DenseWeight(Matrix):
    """A*(p, k) of a node whose parent belongs to the same family."""

    __slots__ = ()

    def __matmul__(self, carrier: Any) -> Any:
        if isinstance(carrier, (Transform, Pose)):
            return Pose.of(self.matrix() @ carrier.matrix())
        return self.matrix() @ (carrier.data if isinstance(carrier, Motion) else carrier)

    @property
    def T(self) -> Transposed[Array, Any]:
        """Maps forces to the parent."""
        return Transposed(self._force_back)

    def _force_back(self, force: Array) -> Any:
        return self.matrix().T @ force

    def congruence(self, inertia: DenseInertia | Downdated) -> Any:
        """Wᵀ P W."""
        return DenseInertia.of(self._carried(inertia))

    def _carried(self, inertia: DenseInertia | Downdated) -> Array:
        W = self.matrix()
        if isinstance(inertia, DenseInertia):
            felt: Array = W.T @ (inertia.matrix() @ W)
            return felt
        felt = W.T @ (inertia.P.matrix() @ W)
        U, G = W.T @ inertia.U, W.T @ inertia.G
        rows, columns = np.triu_indices(len(felt))
        for i, j in zip(rows, columns, strict=True):
            felt[i, j] = felt[i, j] - U[i] @ G[j]
        return felt


class RootWeight(DenseWeight):
    """A*(p, k) of a node whose parent is a rigid body or the world, m×6."""

    __slots__ = ()

    def _force_back(self, force: Array) -> Force:
        return Force(self.matrix().T @ force)

    def congruence(self, inertia: DenseInertia | Downdated) -> ArticulatedInertia:
        return ArticulatedInertia.from_matrix(self._carried(inertia))


class DenseInertia(Triangular, Linear):
    """A symmetric matrix, stored as its upper triangle, row by row."""

    __slots__ = ()

    @classmethod
    def of(cls, matrix: Any) -> DenseInertia:
        """From the upper triangle of a symmetric matrix."""
        matrix = np.asarray(matrix)
        return cls(matrix[np.triu_indices(len(matrix))], len(matrix))

    def matrix(self) -> Array:
        """The full matrix, both triangles."""
        at = np.zeros((self.order, self.order), dtype=np.intp)
        rows, columns = np.triu_indices(self.order)
        at[rows, columns] = at[columns, rows] = np.arange(len(rows))
        matrix: Array = self.data[at]
        return matrix

    def __matmul__(self, motion: Array) -> Array:
        return self.matrix() @ motion

    def articulated(self) -> DenseInertia:
        """This inertia itself: it can already represent an articulated inertia."""
        return self


class DenseCoriolis(Matrix):
    """Forces on a node per unit change of its velocities; of rigid bodies, too, where other nodes are in the tree."""

    __slots__ = ()

    def __matmul__(self, motion: Any) -> Any:
        return self._force(self.matrix(), motion)

    def transposed(self, motion: Any) -> Any:
        """Bᵀ m."""
        return self._force(self.matrix().T, motion)

    @staticmethod
    def _force(matrix: Array, motion: Any) -> Any:
        return Force(matrix @ motion.data) if isinstance(motion, Motion) else matrix @ motion


class DenseMap(Matrix):
    """H, mapping joint velocities to a node's velocity; also G, mapping joint forces to a node's force."""

    __slots__ = ()

    #: Whether it can be told that no motion turns; see `JointMap`.
    translates = 0.0

    def __matmul__(self, x: Array) -> Array:
        return self.matrix() @ x

    @property
    def T(self) -> Transposed[Array, Array]:
        """Maps a force on the node to its joint forces."""
        return Transposed(lambda vector: self.matrix().T @ vector)

    def past(self, force: Array, projected: Array) -> Array:
        """(1 − G Hᵀ) F: what of a force gets past the joint, given Hᵀ F."""
        return force - self @ projected

    def hinge(self, P: DenseInertia, armature: Array) -> RiccatiStep:
        """[J11] Eq. 32."""
        H, dense = self.matrix(), P.matrix()
        U = dense @ H
        D = H.T @ U
        for i, rotor in enumerate(armature):
            D[i, i] = D[i, i] + rotor
        factor = Factor.of(D)
        G = factor.solve(U.T).reshape(H.shape[::-1]).T
        return RiccatiStep(factor, DenseMap.of(G), Downdated(P, U, G))


class Downdated(NamedTuple):
    """P⁺ = P − U Gᵀ with U = P H and G = U D⁻¹, not evaluated: only Wᵀ P⁺ W is needed, and P has many zeros."""

    P: DenseInertia
    U: Array
    G: Array


class Outlet(Value):
    """The weight of an exit: extracts a body twist, six components from `start` on, from a node's velocity."""

    __slots__ = ("dimension", "start")
    size = 0

    def __init__(self, start: int, dimension: int) -> None:
        super().__init__(np.zeros(0))
        self.start, self.dimension = start, dimension

    @property
    def parameters(self) -> tuple[int, ...]:
        return (self.start, self.dimension)

    @classmethod
    def from_components(cls, _: Array, *parameters: int) -> Self:
        return cls(*parameters)

    @property
    def _slot(self) -> slice:
        return slice(self.start, self.start + 6)

    def __matmul__(self, carrier: Any) -> Any:
        if isinstance(carrier, Pose):
            return Transform.from_matrix(carrier.matrix()[self._slot])
        return Motion(carrier[self._slot])

    def rate(self, _motion: Motion) -> Outlet:
        """The outlet itself: it has no components that could change."""
        return self

    @property
    def T(self) -> Transposed[Force, Array]:
        """Maps a force on the outlet to the node."""
        return Transposed(self._force_back)

    def _force_back(self, force: Force) -> Array:
        after = np.zeros(self.dimension - self.start - 6)
        return np.concatenate([np.zeros(self.start), force.data, after])

    def congruence(self, inertia: ArticulatedInertia) -> Any:
        """An inertia carried by the outlet, as an inertia of the node."""
        felt = np.zeros((self.dimension, self.dimension), dtype=inertia.data.dtype)
        felt[self._slot, self._slot] = inertia.matrix()
        return DenseInertia.of(felt)


def least_squares(A: Array, B: Array) -> Array:
    """x with the least |A x − B|, (n, k), for A, (m, n), of full column rank and B, (m, k).

    Modified Gram–Schmidt on [A | B], without branches: one root and one division per column. Backward stable for x,
    unlike the normal equations. If A loses rank, its pivot is zero or rounding, and x is not finite or large.
    """
    columns, right = [A[:, j] for j in range(A.shape[1])], [B[:, j] for j in range(B.shape[1])]
    n = len(columns)
    inverse: list[Any] = []
    upper: dict[tuple[int, int], Any] = {}
    y: list[list[Any]] = []
    for j in range(n):
        inverse.append(1.0 / sqrt(columns[j] @ columns[j]))
        unit = columns[j] * inverse[j]
        for i in range(j + 1, n):
            upper[j, i] = unit @ columns[i]
            columns[i] = columns[i] - unit * upper[j, i]
        y.append([])
        for c, b in enumerate(right):
            y[j].append(unit @ b)
            right[c] = b - unit * y[j][c]
    x: list[list[Any]] = [[None] * len(right) for _ in range(n)]
    for c in range(len(right)):
        for j in reversed(range(n)):
            entry = y[j][c]
            for i in range(j + 1, n):
                entry = entry - upper[j, i] * x[i][c]
            x[j][c] = entry * inverse[j]
    return np.array(x).reshape(n, len(right))
