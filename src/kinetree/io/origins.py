"""Poses and axes of files, in plain numbers: NumPy takes several times as long for few.

The readers of URDF and SDF share them. Angles that stand for quarter turns, as 1.57079632679 stands for π/2 as far as
its digits go, are replaced by these on request.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

import numpy as np

from kinetree.io.document import Document, Element
from kinetree.io.source import clipped
from kinetree.model.specs import HERE, Pose
from kinetree.spatial.reproducible import sincos_of_one
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.scalar import LARGEST_ANGLE

#: The rows of a rotation, one after the other.
Rotation = tuple[float, ...]
UNTURNED: Rotation = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

_ZERO: tuple[float, ...] = (0.0, 0.0, 0.0)
_X: tuple[float, ...] = (1.0, 0.0, 0.0)
#: Angles are changed by no more than this, however few digits they have [rad].
_MOST_SNAPPED = 1e-6

_log = logging.getLogger("kinetree")


def origin(document: Document, element: Element | None) -> Pose:
    """The pose of an <origin>."""
    if element is None:
        return HERE
    document.known(element)
    p, rpy = document.vector(element, "xyz", _ZERO), element.get("rpy")
    if element.get("quat_xyzw") is not None:
        if rpy is not None:
            raise document.error(element, "<origin> has rpy= and quat_xyzw=; delete one")
        x, y, z, w = document.vector(element, "quat_xyzw", (0.0, 0.0, 0.0, 1.0))
        if not any((x, y, z, w)):
            raise document.error(element, "quat_xyzw= of <origin> is zero; write 0 0 0 1 for no rotation")
        return pose_at(quaternion_rotation(w, x, y, z), p)
    angles = document.vector(element, "rpy", _ZERO)
    return pose_at(angles_rotation(document, element, rpy, angles) if any(angles) else UNTURNED, p)


def unit_axis(document: Document, element: Element | None, joint: str) -> tuple[float, ...]:
    """The unit axis of a joint; x if the file has none."""
    if element is None:
        return _X
    document.known(element)
    axis = document.vector(element, "xyz", _X)
    if not any(axis):
        raise document.error(element, f"the axis of joint {clipped(joint)} is zero; give a direction, such as 0 0 1")
    return _unit(*axis)


@lru_cache(maxsize=4096)  # most are those of coordinates
def _unit(*x: float) -> tuple[float, ...]:
    """A nonzero vector, normalised."""
    scale = max(map(abs, x))
    scaled = [part / scale for part in x]
    size = math.sqrt(sum(part * part for part in scaled))
    return tuple(part / size for part in scaled)


# -- rotations --------------------------------------------------------------------------------------------------------


def angles_rotation(document: Document, element: Element, written: str, angles: Sequence[float]) -> Rotation:
    """`rotation`, for angles from a file: the last three words of what is written, and the same as numbers."""
    if max(map(abs, angles)) > LARGEST_ANGLE:
        raise document.error(element, "an angle is too large to be meaningful; write one between −π and π")
    if document.snap_angles:
        words = written.split()[-3:]
        angles = [_snapped(document, word, angle) for word, angle in zip(words, angles, strict=True)]
    return rotation(*angles)


@lru_cache(maxsize=4096)  # most angles in files are multiples of a quarter turn
def rotation(roll: float, pitch: float, yaw: float) -> Rotation:
    """Rotations about the fixed x, y and z axes, in this order."""
    (sr, cr), (sp, cp), (sy, cy) = sincos_of_one(roll), sincos_of_one(pitch), sincos_of_one(yaw)
    return (
        cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr,
        sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr,
        -sp, cp * sr, cp * cr,
    )  # fmt: skip


def quaternion_rotation(w: float, x: float, y: float, z: float) -> Rotation:
    """The rotation of a quaternion of any nonzero length."""
    return tuple(matrix_of(np.array([w, x, y, z])).ravel().tolist())


def _snapped(document: Document, word: str, angle: float) -> float:
    """An angle, or the quarter turn that it is, rounded to the digits of the file."""
    quarter = round(angle / (math.pi / 2.0)) * (math.pi / 2.0)
    change = abs(angle - quarter)
    if change == 0.0 or change > _MOST_SNAPPED:
        return angle
    # exactly, since the last digit may be beyond those of a float
    unit = Decimal(1).scaleb(int(Decimal(word).as_tuple().exponent))
    if change > unit / 2:
        return angle
    document.snapped.append(change)
    return quarter


def report_snapped(document: Document) -> None:
    """Log how many angles of a file were changed, and by how much."""
    if document.snapped:
        count, most = len(document.snapped), max(document.snapped)
        _log.info("%s: %d angles replaced by quarter turns, changed by up to %.1e rad", document.file, count, most)


# -- algebra, summed from the first term to the last -------------------------------------------------------------------


def pose_at(R: Rotation, p: Sequence[float]) -> Pose:
    """The pose with a rotation and a position."""
    a, b, c, d, e, f, g, h, i = R
    x, y, z = p
    return a, b, c, x, d, e, f, y, g, h, i, z


def composed(first: Pose, second: Pose) -> Pose:
    """The product of two poses."""
    if first is HERE:
        return second
    if second is HERE:
        return first
    a, b, c, x, d, e, f, y, g, h, i, z = first
    j, k, m, u, n, o, p, v, q, r, s, w = second
    return (
        a * j + b * n + c * q, a * k + b * o + c * r, a * m + b * p + c * s, a * u + b * v + c * w + x,
        d * j + e * n + f * q, d * k + e * o + f * r, d * m + e * p + f * s, d * u + e * v + f * w + y,
        g * j + h * n + i * q, g * k + h * o + i * r, g * m + h * p + i * s, g * u + h * v + i * w + z,
    )  # fmt: skip


def inverted(pose: Pose) -> Pose:
    """The inverse of a pose."""
    if pose is HERE:
        return pose
    a, b, c, x, d, e, f, y, g, h, i, z = pose
    return (
        a, d, g, -(a * x + d * y + g * z),
        b, e, h, -(b * x + e * y + h * z),
        c, f, i, -(c * x + f * y + i * z),
    )  # fmt: skip


def turned(pose: Pose, direction: Sequence[float]) -> tuple[float, float, float]:
    """A direction given in a frame, in the axes in which the frame's pose is expressed."""
    a, b, c, _, d, e, f, _, g, h, i, _ = pose
    x, y, z = direction
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z


def turned_inertia(pose: Pose, inertia: Sequence[float]) -> tuple[float, ...]:
    """The same for an inertia, nine numbers: R I Rᵀ."""
    a, b, c, _, d, e, f, _, g, h, i, _ = pose
    if (a, b, c, d, e, f, g, h, i) == UNTURNED:
        return tuple(inertia)
    columns = [turned(pose, inertia[i::3]) for i in range(3)]  # of R I
    return tuple(number for row in zip(*columns, strict=True) for number in turned(pose, row))
