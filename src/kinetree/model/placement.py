"""Poses as 4×4 matrices: validation of placements and axes, and alignment of axes with z."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.record import frozen
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

# A rotation with at least six correct digits is orthonormalised, others are rejected.
_ORTHONORMAL, _REFUSED = 1e-14, 1e-6
#: The pose of a frame in itself.
NOWHERE = frozen(np.eye(4), (4, 4))
_NOWHERE_NUMBERS = tuple(NOWHERE[:3].ravel().tolist())
_EXPECTED = "pass a 4×4 pose, a pair (R, p), or None"
_NOT_FINITE = "placement has NaN or infinite entries"


def pose(R: Array, p: Array) -> Array:
    """A 4×4 pose from a rotation matrix and a position."""
    matrix: Array = NOWHERE.copy()
    matrix[:3, :3], matrix[:3, 3] = R, p
    return matrix


def composed(at: Array, pose: Array) -> Array:
    """The product of two poses."""
    if at is NOWHERE:
        return pose
    return at if pose is NOWHERE else product(at, pose)


def inverse(pose: Array) -> Array:
    """The inverse of a pose."""
    (found,) = inverses(pose[None])
    return np.asarray(found)


def inverses(poses: Array) -> Array:
    """The inverse of each pose, (n, 4, 4)."""
    found = NOWHERE[None].repeat(len(poses), 0)
    R = found[:, :3, :3] = poses[:, :3, :3].transpose(0, 2, 1)
    found[:, :3, 3] = -apply(R, poses[:, :3, 3])
    return found


def transform_of(placement: Array) -> Transform:
    """The transform from the coordinates in which a pose is expressed to those of the frame it places."""
    return Transform.of(placement[:3, :3].T, placement[:3, 3])


def pose_of(transform: Transform) -> Array:
    """The 4×4 pose of a transform's target frame in its source frame."""
    return pose(transform.E.T, transform.r)


def checked_placement(placement: Any, owner: str) -> Array:
    """A 4×4 pose from None, a 4×4 array, or a pair (R, p). `owner` is named in errors."""
    return np.array((*pose_numbers(placement, owner), 0.0, 0.0, 0.0, 1.0)).reshape(4, 4)


def pose_numbers(placement: Any, owner: str) -> tuple[float, ...]:
    """The numbers of its first three rows."""
    if placement is None:
        return _NOWHERE_NUMBERS
    try:
        if isinstance(placement, (tuple, list)) and len(placement) == 2:
            R, p = placement
            R = np.asarray(R, dtype=float)
            position = three_floats(p) or np.asarray(p, dtype=float)
        else:
            matrix = np.asarray(placement, dtype=float)
            if matrix.shape != (4, 4):
                raise ModelError(f"{owner}: placement has shape {matrix.shape}; {_EXPECTED}")
            x, y, z, one = matrix[3].tolist()
            if abs(x) > _REFUSED or abs(y) > _REFUSED or abs(z) > _REFUSED or abs(one - 1.0) > _REFUSED:
                raise ModelError(f"{owner}: the last row of the placement must be 0 0 0 1, it is {matrix[3]}")
            R, position = matrix[:3, :3], matrix[:3, 3]
    except (TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{owner}: placement is not made of numbers; {_EXPECTED}") from None
    if isinstance(position, tuple):
        shape = (3,)
    else:
        shape, position = position.shape, position.tolist()
    if R.shape != (3, 3) or shape != (3,):
        raise ModelError(f"{owner}: placement has parts of shapes {R.shape} and {shape}, must be (3, 3) and (3,)")
    x, y, z = position
    try:
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            raise ModelError(_NOT_FINITE)
        a, b, c, d, e, f, g, h, i = _rotation(R.tobytes())
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from None
    return a, b, c, x, d, e, f, y, g, h, i, z


def three_floats(given: Any) -> tuple[float, float, float] | None:
    """Three finite floats as most people give them, in a tuple; None if they are given in any other way."""
    if type(given) is tuple and len(given) == 3:
        x, y, z = given
        if type(x) is float and type(y) is float and type(z) is float and math.isfinite(x + y + z):
            return given
    return None


@lru_cache(maxsize=1024)  # many bodies are turned alike
def _rotation(matrix: bytes) -> Sequence[float]:
    """The nine numbers of a rotation matrix, orthonormal to rounding."""
    R = np.frombuffer(matrix).reshape(3, 3)
    rows: list[list[float]] = R.tolist()
    if not all(map(math.isfinite, (*rows[0], *rows[1], *rows[2]))):
        raise ModelError(_NOT_FINITE)
    fault = _from_orthonormal(rows)
    if fault > _REFUSED:
        raise ModelError(
            f"the rotation of the placement is not orthonormal (RᵀR differs from 1 by {fault:.1e}); "
            "give it with more digits"
        )
    if _determinant(rows) < 0.0:
        raise ModelError("the rotation of the placement is a reflection (determinant −1); flip one axis")
    if fault > _ORTHONORMAL:
        rows = _nearest_rotation(R).tolist()
    return *rows[0], *rows[1], *rows[2]


def _from_orthonormal(rows: list[list[float]]) -> float:
    """How far RᵀR is from 1. Plain numbers: NumPy would take ten times as long for so few."""
    (a, b, c), (d, e, f), (g, h, i) = rows
    return max(
        abs(a * a + d * d + g * g - 1.0),
        abs(b * b + e * e + h * h - 1.0),
        abs(c * c + f * f + i * i - 1.0),
        abs(a * b + d * e + g * h),
        abs(a * c + d * f + g * i),
        abs(b * c + e * f + h * i),
    )


def _determinant(rows: list[list[float]]) -> float:
    (a, b, c), (d, e, f), (g, h, i) = rows
    return a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)


def checked_axis(axis: Any, owner: str) -> Array:
    """A unit vector along a given direction. `owner` is named in errors."""
    return np.array(direction(axis, owner))


def direction(axis: Any, owner: str) -> tuple[float, float, float]:
    """The numbers of `checked_axis`."""
    plain = three_floats(axis)
    if plain is None:
        try:
            vector = np.asarray(axis, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{owner}: axis {axis!r} is not made of numbers") from None
        if vector.shape != (3,):
            raise ModelError(f"{owner}: an axis has 3 numbers, got shape {vector.shape}")
        if not np.isfinite(vector).all():
            raise ModelError(f"{owner}: axis {vector} has NaN or infinite entries")
        plain = vector.tolist()
    x, y, z = plain
    largest = max(abs(x), abs(y), abs(z))
    if largest == 0.0:
        raise ModelError(f"{owner}: the axis is zero; give a direction, such as (0, 0, 1)")
    x, y, z = x / largest, y / largest, z / largest
    norm = math.sqrt(x * x + y * y + z * z)
    return x / norm, y / norm, z / norm


def _nearest_rotation(R: Array) -> Array:
    """The rotation nearest to a matrix that is orthonormal up to 1e-6, by Newton's iteration for the polar factor."""
    for _ in range(3):  # errors of 1e-12, then 1e-24, then rounding
        R = 0.5 * product(R, 3.0 * np.eye(3) - product(R.T, R))
    return R


def alignment(axis: Iterable[float]) -> Array:
    """The smallest rotation whose z column is a unit `axis`, (3, 3). Exact along ±x, ±y and ±z."""
    x, y, z = map(float, axis)
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
