"""Poses and the twists between them: exponential and logarithm of SE(3), errors, interpolation.

A pose is a 4×4 matrix from a frame's coordinates to the world's. A twist is six numbers, angular part first; moving
with it for unit time is a screw motion. Functions are exact to rounding for all angles, including tiny ones and those
near π, and take any leading axes; a sample with NaN gives NaN and affects no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.engines.arguments import refuse_lazy
from kinetree.errors import InputError, UnknownNameError
from kinetree.spatial.rotation import exp_matrix, log_matrix, screw_displacement, screw_velocity
from kinetree.spatial.value import Array

#: Values of `pose_error(reference=…)`.
REFERENCES = ("local", "local_world_aligned", "world")

#: Values of `interpolate(along=…)`.
WAYS = ("line", "screw")

# Tolerance on RᵀR of a rotation matrix: six digits are enough.
_REFUSED = 1e-6


def exp(twist: Any) -> Array:
    """Pose reached from the origin after unit time at a constant body twist: (…, 6) [rad, m] to (…, 4, 4).

    Args:
        twist: Rotation vector (axis times angle), then the velocity of the moving frame's origin; both in the moving
            frame's axes.
    """
    u = _array("twist", twist, (6,))
    with np.errstate(all="ignore"):
        return _pose(exp_matrix(u[..., :3]), screw_displacement(u[..., :3], u[..., 3:]))


def log(pose: Any) -> Array:
    """The body twist that leads from the origin to a pose in unit time: (…, 4, 4) to (…, 6) [rad, m].

    The inverse of `exp` for angles below π. At π there are two such twists, and one of them is returned.

    Raises:
        InputError: If a matrix is not a pose.
    """
    T = checked_poses("pose", pose)
    with np.errstate(all="ignore"):
        angular = log_matrix(T[..., :3, :3])
        return np.concatenate([angular, screw_velocity(angular, T[..., :3, 3])], axis=-1)


def inverse(pose: Any) -> Array:
    """The pose of the world in a frame: (…, 4, 4) to (…, 4, 4).

    Raises:
        InputError: If a matrix is not a pose.
    """
    T = checked_poses("pose", pose)
    R = np.swapaxes(T[..., :3, :3], -1, -2)
    return _pose(R, -_turned(R, T[..., :3, 3]))


def pose_error(pose: Any, target: Any, reference: str = "local_world_aligned") -> Array:
    """The twist that leads from a pose to a target in unit time: (…, 4, 4) twice to (…, 6) [rad, m].

    It is in the coordinates of `robot.jacobian(q, frame, reference)`: close to the target, a joint motion δq reduces it
    by J δq.

    Args:
        pose: Current pose of the frame.
        target: Desired pose.
        reference: "local_world_aligned": rotation vector in world axes, then the displacement of the origin,
            `p_target − p`. "local": the screw motion in the frame's axes, log(pose⁻¹ target). "world": the same screw
            motion in the world's frame, log(target pose⁻¹).

    Raises:
        InputError: If a matrix is not a pose, or leading axes do not broadcast.
    """
    if reference not in REFERENCES:
        raise UnknownNameError("reference", reference, REFERENCES)
    start, end = _broadcast(pose=checked_poses("pose", pose), target=checked_poses("target", target))
    R, p = start[..., :3, :3], start[..., :3, 3]
    back = np.swapaxes(R, -1, -2)
    with np.errstate(all="ignore"):
        turn = log_matrix(_product(back, end[..., :3, :3]))  # in the frame's axes
        way = end[..., :3, 3] - p
        if reference == "local_world_aligned":
            return np.concatenate([_turned(R, turn), way], axis=-1)
        linear = screw_velocity(turn, _turned(back, way))
        if reference == "local":
            return np.concatenate([turn, linear], axis=-1)
        angular = _turned(R, turn)
        return np.concatenate([angular, _turned(R, linear) + _cross(p, angular)], axis=-1)


def interpolate(start: Any, end: Any, share: Any, along: str = "line") -> Array:
    """Poses between two, turning about one axis at a constant rate: (…, 4, 4).

    Args:
        start: Pose at share 0, (…, 4, 4).
        end: Pose at share 1, (…, 4, 4).
        share: (…); outside [0, 1] the motion is extrapolated.
        along: "line": the origin moves in a straight line. "screw": it follows the screw motion of `log`.

    Raises:
        InputError: If a matrix is not a pose, or leading axes do not broadcast.
    """
    if along not in WAYS:
        raise UnknownNameError("way", along, WAYS)
    first, last = checked_poses("start", start), checked_poses("end", end)
    given = _array("share", share, ())
    first, last = _broadcast(start=first, end=last)
    try:
        batch = np.broadcast_shapes(first.shape[:-2], given.shape)
    except ValueError:
        raise InputError(f"leading axes do not broadcast: poses {first.shape[:-2]}, share {given.shape}") from None
    first, last = (np.broadcast_to(T, (*batch, 4, 4)) for T in (first, last))
    s = np.broadcast_to(given, batch)[..., None]
    R, p = first[..., :3, :3], first[..., :3, 3]
    back = np.swapaxes(R, -1, -2)
    way = last[..., :3, 3] - p
    with np.errstate(all="ignore"):
        turn = log_matrix(_product(back, last[..., :3, :3]))
        between = _product(R, exp_matrix(s * turn))
        if along == "line":
            moved = p + s * way
        else:
            linear = screw_velocity(turn, _turned(back, way))
            moved = p + _turned(R, screw_displacement(s * turn, s * linear))
    # the ends are those that were given, to the last bit
    result = np.where((s == 0.0)[..., None], first, _pose(between, moved))
    return np.where((s == 1.0)[..., None], last, result)


# -- checks, and batch-independent products ----------------------------------------------------------------------------


def _array(name: str, values: Any, trailing: tuple[int, ...]) -> Array:
    refuse_lazy(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is not a rectangular array of numbers") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} has dtype {array.dtype}; pass real numbers")
    if trailing and array.shape[-len(trailing) :] != trailing:
        wanted = ", ".join(map(str, ("…", *trailing)))
        raise InputError(f"{name} has shape {array.shape}; pass ({wanted})")
    return array.astype(np.float64, copy=False)


def checked_poses(name: str, values: Any) -> Array:
    """Validated poses; samples with NaN or infinity pass, and give NaN."""
    T = _array(name, values, (4, 4))
    R = T[..., :3, :3]
    with np.errstate(all="ignore"):
        fault = np.max(np.abs(_product(np.swapaxes(R, -1, -2), R) - np.eye(3)), axis=(-1, -2))
        mirrored = np.sum(_cross(R[..., 0], R[..., 1]) * R[..., 2], axis=-1) < 0.0
        row = np.max(np.abs(T[..., 3, :] - [0.0, 0.0, 0.0, 1.0]), axis=-1)
    for bad, problem in (
        (fault > _REFUSED, "is no rotation: its columns are not orthonormal"),
        (mirrored, "is a reflection; flip one axis"),
        (row > _REFUSED, "has a last row other than 0 0 0 1"),
    ):
        if bad.any():
            sample = tuple(int(i) for i in np.argwhere(bad)[0])
            where = f" of sample {sample[0] if len(sample) == 1 else sample}" if sample else ""
            raise InputError(f"{name}{where} {problem}")
    return T


def _broadcast(**poses: Array) -> list[Array]:
    try:
        batch = np.broadcast_shapes(*(T.shape[:-2] for T in poses.values()))
    except ValueError:
        told = ", ".join(f"{name} {T.shape[:-2]}" for name, T in poses.items())
        raise InputError(f"leading axes do not broadcast: {told}") from None
    return [np.broadcast_to(T, (*batch, 4, 4)) for T in poses.values()]


def _pose(R: Array, p: Array) -> Array:
    T = np.zeros((*p.shape[:-1], 4, 4))
    T[..., :3, :3], T[..., :3, 3], T[..., 3, 3] = R, p, 1.0
    return T


def _product(a: Array, b: Array) -> Array:
    """Products of 3×3 matrices, term by term: the summation order of a BLAS may depend on the batch."""
    first, second, third = (a[..., :, i, None] * b[..., None, i, :] for i in range(3))
    product: Array = first + second + third
    return product


def _turned(R: Array, x: Array) -> Array:
    first, second, third = (R[..., :, i] * x[..., None, i] for i in range(3))
    turned: Array = first + second + third
    return turned


def _cross(a: Array, b: Array) -> Array:
    (ax, ay, az), (bx, by, bz) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)
