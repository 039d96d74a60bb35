"""Poses and the twists between them: exponential and logarithm of SE(3), errors, interpolation. No tree is involved.

Exact to rounding for all angles: the quaternion of a rotation matrix R comes from the row of

    4 q qᵀ = [1 + tr R, …; …]        with the largest entry on the diagonal,

and angles near zero and π from its arctangent. Results come with a fault: how far matrices are from poses.

Errors in control laws have the axes of the task's rows: E = R_d Rᵀ is the rotation that is left, p_d − p the way.

    "sine"              [½ Σ sᵢ × s_dᵢ; p_d − p]        Luh's error [L80]: sin θ about the axis; vanishes at half a turn
    "rotation_vector"   [θ n; p_d − p]                  grows up to half a turn; the point moves straight
    "log6"              [θ n; V(θ n)⁻¹ (p_d − p)]       the screw motion log(T⁻¹ T_d)

[L80] J. Luh, M. Walker, R. Paul, "Resolved-acceleration control of mechanical manipulators", IEEE Transactions on
      Automatic Control 25, 1980.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, largest
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.rotation import cross, rotation_of_quaternion
from kinetree.spatial.scalar import arctan2, magnitude, select, sqrt
from kinetree.spatial.screw import Angle, bracket, displacement, dot, linear_velocity, turn_between
from kinetree.spatial.value import Array

#: The fault of a reflection.
REFLECTION = 2.0
# Half a turn away, the axis is lost in rounding: cos²(θ/2) is not smaller than this.
_HALF_TURN = 1e-12
# sin²(θ/2) below which a series is exact to rounding, and what keeps a square root differentiable.
_SMALL, _TINY = 1e-5, 2.0**-400
# The same for θ², where differences of nearly equal numbers are divided by it.
_CLOSE = 0.02


@kernel(twist=(6,), pose=(4, 4), outputs=("pose",))
def exponential(_k: Workspace, twist: Indexed, pose: Indexed) -> None:
    """The pose after unit time at a constant body twist, angular part first."""
    w, v = twist[...][:3], twist[...][3:]
    pose[...] = _pose(_rotation(w), displacement(w, v))


@kernel(pose=(4, 4), twist=(6,), fault=(), outputs=("twist", "fault"))
def logarithm(_k: Workspace, pose: Indexed, twist: Indexed, fault: Indexed) -> None:
    """The inverse of `exponential`: a twist with an angular part of at most π."""
    T = pose[...]
    w, angle = turn_of(T[:3, :3])
    twist[...] = np.concatenate([w, linear_velocity(w, angle, T[:3, 3])])
    fault[...] = _fault(T)


@kernel(pose=(4, 4), fault=(), outputs=("fault",))
def pose_fault(_k: Workspace, pose: Indexed, fault: Indexed) -> None:
    """How far a matrix is from a pose: the largest deviation of RᵀR and of the last row, where they are not NaN.

    At least `REFLECTION` if det R < 0.
    """
    fault[...] = _fault(pose[...])


@kernel(pose=(4, 4), inverse=(4, 4), fault=(), outputs=("inverse", "fault"))
def inverse_pose(_k: Workspace, pose: Indexed, inverse: Indexed, fault: Indexed) -> None:
    """The pose of the world in a frame."""
    T = pose[...]
    back = T[:3, :3].T
    inverse[...] = _pose(back, -(back @ T[:3, 3]))
    fault[...] = _fault(T)


def _error(name: str, express: Callable[..., Array]) -> Kernel:
    """The error of a pose, expressed in some frame."""

    def pose_error(_k: Workspace, pose: Indexed, target: Indexed, error: Indexed, fault: Indexed) -> None:
        start, end = pose[...], target[...]
        R, p = start[:3, :3], start[:3, 3]
        turn, angle = turn_of(R.T @ end[:3, :3])
        error[...] = express(R, p, turn, angle, end[:3, 3] - p)
        fault[...] = larger(_fault(start), _fault(end))

    pose_error.__name__ = f"pose_error_{name}"
    shapes: dict[str, Any] = {"pose": (4, 4), "target": (4, 4), "error": (6,), "fault": ()}
    return kernel(**shapes, outputs=("error", "fault"))(pose_error)


def _aligned(R: Array, _p: Array, turn: Array, _angle: Angle, way: Array) -> Array:
    return np.concatenate([R @ turn, way])


def _local(R: Array, _p: Array, turn: Array, angle: Angle, way: Array) -> Array:
    return np.concatenate([turn, linear_velocity(turn, angle, R.T @ way)])


def _world(R: Array, p: Array, turn: Array, angle: Angle, way: Array) -> Array:
    angular = R @ turn
    linear = R @ linear_velocity(turn, angle, R.T @ way)
    return np.concatenate([angular, linear + cross(p, angular)])


#: The twist from a pose to a target, by the frame that it is expressed in.
POSE_ERRORS: dict[str, Kernel] = {
    "local": _error("local", _local),
    "local_world_aligned": _error("local_world_aligned", _aligned),
    "world": _error("world", _world),
}


def _between(name: str, move: Callable[..., Array]) -> Kernel:
    """Poses between two."""

    def interpolation(
        _k: Workspace, start: Indexed, end: Indexed, share: Indexed, between: Indexed, fault: Indexed
    ) -> None:
        first, last, s = start[...], end[...], np.asarray(share[...])[()]
        R, p = first[:3, :3], first[:3, 3]
        turn, angle = turn_of(R.T @ last[:3, :3])
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
    return kernel(**shapes, outputs=("between", "fault"))(interpolation)


def _line(_R: Array, p: Array, _turn: Array, _angle: Angle, way: Array, s: Any) -> Array:
    moved: Array = p + s * way
    return moved


def _screw(R: Array, p: Array, turn: Array, angle: Angle, way: Array, s: Any) -> Array:
    linear = linear_velocity(turn, angle, R.T @ way)
    moved: Array = p + R @ displacement(s * turn, s * linear)
    return moved


#: Poses between two, by the way that the origin takes.
INTERPOLATIONS: dict[str, Kernel] = {"line": _between("line", _line), "screw": _between("screw", _screw)}


def _rotation(w: Array) -> Array:
    """The matrix of a rotation vector."""
    angle = Angle.of(w)
    return rotation_of_quaternion(np.array([angle.cosine, *(w * angle.half)]))


def turn_of(R: Array) -> tuple[Array, Angle]:
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


# Errors in control laws


def sine(E: Array, way: Array) -> Array:
    """Luh's error."""
    return np.concatenate([_luh(E), way])


def rotation_vector(E: Array, way: Array) -> Array:
    """The rotation vector, and the way."""
    double, ratio, _ = _half_angle(E)
    return np.concatenate([double * ratio, way])


def screw(E: Array, way: Array) -> Array:
    """log(T⁻¹ T_d), in the axes of the rows."""
    double, ratio, half = _half_angle(E)
    turn = double * ratio
    once, theta = cross(turn, way), turn @ turn  # θ²
    # (1 − (θ/2) cot(θ/2))/θ²
    series = 1.0 / 12.0 + theta * (1.0 / 720.0 + theta * (1.0 / 30240.0 + theta * (1.0 / 1209600.0)))
    share = select(theta, _CLOSE, series, (1.0 - ratio * half) / select(theta, _CLOSE, 1.0, theta))
    return np.concatenate([turn, way - 0.5 * once + share * cross(turn, once)])


def screw_rate(E: Array, error: Array) -> Array:
    """Rate of `screw` per unit twist of the frame, with its sign changed, (6, 6).

    It is the inverse of the left Jacobian of SE(3) [S96, for its polynomial in ad]:

        1 − ½ ad + c₂ ad² + c₄ ad⁴,   c₂ = (2 − b/2 − 3a/2)/θ²,  c₄ = (1 − b/2 − a/2)/θ⁴
        a = (θ/2) cot(θ/2),  b = (θ/2)²/sin²(θ/2)

    [S96] J. Selig, "Geometrical Methods in Robotics", 1996.
    """
    _, ratio, half = _half_angle(E)
    ad = bracket(error)
    square = ad @ ad
    theta = error[:3] @ error[:3]
    a, b = ratio * half, ratio * ratio
    far = select(theta, _CLOSE, 1.0, theta)
    c2 = select(theta, _CLOSE, 1.0 / 12.0 - theta * theta * (1.0 / 30240.0), (2.0 - 0.5 * b - 1.5 * a) / far)
    series = -1.0 / 720.0 - theta * (1.0 / 15120.0 + theta * (1.0 / 403200.0))
    c4 = select(theta, _CLOSE, series, (1.0 - 0.5 * b - 0.5 * a) / (far * far))
    rate: Array = np.eye(6) - 0.5 * ad + c2 * square + c4 * (square @ square)
    return rate


#: The errors, by name.
ERRORS: dict[str, Callable[[Array, Array], Array]] = {
    "sine": sine,
    "rotation_vector": rotation_vector,
    "log6": screw,
}


def fault_of(T: Array) -> Any:
    """How far a matrix is from a pose: squares of what RᵀR − 1, det R − 1 and the last row should be zero in."""
    R, last = T[:3, :3], T[3]
    x, y, z = R[:, 0], R[:, 1], R[:, 2]
    off = [x @ y, y @ z, z @ x, x @ x - 1.0, y @ y - 1.0, z @ z - 1.0, cross(x, y) @ z - 1.0, *last[:3], last[3] - 1.0]
    return sum(entry * entry for entry in off)


def _luh(E: Array) -> Array:
    """½ Σ sᵢ × s_dᵢ from the rotation R_d Rᵀ between two orientations."""
    return np.array([0.5 * (E[2, 1] - E[1, 2]), 0.5 * (E[0, 2] - E[2, 0]), 0.5 * (E[1, 0] - E[0, 1])])


def _half_angle(E: Array) -> tuple[Array, Any, Any]:
    """2 sin(θ/2) times the axis, (θ/2)/sin(θ/2), and cos(θ/2)."""
    cosine = 0.25 * (1.0 + E[0, 0] + E[1, 1] + E[2, 2])  # cos²(θ/2)
    half = sqrt(select(cosine, _HALF_TURN, _HALF_TURN, cosine))
    double = _luh(E) / half
    square = 0.25 * (double @ double)  # sin²(θ/2)
    sine = sqrt(square + _TINY)
    # by its series close to no rotation
    ratio = select(square, _SMALL, 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0)), arctan2(sine, half) / sine)
    return double, ratio, half
