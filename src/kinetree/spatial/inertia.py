"""Spatial inertias about a frame's origin, in that frame's coordinates, and factors of small symmetric matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, pack3, skew, stack, unpack3
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.value import Array, Linear, Sized

if TYPE_CHECKING:
    from typing_extensions import Self

#: Where entry (i, j) of a symmetric 6×6 matrix sits in its 21 packed numbers, row by row of the upper triangle.
SYMMETRIC6 = np.zeros((6, 6), dtype=np.intp)
_ROWS6, _COLUMNS6 = np.triu_indices(6)
# the upper triangle among the upper three rows of a 6×6 matrix, followed by the lower right block
_OF_BLOCKS = np.where(_ROWS6 < 3, 6 * _ROWS6 + _COLUMNS6, 3 * _ROWS6 + _COLUMNS6 + 6)
SYMMETRIC6[_ROWS6, _COLUMNS6] = SYMMETRIC6[_COLUMNS6, _ROWS6] = np.arange(21)


def spread(com: Array) -> Array:
    """c·c 1 − c cᵀ: inertia of unit point masses about the origin, (…, 3) to (…, 3, 3) [m²]. Free of cancellation."""
    x, y, z = com[..., 0], com[..., 1], com[..., 2]
    xx, yy, zz = x * x, y * y, z * z
    found = np.empty((*com.shape, 3), com.dtype)
    found[..., 0, 0], found[..., 1, 1], found[..., 2, 2] = yy + zz, xx + zz, xx + yy
    found[..., 0, 1] = found[..., 1, 0] = -x * y
    found[..., 0, 2] = found[..., 2, 0] = -x * z
    found[..., 1, 2] = found[..., 2, 1] = -y * z
    return found


class RigidInertia(Linear):
    """Inertia of a rigid body: mass [kg], first moment m·c [kg m], rotational inertia about the origin [kg m²]."""

    __slots__ = ()
    size = 10

    @classmethod
    def of(cls, mass: Any, com: Any, inertia_at_com: Any) -> RigidInertia:
        """From mass [kg], centre of mass [m] and 3×3 inertia about it [kg m²]."""
        com, inertia_at_com = np.asarray(com), np.asarray(inertia_at_com)
        return cls(stack(mass, mass * com, pack3(inertia_at_com + mass * spread(com))))

    @property
    def mass(self) -> Any:
        return self.data[0]

    @property
    def first_moment(self) -> Array:
        return self.data[1:4]

    @property
    def rotational(self) -> Array:
        return unpack3(self.data[4:])

    def __matmul__(self, motion: Motion) -> Force:
        w, v, h = motion.angular, motion.linear, self.first_moment
        return Force.of(self.rotational @ w + cross(h, v), self.mass * v - cross(h, w))

    def composite(self) -> RigidInertia:
        """This inertia itself: it can already represent that of several bodies."""
        return self

    def articulated(self) -> ArticulatedInertia:
        """The same inertia as an `ArticulatedInertia`."""
        mass = self.mass
        linear = np.array([[mass, 0.0, 0.0], [0.0, mass, 0.0], [0.0, 0.0, mass]])
        return ArticulatedInertia.of(self.rotational, skew(self.first_moment), linear)

    def matrix(self) -> Array:
        """The dense 6×6 inertia, for inspection."""
        return self.articulated().matrix()


class _Symmetric6(Linear):
    """A symmetric 6×6 matrix as the 21 numbers of its upper triangle."""

    __slots__ = ()
    size = 21

    @classmethod
    def from_matrix(cls, matrix: Array) -> Self:
        """From the upper triangle of a symmetric 6×6 matrix."""
        return cls(matrix[_ROWS6, _COLUMNS6])

    def matrix(self) -> Array:
        """The dense symmetric 6×6 matrix."""
        return self.data[SYMMETRIC6]


class ArticulatedInertia(_Symmetric6):
    """A symmetric 6×6 inertia [[angular, coupling], [couplingᵀ, linear]]."""

    __slots__ = ()

    @classmethod
    def of(cls, angular: Array, coupling: Array, linear: Array) -> ArticulatedInertia:
        """From its three 3×3 blocks, the diagonal ones symmetric."""
        upper = np.concatenate([angular, coupling], axis=1)
        return cls(np.concatenate([upper.reshape(-1), linear.reshape(-1)])[_OF_BLOCKS])

    @property
    def angular(self) -> Array:
        return self.data[SYMMETRIC6[:3, :3]]

    @property
    def coupling(self) -> Array:
        return self.data[SYMMETRIC6[:3, 3:]]

    @property
    def linear(self) -> Array:
        return self.data[SYMMETRIC6[3:, 3:]]

    def rigid(self) -> RigidInertia:
        """The same inertia in ten numbers, if it is that of a rigid body."""
        lever, mass = self.coupling, self.linear[0, 0]
        return RigidInertia(stack(mass, [lever[2, 1], lever[0, 2], lever[1, 0]], pack3(self.angular)))

    def __matmul__(self, motion: Motion) -> Force:
        return Force(self.matrix() @ motion.data)


class CoriolisInertia(Linear):
    """B(I, V) = ½ [(V ×*) I − I (V ×) + (I V) ×̄*]: twice the share of İ in the C of Ṁ = C + Cᵀ. 12 numbers.

    For a rigid inertia I = (m, h, J) and a motion V = (w, u) about the same point,

        B = [[ −ŵ (½ tr J − J) − ĥ û , 0 ],      b = m u + w × h
             [ −b̂                    , 0 ]]

    [JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", Eq. 2.8 (their M̂).
    The closed form printed in its Algorithm 1 has the sign of the upper left block wrong.
    """

    __slots__ = ()
    size = 12

    @classmethod
    def of(cls, inertia: RigidInertia, motion: Motion) -> CoriolisInertia:
        """For a body with the given inertia, moving with the given twist."""
        w, u, J, h = motion.angular, motion.linear, inertia.rotational, inertia.first_moment
        half_trace = 0.5 * (J[0, 0] + J[1, 1] + J[2, 2])
        complement = np.array([[half_trace - J[i, j] if i == j else -J[i, j] for j in range(3)] for i in range(3)])
        block = -(skew(w) @ complement) - skew(h) @ skew(u)
        return cls(stack(block, inertia.mass * u + cross(w, h)))

    @property
    def block(self) -> Array:
        return self.data[:9].reshape(3, 3)

    @property
    def lever(self) -> Array:
        return self.data[9:]

    def __matmul__(self, motion: Motion) -> Force:
        return Force.of(self.block @ motion.angular, -cross(self.lever, motion.angular))

    def angular_columns(self) -> Array:
        """The three non-zero columns, (6, 3): B m is their product with the angular part of m."""
        return np.concatenate([self.block, -skew(self.lever)])

    def transposed(self, motion: Motion) -> Force:
        """Bᵀ m."""
        return Force.of(self.block.T @ motion.angular + cross(self.lever, motion.linear), np.zeros(3))

    def articulated(self) -> ArticulatedCoriolis:
        """The same in 18 numbers, for what joints pass on."""
        return ArticulatedCoriolis(stack(self.block, -skew(self.lever)))

    def matrix(self) -> Array:
        """The dense 6×6 matrix."""
        return np.concatenate([self.angular_columns(), np.zeros((6, 3))], axis=1)


class ArticulatedCoriolis(Linear):
    """Forces per unit angular velocity, as B of bodies with joints between them: the 18 numbers of three columns."""

    __slots__ = ()
    size = 18

    @property
    def moments(self) -> Array:
        return self.data[:9].reshape(3, 3)

    @property
    def forces(self) -> Array:
        return self.data[9:].reshape(3, 3)

    def matrix(self) -> Array:
        """The three columns, (6, 3)."""
        return self.data.reshape(6, 3)


class Compliance(_Symmetric6):
    """A symmetric 6×6 inverse inertia: accelerations per unit of force."""

    __slots__ = ()

    def __matmul__(self, force: Force) -> Motion:
        return Motion(self.matrix() @ force.data)


class Triangular(Sized):
    """The n(n+1)/2 numbers of a symmetric or triangular matrix of order n."""

    __slots__ = names = ("order",)
    order: int

    @classmethod
    def size_of(cls, *_: int) -> int:
        (order,) = _
        return order * (order + 1) // 2


class Factor(Triangular):
    """D = L d Lᵀ with unit lower triangular L, stored as 1/d and the strict lower triangle.

    One division per row, no square roots, no pivoting: D is positive definite wherever forward dynamics exists.
    """

    __slots__ = ()

    @classmethod
    def of(cls, matrix: Array) -> Factor:
        """Factor a symmetric matrix; only its lower triangle is read."""
        order = len(matrix)
        lower: list[list[Any]] = [[None] * order for _ in range(order)]
        reciprocal: list[Any] = []
        for j in range(order):
            # w = L d of row j, so that each product L d Lᵀ costs one multiplication
            pivot, weighted = matrix[j, j], []
            for m in range(j):
                weighted.append(lower[j][m])
                lower[j][m] = lower[j][m] * reciprocal[m]
                pivot = pivot - weighted[m] * lower[j][m]
            reciprocal.append(1.0 / pivot)
            for i in range(j + 1, order):
                entry = matrix[i, j]
                for m in range(j):
                    entry = entry - lower[i][m] * lower[j][m]
                lower[i][j] = entry
        strict = [lower[i][j] for i in range(order) for j in range(i)]
        return cls(np.array(reciprocal + strict), order)

    @property
    def reciprocals(self) -> Array:
        """1/d; det D is the reciprocal of their product."""
        return self.data[: self.order]

    def _lower(self, i: int, j: int) -> Any:
        return self.data[self.order + i * (i - 1) // 2 + j]

    def forward(self, right: Array) -> list[Any]:
        """L⁻¹ b for a vector, or for every column of a matrix, row by row."""
        rows = [right[i] for i in range(self.order)]
        for i in range(self.order):
            for j in range(i):
                rows[i] = rows[i] - self._lower(i, j) * rows[j]
        return rows

    def solve(self, right: Array) -> Array:
        """D⁻¹ b for a vector, or for every column of a matrix."""
        rows = self.forward(right)
        rows = [row * self.data[i] for i, row in enumerate(rows)]
        for i in reversed(range(self.order)):
            for j in range(i + 1, self.order):
                rows[i] = rows[i] - self._lower(j, i) * rows[j]
        return np.array(rows)

    def product(self, right: Array) -> Array:
        """D b for a vector."""
        rows = [right[i] for i in range(self.order)]
        for i in range(self.order):
            for j in range(i + 1, self.order):
                rows[i] = rows[i] + self._lower(j, i) * rows[j]
        rows = [row / self.data[i] for i, row in enumerate(rows)]
        for i in reversed(range(self.order)):
            for j in range(i):
                rows[i] = rows[i] + self._lower(i, j) * rows[j]
        return np.array(rows)

    def inverse(self) -> Array:
        """D⁻¹, dense."""
        return self.solve(np.eye(self.order))

    def root_transposed(self, right: Array) -> Array:
        """√d Lᵀ b: the transpose of D^½ times a vector."""
        rows = [right[i] for i in range(self.order)]
        for i in range(self.order):
            for j in range(i + 1, self.order):
                rows[i] = rows[i] + self._lower(j, i) * rows[j]
        return np.array([row / sqrt(self.data[i]) for i, row in enumerate(rows)])

    def root_transposed_solve(self, right: Array) -> Array:
        """L⁻ᵀ b/√d."""
        rows = [right[i] * sqrt(self.data[i]) for i in range(self.order)]
        for i in reversed(range(self.order)):
            for j in range(i + 1, self.order):
                rows[i] = rows[i] - self._lower(j, i) * rows[j]
        return np.array(rows)

    def root_solve(self, right: Array) -> Array:
        """L⁻¹ b/√d."""
        return np.array([row * sqrt(self.data[i]) for i, row in enumerate(self.forward(right))])
