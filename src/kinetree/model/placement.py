"""Poses as 4×4 matrices: validation of placements and axes, and alignment of axes with z."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.spatial.fixed import length, product
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

# A rotation given with six digits is orthonormalised, one with fewer is refused.
_ORTHONORMAL, _REFUSED = 1e-14, 1e-6
_EXPECTED = "give a 4×4 pose, a pair (R, p), or None"


def pose(R: Array, p: Array) -> Array:
    """A 4×4 pose from a rotation matrix and a position."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = R, p
    return matrix


def transform_of(placement: Array) -> Transform:
    """The transform from the coordinates in which a pose is expressed to those of the frame it places."""
    return Transform.of(placement[:3, :3].T, placement[:3, 3])


def pose_of(transform: Transform) -> Array:
    """The 4×4 pose of a transform's target frame in its source frame."""
    return pose(transform.E.T, transform.r)


def checked_placement(placement: Any, owner: str) -> Array:
    """A 4×4 pose from None, a 4×4 array, or a pair (R, p). `owner` is named in errors."""
    if placement is None:
        return np.eye(4)
    try:
        if isinstance(placement, (tuple, list)) and len(placement) == 2:
            R, p = (np.asarray(part, dtype=float) for part in placement)
        else:
            matrix = np.asarray(placement, dtype=float)
            if matrix.shape != (4, 4):
                raise ModelError(f"{owner}: placement has shape {matrix.shape}; {_EXPECTED}")
            if np.any(np.abs(matrix[3] - [0.0, 0.0, 0.0, 1.0]) > _REFUSED):
                raise ModelError(f"{owner}: the last row of the placement must be 0 0 0 1, it is {matrix[3]}")
            R, p = matrix[:3, :3], matrix[:3, 3]
    except (TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{owner}: placement is not made of numbers; {_EXPECTED}") from None
    if R.shape != (3, 3) or p.shape != (3,):
        raise ModelError(f"{owner}: placement has parts of shapes {R.shape} and {p.shape}, must be (3, 3) and (3,)")
    if not (np.isfinite(R).all() and np.isfinite(p).all()):
        raise ModelError(f"{owner}: placement has NaN or infinite entries")
    fault = float(np.max(np.abs(product(R.T, R) - np.eye(3))))
    if fault > _REFUSED:
        raise ModelError(
            f"{owner}: the rotation of the placement is not orthonormal (RᵀR differs from 1 by {fault:.1e}); "
            "give it with more digits"
        )
    if np.linalg.det(R) < 0.0:
        raise ModelError(f"{owner}: the rotation of the placement is a reflection (determinant −1); flip one axis")
    if fault > _ORTHONORMAL:
        R = _nearest_rotation(R)
    return pose(R, p)


def checked_axis(axis: Any, owner: str) -> Array:
    """A unit vector along a given direction. `owner` is named in errors."""
    try:
        vector = np.asarray(axis, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{owner}: axis {axis!r} is not made of numbers") from None
    if vector.shape != (3,):
        raise ModelError(f"{owner}: an axis has 3 numbers, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ModelError(f"{owner}: axis {vector} has NaN or infinite entries")
    if not vector.any():
        raise ModelError(f"{owner}: the axis is zero; give a direction, such as (0, 0, 1)")
    vector = vector / np.max(np.abs(vector))
    unit: Array = vector / length(vector)
    return unit


def _nearest_rotation(R: Array) -> Array:
    """The rotation nearest to a matrix that is orthonormal up to 1e-6, by Newton's iteration for the polar factor."""
    for _ in range(3):  # errors of 1e-12, then 1e-24, then rounding
        R = 0.5 * product(R, 3.0 * np.eye(3) - product(R.T, R))
    return R


def alignment(axis: Array) -> Array:
    """The smallest rotation whose z column is a unit `axis`, (3, 3). Exact along ±x, ±y and ±z."""
    x, y, z = (float(part) for part in axis)
    # if z is negative, half a turn about x first, to avoid dividing by nearly zero
    side = -1.0 if z < 0.0 else 1.0
    x, y, z = side * x, side * y, side * z
    share = 1.0 / (1.0 + z)
    return np.array(
        [
            [1.0 - x * x * share, -side * x * y * share, side * x],
            [-x * y * share, side * (1.0 - y * y * share), side * y],
            [-x, -side * y, side * z],
        ]
    )
