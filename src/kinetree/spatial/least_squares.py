"""Least squares without branches, on scalars of any type."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.scalar import sqrt
from kinetree.spatial.value import Array


def least_squares(A: Array, B: Array) -> Array:
    """x with the least |A x − B|, (n, k), for A, (m, n), of full column rank and B, (m, k).

    Modified Gram–Schmidt on [A | B]: one root and one division per column. Backward stable for x, unlike the normal
    equations. If A loses rank, its pivot is zero or rounding, and x is not finite or large.
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
