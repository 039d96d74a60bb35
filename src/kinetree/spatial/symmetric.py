"""Small symmetric matrices as n(n+1)/2 numbers, and their factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.value import Array, Value


class Triangular(Value):
    """The n(n+1)/2 numbers of a symmetric or triangular matrix of order n."""

    __slots__ = ("order",)

    def __init__(self, data: Any, order: int) -> None:
        data = np.asarray(data).view()
        if data.shape != (self.size_of(order),):
            raise ValueError(
                f"a {type(self).__name__} of order {order} takes {self.size_of(order)} numbers, got {data.shape}"
            )
        data.flags.writeable = False
        self.data, self.order = data, order

    @property
    def parameters(self) -> tuple[int, ...]:
        return (self.order,)

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
