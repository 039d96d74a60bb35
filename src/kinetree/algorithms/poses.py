"""Poses and the twists between them: exponential and logarithm of SE(3), errors, interpolation. No tree is involved.

Exact to rounding for all angles: the quaternion of a rotation matrix R comes from the row of

    4 q qᵀ = [1 + tr R, …; …]        with the largest entry on the diagonal,

and angles near zero and π from its arctangent. Results come with a fault: how far matrices are from poses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.choices import larger, largest
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.rotation import rotation_of_quaternion
from kinetree.spatial.scalar import magnitude, select
from kinetree.spatial.screw import Angle, cross, displacement, dot, linear_velocity, turn_between
from kinetree.spatial.value import Array

#: The fault of a reflection.
REFLECTION = 2.0


@algorithm(twist=(6,), pose=(4, 4), outputs=("pose",))
def exponential(_tree: Tree, twist: Indexed, pose: Indexed) -> None:
    """The pose after unit time at a constant body twist.

    Args:
        _tree: Not needed.
        twist: Angular part first, (6,).
        pose: (4, 4).
    """
    w, v = twist[...][:3], twist[...][3:]
    pose[...] = _pose(_rotation(w), displacement(w, v))


@algorithm(pose=(4, 4), twist=(6,), fault=(), outputs=("twist", "fault"))
def logarithm(_tree: Tree, pose: Indexed, twist: Indexed, fault: Indexed) -> None:
    """The inverse of `exponential`.

    Args:
        _tree: Not needed.
        pose: (4, 4).
        twist: Angular part first, at most π long, (6,).
        fault: How far the matrix is from a pose.
    """
    T = pose[...]
    w, angle = _turn(T[:3, :3])
    twist[...] = np.concatenate([w, linear_velocity(w, angle, T[:3, 3])])
    fault[...] = _fault(T)


@algorithm(pose=(4, 4), fault=(), outputs=("fault",))
def pose_fault(_tree: Tree, pose: Indexed, fault: Indexed) -> None:
    """How far a matrix is from a pose: the largest deviation of RᵀR and of the last row.

    Args:
        _tree: Not needed.
        pose: (4, 4).
        fault: At least `REFLECTION` if det R < 0. Entries that are NaN do not count.
    """
    fault[...] = _fault(pose[...])


@algorithm(pose=(4, 4), inverse=(4, 4), fault=(), outputs=("inverse", "fault"))
def inverse_pose(_tree: Tree, pose: Indexed, inverse: Indexed, fault: Indexed) -> None:
    """The pose of the world in a frame.

    Args:
        _tree: Not needed.
        pose: (4, 4).
        inverse: (4, 4).
        fault: How far the matrix is from a pose.
    """
    T = pose[...]
    back = T[:3, :3].T
    inverse[...] = _pose(back, -(back @ T[:3, 3]))
    fault[...] = _fault(T)


def _error(name: str, express: Callable[..., Array]) -> Algorithm:
    """The error of a pose, expressed in some frame."""

    def pose_error(_tree: Tree, pose: Indexed, target: Indexed, error: Indexed, fault: Indexed) -> None:
        start, end = pose[...], target[...]
        R, p = start[:3, :3], start[:3, 3]
        turn, angle = _turn(R.T @ end[:3, :3])
        error[...] = express(R, p, turn, angle, end[:3, 3] - p)
        fault[...] = larger(_fault(start), _fault(end))

    pose_error.__name__ = f"pose_error_{name}"
    shapes: dict[str, Any] = {"pose": (4, 4), "target": (4, 4), "error": (6,), "fault": ()}
    return algorithm(**shapes, outputs=("error", "fault"))(pose_error)


def _aligned(R: Array, _p: Array, turn: Array, _angle: Angle, way: Array) -> Array:
    return np.concatenate([R @ turn, way])


def _local(R: Array, _p: Array, turn: Array, angle: Angle, way: Array) -> Array:
    return np.concatenate([turn, linear_velocity(turn, angle, R.T @ way)])


def _world(R: Array, p: Array, turn: Array, angle: Angle, way: Array) -> Array:
    angular = R @ turn
    linear = R @ linear_velocity(turn, angle, R.T @ way)
    return np.concatenate([angular, linear + cross(p, angular)])


#: The twist from a pose to a target, by the frame that it is expressed in.
POSE_ERRORS: dict[str, Algorithm] = {
    "local": _error("local", _local),
    "local_world_aligned": _error("local_world_aligned", _aligned),
    "world": _error("world", _world),
}


def _between(name: str, move: Callable[..., Array]) -> Algorithm:
    """Poses between two."""

    def interpolation(
        _tree: Tree, start: Indexed, end: Indexed, share: Indexed, between: Indexed, fault: Indexed
    ) -> None:
        first, last, s = start[...], end[...], np.asarray(share[...])[()]
        R, p = first[:3, :3], first[:3, 3]
        turn, angle = _turn(R.T @ last[:3, :3])
        moved = move(R, p, turn, angle, last[:3, 3] - p, s)
        T = _pose(R @ _rotation(s * turn), moved)
        # the ends are those that were given, to the last bit; a share that is NaN is neither
        valid = select(magnitude(s), np.inf, 1.0, np.nan)
        for at, given in ((s, first), (s - 1.0, last)):
            T = np.array([[select(-magnitude(at), 0.0, x, y * valid) for x, y in zip(*r)] for r in zip(T, given)])
        between[...] = T
        fault[...] = larger(_fault(first), _fault(last))

    interpolation.__name__ = f"interpolation_{name}"
    shapes: dict[str, Any] = {"start": (4, 4), "end": (4, 4), "share": (), "between": (4, 4), "fault": ()}
    return algorithm(**shapes, outputs=("between", "fault"))(interpolation)


def _line(_R: Array, p: Array, _turn: Array, _angle: Angle, way: Array, s: Any) -> Array:
    moved: Array = p + s * way
    return moved


def _screw(R: Array, p: Array, turn: Array, angle: Angle, way: Array, s: Any) -> Array:
    linear = linear_velocity(turn, angle, R.T @ way)
    moved: Array = p + R @ displacement(s * turn, s * linear)
    return moved


#: Poses between two, by the way that the origin takes.
INTERPOLATIONS: dict[str, Algorithm] = {"line": _between("line", _line), "screw": _between("screw", _screw)}


def _rotation(w: Array) -> Array:
    """The matrix of a rotation vector."""
    angle = Angle.of(w)
    return rotation_of_quaternion(np.array([angle.cosine, *(w * angle.half)]))


def _turn(R: Array) -> tuple[Array, Angle]:
    """The rotation vector of a matrix, and its angle."""
    xx, yy, zz = R[0, 0], R[1, 1], R[2, 2]
    yz, zx, xy = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    sxy, sxz, syz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    rows = [
        np.array([1.0 + xx + yy + zz, yz, zx, xy]),
        np.array([yz, 1.0 + xx - yy - zz, sxy, sxz]),
        np.array([zx, sxy, 1.0 - xx + yy - zz, syz]),
        np.array([xy, sxz, syz, 1.0 - xx - yy + zz]),
    ]
    pivot, q = rows[0][0], rows[0]
    for i, row in enumerate(rows[1:], 1):
        q = np.array([select(pivot, row[i], x, y) for x, y in zip(row, q, strict=True)])
        pivot = larger(pivot, row[i])
    return turn_between(np.array([1.0, 0.0, 0.0, 0.0]), q)


def _fault(T: Array) -> Any:
    x, y, z = (T[:3, i] for i in range(3))
    off = [dot(x, x) - 1.0, dot(y, y) - 1.0, dot(z, z) - 1.0, dot(x, y), dot(y, z), dot(z, x), *T[3, :3], T[3, 3] - 1.0]
    worst = largest(off)
    return select(dot(cross(x, y), z), 0.0, larger(worst, REFLECTION), worst)


def _pose(R: Array, p: Array) -> Array:
    upper = np.concatenate([R, p.reshape(3, 1)], axis=1)
    return np.concatenate([upper, np.array([[0.0, 0.0, 0.0, 1.0]])])
