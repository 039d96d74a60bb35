"""Rotations (unit quaternions w, x, y, z, matrices, rotation vectors), three-vectors, and symmetric 3×3 matrices.

The first two functions and those of vectors and symmetric matrices are traced into kernels: they accept scalars of any
type and never branch. The others work on coordinates: they accept NumPy arrays with any leading axes. Quaternions need
not be normalised; a zero quaternion yields NaN. Kernels square the components, so there a norm outside 1e-144 … 1e154
yields NaN too, and in float32 one outside 1e-10 … 1e19.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from kinetree.spatial.reproducible import sincos
from kinetree.spatial.value import Array

# Below this squared angle, closed forms lose digits or divide by zero, while five-term series are exact to rounding.
_SMALL_SQUARE = 1e-2


def turn_about_z(E: Array, sin: Any, cos: Any) -> Array:
    """Coordinate transform to a frame rotated about its own z axis: mixes the first two rows of E, (3, 3)."""
    return np.array([E[0] * cos + E[1] * sin, E[1] * cos - E[0] * sin, E[2]])


def rotation_of_quaternion(q: Array) -> Array:
    """The matrix from rotated to original coordinates, (3, 3), for any non-zero q, (4,)."""
    return np.array(_rotation_entries(*q))


def _rotation_entries(w: Any, x: Any, y: Any, z: Any) -> list[list[Any]]:
    ww, xx, yy, zz = w * w, x * x, y * y, z * z
    one, other = ww + xx, yy + zz
    # If the squares overflow, the reciprocal is zero and the entries below are ∞·0. If they lose digits to underflow,
    # the reciprocal is infinite and the difference below NaN. Otherwise the powers of two are exact.
    reciprocal = 2.0**61 / (one + other)
    double = reciprocal * 2.0**-59 - reciprocal * 2.0**-60
    scale = 0.5 * double
    dx, dy, dz = x * double, y * double, z * double
    xy, xz, yz = x * dy, x * dz, y * dz
    wx, wy, wz = w * dx, w * dy, w * dz
    return [
        [(one - other) * scale, xy - wz, xz + wy],
        [xy + wz, ((ww + yy) - (xx + zz)) * scale, yz - wx],
        [xz - wy, yz + wx, ((ww + zz) - (xx + yy)) * scale],
    ]


def matrix_of(q: Array) -> Array:
    """Rotation matrices of non-zero quaternions of any norm: (…, 4) to (…, 3, 3)."""
    with np.errstate(all="ignore"):
        entries = _rotation_entries(*np.moveaxis(normalized(q), -1, 0))
    return np.stack([np.stack(row, axis=-1) for row in entries], axis=-2)


def multiply(a: Array, b: Array) -> Array:
    """Quaternion product a b: rotation by a, then by b about the rotated axes; (…, 4)."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q: Array) -> Array:
    """The inverse rotation of a unit quaternion, (…, 4)."""
    opposite: Array = q * np.array([1.0, -1.0, -1.0, -1.0])
    return opposite


def normalized(q: Array) -> Array:
    """Unit quaternions, (…, 4); a zero quaternion becomes NaN. Analytic, so that complex steps pass through."""
    if q.size == 4 and q.dtype == np.float64:
        w, x, y, z = q.ravel().tolist()
        largest = max(abs(w), abs(x), abs(y), abs(z))
        if 0.0 < largest < math.inf:  # the same operations without NumPy, for which four numbers are few
            w, x, y, z = w / largest, x / largest, y / largest, z / largest
            length = math.sqrt(w * w + x * x + y * y + z * z)
            alone: Array = np.array([w / length, x / length, y / length, z / length]).reshape(q.shape)
            return alone
    # scale by the largest entry first, so that squares neither overflow nor underflow
    with np.errstate(all="ignore"):
        q = q / np.max(np.abs(q), axis=-1, keepdims=True)
        unit: Array = q / np.sqrt(_square(q))
    return unit


def exp_quaternion(rotation_vector: Array) -> Array:
    """Unit quaternions of rotations by |r| radians about r: (…, 3) to (…, 4). Analytic."""
    square = _square(rotation_vector)
    angle, small = _angle(square)
    sin, cos = sincos(0.5 * angle)
    series = 0.5 - square / 48.0 * (1.0 - square / 80.0 * (1.0 - square / 168.0 * (1.0 - square / 288.0)))
    factor = np.where(small, series, sin / angle)
    cosine_series = 1.0 - square / 8.0 * (1.0 - square / 48.0 * (1.0 - square / 120.0 * (1.0 - square / 224.0)))
    cosine = np.where(small, cosine_series, cos)
    return np.concatenate([cosine, rotation_vector * factor], axis=-1)


def exp_matrix(rotation_vector: Array) -> Array:
    """Rotation matrices of rotations by |r| radians about r: (…, 3) to (…, 3, 3). Analytic."""
    return matrix_of(exp_quaternion(rotation_vector))


def quaternion_of(matrix: Array) -> Array:
    """Unit quaternions with w ≥ 0 of rotation matrices: (…, 3, 3) to (…, 4). Real input only."""
    m = np.asarray(matrix)
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    yz, zx, xy = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    sxy, sxz, syz = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    # 4 q qᵀ; its row with the largest diagonal entry is proportional to q without loss of digits
    rows = [
        [1.0 + xx + yy + zz, yz, zx, xy],
        [yz, 1.0 + xx - yy - zz, sxy, sxz],
        [zx, sxy, 1.0 - xx + yy - zz, syz],
        [xy, sxz, syz, 1.0 - xx - yy + zz],
    ]
    outer = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    best = np.argmax(np.diagonal(outer, axis1=-2, axis2=-1), axis=-1)
    q = normalized(np.take_along_axis(outer, best[..., None, None], axis=-2)[..., 0, :])
    return np.where(q[..., :1] < 0.0, -q, q)


def _square(x: Array) -> Array:
    """Sums of squares, in the order of the components, keeping the axis: (…, n) to (…, 1)."""
    total = x[..., :1] * x[..., :1]
    for i in range(1, x.shape[-1]):
        total = total + x[..., i : i + 1] * x[..., i : i + 1]
    result: Array = total
    return result


def _angle(square: Array) -> tuple[Array, Array]:
    """Square root of a squared angle, replaced by 1 where the angle is small, and a mask of those entries."""
    small = np.abs(square) < _SMALL_SQUARE
    return np.sqrt(np.where(small, 1.0, square)), small


def alignment(axis: Iterable[Any], side: Any = None) -> Array:
    """The smallest rotation whose z column is a unit `axis`, (3, 3). Exact along ±x, ±y and ±z.

    If z is negative, after half a turn about x, to avoid dividing by nearly zero: then `side` is −1, otherwise 1. If it
    is given, the axis may consist of scalars of any type.
    """
    x, y, z = map(float, axis) if side is None else axis
    side = (-1.0 if z < 0.0 else 1.0) if side is None else side
    x, y, z = side * x, side * y, side * z
    share = 1.0 / (1.0 + z)
    return np.array(
        [
            [1.0 - x * x * share, -side * x * y * share, side * x],
            [-x * y * share, side * (1.0 - y * y * share), side * y],
            [-x, -side * y, side * z],
        ]
    )


#: Where entry (i, j) of a symmetric 3×3 matrix sits in its six packed numbers xx, xy, xz, yy, yz, zz.
SYMMETRIC3 = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_ROWS3, _COLUMNS3 = np.triu_indices(3)


def cross(a: Array, b: Array) -> Array:
    """a × b."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


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
