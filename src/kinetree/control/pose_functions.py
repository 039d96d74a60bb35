"""Poses and the twists between them: exponential and logarithm of SE(3), errors, interpolation.

A pose is a 4×4 matrix from a frame's coordinates to the world's. A twist is six numbers, angular part first; moving
with it for unit time is a screw motion. Functions are exact to rounding for all angles, including tiny ones and those
near π, and take any leading axes; a sample with NaN gives NaN and affects no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.poses import INTERPOLATIONS, POSE_ERRORS, exponential, inverse_pose, logarithm, pose_fault
from kinetree.runtime.arguments import refuse_lazy
from kinetree.runtime.function import compiled
from kinetree.spatial.value import Array

#: Values of `pose_error(reference=…)`.
REFERENCES = tuple(POSE_ERRORS)

#: Values of `interpolate(along=…)`.
WAYS = tuple(INTERPOLATIONS)

# Tolerance on RᵀR of a rotation matrix: six digits are enough. Smaller faults are not looked at any closer.
_REFUSED = 1e-6
_UNSUSPECTED = 0.99 * _REFUSED
_FLOAT64 = np.dtype(np.float64)
_POSE, _TWIST = (4, 4), (6,)


def exp(twist: Any) -> Array:
    """Pose reached from the origin after unit time at a constant body twist: (…, 6) [rad, m] to (…, 4, 4).

    Args:
        twist: Rotation vector (axis times angle), then the velocity of the moving frame's origin; both in the moving
            frame's axes.
    """
    if type(twist) is not ndarray or twist.shape != _TWIST or twist.dtype is not _FLOAT64:
        twist = _array("twist", twist, _TWIST)
    found: Array = _EXP(twist)
    return found


def log(pose: Any) -> Array:
    """The body twist that leads from the origin to a pose in unit time: (…, 4, 4) to (…, 6) [rad, m].

    The inverse of `exp` for angles below π. At π there are two such twists, and one of them is returned.

    Raises:
        InputError: If a matrix is not a pose.
    """
    if type(pose) is not ndarray or pose.shape != _POSE or pose.dtype is not _FLOAT64:
        pose = _array("pose", pose, _POSE)
    found, fault = _LOG(pose)
    return _unless(fault, found, ("pose",), (pose,))


def inverse(pose: Any) -> Array:
    """The pose of the world in a frame: (…, 4, 4) to (…, 4, 4).

    Raises:
        InputError: If a matrix is not a pose.
    """
    T = _array("pose", pose, _POSE)
    found, fault = _INVERSE(T)
    return _unless(fault, found, ("pose",), (T,))


def pose_error(pose: Any, target: Any, reference: str = "local") -> Array:
    """The twist that leads from a pose to a target in unit time: (…, 4, 4) twice to (…, 6) [rad, m].

    It is in the coordinates of `robot.jacobian(q, frame, reference)`: close to the target, a joint motion δq reduces it
    by J δq.

    Args:
        pose: Current pose of the frame.
        target: Desired pose.
        reference: "local", as for `jacobian`: the screw motion in the frame's axes, log(pose⁻¹ target). "world": the
            same screw motion in the world's frame, log(target pose⁻¹). "local_world_aligned": rotation vector in world
            axes, then the displacement of the origin, `p_target − p`.

    Raises:
        InputError: If a matrix is not a pose, or leading axes do not broadcast.
    """
    if reference not in REFERENCES:
        raise UnknownNameError("reference", reference, REFERENCES)
    start, end = _array("pose", pose, _POSE), _array("target", target, _POSE)
    if start.shape != end.shape:
        _require_broadcast(pose=start, target=end)
    found, fault = _ERRORS[reference](start, end)
    return _unless(fault, found, ("pose", "target"), (start, end))


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
    first, last, given = _array("start", start, _POSE), _array("end", end, _POSE), _array("share", share, ())
    if first.shape != last.shape:
        _require_broadcast(start=first, end=last)
    try:
        found, fault = _BETWEEN[along](first, last, given)
    except InputError:
        batch = np.broadcast_shapes(first.shape[:-2], last.shape[:-2])
        raise InputError(f"leading axes do not broadcast: poses {batch}, share {given.shape}") from None
    return _unless(fault, found, ("start", "end"), (first, last))


# -- kernels, and checks -----------------------------------------------------------------------------------------------


_EXP, _LOG, _INVERSE, _FAULT = (compiled(each) for each in (exponential, logarithm, inverse_pose, pose_fault))
_ERRORS = {reference: compiled(each) for reference, each in POSE_ERRORS.items()}
_BETWEEN = {way: compiled(each) for way, each in INTERPOLATIONS.items()}


def _array(name: str, values: Any, trailing: tuple[int, ...]) -> Array:
    if type(values) is ndarray and values.dtype is _FLOAT64 and values.shape == trailing:
        return values
    rank, array = len(trailing), real_numbers(name, values)
    if rank and array.shape[-rank:] != trailing:
        wanted = ", ".join(map(str, ("…", *trailing)))
        raise InputError(f"{name} has shape {array.shape}; pass ({wanted})")
    return array


def real_numbers(name: str, values: Any) -> Array:
    """Real numbers as an array of float64."""
    refuse_lazy(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is not a rectangular array of numbers") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} has dtype {array.dtype}; pass real numbers")
    return array.astype(np.float64, copy=False)


def checked_poses(name: str, values: Any) -> Array:
    """Validated poses; samples with NaN or infinity pass, and give NaN."""
    T = _array(name, values, _POSE)
    return _unless(_FAULT(T), T, (name,), (T,))


def require_target_shape(name: str, target: Array) -> None:
    """Refuse what is neither poses (…, 4, 4) nor positions (…, 3); a rotation matrix is no batch of three positions.

    Raises:
        InputError: It is something else.
    """
    if target.shape[-2:] != (4, 4) and target.shape[-1:] != (3,):
        raise InputError(f"{name} has shape {target.shape}; pass poses (…, 4, 4) or positions (…, 3)")
    if target.shape[-2:] == (3, 3) and target.size:
        with np.errstate(all="ignore"):
            away = np.abs(np.swapaxes(target, -1, -2) @ target - np.eye(3))
        if (away < _REFUSED).all():
            raise InputError(f"{name} is a rotation matrix; pass a pose (…, 4, 4), which has a position as well")


def _unless(fault: Array, result: Array, names: tuple[str, ...], poses: tuple[Array, ...]) -> Array:
    """The result, unless a matrix that it was computed from is no pose."""
    if np.any(fault > _UNSUSPECTED) if fault.ndim else fault.item() > _UNSUSPECTED:
        for name, T in zip(names, poses, strict=True):
            _require_poses(name, T)
    return result


def _require_poses(name: str, T: Array) -> None:
    """Raise if some matrix is no pose, and say why."""
    R = T[..., :3, :3]
    with np.errstate(all="ignore"):
        fault = np.max(np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)), axis=(-1, -2))
        mirrored = np.linalg.det(R) < 0.0
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


def _require_broadcast(**poses: Array) -> None:
    try:
        np.broadcast_shapes(*(T.shape[:-2] for T in poses.values()))
    except ValueError:
        told = ", ".join(f"{name} {T.shape[:-2]}" for name, T in poses.items())
        raise InputError(f"leading axes do not broadcast: {told}") from None
