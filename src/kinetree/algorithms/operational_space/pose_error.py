"""Errors between poses, and how far a matrix is from a pose.

An error has the axes of the task's rows: E = R_d Rᵀ is the rotation that is left, p_d − p the way that is left.

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

from kinetree.spatial.scalar import arctan2, select, sqrt
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross

# Half a turn away, the axis is lost in rounding: cos²(θ/2) is not smaller than this.
_HALF_TURN = 1e-12
# sin²(θ/2) below which a series is exact to rounding, and what keeps a square root differentiable.
_SMALL, _TINY = 1e-5, 2.0**-400
# The same for θ², where differences of nearly equal numbers are divided by it.
_CLOSE = 0.02


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
    turn, move = _hat(error[:3]), _hat(error[3:])
    ad = np.concatenate([np.concatenate([turn, 0.0 * turn], axis=1), np.concatenate([move, turn], axis=1)])
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


def _hat(x: Array) -> Array:
    """[x]×."""
    zero = 0.0 * x[0]
    return np.array([[zero, -x[2], x[1]], [x[2], zero, -x[0]], [-x[1], x[0], zero]])
