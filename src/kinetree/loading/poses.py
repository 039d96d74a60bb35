"""Placements and axes of URDF files; SDF files share the rotations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from kinetree.loading.angles import snapped
from kinetree.loading.description import Placement, Rotation
from kinetree.loading.document import Document, Element
from kinetree.loading.source import clipped
from kinetree.spatial.fixed import sincos_of_one
from kinetree.spatial.scalar import LARGEST_ANGLE

#: The first three rows of a pose, one after the other: plain numbers, since NumPy takes several times as long for few.
Pose = tuple[float, ...]
HERE: Pose = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)

_UNTURNED: Rotation = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_ZERO: tuple[float, ...] = (0.0, 0.0, 0.0)
_X: tuple[float, ...] = (1.0, 0.0, 0.0)


def origin(document: Document, element: Element | None) -> Placement:
    """The placement of an <origin>."""
    if element is None:
        return None, _ZERO
    document.known(element)
    p, rpy = document.vector(element, "xyz", _ZERO), element.get("rpy")
    if element.get("quat_xyzw") is not None:
        if rpy is not None:
            raise document.error(element, "<origin> has rpy= and quat_xyzw=; delete one")
        return _quaternion_rotation(document, element), p
    angles = document.vector(element, "rpy", _ZERO)
    return angles_rotation(document, element, rpy or "", angles) if any(angles) else None, p


def angles_rotation(document: Document, element: Element, written: str, angles: Sequence[float]) -> Rotation:
    """`rotation`, for angles from a file: the last three words of what is written, and the same as numbers."""
    if max(map(abs, angles)) > LARGEST_ANGLE:
        raise document.error(element, "an angle is too large to be meaningful; write one between −π and π")
    return rotation(*(snapped(document, written.split()[-3:], angles) if document.snap_angles else angles))


@lru_cache(maxsize=4096)  # most angles in files are multiples of a quarter turn
def rotation(roll: float, pitch: float, yaw: float) -> Rotation:
    """Rotations about the fixed x, y and z axes, in this order."""
    (sr, cr), (sp, cp), (sy, cy) = sincos_of_one(roll), sincos_of_one(pitch), sincos_of_one(yaw)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def _quaternion_rotation(document: Document, element: Element) -> Rotation:
    x, y, z, w = document.vector(element, "quat_xyzw", (0.0, 0.0, 0.0, 1.0))
    if not any((x, y, z, w)):
        raise document.error(element, "quat_xyzw= of <origin> is zero; write 0 0 0 1 for no rotation")
    return rotation_of_quaternion(x, y, z, w)


def rotation_of_quaternion(x: float, y: float, z: float, w: float) -> Rotation:
    """The rotation of a quaternion of any nonzero length."""
    x, y, z, w = _unit(x, y, z, w)
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


def pose_at(R: Rotation | None, p: Sequence[float]) -> Pose:
    """The pose with a rotation, or None, and a position."""
    (a, b, c), (d, e, f), (g, h, i) = R or _UNTURNED
    x, y, z = p
    return a, b, c, x, d, e, f, y, g, h, i, z


def placement_at(pose: Pose) -> Placement:
    """The rotation and the position of a pose."""
    a, b, c, x, d, e, f, y, g, h, i, z = pose
    return ((a, b, c), (d, e, f), (g, h, i)), (x, y, z)


def composed(first: Pose, second: Pose) -> Pose:
    """The product of two poses, summed from the first term to the last."""
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
