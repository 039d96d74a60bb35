"""Three-vectors and symmetric 3×3 matrices on arrays of any scalar type."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.value import Array

#: Where entry (i, j) of a symmetric 3×3 matrix sits in its six packed numbers xx, xy, xz, yy, yz, zz.
SYMMETRIC3 = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_ROWS3, _COLUMNS3 = np.triu_indices(3)


def cross(a: Array, b: Array) -> Array:
    """a × b."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def sum_with_error(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum a + b and its rounding error, which add up to the exact sum. Knuth's TwoSum."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def skew(r: Array) -> Array:
    """The matrix r× with (r×) b = r × b."""
    zero = 0.0
    return np.array([[zero, -r[2], r[1]], [r[2], zero, -r[0]], [-r[1], r[0], zero]])


def pack3(matrix: Array) -> Array:
    """The upper triangle of a symmetric 3×3 matrix as six numbers."""
    return matrix[_ROWS3, _COLUMNS3]


def unpack3(packed: Array) -> Array:
    """The symmetric 3×3 matrix with this packed upper triangle."""
    matrix: Array = packed[SYMMETRIC3]
    return matrix


def rotate_symmetric(rotation: Array, matrix: Array) -> Array:
    """Eᵀ S E for symmetric S, computing the upper triangle only; 6 packed numbers."""
    half = matrix @ rotation
    return np.array([rotation[:, i] @ half[:, j] for i, j in zip(_ROWS3, _COLUMNS3, strict=True)])


def symmetric_product(left: Array, right: Array) -> Array:
    """Upper triangle of a matrix product; 6 packed numbers."""
    return np.array([left[i] @ right[:, j] for i, j in zip(_ROWS3, _COLUMNS3, strict=True)])


def stack(*parts: Any) -> Array:
    """Concatenate arrays into a single flat one."""
    return np.concatenate([np.asarray(part).reshape(-1) for part in parts])
